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

/// An element and its quality in thousandths (RFC 9110 §12.4.2): its first part, and the weight
/// that one of its parameters may be. `None` where the weight is malformed.
pub(super) fn weighted(element: &str) -> Option<(&str, u16)> {
    let mut parts = elements(element, b';');
    let first = parts.next()?;
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| trim(name).eq_ignore_ascii_case("q"));
    match weight {
        Some((_, value)) => Some((first, thousandths(trim(value))?)),
        None => Some((first, 1_000)),
    }
}

/// `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`
fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, fraction) {
        ("0", _) => Some(fraction),
        ("1", 0) => Some(1_000),
        _ => None,
    }
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
