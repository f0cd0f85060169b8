//! What every decoder, and the server itself, must withstand, as functions of bytes.
//!
//! A [`Target`] takes any bytes, and panics when a promise is broken. libFuzzer calls it from
//! `fuzz/`; `cargo test` calls it with every file of `corpus/` and with mutations of them. Checkers
//! are written here from the specifications, never with the code that they check; where checksums
//! would keep a fuzzer out, [`mend`] makes them right.

mod directory;
mod files;
mod head;
mod http;
mod input;
mod json;
mod log;
mod mend;
mod multipart;
mod mutate;
mod panics;
mod session;
mod sse;

pub use mutate::Mutator;

/// Something to call with any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of its corpus, too.
    pub name: &'static str,
    /// What must hold for any bytes.
    pub demand: &'static str,
    run: fn(&[u8]),
}

impl Target {
    /// Makes the demand of these bytes.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn call(&self, data: &[u8]) {
        panics::own(|| (self.run)(data));
    }
}

/// All targets.
pub const TARGETS: [Target; 13] = [
    Target {
        name: "log",
        demand: "log files: what is read is written as the same, and the core applies it",
        run: log::run,
    },
    Target {
        name: "segment",
        demand: "segments: scanned and read in every step of a read",
        run: files::segment,
    },
    Target {
        name: "manifest",
        demand: "manifests: what is read is written as the same",
        run: files::manifest,
    },
    Target {
        name: "checkpoint",
        demand: "checkpoint files and images of shards: whole or refused",
        run: files::checkpoint,
    },
    Target {
        name: "blob",
        demand: "snapshot bodies: a scan finds what a read does",
        run: files::blob,
    },
    Target {
        name: "backup",
        demand: "lists of backups: viewed, restored, written as the same",
        run: files::backup,
    },
    Target {
        name: "directory",
        demand: "damaged directories: opened or refused, no byte invented, nothing removed",
        run: directory::run,
    },
    Target {
        name: "json",
        demand: "JSON bodies: taken, refused and split as `serde_json` does it",
        run: json::run,
    },
    Target {
        name: "sse",
        demand: "event streams: a client's parser finds what went in",
        run: sse::run,
    },
    Target {
        name: "multipart",
        demand: "bootstraps: a client's parser finds the parts",
        run: multipart::run,
    },
    Target {
        name: "head",
        demand: "paths, queries, headers: in their bounds, refused in short ASCII",
        run: head::run,
    },
    Target {
        name: "http",
        demand: "bytes on a socket: well-formed answers or a close, and the server goes on",
        run: http::run,
    },
    Target {
        name: "session",
        demand: "sequences of requests: each answered as the model says",
        run: session::run,
    },
];

/// The target of this name.
///
/// # Panics
/// When there is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no target {name:?}"))
}
