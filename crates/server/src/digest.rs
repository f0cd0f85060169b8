//! The digest of a snapshot: over its content type, with its length in front, and its body.

use headwater_core::content::ContentType;

/// A hasher that waits for the body.
pub(crate) fn start(content: &ContentType) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(content.as_str().len() as u64).to_le_bytes());
    hasher.update(content.as_str().as_bytes());
    hasher
}
