//! API keys as their owners hold them: `hw_{id}_{secret}`. The server keeps a hash only. A fast one
//! will do, since nobody guesses 256 random bits.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headwater_core::access::{Key, KeyHash, KeyId, Scopes};
use headwater_core::ids::Timestamp;
use headwater_core::state::Now;

use super::ROOT;
use crate::random;

/// What tells our hashes from hashes of the same text made for another purpose.
const CONTEXT: &str = "headwater 2026 api key";

const PREFIX: &str = "hw_";

/// A new API key, secret and all. It is shown once.
pub struct Token {
    /// Its public half.
    pub id: KeyId,
    text: String,
}

impl Token {
    /// Makes one up.
    pub fn random() -> Self {
        let id = loop {
            let id = KeyId(random::number());
            if id != ROOT {
                break id;
            }
        };
        let secret = [random::id().to_le_bytes(), random::id().to_le_bytes()].concat();
        Self { id, text: format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret)) }
    }

    /// The key that it opens as; `lives` from now on.
    pub(crate) fn key(
        &self,
        label: &str,
        scopes: &Scopes,
        lives: Option<Duration>,
        now: Now,
    ) -> Key {
        let ms = |lives: Duration| u64::try_from(lives.as_millis()).unwrap_or(u64::MAX);
        Key {
            id: self.id,
            hash: hash(&self.text),
            label: label.to_owned(),
            scopes: scopes.clone(),
            created_at: now.node,
            expires_at: lives.map(|lives| Timestamp(now.wall.0.saturating_add(ms(lives)))),
        }
    }

    /// The text that opens.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The id in a token's text, if it has the form of one.
    pub(super) fn id_of(text: &str) -> Option<KeyId> {
        let (id, _secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        KeyId::parse(id).filter(|id| *id != ROOT)
    }
}

/// Secrets are not printed.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

/// What is kept of a token.
pub fn hash(token: &str) -> KeyHash {
    KeyHash(blake3::derive_key(CONTEXT, token.as_bytes()))
}

/// Compares in a time that says nothing of where they differ.
pub(super) fn equal(one: &KeyHash, other: &KeyHash) -> bool {
    // A hash of this library compares in constant time.
    blake3::Hash::from_bytes(one.0) == blake3::Hash::from_bytes(other.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_key_and_no_two_are_alike() {
        let (one, other) = (Token::random(), Token::random());
        assert_eq!(Token::id_of(one.reveal()), Some(one.id));
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), 63);
        assert!(equal(&hash(one.reveal()), &hash(one.reveal())));
        assert!(!equal(&hash(one.reveal()), &hash(other.reveal())));
    }

    #[test]
    fn nothing_else_names_a_key() {
        for text in ["", "hw_", "hw_1_x", "hw_0000000000000000_x", "HW_0000000000000001_x", "a.b.c"]
        {
            assert_eq!(Token::id_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = Token::random();
        assert!(!format!("{token:?}").contains(&token.reveal()[20..]));
    }
}
