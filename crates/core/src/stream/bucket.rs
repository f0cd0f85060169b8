//! Buckets: explicit name spaces of streams (`extensions.md` §3). A bucket's record and the ordered
//! index of its streams live in the shard of its id; a stream joins and leaves that index in the
//! same group of entries in which it begins and ends.

use std::ops::Bound;

use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{BucketId, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Bucket, Now, State};

pub(crate) fn create(view: &View<'_>, id: &BucketId, now: Now) -> Result<Decision, Stop> {
    if view.shard(id.shard())?.bucket(id).is_ok() {
        return Err(Refusal::BucketExists.into());
    }
    let entry = Entry::BucketCreated { bucket: id.clone(), at: now.node };
    Ok(Decision::Write(vec![entry.into()], Receipt::BucketCreated { at: now.node }))
}

pub(crate) fn delete(view: &View<'_>, id: &BucketId) -> Result<Decision, Stop> {
    let bucket = view.shard(id.shard())?.bucket(id)?;
    if bucket.streams() > 0 {
        let (streams, held) = (bucket.streams(), bucket.held());
        return Err(Refusal::BucketNotEmpty { streams, held }.into());
    }
    let entry = Entry::BucketDeleted { bucket: id.clone() };
    Ok(Decision::Write(vec![entry.into()], Receipt::Done))
}

impl State {
    pub(crate) fn apply_bucket_created(&mut self, id: &BucketId, at: Timestamp) -> Effects {
        self.buckets.insert(id.clone(), Bucket { created_at: at, ..Bucket::default() });
        Effects::default()
    }

    pub(crate) fn apply_bucket_deleted(&mut self, id: &BucketId) -> Effects {
        self.buckets.remove(id);
        Effects::default()
    }

    pub(crate) fn apply_listed(&mut self, name: &StreamName) -> Effects {
        if let Some(bucket) = self.buckets.get_mut(&name.bucket()) {
            bucket.listed.insert(name.clone());
        }
        Effects::default()
    }

    pub(crate) fn apply_held(&mut self, name: &StreamName) -> Effects {
        if let Some(bucket) = self.buckets.get_mut(&name.bucket()) {
            bucket.listed.remove(name);
            bucket.held = bucket.held.saturating_add(1);
        }
        Effects::default()
    }

    pub(crate) fn apply_unlisted(&mut self, name: &StreamName, held: bool) -> Effects {
        match self.buckets.get_mut(&name.bucket()) {
            Some(bucket) if held => bucket.held = bucket.held.saturating_sub(1),
            Some(bucket) => {
                bucket.listed.remove(name);
            }
            None => {}
        }
        Effects::default()
    }
}

/// A page of a listing: names in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most `limit` names.
    pub names: Vec<StreamName>,
    /// Whether more follow.
    pub has_more: bool,
}

impl Bucket {
    /// The names that start with `prefix`, from `after` (exclusive) on. Costs O(page).
    pub fn page(&self, id: &BucketId, prefix: &str, after: &str, limit: usize) -> Page {
        let key = |local: &str| format!("{}/{local}", id.as_str());
        let (prefix, after) = (key(prefix), key(after));
        let start = prefix.as_str().max(after.as_str());
        let mut names: Vec<_> = self
            .listed
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .skip_while(|name| name.key() <= after.as_str())
            .take_while(|name| name.key().starts_with(&prefix))
            .take(limit + 1)
            .cloned()
            .collect();
        let has_more = names.len() > limit;
        names.truncate(limit);
        Page { names, has_more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The local names on a page.
    fn page(bucket: (&BucketId, &[&str]), prefix: &str, after: &str, limit: usize) -> Vec<String> {
        let (id, locals) = bucket;
        let name = |local: &&str| {
            if id.is_base() {
                StreamName::on_base(local.split('/')).unwrap()
            } else {
                StreamName::in_bucket(id, local).unwrap()
            }
        };
        let bucket = Bucket { listed: locals.iter().map(name).collect(), ..Bucket::default() };
        let page = bucket.page(id, prefix, after, limit);
        let more = page.has_more.then(|| "…".to_owned());
        page.names.iter().map(|name| name.local().to_owned()).chain(more).collect()
    }

    #[test]
    fn a_page_begins_behind_the_cursor_or_at_the_prefix() {
        let id = BucketId::parse("demo").unwrap();
        let demo = (&id, &["a", "ab", "ab c", "abc", "b"][..]);
        assert_eq!(page(demo, "", "", 9), ["a", "ab", "ab c", "abc", "b"]);
        assert_eq!(page(demo, "ab", "", 9), ["ab", "ab c", "abc"]);
        assert_eq!(page(demo, "ab", "ab", 9), ["ab c", "abc"]);
        // A cursor need not exist, nor have the prefix.
        assert_eq!(page(demo, "", "aa", 9), ["ab", "ab c", "abc", "b"]);
        assert_eq!(page(demo, "ab", "a", 9), ["ab", "ab c", "abc"]);
        assert_eq!(page(demo, "ab", "abc", 9), [""; 0]);
        assert_eq!(page(demo, "ab", "b", 9), [""; 0]);
        assert_eq!(page(demo, "ab", "zzz", 9), [""; 0]);
        assert_eq!(page(demo, "b", "a", 9), ["b"]);
        assert_eq!(page(demo, "c", "", 9), [""; 0]);
    }

    #[test]
    fn there_is_more_only_if_something_of_the_prefix_follows() {
        let id = BucketId::parse("demo").unwrap();
        let demo = (&id, &["a", "ab", "abc", "b"][..]);
        assert_eq!(page(demo, "", "", 3), ["a", "ab", "abc", "…"]);
        assert_eq!(page(demo, "", "", 4), ["a", "ab", "abc", "b"]);
        assert_eq!(page(demo, "a", "", 3), ["a", "ab", "abc"]);
        assert_eq!(page(demo, "a", "a", 1), ["ab", "…"]);
        assert_eq!(page(demo, "a", "ab", 1), ["abc"]);
    }

    #[test]
    fn paths_of_the_base_surface_are_ordered_by_their_bytes() {
        let id = BucketId::base();
        let base = (&id, &["a", "a/b", "a/b/c", "a-b", "ab"][..]);
        assert_eq!(page(base, "", "", 9), ["a", "a-b", "a/b", "a/b/c", "ab"]);
        assert_eq!(page(base, "a/", "", 9), ["a/b", "a/b/c"]);
        assert_eq!(page(base, "a/b", "a/b", 9), ["a/b/c"]);
        assert_eq!(page(base, "", "a/", 9), ["a/b", "a/b/c", "ab"]);
    }

    #[test]
    fn names_of_several_bytes_a_character_are_paged_by_bytes() {
        let id = BucketId::parse("demo").unwrap();
        let demo = (&id, &["z", "é", "éa", "🙂", "\u{7f}"][..]);
        assert_eq!(page(demo, "", "", 9), ["z", "\u{7f}", "é", "éa", "🙂"]);
        assert_eq!(page(demo, "é", "", 9), ["é", "éa"]);
        assert_eq!(page(demo, "", "é", 1), ["éa", "…"]);
        assert_eq!(page(demo, "", "\u{10ffff}", 9), [""; 0]);
    }

    #[test]
    fn one_bucket_never_shows_the_streams_of_another() {
        let (demo, demo2) = (BucketId::parse("demo").unwrap(), BucketId::parse("demo2").unwrap());
        let name = StreamName::in_bucket(&demo2, "a").unwrap();
        let bucket = Bucket { listed: [name].into(), ..Bucket::default() };
        assert_eq!(bucket.page(&demo, "", "", 9).names, []);
    }
}
