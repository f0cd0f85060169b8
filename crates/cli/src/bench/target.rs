//! The server under test: where it is, and how a request to it is spelled.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::SystemTime;

use ureq::http::Uri;

use crate::address::BaseUrl;
use crate::failure::{Exit, Failure};

/// A server, and a place of our own below which a run creates its streams.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    host: String,
    /// Path of the streams, without a slash at its end.
    prefix: String,
    /// Part of every stream's name: two runs never meet.
    run: String,
    authorization: Option<String>,
}

/// The base protocol's name space, for a URL without a path.
const BASE_SURFACE: &str = "/v1/stream";

impl Target {
    /// `url` is the prefix of stream URLs.
    pub(crate) fn new(url: &BaseUrl, authorization: Option<String>) -> Result<Self, Failure> {
        let uri: Uri = url.join("/").parse().expect("checked when it was made");
        if uri.scheme_str() != Some("http") {
            let what = format!("cannot measure {url}: only plain http:// is spoken here");
            let hint = "point --url at the server itself, not at a proxy with TLS".to_owned();
            return Err(Failure::new(Exit::Usage, what).hint(hint));
        }
        let host = uri.authority().map_or("", |authority| authority.as_str()).to_owned();
        let bare = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let unknown = |error| {
            let what = format!("cannot resolve {bare}");
            Failure::because(Exit::Unavailable, what, &error)
        };
        let mut found = (bare, uri.port_u16().unwrap_or(80)).to_socket_addrs().map_err(unknown)?;
        let address = found.next().ok_or_else(|| {
            Failure::new(Exit::Unavailable, format!("cannot resolve {bare}: it has no address"))
        })?;
        let prefix = match uri.path().trim_end_matches('/') {
            "" => BASE_SURFACE,
            path => path,
        };
        Ok(Self { address, host, prefix: prefix.to_owned(), run: run_name(), authorization })
    }

    /// The path of this run's `n`th stream.
    pub(crate) fn stream(&self, n: usize) -> String {
        format!("{}/{}-{n}", self.prefix, self.run)
    }

    /// The path of a sub-resource of `stream`. In the base protocol's name space `~` marks it.
    pub(crate) fn part(&self, stream: &str, resource: &str) -> String {
        let is_base = self.prefix == BASE_SURFACE || self.prefix.starts_with("/v1/stream/");
        format!("{stream}{}/{resource}", if is_base { "/~" } else { "" })
    }

    /// A request without a body.
    pub(crate) fn request(&self, method: &str, path: &str) -> Vec<u8> {
        let mut head = self.head(method, path);
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// A request with a body.
    pub(crate) fn with_body(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Vec<u8> {
        let mut request = self.body_head(method, path, content_type, body.len() as u64);
        request.extend_from_slice(body);
        request
    }

    /// What comes before a body of `len` bytes.
    pub(crate) fn body_head(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        len: u64,
    ) -> Vec<u8> {
        let head = self.head(method, path);
        format!("{head}Content-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n").into_bytes()
    }

    fn head(&self, method: &str, path: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if let Some(value) = &self.authorization {
            write!(head, "Authorization: {value}\r\n").expect("a String takes everything");
        }
        head
    }
}

fn run_name() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("bench-{:x}-{:x}", since.as_millis(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        let url = url.parse().expect("a URL");
        Target::new(&url, Some("Bearer x".to_owned())).expect("a loopback address")
    }

    #[test]
    fn streams_live_below_the_prefix_and_never_meet_those_of_another_run() {
        for (url, stream, part) in [
            ("http://127.0.0.1:1", "/v1/stream/bench-", "/~/snapshot"),
            ("http://127.0.0.1:1/v1/stream/", "/v1/stream/bench-", "/~/snapshot"),
            ("http://127.0.0.1:1/v1/stream/a", "/v1/stream/a/bench-", "/~/snapshot"),
            ("http://127.0.0.1:1/demo", "/demo/bench-", "/snapshot"),
        ] {
            let target = target(url);
            let path = target.stream(7);
            assert!(path.starts_with(stream) && path.ends_with("-7"), "{path}");
            assert_eq!(target.part(&path, "snapshot"), format!("{path}{part}"));
        }
        assert_ne!(target("http://127.0.0.1:1").stream(0), {
            std::thread::sleep(std::time::Duration::from_millis(2));
            target("http://127.0.0.1:1").stream(0)
        });
    }

    #[test]
    fn a_request_has_what_the_server_needs_and_nothing_else() {
        let target = target("http://[::1]:80");
        assert_eq!(
            String::from_utf8(target.with_body("POST", "/x", "text/plain", b"hello")).unwrap(),
            "POST /x HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer x\r\n\
             Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
        );
        assert_eq!(
            String::from_utf8(target.request("GET", "/x")).unwrap(),
            "GET /x HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer x\r\n\r\n"
        );
    }

    #[test]
    fn tls_is_refused_with_what_to_do() {
        let url = "https://127.0.0.1".parse().expect("a URL");
        let failure = Target::new(&url, None).expect_err("no TLS here");
        assert!(format!("{failure:?}").contains("only plain http://"), "{failure:?}");
    }
}
