//! A world in which just that happens which a script says: for sweeps, where every moment of the
//! same story has its turn.

use bytes::Bytes;
use headwater_core::command::{Body, Command, StoredBlob, Target};
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, Offset, StreamName};
use headwater_core::moment::{Lifetime, Ttl};
use headwater_core::state::{Digest, ProducerStamp};
use headwater_core::stream::append::Append;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::retention::Retain;
use headwater_core::stream::snapshot::Publish;
use headwater_server::engine::Engine;
use headwater_storage::Options;

use super::{Config, World};
use crate::model::Action;
use crate::oracle::{self, Check};

/// Bytes of a message: a frame with one spans two or three sectors.
const MESSAGE_BYTES: usize = 600;

/// One step of a script; streams have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Create(u8),
    /// With a lifetime of one second.
    CreateShort(u8),
    Append(u8),
    AppendBy(u8),
    Close(u8),
    Delete(u8),
    /// The second is a fork of the first at its tail.
    Fork(u8, u8),
    Snapshot(u8),
    Retain(u8),
    Batch(u8),
    Commit,
    Checkpoint,
    /// Background work until there is none.
    Upkeep,
    /// So many milliseconds.
    Pass(u64),
    Stop,
    /// The process is killed and starts again.
    Kill,
}

impl World {
    /// A world without accidents, with a running server in it.
    pub(super) fn scripted(options: Options) -> Check<Self> {
        let mut world = Self::new(0, &Config::default());
        world.options = options;
        world.scripted = true;
        world.recover()?;
        Ok(world)
    }

    /// Does what the script says until the process is down.
    pub(super) fn follow(&mut self, script: &[Op]) -> Check {
        for op in script {
            let done = self.perform(*op);
            self.down |= self.disk.with(|medium| medium.dead || medium.failed.is_some());
            if self.down {
                // What a process says while its disk fails is judged by what it leaves.
                return match done {
                    Err(violation) if !violation.0.contains(crate::disk::SIMULATED) => {
                        Err(violation)
                    }
                    _ => Ok(()),
                };
            }
            done?;
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, op: Op) -> Check {
        match op {
            Op::Commit => self.commit_all(),
            Op::Checkpoint => {
                self.begin_checkpoint()?;
                self.commit_all()?;
                if self.down { Ok(()) } else { self.finish_checkpoint() }
            }
            Op::Upkeep => self.upkeep(),
            Op::Pass(ms) => {
                self.clock.advance(ms);
                self.elapsed += ms;
                Ok(())
            }
            Op::Stop => {
                if self.stop_cleanly()? {
                    self.restart()?;
                }
                Ok(())
            }
            Op::Kill => {
                let _unanswered = self.end_process();
                self.disk = self.disk.crash(false);
                self.restart()
            }
            Op::Batch(_) => self.submit_batch(),
            _ => {
                let action = self.action(op);
                self.submit(action)
            }
        }
    }

    fn upkeep(&mut self) -> Check {
        for _ in 0..200 {
            if self.down {
                break;
            }
            let before = self.disk.with(|medium| medium.changes);
            self.maintain()?;
            self.commit_all()?;
            if self.disk.with(|medium| medium.changes) == before {
                break;
            }
        }
        Ok(())
    }

    /// Starts the process; one that the disk does not let start is down.
    pub(super) fn restart(&mut self) -> Check {
        match Engine::open(self.seams(), self.options.clone()) {
            Ok(engine) => {
                self.engine = Some(engine);
                self.settle_history()
            }
            Err(error) => {
                self.failed("starting", &error.0)?;
                self.down = true;
                Ok(())
            }
        }
    }

    /// Compares everything, with no help of the log.
    pub(super) fn compare(&self) -> Check {
        oracle::check_everything(&self.engine(), &self.history.live)
    }

    fn action(&mut self, op: Op) -> Action {
        match op {
            Op::Create(no) => Action::plain(create(no, None)),
            Op::CreateShort(no) => {
                let ttl = Ttl::from_seconds(1).expect("a short window");
                Action::plain(create(no, Some(Lifetime::Ttl(ttl))))
            }
            Op::Append(no) => self.append(no, None, false),
            Op::AppendBy(no) => {
                let found = self.history.live.streams.get(&name(no));
                let known = found.and_then(|stream| stream.producers.get("ann"));
                let seq = known.map_or(0, |known| known.seq + 1);
                self.append(no, Some(ProducerStamp { id: "ann".into(), epoch: 0, seq }), false)
            }
            Op::Close(no) => self.append(no, None, true),
            Op::Delete(no) => Action::plain(Command::Delete(name(no))),
            Op::Fork(from, to) => {
                let Command::Create(mut create) = create(to, None) else {
                    unreachable!("a create is a create")
                };
                let source = name(from);
                create.content = None;
                create.fork =
                    Some(Fork { source, anchor: Anchor::Tail, sub_offset: 0, evidence: None });
                Action::plain(Command::Create(create))
            }
            Op::Snapshot(no) => self.snapshot(no),
            Op::Retain(no) => {
                let found = self.history.live.streams.get(&name(no));
                let covered = found.and_then(|stream| stream.snapshot.as_ref());
                let target = Target::Offset(Offset(covered.map_or(0, |it| it.offset)));
                Action::plain(Command::Retain(Retain { name: name(no), target, evidence: None }))
            }
            other => unreachable!("{other:?} is no command"),
        }
    }

    fn append(&mut self, no: u8, producer: Option<ProducerStamp>, close: bool) -> Action {
        let mut bytes = vec![0; MESSAGE_BYTES];
        // No two messages are equal, and no part of one is constant.
        bytes.fill_with(|| self.rng.next().to_le_bytes()[0]);
        let message = Bytes::from(bytes);
        let append = Append {
            name: name(no),
            content: Some(ContentType::octet_stream()),
            body: Body::Message(message.clone()),
            producer,
            stream_seq: None,
            close,
            record_match: None,
        };
        Action { messages: vec![message], ..Action::plain(Command::Append(append)) }
    }

    fn snapshot(&mut self, no: u8) -> Action {
        let found = self.history.live.streams.get(&name(no));
        let target = Target::Offset(Offset(found.map_or(0, crate::model::Stream::tail)));
        let blob = Bytes::from(vec![no + 1; 700]);
        let stored = StoredBlob {
            blob: BlobId(self.rng.id()),
            len: blob.len() as u64,
            digest: Digest([no; 32]),
        };
        let publish = Publish {
            name: name(no),
            target,
            evidence: None,
            expected: None,
            content: ContentType::octet_stream(),
            blob: Some(stored),
            retain: false,
        };
        Action { blob, ..Action::plain(Command::Publish(publish)) }
    }
}

fn name(no: u8) -> StreamName {
    let local = format!("s{no}");
    StreamName::on_base(["base", local.as_str()]).expect("a legal name")
}

fn create(no: u8, lifetime: Option<Lifetime>) -> Command {
    Command::Create(Box::new(Create {
        name: name(no),
        content: Some(ContentType::octet_stream()),
        body: Body::Empty,
        lifetime,
        closed: false,
        attributes: None,
        fork: None,
    }))
}

/// Files so small that a script of a few steps fills several.
pub(super) fn options() -> Options {
    Options {
        log_file_bytes: 4 << 10,
        disk_reserve: Some(12 << 10),
        frame_bytes_max: 4 << 10,
        ring_bytes: 0,
        footer_cache_bytes: 0,
        open_files_max: 2,
        compact_bytes: 1,
        segment_bytes: 2 << 10,
        compact_step_bytes: 1 << 10,
        long_run_bytes: 1 << 10,
        replay_bytes_max: 1 << 20,
    }
}
