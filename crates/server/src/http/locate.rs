//! Looking things up before a decision or a read: whether a stream exists, and what storage says
//! of places in it. Lookups may touch the disk, so they run where blocking is allowed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headwater_core::command::{Evidence, Target};
use headwater_core::ids::{Offset, Record, StreamName};
use headwater_core::refusal::Refusal;
use headwater_core::stream::read::{Facts, Start};
use headwater_storage::{Chunk, Error, Extent, Reader};

use super::respond::Failure;
use super::{App, Place};
use crate::engine::{Engine, Fault};

/// How often a request whose evidence went stale is decided again. Evidence goes stale only when
/// the stream is deleted and created anew, or grows past the asked offset, in between.
pub(super) const ATTEMPTS_MAX: usize = 8;

/// Messages in memory.
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    /// Where each message ends in `bytes`.
    pub(super) ends: Vec<usize>,
}

impl App {
    /// The facts of a stream, or the refusal that tells why there are none.
    pub(super) async fn facts(&self, name: &StreamName) -> Result<Facts, Failure> {
        Ok(self.engine.look(name).wait().await??)
    }

    /// Refuses a request about a stream that is missing or gone.
    pub(super) async fn must_exist(&self, place: &Place) -> Result<(), Failure> {
        if self.engine.exists(&place.name) {
            return Ok(());
        }
        self.facts(&place.name).await.map(|_facts| ())
    }

    /// The ordinal of the message that starts at `offset`, which lies between the boundary of
    /// retention and the tail; `None` when no message starts there.
    pub(super) async fn boundary(
        &self,
        facts: &Facts,
        offset: Offset,
    ) -> Result<Option<Record>, Failure> {
        if offset == facts.tail {
            return Ok(Some(facts.next));
        }
        if offset == facts.retained {
            return Ok(Some(facts.first));
        }
        self.look_up(facts, move |engine, facts| {
            engine.store().boundary(
                facts.id,
                facts.lineage.as_deref(),
                offset,
                facts.tail,
                facts.next,
            )
        })
        .await
    }

    /// Where a retained record starts, or the next one will.
    pub(super) async fn offset_of(&self, facts: &Facts, record: Record) -> Result<Offset, Failure> {
        if record == facts.next {
            return Ok(facts.tail);
        }
        if record == facts.first {
            return Ok(facts.retained);
        }
        self.look_up(facts, move |engine, facts| {
            engine.store().offset_of(
                facts.id,
                facts.lineage.as_deref(),
                record,
                facts.tail,
                facts.next,
            )
        })
        .await
    }

    /// Whole messages from `from`: as many as fit, at least one.
    pub(super) async fn extent(
        &self,
        facts: &Facts,
        from: Offset,
        bytes_max: u64,
        messages_max: u64,
    ) -> Result<Extent, Failure> {
        self.look_up(facts, move |engine, facts| {
            engine.store().extent_within(
                facts.id,
                facts.lineage.as_deref(),
                from,
                facts.tail,
                bytes_max,
                messages_max,
            )
        })
        .await
    }

    /// The bytes between two message boundaries, read as the client takes them.
    pub(super) fn reader(&self, facts: &Facts, from: Offset, to: Offset) -> Reader {
        self.engine.store().read(facts.id, facts.lineage.as_deref(), from, to)
    }

    /// The messages between two boundaries, in memory.
    pub(super) async fn collect(
        &self,
        facts: &Facts,
        from: Offset,
        to: Offset,
    ) -> Result<Collected, Failure> {
        let mut reader = self.reader(facts, from, to);
        let mut all = BytesMut::new();
        let mut ends = Vec::new();
        while let Some((chunk, rest)) = next(reader).await? {
            let start = all.len();
            ends.extend(chunk.ends.iter().map(|end| start + *end as usize));
            // One chunk from memory is the usual case, and needs no copy.
            if all.is_empty() && chunk.bytes.len() as u64 == to.since(from) {
                return Ok(Collected { bytes: chunk.bytes, ends });
            }
            all.extend_from_slice(&chunk.bytes);
            reader = rest;
        }
        Ok(Collected { bytes: all.freeze(), ends })
    }

    /// What storage says of the place that a snapshot or a boundary of retention is to have;
    /// nothing where the stream itself knows.
    pub(super) async fn evidence(
        &self,
        facts: &Facts,
        target: Target,
    ) -> Result<Option<Evidence>, Failure> {
        let found = self.find_evidence(facts, target).await;
        self.unless_outdated(facts, found).await
    }

    /// Lookups may fail because what they look for was given up meanwhile: that is no damage, and
    /// the decision will see why without evidence.
    pub(super) async fn unless_outdated<T>(
        &self,
        facts: &Facts,
        found: Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        if found.is_ok() {
            return found;
        }
        match self.engine.look_at(facts.id).wait().await? {
            Ok(now) if now.retained == facts.retained => found,
            Ok(_) | Err(_) => Ok(None),
        }
    }

    async fn find_evidence(
        &self,
        facts: &Facts,
        target: Target,
    ) -> Result<Option<Evidence>, Failure> {
        let (offset, record) = match target {
            Target::Offset(offset) if offset > facts.retained && offset < facts.tail => {
                (offset, self.boundary(facts, offset).await?)
            }
            Target::Record(record) if record > facts.first.0 && record < facts.next.0 => {
                let record = Record(record);
                (self.offset_of(facts, record).await?, Some(record))
            }
            _ => return Ok(None),
        };
        Ok(Some(Evidence { stream: facts.id, offset, record }))
    }

    /// The place where a read begins; the start must not lie beyond the tail.
    pub(super) async fn place(
        &self,
        facts: &Facts,
        start: &Start,
    ) -> Result<(Offset, Record), Failure> {
        match start {
            Start::At(offset) => match self.boundary(facts, *offset).await? {
                Some(record) => Ok((*offset, record)),
                None => Err(Refusal::NotABoundary { offset: *offset }.into()),
            },
            Start::Record(record) => Ok((self.offset_of(facts, *record).await?, *record)),
            Start::Now | Start::Beyond(_) => Ok((facts.tail, facts.next)),
        }
    }

    async fn look_up<T: Send + 'static>(
        &self,
        facts: &Facts,
        look: impl FnOnce(&Engine, &Facts) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let (engine, facts) = (Arc::clone(&self.engine), facts.clone());
        blocking(move || look(&engine, &facts)).await
    }
}

/// The next chunk of a reader, and the reader to go on with.
pub(super) async fn next(mut reader: Reader) -> Result<Option<(Chunk, Reader)>, Failure> {
    if reader.is_at_end() {
        return Ok(None);
    }
    if let Some(chunk) = reader.next_now()? {
        return Ok(Some((chunk, reader)));
    }
    blocking(move || Ok(reader.next()?.map(|chunk| (chunk, reader)))).await
}

/// Runs something that may wait for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(_panicked) => Err(Fault::stopped().into()),
    }
}
