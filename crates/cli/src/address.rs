//! How a stream and a server are named on the command line, and the URL paths they stand for.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Uri;

/// A stream: `BUCKET/STREAM`, `/ds/BUCKET/STREAM` or `/v1/stream/PATH`. The names are plain text;
/// percent-encoding them is done here and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamAddress {
    /// As it was written.
    text: String,
    surface: Surface,
    /// The decoded segments behind the surface's prefix: bucket and stream, or those of the path.
    names: Vec<String>,
}

/// Which of the server's three surfaces (`extensions.md` §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    /// `/BUCKET/STREAM`: publishing a snapshot trims nothing.
    Root,
    /// `/ds/BUCKET/STREAM`: publishing a snapshot also trims.
    Ds,
    /// `/v1/stream/PATH`: a name space of its own, of any depth.
    Base,
}

/// The base URL of a server, without a trailing slash. It may have a path, as behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl(String);

/// Why an address was not understood: what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadAddress(&'static str);

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl StreamAddress {
    /// The stream's path on the server.
    pub(crate) fn path(&self) -> String {
        let mut path = String::from(self.surface.prefix());
        for name in &self.names {
            path.push('/');
            path.push_str(&encode(name));
        }
        path
    }

    /// The path of a sub-resource, like `snapshot`. On the base surface, where a path may have any
    /// depth, `~` marks where it begins.
    pub(crate) fn sub_path(&self, resource: &str) -> String {
        let mark = match self.surface {
            Surface::Base => "/~",
            Surface::Root | Surface::Ds => "",
        };
        format!("{}{mark}/{resource}", self.path())
    }

    /// The bucket; none on the base surface.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self.surface {
            Surface::Base => None,
            Surface::Root | Surface::Ds => self.names.first().map(String::as_str),
        }
    }
}

/// As it was written.
impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StreamAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (surface, rest) = if let Some(rest) = text.strip_prefix("/v1/stream/") {
            (Surface::Base, rest)
        } else if let Some(rest) = text.strip_prefix("/ds/") {
            (Surface::Ds, rest)
        } else {
            (Surface::Root, text)
        };
        let names: Vec<String> = rest.split('/').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(BadAddress("expected BUCKET/STREAM, /ds/BUCKET/STREAM or /v1/stream/PATH"));
        }
        match (surface, names.len()) {
            (Surface::Base, _) | (Surface::Root | Surface::Ds, 2) => {
                Ok(Self { text: text.to_owned(), surface, names })
            }
            (Surface::Root | Surface::Ds, 1) => {
                Err(BadAddress("expected BUCKET/STREAM, like demo/hello"))
            }
            (Surface::Root | Surface::Ds, _) => {
                Err(BadAddress("a stream id has no '/'; paths of any depth live under /v1/stream/"))
            }
        }
    }
}

impl Surface {
    fn prefix(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Ds => "/ds",
            Self::Base => "/v1/stream",
        }
    }
}

impl BaseUrl {
    /// The URL of `path`, which begins with a slash.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Whether the server is on this machine, where no proxy can be meant.
    pub(crate) fn is_loopback(&self) -> bool {
        let uri: Uri = self.0.parse().expect("checked when it was made");
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare == "localhost",
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BaseUrl {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let expected = BadAddress("expected a URL like http://127.0.0.1:4437");
        let text = text.trim_end_matches('/');
        let Ok(uri) = text.parse::<Uri>() else {
            return Err(expected);
        };
        let scheme_is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        if scheme_is_known && uri.host().is_some_and(|h| !h.is_empty()) && uri.query().is_none() {
            Ok(Self(text.to_owned()))
        } else {
            Err(expected)
        }
    }
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadAddress {}

/// `text` as one segment of a path, or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> StreamAddress {
        text.parse().expect(text)
    }

    #[test]
    fn every_surface_has_its_paths() {
        for (text, path, snapshot, bucket) in [
            ("demo/hello", "/demo/hello", "/demo/hello/snapshot", Some("demo")),
            ("/ds/demo/hello", "/ds/demo/hello", "/ds/demo/hello/snapshot", Some("demo")),
            ("/v1/stream/a/b/c", "/v1/stream/a/b/c", "/v1/stream/a/b/c/~/snapshot", None),
        ] {
            let address = address(text);
            assert_eq!(address.path(), path);
            assert_eq!(address.sub_path("snapshot"), snapshot);
            assert_eq!(address.bucket(), bucket);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn names_are_plain_text_and_encoded_exactly_once() {
        for (text, path) in [
            ("demo/a b", "/demo/a%20b"),
            ("demo/100%", "/demo/100%25"),
            ("demo/%20", "/demo/%2520"),
            ("demo/?x=1&y#z", "/demo/%3Fx%3D1%26y%23z"),
            ("demo/a+b", "/demo/a%2Bb"),
            ("demo/🙂", "/demo/%F0%9F%99%82"),
            ("demo/-_.~", "/demo/-_.~"),
            ("/v1/stream/a b/c%", "/v1/stream/a%20b/c%25"),
        ] {
            assert_eq!(address(text).path(), path);
        }
    }

    #[test]
    fn a_stream_needs_a_bucket_and_no_empty_name() {
        for text in [
            "",
            "hello",
            "/",
            "demo/",
            "/demo/hello",
            "demo/a/b",
            "demo//a",
            "/ds/demo",
            "/ds/demo/a/b",
            "/v1/stream/",
            "/v1/stream/a//b",
            "/v1/stream",
        ] {
            assert!(text.parse::<StreamAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_base_url_may_have_a_path_and_loses_its_last_slash() {
        for (text, joined) in [
            ("http://localhost:4437", "http://localhost:4437/x"),
            ("http://localhost:4437/", "http://localhost:4437/x"),
            ("https://example.com/streams/", "https://example.com/streams/x"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().expect(text).join("/x"), joined);
        }
        for text in ["", "localhost:4437", "ftp://x", "http://", "http://x/?q=1", "http://a b"] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn loopback_is_told_from_the_host_alone() {
        for (text, loopback) in [
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:4437", true),
            ("https://localhost/x", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(text.parse::<BaseUrl>().expect(text).is_loopback(), loopback, "{text}");
        }
    }
}
