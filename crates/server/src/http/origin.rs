//! Which request it was: ids that a client or a proxy gives a request, to find it again in a log
//! (`X-Request-Id`, and `traceparent` of W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::random;

/// What a request is called.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The longest request id that is taken, in bytes. A longer one is as if there were none.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What tells a request from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The client's, or one made here.
    pub(super) request_id: String,
    /// The trace that it belongs to; empty without one.
    pub(super) trace_id: String,
}

impl Origin {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = given(headers).and_then(|id| id.to_str().ok());
        let trace_id = headers.get(TRACEPARENT).and_then(|value| trace_id(value.as_bytes()));
        Self {
            request_id: given.map_or_else(made, str::to_owned),
            trace_id: trace_id.unwrap_or_default().to_owned(),
        }
    }

    /// For a request whose head is gone.
    pub(super) fn unknown() -> Self {
        Self { request_id: made(), trace_id: String::new() }
    }
}

fn made() -> String {
    format!("{:016x}", random::number())
}

/// The request id that the client gave, if it is one: printable ASCII without spaces, given once.
pub(super) fn given(headers: &HeaderMap) -> Option<&HeaderValue> {
    // Looking through the few names costs less than a search in the map, and mostly there is none.
    let mut values = headers.iter().filter(|(name, _)| *name == X_REQUEST_ID).map(|(_, id)| id);
    let (Some(id), None) = (values.next(), values.next()) else { return None };
    let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
    (fits && id.as_bytes().iter().all(u8::is_ascii_graphic)).then_some(id)
}

/// The trace id of a `traceparent`: `version-trace_id-parent_id-flags`, in lowercase hexadecimal.
/// Versions to come may have more behind it.
fn trace_id(value: &[u8]) -> Option<&str> {
    const LENS: [usize; 4] = [2, 32, 16, 2];
    let text = str::from_utf8(value).ok()?;
    let mut fields = text.split('-');
    let mut read = LENS.map(|_| "");
    for (field, len) in read.iter_mut().zip(LENS) {
        *field = fields.next()?;
        let is_hex = field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if field.len() != len || !is_hex {
            return None;
        }
    }
    let [version, trace, parent, _flags] = read;
    let is_zero = |field: &str| field.bytes().all(|b| b == b'0');
    let ends = version != "00" || fields.next().is_none();
    (version != "ff" && ends && !is_zero(trace) && !is_zero(parent)).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_gives_its_trace_id_and_nothing_malformed_does() {
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(trace_id(good.as_bytes()), Some(TRACE));
        assert_eq!(trace_id(format!("cc-{}-more", &good[3..]).as_bytes()), Some(TRACE));
        for bad in [
            "",
            "00",
            TRACE,
            &good[..54],
            &format!("{good}-more"),
            &good.to_uppercase(),
            &good.replace("00-", "ff-"),
            &good.replace("00f067aa0ba902b7", "0000000000000000"),
            &good.replace(TRACE, &"0".repeat(32)),
            "00-ü",
        ] {
            assert_eq!(trace_id(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_request_id_is_one_short_printable_word() {
        let headers = |values: &[&[u8]]| {
            let values = values.iter().map(|value| HeaderValue::from_bytes(value).unwrap());
            values.map(|value| (X_REQUEST_ID, value)).collect::<HeaderMap>()
        };
        let taken = |values: &[&[u8]]| given(&headers(values)).is_some();
        assert!(taken(&[b"a-1"]) && taken(&[&[b'x'; 128]]));
        for bad in [&b""[..], b"a b", b"\xff", &[b'x'; 129]] {
            assert!(!taken(&[bad]), "{bad:?}");
        }
        assert!(!taken(&[b"a", b"b"]) && !taken(&[]));
        assert_eq!(Origin::of(&headers(&[b"a-1"])).request_id, "a-1");
        let made = Origin::of(&headers(&[b"a b"]));
        assert_eq!((made.request_id.len(), made.trace_id.as_str()), (16, ""));
    }
}
