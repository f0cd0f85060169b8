//! Runs worlds: many seeds, one seed with its trace, the same seed twice, or worlds with bugs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use headwater_sim::{
    Accident, Bug, Config, Failure, SCENARIOS, SOMETIMES, Start, damage, explore, fail_each,
    fail_each_read, run,
};

const USAGE: &str = "usage: headwater-sim run [--seeds N] [--start S] [--steps N] [--generations N]
       headwater-sim replay --seed S [--trace]
       headwater-sim meta [--seeds N] [--start S]
       headwater-sim bugs [--start S]
       headwater-sim sweep [--seeds N] [--start S]
       headwater-sim faults
       headwater-sim damage [--bits 1..8] [--stride N]
       headwater-sim exhaustive [--length N] [--part P] [--parts N] [--empty]";

const VERBS: [&str; 8] =
    ["run", "replay", "meta", "bugs", "sweep", "faults", "damage", "exhaustive"];

/// So many seeds must reach every rare thing.
const SEEDS_FOR_COVERAGE: u64 = 1000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(args) = Args::read(&args) else {
        let told = writeln!(io::stderr(), "{USAGE}");
        return if told.is_ok() { ExitCode::from(2) } else { ExitCode::FAILURE };
    };
    match args.run(&mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

struct Args {
    verb: String,
    seeds: u64,
    start: u64,
    trace: bool,
    empty: bool,
    config: Config,
    bits: u8,
    stride: usize,
    length: usize,
    part: usize,
    parts: usize,
}

impl Args {
    fn read(args: &[String]) -> Option<Self> {
        let (verb, rest) = args.split_first()?;
        let mut read = Self {
            verb: verb.clone(),
            seeds: 100,
            start: 0,
            trace: false,
            empty: false,
            config: Config::default(),
            bits: 8,
            stride: 1,
            length: 4,
            part: 0,
            parts: 1,
        };
        let mut rest = rest.iter();
        while let Some(flag) = rest.next() {
            if flag == "--trace" {
                read.trace = true;
                continue;
            }
            if flag == "--empty" {
                read.empty = true;
                continue;
            }
            let value: u64 = rest.next()?.parse().ok()?;
            match flag.as_str() {
                "--seeds" => read.seeds = value,
                "--start" | "--seed" => read.start = value,
                "--steps" => read.config.steps = u32::try_from(value).ok()?,
                "--generations" => read.config.generations = u32::try_from(value).ok()?,
                "--bits" => read.bits = u8::try_from(value).ok().filter(|bits| *bits <= 8)?,
                "--stride" => read.stride = usize::try_from(value).ok().filter(|it| *it > 0)?,
                "--length" => read.length = usize::try_from(value).ok()?,
                "--part" => read.part = usize::try_from(value).ok()?,
                "--parts" => read.parts = usize::try_from(value).ok().filter(|it| *it > 0)?,
                _ => return None,
            }
        }
        VERBS.contains(&verb.as_str()).then_some(read)
    }

    fn run(&self, out: &mut impl Write) -> io::Result<bool> {
        match self.verb.as_str() {
            "run" => self.many(out),
            "replay" => self.replay(out),
            "meta" => self.meta(out),
            "sweep" => self.sweep(out),
            "faults" => faults(out),
            "damage" => self.damage(out),
            "exhaustive" => self.exhaustive(out),
            _ => self.bugs(out),
        }
    }

    fn seeds(&self) -> std::ops::Range<u64> {
        self.start..self.start.saturating_add(self.seeds)
    }

    fn many(&self, out: &mut impl Write) -> io::Result<bool> {
        let (start, mut failed) = (Instant::now(), 0);
        let mut coverage: BTreeMap<&str, u64> = SOMETIMES.iter().map(|what| (*what, 0)).collect();
        for seed in self.seeds() {
            let report = run(seed, &self.config);
            for (what, times) in report.coverage {
                *coverage.entry(what).or_insert(0) += times;
            }
            if let Some(violation) = report.violation {
                failed += 1;
                writeln!(out, "seed {seed}: {violation}")?;
                writeln!(
                    out,
                    "  cargo run -p headwater-sim --release -- replay --seed {seed} --trace"
                )?;
            }
        }
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        for (what, times) in &coverage {
            writeln!(out, "{times:9}  {what}")?;
        }
        let rate = f64::from(u32::try_from(self.seeds).unwrap_or(u32::MAX)) / minutes;
        writeln!(out, "{} seeds, {failed} with a violation, {rate:.0} seeds/min", self.seeds)?;
        let never = coverage.values().filter(|times| **times == 0).count();
        if self.seeds >= SEEDS_FOR_COVERAGE && never > 0 {
            writeln!(out, "{never} rare things never happened")?;
            return Ok(false);
        }
        Ok(failed == 0)
    }

    fn replay(&self, out: &mut impl Write) -> io::Result<bool> {
        let config = Config { lines: self.trace, ..self.config.clone() };
        let report = run(self.start, &config);
        for line in &report.lines {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "seed {}: trace {:016x}", self.start, report.trace)?;
        match &report.violation {
            Some(violation) => writeln!(out, "violation: {violation}")?,
            None => writeln!(out, "nothing is wrong")?,
        }
        Ok(report.violation.is_none())
    }

    fn meta(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut same = true;
        for seed in self.seeds() {
            let (one, two) = (run(seed, &self.config), run(seed, &self.config));
            if one.trace != two.trace {
                same = false;
                writeln!(out, "seed {seed}: {:016x}, then {:016x}", one.trace, two.trace)?;
            }
        }
        writeln!(
            out,
            "{} seeds, each twice: {}",
            self.seeds,
            if same { "equal" } else { "DIFFERENT" }
        )?;
        Ok(same)
    }

    /// Every accident at every moment of a life, until it comes too late to happen.
    fn sweep(&self, out: &mut impl Write) -> io::Result<bool> {
        let accidents = [Accident::Death, Accident::FailedSync, Accident::FailedWrite];
        let (mut runs, mut failed) = (0, 0);
        for seed in self.seeds() {
            for accident in accidents {
                for after in 0.. {
                    let config =
                        Config { accident: Some((accident, after)), ..self.config.clone() };
                    let report = run(seed, &config);
                    runs += 1;
                    if let Some(violation) = &report.violation {
                        failed += 1;
                        writeln!(out, "seed {seed}, {accident:?} after {after}: {violation}")?;
                    }
                    if !report.happened {
                        break;
                    }
                }
            }
        }
        writeln!(out, "{runs} worlds, {failed} with a violation")?;
        Ok(failed == 0)
    }

    fn bugs(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut all = true;
        for bug in Bug::ALL {
            let config = Config { bug: Some(bug), ..self.config.clone() };
            let seeds = self.start..self.start + bug.seeds_max();
            let caught =
                seeds.into_iter().find_map(|seed| Some((seed, run(seed, &config).violation?)));
            if let Some((seed, violation)) = caught {
                writeln!(out, "{bug}: seed {seed}: {violation}")?;
            } else {
                all = false;
                writeln!(out, "{bug}: NOT NOTICED in {} seeds", bug.seeds_max())?;
            }
        }
        Ok(all)
    }

    /// Every bit of small directories, and every length of their files.
    fn damage(&self, out: &mut impl Write) -> io::Result<bool> {
        let seen = damage(self.bits, self.stride);
        for violation in &seen.violations {
            writeln!(out, "{violation}")?;
        }
        writeln!(
            out,
            "{} bytes, {} flips, {} cuts: {} refused, {} with failing reads, {} torn, \
             {} harmless, {} without their only log; {} not seen by a scan; {} violations",
            seen.bytes,
            seen.flips,
            seen.cuts,
            seen.refused,
            seen.unreadable,
            seen.torn,
            seen.harmless,
            seen.unmade,
            seen.unseen,
            seen.violations.len()
        )?;
        Ok(seen.violations.is_empty())
    }

    /// Every short story and every crash of it; in a directory in use, too, unless told not to.
    fn exhaustive(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut fine = true;
        let starts = if self.empty { &[Start::Empty][..] } else { &[Start::Empty, Start::Used] };
        for &start in starts {
            let begun = Instant::now();
            let seen = explore(start, self.length, (self.part, self.parts));
            for violation in &seen.violations {
                writeln!(out, "{violation}")?;
            }
            writeln!(
                out,
                "from {start:?}: {} sequences, {} states in {:.1} s, {} capped, {} violations",
                seen.sequences,
                seen.states,
                begun.elapsed().as_secs_f64(),
                seen.capped,
                seen.violations.len()
            )?;
            fine &= seen.violations.is_empty();
        }
        Ok(fine)
    }
}

/// Every call to the disk fails in every way.
fn faults(out: &mut impl Write) -> io::Result<bool> {
    let (mut total, mut failed) = (0, 0);
    for scenario in 0..SCENARIOS {
        for failure in [Failure::Error, Failure::ShortWrite, Failure::NoSpace, Failure::Sync] {
            for sticky in [false, true] {
                let seen = fail_each(scenario, failure, sticky);
                for (after, violation) in &seen.violations {
                    writeln!(
                        out,
                        "{}, {failure:?} after {after}, sticky {sticky}: {violation}",
                        seen.scenario
                    )?;
                }
                total += seen.points;
                failed += seen.violations.len();
            }
        }
    }
    writeln!(out, "{total} failing calls in {SCENARIOS} scenarios, {failed} with a violation")?;
    for sticky in [false, true] {
        let seen = fail_each_read(sticky);
        for (after, violation) in &seen.violations {
            writeln!(out, "reads, after {after}, sticky {sticky}: {violation}")?;
        }
        failed += seen.violations.len();
        writeln!(out, "{} failing reads, {} with a violation", seen.points, seen.violations.len())?;
    }
    Ok(failed == 0)
}
