//! Buckets: explicit name spaces of streams (`extensions.md` §3). A bucket's record and the ordered
//! index of its streams live in the shard of its id; a stream joins and leaves that index in the
//! same group of entries in which it begins and ends.

use std::ops::Bound;

use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::Entry;
use crate::ids::{BucketId, StreamName};
use crate::refusal::Refusal;
use crate::state::{Bucket, Now};

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
