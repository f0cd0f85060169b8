//! `headwater config`, and the file with settings.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Directory, Run, Server, finish, headwater, run};

/// One setting of each kind, with three values other than its default.
const SAMPLES: [(&str, &str, [&str; 3]); 7] = [
    ("listen", "HEADWATER_LISTEN", ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]),
    ("data-dir", "HEADWATER_DATA_DIR", ["a", "b", "c"]),
    ("log-level", "HEADWATER_LOG", ["error", "warn", "debug"]),
    ("bucket", "HEADWATER_BUCKET", ["a", "b", "c"]),
    ("max-append-size", "HEADWATER_MAX_APPEND_SIZE", ["1KiB", "2KiB", "3KiB"]),
    ("sse-keep-alive", "HEADWATER_SSE_KEEP_ALIVE", ["1s", "2s", "3s"]),
    ("max-connections", "HEADWATER_MAX_CONNECTIONS", ["1", "2", "3"]),
];

/// `headwater` in `directory`, where it may find a file; none is named.
fn inside(directory: &Directory, args: &[&str]) -> Command {
    let mut command = headwater();
    command.env_remove("HEADWATER_CONFIG").current_dir(directory.path()).args(args);
    command
}

fn with_file(text: &str) -> Directory {
    let directory = Directory::new();
    write(&directory, "headwater.toml", text);
    directory
}

fn write(directory: &Directory, name: &str, text: &str) {
    std::fs::write(directory.path().join(name), text).expect("room");
}

/// What `config show --json` tells of one setting.
fn setting(run: Run, key: &str) -> Value {
    run.ok()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .find(|object| object["setting"] == key)
        .expect("every setting is shown")
}

#[test]
fn of_any_layers_the_highest_one_that_has_a_setting_wins() {
    for layers in 0..8 {
        let [file, environment, flag] = [1, 2, 4].map(|bit| layers & bit != 0);
        let directory = Directory::new();
        let mut command = inside(&directory, &["config", "show", "--json"]);
        let mut text = String::new();
        for (key, variable, values) in SAMPLES {
            if file {
                let quote = if key == "max-connections" { "" } else { "\"" };
                text.extend([key, " = ", quote, values[0], quote, "\n"]);
            }
            if environment {
                command.env(variable, values[1]);
            }
            if flag {
                command.arg(format!("--{key}={}", values[2]));
            }
        }
        write(&directory, "headwater.toml", &text);
        let shown = finish(&mut command).ok();
        for (key, _, values) in SAMPLES {
            let object = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let object = object.into_iter().find(|object| object["setting"] == key).unwrap();
            let (origin, value) = match (flag, environment, file) {
                (true, _, _) => ("flag", Some(values[2])),
                (_, true, _) => ("environment", Some(values[1])),
                (_, _, true) => ("file", Some(values[0])),
                _ => ("default", None),
            };
            assert_eq!(object["origin"], origin, "{layers} {object}");
            let shown = &object["value"];
            let shown = shown.as_str().map_or_else(|| shown.to_string(), str::to_owned);
            match value {
                Some(value) => assert_eq!(shown, value, "{layers} {object}"),
                None => assert!(!values.contains(&shown.as_str()), "{object}"),
            }
        }
    }
}

#[test]
fn a_switch_is_told_yes_or_no_by_every_layer() {
    let yes = with_file("must-exist = true");
    let no = with_file("must-exist = false");
    let show = ["config", "show", "--json"];
    for (directory, variable, flag, expected) in [
        (&yes, None, None, json!([true, "file"])),
        (&no, None, None, json!([false, "file"])),
        (&yes, Some("false"), None, json!([false, "environment"])),
        (&no, Some("true"), None, json!([true, "environment"])),
        (&yes, None, Some("--must-exist=false"), json!([false, "flag"])),
        (&no, None, Some("--must-exist"), json!([true, "flag"])),
        (&yes, Some("true"), Some("--must-exist=false"), json!([false, "flag"])),
        (&no, Some("false"), Some("--must-exist"), json!([true, "flag"])),
    ] {
        let mut command = inside(directory, &show);
        command.args(flag);
        if let Some(value) = variable {
            command.env("HEADWATER_MUST_EXIST", value);
        }
        let object = setting(finish(&mut command), "must-exist");
        assert_eq!(json!([object["value"], object["origin"]]), expected, "{object}");
    }
}

#[test]
fn a_file_that_is_named_is_read_instead_of_the_one_that_lies_there() {
    let directory = with_file("bucket = \"here\"");
    write(&directory, "other.toml", "bucket = \"other\"");
    write(&directory, "third.toml", "bucket = \"third\"");
    let bucket = |command: &mut Command| setting(finish(command), "bucket")["value"].clone();
    let show = ["config", "show", "--json"];
    assert_eq!(bucket(&mut inside(&directory, &show)), "here");
    let mut by_variable = inside(&directory, &show);
    by_variable.env("HEADWATER_CONFIG", "other.toml");
    assert_eq!(bucket(&mut by_variable), "other");
    assert_eq!(bucket(by_variable.args(["--config", "third.toml"])), "third");

    let missing = ["config", "show", "--config", "missing.toml"];
    let told = finish(&mut inside(&directory, &missing)).fails_with(2);
    assert!(told.starts_with("error: cannot read missing.toml\ncaused by: "), "{told}");
}

/// The members of a value that comes from no file and no variable.
const NOWHERE: &str = r#""file":null,"line":null,"variable":null"#;

#[test]
fn the_json_of_a_setting_stays_as_it_is() {
    let directory = with_file("\nmax-append-size = 4096\n");
    let mut command = inside(&directory, &["config", "show", "--json", "--max-connections=7"]);
    let shown = finish(command.env("HEADWATER_SSE_KEEP_ALIVE", "7s")).ok();
    for (members, origin) in [
        (
            r#""setting":"max-append-size","value":"4096","origin":"file""#,
            r#""file":"headwater.toml","line":2,"variable":null"#,
        ),
        (
            r#""setting":"sse-keep-alive","value":"7s","origin":"environment""#,
            r#""file":null,"line":null,"variable":"HEADWATER_SSE_KEEP_ALIVE""#,
        ),
        (r#""setting":"max-connections","value":7,"origin":"flag""#, NOWHERE),
        (r#""setting":"public-url","value":null,"origin":"default""#, NOWHERE),
        (r#""setting":"must-exist","value":false,"origin":"default""#, NOWHERE),
    ] {
        let line = format!("{{{members},{origin},\"secret\":false}}");
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn show_tells_each_origin_behind_a_value() {
    let directory = with_file("\nmax-append-size = 4096\n");
    let mut command = inside(&directory, &["config", "show", "--origin", "--max-connections=7"]);
    let shown = finish(command.env("HEADWATER_SSE_KEEP_ALIVE", "7s")).ok();
    for (value, origin) in [
        ("max-append-size = \"4096\"", "headwater.toml:2"),
        ("max-connections = 7", "--max-connections"),
        ("sse-keep-alive = \"7s\"", "HEADWATER_SSE_KEEP_ALIVE"),
        ("listen = \"127.0.0.1:4437\"", "default"),
        ("# public-url is not set", "default"),
    ] {
        let line = shown.lines().find(|line| line.starts_with(value)).expect(value);
        assert_eq!(line.strip_prefix(value).unwrap().trim_start(), format!("# {origin}"), "{line}");
    }
}

#[test]
fn check_tells_every_mistake_with_its_line_and_serve_refuses_with_the_same() {
    let directory = with_file("max-append-sise = 1\n\nlisten = 1\nbucket = \"ok\"\n");
    let expected = "\
error: headwater.toml is not a valid configuration
caused by: headwater.toml:1: there is no setting \"max-append-sise\"; did you mean max-append-size?
caused by: headwater.toml:3: listen: expected an address and a port: a text like \
\"127.0.0.1:4437\", found: integer

hint: headwater config default prints every setting and how it is written
";
    for args in [
        &["config", "check"][..],
        &["config", "check", "headwater.toml"],
        &["config", "show"],
        &["serve", "--data-dir", "data"],
    ] {
        assert_eq!(finish(&mut inside(&directory, args)).fails_with(2), expected, "{args:?}");
    }
    assert!(!directory.path().join("data").exists(), "nothing was started");
}

#[test]
fn check_of_a_file_without_mistakes_succeeds_and_without_a_file_does_not() {
    let directory = with_file("bucket = \"demo\"\nmust-exist = true\n");
    let checked = finish(&mut inside(&directory, &["config", "check"]));
    assert_eq!(checked.stderr, "headwater.toml: no mistakes, 2 settings\n");
    checked.ok();
    let told = finish(&mut inside(&directory, &["config", "check", "none.toml"])).fails_with(2);
    assert!(told.contains("cannot read none.toml"), "{told}");
}

#[test]
fn a_setting_that_misses_another_one_is_told_and_no_secret_is() {
    let secret = "0123456789abcdef0123456789abcdef";
    let directory = with_file(&format!("root-key = \"{secret}\"\n"));
    for verb in ["check", "show"] {
        let told = finish(&mut inside(&directory, &["config", verb])).fails_with(2);
        assert!(told.starts_with("error: headwater.toml does not go together\n"), "{told}");
        assert!(told.contains("--auth") && !told.contains(secret), "{told}");
    }
    let show = ["config", "show", "--auth", "--origin"];
    let shown = finish(&mut inside(&directory, &show)).ok();
    assert!(shown.contains("\n# root-key is set and not shown"), "{shown}");
    assert!(shown.contains("# headwater.toml:1\n") && !shown.contains(secret), "{shown}");
}

#[test]
fn what_is_no_text_or_far_too_long_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("headwater.toml");
    std::fs::write(&path, b"bucket = \"a\"\n# \xff\n").expect("room");
    let check = || finish(&mut inside(&directory, &["config", "check"])).fails_with(2);
    assert!(check().contains("headwater.toml:2: this is not UTF-8"));
    std::fs::write(&path, vec![b'\n'; (1 << 20) + 1]).expect("room");
    assert!(check().contains("headwater.toml has more than 1048576 bytes"));
}

#[test]
fn the_settings_of_a_file_reach_the_server() {
    let directory = Directory::new();
    write(&directory, "in.toml", "bucket = \"demo\"\nmax-append-size = 4\n");
    let file = directory.path().join("in.toml");
    let server = Server::start(&directory, &["--config", file.to_str().expect("UTF-8")]);
    server.run(&["create", "demo/x"]).ok();
    let told = server.run(&["append", "demo/x", "12345"]).fails_with(1);
    assert!(told.contains("(413 "), "{told}");
}

#[test]
fn a_value_that_is_not_taken_is_told_with_its_variable_if_it_comes_from_there() {
    let said = "tip: HEADWATER_LISTEN in the environment has this value";
    let told = finish(headwater().arg("serve").env("HEADWATER_LISTEN", "x")).fails_with(2);
    assert!(told.contains("'x' for '--listen <ADDRESS>'") && told.contains(said), "{told}");
    for flag in [&["--listen", "y"][..], &["--listen=y"]] {
        let mut command = headwater();
        command.arg("serve").args(flag).env("HEADWATER_LISTEN", "x");
        let told = finish(&mut command).fails_with(2);
        assert!(told.contains("'y' for '--listen <ADDRESS>'") && !told.contains(said), "{told}");
    }
}

#[test]
fn dev_reads_no_file() {
    let told = run(&["dev", "--config", "x.toml"]).fails_with(2);
    assert!(told.contains("unexpected argument '--config'"), "{told}");
    let directory = with_file("no file at all");
    // The first step of a server fails here, and the file was no reason.
    let args = ["dev", "--listen", "127.0.0.1:0", "--data-dir", "headwater.toml/data"];
    let told = finish(&mut inside(&directory, &args)).stderr;
    assert!(!told.is_empty() && !told.contains("not a valid configuration"), "{told}");
}

#[test]
fn the_schema_and_the_default_file_are_printed_and_fit() {
    let schema: Value = serde_json::from_str(&run(&["config", "schema"]).ok()).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let file = run(&["config", "default"]).ok();
    for key in schema["properties"].as_object().expect("properties").keys() {
        assert!(file.lines().any(|line| line.contains(&format!("{key} = "))), "{key}");
    }
    let directory = with_file(&file);
    finish(&mut inside(&directory, &["config", "check"])).ok();
}
