//! Reading the comma-separated lists of HTTP (RFC 9110 §5.6.1).

/// The non-empty elements of `text`, split at each `separator` outside quoted strings and trimmed
/// of optional white space. Never fails: an unclosed quote runs to the end.
pub(super) fn elements(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = element_end(text.as_bytes(), separator);
        rest = text.get(end + 1..);
        Some(trim(&text[..end]))
    })
    .filter(|element| !element.is_empty())
}

/// `text` without optional white space (RFC 9110 §5.6.3) at both ends.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Where the first element ends: at an ASCII separator or at the end, so always on a character.
fn element_end(text: &[u8], separator: u8) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        elements(text, b',').collect()
    }

    #[test]
    fn lists_split_at_commas_outside_quotes_and_drop_empty_elements() {
        assert_eq!(split("a, b\t,,c"), ["a", "b", "c"]);
        assert_eq!(split(r#"a="x,\",y", b"#), [r#"a="x,\",y""#, "b"]);
        assert_eq!(split(r#"a="x, b"#), [r#"a="x, b"#]);
        assert_eq!(split(" , "), [""; 0]);
        assert_eq!(split("é,ü"), ["é", "ü"]);
    }
}
