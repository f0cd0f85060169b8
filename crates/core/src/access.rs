//! Who may do what: actions, scopes, and the API keys that hold them. Pure rules; secrets are made
//! and compared elsewhere, only their hashes are known here.
//!
//! ```text
//! demo:read                  bucket demo and every stream in it
//! demo/doc-*:read,append     the streams of demo whose ids begin with doc-
//! /orders/7:append           one stream of the base surface
//! *:admin                    everything
//! ```

mod keys;
mod scope;

use std::fmt;

use crate::ids::{BucketId, StreamName, Timestamp};

pub use keys::{Key, KeyHash, KeyId};
pub(crate) use keys::{create, revoke};
pub use scope::{BadScope, SCOPE_BYTES_MAX, SCOPES_MAX, Scope, Scopes};

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read a stream, its snapshots, its attributes and listings.
    Read,
    /// Append to a stream and close it.
    Append,
    /// Create a stream and set its attributes.
    Create,
    /// Delete a stream.
    Delete,
    /// Publish and delete snapshots, and discard what they cover.
    Snapshot,
    /// Create and delete buckets, manage keys; includes every other action.
    Admin,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Append, Self::Create, Self::Delete, Self::Snapshot, Self::Admin];

    /// Its name in a scope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Snapshot => "snapshot",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a request wants to do something to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The server itself: all buckets, its keys.
    Node,
    /// A bucket as a whole.
    Bucket(&'a BucketId),
    /// The streams of a bucket whose ids begin with a prefix; those of the base surface for
    /// [`BucketId::base`].
    Listing(&'a BucketId, &'a str),
    /// One stream.
    Stream(&'a StreamName),
}

/// The most keys that a server keeps.
pub const KEYS_MAX: usize = 10_000;

/// The longest label of a key, in bytes.
pub const LABEL_BYTES_MAX: usize = 100;

/// Whether a key that ends at `expires_at` is over at `wall`, both in wall-clock time.
pub fn is_over(expires_at: Option<Timestamp>, wall: Timestamp) -> bool {
    expires_at.is_some_and(|end| end <= wall)
}
