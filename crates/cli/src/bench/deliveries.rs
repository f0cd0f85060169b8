//! What one reader was delivered: which messages, how often, how late.
//!
//! Every message of a fan-out carries a mark, `@` sequence number `.` time `@`, both as 16
//! hexadecimal digits. A reader looks for marks in the `data:` lines of its SSE answer, whatever
//! the server puts around them, and for the offset to go on from in its control events.

use std::time::Duration;

use memchr::{memchr, memmem};

/// The messages that one reader has seen.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Whether message n has come.
    seen: Vec<bool>,
    distinct: u64,
    doubled: u64,
    reordered: u64,
    next: u64,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    offset: Option<String>,
    /// What came since the offset before, where somebody wants to know.
    page: Option<Page>,
    pages: Vec<Page>,
}

/// The messages between two offsets that a reader was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// None at the beginning of the stream.
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    pub(crate) messages: Vec<u64>,
}

/// What a message says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    /// When it was to be appended, since the run began.
    pub(crate) due: Duration,
}

const DIGITS: usize = 16;
/// Two numbers, `@`, `.` and `@`.
pub(crate) const MARK_BYTES: usize = 2 * DIGITS + 3;
/// A run of more messages is beyond what one writer sends.
const MESSAGES_MAX: u64 = 100_000_000;

impl Mark {
    /// As it stands in a message.
    pub(crate) fn text(self) -> String {
        let due = u64::try_from(self.due.as_nanos()).unwrap_or(u64::MAX);
        format!("@{:016x}.{due:016x}@", self.sequence)
    }

    /// The mark at the beginning of `bytes`.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes.get(..MARK_BYTES)?).ok()?;
        let (sequence, due) = text.strip_prefix('@')?.strip_suffix('@')?.split_once('.')?;
        let number = |digits: &str| {
            let is_whole = digits.len() == DIGITS && !digits.starts_with('+');
            is_whole.then(|| u64::from_str_radix(digits, 16).ok())?
        };
        let sequence = number(sequence).filter(|sequence| *sequence < MESSAGES_MAX)?;
        Some(Self { sequence, due: Duration::from_nanos(number(due)?) })
    }
}

impl Deliveries {
    /// Takes the next bytes of the answer. `on_first` is called for every message that has not come
    /// before.
    pub(crate) fn take(&mut self, mut bytes: &[u8], mut on_first: impl FnMut(Mark)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(end + 1);
            if self.line.is_empty() {
                self.take_line(head, &mut on_first);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut on_first);
                // Its memory serves the next line.
                line.clear();
                self.line = line;
            }
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
    }

    /// One that also keeps its pages, for [`Self::pages`].
    pub(crate) fn in_pages() -> Self {
        Self { page: Some(Page::default()), ..Self::default() }
    }

    /// The pages that have come since this was asked before.
    pub(crate) fn pages(&mut self) -> impl Iterator<Item = Page> {
        self.pages.drain(..)
    }

    /// The answer has ended: half a line means nothing, nor do messages without their offset.
    pub(crate) fn break_off(&mut self) {
        self.line.clear();
        if let Some(page) = &mut self.page {
            page.messages.clear();
        }
    }

    /// Where to go on when the server has ended the answer; `-1` while it told nothing.
    pub(crate) fn offset(&self) -> &str {
        self.offset.as_deref().unwrap_or("-1")
    }

    /// How many different messages have come.
    pub(crate) fn distinct(&self) -> u64 {
        self.distinct
    }

    /// How many of the first `written` messages have not come.
    pub(crate) fn lost(&self, written: u64) -> u64 {
        let written = usize::try_from(written).unwrap_or(usize::MAX);
        let came = self.seen.iter().take(written).filter(|came| **came).count();
        (written - came) as u64
    }

    /// How often a message came that had come before.
    pub(crate) fn doubled(&self) -> u64 {
        self.doubled
    }

    /// How many messages came for the first time after a later one.
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }

    fn take_line(&mut self, line: &[u8], on_first: &mut impl FnMut(Mark)) {
        let Some(mut data) = line.strip_prefix(b"data:") else {
            return;
        };
        if let Some(offset) = next_offset(data) {
            if let Some(page) = &mut self.page {
                let from = Some(offset.clone());
                let next = Page { from, ..Page::default() };
                self.pages.push(Page { to: offset.clone(), ..std::mem::replace(page, next) });
            }
            self.offset = Some(offset);
            return;
        }
        while let Some(at) = memchr(b'@', data) {
            data = &data[at..];
            match Mark::parse(data) {
                Some(mark) => {
                    if let Some(page) = &mut self.page {
                        page.messages.push(mark.sequence);
                    }
                    if self.note(mark.sequence) {
                        on_first(mark);
                    }
                    data = &data[MARK_BYTES..];
                }
                None => data = &data[1..],
            }
        }
    }

    /// Whether the message is new.
    fn note(&mut self, sequence: u64) -> bool {
        let index = usize::try_from(sequence).expect("below the most messages");
        if self.seen.len() <= index {
            self.seen.resize(index + 1, false);
        }
        if self.seen[index] {
            self.doubled += 1;
            return false;
        }
        self.seen[index] = true;
        self.distinct += 1;
        if sequence < self.next {
            self.reordered += 1;
        } else {
            self.next = sequence + 1;
        }
        true
    }
}

/// `streamNextOffset` of a control event.
fn next_offset(data: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"streamNextOffset\":";
    let rest = &data[memmem::find(data, NAME)? + NAME.len()..];
    let text = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr(b'"', text)?;
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> Mark {
        Mark { sequence, due: Duration::from_nanos(sequence * 1000) }
    }

    /// An answer with an event for each of `messages`, as the protocol frames JSON.
    fn answer(messages: &[u64]) -> String {
        let event = |n: &u64| {
            let text = mark(*n).text();
            format!(
                "event: data\ndata:[{{\"m\":\"{text}xx\"}}]\n\n\
                 event: control\ndata: {{\"streamNextOffset\": \"{n:04}\",\"upToDate\":true}}\n\n"
            )
        };
        messages.iter().map(event).collect()
    }

    fn deliver(messages: &[u64]) -> Deliveries {
        let mut deliveries = Deliveries::default();
        deliveries.take(answer(messages).as_bytes(), |_| {});
        deliveries
    }

    #[test]
    fn a_whole_delivery_loses_and_doubles_nothing() {
        let deliveries = deliver(&[0, 1, 2]);
        assert_eq!((deliveries.lost(3), deliveries.doubled(), deliveries.reordered()), (0, 0, 0));
        assert_eq!(deliveries.distinct(), 3);
        assert_eq!(deliveries.offset(), "0002");
        assert_eq!(Deliveries::default().offset(), "-1");
    }

    #[test]
    fn lost_messages_are_found_at_the_beginning_between_and_at_the_end() {
        for (messages, lost) in [(&[1, 2, 3][..], 1), (&[0, 3], 2), (&[0, 1], 2), (&[], 4)] {
            assert_eq!(deliver(messages).lost(4), lost, "{messages:?}");
        }
    }

    #[test]
    fn doubled_messages_are_found_next_to_each_other_and_far_apart() {
        for (messages, doubled) in
            [(&[0, 0, 1, 2][..], 1), (&[0, 1, 2, 0], 1), (&[0, 1, 2, 1, 2, 2], 3)]
        {
            let deliveries = deliver(messages);
            assert_eq!((deliveries.doubled(), deliveries.lost(3)), (doubled, 0), "{messages:?}");
        }
    }

    #[test]
    fn a_late_message_is_out_of_order_and_not_lost() {
        let deliveries = deliver(&[0, 2, 1, 3]);
        assert_eq!((deliveries.lost(4), deliveries.doubled(), deliveries.reordered()), (0, 0, 1));
    }

    #[test]
    fn a_message_is_told_once_and_whole_in_whatever_pieces_it_comes() {
        let text = answer(&[0, 1, 1, 2]);
        for piece in 1..=text.len() {
            let (mut deliveries, mut told) = (Deliveries::default(), Vec::new());
            for piece in text.as_bytes().chunks(piece) {
                deliveries.take(piece, |mark| told.push(mark));
            }
            assert_eq!(told, [mark(0), mark(1), mark(2)], "{piece}");
            assert_eq!((deliveries.doubled(), deliveries.offset()), (1, "0002"), "{piece}");
        }
    }

    #[test]
    fn several_messages_may_share_a_line_and_a_mark_cut_off_is_none() {
        let (a, b) = (mark(0).text(), mark(1).text());
        let mut deliveries = Deliveries::default();
        deliveries.take(format!("data: [\"@{a}\",\"{b}\"]\r\n: {b}\n").as_bytes(), |_| {});
        assert_eq!((deliveries.distinct(), deliveries.doubled()), (2, 0));
        deliveries.take(&b"data: "[..], |_| {});
        deliveries.take(&a.as_bytes()[..20], |_| {});
        deliveries.break_off();
        deliveries.take(answer(&[2]).as_bytes(), |_| {});
        assert_eq!((deliveries.distinct(), deliveries.doubled()), (3, 0));
    }

    #[test]
    fn pages_are_what_lies_between_two_offsets_and_a_broken_one_is_none() {
        let mut deliveries = Deliveries::in_pages();
        deliveries.take(answer(&[0, 1]).as_bytes(), |_| {});
        let half = answer(&[2]);
        deliveries
            .take(&half.as_bytes()[..half.find("event: control").expect("it has one")], |_| {});
        deliveries.break_off();
        deliveries.take(answer(&[2]).as_bytes(), |_| {});
        let told = |from: Option<&str>, to: &str, message| Page {
            from: from.map(str::to_owned),
            to: to.to_owned(),
            messages: vec![message],
        };
        let expected =
            [told(None, "0000", 0), told(Some("0000"), "0001", 1), told(Some("0001"), "0002", 2)];
        assert!(deliveries.pages().eq(expected));
        assert_eq!(deliveries.pages().count(), 0);
    }

    #[test]
    fn nonsense_between_ats_is_no_mark() {
        for text in ["@", "@@", "@+00000000000000.0000000000000000@", &"@".repeat(80)] {
            assert_eq!(Mark::parse(text.as_bytes()), None, "{text}");
        }
        let huge = "@ffffffffffffffff.0000000000000000@";
        assert_eq!(Mark::parse(huge.as_bytes()), None, "no memory for a number out of bounds");
    }
}
