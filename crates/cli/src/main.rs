//! One binary: serve, use, inspect.
//!
//! One file per verb: its arguments, its examples and what it does. What the verbs share lies in
//! [`client`] (one HTTP request), [`failure`] (what went wrong, and the exit code) and [`screen`]
//! (what goes where). Data goes to stdout, talk to stderr.

mod access;
mod address;
mod append;
mod args;
mod attrs;
mod backup;
mod bench;
mod bootstrap;
mod bucket;
mod check;
mod client;
mod close;
mod config;
mod confirm;
mod create;
mod delete;
mod dev;
mod failure;
mod fork;
mod generate;
mod head;
mod hint;
mod input;
mod inspect;
mod interrupt;
mod json;
mod key;
mod limits;
mod listing;
mod logging;
mod ls;
mod memory;
mod multipart;
mod read;
mod receipt;
mod retain;
mod screen;
mod serve;
mod settings;
mod snapshot;
mod sse;
mod tail;
mod torture;
mod units;
mod verify;

use std::process::ExitCode;

use args::Verb;
use config::{CommandLine, Layers};
use failure::Outcome;
use screen::Screen;

fn main() -> ExitCode {
    memory::give_large_buffers_back();
    let line = CommandLine::parse(std::env::args_os().collect());
    let screen = Screen::new(line.color());
    match line.with_file().and_then(|(cli, layers)| run(cli.verb, &layers, screen)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(screen),
    }
}

fn run(verb: Verb, layers: &Layers, screen: Screen) -> Outcome {
    match verb {
        Verb::Serve(args) => serve::run(*args, layers, screen),
        Verb::Dev(args) => dev::run(args, screen),
        Verb::Config(args) => config::run(args, layers),
        Verb::Check(args) => check::run(&args),
        Verb::Bucket(args) => bucket::run(args, screen),
        Verb::Create(args) => create::run(&args, screen),
        Verb::Append(args) => append::run(&args, screen),
        Verb::Read(args) => read::run(&args, screen),
        Verb::Tail(args) => tail::run(args),
        Verb::Head(args) => head::run(&args, screen),
        Verb::Close(args) => close::run(&args, screen),
        Verb::Delete(args) => delete::run(&args),
        Verb::Fork(args) => fork::run(&args, screen),
        Verb::Ls(args) => ls::run(&args, screen),
        Verb::Snapshot(args) => snapshot::run(args, screen),
        Verb::Retain(args) => retain::run(&args, screen),
        Verb::Bootstrap(args) => bootstrap::run(&args),
        Verb::Attrs(args) => attrs::run(args),
        Verb::Key(args) => key::run(args, screen),
        Verb::Link(args) => key::link(&args),
        Verb::Bench(args) => bench::run(args, screen),
        Verb::Verify(args) => verify::run(&args, screen),
        Verb::Inspect(args) => inspect::run(&args, screen),
        Verb::Backup(args) => backup::backup(&args, screen),
        Verb::Restore(args) => backup::restore(&args, screen),
        Verb::Generate(args) => generate::run(&args),
        Verb::Torture(args) => torture::run(&args, screen),
    }
}
