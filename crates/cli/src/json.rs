//! The little that the client knows of JSON: which streams are JSON, and how to take an array of
//! messages apart without changing one byte of them.

use std::fmt::Write as _;

use serde_json::value::RawValue;

/// Whether `content_type` is the one that makes a stream a JSON stream; parameters do not count.
pub(crate) fn is_json(content_type: &str) -> bool {
    media_type(content_type).eq_ignore_ascii_case("application/json")
}

/// `content_type` without its parameters.
pub(crate) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Appends each element of the JSON array `text` to `out`, one a line.
pub(crate) fn array_to_lines(text: &[u8], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let elements: Vec<&RawValue> = serde_json::from_slice(text)?;
    for element in elements {
        push_line(element.get().as_bytes(), out);
    }
    Ok(())
}

/// Appends the JSON value `text` to `out` as one line. A raw line break in a JSON text can only be
/// white space between tokens, so it may become a space.
pub(crate) fn push_line(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().map(|&byte| match byte {
        b'\n' | b'\r' => b' ',
        other => other,
    }));
    out.push(b'\n');
}

/// `text` fit for a header: other characters than ASCII, which can stand in strings only, become
/// escapes; line breaks and tabs, which can stand between tokens only, become spaces.
pub(crate) fn for_header(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_ascii() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
                }
            }
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_the_media_type_alone() {
        for yes in ["application/json", "APPLICATION/JSON; charset=utf-8", " application/json "] {
            assert!(is_json(yes), "{yes}");
        }
        for no in ["", "application/ndjson", "text/json", "application/problem+json"] {
            assert!(!is_json(no), "{no}");
        }
    }

    #[test]
    fn messages_keep_every_byte_but_line_breaks_between_tokens() {
        let mut out = Vec::new();
        let text = br#"[ 9007199254740993,1.0, {"a":1,"a":2} ,"x\ny\ud800",
            [1,
2]]"#;
        array_to_lines(text, &mut out).expect("valid");
        let lines = String::from_utf8(out).expect("UTF-8");
        assert_eq!(lines, "9007199254740993\n1.0\n{\"a\":1,\"a\":2}\n\"x\\ny\\ud800\"\n[1, 2]\n");
    }

    #[test]
    fn deep_messages_and_empty_arrays_are_no_trouble() {
        let deep = format!("[{}{}]", "[".repeat(128), "]".repeat(128));
        let mut out = Vec::new();
        array_to_lines(deep.as_bytes(), &mut out).expect("valid");
        assert_eq!(out.len(), 257);

        out.clear();
        array_to_lines(b"[]", &mut out).expect("valid");
        assert!(out.is_empty());
        assert!(array_to_lines(b"{}", &mut out).is_err());
        assert!(array_to_lines(b"[1,", &mut out).is_err());
    }

    #[test]
    fn attributes_fit_into_a_header_and_mean_the_same() {
        let text = "{\n\t\"name\": \"grün 🙂\"}\n";
        let header = for_header(text);
        assert_eq!(header, r#"{  "name": "gr\u00fcn \ud83d\ude42"}"#);
        let meaning = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(meaning(&header), meaning(text));
    }
}
