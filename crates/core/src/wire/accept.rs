//! Which form of a JSON read a client prefers (`extensions.md` §7; RFC 9110 §12.5.1).

use crate::wire::list;

/// The forms in which the messages of a JSON stream can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Representation {
    /// One JSON array, under the stream's own content type.
    Array,
    /// One message a line.
    Ndjson,
    /// `{"record":n,"value":…}` a line.
    RecordNdjson,
}

impl Representation {
    /// All forms, the preferred ones first: this order breaks ties.
    pub(super) const ALL: [Self; 3] = [Self::Array, Self::Ndjson, Self::RecordNdjson];

    /// The media type that asks for this form. An answer has it as its content type, except that
    /// an array goes out under the content type that the stream was created with.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Array => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::RecordNdjson => "application/vnd.durable-stream-records+ndjson",
        }
    }

    /// The form with the highest quality in the `Accept` header, given as its lines. The array
    /// wins ties, and is the answer to `*/*`, to no header and to one that takes none of them.
    pub fn choose<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges: Vec<Range<'a>> = accept
            .into_iter()
            .flat_map(|line| list::elements(line, b','))
            .filter_map(Range::parse)
            .take(RANGES_MAX)
            .collect();
        let mut best = (Self::Array, 0);
        for form in Self::ALL {
            let matching = ranges.iter().filter_map(|range| range.matches(form.media_type()));
            // The most specific range decides; of equally specific ones the kindest.
            let quality = matching.max().map_or(0, |(_, quality)| quality);
            if quality > best.1 {
                best = (form, quality);
            }
        }
        best.0
    }
}

/// More media ranges than this in one request are not looked at.
const RANGES_MAX: usize = 64;

/// One media range and its quality in thousandths. Parameters other than `q` do not matter.
struct Range<'a> {
    media: &'a str,
    quality: u16,
}

impl<'a> Range<'a> {
    /// `None` for a range whose quality is malformed: it is as if it were not there.
    fn parse(element: &'a str) -> Option<Self> {
        let (media, quality) = list::weighted(element)?;
        Some(Self { media, quality })
    }

    /// How specifically this range matches `media_type`, and with which quality.
    fn matches(&self, media_type: &str) -> Option<(u8, u16)> {
        let specificity = if self.media.eq_ignore_ascii_case(media_type) {
            2
        } else if self.media.eq_ignore_ascii_case("application/*") {
            1
        } else if self.media == "*/*" {
            0
        } else {
            return None;
        };
        Some((specificity, self.quality))
    }
}

#[cfg(test)]
mod tests {
    use super::Representation::{Array, Ndjson, RecordNdjson};
    use super::*;
    use proptest::prelude::*;

    const RECORDS: &str = "application/vnd.durable-stream-records+ndjson";

    #[test]
    fn the_choice_follows_quality_and_the_array_wins_ties() {
        for (accept, expected) in [
            ("", Array),
            ("*/*", Array),
            ("application/*", Array),
            ("text/html", Array),
            ("application/json", Array),
            ("application/x-ndjson", Ndjson),
            ("Application/X-NDJSON; charset=utf-8", Ndjson),
            (RECORDS, RecordNdjson),
            ("application/x-ndjson, application/json", Array),
            ("application/x-ndjson, */*", Array),
            ("application/x-ndjson, */*;q=0.9", Ndjson),
            ("application/json;q=0.5, application/x-ndjson;q=0.501", Ndjson),
            ("application/json;q=0.5, application/x-ndjson;q=0.499", Array),
            ("application/json;q=0, */*", Ndjson),
            ("application/json;q=0", Array),
            ("application/x-ndjson;q=0, */*;q=0.1", Array),
            ("application/x-ndjson;q=2", Array),
            ("application/x-ndjson;q=0.1234", Array),
            ("application/x-ndjson;Q=1.000", Ndjson),
            ("application/x-ndjson;note=\"a,b;q=0\"", Ndjson),
        ] {
            assert_eq!(Representation::choose([accept]), expected, "{accept}");
        }
        let lines = format!("{RECORDS};q=0.4, application/x-ndjson;q=0.4");
        assert_eq!(Representation::choose([lines.as_str()]), Ndjson);
    }

    #[test]
    fn several_accept_lines_are_one_list() {
        assert_eq!(Representation::choose([]), Array);
        let lines = ["application/json;q=0.2", "application/x-ndjson;q=0.3"];
        assert_eq!(Representation::choose(lines), Ndjson);
    }

    proptest! {
        #[test]
        fn any_text_can_be_asked_for(text in ".*") {
            Representation::choose([text.as_str()]);
        }
    }
}
