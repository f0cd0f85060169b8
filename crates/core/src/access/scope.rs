//! Scopes: what may be done to what, as one line of text.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::{Action, Subject};
use crate::ids::{BucketId, StreamName};

/// The most scopes that one credential has.
pub const SCOPES_MAX: usize = 64;

/// The longest scope, in bytes of its text.
pub const SCOPE_BYTES_MAX: usize = 512;

/// What stands for itself in a pattern is written with escapes where it would mean something else.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'*').add(b':').add(b',').add(b'"');

/// Why a text is no scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadScope {
    /// What was expected, as a clause.
    pub rule: &'static str,
}

impl fmt::Display for BadScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule)
    }
}

impl std::error::Error for BadScope {}

/// Some actions on whatever a pattern covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pattern: Pattern,
    /// In the order of [`Action::ALL`].
    actions: Vec<Action>,
}

/// What a scope is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `*`
    Everything,
    /// `demo`: the bucket and what is in it.
    Bucket(BucketId),
    /// `demo/doc-*`, `/orders/*`: streams whose full names begin so, slash included.
    Prefix(String),
    /// `demo/doc-1`, `/orders/7`
    Stream(StreamName),
}

impl Scope {
    /// Reads `pattern:action[,action…]`. In the pattern, `%XX` stands for a byte that would mean
    /// something else: a star, a colon, a comma, a space.
    pub fn parse(text: &str) -> Result<Self, BadScope> {
        let fail = |rule| Err(BadScope { rule });
        if text.len() > SCOPE_BYTES_MAX {
            return fail("a scope has at most 512 bytes");
        }
        let Some((pattern, names)) = text.rsplit_once(':') else {
            return fail(
                "a scope is PATTERN:ACTION[,ACTION...], for example demo/doc-*:read,append",
            );
        };
        let names: Vec<&str> = names.split(',').collect();
        if names.iter().any(|name| Action::ALL.iter().all(|action| action.name() != *name)) {
            return fail("an action is read, append, create, delete, snapshot or admin");
        }
        let named = |action: &Action| names.contains(&action.name());
        let actions = Action::ALL.into_iter().filter(named).collect();
        Ok(Self { pattern: Pattern::parse(pattern)?, actions })
    }

    /// Whether it allows `action` on `subject`.
    pub fn allows(&self, action: Action, subject: Subject<'_>) -> bool {
        let named = self.actions.iter().any(|own| *own == action || *own == Action::Admin);
        named && self.pattern.covers(subject)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Everything => f.write_str("*")?,
            Pattern::Bucket(bucket) => f.write_str(bucket.as_str())?,
            Pattern::Prefix(prefix) => write!(f, "{}*", utf8_percent_encode(prefix, ESCAPED))?,
            Pattern::Stream(name) => write!(f, "{}", utf8_percent_encode(name.key(), ESCAPED))?,
        }
        for (at, action) in self.actions.iter().enumerate() {
            write!(f, "{}{action}", if at == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, BadScope> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (text, is_prefix) = match text.strip_suffix('*') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if text.contains('*') {
            return Err(BadScope {
                rule: "a star stands at the end of a pattern (%2A for itself)",
            });
        }
        let bad_name = BadScope {
            rule: "a pattern is *, a bucket, bucket/stream, /path, or one of the last two with a \
                   star behind a beginning that has its slash",
        };
        let Ok(key) = percent_decode_str(text).decode_utf8() else { return Err(bad_name) };
        let Some((bucket, local)) = key.split_once('/') else {
            return match BucketId::parse(&key) {
                Ok(bucket) if !is_prefix => Ok(Self::Bucket(bucket)),
                _ => Err(bad_name),
            };
        };
        let bucket = match bucket {
            "" => BucketId::base(),
            id => BucketId::parse(id).map_err(|_invalid| bad_name.clone())?,
        };
        if is_prefix {
            return Ok(Self::Prefix(key.into_owned()));
        }
        let name = if bucket.is_base() {
            StreamName::on_base(local.split('/'))
        } else {
            StreamName::in_bucket(&bucket, local)
        };
        name.map(Self::Stream).map_err(|_invalid| bad_name)
    }

    fn covers(&self, subject: Subject<'_>) -> bool {
        match (self, subject) {
            (Self::Everything, _) => true,
            (Self::Bucket(own), Subject::Bucket(bucket) | Subject::Listing(bucket, _)) => {
                own == bucket
            }
            (Self::Bucket(own), Subject::Stream(name)) => {
                let rest = name.key().strip_prefix(own.as_str());
                !own.is_base() && rest.is_some_and(|rest| rest.starts_with('/'))
            }
            (Self::Prefix(prefix), Subject::Stream(name)) => name.key().starts_with(prefix),
            (Self::Prefix(prefix), Subject::Listing(bucket, listed)) => {
                let rest = prefix.strip_prefix(bucket.as_str());
                let rest = rest.and_then(|rest| rest.strip_prefix('/'));
                rest.is_some_and(|rest| listed.starts_with(rest))
            }
            (Self::Stream(own), Subject::Stream(name)) => own == name,
            (_, Subject::Node)
            | (Self::Prefix(_) | Self::Stream(_), Subject::Bucket(_))
            | (Self::Stream(_), Subject::Listing(..)) => false,
        }
    }
}

/// All that a credential may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Takes several scopes.
    pub fn new(scopes: Vec<Scope>) -> Result<Self, BadScope> {
        if scopes.len() > SCOPES_MAX {
            return Err(BadScope { rule: "there are at most 64 scopes" });
        }
        Ok(Self(scopes))
    }

    /// Reads scopes that are separated by spaces, as in the `scope` claim of a token.
    pub fn parse(text: &str) -> Result<Self, BadScope> {
        Self::new(text.split_ascii_whitespace().map(Scope::parse).collect::<Result<_, _>>()?)
    }

    /// Everything.
    pub fn all() -> Self {
        Self(vec![Scope { pattern: Pattern::Everything, actions: vec![Action::Admin] }])
    }

    /// One by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Scope> {
        self.0.iter()
    }

    /// Whether they allow `action` on `subject`.
    pub fn allow(&self, action: Action, subject: Subject<'_>) -> bool {
        self.0.iter().any(|scope| scope.allows(action, subject))
    }

    /// Whether they allow anything at all on `subject`: if not, its existence is nobody's business.
    pub fn touch(&self, subject: Subject<'_>) -> bool {
        self.0.iter().any(|scope| scope.pattern.covers(subject))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.0.iter().enumerate() {
            write!(f, "{}{scope}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).unwrap()
    }

    fn bucket(id: &str) -> BucketId {
        BucketId::parse(id).unwrap()
    }

    fn stream(key: &str) -> StreamName {
        StreamName::from_stored(key).unwrap()
    }

    fn may(text: &str, action: Action, key: &str) -> bool {
        scopes(text).allow(action, Subject::Stream(&stream(key)))
    }

    #[test]
    fn a_bucket_covers_itself_and_its_streams_and_no_neighbour() {
        assert!(may("demo:read", Action::Read, "demo/a"));
        assert!(!may("demo:read", Action::Append, "demo/a"));
        assert!(!may("demo:read", Action::Read, "demo2/a"));
        assert!(!may("demo:read", Action::Read, "/demo/a"));
        let demo = scopes("demo:admin");
        assert!(demo.allow(Action::Admin, Subject::Bucket(&bucket("demo"))));
        assert!(!demo.allow(Action::Admin, Subject::Bucket(&bucket("demo2"))));
        assert!(demo.allow(Action::Read, Subject::Listing(&bucket("demo"), "")));
        assert!(!demo.allow(Action::Read, Subject::Node));
    }

    #[test]
    fn a_prefix_covers_what_begins_so_and_no_bucket() {
        assert!(may("demo/doc-*:read", Action::Read, "demo/doc-1"));
        assert!(!may("demo/doc-*:read", Action::Read, "demo/dog"));
        assert!(may("/orders/*:append", Action::Append, "/orders/7/a"));
        assert!(!may("/orders/*:append", Action::Append, "/orders2"));
        let prefix = scopes("demo/doc-*:read");
        assert!(!prefix.allow(Action::Read, Subject::Bucket(&bucket("demo"))));
        assert!(prefix.allow(Action::Read, Subject::Listing(&bucket("demo"), "doc-1")));
        assert!(!prefix.allow(Action::Read, Subject::Listing(&bucket("demo"), "doc")));
        assert!(!prefix.allow(Action::Read, Subject::Listing(&bucket("demo2"), "doc-1")));
        let base = scopes("/a*:read");
        assert!(base.allow(Action::Read, Subject::Listing(&BucketId::base(), "ab")));
        assert!(!base.allow(Action::Read, Subject::Listing(&BucketId::base(), "")));
    }

    #[test]
    fn a_stream_covers_itself_alone() {
        assert!(may("demo/a:read", Action::Read, "demo/a"));
        assert!(!may("demo/a:read", Action::Read, "demo/ab"));
        assert!(may("/a/b:read", Action::Read, "/a/b"));
        assert!(!may("/a/b:read", Action::Read, "/a/b/c"));
    }

    #[test]
    fn admin_includes_every_action_and_the_star_everything() {
        for action in Action::ALL {
            assert!(may("*:admin", action, "/a"));
            assert!(may("demo/*:admin", action, "demo/a"));
            assert!(Scopes::all().allow(action, Subject::Node));
        }
        assert!(!scopes("*:read").allow(Action::Admin, Subject::Node));
    }

    #[test]
    fn names_that_look_like_grammar_are_written_with_escapes() {
        let text = "demo/a%3Ab%2Cc%20d%2A*:read";
        assert!(may(text, Action::Read, "demo/a:b,c d*e"));
        assert!(!may(text, Action::Read, "demo/a:b,c d"));
        assert_eq!(scopes(text).to_string(), text);
    }

    #[test]
    fn a_scope_reads_back_as_it_is_written() {
        for text in ["*:read", "demo:read,append", "demo/a*:snapshot", "/a/b:delete", "/*:create"] {
            assert_eq!(Scope::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            scopes("demo:append,read,read  *:admin").to_string(),
            "demo:read,append *:admin"
        );
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        let long = format!("demo/{}:read", "x".repeat(SCOPE_BYTES_MAX));
        for bad in [
            "",
            ":",
            "demo",
            "demo:",
            ":read",
            "demo:write",
            "demo:read,",
            "demo*:read",
            "d*:read",
            "*demo:read",
            "demo/a*b:read",
            "demo/..:read",
            "/:read",
            "a/b:read",
            "DEMO:read",
            "demo/%ff:read",
            "//*x:read",
            &long,
        ] {
            assert!(Scope::parse(bad).is_err(), "{bad}");
        }
        assert!(Scopes::parse(&"*:read ".repeat(SCOPES_MAX + 1)).is_err());
    }
}
