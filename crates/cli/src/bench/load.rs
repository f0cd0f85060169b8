//! What is appended, and where: shared by the works that measure appends.

use std::rc::Rc;

use super::report::Report;
use super::session::Session;
use crate::failure::{Exit, Failure};
use crate::units::Size;

/// Appends of one size to a number of streams.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Load {
    /// Connections, each with one request in flight.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    pub(crate) connections: usize,

    /// Streams that the appends go round.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    pub(crate) streams: usize,

    /// Size of a message.
    #[arg(long, value_name = "SIZE", default_value_t = Size(256))]
    pub(crate) size: Size,

    /// What the streams contain.
    #[arg(long, value_name = "TYPE", default_value_t = Content::Bytes)]
    pub(crate) content_type: Content,
}

/// The content types that we know how to make messages of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Content {
    #[value(name = "application/octet-stream")]
    Bytes,
    #[value(name = "text/plain")]
    Text,
    #[value(name = "application/json")]
    Json,
}

impl Content {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Bytes => "application/octet-stream",
            Self::Text => "text/plain",
            Self::Json => "application/json",
        }
    }

    /// One message of `size` bytes.
    pub(crate) fn message(self, size: usize) -> Vec<u8> {
        let mut message = vec![b'x'; size];
        if self == Self::Json
            && let [first, .., last] = message.as_mut_slice()
        {
            (*first, *last) = (b'"', b'"');
        }
        message
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.media_type())
    }
}

impl Load {
    /// Creates the streams. Returns one append, or one batch of them, for each.
    pub(crate) async fn prepare(
        &self,
        session: &Session,
        batch: Option<usize>,
    ) -> Result<Rc<[Vec<u8>]>, Failure> {
        let smallest = if self.content_type == Content::Json { 2 } else { 1 };
        let size = usize::try_from(self.size.0).unwrap_or(usize::MAX);
        if size < smallest {
            let what = format!("--size {size} is too small for a message");
            return Err(Failure::new(Exit::Usage, what));
        }
        Session::make_room(self.connections)?;
        let media_type = self.content_type.media_type();
        let names = session.create(self.streams, media_type).await?;
        let message = self.content_type.message(size);
        let target = &session.target;
        let request = |n| {
            let stream = target.stream(n);
            match batch {
                None => target.with_body("POST", &stream, media_type, &message),
                Some(count) => {
                    let path = target.part(&stream, "append-batch");
                    target.with_body("POST", &path, media_type, &frames(&message, count))
                }
            }
        };
        Ok(names.map(request).collect())
    }

    pub(crate) fn tell(&self, report: &mut Report) {
        report.add("connections", self.connections);
        report.add("streams", self.streams);
        report.add("size", self.size.0);
        report.add("content_type", self.content_type.media_type());
    }
}

/// The body of a batch: `count` times `message`, each behind its length (`extensions.md` §8).
pub(crate) fn frames(message: &[u8], count: usize) -> Vec<u8> {
    let len = u32::try_from(message.len()).expect("an append is far below 4 GiB");
    [len.to_be_bytes().as_slice(), message].concat().repeat(count)
}

/// A count on the command line.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number from 1 on".to_owned()),
        Ok(count) => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_message_is_json_of_exactly_its_size() {
        for size in [2, 3, 256] {
            let message = Content::Json.message(size);
            assert_eq!(message.len(), size);
            serde_json::from_slice::<String>(&message).expect("a string");
        }
    }

    #[test]
    fn a_batch_has_each_message_behind_its_length() {
        assert_eq!(frames(b"ab", 2), b"\0\0\0\x02ab\0\0\0\x02ab");
    }
}
