//! The settings as they are, as a configuration file or as JSON.

use std::fmt::Write as _;

use serde_json::Value;

use super::layers::{Layered, Layers, Origin};
use super::setting::Kind;
use crate::screen::{json_line, printable};

/// A line for each setting. What is not set, or is a secret, is a comment.
pub(super) fn toml(layers: &Layers, with_origin: bool) -> String {
    let lines: Vec<String> = layers.settings.iter().map(line).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (line, layered) in lines.iter().zip(&layers.settings) {
        if with_origin {
            let origin = origin(layered, layers);
            writeln!(out, "{line:width$}  # {origin}").expect("writing to a string cannot fail");
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A JSON object a line for each setting.
pub(super) fn json(layers: &Layers) -> String {
    layers.settings.iter().map(|layered| object(layered, layers)).collect()
}

fn line(Layered { setting, values, .. }: &Layered) -> String {
    let key = setting.key();
    if values.is_empty() {
        format!("# {key} is not set")
    } else if setting.is_secret() {
        format!("# {key} is set and not shown")
    } else {
        format!("{key} = {}", setting.toml(values))
    }
}

fn origin(layered: &Layered, layers: &Layers) -> String {
    match (layered.origin, &layers.file) {
        (Origin::File(line), Some(file)) => {
            format!("{}:{line}", printable(&file.display().to_string()))
        }
        (Origin::Default | Origin::File(_), _) => "default".to_owned(),
        (Origin::Environment, _) => layered.setting.variable().to_owned(),
        (Origin::Flag, _) => format!("--{}", layered.setting.key()),
    }
}

fn object(layered: &Layered, layers: &Layers) -> String {
    let Layered { setting, origin, .. } = layered;
    let (origin, line) = match origin {
        Origin::Default => ("default", None),
        Origin::File(line) => ("file", Some(*line)),
        Origin::Environment => ("environment", None),
        Origin::Flag => ("flag", None),
    };
    let file = line.and(layers.file.as_ref()).map(|file| file.display().to_string());
    let variable = (layered.origin == Origin::Environment).then(|| setting.variable());
    json_line(&[
        ("setting", setting.key().into()),
        ("value", value(layered)),
        ("origin", origin.into()),
        ("file", file.into()),
        ("line", line.into()),
        ("variable", variable.into()),
        ("secret", setting.is_secret().into()),
    ])
}

/// A value as a schema of it would have it; nothing where it is not set or not shown.
fn value(Layered { setting, values, .. }: &Layered) -> Value {
    if setting.is_secret() {
        return Value::Null;
    }
    let kind = setting.kind();
    let mut values = values.iter().map(|value| match kind {
        Kind::Switch | Kind::Count => value.parse().unwrap_or_else(|_| value.as_str().into()),
        _ => Value::from(value.as_str()),
    });
    if setting.is_list() { values.collect() } else { values.next().unwrap_or(Value::Null) }
}
