//! Every input that is kept, and mutations of them: what a fuzzer has found once stays found.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use headwater_fuzz::{Mutator, target};

/// The time that a target's mutations may take.
const MUTATING_MAX: Duration = Duration::from_millis(1500);

/// The mutations of a target, if there is time for as many.
const MUTATIONS: usize = 2000;

/// The inputs of a target, in a fixed order.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .expect("a target has a folder of inputs")
        .map(|entry| {
            let entry = entry.expect("an entry of a folder");
            let input = fs::read(entry.path()).expect("an input");
            (entry.file_name().into_string().expect("a name is text"), input)
        })
        .collect();
    inputs.sort();
    inputs
}

/// Calls a target with everything; the input of a failure is printed.
fn withstands(name: &str) {
    let target = target(name);
    let inputs = corpus(name);
    assert!(!inputs.is_empty(), "there are seeds");
    for (file, input) in &inputs {
        let note = Note(format!("corpus/{name}/{file}"));
        target.call(input);
        drop(note);
    }
    let mut mutator = Mutator::new(1);
    let start = Instant::now();
    for number in 0..MUTATIONS {
        if start.elapsed() > MUTATING_MAX {
            break;
        }
        let input = &inputs[number % inputs.len()].1;
        let other = &inputs[number * 7 % inputs.len()].1;
        let mutated = mutator.mutate(input, other);
        let note = Note(format!("mutation {number} of {name}: {}", mutated.escape_ascii()));
        target.call(&mutated);
        drop(note);
    }
}

/// Says where a panic came from.
struct Note(String);

#[expect(clippy::print_stderr, reason = "beside the panic, for whoever reads the test's output")]
impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// A test for each target, so that they run side by side.
macro_rules! targets {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                withstands(stringify!($name));
            }
        )+

        /// No target is without a test.
        #[test]
        fn every_target_is_called() {
            let names = headwater_fuzz::TARGETS.map(|target| target.name);
            assert_eq!(names.as_slice(), [$(stringify!($name)),+]);
        }
    };
}

targets! {
    log segment manifest checkpoint blob backup directory
    json sse multipart head
    http session
}
