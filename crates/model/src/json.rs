//! JSON as the protocol needs it: is it valid, and what are its messages, byte for byte.

use serde::de::IgnoredAny;

/// The deepest nesting that is accepted, the outer array included.
const DEPTH_MAX: usize = 128;

/// The messages of a request body: the elements of an array, or else the one value. Each is the
/// sender's text, trimmed. The error is a problem code.
pub fn messages(body: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let text = str::from_utf8(body).map_err(|_invalid| "INVALID_JSON")?.trim_matches(is_space);
    let (commas, deepest) = scan(text.as_bytes());
    if deepest > DEPTH_MAX {
        return Err("JSON_TOO_DEEP");
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|_invalid| "INVALID_JSON")?;
    if !text.starts_with('[') {
        return Ok(vec![text.into()]);
    }
    let inner = text.len() - 1;
    if text[1..inner].trim_matches(is_space).is_empty() {
        return Ok(Vec::new());
    }
    let starts = std::iter::once(0).chain(commas.iter().copied());
    let ends = commas.iter().copied().chain([inner]);
    let element = |(start, end): (usize, usize)| text[start + 1..end].trim_matches(is_space);
    Ok(starts.zip(ends).map(|span| element(span).into()).collect())
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Where the commas one level deep are, and how deep it gets.
fn scan(text: &[u8]) -> (Vec<usize>, usize) {
    let (mut commas, mut depth, mut deepest) = (Vec::new(), 0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => commas.push(at),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    (commas, deepest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(body: &str) -> Result<Vec<String>, &'static str> {
        let strings =
            |all: Vec<Vec<u8>>| all.iter().map(|m| m.escape_ascii().to_string()).collect();
        messages(body.as_bytes()).map(strings)
    }

    #[test]
    fn one_level_of_array_is_taken_off_and_no_text_is_changed() {
        assert_eq!(texts(" 1.0 ").unwrap(), ["1.0"]);
        assert_eq!(texts("[1 , [2,3],{\"a\":[4,\",\"]}]").unwrap().len(), 3);
        assert_eq!(texts("[[[1, 2]]]").unwrap(), ["[[1, 2]]"]);
        assert_eq!(texts("[\"a\\\\\",2]").unwrap().len(), 2);
        assert_eq!(texts("[ ]").unwrap(), [""; 0]);
        assert_eq!(texts("[\"\\ud800\",99999999999999999999999]").unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in ["", " ", "{", "[1,]", "NaN", "1 2", "[1]]", "\u{feff}1", "'a'", "01"] {
            assert_eq!(texts(bad), Err("INVALID_JSON"), "{bad}");
        }
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(texts(&nested(128)).is_ok());
        assert_eq!(texts(&nested(129)), Err("JSON_TOO_DEEP"));
    }
}
