//! JSON: what a body is taken for, held against `serde_json`.

use bytes::BytesMut;
use headwater_core::ids::Record;
use headwater_core::json::{self, DEPTH_MAX, JsonError, MESSAGES_MAX};
use serde_json::value::RawValue;

/// The same bodies are JSON for both, and fall into the same messages.
pub(crate) fn run(data: &[u8]) {
    let ours = json::split(data);
    let text = match (std::str::from_utf8(data), &ours) {
        (Ok(text), _) => text,
        (Err(error), Err(JsonError::Utf8 { at })) => return assert_eq!(*at, error.valid_up_to()),
        (Err(_), ours) => panic!("no UTF-8, but {ours:?}"),
    };
    let theirs = reference(text);
    match (&ours, &theirs) {
        (Ok(messages), Some(wanted)) => {
            assert!(depth(text) <= DEPTH_MAX, "nested deeper than is allowed");
            check(messages, wanted);
        }
        (Err(JsonError::Syntax { at, .. }), None) => assert!(*at <= data.len()),
        (Err(JsonError::TooDeep { at }), _) => {
            assert!(depth(text) > DEPTH_MAX, "too deep at {at}, they say");
        }
        (Err(JsonError::TooMany { .. }), Some(wanted)) => assert!(wanted.len() > MESSAGES_MAX),
        _ => panic!("{ours:?}, but the reference says {theirs:?}"),
    }
    let object = json::object(data);
    let is_object = text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{');
    match object {
        Ok(object) => assert_eq!(theirs.as_deref(), Some(&[object.to_owned()][..])),
        Err(_) => assert!(!is_object || ours.is_err(), "an object, but none for us"),
    }
}

/// The messages of a body as texts.
fn reference(text: &str) -> Option<Vec<String>> {
    let whole: Box<RawValue> = serde_json::from_str(text).ok()?;
    if !whole.get().starts_with('[') {
        return Some(vec![whole.get().to_owned()]);
    }
    let elements: Vec<Box<RawValue>> = serde_json::from_str(whole.get()).expect("it is an array");
    Some(elements.iter().map(|element| element.get().to_owned()).collect())
}

fn check(messages: &json::Messages, wanted: &[String]) {
    let mut rest = &messages.bytes[..];
    assert_eq!(messages.lens.len(), wanted.len());
    for (record, (len, wanted)) in (0..).map(Record).zip(messages.lens.iter().zip(wanted)) {
        let (message, behind) = rest.split_at(*len as usize);
        assert_eq!(message, format!("{wanted},").as_bytes());
        let line = wanted.replace(['\r', '\n'], " ");
        let mut out = BytesMut::new();
        json::write_line(&mut out, message);
        assert_eq!(out, format!("{line}\n"));
        out.clear();
        json::write_record_line(&mut out, record, message);
        assert_eq!(out, format!("{{\"record\":{record},\"value\":{line}}}\n"));
        rest = behind;
    }
    assert!(rest.is_empty(), "bytes that belong to no message");
    let mut page = BytesMut::new();
    json::write_array(&mut page, &messages.bytes);
    assert_eq!(page, format!("[{}]", wanted.join(",")));
    // The brackets of a page may be one level too many for a body.
    if depth(&String::from_utf8_lossy(&page)) <= DEPTH_MAX {
        assert_eq!(json::split(&page).as_ref(), Ok(messages), "a page is a body");
    }
}

/// How deep the brackets outside strings nest; for what is no JSON, up to where that is plain.
fn depth(text: &str) -> u32 {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_u32, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
