//! Content that describes itself: every byte of a message follows from the seed, its stream, its
//! writer and its number, so that a read can be checked without keeping what was written.
//!
//! A message is a JSON object on every kind of stream:
//! `{"s":STREAM,"w":WRITER,"n":NUMBER,"c":"CHECK","f":"FILLER"}`. Its length and its filler follow
//! from the check word.

use std::fmt;

use crate::rng::{Rng, hash};

/// Names a message within its stream. A writer uses each number once and in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Who wrote it.
    pub writer: u32,
    /// The writer's how-manieth message.
    pub n: u32,
}

impl Key {
    /// The first message of a fork that was cut inside a message of its source.
    pub const PIECE: Self = Self { writer: u32::MAX, n: 0 };

    /// The key `by` places further on.
    #[must_use]
    pub fn plus(self, by: u32) -> Self {
        Self { n: self.n + by, ..self }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{} n{}", self.writer, self.n)
    }
}

/// Makes and recognises the content of one run.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    seed: u64,
}

/// A message that a read has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The stream that it was written to.
    pub stream: u32,
    /// Which one it is.
    pub key: Key,
    /// Its length in bytes.
    pub len: usize,
}

impl Recipe {
    /// The content of the run with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The message `key` of a stream.
    pub fn message(self, stream: u32, key: Key) -> Vec<u8> {
        let check = hash(self.seed, &[1, stream.into(), key.writer.into(), key.n.into()]);
        let Key { writer, n } = key;
        let mut message =
            format!("{{\"s\":{stream},\"w\":{writer},\"n\":{n},\"c\":\"{check:016x}\",\"f\":\"")
                .into_bytes();
        fill(&mut message, check, message_filler(check));
        message.extend_from_slice(b"\"}");
        message
    }

    /// The snapshot body number `k` of a stream.
    pub fn blob(self, stream: u32, k: u32) -> Vec<u8> {
        let check = hash(self.seed, &[2, stream.into(), k.into()]);
        let len = match check % 20 {
            0 => 0,
            1 => 1 << 20,
            2..8 => 40_000 + check % 90_000,
            _ => check % 6000,
        };
        let mut blob = Vec::new();
        fill(&mut blob, check, len);
        blob
    }

    /// Recognises the message at the start of `bytes`; an error says what is wrong with it.
    pub fn recognise(self, bytes: &[u8]) -> Result<Found, String> {
        let mut rest = bytes;
        let mut number = |name: &[u8]| -> Option<u32> {
            rest = rest.strip_prefix(name)?;
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (number, tail) = rest.split_at(digits);
            rest = tail;
            std::str::from_utf8(number).ok()?.parse().ok()
        };
        let head = (|| Some((number(b"{\"s\":")?, number(b",\"w\":")?, number(b",\"n\":")?)))();
        let Some((stream, writer, n)) = head else {
            return Err(format!("these bytes are no message: {}", excerpt(bytes)));
        };
        let key = Key { writer, n };
        let expected = self.message(stream, key);
        if bytes.starts_with(&expected) {
            return Ok(Found { stream, key, len: expected.len() });
        }
        let same = bytes.iter().zip(&expected).take_while(|(got, want)| got == want).count();
        let len = expected.len();
        Err(format!(
            "message {key} of s{stream} is altered after {same} of its {len} bytes: {}",
            excerpt(&bytes[same..])
        ))
    }
}

/// How long the filler is: mostly short, at times as long as a log file.
fn message_filler(check: u64) -> u64 {
    let spread = check >> 20;
    match check % 1000 {
        0 => 100_000 + spread % 200_000,
        1..10 => 2000 + spread % 60_000,
        10..150 => 200 + spread % 3000,
        _ => spread % 250,
    }
}

fn fill(out: &mut Vec<u8>, check: u64, len: u64) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut rng = Rng::new(check);
    let mut word = 0;
    for position in 0..len {
        if position % 10 == 0 {
            word = rng.number();
        }
        out.push(LETTERS[usize::from(word.to_le_bytes()[0] & 63)]);
        word >>= 6;
    }
}

/// The start of an answer, for a message to a person.
pub fn excerpt_long(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(400)].escape_ascii().to_string()
}

/// A few bytes for a message to a person.
pub fn excerpt(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(60)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { writer: 3, n: 42 };

    #[test]
    fn a_message_is_recognised_and_its_end_found() {
        let recipe = Recipe::new(7);
        let mut bytes = recipe.message(9, KEY);
        let len = bytes.len();
        bytes.extend_from_slice(b"{\"s\":1");
        assert_eq!(recipe.recognise(&bytes), Ok(Found { stream: 9, key: KEY, len }));
    }

    #[test]
    fn one_changed_byte_anywhere_is_noticed() {
        let recipe = Recipe::new(7);
        let message = recipe.message(9, KEY);
        for position in 0..message.len() {
            let mut bytes = message.clone();
            bytes[position] ^= 1;
            let same = recipe.recognise(&bytes);
            assert!(same.is_err(), "byte {position}: {same:?}");
        }
        assert!(recipe.recognise(&message[..message.len() - 1]).is_err());
    }

    #[test]
    fn content_differs_by_seed_stream_and_number() {
        let message = Recipe::new(7).message(9, KEY);
        assert_ne!(message, Recipe::new(8).message(9, KEY));
        assert_ne!(message, Recipe::new(7).message(8, KEY));
        assert_ne!(message, Recipe::new(7).message(9, KEY.plus(1)));
    }
}
