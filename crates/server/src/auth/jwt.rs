//! Tokens that somebody else has signed: JWTs (RFC 7519), checked with the keys of a JWK set (RFC
//! 7517) from a file or an address. Their claim `scope` says what they may do, in scopes that are
//! separated by spaces.
//!
//! A key is used with the algorithms of its own kind alone, so that no token chooses how it is
//! checked. Tokens without `exp` are no good, and `aud` has to be ours.

mod provider;
mod source;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::access::{KeyHash, Scopes, is_over};
use headwater_core::ids::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;

use super::{Denied, Holder};

pub(crate) use source::Watcher;
pub use source::{BadKeys, Source};

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Keys of a set that are used; further ones are not.
const KEYS_MAX: usize = 100;
/// Tokens that need not be checked again, since they lately were.
const CHECKED_MAX: usize = 10_000;
/// How far the clocks of whoever signs and of this server may lie apart, in seconds.
const LEEWAY_SECONDS: u64 = 30;

/// Which tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtRules {
    /// Where the keys are.
    pub keys: Source,
    /// What their `aud` has to name.
    pub audience: String,
    /// What their `iss` has to be, if that matters.
    pub issuer: Option<String>,
}

/// Whoever checks tokens.
pub(crate) struct Jwt {
    rules: JwtRules,
    keys: RwLock<Vec<Known>>,
    /// By the hash of a token. Emptied when it is full, and whenever the keys change.
    checked: Mutex<HashMap<[u8; 32], Arc<Holder>>>,
    /// A token named a key that is not known: there may be new ones.
    wants_keys: AtomicBool,
}

/// A key of the set.
struct Known {
    id: Option<String>,
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct Claims {
    exp: u64,
    scope: String,
}

impl Jwt {
    pub(super) fn new(rules: JwtRules) -> Self {
        provider::install();
        Self {
            rules,
            keys: RwLock::default(),
            checked: Mutex::default(),
            wants_keys: AtomicBool::new(false),
        }
    }

    /// Whether a text has the form of such a token.
    pub(super) fn is_one(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// What a token may do, and until when.
    pub(super) fn check(&self, token: &str, wall: Timestamp) -> Result<Arc<Holder>, Denied> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Denied::Invalid);
        }
        let hash = *blake3::hash(token.as_bytes()).as_bytes();
        let lately = self.checked.lock().get(&hash).cloned();
        let holder = match lately {
            Some(holder) => holder,
            None => self.check_anew(token, hash)?,
        };
        if is_over(holder.expires_at, wall) { Err(Denied::Invalid) } else { Ok(holder) }
    }

    fn check_anew(&self, token: &str, hash: [u8; 32]) -> Result<Arc<Holder>, Denied> {
        // Held to the end: what is noted here was checked with the keys that there are then.
        let keys = self.keys.read();
        let holder = Arc::new(self.decode(token, &keys)?);
        let mut checked = self.checked.lock();
        if checked.len() >= CHECKED_MAX {
            checked.clear();
        }
        checked.insert(hash, Arc::clone(&holder));
        Ok(holder)
    }

    fn decode(&self, token: &str, keys: &[Known]) -> Result<Holder, Denied> {
        let header = jsonwebtoken::decode_header(token).map_err(|_no_token| Denied::Invalid)?;
        let known = self.key(keys, header.kid.as_deref(), header.alg).ok_or(Denied::Invalid)?;
        let mut rules = Validation::new(header.alg);
        rules.algorithms.clone_from(&known.algorithms);
        rules.leeway = LEEWAY_SECONDS;
        rules.validate_nbf = true;
        rules.set_audience(&[&self.rules.audience]);
        let mut required = vec!["exp", "aud"];
        if let Some(issuer) = &self.rules.issuer {
            rules.set_issuer(&[issuer]);
            required.push("iss");
        }
        rules.set_required_spec_claims(&required);
        let decoded = jsonwebtoken::decode::<Claims>(token, &known.key, &rules);
        let Claims { exp, scope } = decoded.map_err(|_not_good| Denied::Invalid)?.claims;
        let scopes = Scopes::parse(&scope).map_err(|_no_scopes| Denied::Invalid)?;
        let ends = exp.saturating_add(LEEWAY_SECONDS).saturating_mul(1_000);
        Ok(Holder { hash: KeyHash([0; 32]), scopes, expires_at: Some(Timestamp(ends)) })
    }

    /// The key that a token names, or the only one that suits it when it names none.
    fn key<'a>(
        &self,
        keys: &'a [Known],
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<&'a Known> {
        let suits = |known: &&Known| known.algorithms.contains(&algorithm);
        if id.is_some() {
            let named = keys.iter().find(|known| known.id.as_deref() == id);
            if named.is_none() {
                self.wants_keys.store(true, Ordering::Relaxed);
            }
            return named.filter(suits);
        }
        let mut suitable = keys.iter().filter(suits);
        suitable.next().filter(|_| suitable.next().is_none())
    }

    /// Takes the keys of a set in place of those before.
    fn take(&self, set: &JwkSet) {
        let known: Vec<Known> = set.keys.iter().filter_map(known).take(KEYS_MAX).collect();
        let mut keys = self.keys.write();
        *keys = known;
        self.checked.lock().clear();
    }
}

/// A key that can check signatures; others are left out.
fn known(jwk: &Jwk) -> Option<Known> {
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|is_for| *is_for != PublicKeyUse::Signature) {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let own = provider::algorithms(&key);
    let algorithms = match common.key_algorithm {
        None => own,
        Some(said) => own.into_iter().filter(|own| is_same(*own, said)).collect(),
    };
    let id = common.key_id.clone();
    (!algorithms.is_empty()).then_some(Known { id, key, algorithms })
}

fn is_same(algorithm: Algorithm, said: KeyAlgorithm) -> bool {
    said.to_string().parse() == Ok(algorithm)
}
