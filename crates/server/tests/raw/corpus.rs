//! The corpus of unclear framing, as tables. `{T}` is the path of a stream of text that exists,
//! `{S}` a whole request that would create another one: it must never be served.
//!
//! Where hyper's parser decides, its choice is noted:
//! - A `Transfer-Encoding` whose last coding is not `chunked` is a 400 without a body from hyper
//!   (RFC 9112 §6.3 asks for just that); the 501 of `extensions.md` §10 is given where `chunked`
//!   comes last and something stands before it.
//! - A single LF ends a header line (RFC 9112 §2.2 allows it), but never a chunk's line.
//! - Equal repeated `Content-Length` fields count once (RFC 9110 §8.6 allows it), a list does not.
//! - Bytes between the size and the end of a chunk's line are skipped.

/// What has to come of a case. In none is `{S}` served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want {
    /// Refused, or not answered at all; nothing applied; closed.
    Gone,
    /// As `Gone`, when the client sends no more after these bytes.
    Cut,
    /// This status, once; nothing applied.
    Is(u16),
    /// One append of this text.
    Stored(&'static str),
    /// The same, and the connection ends.
    StoredThenClosed(&'static str),
}

use Want::{Cut, Gone, Is, Stored, StoredThenClosed};

/// A case.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) want: Want,
}

const CHUNKED: &str = "5\r\nhello\r\n0\r\n\r\n";

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let lengths = LENGTHS.iter().map(|(lines, want)| {
        let smuggled = if matches!(want, Gone) { "{S}" } else { "" };
        framed(lines, &format!("hello{smuggled}"), *want)
    });
    let codings = CODINGS.iter().map(|(lines, want)| {
        let smuggled = if matches!(want, Stored(_)) { "" } else { "{S}" };
        framed(lines, &format!("{CHUNKED}{smuggled}"), *want)
    });
    let chunked = |body: &str, want| framed("Transfer-Encoding: chunked", body, want);
    let chunks = CHUNKS.iter().map(|(body, want)| chunked(body, *want));
    let chunks = chunks.chain(huge().into_iter().map(|body| chunked(&body, Gone)));
    let rest = "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";
    let heads =
        HEADS.iter().map(|(head, behind, want)| whole(&format!("{head}\r\n{rest}{behind}"), *want));
    let lines =
        BROKEN_LINES.iter().map(|line| whole(&format!("{line}\r\nHost: h\r\n{rest}{{S}}"), Gone));
    let short = CUT_SHORT.iter().map(|bytes| whole(bytes, Cut));
    lengths.chain(codings).chain(chunks).chain(heads).chain(lines).chain(short).collect()
}

/// A POST of text with these lines of framing.
fn framed(lines: &str, body: &str, want: Want) -> Case {
    let head = "POST {T} HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n";
    whole(&format!("{head}{lines}\r\n\r\n{body}"), want)
}

fn whole(text: &str, want: Want) -> Case {
    let shown: String = text.chars().take(300).collect();
    Case { name: shown.escape_debug().to_string(), bytes: text.as_bytes().to_vec(), want }
}

/// Lines of framing before the five bytes `hello`.
const LENGTHS: &[(&str, Want)] = &[
    ("Content-Length: 5", Stored("hello")),
    ("content-length: 5", Stored("hello")),
    ("CONTENT-LENGTH:5", Stored("hello")),
    ("Content-Length: \t 5 \t", Stored("hello")),
    ("Content-Length: 05", Stored("hello")),
    ("Content-Length: 5\r\nContent-Length: 5", Stored("hello")),
    ("Content-Length: 5\nX-Other: 1", Stored("hello")),
    ("X-Other: 1\nContent-Length: 5", Stored("hello")),
    ("Content-Length: 5\r\nTE: chunked, trailers", Stored("hello")),
    ("Content-Length: 5\r\nTransfer_Encoding: chunked", Stored("hello")),
    ("Content-Length: 5\r\nX-Transfer-Encoding: chunked", Stored("hello")),
    ("Content-Length: 5\r\nConnection: Content-Length", Stored("hello")),
    ("Content-Length: 5\r\nConnection: Upgrade\r\nUpgrade: h2c", Stored("hello")),
    ("Content-Length: 5\r\nConnection: Upgrade\r\nUpgrade: websocket", Stored("hello")),
    ("Content-Length: 5\r\nX-Other: \u{e9}", Stored("hello")),
    ("Content-Length: +5", Gone),
    ("Content-Length: -5", Gone),
    ("Content-Length: -0", Gone),
    ("Content-Length: 5,5", Gone),
    ("Content-Length: 5, 5", Gone),
    ("Content-Length: 5, 6", Gone),
    ("Content-Length: 0x5", Gone),
    ("Content-Length: 5.0", Gone),
    ("Content-Length: 5e0", Gone),
    ("Content-Length: 5 5", Gone),
    ("Content-Length: 5;5", Gone),
    ("Content-Length: \"5\"", Gone),
    ("Content-Length: five", Gone),
    ("Content-Length: \u{ff15}", Gone),
    ("Content-Length:", Gone),
    ("Content-Length: 99999999999999999999", Gone),
    ("Content-Length: 18446744073709551615", Gone),
    ("Content-Length: 18446744073709551613", Gone),
    ("Content-Length: 9223372036854775808", Gone),
    ("Content-Length: 5\r\nContent-Length: 6", Gone),
    ("Content-Length: 6\r\nContent-Length: 5", Gone),
    ("Content-Length: 5\r\nContent-Length: 0", Gone),
    ("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 4", Gone),
    ("Content-Length: 5\r\nContent-Length: 5, 5", Gone),
    ("Content-Length: 5\r\nContent-Length:", Gone),
    ("Content-Length : 5", Gone),
    ("Content-Length\t: 5", Gone),
    (" Content-Length: 5", Gone),
    ("X-Other: 1\r\n Content-Length: 5", Gone),
    ("Content-Length:\r\n 5", Gone),
    ("Content-Length: 5\r\n\t", Gone),
    ("Content-Length: 5\rX-Other: 1", Gone),
    ("X-Other: 1\rContent-Length: 5", Gone),
    ("Content-Length: 5\r", Gone),
    ("Content-Length: 5\0", Gone),
    ("Content-Length: \u{b}5", Gone),
    ("Content-Length\0: 5", Gone),
    ("\0Content-Length: 5", Gone),
    ("Content\u{7f}Length: 5", Gone),
    ("X-Other: a\0b\r\nContent-Length: 5", Gone),
    ("X-Other: a\u{1}b\r\nContent-Length: 5", Gone),
    ("X-Other: a\u{7f}b\r\nContent-Length: 5", Gone),
    ("X Other: 1\r\nContent-Length: 5", Gone),
    ("X-Other\r\nContent-Length: 5", Gone),
    (": 1\r\nContent-Length: 5", Gone),
    ("X-\u{e9}: 1\r\nContent-Length: 5", Gone),
];

/// Lines of framing before `hello` in one chunk and the end of the body.
const CODINGS: &[(&str, Want)] = &[
    ("Transfer-Encoding: chunked", Stored("hello")),
    ("transfer-encoding: Chunked", Stored("hello")),
    ("Transfer-Encoding: CHUNKED", Stored("hello")),
    ("Transfer-Encoding:  \t chunked \t", Stored("hello")),
    ("Transfer-Encoding: chunked, chunked", Is(501)),
    ("Transfer-Encoding: gzip, chunked", Is(501)),
    ("Transfer-Encoding: identity, chunked", Is(501)),
    ("Transfer-Encoding: x, chunked", Is(501)),
    ("Transfer-Encoding: ,chunked", Is(501)),
    ("Transfer-Encoding: chunked;q=1, chunked", Is(501)),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Is(501)),
    ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", Is(501)),
    ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", Is(501)),
    ("Transfer-Encoding: gzip", Is(400)),
    ("Transfer-Encoding: identity", Is(400)),
    ("Transfer-Encoding: chunked, gzip", Is(400)),
    ("Transfer-Encoding: chunked, identity", Is(400)),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", Is(400)),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Is(400)),
    ("Transfer-Encoding: xchunked", Is(400)),
    ("Transfer-Encoding: chunkedx", Is(400)),
    ("Transfer-Encoding: chunked;q=1", Is(400)),
    ("Transfer-Encoding: \"chunked\"", Is(400)),
    ("Transfer-Encoding: 'chunked'", Is(400)),
    ("Transfer-Encoding: chun ked", Is(400)),
    ("Transfer-Encoding: chunked,", Is(400)),
    ("Transfer-Encoding: \u{a0}chunked", Is(400)),
    ("Transfer-Encoding:", Is(400)),
    ("Transfer-Encoding: gzip\r\nContent-Length: 15", Is(400)),
    ("Content-Length: 15\r\nTransfer-Encoding: identity", Is(400)),
    ("Content-Length: 15\r\nTransfer-Encoding: xchunked", Is(400)),
    ("Transfer-Encoding: \u{b}chunked", Gone),
    ("Transfer-Encoding: chunked\u{c}", Gone),
    ("Transfer-Encoding: chunked\0", Gone),
    ("Transfer-Encoding: chu\rnked", Gone),
    ("Transfer-Encoding : chunked", Gone),
    ("Transfer-Encoding\t: chunked", Gone),
    (" Transfer-Encoding: chunked", Gone),
    ("Transfer-Encoding:\r\n chunked", Gone),
    ("Transfer-Encoding: chunked\r\n , gzip", Gone),
    ("Transfer\u{0}-Encoding: chunked", Gone),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", StoredThenClosed("hello")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", StoredThenClosed("hello")),
    ("Content-Length: 0\r\nTransfer-Encoding: chunked", StoredThenClosed("hello")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0", StoredThenClosed("hello")),
    ("Content-Length: 400\r\nTransfer-Encoding: chunked", StoredThenClosed("hello")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 400", StoredThenClosed("hello")),
    ("Transfer-Encoding: chunked\r\nContent-Length: x", StoredThenClosed("hello")),
    ("Content-Length: x\r\nTransfer-Encoding: chunked", Gone),
    ("Content-Length: 5\r\nContent-Length: 6\r\nTransfer-Encoding: chunked", Gone),
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive",
        StoredThenClosed("hello"),
    ),
];

/// Bodies that are declared chunked.
const CHUNKS: &[(&str, Want)] = &[
    ("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", Stored("hello")),
    ("0005\r\nhello\r\n000\r\n\r\n", Stored("hello")),
    ("a\r\nhellohello\r\n0\r\n\r\n", Stored("hellohello")),
    ("A\r\nhellohello\r\n0\r\n\r\n", Stored("hellohello")),
    ("5;a=b\r\nhello\r\n0;c\r\n\r\n", Stored("hello")),
    ("5 ; a = \"b;c\"\r\nhello\r\n0\r\n\r\n", Stored("hello")),
    ("5 \t\r\nhello\r\n0\r\n\r\n", Stored("hello")),
    ("5;\r\nhello\r\n0\r\n\r\n", Stored("hello")),
    ("7\r\n0\r\n\r\nab\r\n0\r\n\r\n", Stored("0\r\n\r\nab")),
    ("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", Stored("hello")),
    ("5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n", Stored("hello")),
    ("5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n", Stored("hello")),
    ("5\r\nhello\r\n0\r\nHost: evil\r\nStream-Closed: true\r\n\r\n", Stored("hello")),
    ("5\r\nhello\r\n0\r\nContent-Type: text/html\r\nStream-Seq: 1\r\n\r\n", Stored("hello")),
    ("+5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("-5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("0x5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5h\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("g\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("\r\nhello\r\n0\r\n\r\n{S}", Gone),
    (" 5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5 5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    (";a=b\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5,5\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\0\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\rhello\r\n0\r\n\r\n{S}", Gone),
    ("5\r\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\n\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5;a\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5;a=\rb\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\r\nhello\n0\r\n\r\n{S}", Gone),
    ("5\r\nhello\r0\r\n\r\n{S}", Gone),
    ("5\r\nhello0\r\n\r\n{S}", Gone),
    ("5\r\nhelloXX0\r\n\r\n{S}", Gone),
    ("4\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("6\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("5\r\nhello\r\n-0\r\n\r\n{S}", Gone),
    ("5\r\nhello\r\n\r\n{S}", Gone),
    ("0\n\r\n{S}", Gone),
    ("5\r\nhello\r\n0\n\n{S}", Gone),
    // hyper takes what follows for trailers, up to an empty line: swallowed, not served.
    ("0\r\n\n{S}", Is(400)),
    ("5\r\nhello\r\n0\r\n\n{S}", Stored("hello")),
    ("5\r\nhello\r\n0\r\n\rX{S}", Gone),
    ("5\r\nhello\r\n0\r\nX-Sum : 1\r\n\r\n{S}", Gone),
    ("5\r\nhello\r\n0\r\nX-Sum\r\n\r\n{S}", Gone),
    ("5\r\nhello\r\n0\r\nX-Sum: a\0b\r\n\r\n{S}", Gone),
    ("5\r\nhello\r\n0\r\n: 1\r\n\r\n{S}", Gone),
    ("10000000000000000\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("10000000000000005\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("fffffffffffffffff\r\nhello\r\n0\r\n\r\n{S}", Gone),
    ("ffffffffffffffff\r\nhello\r\n0\r\n\r\n{S}", Cut),
    ("7fffffffffffffff\r\nhello\r\n0\r\n\r\n{S}", Cut),
    ("5\r\nhello\r\n0\r\n", Cut),
    ("5\r\nhello\r\n0\r\nX-Sum: 1\r\n", Cut),
    ("5\r\nhello\r\n0", Cut),
    ("5\r\nhello\r\n", Cut),
    ("5\r\nhel", Cut),
    ("5\r", Cut),
    ("", Cut),
];

/// Extensions and trailers past what anybody has to read.
fn huge() -> [String; 3] {
    let extension = format!("5;{}\r\nhello\r\n0\r\n\r\n{{S}}", "a".repeat(20_000));
    let trailer = format!("5\r\nhello\r\n0\r\nX-Sum: {}\r\n\r\n{{S}}", "a".repeat(70_000));
    let trailers = format!("5\r\nhello\r\n0\r\n{}\r\n{{S}}", "X-Sum: 1\r\n".repeat(200));
    [extension, trailer, trailers]
}

/// Request lines that are none, each before a whole head, a byte of body and a hidden request.
const BROKEN_LINES: &[&str] = &[
    "POST  {T} HTTP/1.1",
    "POST {T}  HTTP/1.1",
    "POST\t{T}\tHTTP/1.1",
    " POST {T} HTTP/1.1",
    "POST {T} HTTP/1.1 ",
    "POST {T} HTTP/1.1x",
    "POST {T} HTTP/1.01",
    "POST {T} http/1.1",
    "POST {T} HTTP 1.1",
    "POST {T} HTTP/1.2",
    "POST {T} HTTP/2.0",
    "POST {T} HTTP/0.9",
    "POST {T} HTTP/",
    "POST {T} HTTP/1.1\r",
    "POST {T} HTTP/1.1\rX-Other: 1",
    "POST {T}",
    "GET {T}",
    "POST HTTP/1.1",
    "POST",
    "POST {T} x HTTP/1.1",
    "POST {T}\0 HTTP/1.1",
    "POST {T}\rHTTP/1.1",
    "POST {T}\u{7f} HTTP/1.1",
    "PO\0ST {T} HTTP/1.1",
    "P(OST {T} HTTP/1.1",
    "PO\u{e9}ST {T} HTTP/1.1",
    "{T} HTTP/1.1",
    "\0\0\0\0",
    "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}",
];

/// Whole messages but for their end, which is always the same.
const HEADS: &[(&str, &str, Want)] = &[
    ("\r\nPOST {T} HTTP/1.1\r\nHost: h", "", Stored("x")),
    ("\r\n\r\n\nPOST {T} HTTP/1.1\r\nHost: h", "", Stored("x")),
    ("POST http://other{T} HTTP/1.1\r\nHost: h", "", Stored("x")),
    ("POST {T} HTTP/1.1\nHost: h", "", Stored("x")),
    ("POST {T} HTTP/1.0", "{S}", StoredThenClosed("x")),
    ("POST {T} HTTP/1.0\r\nConnection: keep-alive", "", Stored("x")),
    ("POST {T} HTTP/1.1\r\nHost: h\r\nConnection: close", "{S}", StoredThenClosed("x")),
    ("GET {T} HTTP/1.1\r\nHost: h", "", Is(200)),
    ("POST {T} HTTP/1.0\r\nTransfer-Encoding: chunked", "{S}", Gone),
    ("POST {T} HTTP/1.1\r\nHost: h\r\nHost: h", "{S}", Gone),
    ("POST {T} HTTP/1.1", "{S}", Gone),
];

/// Messages that end too soon.
const CUT_SHORT: &[&str] = &[
    "POST {T} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel",
    "POST {T} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
    "POST {T} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n",
    "POST {T} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r",
    "POST {T} HTTP/1.1",
    "POST {T}",
    "P",
];
