//! Content types: what a stream's bytes are, and therefore how they are cut, joined and shown.

use arcstr::{ArcStr, literal};

use crate::wire::invalid::{Invalid, code, shown};

/// The longest content type, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// How a stream's messages are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `application/json`, whatever the parameters: JSON values, served as one array.
    Json,
    /// `text/*`: bytes that SSE sends as text.
    Text,
    /// Everything else, `application/ndjson` and `+json` types included: bytes that SSE encodes.
    Binary,
}

/// A well-formed media type with its parameters, kept exactly as sent. It is printable ASCII (and
/// tabs inside quotes), so it can be put on any line of any protocol. One pointer, cheap to clone.
///
/// `==` compares the texts; what the protocol compares is [`ContentType::same_media_type`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContentType(ArcStr);

impl ContentType {
    /// Reads the value of a `Content-Type` header (RFC 9110 §8.3.1). An empty one counts as
    /// missing, which is for the caller to notice.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > CONTENT_TYPE_BYTES_MAX {
            let detail = format!(
                "a content type has at most {CONTENT_TYPE_BYTES_MAX} bytes, got {}",
                text.len()
            );
            return Err(Invalid::new(code::INVALID_CONTENT_TYPE, detail));
        }
        if let Some(usual) = usual(text) {
            return Ok(Self(usual));
        }
        if !is_media_type(text) {
            let detail = format!(
                "a content type is type/subtype with optional parameters, got {}",
                shown(text)
            );
            return Err(Invalid::new(code::INVALID_CONTENT_TYPE, detail));
        }
        Ok(Self(ArcStr::from(text)))
    }

    /// `application/octet-stream`: what a body without a content type is.
    pub fn octet_stream() -> Self {
        Self(literal!("application/octet-stream"))
    }

    /// The text exactly as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How messages of this type are handled.
    pub fn mode(&self) -> Mode {
        Mode::of(&self.0)
    }

    /// `type/subtype` in lower case, without parameters.
    pub fn media_type(&self) -> String {
        without_parameters(&self.0).to_ascii_lowercase()
    }

    /// Whether both are the same type and subtype; case and parameters do not matter.
    pub fn same_media_type(&self, other: &Self) -> bool {
        without_parameters(&self.0).eq_ignore_ascii_case(without_parameters(&other.0))
    }
}

/// Most requests name one of these, which need no check and no memory of their own.
fn usual(text: &str) -> Option<ArcStr> {
    match text {
        "application/json" => Some(literal!("application/json")),
        "application/octet-stream" => Some(literal!("application/octet-stream")),
        "text/plain" => Some(literal!("text/plain")),
        _ => None,
    }
}

impl Default for ContentType {
    fn default() -> Self {
        Self::octet_stream()
    }
}

impl Mode {
    /// Asked for every message, so that it looks at the few bytes that matter only.
    fn of(text: &str) -> Self {
        if let Some(rest) = after(text, "application/json")
            && (rest.is_empty() || rest.starts_with([';', ' ', '\t']))
        {
            Self::Json
        } else if after(text, "text/").is_some() {
            Self::Text
        } else {
            Self::Binary
        }
    }
}

/// What follows `prefix`, in whatever case it stands there.
fn after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (front, rest) = text.split_at_checked(prefix.len())?;
    front.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The part before the first semicolon, which no type or subtype can contain.
fn without_parameters(text: &str) -> &str {
    text.split(';').next().unwrap_or(text).trim_ascii_end()
}

/// ```text
/// media-type = token "/" token *( OWS ";" OWS [ token "=" ( token / quoted-string ) ] )
/// ```
fn is_media_type(text: &str) -> bool {
    let mut scan = Scan(text.as_bytes());
    if !(scan.token() && scan.byte(b'/') && scan.token()) {
        return false;
    }
    while !scan.0.is_empty() {
        scan.white_space();
        if !scan.byte(b';') {
            return false;
        }
        scan.white_space();
        // RFC 9110 lets a parameter be missing: a trailing or doubled semicolon is fine.
        if scan.0.first().is_none_or(|b| *b == b';') {
            continue;
        }
        if !(scan.token() && scan.byte(b'=') && (scan.token() || scan.quoted_string())) {
            return false;
        }
    }
    true
}

/// What is left to read. Each method eats what it names and says whether it was there.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn byte(&mut self, expected: u8) -> bool {
        match self.0.split_first() {
            Some((byte, rest)) if *byte == expected => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn white_space(&mut self) {
        while self.byte(b' ') || self.byte(b'\t') {}
    }

    fn token(&mut self) -> bool {
        let len = self.0.iter().take_while(|b| is_token_byte(**b)).count();
        self.0 = &self.0[len..];
        len > 0
    }

    fn quoted_string(&mut self) -> bool {
        if !self.byte(b'"') {
            return false;
        }
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            match byte {
                b'"' => return true,
                b'\\' => match self.0.split_first() {
                    Some((b'\t' | b' '..=b'~', rest)) => self.0 = rest,
                    _ => return false,
                },
                b'\t' | b' '..=b'~' => {}
                _ => return false,
            }
        }
        false
    }
}

/// Whether `byte` may stand in a token (RFC 9110 §5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn media_types_are_kept_exactly_as_sent() {
        for good in [
            "text/plain",
            "TEXT/Plain",
            "text/plain;charset=utf-8",
            "text/plain \t;\t charset=utf-8 ; x=\"a\tb;\\\"c\\\\\"",
            "application/vnd.x+json;",
            "a/b;;c=d",
            "a/b; ",
            "!#$%&'*+-.^_`|~/x",
        ] {
            assert_eq!(ContentType::parse(good).expect(good).as_str(), good);
        }
    }

    #[test]
    fn malformed_media_types_are_refused() {
        for bad in [
            "",
            "text",
            "text/",
            "/plain",
            "text/plain/x",
            " text/plain",
            "text/plain ",
            "text /plain",
            "text/plain x",
            "text/plain;charset",
            "text/plain;charset=",
            "text/plain;charset =utf-8",
            "text/plain;charset= utf-8",
            "text/plain;=utf-8",
            "text/plain;x=\"a",
            "text/plain;x=\"a\\",
            "text/plain;x=\"a\"b",
            "text/plain;x=\"a\\\r\"",
            "text/plain\r\nX: y",
            "text/plain\0",
            "text/plain;x=\"\r\n\"",
            "text/plain;x=\"é\"",
            "téxt/plain",
            "text/plain, text/html",
        ] {
            let error = ContentType::parse(bad).expect_err(bad);
            assert_eq!(error.code, code::INVALID_CONTENT_TYPE);
        }
    }

    #[test]
    fn a_content_type_has_at_most_256_bytes() {
        let of_len = |len: usize| format!("text/{}", "x".repeat(len - 5));
        assert!(ContentType::parse(&of_len(256)).is_ok());
        assert!(ContentType::parse(&of_len(257)).is_err());
    }

    #[test]
    fn only_application_json_itself_is_json_and_only_text_is_text() {
        for (text, mode) in [
            ("application/json", Mode::Json),
            ("APPLICATION/JSON ; charset=utf-8", Mode::Json),
            ("application/ndjson", Mode::Binary),
            ("application/problem+json", Mode::Binary),
            ("application/jsonx", Mode::Binary),
            ("text/plain", Mode::Text),
            ("Text/Event-Stream;x=y", Mode::Text),
            ("textual/plain", Mode::Binary),
            ("image/png", Mode::Binary),
        ] {
            assert_eq!(ContentType::parse(text).unwrap().mode(), mode, "{text}");
        }
        assert_eq!(ContentType::default().mode(), Mode::Binary);
        assert_eq!(ContentType::parse("application/octet-stream"), Ok(ContentType::default()));
    }

    #[test]
    fn types_are_compared_without_case_and_parameters() {
        let parse = |text| ContentType::parse(text).unwrap();
        let json = parse("application/json; charset=utf-8");
        assert_eq!(json.media_type(), "application/json");
        assert!(json.same_media_type(&parse("APPLICATION/Json")));
        assert!(!json.same_media_type(&parse("application/jso")));
        assert_ne!(json, parse("application/json"));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_one_printable_line(
            text in "[a-z]{1,3}/[ -~\t\r\n\u{0}é;=\"]{0,12}",
        ) {
            if let Ok(parsed) = ContentType::parse(&text) {
                let printable = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
                prop_assert!(parsed.as_str().bytes().all(printable));
                prop_assert_eq!(parsed.as_str(), text);
            }
        }

        #[test]
        fn any_text_can_be_read(text in ".{0,300}") {
            ContentType::parse(&text).ok();
        }
    }
}
