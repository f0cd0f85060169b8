//! `PUT {stream}`.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::access::{Action, Subject};
use headwater_core::command::{Body, Command, Evidence, Receipt};
use headwater_core::content::Mode;
use headwater_core::ids::{Offset, Record};
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Cut, Fork, ForkEvidence};
use headwater_core::stream::read::Facts;
use headwater_core::wire::headers::{self as h, Fields, ForkFields};
use headwater_core::wire::path::{self, Resource};
use headwater_core::wire::query::OffsetToken;
use http::request::Parts;
use http::{StatusCode, header};
use hyper::body::Incoming;

use super::locate::ATTEMPTS_MAX;
use super::respond::{self, Answer, Failure};
use super::{App, Place, check_encoding};
use crate::engine::Outcome;

pub(super) async fn create(app: &Arc<App>, head: &Parts, body: Incoming, place: Place) -> Answer {
    let fields = Fields::of(&head.headers);
    let content = fields.content_type()?;
    let lifetime = fields.lifetime()?;
    let closed = fields.closed()?;
    let fork = fields.fork()?;
    if let Some(fork) = &fork {
        app.check(head, Action::Read, Subject::Stream(&fork.source))?;
    }
    let attributes = fields.attributes()?.map(|json| Bytes::copy_from_slice(json.as_bytes()));
    check_encoding(head)?;
    let taken = app.take_body(body, app.config.append_bytes_max).await?;
    let body = Body::read(taken.bytes.clone(), content.as_ref());
    let mut create = Create {
        name: place.name.clone(),
        content,
        body,
        lifetime,
        closed,
        attributes,
        fork: fork.map(request),
    };
    for _ in 0..ATTEMPTS_MAX {
        if let Some(fork) = &mut create.fork {
            fork.evidence = app.fork_evidence(fork).await?;
        }
        let command = Command::Create(Box::new(create.clone()));
        match app.engine.submit(&command)?.wait().await? {
            Outcome::Stale => {}
            Outcome::Refused(refusal) => return Err(refusal.into()),
            Outcome::Accepted(receipt) => return reply(app, head, &place, receipt).await,
        }
    }
    Err(Failure::unsettled())
}

fn request(fields: ForkFields) -> Fork {
    let anchor = match fields.offset {
        None => Anchor::Tail,
        Some(OffsetToken::At(offset)) => Anchor::At(offset),
        Some(_) => Anchor::Beyond,
    };
    Fork { source: fields.source, anchor, sub_offset: fields.sub_offset, evidence: None }
}

async fn reply(app: &App, head: &Parts, place: &Place, receipt: Receipt) -> Answer {
    let Receipt::Created(created) = receipt else {
        unreachable!("a create is answered by its own receipt")
    };
    let status = if created.fresh { StatusCode::CREATED } else { StatusCode::OK };
    let mut reply = respond::status(status);
    let headers = reply.headers_mut();
    respond::insert(headers, header::CONTENT_TYPE, created.content.as_str());
    respond::insert(headers, h::STREAM_NEXT_OFFSET, created.tail);
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    if created.closed {
        headers.insert(h::STREAM_CLOSED, respond::TRUE);
    }
    if created.content.mode() == Mode::Json {
        respond::insert(headers, h::STREAM_RECORD_START, created.records.0);
        respond::insert(headers, h::STREAM_RECORD_NEXT, created.records.1);
    }
    if created.fresh {
        let path = path::encode(place.surface, &place.name, &Resource::Stream);
        respond::insert(headers, header::LOCATION, app.absolute(head, &path));
    } else {
        app.engine.renew_incarnation(created.id).wait().await?;
    }
    Ok(reply)
}

impl App {
    /// `path` as an absolute URL: below the public URL, or as the client addressed us.
    pub(super) fn absolute(&self, head: &Parts, path: &str) -> String {
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        match (&self.config.public_url, host) {
            (Some(base), _) => format!("{}{path}", base.trim_end_matches('/')),
            (None, Some(host)) => format!("{scheme}://{host}{path}"),
            (None, None) => format!("{scheme}://{}{path}", self.config.listen),
        }
    }

    /// What storage says of a fork's anchor and of what follows it. Nothing when the decision
    /// needs no evidence, or will refuse before it asks for any.
    async fn fork_evidence(&self, fork: &Fork) -> Result<Option<ForkEvidence>, Failure> {
        let Anchor::At(anchor) = fork.anchor else { return Ok(None) };
        let Ok(facts) = self.engine.look(&fork.source).wait().await? else { return Ok(None) };
        if anchor < facts.retained || anchor > facts.tail {
            return Ok(None);
        }
        let found = self.find_fork_evidence(&facts, anchor, fork.sub_offset).await;
        self.unless_outdated(&facts, found).await
    }

    async fn find_fork_evidence(
        &self,
        facts: &Facts,
        anchor: Offset,
        sub_offset: u64,
    ) -> Result<Option<ForkEvidence>, Failure> {
        let record = self.boundary(facts, anchor).await?;
        let cut = match record {
            Some(record) if sub_offset > 0 && anchor < facts.tail => {
                Some(self.cut(facts, anchor, record, sub_offset).await?)
            }
            _ => None,
        };
        let anchor = Evidence { stream: facts.id, offset: anchor, record };
        Ok(Some(ForkEvidence { anchor, cut }))
    }

    /// Where `sub_offset` leads from a boundary below the tail.
    async fn cut(
        &self,
        facts: &Facts,
        anchor: Offset,
        record: Record,
        sub_offset: u64,
    ) -> Result<Cut, Failure> {
        if facts.is_json() {
            let Some(target) = record.0.checked_add(sub_offset).filter(|n| *n <= facts.next.0)
            else {
                return Ok(Cut::TooFar);
            };
            let target = Record(target);
            return Ok(Cut::Boundary(self.offset_of(facts, target).await?, target));
        }
        let message = self.extent(facts, anchor, 1, 1).await?;
        let len = message.end.since(anchor);
        if sub_offset > len {
            return Ok(Cut::TooFar);
        }
        if sub_offset == len {
            return Ok(Cut::Boundary(message.end, message.record_end));
        }
        let bytes = self.collect(facts, anchor, message.end).await?.bytes;
        let cut = usize::try_from(sub_offset).expect("a message fits in memory");
        Ok(Cut::Piece(bytes.slice(..cut)))
    }
}
