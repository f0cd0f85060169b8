//! What holds for a request whatever it is about: the demands of RFC 9112 and 9113 that hyper
//! leaves to its user.

use http::request::Parts;
use http::{HeaderValue, StatusCode, Version, header};

use super::respond::Failure;

/// Refuses a head that no resource may see. Behind this, `Host` is the host that the request is
/// for, whichever way the client named it.
pub(super) fn admit(head: &mut Parts) -> Result<(), Failure> {
    if head.version == Version::HTTP_2 && head.uri.authority().is_some() {
        check_host_and_authority(head)?;
    } else {
        check_transfer_codings(head)?;
        check_host(head)?;
    }
    // RFC 9112 §3.2.2: an absolute target overrides the field.
    if let Some(authority) = head.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str())
            .map_err(|_not_a_value| bad_host("the host of an absolute target cannot be read"))?;
        if !is_host(&host) {
            return Err(bad_host("the target names a user, or a host that cannot be read"));
        }
        head.headers.insert(header::HOST, host);
    }
    Ok(())
}

/// hyper insists on `chunked` as the last coding, and says nothing of others before it.
fn check_transfer_codings(head: &Parts) -> Result<(), Failure> {
    let codings = head.headers.get_all(header::TRANSFER_ENCODING);
    let mut others =
        codings.iter().filter(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if others.next().is_none() && codings.iter().count() < 2 {
        return Ok(());
    }
    let failure = Failure::problem(
        StatusCode::NOT_IMPLEMENTED,
        "UNSUPPORTED_TRANSFER_ENCODING",
        "No such transfer coding here",
        "The only transfer coding is chunked, once.",
    );
    Err(failure.closing())
}

/// RFC 9112 §3.2: exactly one `Host`, and a valid one; only HTTP/1.0 knows requests without.
fn check_host(head: &Parts) -> Result<(), Failure> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host) => Ok(()),
        (Some(_), None) => Err(bad_host("the field Host is not a host with or without a port")),
        (Some(_), Some(_)) => Err(bad_host("the field Host is there more than once")),
        (None, _) if head.version < Version::HTTP_11 => Ok(()),
        (None, _) => Err(bad_host("the field Host is missing")),
    }
}

/// RFC 9113 §8.3.1: beside `:authority` the field `Host` is not needed, but says the same.
fn check_host_and_authority(head: &Parts) -> Result<(), Failure> {
    let authority = head.uri.authority().map_or("", |authority| authority.as_str());
    let mut hosts = head.headers.get_all(header::HOST).iter();
    if hosts.any(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())) {
        return Err(bad_host("the field Host and :authority differ"));
    }
    Ok(())
}

/// Whether a value is `host [":" port]`, and nothing that could pass for another part of a URL or
/// for two hosts: names of hosts need no more than letters, digits and a few marks.
fn is_host(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let (host, behind, is_legal): (_, _, fn(u8) -> bool) = if let Some(literal) =
        text.strip_prefix('[')
    {
        let Some((address, behind)) = literal.split_once(']') else { return false };
        (address, behind, |b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
    } else {
        let (host, behind) = text.split_at(text.find(':').unwrap_or(text.len()));
        let is_legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
        (host, behind, is_legal)
    };
    let port_is_legal = match behind.strip_prefix(':') {
        Some("") => true,
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => behind.is_empty(),
    };
    !host.is_empty() && host.bytes().all(is_legal) && port_is_legal
}

fn bad_host(what: &str) -> Failure {
    let detail = format!("Expected one valid Host: {what}.");
    Failure::problem(StatusCode::BAD_REQUEST, "INVALID_HOST", "The host is not clear", detail)
        .closing()
}
