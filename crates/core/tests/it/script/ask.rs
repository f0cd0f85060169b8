//! What a script asks.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use headwater_core::access::{Key, KeyHash, KeyId, Scopes};
use headwater_core::command::{Body, Command, StoredBlob};
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, Offset, ShardNo, StreamId, StreamName, Timestamp};
use headwater_core::refusal::Refusal;
use headwater_core::state::{Digest, ProducerStamp, State};
use headwater_core::stream::append::Append;
use headwater_core::stream::attributes::SetAttributes;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::read::Start;
use headwater_core::stream::retention::Retain;
use headwater_core::stream::snapshot::Publish;
use headwater_core::wire::query::{OffsetToken, ReadQuery};

use super::answer;
use super::words::{Words, bucket_id, stream_name};
use crate::world::{Outcome, World};

/// One script's world.
pub(super) struct Session {
    world: World,
    next_blob: u128,
    readers: BTreeMap<String, StreamId>,
    /// The words for the receipts and refusals that came.
    pub(super) produced: BTreeSet<String>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            world: World::new(),
            next_blob: 0,
            readers: BTreeMap::new(),
            produced: BTreeSet::new(),
        }
    }
}

/// Stands in for BLAKE3: the core compares digests and never computes one.
fn digest(content: &ContentType, body: &[u8]) -> Digest {
    let mut all = content.as_str().as_bytes().to_vec();
    all.push(0);
    all.extend_from_slice(body);
    let half = xxhash_rust::xxh3::xxh3_128(&all).to_be_bytes();
    let mut whole = [0; 32];
    whole[..16].copy_from_slice(&half);
    whole[16..].copy_from_slice(&half);
    Digest(whole)
}

/// A key that is told from others by its id alone.
fn key(id: KeyId, scopes: &str) -> Key {
    Key {
        id,
        hash: KeyHash([7; 32]),
        label: id.to_string(),
        scopes: Scopes::parse(scopes).unwrap(),
        created_at: Timestamp(0),
        expires_at: None,
    }
}

impl Session {
    pub(super) fn ask(&mut self, question: &str, place: &str) -> String {
        let mut words = Words::read(question, place);
        let verb = words.next();
        let answer = match verb {
            "wait" => self.wait(words.next()),
            "list" => self.list(&mut words),
            "buckets" => self.buckets(&mut words),
            "stat" => self.stat(words.next()),
            "head" => self.head(&words.stream()),
            "read" => self.read(&mut words),
            "snapshot" | "delete-snapshot" => self.snapshot(verb, &mut words),
            "forks" => self.forks(&words.stream()),
            "join" | "leave" => self.live_reader(verb == "join", words.next()),
            "purge" => format!("purged {}", self.world.purge_all()),
            "restart" => {
                self.world.restart();
                "ok".to_owned()
            }
            "producers" => self.producers(&mut words),
            "chain" => self.chain(&mut words),
            "keys" => self.keys(),
            "keys-to" => self.keys_to(words.next()),
            _ => {
                let command = self.command(verb, &mut words);
                let outcome = self.submit(&command);
                answer::outcome(&outcome)
            }
        };
        words.end();
        self.world.check();
        answer
    }

    fn command(&mut self, verb: &str, words: &mut Words<'_>) -> Command {
        match verb {
            "bucket" => Command::CreateBucket(bucket_id(words.next())),
            "delete-bucket" => Command::DeleteBucket(bucket_id(words.next())),
            "create" => Command::Create(Box::new(Self::create(words))),
            "append" => Command::Append(Self::append(words)),
            "close" => Command::Append(Append { close: true, ..Self::append(words) }),
            "delete" => Command::Delete(words.stream()),
            "expire" => Command::Expire(words.stream()),
            "publish" => Command::Publish(self.publish(words)),
            "retain" => Command::Retain(Retain {
                name: words.stream(),
                target: words.target(),
                evidence: None,
            }),
            "attrs" => {
                let name = words.stream();
                let json = words.take("json").filter(|json| *json != "{}");
                let json = json.map(|json| Bytes::copy_from_slice(json.as_bytes()));
                Command::SetAttributes(SetAttributes { name, json })
            }
            "key" => {
                let id = KeyId(words.next().parse().unwrap());
                Command::CreateKey(Box::new(key(id, words.next())))
            }
            "revoke" => Command::RevokeKey(KeyId(words.next().parse().unwrap())),
            _ => panic!("{}: no such verb: {verb}", words.place),
        }
    }

    fn keys(&self) -> String {
        let keys = self.world.shard(KeyId::shard()).keys();
        let lines: Vec<_> = keys.map(|key| format!("{} {}", key.id.0, key.scopes)).collect();
        if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
    }

    /// Creates keys until there are so many.
    fn keys_to(&mut self, count: &str) -> String {
        let count: usize = count.parse().unwrap();
        for id in 1_000_000.. {
            if self.world.shard(KeyId::shard()).keys().len() >= count {
                break;
            }
            self.submit(&Command::CreateKey(Box::new(key(KeyId(id), "*:read"))));
        }
        "ok".to_owned()
    }

    fn submit(&mut self, command: &Command) -> Outcome {
        let outcome = self.world.submit(command);
        let word = match &outcome {
            Outcome::Wrote(receipt) => answer::receipt_word(receipt, true),
            Outcome::Repeated(receipt) => answer::receipt_word(receipt, false),
            Outcome::Refused(refusal) => refusal.code().code,
        };
        self.produced.insert(word.to_owned());
        outcome
    }

    fn refuse(&mut self, refusal: &Refusal) -> String {
        self.produced.insert(refusal.code().code.to_owned());
        answer::refusal(refusal)
    }

    fn create(words: &mut Words<'_>) -> Create {
        let (name, content) = (words.stream(), words.content());
        let attributes = words.take("attrs").map(|json| Bytes::copy_from_slice(json.as_bytes()));
        Create {
            name,
            body: Body::read(words.body(), content.as_ref()),
            content,
            lifetime: words.lifetime(),
            closed: words.flag("closed"),
            attributes,
            fork: words.fork(),
        }
    }

    fn append(words: &mut Words<'_>) -> Append {
        let (name, content) = (words.stream(), words.content());
        Append {
            name,
            body: Body::read(words.body(), content.as_ref()),
            content,
            producer: words.producer(),
            stream_seq: words.take("seq").map(|seq| Bytes::copy_from_slice(seq.as_bytes())),
            close: words.flag("close"),
            record_match: words.number("match"),
        }
    }

    /// `match=` takes a text as it is, `match-body=` the digest of such a body without a type.
    fn publish(&mut self, words: &mut Words<'_>) -> Publish {
        let name = words.stream();
        let content = words.content().unwrap_or_default();
        let of_body = words.take("match-body");
        let of_body = of_body.map(|body| digest(&ContentType::default(), body.as_bytes()));
        let expected = of_body.map(|digest| digest.to_string());
        let expected = expected.or(words.take("match").map(str::to_owned));
        let (retain, head_only) = (words.flag("and-retain"), words.flag("head-only"));
        let body = words.body();
        self.next_blob += 1;
        let blob = StoredBlob {
            blob: BlobId(self.next_blob),
            len: body.len() as u64,
            digest: digest(&content, &body),
        };
        Publish {
            name,
            target: words.target(),
            evidence: None,
            expected,
            content,
            blob: (!head_only).then_some(blob),
            retain,
        }
    }

    fn wait(&mut self, text: &str) -> String {
        let ms = match text.strip_suffix("ms") {
            Some(ms) => ms.parse().expect(text),
            None => text.strip_suffix('s').and_then(|s| s.parse::<u64>().ok()).expect(text) * 1000,
        };
        self.world.advance(ms);
        format!("now {}", self.world.now.node.0)
    }

    fn list(&mut self, words: &mut Words<'_>) -> String {
        let id = bucket_id(words.next());
        let (prefix, after) = (words.take("prefix"), words.take("after"));
        let limit = usize::try_from(words.number("limit").unwrap_or(1000)).unwrap();
        match self.world.shard(id.shard()).bucket(&id) {
            Ok(bucket) => {
                let page =
                    bucket.page(&id, prefix.unwrap_or_default(), after.unwrap_or_default(), limit);
                let names: Vec<_> = page.names.iter().map(StreamName::local).collect();
                let more = if page.has_more { " and more" } else { "" };
                format!("[{}]{more}", names.join(" "))
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn buckets(&mut self, words: &mut Words<'_>) -> String {
        let after = words.take("after").unwrap_or_default();
        let shards = ShardNo::all().map(|no| self.world.shard(no));
        let mut ids: Vec<_> = shards
            .flat_map(|state| state.buckets_after(after))
            .map(|(id, _)| id.as_str())
            .collect();
        ids.sort_unstable();
        format!("[{}]", ids.join(" "))
    }

    fn stat(&mut self, id: &str) -> String {
        let id = bucket_id(id);
        let found = self.world.shard(id.shard()).bucket(&id);
        match found.map(|bucket| (bucket.streams(), bucket.held(), bucket.created_at.0)) {
            Ok((streams, held, at)) => format!("streams={streams} held={held} created_at_ms={at}"),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn head(&mut self, name: &StreamName) -> String {
        match self.world.facts(name) {
            Ok(facts) => answer::facts(&facts),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Like a GET, and therefore renews a TTL.
    fn read(&mut self, words: &mut Words<'_>) -> String {
        let name = words.stream();
        let facts = match self.world.facts(&name) {
            Ok(facts) => facts,
            Err(refusal) => return self.refuse(&refusal),
        };
        let asked = ["offset", "record", "tail_records"];
        let asked = asked.iter().filter_map(|key| Some(format!("{key}={}", words.take(key)?)));
        let query = ReadQuery::parse(Some(&asked.collect::<Vec<_>>().join("&"))).unwrap();
        let start = match facts.start(query.start.as_ref()) {
            Ok(start) => start,
            Err(refusal) => return self.refuse(&refusal),
        };
        let all = self.world.messages(facts.id, Offset::ZERO);
        let messages = match &start {
            Start::At(offset) => {
                let known = [facts.tail, facts.retained].contains(offset);
                if !known && !all.iter().any(|message| message.offset == *offset) {
                    return self.refuse(&Refusal::NotABoundary { offset: *offset });
                }
                answer::messages(self.world.messages(facts.id, *offset))
            }
            Start::Record(record) => answer::messages(&all[usize::try_from(record.0).unwrap()..]),
            Start::Now => Vec::new(),
            Start::Beyond(beyond) => vec![format!("waits at {beyond}")],
        };
        self.world.renew(facts.id);
        let mut lines = messages;
        lines.push(format!("up to {}", facts.tail.0));
        lines.join("\n")
    }

    fn snapshot(&mut self, verb: &str, words: &mut Words<'_>) -> String {
        let facts = match self.world.facts(&words.stream()) {
            Ok(facts) => facts,
            Err(refusal) => return self.refuse(&refusal),
        };
        let token = words.take("at").map(|at| OffsetToken::parse_position(at).expect(at));
        let found = match (verb, &token) {
            ("delete-snapshot", Some(token)) => Err(facts.snapshot_delete(token)),
            (_, Some(token)) => facts.snapshot_at(token),
            (_, None) => facts.visible_snapshot(),
        };
        match found {
            Ok(snapshot) => answer::snapshot(snapshot),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// The forks of a stream, whatever its condition, and which bytes it must keep for them.
    fn forks(&mut self, name: &StreamName) -> String {
        let Some(stream) = self.world.stream(name) else { return "gone".to_owned() };
        let state = |id: StreamId| -> &State { self.world.shard(id.shard()) };
        let mut lines: Vec<_> = stream
            .forks()
            .map(|(id, inherited)| {
                let fork = state(id).stream(id).expect("a counted fork is there").name.key();
                format!("{fork} inherits {}..{}", inherited.start.0, inherited.end.0)
            })
            .collect();
        lines.sort();
        lines.insert(0, if stream.hidden { "hidden" } else { "visible" }.to_owned());
        lines.join("\n")
    }

    fn live_reader(&mut self, joins: bool, name: &str) -> String {
        let id = if joins {
            self.world.stream(&stream_name(name)).expect(name).id
        } else {
            self.readers.remove(name).expect(name)
        };
        self.world.count_reader(id, joins);
        if joins {
            self.readers.insert(name.to_owned(), id);
        }
        "ok".to_owned()
    }

    /// So many producers `p0`, `p1` … append one byte each.
    fn producers(&mut self, words: &mut Words<'_>) -> String {
        let (name, count) = (words.stream(), words.number("count").unwrap());
        for number in 0..count {
            let append = Append {
                name: name.clone(),
                content: Some(ContentType::default()),
                body: Body::Message(Bytes::from_static(b".")),
                producer: Some(ProducerStamp { id: format!("p{number}").into(), epoch: 0, seq: 0 }),
                stream_seq: None,
                close: false,
                record_match: None,
            };
            assert!(matches!(self.submit(&Command::Append(append)), Outcome::Wrote(_)));
        }
        format!("{count} producers")
    }

    /// Forks the stream to `{stream}1`, that one to `{stream}2` and so on, one byte more each.
    fn chain(&mut self, words: &mut Words<'_>) -> String {
        let (first, count) = (words.next().to_owned(), words.number("count").unwrap());
        let mut source = first.clone();
        for number in 1..=count {
            let name = format!("{first}{number}");
            let create = Create {
                name: stream_name(&name),
                content: None,
                body: Body::Message(Bytes::from_static(b".")),
                lifetime: None,
                closed: false,
                attributes: None,
                fork: Some(Fork {
                    source: stream_name(&source),
                    anchor: Anchor::Tail,
                    sub_offset: 0,
                    evidence: None,
                }),
            };
            let outcome = self.submit(&Command::Create(Box::new(create)));
            assert!(matches!(outcome, Outcome::Wrote(_)), "{outcome:?}");
            source = name;
        }
        source
    }
}
