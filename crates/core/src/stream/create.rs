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
use crate::state::{Extra, Grace, Life, Now, Origin, Snapshot, Soft, State, Stream};
use crate::stream::attributes;
use crate::stream::fork::{Fork, Inherited};

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
        match shard.find(&self.name) {
            Some(stream) if stream.hidden => return Err(Refusal::StreamHeld.into()),
            Some(stream) if !stream.expired(now) => {
                return Ok(Decision::Repeat(Receipt::Created(self.repeat(stream)?)));
            }
            _ => {}
        }
        let bucket = self.name.bucket();
        let home = view.shard(bucket.shard())?;
        if !bucket.is_base() {
            home.bucket(&bucket)?;
        }
        let inherited = match &self.fork {
            Some(fork) => fork.inherit(view, self.content.as_ref(), now)?,
            None => Inherited::nothing(self.content.clone().unwrap_or_default()),
        };
        let id = StreamId::new(shard.shard, shard.next_stream);
        self.write(id, inherited, now)
    }

    /// The idempotent answer, if the stream is configured as asked.
    fn repeat(&self, stream: &Stream) -> Result<CreateReceipt, Refusal> {
        let differs = |part| Err(Refusal::StreamDiffers { part });
        if self.content.as_ref().is_some_and(|content| !content.same_media_type(&stream.content)) {
            return differs("content type");
        }
        // A plain creation without a content type asked for the default one.
        let default = self.content.is_none() && self.fork.is_none();
        if default && !ContentType::default().same_media_type(&stream.content) {
            return differs("content type");
        }
        if !stream.life.was_asked_as(self.lifetime.as_ref()) {
            return differs("lifetime");
        }
        if self.closed != stream.closed {
            return differs("closed state");
        }
        let same_origin = match (&self.fork, stream.origin()) {
            (None, None) => true,
            (Some(fork), Some(origin)) => fork.asks_for(origin),
            _ => false,
        };
        if !same_origin {
            return differs("fork source");
        }
        if let Some(asked) = &self.attributes {
            let current = stream.attributes().map_or(&b"{}"[..], |json| json);
            if !attributes::equal(asked, current) {
                return differs("attributes");
            }
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

    fn write(&self, id: StreamId, inherited: Inherited, now: Now) -> Result<Decision, Stop> {
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
            cut: start.0,
        });
        let attributes = self.attributes.clone();
        let created = Created {
            id,
            name: self.name.clone(),
            content: inherited.content,
            at: now.node,
            life: begin(self.lifetime.as_ref(), inherited.life, now.node),
            closed: self.closed,
            attributes: attributes.filter(|json| !attributes::equal(json, b"{}")),
            start,
            retained: inherited.retained,
            bytes,
            count,
            origin: inherited.origin,
            snapshot: inherited.snapshot,
        };
        let mut group = vec![Logged { entry: Entry::Created(Box::new(created)), data }];
        group.push(Entry::Listed { name: self.name.clone() }.into());
        group.extend(added.map(Logged::from));
        Ok(Decision::Write(group, Receipt::Created(receipt)))
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

fn begin(asked: Option<&Lifetime>, inherited: Life, now: Timestamp) -> Life {
    match asked {
        None => inherited,
        Some(Lifetime::Ttl(window)) => Life::Ttl {
            window: *window,
            renewed_at: now,
            inherited: false,
            grace: Soft(Grace::default()),
        },
        Some(Lifetime::ExpiresAt(at)) => Life::Until { at: at.clone(), inherited: false },
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
        let mut stream = Stream {
            id: created.id,
            name: created.name.clone(),
            content: created.content.clone(),
            created_at: created.at,
            written_at: created.at,
            tail: created.start.0.plus(created.bytes),
            next: Record(created.start.1.0 + created.count),
            retained: created.retained.0,
            first: created.retained.1,
            closed: created.closed,
            hidden: false,
            life: created.life.clone(),
            touched: Soft::default(),
            extra: None,
        };
        if created.attributes.is_some() || created.origin.is_some() || created.snapshot.is_some() {
            stream.extra = Some(Box::new(Extra {
                attributes: created.attributes.clone(),
                origin: created.origin.clone(),
                snapshot: created.snapshot.clone().map(Arc::from),
                ..Extra::default()
            }));
        }
        let effects = Effects {
            timed: (created.life != Life::Endless).then_some(created.id),
            blob_used: created.snapshot.as_ref().map(|snapshot| snapshot.blob),
            ..Effects::default()
        };
        self.names.insert(created.name.clone(), created.id);
        self.streams.insert(created.id, stream);
        self.next_stream = self.next_stream.max(created.id.counter() + 1);
        effects
    }
}
