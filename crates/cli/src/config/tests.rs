use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use headwater_server::config::Config;
use serde_json::{Value, json};

use super::file::{Entry, entries};
use super::layers::{CommandLine, Layered, Layers, Origin};
use super::schema::schema;
use super::setting::{Kind, Setting, declared, flags_alone, settings, settings_of};
use super::show;
use super::template::template;
use crate::args::Verb;

/// A file that goes with its test.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        // Tests that run at the same time use the same names.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("headwater-config-{}-{number}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// What `serve` makes of `text` as its file, and of `flags`.
fn serve(name: &str, text: &str, flags: &[String]) -> (Config, Layers) {
    let file = TempFile::new(name, text);
    let mut line = vec!["headwater".into(), "serve".into(), "--config".into()];
    line.push(file.0.clone().into_os_string());
    line.extend(flags.iter().map(Into::into));
    let (cli, layers) = CommandLine::parse(line).with_file().expect("no mistake");
    let Verb::Serve(args) = cli.verb else { panic!("another verb") };
    (args.told.into_config(), layers)
}

/// A value that is nobody's default. A setting of text with a notation of its own needs a line.
fn sample(setting: &Setting) -> String {
    match (setting.key(), setting.kind()) {
        ("root-key", _) => ROOT_KEY.to_owned(),
        ("root-key-file", _) => root_key_file().display().to_string(),
        ("anonymous", _) => "demo:read".to_owned(),
        ("cors", _) => "demo=https://seven".to_owned(),
        (_, Kind::Switch) => "true".to_owned(),
        (_, Kind::Count) => "7".to_owned(),
        (_, Kind::Size) => "7KiB".to_owned(),
        (_, Kind::Duration) => "7h".to_owned(),
        (_, Kind::Address) => "127.0.0.1:7".to_owned(),
        (_, Kind::Choice(words)) => words.last().expect("a choice has words").clone(),
        (_, Kind::Path | Kind::Text) => "seven".to_owned(),
    }
}

/// The flags that `key` needs beside it.
fn company(key: &str) -> Vec<String> {
    match key {
        "root-key" | "root-key-file" | "anonymous" | "jwt-keys" | "conceal" => {
            vec!["--auth".to_owned()]
        }
        "max-request-burst" => vec!["--max-request-rate=8".to_owned()],
        "tls-cert" => vec!["--tls-key=seven".to_owned()],
        "tls-key" => vec!["--tls-cert=seven".to_owned()],
        "tls-client-ca" => vec!["--tls-cert=seven".to_owned(), "--tls-key=seven".to_owned()],
        "jwt-audience" | "jwt-issuer" => vec!["--auth".to_owned(), "--jwt-keys=seven".to_owned()],
        _ => Vec::new(),
    }
}

/// Settings that only come together.
const PAIR: [&str; 2] = ["tls-cert", "tls-key"];

const ROOT_KEY: &str = "0123456789abcdef0123456789abcdef";

/// A file that holds a root key.
fn root_key_file() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/root-key")
}

/// What is wrong with `text`.
fn mistakes(text: &str) -> Vec<(usize, String)> {
    entries(text, declared()).1
}

#[test]
fn every_setting_of_a_file_reaches_the_configuration_as_its_flag_does() {
    for setting in settings() {
        let value = sample(&setting);
        let key = setting.key();
        let company = company(key);
        let text = format!("{key} = {}\n", setting.toml(std::slice::from_ref(&value)));
        let (by_file, layers) = serve(key, &text, &company);
        let flags = [&company[..], &[format!("--{key}={value}")]].concat();
        assert_eq!(by_file, serve(key, "", &flags).0, "{key}");
        // How much is logged is no business of the server's configuration.
        let otherwise = if PAIR.contains(&key) {
            [&company[..], &[format!("--{key}=other")]].concat()
        } else {
            company
        };
        let logged = key.starts_with("log-") && !key.starts_with("log-file");
        assert!(by_file != serve(key, "", &otherwise).0 || logged, "{key}");

        let layered = layers.settings.iter().find(|l| l.setting.key() == key).unwrap();
        assert_eq!((&layered.values, layered.origin), (&vec![value], Origin::File(1)), "{key}");
    }
}

#[test]
fn a_flag_wins_over_every_setting_of_a_file() {
    for setting in settings() {
        let Some(default) = setting.default().pop() else { continue };
        let key = setting.key();
        let text = format!("{key} = {}\n", setting.toml(&[sample(&setting)]));
        let flags = [&company(key)[..], &[format!("--{key}={default}")]].concat();
        let (config, layers) = serve(key, &text, &flags);
        assert_eq!(config, serve(key, "", &company(key)).0, "{key}");
        let layered = layers.settings.iter().find(|l| l.setting.key() == key).unwrap();
        assert_eq!(layered.origin, Origin::Flag, "{key}");
    }
}

#[test]
fn what_a_setting_needs_may_come_from_any_layer() {
    let auth = || vec!["--auth".to_owned()];
    let all = format!("auth = true\nconceal = true\nroot-key = \"{ROOT_KEY}\"\n");
    let (config, _) = serve("needs-file", &all, &[]);
    let rules = config.auth.expect("credentials are asked for");
    assert!(rules.conceal && rules.root.is_some());

    let (by_flag, _) = serve("needs-flag", "conceal = true", &auth());
    let (by_file, _) = serve("needs-file-for-flag", "auth = true", &["--conceal".to_owned()]);
    assert!(by_flag.auth.as_ref().is_some_and(|rules| rules.conceal));
    assert_eq!(by_flag, by_file);
    // What is off needs nothing.
    assert_eq!(serve("off", "conceal = false\nauth = false", &[]).0, Config::default());
    assert_eq!(serve("off-alone", "conceal = false", &[]).0, Config::default());
}

#[test]
fn a_lone_double_dash_does_not_keep_the_file_out() {
    let (config, _) = serve("dash", "max-connections = 7", &["--".to_owned()]);
    assert_eq!(config.connections_max, 7);
}

/// The template with every `#key = value` made active.
fn active() -> String {
    let active = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_lowercase()) => rest.to_owned(),
        _ => line.to_owned(),
    };
    template().lines().map(active).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_template_has_every_setting_and_its_default() {
    for (name, text) in [("as-it-is", template()), ("active", active())] {
        assert_eq!(mistakes(&text), [], "{name}");
        assert_eq!(serve(name, &text, &[]).0, Config::default(), "{name}");
    }
    let (active, _) = entries(&active(), declared());
    for setting in settings() {
        let entry = active.iter().find(|entry| entry.key == setting.key());
        let expected = Some(setting.default()).filter(|default| !default.is_empty());
        assert_eq!(entry.map(|entry| entry.values.clone()), expected, "{}", setting.key());
        assert!(template().contains(&format!("{} = ", setting.key())), "{}", setting.key());
    }
}

#[test]
fn what_show_prints_is_a_file_that_says_the_same() {
    let text = "bucket = \"a\\\"b\\u007f\"\nmust-exist = true\nmax-append-size = 0x10_00\n";
    let (config, layers) = serve("shown", text, &["--max-connections=7".to_owned()]);
    for with_origin in [false, true] {
        let shown = show::toml(&layers, with_origin);
        assert_eq!(serve("shown-again", &shown, &[]).0, config, "{shown}");
    }
}

#[test]
fn a_misspelled_key_is_told_with_its_line_and_what_was_meant() {
    for (key, meant) in [
        ("max-append-sise", "max-append-size"),
        ("max_append_size", "max-append-size"),
        ("MAX-APPEND-SIZE", "max-append-size"),
        ("datadir", "data-dir"),
        ("limits.max-connections", "max-connections"),
        ("sse.keep-alive", "sse-keep-alive"),
    ] {
        let [(line, told)] = &mistakes(&format!("\n# first\n{key} = 1\n"))[..] else {
            panic!("{key}: one mistake")
        };
        assert_eq!(*line, 3, "{key}");
        assert!(told.starts_with(&format!("there is no setting \"{key}\"")), "{told}");
        assert!(told.contains(&format!("did you mean {meant}?")), "{told}");
    }
    let told = mistakes("quorum = 3");
    assert_eq!(told, [(1, "there is no setting \"quorum\"".to_owned())]);
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let text = "\
listen = 4437
max-connections = \"many\"
max-connections-per-host = 3

must-exist = \"yes\"
max-append-size = \"64MB\"
sse-keep-alive = 15
replay-max = -1
max-header-size = 1.5
bucket = [\"a\"]
log-level = \"a=b=c\"
drain-timeout = \"4s\"
[limits]
[times]
body-timeout = \"1s\"
";
    let told = mistakes(text);
    let lines: Vec<usize> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 13, 15], "{told:#?}");
    for ((_, told), expected) in told.iter().zip([
        "listen: expected an address and a port: a text like \"127.0.0.1:4437\", found: integer",
        "max-connections: expected a whole number, found: string",
        "did you mean max-connections?",
        "must-exist: expected true or false, found: string",
        "max-append-size: \"64MB\": expected a whole number of bytes",
        "sse-keep-alive: expected a duration: a text like \"30s\", found: integer",
        "replay-max: \"-1\": expected a whole number of bytes",
        "max-header-size: expected a size",
        "bucket: expected a text, found: array",
        "log-level: \"a=b=c\": ",
        "there is no section \"limits\"",
        "there is no setting \"times.body-timeout\"; did you mean body-timeout? Settings",
    ]) {
        assert!(told.contains(expected), "{told}\n{expected}");
    }
}

#[test]
fn what_is_no_toml_is_told_beside_the_other_mistakes() {
    let text = "bucket = \nmax-connections = 1\nmax-connections = 2\nmust-exist = 1\n\"";
    let lines: Vec<usize> = mistakes(text).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 3, 4, 5], "{:#?}", mistakes(text));
}

#[test]
fn no_bytes_of_a_file_cause_a_panic() {
    let pieces = ["", "[", "]", "=", "\"", "'", "a", ".", "\n", "1", "{", "}", "#", "é", ","];
    let of = |n: usize| pieces[n % pieces.len()];
    for n in 0..pieces.len().pow(3) {
        let text = [of(n), of(n / pieces.len()), of(n / pieces.len().pow(2))].concat();
        let _told = entries(&text, OTHERS.clone());
        let _told = entries(&format!("origin = {text}"), OTHERS.clone());
    }
}

/// Settings of kinds that the server has none of, or few.
static OTHERS: LazyLock<Command> = LazyLock::new(|| {
    let setting = |name: &'static str| Arg::new(name).long(name).env("X").help("Help");
    Command::new("x")
        .arg(setting("origin").action(ArgAction::Append))
        .arg(setting("token").hide_env_values(true).value_parser(["right"]))
        .arg(setting("mode").value_parser(["slow", "fast"]))
        .arg(setting("key").requires("mode"))
});

#[test]
fn a_list_is_an_array_or_a_single_value() {
    let read = |text: &str| entries(text, OTHERS.clone());
    for (text, values) in [
        ("origin = [\"a\",\n \"b,c\"]", &["a", "b,c"][..]),
        ("origin = \"a\"", &["a"]),
        ("origin = []", &[]),
    ] {
        let (entries, mistakes) = read(text);
        assert_eq!(mistakes, [], "{text}");
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let is_default = text.ends_with("[]");
        assert_eq!(entries, [Entry { key: "origin".to_owned(), values, is_default, line: 1 }]);
    }
    let (_, told) = read("origin = [\"a\",\n 1]");
    assert_eq!(told, [(2, "origin: expected a text, found: integer".to_owned())]);
    let [list, ..] = &settings_of(OTHERS.clone())[..] else { panic!("settings") };
    assert_eq!(list.toml(&["a".to_owned(), "b".to_owned()]), "[\"a\", \"b\"]");
}

#[test]
fn a_choice_is_told_and_a_secret_is_not() {
    let (_, told) = entries("mode = \"none\"\ntoken = \"hush\"\n", OTHERS.clone());
    let mode = "mode: \"none\": expected one of slow, fast".to_owned();
    assert_eq!(told, [(1, mode), (2, "token: this is no value for it".to_owned())]);
}

#[test]
fn what_a_flag_needs_a_setting_of_a_file_needs_too() {
    let together = |text: &str| {
        let (entries, mistakes) = entries(text, OTHERS.clone());
        assert_eq!(mistakes, [], "{text}");
        let flags: Vec<String> = entries.iter().flat_map(Entry::flags).collect();
        flags_alone(OTHERS.clone()).try_get_matches_from(flags)
    };
    assert!(together("key = \"k\"\nmode = \"fast\"").is_ok());
    let error = together("key = \"k\"").expect_err("a mode is needed");
    assert!(error.to_string().contains("--mode"), "{error}");
}

#[test]
fn flags_are_understood_where_only_something_is_missing() {
    // As for a flag that needs what only the file has.
    let whole = OTHERS.clone().arg(Arg::new("color").long("color").default_value("auto"));
    let flags = ["x", "--key", "k", "--origin=a"];
    let error = whole.clone().try_get_matches_from(flags).expect_err("a mode is needed");
    assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument);
    let matches = whole.ignore_errors(true).try_get_matches_from(flags).expect("the rest");
    assert_eq!(matches.value_source("key"), Some(ValueSource::CommandLine));
    assert_eq!(matches.value_source("origin"), Some(ValueSource::CommandLine));
    assert_eq!(matches.value_source("mode"), None);
    assert_eq!(matches.get_one::<String>("color").map(String::as_str), Some("auto"));
}

#[test]
fn a_secret_is_shown_nowhere() {
    let known = settings_of(OTHERS.clone());
    let setting = known.into_iter().find(|setting| setting.key() == "token").unwrap();
    let values = vec!["right".to_owned()];
    let layers =
        Layers { file: None, settings: vec![Layered { setting, values, origin: Origin::Flag }] };
    assert_eq!(show::toml(&layers, true), "# token is set and not shown  # --token\n");
    let told: Value = serde_json::from_str(&show::json(&layers)).unwrap();
    assert_eq!((&told["value"], &told["secret"]), (&Value::Null, &json!(true)));
}

#[test]
fn the_schema_knows_every_setting_and_takes_what_the_server_takes() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], json!(false));
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(properties.len(), settings().len());
    for setting in settings() {
        let property = &properties[setting.key()];
        let described = property["description"].as_str().unwrap();
        assert!(described.contains(setting.variable()), "{described}");
        let default = property.get("default");
        // A list that nobody has set is an empty one.
        let has_none = setting.default().is_empty() && !setting.is_list();
        assert_eq!(default.is_none(), has_none, "{}", setting.key());
        if let Some(default) = default {
            assert!(fits(default, property, &schema), "{default} in {property}");
        }
        let value = match setting.kind() {
            Kind::Switch | Kind::Count => sample(&setting).parse().unwrap(),
            _ if setting.is_list() => json!([sample(&setting)]),
            _ => Value::from(sample(&setting)),
        };
        assert!(fits(&value, property, &schema), "{value} in {property}");
        assert!(!fits(&json!({}), property, &schema), "{property}");
    }
}

#[test]
fn the_patterns_of_the_schema_are_the_units_that_are_parsed() {
    let schema = schema();
    for (name, good, bad) in [
        ("size", &["0", "4096", "64MiB", "1TiB"][..], &["", "64MB", "-1", "MiB", "1.5MiB"][..]),
        ("duration", &["0ms", "30s", "5m", "1h", "7d"], &["", "30", "s", "-1s", "1w"]),
    ] {
        let definition = &schema["$defs"][name];
        for text in good {
            assert!(fits(&json!(text), definition, &schema), "{text}");
        }
        for text in bad {
            assert!(!fits(&json!(text), definition, &schema), "{text}");
        }
    }
}

/// Whether `value` fits `schema`, a part of `root`: as much of JSON Schema as ours uses.
fn fits(value: &Value, schema: &Value, root: &Value) -> bool {
    schema.as_object().unwrap().iter().all(|(keyword, rule)| match keyword.as_str() {
        "description" | "default" => true,
        "$ref" => {
            let pointer = rule.as_str().and_then(|text| text.strip_prefix('#')).unwrap();
            fits(value, root.pointer(pointer).expect("a definition"), root)
        }
        "anyOf" => rule.as_array().unwrap().iter().any(|rule| fits(value, rule, root)),
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
        "items" => {
            value.as_array().is_none_or(|values| values.iter().all(|value| fits(value, rule, root)))
        }
        "pattern" => value.as_str().is_none_or(|text| matches(text, rule.as_str().unwrap())),
        "type" => match rule.as_str().unwrap() {
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            other => panic!("type {other}"),
        },
        other => panic!("keyword {other}"),
    })
}

/// Whether `text` is digits and one of the units of `pattern`, which is `^[0-9]+(a|b)$`, or
/// `^[0-9]+(a|b)?$` where the unit may be missing.
fn matches(text: &str, pattern: &str) -> bool {
    let units = pattern.strip_prefix("^[0-9]+(").and_then(|rest| rest.strip_suffix('$')).unwrap();
    let (units, optional) = match units.strip_suffix(")?") {
        Some(units) => (units, true),
        None => (units.strip_suffix(')').unwrap(), false),
    };
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && (units.split('|').any(|u| u == unit) || optional && unit.is_empty())
}

#[test]
fn every_setting_explains_itself() {
    for setting in settings() {
        let key = setting.key();
        assert!(setting.variable().starts_with("HEADWATER_"), "{key}");
        assert!(setting.help().ends_with('.') && !setting.help().contains("[default"), "{key}");
    }
}
