//! `PUT {stream}`: create a stream, or find that it exists as asked (base protocol §3).

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Body, CreateReceipt, Data, Decision, Logged, Receipt, Stop, View};
use crate::content::{ContentType, Mode};
use crate::entry::{Effects, Entry};
use crate::ids::{Offset, Record, StreamId, StreamName, Timestamp};
use crate::json::Messages;
use crate::moment::Lifetime;
use crate::refusal::Refusal;
use crate::state::{Extra, Life, Now, Origin, Snapshot, State, Stream};
use crate::stream::fork::{Fork, Inherited};
use crate::stream::{attributes, delete};

/// The request.
#[derive(Debug, Clone)]
pub struct Create {
    /// The new stream.
    pub name: StreamName,
    /// `Content-Type`, if there was one.
    pub content: Option<ContentType>,
    /// The first content.
    pub body: Body,
    /// `Stream-TTL` or `Stream-Expires-At`.
    pub lifetime: Option<Lifetime>,
    /// `Stream-Closed: true`.
    pub closed: bool,
    /// `Stream-Attrs`, a checked JSON object as sent; an empty one is `{}`.
    pub attributes: Option<Bytes>,
    /// The `Stream-Fork…` headers.
    pub fork: Option<Fork>,
}

/// The entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// The new incarnation.
    pub id: StreamId,
    /// Its name.
    pub name: StreamName,
    /// Its content type.
    pub content: ContentType,
    /// When.
    pub at: Timestamp,
    /// Its lifetime.
    pub life: Life,
    /// Whether it begins closed.
    pub closed: bool,
    /// The application's attributes.
    pub attributes: Option<Bytes>,
    /// Where its own bytes begin: after whatever it inherits.
    pub start: (Offset, Record),
    /// The earliest readable position.
    pub retained: (Offset, Record),
    /// Bytes of the first content.
    pub bytes: u64,
    /// Messages of the first content.
    pub count: u64,
    /// Where it was forked from.
    pub origin: Option<Origin>,
    /// The snapshot that it inherits.
    pub snapshot: Option<Box<Snapshot>>,
}

impl Create {
    pub(crate) fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        let shard = view.shard(self.name.shard())?;
        let mut group = Vec::new();
        match shard.find(&self.name) {
            Some(stream) if stream.hidden => return Err(Refusal::StreamHeld.into()),
            Some(stream) if !stream.expired(now) => {
                return Ok(Decision::Repeat(Receipt::Created(self.repeat(stream)?)));
            }
            Some(expired) if expired.has_forks() => return Err(Refusal::StreamHeld.into()),
            Some(expired) => group = delete::end(view, expired)?,
            None => {}
        }
        let bucket = self.name.bucket();
        view.shard(bucket.shard())?.bucket(&bucket)?;
        let inherited = match &self.fork {
            Some(fork) => fork.inherit(view, self.content.as_ref(), now)?,
            None => Inherited::nothing(self.content.clone().unwrap_or_default()),
        };
        let id = StreamId::new(shard.shard, shard.next_stream);
        let (begun, receipt) = self.begin(id, inherited, now)?;
        group.extend(begun.into_iter().flatten());
        Ok(Decision::Write(group, Receipt::Created(receipt)))
    }

    /// The idempotent answer, if the stream is configured as asked.
    fn repeat(&self, stream: &Stream) -> Result<CreateReceipt, Refusal> {
        let same_type = match (&self.content, &self.fork) {
            (Some(content), _) => content.same_media_type(&stream.content),
            (None, Some(_)) => true,
            // A plain creation without a content type asked for the default one.
            (None, None) => ContentType::default().same_media_type(&stream.content),
        };
        let same_origin = match (&self.fork, stream.origin()) {
            (None, None) => true,
            (Some(fork), Some(origin)) => fork.asks_for(origin),
            _ => false,
        };
        let attributes = stream.attributes().map_or(&b"{}"[..], |json| json);
        let parts = [
            ("Content-Type", same_type),
            ("lifetime", stream.life().was_asked_as(self.lifetime.as_ref())),
            ("Stream-Closed state", self.closed == stream.closed),
            ("origin as a fork", same_origin),
            (
                "Stream-Attrs",
                self.attributes.as_ref().is_none_or(|asked| attributes::equal(asked, attributes)),
            ),
        ];
        if let Some((part, _)) = parts.into_iter().find(|(_, same)| !same) {
            return Err(Refusal::StreamDiffers { part });
        }
        Ok(CreateReceipt {
            fresh: false,
            id: stream.id,
            content: stream.content.clone(),
            tail: stream.tail,
            closed: stream.closed,
            records: (stream.next, stream.next),
        })
    }

    /// The entries that begin the stream, on every shard that is to know it.
    fn begin(
        &self,
        id: StreamId,
        inherited: Inherited,
        now: Now,
    ) -> Result<([Option<Logged>; 3], CreateReceipt), Refusal> {
        let messages = self.messages(&inherited)?;
        let start = inherited.start;
        let (bytes, count) = (messages.bytes.len() as u64, messages.count());
        let next = Record(start.1.0 + count);
        let receipt = CreateReceipt {
            fresh: true,
            id,
            content: inherited.content.clone(),
            tail: start.0.plus(bytes),
            closed: self.closed,
            records: (start.1, next),
        };
        let data = (!messages.is_empty()).then_some(Data {
            stream: id,
            offset: start.0,
            record: start.1,
            messages,
        });
        let added = inherited.origin.as_ref().map(|origin| Entry::ForkAdded {
            source: origin.source_id,
            fork: id,
            inherited: inherited.retained.0..start.0,
        });
        let attributes = self.attributes.clone();
        let created = Created {
            id,
            name: self.name.clone(),
            content: inherited.content,
            at: now.node,
            life: match &self.lifetime {
                None => inherited.life,
                Some(Lifetime::Ttl(window)) => Life::ttl(*window, now.node, false),
                Some(Lifetime::ExpiresAt(at)) => Life::Until { at: at.clone(), inherited: false },
            },
            closed: self.closed,
            attributes: attributes.filter(|json| !attributes::equal(json, b"{}")),
            start,
            retained: inherited.retained,
            bytes,
            count,
            origin: inherited.origin,
            snapshot: inherited.snapshot,
        };
        let created = Logged { entry: Entry::Created(Box::new(created)), data };
        let listed = Entry::Listed { name: self.name.clone() };
        let group = [Some(created), Some(listed.into()), added.map(Logged::from)];
        Ok((group, receipt))
    }

    /// The first content: the cut piece of a forked message, then the body.
    fn messages(&self, inherited: &Inherited) -> Result<Messages, Refusal> {
        let body = match &self.body {
            Body::Empty => Messages::default(),
            // A fork may inherit JSON that the request does not mention.
            Body::Message(bytes) if inherited.content.mode() == Mode::Json => {
                crate::json::split(bytes).map_err(Refusal::Json)?
            }
            Body::Message(bytes) => Messages::one(bytes.clone()),
            Body::Json(parsed) => parsed.clone().map_err(Refusal::Json)?,
        };
        Ok(match &inherited.piece {
            Some(piece) => Messages::one(piece.clone()).followed_by(&body),
            None => body,
        })
    }
}

impl Life {
    /// Whether the creating request asked for what this one asks for: an inherited lifetime was
    /// not asked for.
    fn was_asked_as(&self, asked: Option<&Lifetime>) -> bool {
        match (self, asked) {
            (Self::Ttl { window, inherited: false, .. }, Some(Lifetime::Ttl(asked))) => {
                window == asked
            }
            (Self::Until { at, inherited: false }, Some(Lifetime::ExpiresAt(asked))) => at == asked,
            (Self::Ttl { inherited: false, .. } | Self::Until { inherited: false, .. }, _) => false,
            (Self::Endless | Self::Ttl { .. } | Self::Until { .. }, asked) => asked.is_none(),
        }
    }
}

impl State {
    pub(crate) fn apply_created(&mut self, created: &Created) -> Effects {
        let Created { id, at, .. } = *created;
        let mut stream = Stream::new(id, created.name.clone(), created.content.clone(), at);
        stream.tail = created.start.0.plus(created.bytes);
        stream.next = Record(created.start.1.0 + created.count);
        stream.closed = created.closed;
        stream.live_for(created.life.clone());
        if created.attributes.is_some() || created.origin.is_some() || created.snapshot.is_some() {
            stream.extra = Some(Box::new(Extra {
                attributes: created.attributes.clone(),
                origin: created.origin.clone(),
                snapshot: created.snapshot.clone().map(Arc::from),
                ..Extra::default()
            }));
        }
        stream.retain(created.retained);
        let effects = Effects {
            timed: (created.life != Life::Endless).then_some(created.id),
            blob_used: created.snapshot.as_ref().map(|snapshot| snapshot.blob),
            ..Effects::default()
        };
        self.streams.insert(stream);
        self.next_stream = self.next_stream.max(created.id.counter() + 1);
        effects
    }
}
