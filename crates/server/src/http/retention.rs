//! `PUT {stream}/retention/{offset}`.

use std::sync::Arc;

use headwater_core::command::{Command, Receipt, Target};
use headwater_core::stream::retention::Retain;
use headwater_core::wire::headers as h;
use headwater_core::wire::invalid::{Invalid, code};
use headwater_core::wire::query::{OffsetToken, boundary_record};
use http::StatusCode;
use http::request::Parts;

use super::locate::ATTEMPTS_MAX;
use super::respond::{self, Answer, Failure};
use super::{App, Place};
use crate::engine::Outcome;

pub(super) async fn retain(app: &Arc<App>, head: &Parts, place: Place, at: Option<&str>) -> Answer {
    let target = target(head, at)?;
    for _ in 0..ATTEMPTS_MAX {
        let facts = app.facts(&place.name).await?;
        let evidence = app.evidence(&facts, target).await?;
        let command = Command::Retain(Retain { name: place.name.clone(), target, evidence });
        match app.engine.submit(&command)?.wait().await? {
            Outcome::Stale => {}
            Outcome::Refused(refusal) => return Err(refusal.into()),
            Outcome::Accepted(Receipt::Retained { retained }) => {
                let mut reply = respond::status(StatusCode::NO_CONTENT);
                respond::insert(reply.headers_mut(), h::STREAM_RETAINED_OFFSET, retained);
                return Ok(reply);
            }
            Outcome::Accepted(_) => unreachable!("a retention is answered by its own receipt"),
        }
    }
    Err(Failure::unsettled())
}

/// The place that a path offset or `?record=` names: exactly one of them.
pub(super) fn target(head: &Parts, at: Option<&str>) -> Result<Target, Failure> {
    match (at, boundary_record(head.uri.query())?) {
        (Some(at), None) => Ok(match OffsetToken::parse_position(at)? {
            OffsetToken::At(offset) => Target::Offset(offset),
            _ => Target::Beyond,
        }),
        (None, Some(record)) => Ok(Target::Record(record)),
        _ => {
            let detail = "give the position once: in the path, or as the parameter record";
            Err(Invalid::new(code::INVALID_OFFSET, detail).into())
        }
    }
}
