//! Runs cases: many at a time and in step, so that one clock and one log serve them all.
//!
//! In each step the clock moves, by as much as the seed says; then each case sends its request, and
//! then each reads its answer. A case has buckets of its own and one connection. What a step asks
//! follows from the seed, the case, the step and the model, so a step can be left out and all
//! others still make sense: that is how a failure is made small.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use headwater_torture::http::{Connection, Request};

use crate::ask::{Ask, Body, Expect, Surface};
use crate::check::{self, check};
use crate::generate;
use crate::host::Host;
use crate::lie::Lie;
use crate::model::{Key, Model};
use crate::rng::Rng;

/// Cases at a time.
pub const ABREAST: u64 = 128;

/// A server is given up for a new one after this many batches, so that days do not end.
const BATCHES_PER_HOST: usize = 40;

/// A case that follows bytes has no more requests than this, and no more restarts.
const FOLLOWED_MAX: u64 = 60;
const RESTARTS_MAX: u32 = 2;

/// How long a source may be held by a fork that is gone.
const PURGE_MAX: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// How many requests a case makes.
    pub steps: u64,
    /// What is wrong with the server, on purpose.
    pub lie: Option<Lie>,
}

/// A case in which server and model differ.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its number.
    pub case: u64,
    /// What differs.
    pub what: String,
    /// All requests and answers up to there, in the smallest form that was found.
    pub trace: String,
}

/// One case.
struct Case {
    number: u64,
    tag: String,
    model: Model,
    connection: Option<Connection>,
    trace: String,
    failure: Option<String>,
    requests: u64,
}

impl Case {
    /// Nothing was asked yet, and nobody else has its names.
    fn begin(number: u64, host: &mut Host) -> Self {
        Self {
            number,
            tag: host.tag(),
            model: Model::new(host.now()),
            connection: None,
            trace: String::new(),
            failure: None,
            requests: 0,
        }
    }

    fn connect(&mut self, host: SocketAddr) -> io::Result<&mut Connection> {
        if self.connection.is_none() {
            let refused = |lost| io::Error::other(format!("{lost:?}"));
            self.connection = Some(Connection::open(host).map_err(refused)?);
        }
        Ok(self.connection.as_mut().expect("it is open by now"))
    }

    /// Chooses a request, predicts its answer, and sends it.
    fn send(&mut self, host: SocketAddr, plan: &Plan, step: u64) -> io::Result<(Ask, Expect)> {
        let mut rng = Rng::of(plan.seed, self.number, step);
        self.choose(host, plan.lie, &mut rng)
    }

    fn choose(
        &mut self,
        host: SocketAddr,
        lie: Option<Lie>,
        rng: &mut Rng<'_>,
    ) -> io::Result<(Ask, Expect)> {
        let ask = generate::ask(rng, &self.model, &self.tag);
        let expect = self.model.answer(&ask);
        let sent = lie.map_or_else(|| ask.clone(), |lie| lie.request(&ask));
        self.connect(host)?.send(&sent.request())?;
        self.requests += 1;
        Ok((ask, expect))
    }

    /// Reads the answer and holds it against the prediction.
    fn receive(
        &mut self,
        lie: Option<Lie>,
        host: SocketAddr,
        step: u64,
        (ask, expect): &(Ask, Expect),
    ) -> Result<(), String> {
        let lost = |error: io::Error| format!("no whole answer: {error}");
        let connection = self.connect(host).map_err(lost)?;
        let mut answer = check::receive(connection, ask, expect).map_err(lost)?;
        if matches!(expect.body, Body::Events(..)) {
            self.connection = None;
        }
        if let Some(lie) = lie {
            answer = lie.answer(ask, answer);
        }
        let now = self.model.now % 1_000_000_000;
        let (request, reply) = (ask.to_string(), answer.brief());
        let _cannot_fail =
            writeln!(self.trace, "{step:3} @{now} {request}\n      {reply}").is_err();
        check(&answer, ask, expect, host)
    }

    /// Asks for each stream that may or may not have expired.
    fn settle(&mut self, host: SocketAddr) -> io::Result<()> {
        for key in self.model.doubtful() {
            let connection = self.connect(host)?;
            connection.send(&Request::new("HEAD", path(&key)))?;
            let answer = connection.receive("HEAD")?;
            let (status, now) = (answer.status, self.model.now % 1_000_000_000);
            let _cannot_fail = writeln!(self.trace, "    @{now} {key:?}: {status}").is_err();
            if !self.model.settle(&key, answer.status == 200) {
                return Err(io::Error::other(format!("{key:?} is still alive")));
            }
        }
        // A source that its last fork held goes in the background.
        for key in std::mem::take(&mut self.model.purged) {
            let deadline = Instant::now() + PURGE_MAX;
            loop {
                let connection = self.connect(host)?;
                connection.send(&Request::new("HEAD", path(&key)))?;
                match connection.receive("HEAD")?.status {
                    // Its name may have been used again.
                    200 | 404 => break,
                    _ if Instant::now() > deadline => {
                        return Err(io::Error::other(format!("{key:?} is still held")));
                    }
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        Ok(())
    }
}

fn path((bucket, id): &Key) -> String {
    let (surface, (bucket, id)) = if bucket.is_empty() {
        (Surface::Base, id.split_once('/').expect("it is made of two segments"))
    } else {
        (Surface::Root, (bucket.as_str(), id.as_str()))
    };
    Ask::about(surface, bucket, id).target()
}

/// Runs cases from `first` on; returns the failures, made small, and how many requests were made.
/// Stops after the batch in which `failures_max` is reached.
pub fn run(plan: &Plan, first: u64, cases: u64, failures_max: usize) -> (Vec<Failure>, u64) {
    let mut host = Host::start();
    let (mut failures, mut requests) = (Vec::new(), 0);
    let numbers: Vec<u64> = (first..first + cases).collect();
    let size = usize::try_from(ABREAST).expect("a small number");
    for (index, batch) in numbers.chunks(size).enumerate() {
        if index % BATCHES_PER_HOST == BATCHES_PER_HOST - 1 {
            host = Host::start();
        }
        for case in run_batch(&mut host, plan, batch, &BTreeSet::new()) {
            requests += case.requests;
            if case.failure.is_some() && failures.len() < failures_max {
                failures.push(shrink(&mut host, plan, case));
            }
        }
        if failures.len() >= failures_max {
            break;
        }
    }
    (failures, requests)
}

/// Runs one case alone.
pub fn replay(plan: &Plan, number: u64) -> Result<String, Failure> {
    let mut host = Host::start();
    let case = run_batch(&mut host, plan, &[number], &BTreeSet::new()).remove(0);
    if case.failure.is_some() { Err(shrink(&mut host, plan, case)) } else { Ok(case.trace) }
}

/// Runs one case that follows from `bytes` instead of a seed, on a server that others have used:
/// how much time passes, whether the server is started anew, and what is asked, until they are used
/// up. Returns how many requests were made.
pub fn follow(host: &mut Host, bytes: &[u8]) -> Result<u64, Failure> {
    host.pass(1000 - host.now() % 1000);
    let mut case = Case::begin(0, host);
    let mut restarts = 0;
    let mut rng = Rng::of_bytes(bytes);
    while !rng.rest().is_empty() && case.requests < FOLLOWED_MAX {
        let ms = match rng.below(16) {
            0 if restarts < RESTARTS_MAX => {
                restarts += 1;
                case.connection = None;
                case.model.restart();
                host.restart();
                0
            }
            1..5 => 300 + 100 * rng.below(16),
            other => other,
        };
        host.pass(ms);
        case.model.pass(ms);
        let lost = |error: io::Error| format!("no answer: {error}");
        case.failure = case.settle(host.address()).map_err(lost).err();
        if case.failure.is_none() {
            let sent = case.choose(host.address(), None, &mut rng);
            let step = case.requests;
            take_answer(&mut case, None, host.address(), step, sent);
        }
        if let Some(what) = case.failure {
            return Err(Failure { case: 0, what, trace: case.trace });
        }
    }
    Ok(case.requests)
}

fn run_batch(host: &mut Host, plan: &Plan, numbers: &[u64], skip: &BTreeSet<u64>) -> Vec<Case> {
    // A full second, so that a replay rounds instants in the same way.
    host.pass(1000 - host.now() % 1000);
    let mut cases: Vec<Case> = numbers.iter().map(|number| Case::begin(*number, host)).collect();
    let mut schedule = Rng::of(plan.seed, u64::MAX, u64::MAX);
    let restart = plan.steps / 4 + schedule.below(plan.steps / 2 + 1);
    for step in 0..plan.steps {
        let failed = cases.iter().filter(|case| case.failure.is_some()).count();
        // One case is enough to see through a lie.
        if failed == cases.len() || (failed > 0 && plan.lie.is_some()) {
            break;
        }
        if step == restart {
            // A drain waits for connections, so they are given up first.
            for case in &mut cases {
                case.connection = None;
                case.model.restart();
            }
            host.restart();
        }
        let ms = if schedule.one_in(4) { 300 + schedule.below(1500) } else { schedule.below(20) };
        host.pass(ms);
        for case in &mut cases {
            case.model.pass(ms);
            if case.failure.is_none() {
                let lost = |error: io::Error| format!("no answer: {error}");
                case.failure = case.settle(host.address()).map_err(lost).err();
            }
        }
        if !skip.contains(&step) {
            run_step(host.address(), plan, step, &mut cases);
        }
    }
    cases
}

fn run_step(host: SocketAddr, plan: &Plan, step: u64, cases: &mut [Case]) {
    let mut sent = Vec::with_capacity(cases.len());
    for case in cases.iter_mut() {
        let going = case.failure.is_none();
        sent.push(going.then(|| case.send(host, plan, step)));
    }
    for (case, sent) in cases.iter_mut().zip(sent) {
        if let Some(sent) = sent {
            take_answer(case, plan.lie, host, step, sent);
        }
    }
}

/// Reads the answer to what was sent, and notes what is wrong with it.
fn take_answer(
    case: &mut Case,
    lie: Option<Lie>,
    host: SocketAddr,
    step: u64,
    sent: io::Result<(Ask, Expect)>,
) {
    case.failure = match sent {
        Err(error) => Some(format!("not sent: {error}")),
        Ok(sent) => case.receive(lie, host, step, &sent).err().inspect(|what| {
            let wanted = &sent.1;
            let note = format!("  !!! {what}\n  model: {wanted:?}\n");
            case.trace.push_str(&note);
        }),
    };
}

/// Leaves out one step after the other, as long as the case still fails.
fn shrink(host: &mut Host, plan: &Plan, case: Case) -> Failure {
    let mut smallest = case;
    let mut skip = BTreeSet::new();
    // A lie is known, so nobody has to understand it.
    let steps = if plan.lie.is_some() { 0 } else { smallest.requests };
    for step in (0..steps).rev() {
        skip.insert(step);
        let again = run_batch(host, plan, &[smallest.number], &skip).remove(0);
        if again.failure.is_some() {
            smallest = again;
        } else {
            skip.remove(&step);
        }
    }
    let what = smallest.failure.unwrap_or_default();
    Failure { case: smallest.number, what, trace: smallest.trace }
}
