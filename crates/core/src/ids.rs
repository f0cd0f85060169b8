//! The names and positions that every other module speaks in. Nothing here does I/O.
//!
//! ```text
//! offset    0 ······ retained ················ durable ······ tail
//!           │ gone   │ readable               │ synced next  │
//!           └─ retention moves this →          └─ only number readers may trust
//! ```

use std::fmt;
use std::sync::Arc;

use arcstr::{ArcStr, literal};
use xxhash_rust::xxh3::xxh3_64;

/// How many virtual shards a data directory has; fixed when the directory is created.
pub const SHARD_COUNT: usize = 256;

/// A byte position in a stream's canonical bytes (`extensions.md` §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

impl Offset {
    /// The beginning of every stream.
    pub const ZERO: Self = Self(0);

    /// The position `len` bytes further on.
    ///
    /// # Panics
    /// When a stream would pass 2^64 bytes, which no disk holds.
    #[must_use]
    pub fn plus(self, len: u64) -> Self {
        Self(self.0.checked_add(len).expect("a stream never reaches 2^64 bytes"))
    }

    /// The bytes between `earlier` and here.
    ///
    /// # Panics
    /// When `earlier` lies beyond this offset: the caller has mixed up two streams.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.checked_sub(earlier.0).expect("`earlier` is not beyond this offset")
    }
}

/// The wire form: 20 zero-padded decimal digits.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By hand, since every answer has one and padding through the formatter is slow.
        let (mut digits, mut rest) = ([b'0'; 20], self.0);
        for digit in digits.iter_mut().rev() {
            *digit += (rest % 10).to_le_bytes()[0];
            rest /= 10;
        }
        f.write_str(std::str::from_utf8(&digits).expect("digits are ASCII"))
    }
}

/// The zero-based ordinal of a message in its stream (`extensions.md` §7). Counted on every stream,
/// shown on JSON streams only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Record(pub u64);

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of an entry group in the log: 1 for the first group of a data directory, then
/// counting up without gaps through every log file and restart. 0 means "before everything".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first group.
    pub const ZERO: Self = Self(0);

    /// The group after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Milliseconds of node time since the Unix epoch. Node time never goes backwards, not across
/// restarts either (`extensions.md` §10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// One of the [`SHARD_COUNT`] units of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNo(pub u8);

impl ShardNo {
    /// The shard that owns `key`: the top byte of its XXH3 64-bit hash. Part of the on-disk format.
    pub fn of(key: &str) -> Self {
        Self(xxh3_64(key.as_bytes()).to_be_bytes()[0])
    }

    /// Every shard, in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }

    /// The position of this shard in a table of all shards.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One incarnation of a stream: never reused, not even when its name is. The top byte is the
/// owning shard, the rest a counter of that shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    const COUNTER_BITS: u32 = 56;

    /// The counter of the last stream that a shard could create.
    pub(crate) const COUNTER_MAX: u64 = (1 << Self::COUNTER_BITS) - 1;

    /// The `counter`-th incarnation of `shard`.
    ///
    /// # Panics
    /// When a shard has created 2^56 streams.
    pub fn new(shard: ShardNo, counter: u64) -> Self {
        assert!(counter <= Self::COUNTER_MAX, "a shard creates fewer than 2^56 streams");
        Self(u64::from(shard.0) << Self::COUNTER_BITS | counter)
    }

    /// The shard that owns this incarnation.
    pub fn shard(self) -> ShardNo {
        ShardNo(self.0.to_be_bytes()[0])
    }

    /// The counter part, see [`StreamId::new`].
    pub fn counter(self) -> u64 {
        self.0 & Self::COUNTER_MAX
    }
}

/// The name of a stored snapshot body. Random, chosen before the body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub u128);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Why a bucket id or a stream name was refused (`extensions.md` §1, Identifiers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidName {
    /// What was expected, as a clause: "a bucket id has 4 to 64 of a-z, 0-9, _ and -".
    pub rule: &'static str,
}

/// A bucket's id. The base surface is a name space of its own, [`BucketId::base`], which no client
/// can name, create or delete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(ArcStr);

impl BucketId {
    /// The name space behind `/v1/stream`.
    pub fn base() -> Self {
        Self(literal!(""))
    }

    /// A client's bucket id: `^[a-z0-9_-]{4,64}$`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let legal = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if (4..=64).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(ArcStr::from(text)))
        } else {
            Err(InvalidName { rule: "a bucket id has 4 to 64 of a-z, 0-9, _ and -" })
        }
    }

    /// Whether this is the base surface's name space.
    pub fn is_base(&self) -> bool {
        self.0.is_empty()
    }

    /// The id as text; empty for the base name space.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shard that holds this bucket's record, count and ordered index.
    pub fn shard(&self) -> ShardNo {
        ShardNo::of(&self.0)
    }
}

/// Ordered and hashed like its text.
impl std::borrow::Borrow<str> for BucketId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Most names are shorter than this, in bytes.
const USUAL_NAME_BYTES: usize = 64;

/// The full name of a stream: `{bucket}/{stream}`, or `/{path}` on the base surface. The two cannot
/// meet, since a bucket id is never empty. One pointer, cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(ArcStr);

impl StreamName {
    /// A stream on the `/ds` and root surfaces; `local` is already percent-decoded.
    pub fn in_bucket(bucket: &BucketId, local: &str) -> Result<Self, InvalidName> {
        let rule = if local.is_empty() || local.len() > 122 {
            "a stream id has 1 to 122 bytes"
        } else if memchr::memchr2(b'/', 0, local.as_bytes()).is_some() || local.contains("..") {
            "a stream id has no '/', no NUL and no '..'"
        } else if local == "streams" {
            "the stream id 'streams' is reserved for the listing"
        } else if bucket.as_str().len() + 1 + local.len() > 122 {
            "{bucket}/{stream} has at most 122 bytes together"
        } else {
            return Ok(Self(format!("{}/{local}", bucket.as_str()).into()));
        };
        Err(InvalidName { rule })
    }

    /// A stream on the base surface; the segments are already percent-decoded.
    pub fn on_base<'a>(segments: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidName> {
        let mut key = String::with_capacity(USUAL_NAME_BYTES);
        for segment in segments {
            let first = key.is_empty();
            let rule = if segment.is_empty() {
                "a path has no empty segment"
            } else if segment == "." || segment == ".." {
                "a path segment is not '.' or '..'"
            } else if memchr::memchr2(b'/', 0, segment.as_bytes()).is_some() {
                "a path segment has no '/' and no NUL"
            } else if segment == "~" {
                "a path segment is not '~'"
            } else if first && segment == "__ds" {
                "the first path segment '__ds' is reserved for subscriptions"
            } else {
                key.push('/');
                key.push_str(segment);
                continue;
            };
            return Err(InvalidName { rule });
        }
        // The path itself has no leading slash.
        if (1..=1024).contains(&key.len().saturating_sub(1)) {
            Ok(Self(key.into()))
        } else {
            Err(InvalidName { rule: "a path has 1 to 1024 bytes" })
        }
    }

    /// A name that was valid when it was written to disk.
    pub fn from_stored(key: &str) -> Option<Self> {
        key.contains('/').then(|| Self(ArcStr::from(key)))
    }

    /// The name as one text, unique across all surfaces.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// The name space that this stream lives in.
    pub fn bucket(&self) -> BucketId {
        match self.split().0 {
            "" => BucketId::base(),
            id => BucketId(ArcStr::from(id)),
        }
    }

    /// The stream id inside its bucket, or the path on the base surface (no leading slash).
    pub fn local(&self) -> &str {
        self.split().1
    }

    /// The shard that owns this stream.
    pub fn shard(&self) -> ShardNo {
        ShardNo::of(&self.0)
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once('/').expect("every constructor puts a slash behind the bucket")
    }
}

/// Ordered and hashed like its text.
impl std::borrow::Borrow<str> for StreamName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The bytes that a fork shares with its ancestors: everything below `end` belongs to `stream` or,
/// further down, to that stream's own lineage. Resolved once, when the fork is created, so that
/// reading a fork needs no other stream's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The incarnation that holds the bytes just below `end`.
    pub stream: StreamId,
    /// Exclusive end of the inherited range, in the offset space that both streams share.
    pub end: Offset,
    /// Where the source itself inherits from.
    pub parent: Option<Arc<Lineage>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_sort_as_text_like_the_numbers_they_are() {
        assert_eq!(Offset(42).to_string(), "00000000000000000042");
        assert_eq!(Offset(u64::MAX).to_string().len(), 20);
        assert!(Offset(9).to_string() < Offset(10).to_string());
    }

    #[test]
    fn bucket_ids_follow_the_pattern_exactly() {
        for good in ["demo", "a-b_", &"x".repeat(64)] {
            assert!(BucketId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "abc", "Demo", "dem o", "démo", "demo\n", &"x".repeat(65)] {
            assert!(BucketId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stream_ids_may_be_odd_but_not_dangerous() {
        let bucket = BucketId::parse("demo").expect("valid");
        for good in ["snapshot", "-1", "now", "a b", "100%", "?x", "🙂", &"x".repeat(117)] {
            let name = StreamName::in_bucket(&bucket, good).expect(good);
            assert_eq!((name.bucket().as_str(), name.local()), ("demo", good));
        }
        for bad in ["", "a/b", "a\0", "a..b", "streams", &"x".repeat(118)] {
            assert!(StreamName::in_bucket(&bucket, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn base_paths_are_a_name_space_of_their_own() {
        let name = StreamName::on_base(["demo", "hello"]).expect("valid");
        assert_eq!((name.bucket().is_base(), name.local()), (true, "demo/hello"));
        let bucketed = StreamName::in_bucket(&BucketId::parse("demo").expect("valid"), "hello");
        assert_ne!(Ok(name), bucketed);
        for bad in [vec![], vec![""], vec!["a", ""], vec!["."], vec![".."], vec!["a", "~"]] {
            assert!(StreamName::on_base(bad.iter().copied()).is_err(), "{bad:?}");
        }
        assert!(StreamName::on_base(["__ds", "x"]).is_err());
        assert!(StreamName::on_base(["x", "__ds"]).is_ok());
        assert!(StreamName::on_base([&*"x".repeat(1024)]).is_ok());
        assert!(StreamName::on_base([&*"x".repeat(1025)]).is_err());
    }

    #[test]
    fn a_stream_id_remembers_its_shard() {
        let id = StreamId::new(ShardNo(200), 7);
        assert_eq!((id.shard(), id.counter()), (ShardNo(200), 7));
    }

    #[test]
    fn a_counter_beyond_56_bits_does_not_run_into_the_shard() {
        let last = StreamId::new(ShardNo(255), StreamId::COUNTER_MAX);
        assert_eq!((last.shard(), last.counter(), last.0), (ShardNo(255), (1 << 56) - 1, u64::MAX));
        assert!(std::panic::catch_unwind(|| StreamId::new(ShardNo(0), 1 << 56)).is_err());
    }

    #[test]
    fn shards_are_part_of_the_format_and_never_move() {
        let shard = |key| ShardNo::of(key).0;
        assert_eq!([shard(""), shard("demo"), shard("demo/hello"), shard("/a")], [45, 7, 190, 226]);
        assert_eq!(ShardNo::all().count(), SHARD_COUNT);
        assert!(ShardNo::all().enumerate().all(|(index, no)| no.index() == index));
    }

    #[test]
    fn a_stored_name_comes_back_with_its_parts() {
        for (key, bucket, local) in [("demo/a", "demo", "a"), ("/a/b", "", "a/b"), ("/a", "", "a")]
        {
            let name = StreamName::from_stored(key).unwrap();
            assert_eq!((name.key(), name.bucket().as_str(), name.local()), (key, bucket, local));
        }
        assert_eq!(StreamName::from_stored("demo"), None);
        assert_eq!(StreamName::from_stored(""), None);
    }

    #[test]
    fn positions_refuse_to_wrap() {
        assert_eq!(Offset(3).plus(4).since(Offset(3)), 4);
        assert!(std::panic::catch_unwind(|| Offset(u64::MAX).plus(1)).is_err());
        assert!(std::panic::catch_unwind(|| Offset(3).since(Offset(4))).is_err());
    }
}
