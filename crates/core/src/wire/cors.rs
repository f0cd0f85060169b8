//! What browsers are told (`base-protocol.md` §12, `extensions.md` §10).

/// `Access-Control-Allow-Methods`
pub const ALLOW_METHODS: &str = "GET, POST, PUT, DELETE, HEAD, OPTIONS";

/// `Access-Control-Allow-Headers`: every request header that means something to the server.
pub const ALLOW_HEADERS: &str = "content-type, authorization, if-none-match, stream-seq, \
    stream-ttl, stream-expires-at, stream-closed, producer-id, producer-epoch, producer-seq, \
    stream-forked-from, stream-fork-offset, stream-fork-sub-offset, stream-snapshot-match, \
    stream-record-match, stream-attrs, prefer, accept, range, if-range, last-event-id, traceparent";

/// `Access-Control-Expose-Headers`: every response header that a client may need.
pub const EXPOSE_HEADERS: &str = "Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, \
    Stream-Closed, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Expires-At, Producer-Epoch, \
    Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, ETag, Location, Content-Type, \
    Content-Encoding, Vary, Retry-After, Stream-Snapshot-Offset, Stream-Snapshot-Digest, \
    Stream-Retained-Offset, Stream-Record-First, Stream-Record-Start, Stream-Record-Next, \
    Stream-Extensions, Link, Accept-Ranges, Content-Range, Content-Length, Allow, \
    Preference-Applied";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers;

    fn names(list: &str) -> Vec<String> {
        list.split(", ").map(str::to_ascii_lowercase).collect()
    }

    #[test]
    fn every_protocol_header_is_on_the_list_of_its_direction() {
        let allowed = names(ALLOW_HEADERS);
        for name in &headers::REQUEST {
            assert!(allowed.iter().any(|allowed| allowed == name.as_str()), "{name}");
        }
        let exposed = names(EXPOSE_HEADERS);
        for name in &headers::RESPONSE {
            assert!(exposed.iter().any(|exposed| exposed == name.as_str()), "{name}");
        }
    }

    #[test]
    fn the_lists_are_well_formed_header_values() {
        for list in [ALLOW_METHODS, ALLOW_HEADERS, EXPOSE_HEADERS] {
            assert!(http::HeaderValue::from_static(list).to_str().is_ok());
            assert!(names(list).iter().all(|name| !name.is_empty() && !name.contains(' ')));
        }
        assert_eq!((names(ALLOW_HEADERS).len(), names(EXPOSE_HEADERS).len()), (22, 30));
    }
}
