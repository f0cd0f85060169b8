//! Signed links: `?token=hwl_{key id}_{end}_{name}_{signature}` lets whoever has it read one stream
//! until its end, in Unix seconds. Whoever holds an API key signs, without asking the server; a
//! link may do no more than its key, and ends with it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headwater_core::access::{KeyHash, KeyId};
use headwater_core::ids::{StreamName, Timestamp};
use headwater_core::wire::path::{self, Resource, Target};

use super::token::{Token, hash};

/// What tells keys for signing from hashes of tokens.
const CONTEXT: &str = "headwater 2026 signed link";

const PREFIX: &str = "hwl_";

/// The query parameter that carries a link.
pub(crate) const PARAMETER: &str = "token";

/// A link as it came, not yet believed.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: KeyId,
    pub(super) ends_at: Timestamp,
    name: StreamName,
    signature: [u8; 32],
    end_seconds: u64,
}

impl Link {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.splitn(3, '_');
        let (key, end, rest) = (parts.next()?, parts.next()?, parts.next()?);
        // Both halves may hold underscores, but their lengths are known from the end.
        let (name, signature) = rest.split_at_checked(rest.len().checked_sub(44)?)?;
        let signature = URL_SAFE_NO_PAD.decode(signature.strip_prefix('_')?).ok()?;
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
        let digits = !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit());
        let end_seconds: u64 = digits.then(|| end.parse().ok()).flatten()?;
        Some(Self {
            key: KeyId::parse(key)?,
            ends_at: Timestamp(end_seconds.checked_mul(1_000)?),
            name: StreamName::from_stored(&name)?,
            signature: signature.try_into().ok()?,
            end_seconds,
        })
    }

    /// The stream that it is for, if it was signed with the key of this hash.
    pub(super) fn stream(self, hash: &KeyHash) -> Option<StreamName> {
        let expected = signature(hash, self.end_seconds, &self.name);
        // A hash of this library compares in constant time.
        (expected == blake3::Hash::from_bytes(self.signature)).then_some(self.name)
    }
}

fn signature(hash: &KeyHash, end_seconds: u64, name: &StreamName) -> blake3::Hash {
    let key = blake3::derive_key(CONTEXT, &hash.0);
    blake3::keyed_hash(&key, format!("{end_seconds}\n{}", name.key()).as_bytes())
}

/// Signs a link to `name` that ends at `end_seconds`, in Unix time. `None` when `token` is no API
/// key of ours.
pub fn sign(token: &str, name: &StreamName, end_seconds: u64) -> Option<String> {
    let id = Token::id_of(token)?;
    let signature = signature(&hash(token), end_seconds, name);
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (name, signature) = (encode(name.key().as_bytes()), encode(signature.as_bytes()));
    Some(format!("{PREFIX}{id}_{end_seconds}_{name}_{signature}"))
}

/// As [`sign`], for the stream that a URL's path names. `None` when it names none, too.
pub fn sign_path(token: &str, path: &str, end_seconds: u64) -> Option<String> {
    match path::parse(path).ok()? {
        Target::Stream { name, resource: Resource::Stream, .. } => sign(token, &name, end_seconds),
        _ => None,
    }
}

/// The link in a query. It has no byte that would have to be escaped.
pub(crate) fn of_query(query: Option<&str>) -> Option<&str> {
    let mut links = query?.split('&').filter_map(|pair| pair.split_once('='));
    links.find(|(name, _)| *name == PARAMETER).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> StreamName {
        StreamName::from_stored("demo/a_b").unwrap()
    }

    #[test]
    fn a_link_is_believed_with_its_own_key_alone() {
        let (token, other) = (Token::random(), Token::random());
        let text = sign(token.reveal(), &name(), 1_900_000_000).unwrap();
        let link = || Link::parse(&text).unwrap();
        assert_eq!((link().key, link().ends_at), (token.id, Timestamp(1_900_000_000_000)));
        assert_eq!(link().stream(&hash(token.reveal())), Some(name()));
        assert_eq!(link().stream(&hash(other.reveal())), None);
    }

    #[test]
    fn a_link_that_was_changed_anywhere_is_not_believed() {
        let token = Token::random();
        let text = sign(token.reveal(), &name(), 1_900_000_000).unwrap();
        for at in 0..text.len() {
            for byte in [b'A', b'0', b'_', b'9', b'a'] {
                let mut bad = text.clone().into_bytes();
                if bad[at] == byte {
                    continue;
                }
                bad[at] = byte;
                let link = Link::parse(std::str::from_utf8(&bad).unwrap());
                let link = link.filter(|link| link.key == token.id);
                assert_eq!(link.and_then(|link| link.stream(&hash(token.reveal()))), None, "{at}");
            }
        }
        for end in 0..text.len() {
            let link = Link::parse(&text[..end]).filter(|link| link.key == token.id);
            assert!(link.and_then(|link| link.stream(&hash(token.reveal()))).is_none());
        }
    }

    #[test]
    fn a_link_is_found_in_a_query() {
        assert_eq!(of_query(Some("offset=-1&token=x&live=sse")), Some("x"));
        assert_eq!(of_query(Some("offset=-1&tokens=x")), None);
        assert_eq!(of_query(None), None);
    }

    #[test]
    fn only_an_api_key_signs() {
        assert_eq!(sign("secret", &name(), 1), None);
    }
}
