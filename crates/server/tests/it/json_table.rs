//! Which JSON is taken and which is refused, as one fixed table: what is taken is kept byte for
//! byte and can be read in each form, what is refused leaves nothing behind.

use crate::support::{Answer, Headwater, get, head, offset, post};

/// What is kept of each body, messages joined by commas as an array has them.
const TAKEN: [(&[u8], &str); 34] = [
    (b"null", "null"),
    (b"true", "true"),
    (b"[false]", "false"),
    (b"0", "0"),
    (b"-0", "-0"),
    (b"-0.0E+00", "-0.0E+00"),
    (b"1e400", "1e400"),
    (b"1E-9999", "1E-9999"),
    (b"9007199254740993", "9007199254740993"),
    (b"3.14159265358979323846264338327950288", "3.14159265358979323846264338327950288"),
    (b"\"\"", "\"\""),
    (b"\"\\ud800\"", "\"\\ud800\""),
    (b"\"\\udc00\\ud800\"", "\"\\udc00\\ud800\""),
    (b"\"\\u0000\"", "\"\\u0000\""),
    (b"\"\x7f\"", "\"\x7f\""),
    ("\"\u{2028}\u{2029}\"".as_bytes(), "\"\u{2028}\u{2029}\""),
    ("\"\u{feff}\"".as_bytes(), "\"\u{feff}\""),
    ("\"\u{10ffff}\u{ffff}\"".as_bytes(), "\"\u{10ffff}\u{ffff}\""),
    (b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    (b"{}", "{}"),
    (b"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}"),
    (b"{\"\":{\"\":[]}}", "{\"\":{\"\":[]}}"),
    (b"{\"__proto__\":{\"x\":1}}", "{\"__proto__\":{\"x\":1}}"),
    (b"{\"b\":1,\"a\":2}", "{\"b\":1,\"a\":2}"),
    (b"{ \"a\" :\t1\n,\r\"b\": [ ] }", "{ \"a\" :\t1\n,\r\"b\": [ ] }"),
    (b"[[]]", "[]"),
    (b"[[],[]]", "[],[]"),
    (b"[[[1]],2]", "[[1]],2"),
    (b"[1,2,3]", "1,2,3"),
    (b"[\"a,b\",\"]\"]", "\"a,b\",\"]\""),
    (b" \t\r\n1 \t\r\n", "1"),
    (b"\n[\n1\n,\n2\n]\n", "1,2"),
    (b"[null,null]", "null,null"),
    (b"123456789012345678901234567890123456789", "123456789012345678901234567890123456789"),
];

/// Bodies that are refused, with the code of the 400.
const REFUSED: [(&[u8], &str); 61] = [
    (b"", "EMPTY_BODY"),
    (b"[]", "EMPTY_ARRAY"),
    (b"[ \n ]", "EMPTY_ARRAY"),
    (b" ", "INVALID_JSON"),
    (b"\0", "INVALID_JSON"),
    (b"1\0", "INVALID_JSON"),
    (b"\xef\xbb\xbf1", "INVALID_JSON"),
    (b"\xef\xbb\xbf", "INVALID_JSON"),
    (b"\xff\xfe1\0", "INVALID_JSON"),
    (b"\0\0\0\x31", "INVALID_JSON"),
    (b"\xc2\xa01", "INVALID_JSON"),
    (b"\x0b1", "INVALID_JSON"),
    (b"\x0c1", "INVALID_JSON"),
    (b"NaN", "INVALID_JSON"),
    (b"[NaN]", "INVALID_JSON"),
    (b"Infinity", "INVALID_JSON"),
    (b"-Infinity", "INVALID_JSON"),
    (b"undefined", "INVALID_JSON"),
    (b"True", "INVALID_JSON"),
    (b"nul", "INVALID_JSON"),
    (b"nulls", "INVALID_JSON"),
    (b"+1", "INVALID_JSON"),
    (b"-", "INVALID_JSON"),
    (b"--1", "INVALID_JSON"),
    (b"01", "INVALID_JSON"),
    (b"-01", "INVALID_JSON"),
    (b"1.", "INVALID_JSON"),
    (b".1", "INVALID_JSON"),
    (b"1e", "INVALID_JSON"),
    (b"1e+", "INVALID_JSON"),
    (b"0x1", "INVALID_JSON"),
    (b"1_000", "INVALID_JSON"),
    (b"1 2", "INVALID_JSON"),
    (b"1,2", "INVALID_JSON"),
    (b"1\n2\n", "INVALID_JSON"),
    (b"{}{}", "INVALID_JSON"),
    (b"[1]x", "INVALID_JSON"),
    (b"[1]]", "INVALID_JSON"),
    (b"[1", "INVALID_JSON"),
    (b"[1,", "INVALID_JSON"),
    (b"[1,]", "INVALID_JSON"),
    (b"[,1]", "INVALID_JSON"),
    (b"[1,,2]", "INVALID_JSON"),
    (b"[1 2]", "INVALID_JSON"),
    (b"{", "INVALID_JSON"),
    (b"{\"a\"", "INVALID_JSON"),
    (b"{\"a\":}", "INVALID_JSON"),
    (b"{\"a\":1,}", "INVALID_JSON"),
    (b"{a:1}", "INVALID_JSON"),
    (b"{'a':1}", "INVALID_JSON"),
    (b"{1:1}", "INVALID_JSON"),
    (b"\"", "INVALID_JSON"),
    (b"\"\\", "INVALID_JSON"),
    (b"\"\\x41\"", "INVALID_JSON"),
    (b"\"\\u12\"", "INVALID_JSON"),
    (b"\"\n\"", "INVALID_JSON"),
    (b"\"\0\"", "INVALID_JSON"),
    (b"\"\xff\"", "INVALID_JSON"),
    (b"\"\xed\xa0\x80\"", "INVALID_JSON"),
    (b"\"\xc0\xaf\"", "INVALID_JSON"),
    (b"// 1\n1", "INVALID_JSON"),
];

fn append(server: &Headwater, body: impl AsRef<[u8]>) -> Answer {
    server.send(post("/demo/s").json(body))
}

#[test]
fn what_is_json_is_taken_and_kept_byte_for_byte() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let mut all = Vec::new();
    for (body, kept) in TAKEN {
        let from = server.send(head("/demo/s")).next_offset().to_owned();
        let answer = append(&server, body);
        assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(body));
        let read = server.send(get(format!("/demo/s?offset={from}"))).expect(200);
        assert_eq!(read.text(), format!("[{kept}]"));
        all.push(kept);
    }
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), format!("[{}]", all.join(",")));
}

#[test]
fn what_is_no_json_is_refused_and_leaves_nothing() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    for (body, code) in REFUSED {
        let answer = append(&server, body);
        let told = (answer.status, answer.value()["code"].clone());
        assert_eq!(told, (400, code.into()), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
}

#[test]
fn json_that_is_built_to_exhaust_is_refused_by_its_limits() {
    let server = Headwater::with(|config| config.append_bytes_max = 8 * 1024 * 1024);
    server.create("/demo/s", "application/json", "");
    let open = |text: &str, times: usize| text.repeat(times);
    for (name, body, status, code) in [
        ("129 arrays", open("[", 129) + &open("]", 129), 400, "JSON_TOO_DEEP"),
        ("129 objects", open("{\"a\":", 129) + "1" + &open("}", 129), 400, "JSON_TOO_DEEP"),
        ("a million open arrays", open("[", 1_000_000), 400, "JSON_TOO_DEEP"),
        ("a million open objects", open("{\"a\":", 1_000_000), 400, "JSON_TOO_DEEP"),
        ("deep behind much", format!("[{}{}", open("1,", 9), open("[", 999)), 400, "JSON_TOO_DEEP"),
        ("millions of elements", format!("[{}1]", open("1,", 2_000_000)), 413, "TOO_MANY_MESSAGES"),
        ("millions of spaces", open(" ", 8_000_000), 400, "INVALID_JSON"),
        ("spaces and no end", "[".to_owned() + &open("\n", 8_000_000), 400, "INVALID_JSON"),
        ("a string without end", "\"".to_owned() + &open("a", 8_000_000), 400, "INVALID_JSON"),
        ("a number without end", open("9", 8_000_000) + "x", 400, "INVALID_JSON"),
        ("escapes without end", "\"".to_owned() + &open("\\\\", 4_000_000), 400, "INVALID_JSON"),
        ("more than an append", open(" ", 8 * 1024 * 1024 + 1), 413, "BODY_TOO_LARGE"),
    ] {
        let answer = append(&server, body);
        assert_eq!(
            (answer.status, answer.value()["code"].as_str()),
            (status, Some(code)),
            "{name}"
        );
    }
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
    // Many of a kind, but not too many.
    for body in [
        open("[", 128) + &open("]", 128),
        format!("[{}1]", open("[[[]]],", 100_000)),
        format!("[{}]", open("{\"a\":1,", 1) + &open("\"a\":1,", 100_000) + "\"a\":1}"),
        open(" ", 4_000_000) + "1" + &open(" ", 4_000_000),
    ] {
        append(&server, body).expect(204);
    }
}
