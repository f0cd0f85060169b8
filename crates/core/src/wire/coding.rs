//! Which content coding a client prefers (RFC 9110 §12.5.3), and for what none is of use.

use crate::content::ContentType;
use crate::wire::list;

/// How the bytes of an answer's body are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As they are.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// What `Accept-Encoding` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The coding that the client likes best of those that there are.
    pub best: Coding,
    /// Whether it takes bodies as they are. Where no coding is taken, it gets them all the same.
    pub identity: bool,
}

/// More elements than this in one request are not looked at.
const ELEMENTS_MAX: usize = 32;

impl Coding {
    /// The coding's name in headers; none where a body is as it is.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

impl Accepted {
    /// Reads the lines of `Accept-Encoding`. Ties go to the coding that is cheaper for both sides:
    /// zstd before gzip. Without a quality of its own, identity comes last.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut gzip, mut zstd, mut identity, mut others) = (None, None, None, None);
        let elements = lines.into_iter().flat_map(|line| list::elements(line, b','));
        for element in elements.take(ELEMENTS_MAX) {
            let Some((name, quality)) = list::weighted(element) else { continue };
            let slot = match name {
                "*" => &mut others,
                name if name.eq_ignore_ascii_case("gzip") => &mut gzip,
                // RFC 9110 §8.4.1.3: the old name of the same.
                name if name.eq_ignore_ascii_case("x-gzip") => &mut gzip,
                name if name.eq_ignore_ascii_case("zstd") => &mut zstd,
                name if name.eq_ignore_ascii_case("identity") => &mut identity,
                _ => continue,
            };
            // Of the same name twice, the first counts.
            slot.get_or_insert(quality);
        }
        let quality = |slot: Option<u16>| slot.or(others).unwrap_or(0);
        let (gzip, zstd) = (quality(gzip), quality(zstd));
        let takes_identity = identity.or(others.filter(|quality| *quality == 0)) != Some(0);
        let least = if takes_identity { identity.unwrap_or(0) } else { 0 };
        let best = if zstd > 0 && zstd >= gzip && zstd >= least {
            Coding::Zstd
        } else if gzip > 0 && gzip >= least {
            Coding::Gzip
        } else {
            Coding::Identity
        };
        Self { best, identity: takes_identity }
    }
}

/// Media types whose bytes are compressed already: coding them again costs time and gains nothing.
const COMPRESSED: [&str; 14] = [
    "application/gzip",
    "application/java-archive",
    "application/vnd.rar",
    "application/x-7z-compressed",
    "application/x-brotli",
    "application/x-bzip2",
    "application/x-gzip",
    "application/x-rar-compressed",
    "application/x-xz",
    "application/x-zip-compressed",
    "application/zip",
    "application/zstd",
    "font/woff",
    "font/woff2",
];

/// Whether bytes of this type are compressed already.
pub fn is_compressed(content: &ContentType) -> bool {
    let media = content.as_str().split(';').next().unwrap_or_default().trim_ascii_end();
    let is = |other: &str| media.eq_ignore_ascii_case(other);
    let begins =
        |kind: &str| media.get(..kind.len()).is_some_and(|front| front.eq_ignore_ascii_case(kind));
    // Pictures and sound that are not: text in tags, and samples as they are.
    let plain = is("image/svg+xml") || is("image/bmp") || is("audio/wav") || is("audio/x-wav");
    let media_kind = begins("image/") || begins("video/") || begins("audio/");
    (media_kind && !plain) || COMPRESSED.iter().any(|compressed| is(compressed))
}

#[cfg(test)]
mod tests {
    use super::Coding::{Gzip, Identity, Zstd};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_choice_follows_quality_and_ties_go_to_zstd() {
        for (lines, best, identity) in [
            (&[][..], Identity, true),
            (&[""], Identity, true),
            (&["gzip"], Gzip, true),
            (&["X-Gzip"], Gzip, true),
            (&["gzip, deflate, br"], Gzip, true),
            (&["gzip, deflate, br, zstd"], Zstd, true),
            (&["gzip", "zstd;q=0.9"], Gzip, true),
            (&["gzip;q=0.5, zstd;q=0.5"], Zstd, true),
            (&["ZSTD"], Zstd, true),
            (&["*"], Zstd, true),
            (&["*;q=0.1"], Zstd, true),
            (&["zstd;q=0, *"], Gzip, true),
            (&["*;q=0"], Identity, false),
            (&["gzip, *;q=0"], Gzip, false),
            (&["identity, *;q=0"], Identity, true),
            (&["gzip, identity;q=0"], Gzip, false),
            (&["identity;q=0"], Identity, false),
            (&["gzip;q=0"], Identity, true),
            (&["gzip;q=0.0, zstd;q=0.000"], Identity, true),
            (&["identity, gzip;q=0.5"], Identity, true),
            (&["identity;q=0.5, gzip;q=0.5"], Gzip, true),
            (&["identity;q=0.5, gzip;q=0.499"], Identity, true),
            (&["gzip;q=2"], Identity, true),
            (&["gzip;q="], Identity, true),
            (&["br, deflate"], Identity, true),
            (&["gzip;q=0, gzip"], Identity, true),
            (&["gzip;x=1;q=0.5"], Gzip, true),
        ] {
            let accepted = Accepted::read(lines.iter().copied());
            assert_eq!(accepted, Accepted { best, identity }, "{lines:?}");
        }
    }

    #[test]
    fn pictures_sound_and_archives_are_compressed_already() {
        for (content, expected) in [
            ("image/png", true),
            ("IMAGE/PNG; x=y", true),
            ("image/svg+xml", false),
            ("video/mp4", true),
            ("audio/ogg", true),
            ("audio/wav", false),
            ("application/zip", true),
            ("application/gzip", true),
            ("application/zipper", false),
            ("application/octet-stream", false),
            ("application/json", false),
            ("text/plain", false),
        ] {
            let content = ContentType::parse(content).unwrap();
            assert_eq!(is_compressed(&content), expected, "{content:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_asked_for(text in ".*") {
            let accepted = Accepted::read([text.as_str()]);
            prop_assert_eq!(accepted.best.name().is_none(), accepted.best == Identity);
        }
    }
}
