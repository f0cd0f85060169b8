//! The help texts, and that the documentation knows all they say.

use crate::support::run;

const VERBS: [&[&str]; 60] = [
    &["serve"],
    &["dev"],
    &["config"],
    &["config", "show"],
    &["config", "check"],
    &["config", "schema"],
    &["config", "default"],
    &["check"],
    &["bucket"],
    &["bucket", "create"],
    &["bucket", "ls"],
    &["bucket", "show"],
    &["bucket", "rm"],
    &["create"],
    &["append"],
    &["read"],
    &["tail"],
    &["head"],
    &["close"],
    &["delete"],
    &["fork"],
    &["ls"],
    &["snapshot"],
    &["snapshot", "put"],
    &["snapshot", "get"],
    &["snapshot", "show"],
    &["retain"],
    &["bootstrap"],
    &["attrs", "get"],
    &["attrs", "set"],
    &["key"],
    &["key", "create"],
    &["key", "ls"],
    &["key", "revoke"],
    &["link"],
    &["bench"],
    &["bench", "append"],
    &["bench", "open-loop"],
    &["bench", "fan-out"],
    &["bench", "catch-up"],
    &["bench", "replay"],
    &["bench", "create"],
    &["bench", "bootstrap"],
    &["bench", "idle"],
    &["bench", "snapshots"],
    &["verify"],
    &["inspect"],
    &["inspect", "log"],
    &["inspect", "segment"],
    &["inspect", "checkpoint"],
    &["inspect", "manifest"],
    &["inspect", "streams"],
    &["inspect", "dir"],
    &["inspect", "export"],
    &["backup"],
    &["restore"],
    &["generate"],
    &["generate", "grafana-dashboard"],
    &["generate", "alerts"],
    &["torture"],
];

const DOCUMENTATION: &str = concat!(
    include_str!("../../../../docs/cli.md"),
    include_str!("../../../../docs/configuration.md")
);

fn help(verb: &[&str]) -> String {
    run(&[verb, &["--help"]].concat()).ok()
}

#[test]
fn every_verb_explains_itself_with_an_example_that_names_it() {
    for verb in VERBS {
        let help = help(verb);
        let (_, examples) = help.split_once("\nExample").expect("an example");
        let command = format!("headwater {}", verb.join(" "));
        assert!(examples.contains(&command), "{verb:?}:\n{help}");
    }
}

#[test]
fn the_list_above_has_every_verb() {
    let help = help(&[]);
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let listed: Vec<&str> = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    let mut tested: Vec<&str> = VERBS.iter().map(|verb| verb[0]).collect();
    tested.dedup();
    assert_eq!(listed, tested);
}

#[test]
fn the_exit_codes_are_in_the_help_and_in_the_documentation() {
    let help = help(&[]);
    for code in ["0", "1", "2", "3", "4", "5", "6", "7", "130"] {
        assert!(help.contains(&format!("\n{code:>5}  ")), "{code}:\n{help}");
        assert!(DOCUMENTATION.contains(&format!("| {code} |")), "{code}");
    }
}

#[test]
fn every_verb_flag_and_variable_is_documented() {
    for verb in VERBS {
        let name = format!("headwater {}", verb.join(" "));
        assert!(DOCUMENTATION.contains(&name), "{name}");
        for word in help(verb).split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)) {
            let is_flag = word.len() > 2 && word.starts_with("--") && word != "--help";
            let is_variable = word.starts_with("HEADWATER_") || word.starts_with("STREAM_");
            if is_flag || is_variable {
                assert!(DOCUMENTATION.contains(word), "{word} of {verb:?}");
            }
        }
    }
}

#[test]
fn the_version_goes_to_stdout() {
    let expected = format!("headwater {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"]).ok(), expected);
}
