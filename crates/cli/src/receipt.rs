//! What a write answers, in the words that every verb uses for it.

use crate::client::Answer;
use crate::screen::Field;

/// Where the stream stands after a create, an append, a close or a fork. The records are null on
/// streams that are not JSON.
pub(crate) fn fields(answer: &Answer) -> Vec<Field> {
    vec![
        ("next_offset", answer.text("stream-next-offset")),
        ("record_start", answer.number("stream-record-start")),
        ("record_next", answer.number("stream-record-next")),
        ("closed", answer.flag("stream-closed").into()),
    ]
}
