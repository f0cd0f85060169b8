//! What happened in a world: one number that must be the same for the same seed, and on demand the
//! lines behind it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::rng::mix;

/// A running hash over everything that a world did. Clones write to the same trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that also keeps its lines.
    pub(crate) fn with_lines() -> Self {
        Self(Arc::new(Mutex::new(Inner { hash: 0, lines: Some(Vec::new()) })))
    }

    /// Notes numbers that stand for an event.
    pub(crate) fn numbers(&self, numbers: &[u64]) {
        let mut inner = self.0.lock();
        inner.hash = numbers.iter().fold(inner.hash, |hash, number| mix(hash ^ mix(*number)));
    }

    /// Notes an event in words.
    pub(crate) fn line(&self, text: fmt::Arguments<'_>) {
        let text = text.to_string();
        self.numbers(&[hash_of(text.as_bytes())]);
        if let Some(lines) = &mut self.0.lock().lines {
            lines.push(text);
        }
    }

    /// Notes an event of the disk: in words only when lines are kept, which they seldom are.
    pub(crate) fn disk(&self, kind: &str, path: &str, numbers: &[u64]) {
        self.numbers(&[hash_of(kind.as_bytes()), hash_of(path.as_bytes())]);
        self.numbers(numbers);
        if let Some(lines) = &mut self.0.lock().lines {
            lines.push(format!("    disk {kind} {path} {numbers:?}"));
        }
    }

    /// The hash so far.
    pub(crate) fn hash(&self) -> u64 {
        self.0.lock().hash
    }

    /// The lines, if they are kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().lines.clone().unwrap_or_default()
    }
}

/// A hash of bytes; fast, not cryptographic.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash ^ u64::from_le_bytes(word)).wrapping_add(hash.rotate_left(23));
    }
    hash
}
