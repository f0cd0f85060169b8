//! The bytes of every entry kind and of a shard's image, as they were first written to a disk. A
//! build that reads them differently would misread data that exists.
//!
//! `UPDATE=1` adds what is missing; a line that exists never changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::access::{Key, KeyHash, KeyId, Scopes};
use headwater_core::content::ContentType;
use headwater_core::entry::Entry;
use headwater_core::ids::{
    BlobId, BucketId, Lineage, Offset, Record, ShardNo, StreamId, StreamName, Timestamp,
};
use headwater_core::moment::{ExpiresAt, Ttl};
use headwater_core::state::{Digest, Life, Origin, ProducerStamp, Snapshot, Soft, State};
use headwater_core::stream::append::Appended;
use headwater_core::stream::create::Created;

fn bucket() -> BucketId {
    BucketId::parse("demo").unwrap()
}

fn name() -> StreamName {
    StreamName::in_bucket(&bucket(), "hello").unwrap()
}

fn id(counter: u64) -> StreamId {
    StreamId::new(name().shard(), counter)
}

fn snapshot() -> Snapshot {
    Snapshot {
        offset: Offset(300),
        record: Record(7),
        digest: Digest([0xab; 32]),
        content: ContentType::parse("text/plain").unwrap(),
        blob: BlobId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        len: 70_000,
    }
}

fn created() -> Created {
    Created {
        id: id(1),
        name: name(),
        content: ContentType::parse("application/json; charset=utf-8").unwrap(),
        at: Timestamp(1_700_000_000_000),
        life: Life::Ttl {
            window: Ttl::from_seconds(60).unwrap(),
            renewed_at: Timestamp(1_700_000_000_000),
            inherited: false,
            grace: Soft::default(),
        },
        closed: false,
        attributes: Some(Bytes::from_static(b"{\"a\":1}")),
        start: (Offset(300), Record(7)),
        retained: (Offset(0), Record(0)),
        bytes: 12,
        count: 2,
        origin: Some(Origin {
            source: StreamName::on_base(["a", "b"]).unwrap(),
            source_id: StreamId::new(ShardNo(3), 9),
            anchor: Offset(300),
            sub_offset: 0,
            lineage: Some(Arc::new(Lineage {
                stream: StreamId::new(ShardNo(3), 9),
                end: Offset(300),
                parent: Some(Arc::new(Lineage {
                    stream: StreamId::new(ShardNo(4), 2),
                    end: Offset(100),
                    parent: None,
                })),
            })),
        }),
        snapshot: Some(Box::new(snapshot())),
    }
}

fn appended() -> Appended {
    Appended {
        id: id(1),
        at: Timestamp(1_700_000_000_500),
        bytes: 5,
        count: 1,
        producer: Some(ProducerStamp { id: "writer".into(), epoch: 2, seq: 300 }),
        evicted: Some("old".into()),
        stream_seq: Some(Bytes::from_static(b"0009")),
        close: true,
    }
}

fn key() -> Key {
    Key {
        id: KeyId(0x0102_0304_0506_0708),
        hash: KeyHash([0xcd; 32]),
        label: "writer".to_owned(),
        scopes: Scopes::parse("demo/doc-*:read,append /a/b:delete").unwrap(),
        created_at: Timestamp(1_700_000_000_000),
        expires_at: Some(Timestamp(1_800_000_000_000)),
    }
}

fn entries() -> Vec<(&'static str, Entry)> {
    let at = Timestamp(1_700_000_000_900);
    let until =
        Life::Until { at: ExpiresAt::parse("2031-12-31T23:59:59Z").unwrap(), inherited: true };
    let endless = Created { life: Life::Endless, origin: None, snapshot: None, ..created() };
    vec![
        ("bucket-created", Entry::BucketCreated { bucket: bucket(), at }),
        ("bucket-deleted", Entry::BucketDeleted { bucket: bucket() }),
        ("listed", Entry::Listed { name: name() }),
        ("held", Entry::Held { name: name() }),
        ("unlisted", Entry::Unlisted { name: name(), held: true }),
        ("created", Entry::Created(Box::new(created()))),
        ("created-until", Entry::Created(Box::new(Created { life: until, ..created() }))),
        ("created-endless", Entry::Created(Box::new(endless))),
        ("appended", Entry::Appended(appended())),
        ("hidden", Entry::Hidden { id: id(1) }),
        ("removed", Entry::Removed { id: id(1) }),
        (
            "fork-added",
            Entry::ForkAdded { source: id(1), fork: id(200), inherited: Offset(4)..Offset(300) },
        ),
        ("fork-released", Entry::ForkReleased { source: id(1), fork: id(200) }),
        (
            "published",
            Entry::Published { id: id(1), snapshot: Box::new(snapshot()), retain: true, at },
        ),
        ("retained", Entry::Retained { id: id(1), offset: Offset(300), record: Record(7), at }),
        ("renewed", Entry::Renewed { id: id(1), at }),
        (
            "attributes-set",
            Entry::AttributesSet { id: id(1), json: Some(Bytes::from_static(b"{\"b\":2}")), at },
        ),
        ("key-created", Entry::KeyCreated(Box::new(key()))),
        ("key-revoked", Entry::KeyRevoked { id: KeyId(7) }),
    ]
}

/// A shard that has seen most kinds, so that its image holds every part.
fn state() -> State {
    let mut state = State::new(name().shard());
    let own = |entry: &&(&str, Entry)| {
        entry.1.shard() == name().shard()
            && ["created", "appended", "fork-added", "published"].contains(&entry.0)
    };
    for (_, entry) in entries().iter().filter(own) {
        state.apply(entry);
    }
    state
}

/// The shard of the keys, with one.
fn keys() -> State {
    let mut state = State::new(KeyId::shard());
    state.apply(&Entry::KeyCreated(Box::new(key())));
    state
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.bytes().map(|b| char::from(b).to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn stored_bytes_are_what_they_were_and_read_back_equal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut golden: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(kind, bytes)| (kind.to_owned(), bytes.to_owned()))
        .collect();
    let mut now: Vec<(&str, Bytes)> =
        entries().iter().map(|(kind, entry)| (*kind, entry.encode())).collect();
    now.push(("image-2", state().image()));
    now.push(("image-2-keys", keys().image()));
    if std::env::var_os("UPDATE").is_some() {
        for (kind, bytes) in &now {
            golden.entry((*kind).to_owned()).or_insert_with(|| hex(bytes));
        }
        let lines: Vec<_> =
            golden.iter().map(|(kind, bytes)| format!("{kind} {bytes}\n")).collect();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, lines.concat()).unwrap();
    }
    let image_1 = golden.remove("image").expect("the first version of images was kept");
    assert_eq!(State::from_image(&unhex(&image_1)), Ok(state()), "an image of version 1");
    assert_eq!(golden.len(), now.len(), "a golden line for each kind, and no other");
    for (kind, bytes) in now {
        assert_eq!(golden[kind], hex(&bytes), "{kind}");
    }
    for (kind, entry) in entries() {
        assert_eq!(Entry::decode(&entry.encode()), Ok(entry), "{kind}");
    }
    assert_eq!(State::from_image(&state().image()), Ok(state()));
    assert_eq!(State::from_image(&keys().image()), Ok(keys()));
}
