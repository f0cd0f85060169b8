//! The part of `docs/configuration.md` that is made from the declarations of the settings.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::setting::{Setting, settings};

/// In the page, what is between these lines is made.
const BEGIN: &str = "<!-- Made from the declarations of the settings. -->\n";
const END: &str = "<!-- End of what is made. -->\n";

/// A table for each group of settings.
fn tables() -> String {
    let mut out = String::new();
    let mut heading = String::new();
    for setting in settings() {
        if setting.heading() != heading {
            setting.heading().clone_into(&mut heading);
            write!(out, "\n## {heading}\n\n{COLUMNS}").unwrap();
        }
        out.push_str(&row(&setting));
    }
    out.push('\n');
    out
}

const COLUMNS: &str = "\
| key | flag | environment | value | default | meaning |
| --- | --- | --- | --- | --- | --- |
";

fn row(setting: &Setting) -> String {
    let key = setting.key();
    let value = if setting.is_list() {
        format!("several: {}", setting.kind().unit())
    } else {
        setting.kind().unit()
    };
    let default = match (setting.default().as_slice(), setting.default_in_words()) {
        ([], words) => words.unwrap_or_default(),
        (values, _) => format!("`{}`", values.join(", ")),
    };
    let mut meaning = setting.help();
    if setting.is_secret() {
        meaning.push_str(" Secret: shown nowhere.");
    }
    let cells = [
        format!("`{key}`"),
        format!("`--{key}`"),
        format!("`{}`", setting.variable()),
        value,
        default,
        meaning,
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

#[test]
fn the_page_has_every_setting_as_it_is_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let kept = fs::read_to_string(&path).expect("the page");
    let (before, rest) = kept.split_once(BEGIN).expect("the beginning of what is made");
    let (_, after) = rest.split_once(END).expect("the end of what is made");
    let page = [before, BEGIN, &tables(), END, after].concat();
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, page).unwrap();
    } else {
        assert!(kept == page, "docs/configuration.md is stale; UPDATE=1 writes it anew");
    }
}
