//! Addresses: what a URL path names (`extensions.md` §1), and the way back.
//!
//! A path is split at each literal slash; then each segment is percent-decoded exactly once. `+`
//! is a plus.
//!
//! ```text
//! /v1/stream/{path…}[/~/{resource}]        base
//! /ds/{bucket}[/{stream}[/{resource}]]     ds
//! /{bucket}[/{stream}[/{resource}]]        root
//! /-/…  /v1/stream/__ds/…                  the server itself
//! ```

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use smallvec::SmallVec;

use crate::ids::{BucketId, InvalidName, StreamName};
use crate::wire::invalid::{Invalid, code, shown};

#[cfg(test)]
mod tests;

/// The three ways to reach the same store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surface {
    /// `/v1/stream/{path}`: the base protocol, a name space of its own.
    Base,
    /// `/ds/{bucket}/{stream}`: publishing a snapshot also advances retention.
    Ds,
    /// `/{bucket}/{stream}`: publishing never does.
    Root,
}

/// What a path names. Whether it exists, and which methods it takes, is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/`
    Root,
    /// Everything under `/-/`: the rest of the path, not decoded, without its leading slash.
    Operational(&'a str),
    /// Everything under `/v1/stream/__ds/`: the rest, as above.
    SubscriptionApi(&'a str),
    /// A bucket.
    Bucket {
        /// The surface of the request.
        surface: Surface,
        /// Its id.
        bucket: BucketId,
    },
    /// The listing of a bucket's streams.
    Listing {
        /// The surface of the request.
        surface: Surface,
        /// The bucket's id.
        bucket: BucketId,
    },
    /// A stream or something that belongs to it.
    Stream {
        /// The surface of the request.
        surface: Surface,
        /// The stream's full name.
        name: StreamName,
        /// What of it.
        resource: Resource,
    },
}

/// Few paths have more segments than are held without an allocation.
type Segments<T> = SmallVec<[T; 8]>;

/// What of a stream a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The stream itself.
    Stream,
    /// `…/snapshot`
    Snapshot,
    /// `…/snapshot/{offset}`; the offset is decoded and not yet read.
    SnapshotAt(String),
    /// `…/retention`
    Retention,
    /// `…/retention/{offset}`; the offset is decoded and not yet read.
    RetentionAt(String),
    /// `…/bootstrap`
    Bootstrap,
    /// `…/append-batch`
    AppendBatch,
    /// `…/attrs`
    Attributes,
}

/// Why a path names nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// 400: it cannot be read, or holds a name that no bucket or stream can have.
    Invalid(Invalid),
    /// 404: well-formed, but there is no such thing.
    Unknown {
        /// What was looked for, for the client's developer.
        detail: String,
    },
}

impl From<Invalid> for PathError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Unknown { detail } => f.write_str(detail),
        }
    }
}

impl std::error::Error for PathError {}

/// Reads the path of a request, as it stands in the request line (no query).
pub fn parse(raw_path: &str) -> Result<Target<'_>, PathError> {
    let Some(path) = raw_path.strip_prefix('/') else {
        let detail = format!("a path begins with a slash, got {}", shown(raw_path));
        return Err(Invalid::new(code::INVALID_PATH, detail).into());
    };
    if path.is_empty() {
        return Ok(Target::Root);
    }
    if let Some(target) = own(path) {
        return Ok(target);
    }
    let path = decode(path)?;
    let segments: Segments<&str> = split(&path).collect();
    if segments.contains(&"") {
        let detail = "a path has no empty segment and no slash at its end";
        return Err(Invalid::new(code::INVALID_PATH, detail).into());
    }
    match *segments.as_slice() {
        ["v1", "stream", ref rest @ ..] => on_base(rest),
        ["v1", _, ..] => Err(unknown("there is nothing under /v1 but /v1/stream")),
        ["ds", ref rest @ ..] if !rest.is_empty() => in_bucket(Surface::Ds, rest),
        ref all => in_bucket(Surface::Root, all),
    }
}

/// Reads a path that must name a stream itself, on any surface: `Stream-Forked-From`.
pub fn parse_stream(raw_path: &str) -> Result<StreamName, Invalid> {
    let refused = |reason: &str| {
        let detail =
            format!("expected the percent-encoded path of a stream, {reason}: {}", shown(raw_path));
        Invalid::new(code::INVALID_FORK, detail)
    };
    if !raw_path.starts_with('/') {
        return Err(refused("beginning with a slash, no absolute URL"));
    }
    if raw_path.contains(['?', '#']) {
        return Err(refused("without query and fragment"));
    }
    match parse(raw_path) {
        Ok(Target::Stream { name, resource: Resource::Stream, .. }) => Ok(name),
        Ok(_) | Err(PathError::Unknown { .. }) => Err(refused("got another one")),
        Err(PathError::Invalid(invalid)) => Err(Invalid { code: code::INVALID_FORK, ..invalid }),
    }
}

/// The percent-encoded path of a stream's resource, for `Location` and `Link`.
pub fn encode(surface: Surface, name: &StreamName, resource: &Resource) -> String {
    let mut path = match surface {
        Surface::Base => String::from("/v1/stream"),
        Surface::Ds | Surface::Root => encode_bucket(surface, &name.bucket()),
    };
    // On the base surface the local name is itself a path; elsewhere it holds no slash.
    for segment in name.local().split('/') {
        push_segment(&mut path, segment);
    }
    let (kind, offset) = match resource {
        Resource::Stream => return path,
        Resource::Snapshot => ("snapshot", None),
        Resource::SnapshotAt(offset) => ("snapshot", Some(offset)),
        Resource::Retention => ("retention", None),
        Resource::RetentionAt(offset) => ("retention", Some(offset)),
        Resource::Bootstrap => ("bootstrap", None),
        Resource::AppendBatch => ("append-batch", None),
        Resource::Attributes => ("attrs", None),
    };
    if surface == Surface::Base {
        path.push_str("/~");
    }
    push_segment(&mut path, kind);
    if let Some(offset) = offset {
        push_segment(&mut path, offset);
    }
    path
}

/// The path of a bucket, whose id has nothing to encode. There are none on the base surface; what
/// comes out there is the prefix of all its streams.
pub fn encode_bucket(surface: Surface, bucket: &BucketId) -> String {
    match surface {
        Surface::Base => String::from("/v1/stream"),
        Surface::Ds => format!("/ds/{}", bucket.as_str()),
        Surface::Root => format!("/{}", bucket.as_str()),
    }
}

/// Whether each `%` in `text` begins an escape.
pub(super) fn has_only_whole_escapes(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'%', rest) {
        match rest[at + 1..] {
            [high, low, ref behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = behind;
            }
            _ => return false,
        }
    }
    true
}

/// What RFC 3986 lets stand in a segment as it is: `pchar` without the escapes.
const SEGMENT_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

fn push_segment(path: &mut String, segment: &str) {
    write!(path, "/{}", utf8_percent_encode(segment, SEGMENT_ENCODED))
        .expect("writing to a String never fails");
}

/// The parts of the name space that have rules of their own: their rest is not decoded here.
fn own(path: &str) -> Option<Target<'_>> {
    let below = |prefix: &[&str]| {
        let mut rest = Some(path);
        for expected in prefix {
            let (first, behind) = split_first(rest?);
            if segment(first).ok()? != *expected {
                return None;
            }
            rest = behind;
        }
        Some(rest.unwrap_or_default())
    };
    below(&["-"])
        .map(Target::Operational)
        .or_else(|| below(&["v1", "stream", "__ds"]).map(Target::SubscriptionApi))
}

/// The segments of a path.
fn split(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let (first, behind) = split_first(rest?);
        rest = behind;
        Some(first)
    })
}

/// The first segment, and what follows the slash behind it.
fn split_first(path: &str) -> (&str, Option<&str>) {
    match path.bytes().position(|byte| byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

/// Decodes a path segment by segment; none of them holds a slash afterwards.
fn decode(path: &str) -> Result<Cow<'_, str>, Invalid> {
    if !path.bytes().any(|byte| byte == b'%') {
        return Ok(Cow::Borrowed(path));
    }
    let segments = split(path).map(segment).collect::<Result<Vec<_>, _>>()?;
    Ok(Cow::Owned(segments.join("/")))
}

/// Decodes one segment.
fn segment(raw: &str) -> Result<Cow<'_, str>, Invalid> {
    let refused = |rule: &str| {
        Invalid::new(code::INVALID_PATH, format!("{rule}, got the segment {}", shown(raw)))
    };
    if !raw.bytes().any(|byte| byte == b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    if !has_only_whole_escapes(raw) {
        return Err(refused("a % is followed by two hexadecimal digits"));
    }
    match percent_decode_str(raw).decode_utf8() {
        Ok(text) if text.contains('/') => Err(refused("a segment has no encoded slash")),
        Ok(text) => Ok(text),
        Err(_) => Err(refused("a path is UTF-8")),
    }
}

fn on_base(segments: &[&str]) -> Result<Target<'static>, PathError> {
    let tilde = segments.iter().position(|segment| *segment == "~");
    let (path, below) = segments.split_at(tilde.unwrap_or(segments.len()));
    let name = StreamName::on_base(path.iter().copied()).map_err(invalid_stream)?;
    let resource = match below {
        [] => Resource::Stream,
        [_, below @ ..] => resource(below)?,
    };
    Ok(Target::Stream { surface: Surface::Base, name, resource })
}

fn in_bucket(surface: Surface, segments: &[&str]) -> Result<Target<'static>, PathError> {
    let (bucket, below) = match segments {
        [bucket, below @ ..] => (*bucket, below),
        [] => ("", segments),
    };
    let bucket = BucketId::parse(bucket).map_err(|InvalidName { rule }| {
        Invalid::new(code::INVALID_BUCKET_ID, format!("{rule}, got {}", shown(bucket)))
    })?;
    let (stream, below) = match below {
        [] => return Ok(Target::Bucket { surface, bucket }),
        ["streams"] => return Ok(Target::Listing { surface, bucket }),
        [stream, below @ ..] => (*stream, below),
    };
    let name = StreamName::in_bucket(&bucket, stream).map_err(invalid_stream)?;
    let resource = if below.is_empty() { Resource::Stream } else { resource(below)? };
    Ok(Target::Stream { surface, name, resource })
}

/// What stands behind a stream's name.
fn resource(below: &[&str]) -> Result<Resource, PathError> {
    match *below {
        ["snapshot"] => Ok(Resource::Snapshot),
        ["snapshot", offset] => Ok(Resource::SnapshotAt(offset.into())),
        ["retention"] => Ok(Resource::Retention),
        ["retention", offset] => Ok(Resource::RetentionAt(offset.into())),
        ["bootstrap"] => Ok(Resource::Bootstrap),
        ["append-batch"] => Ok(Resource::AppendBatch),
        ["attrs"] => Ok(Resource::Attributes),
        [] => Err(unknown("a ~ is followed by what of the stream is meant, such as ~/snapshot")),
        [first, ..] => Err(unknown(&format!("a stream has nothing called {}", shown(first)))),
    }
}

fn invalid_stream(InvalidName { rule }: InvalidName) -> PathError {
    Invalid::new(code::INVALID_STREAM_ID, rule).into()
}

fn unknown(detail: &str) -> PathError {
    PathError::Unknown { detail: detail.into() }
}
