//! Servers with a fault, made from the right one: a lie changes a request on its way there, or an
//! answer on its way back. A driver that believes one of them checks nothing.

use crate::ask::Ask;
use crate::check::Answer;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Offsets in answers are one too far.
    OffsetByOne,
    /// A producer's repetition is appended again.
    NoDeduplication,
    /// `Stream-Seq` is not looked at.
    NoSequence,
    /// `Stream-Record-Match` is not looked at.
    NoRecordMatch,
    /// `Stream-Snapshot-Match` is not looked at.
    NoSnapshotMatch,
    /// A close closes nothing.
    NoClose,
    /// `Stream-TTL` is one second longer.
    LongerTtl,
    /// Publishing on `/ds` discards nothing.
    NoTrim,
    /// A fork is cut one further.
    LongerSubOffset,
    /// Every message of a JSON array arrives in one more array.
    NoFlattening,
    /// Duplicates are answered 200.
    WrongStatus,
    /// Refusals have another code.
    WrongCode,
    /// A read ends a byte early.
    ShortBody,
    /// `Stream-Up-To-Date` is forgotten.
    NotUpToDate,
    /// Attributes are not replaced.
    NoAttributes,
    /// A listing begins at the cursor, instead of behind it.
    ListingFromCursor,
    /// A bootstrap begins with another type.
    BootstrapType,
    /// A deleted stream stays.
    NoDelete,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::OffsetByOne,
        Self::NoDeduplication,
        Self::NoSequence,
        Self::NoRecordMatch,
        Self::NoSnapshotMatch,
        Self::NoClose,
        Self::LongerTtl,
        Self::NoTrim,
        Self::LongerSubOffset,
        Self::NoFlattening,
        Self::WrongStatus,
        Self::WrongCode,
        Self::ShortBody,
        Self::NotUpToDate,
        Self::NoAttributes,
        Self::ListingFromCursor,
        Self::BootstrapType,
        Self::NoDelete,
    ];

    /// What arrives instead of `ask`.
    pub fn request(self, ask: &Ask) -> Ask {
        let mut ask = ask.clone();
        let without = |ask: &mut Ask, start: &str| {
            ask.headers.retain(|(name, _)| !name.starts_with(start));
        };
        match self {
            Self::NoDeduplication => without(&mut ask, "Producer-"),
            Self::NoSequence => without(&mut ask, "Stream-Seq"),
            Self::NoRecordMatch => without(&mut ask, "Stream-Record-Match"),
            Self::NoSnapshotMatch => without(&mut ask, "Stream-Snapshot-Match"),
            Self::NoClose if !ask.body.is_empty() => without(&mut ask, "Stream-Closed"),
            Self::LongerTtl => add_one(&mut ask, "Stream-TTL"),
            Self::LongerSubOffset => add_one(&mut ask, "Stream-Fork-Sub-Offset"),
            Self::NoTrim if ask.surface == crate::ask::Surface::Ds => {
                ask.surface = crate::ask::Surface::Root;
            }
            Self::NoFlattening if ask.body.starts_with(b"[") && ask.resource.is_empty() => {
                ask.body = [b"[", &ask.body[..], b"]"].concat();
            }
            Self::NoAttributes if ask.resource == "attrs" => ask.method = "GET",
            Self::ListingFromCursor => {
                for (_, value) in ask.query.iter_mut().filter(|(name, _)| *name == "after") {
                    value.pop();
                }
            }
            Self::NoDelete if ask.method == "DELETE" && ask.resource.is_empty() => {
                ask.method = "HEAD";
            }
            _ => {}
        }
        ask
    }

    /// What comes back instead of `answer`.
    pub fn answer(self, ask: &Ask, mut answer: Answer) -> Answer {
        match self {
            Self::OffsetByOne => {
                for (_, value) in &mut answer.headers {
                    if value.len() == 20 && value.bytes().all(|byte| byte.is_ascii_digit()) {
                        let number: u64 = value.parse().unwrap_or(0);
                        *value = format!("{:020}", number + 1);
                    }
                }
            }
            Self::WrongStatus if answer.header("producer-seq").is_some() => answer.status = 200,
            Self::WrongCode => {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                answer.body = text.replace("STREAM_CLOSED", "STREAM_GONE").into_bytes();
            }
            Self::ShortBody if ask.method == "GET" && ask.resource.is_empty() => {
                answer.body.pop();
            }
            Self::NotUpToDate => answer.headers.retain(|(name, _)| *name != "stream-up-to-date"),
            Self::BootstrapType if ask.resource == "bootstrap" => {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                answer.body = text.replacen("application/", "text/", 1).into_bytes();
            }
            Self::NoDelete if ask.method == "DELETE" && ask.resource.is_empty() => {
                answer.status = if answer.status == 200 { 204 } else { answer.status };
                answer.headers.clear();
            }
            _ => {}
        }
        answer
    }
}

fn add_one(ask: &mut Ask, header: &str) {
    for (_, value) in ask.headers.iter_mut().filter(|(name, _)| *name == header) {
        if let Ok(number) = value.parse::<u64>() {
            *value = (number + 1).to_string();
        }
    }
}
