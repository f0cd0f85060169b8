//! `POST {stream}`: append messages, close the stream, or both in one step (base protocol §4).

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{AppendReceipt, Body, Data, Decision, Logged, Receipt, Stop, View};
use crate::content::ContentType;
use crate::entry::{Effects, Entry};
use crate::ids::{Offset, Record, StreamId, StreamName, Timestamp};
use crate::json::Messages;
use crate::refusal::Refusal;
use crate::state::{Now, ProducerStamp, ProducerState, State, Stream};
use crate::stream::producer::{self, Verdict};

/// The request.
#[derive(Debug, Clone)]
pub struct Append {
    /// Which stream.
    pub name: StreamName,
    /// `Content-Type`, if there was one.
    pub content: Option<ContentType>,
    /// The body.
    pub body: Body,
    /// The `Producer-*` headers.
    pub producer: Option<ProducerStamp>,
    /// `Stream-Seq`.
    pub stream_seq: Option<Bytes>,
    /// `Stream-Closed: true`.
    pub close: bool,
    /// `Stream-Record-Match`.
    pub record_match: Option<u64>,
}

/// The entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// The incarnation.
    pub id: StreamId,
    /// When.
    pub at: Timestamp,
    /// Bytes appended.
    pub bytes: u64,
    /// Messages appended.
    pub count: u64,
    /// Whose batch it is.
    pub producer: Option<ProducerStamp>,
    /// The producer that makes room for this one.
    pub evicted: Option<Arc<str>>,
    /// The new `Stream-Seq`.
    pub stream_seq: Option<Bytes>,
    /// Whether the stream is closed by this.
    pub close: bool,
}

impl Append {
    /// Whether it brings nothing and closes the stream.
    pub fn is_close_only(&self) -> bool {
        self.close && self.body == Body::Empty
    }

    /// The checks stand in the order of precedence that the protocol demands.
    pub(crate) fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        let stream = view.shard(self.name.shard())?.live(&self.name, now)?;
        if self.body == Body::Empty && !self.close {
            return Err(Refusal::EmptyBody.into());
        }
        if self.body != Body::Empty && self.content.is_none() {
            return Err(Refusal::ContentTypeMissing.into());
        }
        if stream.closed {
            return self.decide_closed(stream);
        }
        self.check_content(stream)?;
        let verdict = match &self.producer {
            Some(stamp) => producer::judge(stream, stamp, now)?,
            None => Verdict::Accept { evicted: None },
        };
        let evicted = match verdict {
            Verdict::Accept { evicted } => evicted,
            Verdict::Repeat(state) => return Ok(self.repeat(stream, Some(state))),
        };
        self.check_order(stream)?;
        self.check_record(stream)?;
        let messages = self.messages()?;
        Ok(self.write(stream, messages, evicted, now))
    }

    /// What a closed stream answers: a repeated close is fine, anything else is not.
    fn decide_closed(&self, stream: &Stream) -> Result<Decision, Stop> {
        let closed_by = stream.extra.as_ref().and_then(|extra| extra.closed_by.as_ref());
        match &self.producer {
            Some(stamp) if closed_by == Some(stamp) => {
                Ok(self.repeat(stream, producer::state(stream, &stamp.id)))
            }
            None if self.is_close_only() => {
                // Nobody would close at another record than this one and call it a repetition.
                self.check_content(stream)?;
                self.check_record(stream)?;
                Ok(self.repeat(stream, None))
            }
            _ => Err(Refusal::StreamClosed { tail: stream.tail }.into()),
        }
    }

    /// The answer to what had been done before.
    fn repeat(&self, stream: &Stream, state: Option<ProducerState>) -> Decision {
        let seq = self.producer.as_ref().map(|stamp| stamp.seq);
        // Only of a producer's last batch is it known which messages it brought.
        let last = state.filter(|state| stream.is_json() && seq == Some(state.seq));
        Decision::Repeat(Receipt::Appended(AppendReceipt {
            next_offset: stream.tail,
            closed: stream.closed,
            producer: state.map(|state| (state.epoch, state.seq)),
            repeated: true,
            records: last.map(|state| state.last),
        }))
    }

    fn check_content(&self, stream: &Stream) -> Result<(), Refusal> {
        // A close without a body says nothing about content.
        if self.body != Body::Empty
            && let Some(content) = &self.content
            && !content.same_media_type(&stream.content)
        {
            return Err(Refusal::ContentTypeMismatch {
                expected: stream.content.media_type(),
                got: content.media_type(),
            });
        }
        if self.record_match.is_some() && !stream.is_json() {
            return Err(Refusal::RecordsNeedJson);
        }
        Ok(())
    }

    fn check_order(&self, stream: &Stream) -> Result<(), Refusal> {
        let last = stream.extra.as_ref().and_then(|extra| extra.stream_seq.as_ref());
        match (&self.stream_seq, last) {
            (Some(got), Some(last)) if got <= last => {
                Err(Refusal::StreamSeq { last: last.clone(), got: got.clone() })
            }
            _ => Ok(()),
        }
    }

    fn check_record(&self, stream: &Stream) -> Result<(), Refusal> {
        match self.record_match {
            Some(expected) if expected != stream.next.0 => {
                Err(Refusal::RecordMismatch { next: stream.next, tail: stream.tail })
            }
            _ => Ok(()),
        }
    }

    fn messages(&self) -> Result<Messages, Refusal> {
        match &self.body {
            Body::Empty => Ok(Messages::default()),
            Body::Message(bytes) => Ok(Messages::one(bytes.clone())),
            Body::Json(Ok(messages)) if messages.is_empty() => Err(Refusal::EmptyArray),
            Body::Json(Ok(messages)) => Ok(messages.clone()),
            Body::Json(Err(error)) => Err(Refusal::Json(*error)),
        }
    }

    fn write(
        &self,
        stream: &Stream,
        messages: Messages,
        evicted: Option<Arc<str>>,
        now: Now,
    ) -> Decision {
        let (bytes, count) = (messages.bytes.len() as u64, messages.count());
        let next_offset = stream.tail.plus(bytes);
        let next = Record(stream.next.0 + count);
        let receipt = AppendReceipt {
            next_offset,
            closed: self.close,
            producer: self.producer.as_ref().map(|stamp| (stamp.epoch, stamp.seq)),
            repeated: false,
            records: stream.is_json().then_some((stream.next, next)),
        };
        let entry = Entry::Appended(Appended {
            id: stream.id,
            at: now.node,
            bytes,
            count,
            producer: self.producer.clone(),
            evicted,
            stream_seq: self.stream_seq.clone(),
            close: self.close,
        });
        let data = (!messages.is_empty()).then_some(Data {
            stream: stream.id,
            offset: stream.tail,
            record: stream.next,
            messages,
        });
        Decision::Write(vec![Logged { entry, data }], Receipt::Appended(receipt))
    }
}

impl State {
    pub(crate) fn apply_appended(&mut self, appended: &Appended) -> Effects {
        let Some(stream) = self.streams.get_mut(appended.id) else {
            return Effects::default();
        };
        let first = stream.next;
        let tail = stream.tail.0.checked_add(appended.bytes);
        let (Some(tail), Some(next)) = (tail, first.0.checked_add(appended.count)) else {
            return Effects::default();
        };
        (stream.tail, stream.next) = (Offset(tail), Record(next));
        stream.written_at = appended.at;
        stream.renew(appended.at);
        if let Some(evicted) = &appended.evicted {
            stream.extra_mut().producers.remove(evicted);
        }
        if let Some(stamp) = &appended.producer {
            producer::accept(stream, stamp, appended.at, first);
        }
        if appended.stream_seq.is_some() {
            stream.extra_mut().stream_seq.clone_from(&appended.stream_seq);
        }
        if appended.close {
            stream.closed = true;
            if appended.producer.is_some() {
                stream.extra_mut().closed_by.clone_from(&appended.producer);
            }
        }
        Effects { changed: Some(appended.id), ..Effects::default() }
    }
}
