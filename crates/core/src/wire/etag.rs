//! Entity tags (RFC 9110 §8.8.3; `base-protocol.md` §5).

use std::fmt;

use crate::ids::{Offset, StreamId};
use crate::wire::accept::Representation;
use crate::wire::coding::Coding;

/// A strong entity tag, quotes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ETag(String);

/// Everything that decides which bytes a read answers with. Two reads have the same tag exactly
/// when all of this is equal, so a tag is never reused for other bytes: not after a close, and
/// not by a later stream of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadIdentity {
    /// Random, chosen when the data directory was created: tells apart servers that count their
    /// streams alike.
    pub salt: u64,
    /// The incarnation that was read.
    pub stream: StreamId,
    /// Where the answer begins.
    pub start: Offset,
    /// Where it ends, exclusive.
    pub end: Offset,
    /// Whether the answer says that the stream is closed.
    pub closed: bool,
    /// The form of the body; [`Representation::Array`] on streams that have only one.
    pub representation: Representation,
    /// How the body is coded.
    pub coding: Coding,
}

impl ETag {
    /// The tag of a read.
    pub fn of_read(read: &ReadIdentity) -> Self {
        let form = match read.representation {
            Representation::Array => "",
            Representation::Ndjson => "n",
            Representation::RecordNdjson => "r",
        };
        let closed = if read.closed { "s" } else { "" };
        let coding = match read.coding {
            Coding::Identity => "",
            Coding::Gzip => "g",
            Coding::Zstd => "z",
        };
        let ReadIdentity { salt, stream, start, end, .. } = read;
        // None of the letters is a hexadecimal digit, so no two identities share a text.
        Self(format!("\"{salt:x}-{:x}-{:x}-{:x}{form}{closed}{coding}\"", stream.0, start.0, end.0))
    }

    /// The tag of a snapshot: its digest, which is lower-case hex.
    pub fn of_digest(digest: &str) -> Self {
        Self(format!("\"{digest}\""))
    }

    /// The tag as it stands in a header, quotes included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether one line of `If-None-Match` names this tag: by `*`, or in its list by weak
    /// comparison. Anything malformed names nothing from there on.
    pub fn is_named_by(&self, if_none_match: &str) -> bool {
        let mut rest = if_none_match.trim_matches([' ', '\t']);
        if rest == "*" {
            return true;
        }
        // Unlike a quoted string, an opaque tag knows no escapes: it ends at the next quote.
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let Some(quoted) = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"') else {
                return false;
            };
            let Some((opaque, behind)) = quoted.split_once('"') else {
                return false;
            };
            if opaque == self.0.trim_matches('"') {
                return true;
            }
            rest = behind;
        }
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn forms() -> impl Iterator<Item = (Representation, Coding)> {
        let codings = [Coding::Identity, Coding::Gzip, Coding::Zstd];
        Representation::ALL.into_iter().flat_map(move |form| codings.map(|coding| (form, coding)))
    }

    #[test]
    fn no_two_reads_share_a_tag() {
        let mut seen = std::collections::BTreeSet::new();
        let numbers = [0, 1, 0xa, 0xc, 0x1c, 0xac, 0xca, 0xaca];
        for (salt, stream, start) in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0x10, 0)] {
            for end in numbers {
                for closed in [false, true] {
                    for (representation, coding) in forms() {
                        let (stream, start) = (StreamId(stream), Offset(start));
                        let end = Offset(end);
                        let read = ReadIdentity {
                            salt,
                            stream,
                            start,
                            end,
                            closed,
                            representation,
                            coding,
                        };
                        let etag = ETag::of_read(&read);
                        assert!(etag.is_named_by(etag.as_str()));
                        assert!(seen.insert(etag.0), "{read:?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_asked_for(text in ".*") {
            ETag::of_digest("ab").is_named_by(&text);
        }
    }

    #[test]
    fn if_none_match_takes_lists_a_star_and_weak_tags() {
        let etag = ETag::of_digest("ab");
        for hit in ["\"ab\"", "W/\"ab\"", "*", " * ", "\"x\", \"ab\"", "\"a,b\",W/\"ab\",\"c\""] {
            assert!(etag.is_named_by(hit), "{hit}");
        }
        for hit in ["\"x\\\", \"ab\"", ", ,\"ab\""] {
            assert!(etag.is_named_by(hit), "{hit}");
        }
        for miss in ["", "ab", "\"AB\"", "\"ab", "w/\"ab\"", "\"x\" y \"ab\"", "\"*\"", "**"] {
            assert!(!etag.is_named_by(miss), "{miss}");
        }
    }
}
