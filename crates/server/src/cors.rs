//! Which pages of other origins may use a bucket from a browser. Credentials never are asked for:
//! a page that has a key sends it itself.

use std::collections::{BTreeMap, BTreeSet};

use headwater_core::ids::BucketId;

/// The name of the streams in no bucket, in a rule.
const BASE: &str = "/";

/// The name of every bucket that has no rule of its own, in a rule; and of every origin.
const ANY: &str = "*";

/// The origins that may use each bucket. Without a rule any may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cors {
    buckets: BTreeMap<String, Origins>,
    others: Origins,
}

/// The origins that may use a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Origins {
    #[default]
    Any,
    These(BTreeSet<String>),
}

/// `BUCKET=ORIGIN[,ORIGIN…]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// A bucket's id, `/`, or `*`.
    bucket: String,
    origins: Origins,
}

/// What an answer says of origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Any origin may see it.
    Any,
    /// The one that asked may, and others would be told something else.
    This,
    /// The one that asked may not, or none did.
    None,
}

impl Rule {
    /// Reads a rule. Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (bucket, origins) = text.split_once('=').ok_or("a rule is BUCKET=ORIGIN[,ORIGIN…]")?;
        if bucket != ANY && bucket != BASE {
            BucketId::parse(bucket).map_err(|bad| {
                format!("{}; {BASE} names the streams in no bucket, {ANY} all others", bad.rule)
            })?;
        }
        let origins = if origins == ANY {
            Origins::Any
        } else {
            let checked = origins.split(',').map(|origin| {
                if is_origin(origin) { Ok(origin.to_owned()) } else { Err(bad_origin(origin)) }
            });
            Origins::These(checked.collect::<Result<_, _>>()?)
        };
        Ok(Self { bucket: bucket.to_owned(), origins })
    }
}

fn bad_origin(origin: &str) -> String {
    format!(
        "an origin is {ANY} or like https://app.example.com:8443, as browsers write it: {origin:?}"
    )
}

/// Whether a browser could write an origin so (RFC 6454 §6.2): a scheme, a host in lower case, a
/// port unless it is the scheme's own, and nothing else.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_scheme = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    let is_host = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._~[]:%".contains(&b);
    let usual = match scheme {
        "http" => host.ends_with(":80"),
        "https" => host.ends_with(":443"),
        _ => false,
    };
    !scheme.is_empty()
        && scheme.bytes().all(is_scheme)
        && !host.is_empty()
        && host.bytes().all(is_host)
        && !usual
}

impl Cors {
    /// All rules together. Several about one bucket add up.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut named: BTreeMap<String, Origins> = BTreeMap::new();
        for Rule { bucket, origins } in rules {
            let together = match (named.remove(&bucket), origins) {
                (None, origins) => origins,
                (Some(Origins::These(mut all)), Origins::These(more)) => {
                    all.extend(more);
                    Origins::These(all)
                }
                (Some(Origins::Any), _) | (_, Origins::Any) => Origins::Any,
            };
            named.insert(bucket, together);
        }
        let others = named.remove(ANY).unwrap_or_default();
        Self { buckets: named, others }
    }

    /// Whether any origin may use everything.
    pub(crate) fn is_open(&self) -> bool {
        self.buckets.is_empty() && self.others == Origins::Any
    }

    /// What `origin` is told about `bucket`, or about the server itself.
    pub(crate) fn judge(&self, bucket: Option<&BucketId>, origin: Option<&[u8]>) -> Verdict {
        let own = bucket.and_then(|bucket| {
            self.buckets.get(if bucket.is_base() { BASE } else { bucket.as_str() })
        });
        match (own.unwrap_or(&self.others), origin.map(std::str::from_utf8)) {
            (Origins::Any, _) => Verdict::Any,
            (Origins::These(all), Some(Ok(origin))) if all.contains(origin) => Verdict::This,
            (Origins::These(_), _) => Verdict::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(rules: &[&str]) -> Cors {
        Cors::new(rules.iter().map(|rule| Rule::parse(rule).unwrap()))
    }

    #[test]
    fn a_rule_is_a_bucket_and_the_origins_that_browsers_write() {
        for good in [
            "demo=*",
            "/=https://a.example",
            "*=http://localhost:5173,https://[::1]:8443",
            "demo=tauri://localhost",
        ] {
            assert!(Rule::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "demo",
            "demo=",
            "=https://a.example",
            "abc=https://a.example",
            "Demo=https://a.example",
            "demo=a.example",
            "demo=https://A.example",
            "demo=https://a.example/",
            "demo=https://a.example:443",
            "demo=http://a.example:80",
            "demo=https://a.example,",
            "demo=https://a.example, https://b.example",
            "demo=*,https://a.example",
            "demo=null",
            "demo=://a",
        ] {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bucket_has_its_own_rule_or_that_of_all_others() {
        let rules = ["demo=https://a.example", "demo=https://b.example", "*=https://c.example"];
        let cors = cors(&rules);
        let (demo, other) = (BucketId::parse("demo").unwrap(), BucketId::parse("other").unwrap());
        let judge = |bucket, origin: &str| cors.judge(bucket, Some(origin.as_bytes()));
        assert_eq!(judge(Some(&demo), "https://a.example"), Verdict::This);
        assert_eq!(judge(Some(&demo), "https://b.example"), Verdict::This);
        assert_eq!(judge(Some(&demo), "https://c.example"), Verdict::None);
        for bucket in [Some(&other), Some(&BucketId::base()), None] {
            assert_eq!(judge(bucket, "https://c.example"), Verdict::This);
            assert_eq!(judge(bucket, "https://a.example"), Verdict::None);
            assert_eq!(cors.judge(bucket, None), Verdict::None);
        }
        assert!(!cors.is_open());
    }

    #[test]
    fn any_origin_in_one_of_several_rules_is_any() {
        let demo = BucketId::parse("demo").unwrap();
        for rules in [["demo=*", "demo=https://a.example"], ["demo=https://a.example", "demo=*"]] {
            assert_eq!(cors(&rules).judge(Some(&demo), None), Verdict::Any);
        }
        assert!(Cors::default().is_open());
    }
}
