//! What is appended, and where: shared by the works that measure appends.

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use tokio::time::{Instant, timeout};

use super::report::Report;
use super::session::{PATIENCE, Session};
use super::tally::Tally;
use super::witness::Witness;
use crate::failure::{Exit, Failure, Outcome};
use crate::units::{Misspelled, Size};

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
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(256))]
    pub(crate) size: MessageSize,

    /// What the streams contain.
    #[arg(long, value_name = "TYPE", default_value_t = Content::Bytes)]
    pub(crate) content_type: Content,
}

/// The size of a message: at least a byte, and at most [`MESSAGE_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageSize(pub(crate) usize);

/// More is no message but a typing error, and would be held in memory.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// Two quotes.
pub(crate) const JSON_BYTES_MIN: usize = 2;
/// Any count on the command line: products of two stay numbers.
const COUNT_MAX: usize = 1_000_000_000;

impl MessageSize {
    /// As a number of bytes to count with.
    pub(crate) fn bytes(self) -> u64 {
        self.0 as u64
    }
}

impl FromStr for MessageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: Size = text.parse().map_err(|expected: Misspelled| expected.to_string())?;
        match usize::try_from(size.0) {
            Ok(bytes) if (1..=MESSAGE_BYTES_MAX).contains(&size.0) => Ok(Self(bytes)),
            _ => Err(format!("expected 1 to {}", Size(MESSAGE_BYTES_MAX))),
        }
    }
}

impl fmt::Display for MessageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.bytes()).fmt(f)
    }
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

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let MessageSize(size) = self.size;
        if self.content_type == Content::Json && size < JSON_BYTES_MIN {
            let what = format!("--size {size} is too small for a JSON string");
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

    /// The bytes that a message takes in offsets that count bytes.
    pub(crate) fn unit(&self) -> u64 {
        self.size.bytes() + u64::from(self.content_type == Content::Json)
    }

    /// Reads the run's `n`th stream whole, and compares its bytes.
    pub(crate) async fn read_back(
        &self,
        session: &Session,
        n: usize,
        witness: &Witness,
    ) -> Outcome {
        let sent = Instant::now();
        let tail = timeout(PATIENCE, self.read_whole(session, n)).await.map_err(|_elapsed| {
            Failure::new(Exit::Unavailable, "cannot read a stream back: no answer for 30 s")
        })??;
        witness.read_whole(n, tail, sent);
        Ok(())
    }

    async fn read_whole(&self, session: &Session, n: usize) -> Result<u64, Failure> {
        let broken = |why: &dyn fmt::Display| {
            Failure::new(Exit::Failed, format!("cannot read a stream back: {why}"))
        };
        let mut connection = session.worker(&Tally::shared()).await?.connection;
        let path = session.target.stream(n);
        let mut at = 0;
        loop {
            let request = session.target.request("GET", &format!("{path}?offset={at:020}"));
            connection.send(&request).await.map_err(|error| broken(&error))?;
            let mut head = connection.head().await.map_err(|error| broken(&error))?;
            let next = head.next_offset.as_deref().and_then(|next| next.parse().ok());
            let Some(next) = next.filter(|next| head.status == 200 && *next >= at) else {
                return Err(broken(&format!("the answer to offset {at} is {}", head.status)));
            };
            let mut body = Vec::new();
            while let Some(piece) =
                connection.piece(&mut head.framing).await.map_err(|error| broken(&error))?
            {
                body.extend_from_slice(piece);
            }
            if body != self.page(next - at) {
                return Err(broken(&format!("bytes {at} to {next} are not those appended")));
            }
            if head.up_to_date {
                return Ok(next);
            }
            at = next;
        }
    }

    /// What a read of so many bytes of offsets gives.
    fn page(&self, len: u64) -> Vec<u8> {
        let MessageSize(size) = self.size;
        let message = self.content_type.message(size);
        let count = usize::try_from(len / self.unit()).unwrap_or(usize::MAX);
        match self.content_type {
            Content::Json => [b"[", vec![message; count].join(&b',').as_slice(), b"]"].concat(),
            Content::Bytes | Content::Text => message.repeat(count),
        }
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
        Ok(count) if (1..=COUNT_MAX).contains(&count) => Ok(count),
        _ => Err(format!("expected a whole number from 1 to {COUNT_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_have_bounds() {
        assert_eq!("64KiB".parse(), Ok(MessageSize(64 << 10)));
        for text in ["0", "", "1025MiB", "64kb", "-1"] {
            assert!(text.parse::<MessageSize>().is_err(), "{text}");
        }
        assert_eq!(at_least_one("1"), Ok(1));
        for text in ["0", "", "1000000001", "1.5", "-1"] {
            assert!(at_least_one(text).is_err(), "{text}");
        }
    }

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
