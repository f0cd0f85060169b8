//! Who asks: credentials, and what they may do. The rules of scopes are the core's
//! ([`headwater_core::access`]); here secrets are made, hashed and compared.
//!
//! | credential | how it comes | what it may do |
//! | --- | --- | --- |
//! | API key | `Authorization: Bearer hw_…` | its scopes |
//! | token | `Authorization: Bearer …`, a JWT of somebody who is trusted | what its `scope` says |
//! | root key | `Authorization: Bearer …` | everything |
//! | signed link | `?token=hwl_…` | read one stream, as long as its key may and lives |
//! | none | | what anonymous scopes say |

mod jwt;
pub(crate) mod link;
mod token;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use headwater_core::access::Scopes;
use headwater_core::access::{Action, Key, KeyHash, KeyId, Subject, is_over};
use headwater_core::ids::{StreamName, Timestamp};
use http::header;
use http::request::Parts;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

pub use headwater_core::access::{BadScope, LABEL_BYTES_MAX, Scope};
pub use jwt::{BadKeys, JwtRules, Source};
use jwt::{Jwt, Watcher};
pub use link::{sign, sign_path};
pub use token::{Token, hash};

/// The key that the operator sets; its id is never given to another.
const ROOT: KeyId = KeyId(0);

/// What the operator decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The hash of a key that may do everything.
    pub root: Option<RootKey>,
    /// What may be done without a credential.
    pub anonymous: Scopes,
    /// Which tokens of others are believed.
    pub jwt: Option<JwtRules>,
    /// Whether what a credential may not touch looks as if it did not exist.
    pub conceal: bool,
}

/// The hash of the operator's own key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootKey(pub KeyHash);

/// The shortest key that an operator may set, in bytes.
const ROOT_BYTES_MIN: usize = 32;

impl RootKey {
    /// Takes a secret that somebody made up. `None` when it is too short, or could not stand in a
    /// header.
    pub fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim_ascii();
        let fits = secret.len() >= ROOT_BYTES_MIN && secret.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(hash(secret)))
    }
}

/// Everything that is needed to tell who asks.
pub(crate) struct Auth {
    rules: Rules,
    keys: RwLock<HashMap<KeyId, Arc<Holder>>>,
    jwt: Option<Arc<Jwt>>,
    /// Whoever has no credential.
    nobody: Arc<Holder>,
    /// Changes whenever a key is revoked.
    revoked: watch::Sender<()>,
}

/// A key that opens.
#[derive(Debug)]
struct Holder {
    hash: KeyHash,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
}

/// Who asks, and until when.
#[derive(Clone)]
pub(crate) struct Access {
    auth: Arc<Auth>,
    holder: Arc<Holder>,
    who: Who,
    /// The only stream that may be read, for a signed link.
    link: Option<StreamName>,
    /// When it ends, in wall-clock time.
    ends_at: Option<Timestamp>,
}

/// By which kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Key(KeyId),
    Token,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// There is no credential.
    Missing,
    /// There is one, and it is not good.
    Invalid,
    /// It is good, and not for this.
    Forbidden,
    /// As [`Denied::Forbidden`], to be told as if nothing were there.
    Concealed,
}

impl Auth {
    /// Reads the keys of tokens, if any are believed.
    pub(crate) fn new(rules: Rules) -> Result<Self, BadKeys> {
        let jwt = rules.jwt.clone().map(|rules| Arc::new(Jwt::new(rules)));
        jwt.as_ref().map_or(Ok(()), Watcher::start)?;
        let (hash, scopes) = (KeyHash([0; 32]), rules.anonymous.clone());
        let nobody = Arc::new(Holder { hash, scopes, expires_at: None });
        Ok(Self { rules, keys: RwLock::default(), jwt, nobody, revoked: watch::channel(()).0 })
    }

    /// Takes the keys that `read` finds. Whoever reads later also takes later.
    pub(crate) fn reload(&self, read: impl FnOnce() -> Vec<Key>) {
        let mut known = self.keys.write();
        let root = self.rules.root.map(|root| {
            let holder = Holder { hash: root.0, scopes: Scopes::all(), expires_at: None };
            (ROOT, Arc::new(holder))
        });
        let stored = read().into_iter().filter(|key| key.id != ROOT).map(|key| {
            let Key { id, hash, scopes, expires_at, .. } = key;
            (id, Arc::new(Holder { hash, scopes, expires_at }))
        });
        *known = stored.chain(root).collect();
        drop(known);
        self.revoked.send_replace(());
    }

    /// Who asks. `wall` is the time now.
    pub(crate) fn authenticate(
        self: &Arc<Self>,
        head: &Parts,
        wall: Timestamp,
    ) -> Result<Access, Denied> {
        let mut fields = head.headers.get_all(header::AUTHORIZATION).iter();
        match (fields.next(), fields.next()) {
            (Some(field), None) => {
                let token = field.to_str().ok().and_then(bearer).ok_or(Denied::Invalid)?;
                self.holder_of(token, wall)
            }
            (Some(_), Some(_)) => Err(Denied::Invalid),
            (None, _) => match link::of_query(head.uri.query()) {
                Some(token) => self.link(token, wall),
                None => Ok(self.anonymous()),
            },
        }
    }

    fn anonymous(self: &Arc<Self>) -> Access {
        let (holder, who) = (Arc::clone(&self.nobody), Who::Nobody);
        Access { auth: Arc::clone(self), holder, who, link: None, ends_at: None }
    }

    fn holder_of(self: &Arc<Self>, token: &str, wall: Timestamp) -> Result<Access, Denied> {
        let (who, holder) = match (&self.jwt, Token::id_of(token)) {
            (Some(jwt), None) if Jwt::is_one(token) => (Who::Token, jwt.check(token, wall)?),
            (_, id) => {
                let id = id.unwrap_or(ROOT);
                let holder = self.known(id, wall)?;
                if !token::equal(&hash(token), &holder.hash) {
                    return Err(Denied::Invalid);
                }
                (Who::Key(id), holder)
            }
        };
        let ends_at = holder.expires_at;
        Ok(Access { auth: Arc::clone(self), holder, who, link: None, ends_at })
    }

    fn link(self: &Arc<Self>, text: &str, wall: Timestamp) -> Result<Access, Denied> {
        let link = link::Link::parse(text).ok_or(Denied::Invalid)?;
        let holder = self.known(link.key, wall)?;
        let over = Some(link.ends_at).into_iter().chain(holder.expires_at).min();
        let who = Who::Key(link.key);
        let name = link.stream(&holder.hash).ok_or(Denied::Invalid)?;
        if is_over(over, wall) {
            return Err(Denied::Invalid);
        }
        let (auth, link) = (Arc::clone(self), Some(name));
        Ok(Access { auth, holder, who, link, ends_at: over })
    }

    fn known(&self, id: KeyId, wall: Timestamp) -> Result<Arc<Holder>, Denied> {
        let holder = self.keys.read().get(&id).cloned().ok_or(Denied::Invalid)?;
        if is_over(holder.expires_at, wall) { Err(Denied::Invalid) } else { Ok(holder) }
    }
}

impl Access {
    /// Whether this may be done.
    pub(crate) fn check(&self, action: Action, subject: Subject<'_>) -> Result<(), Denied> {
        let scopes = &self.holder.scopes;
        let linked = self
            .link
            .as_ref()
            .is_none_or(|name| action == Action::Read && subject == Subject::Stream(name));
        if linked && scopes.allow(action, subject) {
            return Ok(());
        }
        if self.who == Who::Nobody {
            return Err(Denied::Missing);
        }
        let conceal = self.auth.rules.conceal && !(linked && scopes.touch(subject));
        Err(if conceal { Denied::Concealed } else { Denied::Forbidden })
    }

    /// The key that is behind it; nothing for whoever has none.
    pub(crate) fn key(&self) -> Option<KeyId> {
        match self.who {
            Who::Key(key) => Some(key),
            Who::Nobody | Who::Token => None,
        }
    }

    /// Whether it is a signed link.
    pub(crate) fn is_link(&self) -> bool {
        self.link.is_some()
    }

    /// What somebody watches who stays for longer than a request.
    pub(crate) fn watch(&self, wall: Timestamp) -> Visit {
        let left_ms = self.ends_at.map(|end| end.0.saturating_sub(wall.0));
        Visit {
            key: self.key(),
            auth: Arc::clone(&self.auth),
            revoked: self.auth.revoked.subscribe(),
            until: left_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))),
        }
    }
}

/// Somebody who stays: it is over when the credential is.
#[derive(Debug)]
pub(crate) struct Visit {
    auth: Arc<Auth>,
    /// The key that it depends on, if it is one of ours.
    key: Option<KeyId>,
    revoked: watch::Receiver<()>,
    until: Option<Instant>,
}

impl Visit {
    /// Resolves when the credential has ended.
    pub(crate) async fn over(&mut self) {
        let Self { auth, key, revoked, until } = self;
        let ended = async {
            match until {
                Some(until) => tokio::time::sleep_until(*until).await,
                None => std::future::pending().await,
            }
        };
        let gone = async {
            // Changes that are about other keys are waited through.
            while key.is_none_or(|key| auth.keys.read().contains_key(&key)) {
                if revoked.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = gone => {}
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
            || self.key.is_some_and(|key| !self.auth.keys.read().contains_key(&key))
    }

    /// [`Visit::over`] of whoever may have a credential.
    pub(crate) async fn over_if_any(visit: &mut Option<Box<Self>>) {
        match visit {
            Some(visit) => visit.over().await,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth")
    }
}

/// What is in here opens doors.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({:?})", self.who)
    }
}

/// The token of a `Bearer` credential (RFC 6750).
fn bearer(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim_ascii())
}
