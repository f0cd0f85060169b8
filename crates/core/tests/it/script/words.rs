//! How a question is written: a verb, plain words, and `name=value` in any order.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater_core::command::Target;
use headwater_core::content::ContentType;
use headwater_core::ids::{BucketId, StreamName};
use headwater_core::moment::{ExpiresAt, Lifetime, Ttl};
use headwater_core::state::ProducerStamp;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::wire::query::OffsetToken;

/// The words of a question.
pub(super) struct Words<'a> {
    /// File and line, for whoever wrote the script.
    pub(super) place: &'a str,
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn read(question: &'a str, place: &'a str) -> Self {
        let (mut plain, mut named) = (Vec::new(), BTreeMap::new());
        let mut rest = question;
        while !rest.is_empty() {
            let word = rest.split(' ').next().unwrap_or(rest);
            match word.split_once('=') {
                Some((name @ ("body" | "json" | "attrs"), _)) => {
                    named.insert(name, &rest[name.len() + 1..]);
                    break;
                }
                Some((name, value)) => assert!(named.insert(name, value).is_none(), "{place}"),
                None => plain.push(word),
            }
            rest = rest[word.len()..].trim_start();
        }
        plain.reverse();
        Self { place, plain, named }
    }

    /// The next word without a name.
    pub(super) fn next(&mut self) -> &'a str {
        self.plain.pop().unwrap_or_else(|| panic!("{}: a word is missing", self.place))
    }

    pub(super) fn flag(&mut self, word: &str) -> bool {
        let at = self.plain.iter().position(|plain| *plain == word);
        at.map(|at| self.plain.remove(at)).is_some()
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a str> {
        self.named.remove(name)
    }

    pub(super) fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{}", self.place)))
    }

    pub(super) fn stream(&mut self) -> StreamName {
        stream_name(self.next())
    }

    pub(super) fn content(&mut self) -> Option<ContentType> {
        self.take("type").map(|text| ContentType::parse(text).expect(self.place))
    }

    pub(super) fn body(&mut self) -> Bytes {
        if let Some(count) = self.number("zeros") {
            let zeros = vec!["0"; usize::try_from(count).unwrap()];
            return format!("[{}]", zeros.join(",")).into();
        }
        if let Some(depth) = self.number("nested") {
            let depth = usize::try_from(depth).unwrap();
            return ("[".repeat(depth) + &"]".repeat(depth)).into();
        }
        Bytes::copy_from_slice(self.take("body").unwrap_or_default().as_bytes())
    }

    pub(super) fn target(&mut self) -> Target {
        if let Some(record) = self.number("record") {
            return Target::Record(record);
        }
        match OffsetToken::parse_position(self.take("at").expect(self.place)).expect(self.place) {
            OffsetToken::At(offset) => Target::Offset(offset),
            _ => Target::Beyond,
        }
    }

    pub(super) fn producer(&mut self) -> Option<ProducerStamp> {
        let text = self.take("producer")?;
        let parts: Vec<_> = text.split(':').collect();
        let [id, epoch, seq] = parts[..] else { panic!("{}: id:epoch:seq", self.place) };
        let number = |text: &str| text.parse().expect(self.place);
        Some(ProducerStamp { id: id.into(), epoch: number(epoch), seq: number(seq) })
    }

    pub(super) fn lifetime(&mut self) -> Option<Lifetime> {
        let ttl = self.take("ttl").map(|text| Ttl::parse(text).expect(self.place));
        let until = self.take("expires").map(|text| ExpiresAt::parse(text).expect(self.place));
        ttl.map(Lifetime::Ttl).or(until.map(Lifetime::ExpiresAt))
    }

    pub(super) fn fork(&mut self) -> Option<Fork> {
        let source = stream_name(self.take("fork")?);
        let anchor = match self.take("at").map(|at| OffsetToken::parse_position(at).unwrap()) {
            None => Anchor::Tail,
            Some(OffsetToken::At(offset)) => Anchor::At(offset),
            Some(_) => Anchor::Beyond,
        };
        let sub_offset = self.number("sub").unwrap_or(0);
        Some(Fork { source, anchor, sub_offset, evidence: None })
    }

    pub(super) fn end(self) {
        let Self { place, plain, named } = self;
        assert!(plain.is_empty() && named.is_empty(), "{place}: {plain:?} {named:?}");
    }
}

pub(super) fn stream_name(text: &str) -> StreamName {
    let name = if let Some(path) = text.strip_prefix('/') {
        StreamName::on_base(path.split('/'))
    } else {
        let (bucket, local) = text.split_once('/').expect("a stream is bucket/stream or /path");
        StreamName::in_bucket(&BucketId::parse(bucket).expect(text), local)
    };
    name.expect(text)
}

/// `/` is the base surface.
pub(super) fn bucket_id(text: &str) -> BucketId {
    if text == "/" { BucketId::base() } else { BucketId::parse(text).expect(text) }
}
