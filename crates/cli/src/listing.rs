//! Listings that the server gives out page by page: one table, or one JSON object a line.

use jiff::Timestamp;
use serde_json::Value;
use ureq::http::Method;

use crate::client::{Client, Payload};
use crate::failure::Outcome;
use crate::hint::Subject;
use crate::screen::{Field, Paint, Screen, cell, json_line, print};

/// A listing: where it is, and what is shown of each entry.
pub(crate) struct Listing<'a> {
    /// The path of the pages.
    pub(crate) path: String,
    /// The member of a page that holds its entries.
    pub(crate) entries: &'static str,
    /// What is shown, in this order.
    pub(crate) columns: &'static [Column],
    pub(crate) prefix: Option<&'a str>,
    pub(crate) subject: Subject,
    /// Completes "cannot …".
    pub(crate) what: String,
}

/// One column: the member of an entry, and how a person reads it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) member: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A list, shown with spaces between.
    Texts,
    /// Aligned to the right.
    Number,
    /// `Open` or `Closed`.
    Status,
    /// Milliseconds since the Unix epoch; shown as RFC 3339.
    Time,
}

impl Listing<'_> {
    /// Prints all pages, each as it comes.
    pub(crate) fn print(&self, client: &Client, screen: Screen, json: bool) -> Outcome {
        let mut table = Table::new(self.columns, screen);
        let mut after: Option<String> = None;
        loop {
            let mut page = client
                .call(Method::GET, self.path.clone(), self.subject.clone(), &self.what)
                .query_if("prefix", self.prefix)
                .query_if("after", after.as_deref())
                .send(Payload::none())?
                .into_json()?;
            let entries = match page[self.entries].take() {
                Value::Array(entries) => entries,
                _ => Vec::new(),
            };
            let text = if json {
                entries.iter().map(|entry| self.json(entry)).collect()
            } else {
                table.page(&entries)
            };
            print(text.as_bytes())?;
            match page["next_cursor"].take() {
                // A cursor that stands still would never end.
                Value::String(next) if after.as_ref() != Some(&next) => after = Some(next),
                _ => return Ok(()),
            }
        }
    }

    fn json(&self, entry: &Value) -> String {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|column| (column.member, entry[column.member].clone()))
            .collect();
        json_line(&fields)
    }
}

/// Aligned columns with a heading on a terminal, the same columns separated by tabs in a pipe.
/// Columns only ever widen, so that later pages line up where they can.
struct Table {
    columns: &'static [Column],
    screen: Screen,
    widths: Vec<usize>,
    headed: bool,
}

impl Table {
    fn new(columns: &'static [Column], screen: Screen) -> Self {
        Self {
            columns,
            screen,
            widths: columns.iter().map(|c| c.heading().chars().count()).collect(),
            headed: false,
        }
    }

    fn page(&mut self, entries: &[Value]) -> String {
        let rows: Vec<Vec<String>> = entries
            .iter()
            .map(|entry| self.columns.iter().map(|c| c.cell(entry)).collect())
            .collect();
        if !self.screen.stdout_is_terminal() {
            return rows.iter().map(|row| row.join("\t") + "\n").collect();
        }
        for row in &rows {
            for (width, text) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let mut out = String::new();
        if !self.headed && !rows.is_empty() {
            self.headed = true;
            let heading: Vec<String> = self.columns.iter().map(Column::heading).collect();
            let line = self.line(&heading, false);
            out.push_str(&self.screen.paint_stdout(Paint::Heading, line.trim_end()));
            out.push('\n');
        }
        for row in &rows {
            out.push_str(self.line(row, true).trim_end());
            out.push('\n');
        }
        out
    }

    fn line(&self, row: &[String], coloured: bool) -> String {
        let mut line = String::new();
        for ((column, width), text) in self.columns.iter().zip(&self.widths).zip(row) {
            let padding = " ".repeat(width - text.chars().count());
            let text = match (column.kind, text.as_str()) {
                (Kind::Status, "Open") if coloured => self.screen.paint_stdout(Paint::Open, text),
                (Kind::Status, _) if coloured => self.screen.paint_stdout(Paint::Closed, text),
                _ => text.clone(),
            };
            match column.kind {
                Kind::Number => line.extend([padding.as_str(), &text]),
                Kind::Text | Kind::Texts | Kind::Status | Kind::Time => {
                    line.extend([&text, padding.as_str()]);
                }
            }
            line.push_str("  ");
        }
        line
    }
}

impl Column {
    /// `TAIL OFFSET` for `tail_offset`, `CREATED` for `created_at_ms`.
    fn heading(&self) -> String {
        let name = self.member.strip_suffix("_at_ms").unwrap_or(self.member);
        name.replace('_', " ").to_ascii_uppercase()
    }

    fn cell(&self, entry: &Value) -> String {
        let value = &entry[self.member];
        match self.kind {
            Kind::Time => time(value).unwrap_or_else(|| cell(value)),
            Kind::Text | Kind::Number | Kind::Status => cell(value),
            Kind::Texts => {
                let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                texts.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

fn time(milliseconds: &Value) -> Option<String> {
    let time = Timestamp::from_millisecond(milliseconds.as_i64()?).ok()?;
    Some(time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: &[Column] = &[
        Column { member: "stream_id", kind: Kind::Text },
        Column { member: "tail_offset", kind: Kind::Number },
        Column { member: "created_at_ms", kind: Kind::Time },
    ];

    #[test]
    fn a_column_is_named_after_its_member() {
        let headings: Vec<String> = COLUMNS.iter().map(Column::heading).collect();
        assert_eq!(headings, ["STREAM ID", "TAIL OFFSET", "CREATED"]);
    }

    #[test]
    fn times_are_readable_and_nonsense_stays_visible() {
        let entry =
            json!({"stream_id": "a\tb", "tail_offset": 7, "created_at_ms": 1_728_432_000_000_i64});
        let cells: Vec<String> = COLUMNS.iter().map(|c| c.cell(&entry)).collect();
        assert_eq!(cells, ["a\\tb", "7", "2024-10-09T00:00:00Z"]);
        let entry = json!({"created_at_ms": "soon"});
        let cells: Vec<String> = COLUMNS.iter().map(|c| c.cell(&entry)).collect();
        assert_eq!(cells, ["-", "-", "soon"]);
    }
}
