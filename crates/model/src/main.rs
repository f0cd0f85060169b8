//! `headwater-model`: compares the real server with the model until they differ.
#![expect(clippy::print_stdout, reason = "a tool's answer is what it prints")]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use headwater_model::drive::{Failure, Plan, replay, run};

/// Compares the real server with a small model of its HTTP interface.
#[derive(Debug, Parser)]
enum Args {
    /// Runs many cases.
    Run {
        /// How many.
        #[arg(long, default_value_t = 100_000)]
        cases: u64,
        /// The seed; a random one if absent.
        #[arg(long)]
        seed: Option<u64>,
        /// The number of the first case.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Requests in a case.
        #[arg(long, default_value_t = 40)]
        steps: u64,
        /// Stops after this many failures.
        #[arg(long, default_value_t = 5)]
        failures: usize,
    },
    /// Runs one case and shows its requests and answers.
    Replay {
        /// The seed of the run.
        #[arg(long)]
        seed: u64,
        /// The number of the case.
        #[arg(long)]
        case: u64,
        /// Requests in a case.
        #[arg(long, default_value_t = 40)]
        steps: u64,
    },
}

fn main() -> ExitCode {
    match Args::parse() {
        Args::Run { cases, seed, first, steps, failures } => {
            let seed = seed.unwrap_or_else(|| getrandom::u64().expect("the system has randomness"));
            println!("seed {seed}: {cases} cases of {steps} requests");
            let start = Instant::now();
            let plan = Plan { seed, steps, lie: None };
            let (failures, requests) = run(&plan, first, cases, failures);
            for failure in &failures {
                show(seed, failure);
            }
            let seconds = start.elapsed().as_secs();
            println!("{requests} requests in {seconds} s, {} failures", failures.len());
            if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Args::Replay { seed, case, steps } => {
            match replay(&Plan { seed, steps, lie: None }, case) {
                Ok(trace) => {
                    println!("{trace}");
                    ExitCode::SUCCESS
                }
                Err(failure) => {
                    show(seed, &failure);
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn show(seed: u64, Failure { case, what, trace }: &Failure) {
    println!("{trace}seed {seed}, case {case}: {what}\n");
}
