//! A configuration file to begin with.

use super::setting::{Setting, settings};

/// Every setting with what it does and its default. All is commented out: `#key = value` has the
/// default, `# key = VALUE` stands for a setting that has none.
pub(super) fn template() -> String {
    let mut out = paragraph(
        "Configuration of headwater serve. Remove the # before a setting to change it. A variable \
         of the environment wins over this file, and a flag of the setting's name over both.",
    );
    let mut heading = String::new();
    for setting in settings() {
        if setting.heading() != heading {
            setting.heading().clone_into(&mut heading);
            out.extend(["\n\n# ---- ", &heading, " ----\n"]);
        }
        out.push('\n');
        out.push_str(&entry(&setting));
    }
    out
}

fn entry(setting: &Setting) -> String {
    let default = setting.default();
    let key = setting.key();
    let about = format!("{} ({})", setting.help(), setting.variable());
    if !default.is_empty() {
        return format!("{}#{key} = {}\n", paragraph(&about), setting.toml(&default));
    }
    let unset = match setting.default_in_words() {
        Some(words) => format!("{about} Default: {words}."),
        None => format!("{about} Not set by default."),
    };
    let example = setting.toml(&[setting.placeholder().to_owned()]);
    format!("{}# {key} = {example}\n", paragraph(&unset))
}

/// `text` in comment lines.
fn paragraph(text: &str) -> String {
    let mut lines = String::from("#");
    let mut width = 1;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if width + 1 + len > LINE_CHARS_MAX {
            lines.push_str("\n#");
            width = 1;
        }
        lines.push(' ');
        lines.push_str(word);
        width += 1 + len;
    }
    lines.push('\n');
    lines
}

const LINE_CHARS_MAX: usize = 90;
