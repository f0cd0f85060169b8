//! The JSON Schema of the configuration file.

use serde_json::{Map, Value, json};

use super::setting::{Kind, Setting, settings};

/// The schema: every setting with its type, unit, default and description, and nothing else.
pub(super) fn schema() -> Value {
    let properties: Map<String, Value> =
        settings().iter().map(|setting| (setting.key().to_owned(), property(setting))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration file of Headwater",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "$defs": {
            "size": {
                "description": "Bytes, or whole KiB, MiB, GiB or TiB.",
                "anyOf": [
                    { "type": "integer", "minimum": 0 },
                    { "type": "string", "pattern": "^[0-9]+(KiB|MiB|GiB|TiB)?$" },
                ],
            },
            "duration": {
                "description": "Whole ms, s, m, h or d.",
                "type": "string",
                "pattern": "^[0-9]+(ms|s|m|h|d)$",
            },
        },
    })
}

fn property(setting: &Setting) -> Value {
    let kind = setting.kind();
    let one = match &kind {
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Size => json!({ "$ref": "#/$defs/size" }),
        Kind::Duration => json!({ "$ref": "#/$defs/duration" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Address | Kind::Path | Kind::Text => json!({ "type": "string" }),
    };
    let mut property =
        if setting.is_list() { json!({ "type": "array", "items": one }) } else { one };
    property["description"] = description(setting).into();
    if let Some(default) = default(setting, &kind) {
        property["default"] = default;
    }
    property
}

fn description(setting: &Setting) -> String {
    let unset = match setting.default_in_words() {
        Some(words) => format!(" Default: {words}."),
        None => String::new(),
    };
    let unit = setting.kind().unit();
    format!("{} Unit: {unit}.{unset} Environment: {}.", setting.help(), setting.variable())
}

fn default(setting: &Setting, kind: &Kind) -> Option<Value> {
    let mut values = setting.default().into_iter().map(|value| match kind {
        Kind::Switch | Kind::Count => value.parse().unwrap_or(Value::String(value)),
        _ => Value::String(value),
    });
    if setting.is_list() { Some(values.collect()) } else { values.next() }
}
