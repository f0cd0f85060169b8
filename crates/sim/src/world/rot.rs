//! Bytes that change at rest: noticed or harmless, never wrong.

use headwater_server::engine::Engine;

use super::World;
use crate::oracle::{self, Check, violation};

impl World {
    /// Stops cleanly, flips one bit, and starts again.
    pub(super) fn rot(&mut self) -> Check {
        if self.bug.is_some() {
            return Ok(());
        }
        self.check()?;
        let engine = self.engine();
        if let Err(error) = engine.seal() {
            return violation!("the last stop failed: {error}");
        }
        drop(engine);
        self.engine = None;
        self.slow.clear();
        self.watched.clear();
        let sealed = self.disk.crash(false);
        for _ in 0..3 {
            self.disk = sealed.copy();
            let mut rng = self.rng.fork();
            let flipped = self.disk.with(|medium| crate::disk::flip_bit(medium, &mut rng));
            let Some((path, at)) = flipped else { return Ok(()) };
            self.trace.line(format_args!("a bit of {path} at {at} flips"));
            match Engine::open(self.seams(), self.options.clone()) {
                Ok(engine) => {
                    let noticed = oracle::check_damaged(&engine, &self.history.live)?;
                    self.sometimes(if noticed { "rot noticed in a read" } else { "rot harmless" });
                }
                Err(error) if oracle::reports_damage(error.0.kind) => {
                    self.sometimes("rot noticed at the start");
                }
                Err(error) => {
                    return violation!("a flipped bit in {path} at {at} is called {}", error.0);
                }
            }
        }
        Ok(())
    }
}
