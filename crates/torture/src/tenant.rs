//! The actor with buckets and short-lived streams of its own. Nobody else knows them.

use std::time::{Duration, Instant};

use crate::audit::ask;
use crate::http::{Client, Request, Response};
use crate::judge::Round;
use crate::life::Tri;
use crate::log::Breach;
use crate::rng::Rng;
use crate::world::World;

/// The bucket of the streams with a time to live.
pub const TTL_BUCKET: &str = "short-lived";

/// So many streams with a time to live are watched at a time.
const TIMED_MAX: usize = 6;

/// So many buckets are remembered.
const BUCKETS_MAX: usize = 30;

/// How much later than due an expiry may be seen.
const SLACK: Duration = Duration::from_secs(3);

/// The actor.
#[derive(Debug, Default)]
pub struct Tenant {
    numbered: u32,
    buckets: Vec<Bucket>,
    timed: Vec<Timed>,
}

/// A bucket with at most one stream.
#[derive(Debug)]
struct Bucket {
    name: String,
    there: Fact,
    stream: Fact,
}

/// Whether something exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    No,
    Yes,
    /// A request that changes it had no answer.
    InDoubt,
}

/// A stream with a time to live.
#[derive(Debug)]
struct Timed {
    path: String,
    window: Duration,
    born: Tri,
    /// It has been seen to be gone.
    gone: bool,
    /// When the newest request was sent that has renewed it.
    renewed_after: Option<Instant>,
    /// What that request was, and whether the server was started again since.
    renewed_by: &'static str,
    restarted: bool,
    /// When the newest request ended that may have renewed it.
    renewed_before: Instant,
}

impl Tenant {
    /// Acts until the round is over.
    pub fn work(&mut self, round: &Round<'_>, mut rng: Rng) {
        let mut client = Client::new(round.address);
        while round.goes_on() {
            if rng.one_in(2) {
                self.bucket(round.world, &mut client, &mut rng);
            } else {
                self.time(round.world, &mut client, &mut rng);
            }
            (0..3).for_each(|_| round.rest());
        }
    }

    /// After a restart: buckets are there or not, as was said; nothing expired is back; and no
    /// stream lives in a bucket that does not.
    pub fn audit(&mut self, world: &World, client: &mut Client) {
        let now = Instant::now();
        for bucket in &mut self.buckets {
            if let Err(Breach(what)) = bucket.audit(client) {
                world.breach(format!("bucket {}: {what}", bucket.name));
            }
        }
        let keep_from = self.buckets.len().saturating_sub(BUCKETS_MAX);
        for mut bucket in self.buckets.drain(..keep_from) {
            bucket.end(world, client);
        }
        for timed in &mut self.timed {
            // Recovery may begin the window anew.
            timed.renewed_before = now;
            timed.restarted = true;
            timed.look(world, client);
        }
    }

    fn bucket(&mut self, world: &World, client: &mut Client, rng: &mut Rng) {
        let mut open: Vec<&mut Bucket> = self
            .buckets
            .iter_mut()
            .filter(|bucket| bucket.there == Fact::Yes && bucket.stream != Fact::InDoubt)
            .collect();
        let Some(bucket) = open.pop().filter(|_| rng.below(4) > 0) else {
            self.numbered += 1;
            let name = format!("bucket-{}", self.numbered);
            let mut bucket = Bucket { name, there: Fact::No, stream: Fact::No };
            bucket.turn(world, client, "PUT", false, 201);
            return self.buckets.push(bucket);
        };
        match bucket.stream {
            Fact::No if rng.one_in(2) => bucket.turn(world, client, "DELETE", false, 204),
            Fact::No => bucket.turn(world, client, "PUT", true, 201),
            Fact::Yes if rng.one_in(3) => bucket.refused(world, client),
            _ => bucket.turn(world, client, "DELETE", true, 204),
        }
    }

    fn time(&mut self, world: &World, client: &mut Client, rng: &mut Rng) {
        self.timed.retain(|timed| !(timed.gone && rng.one_in(20)));
        if self.timed.len() < TIMED_MAX && rng.one_in(10) {
            self.numbered += 1;
            let path = format!("/{TTL_BUCKET}/t{}", self.numbered);
            let window = Duration::from_secs(rng.within(1, 3));
            let now = Instant::now();
            let mut timed = Timed {
                path,
                window,
                born: Tri::Maybe,
                gone: false,
                renewed_after: None,
                renewed_by: "",
                restarted: false,
                renewed_before: now,
            };
            let request = Request::new("PUT", timed.path.clone())
                .header("Stream-TTL", window.as_secs())
                .body("text/plain", b"born".to_vec());
            timed.renew(world, client, &request);
            return self.timed.push(timed);
        }
        let count = self.timed.len();
        let choice = rng.below(count.max(1) as u64);
        let Some(timed) = usize::try_from(choice).ok().and_then(|at| self.timed.get_mut(at)) else {
            return;
        };
        match rng.below(40) {
            0 => {
                let request =
                    Request::new("POST", timed.path.clone()).body("text/plain", b"more".to_vec());
                timed.renew(world, client, &request);
            }
            1 => timed.renew(world, client, &Request::new("GET", timed.path.clone())),
            _ => timed.look(world, client),
        }
    }
}

impl Bucket {
    fn path(&self, of_stream: bool) -> String {
        if of_stream { format!("/{}/only", self.name) } else { format!("/{}", self.name) }
    }

    /// Creates or deletes the bucket or its stream.
    fn turn(
        &mut self,
        world: &World,
        client: &mut Client,
        method: &'static str,
        of_stream: bool,
        expected: u16,
    ) {
        let answer = client.call(&Request::new(method, self.path(of_stream)));
        let fact = match answer {
            Ok(answer) if answer.status == expected => {
                world.count("bucket operations", 1);
                if method == "PUT" { Fact::Yes } else { Fact::No }
            }
            Ok(answer) if answer.status != 503 => {
                let path = self.path(of_stream);
                return world.breach(format!("{method} {path}: {}", answer.brief()));
            }
            Ok(_) | Err(_) => Fact::InDoubt,
        };
        *(if of_stream { &mut self.stream } else { &mut self.there }) = fact;
    }

    /// Removes what is there of it. Nobody else works, so every answer is certain.
    fn end(&mut self, world: &World, client: &mut Client) {
        for (fact, of_stream) in [(self.stream, true), (self.there, false)] {
            if fact == Fact::Yes {
                self.turn(world, client, "DELETE", of_stream, 204);
            }
        }
    }

    /// A bucket with a stream cannot be deleted.
    fn refused(&mut self, world: &World, client: &mut Client) {
        match client.call(&Request::new("DELETE", self.path(false))) {
            Ok(answer) if !matches!(answer.status, 409 | 503) => {
                let path = self.path(false);
                world.breach(format!("DELETE {path}, which has a stream: {}", answer.brief()));
            }
            _ => {}
        }
    }

    fn audit(&mut self, client: &mut Client) -> Result<(), Breach> {
        let bucket = ask(client, &Request::new("GET", self.path(false)))?;
        let stream = ask(client, &Request::new("HEAD", self.path(true)))?;
        let is = |answer: &Response| answer.status == 200;
        for (what, fact, is) in
            [("bucket", self.there, is(&bucket)), ("stream", self.stream, is(&stream))]
        {
            if matches!((fact, is), (Fact::Yes, false) | (Fact::No, true)) {
                return Err(Breach(format!("the {what} was said to be {fact:?} and is {is}")));
            }
        }
        let body: serde_json::Value = serde_json::from_slice(&bucket.body).unwrap_or_default();
        if is(&bucket) && body["streams"] != u64::from(is(&stream)) {
            let is = is(&stream);
            return Err(Breach(format!("its stream is there: {is}, and it says {body}")));
        }
        let fact = |is| if is { Fact::Yes } else { Fact::No };
        (self.there, self.stream) = (fact(is(&bucket)), fact(is(&stream)));
        Ok(())
    }
}

impl Timed {
    /// Sends something that begins the window anew.
    fn renew(&mut self, world: &World, client: &mut Client, request: &Request) {
        let began = Instant::now();
        let answer = client.call(request);
        let was = self.renewed_before;
        self.renewed_before = Instant::now();
        match answer {
            Ok(answer) if answer.status < 300 => {
                self.there(world, began, was);
                self.renewed_after = Some(began);
                (self.renewed_by, self.restarted) = (request.method(), false);
            }
            Ok(answer) if matches!(answer.status, 404 | 410) => {
                self.renewed_before = was;
                self.missing(world);
            }
            Ok(answer) if answer.status != 503 => {
                world.breach(format!("{} (with a TTL): {}", self.path, answer.brief()));
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// HEAD, which does not.
    fn look(&mut self, world: &World, client: &mut Client) {
        let began = Instant::now();
        match client.call(&Request::new("HEAD", self.path.clone())) {
            Ok(answer) if answer.status == 200 => self.there(world, began, self.renewed_before),
            Ok(answer) if matches!(answer.status, 404 | 410) => self.missing(world),
            _ => {}
        }
    }

    fn there(&mut self, world: &World, began: Instant, renewed_before: Instant) {
        if self.gone {
            world.breach(format!("{}: it had expired and is back", self.path));
        }
        if self.born == Tri::Yes && began > renewed_before + self.window * 2 + SLACK {
            let (window, late) = (self.window, began - renewed_before);
            world.breach(format!("{}: it lives {late:?} with a TTL of {window:?}", self.path));
        }
        self.born = Tri::Yes;
    }

    fn missing(&mut self, world: &World) {
        let now = Instant::now();
        if let Some(renewed) = self.renewed_after.filter(|_| !self.gone) {
            world.count("expiries seen", 1);
            if now < renewed + self.window {
                let (window, age) = (self.window, now - renewed);
                world.breach(format!(
                    "{}: gone {age:?} after {}, with a TTL of {window:?}; restarted between: {}",
                    self.path, self.renewed_by, self.restarted
                ));
            }
        }
        self.gone = true;
    }
}
