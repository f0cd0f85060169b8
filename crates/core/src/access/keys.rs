//! API keys: kept in the log like everything else, in the shard of the base name space.

use std::fmt;

use super::{KEYS_MAX, Scopes};
use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{BucketId, Lsn, ShardNo, Timestamp};
use crate::refusal::Refusal;
use crate::state::State;

/// The public half of a key's name: random, shown wherever the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl KeyId {
    /// Where all keys are.
    pub fn shard() -> ShardNo {
        BucketId::base().shard()
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let plain =
            text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        plain.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A hash of a key's secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

/// What opens a door is not printed.
impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub id: KeyId,
    /// Of its secret.
    pub hash: KeyHash,
    /// What its owner calls it; at most [`super::LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ends, in wall-clock time.
    pub expires_at: Option<Timestamp>,
}

pub(crate) fn create(view: &View<'_>, key: &Key) -> Result<Decision, Stop> {
    let state = view.shard(KeyId::shard())?;
    if state.keys.contains_key(&key.id) {
        // Whoever makes keys up makes up another.
        return Err(Stop::Stale);
    }
    if state.keys.len() >= KEYS_MAX {
        return Err(Refusal::KeyLimit.into());
    }
    let entry = Entry::KeyCreated(Box::new(key.clone()));
    Ok(Decision::Write(vec![entry.into()], Receipt::Done))
}

pub(crate) fn revoke(view: &View<'_>, id: KeyId) -> Result<Decision, Stop> {
    if !view.shard(KeyId::shard())?.keys.contains_key(&id) {
        return Err(Refusal::KeyNotFound.into());
    }
    Ok(Decision::Write(vec![Entry::KeyRevoked { id }.into()], Receipt::Done))
}

impl State {
    /// The keys that were created and not revoked, expired ones too, in the order of their ids.
    /// They are all in the shard [`KeyId::shard`].
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.keys.values()
    }

    /// The newest entry that added or removed a key.
    pub fn keys_touched(&self) -> Lsn {
        self.keys_lsn
    }

    pub(crate) fn apply_key_created(&mut self, key: &Key) -> Effects {
        self.keys.insert(key.id, key.clone());
        Effects::default()
    }

    pub(crate) fn apply_key_revoked(&mut self, id: KeyId) -> Effects {
        self.keys.remove(&id);
        Effects::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::state::Now;

    const NOW: Now = Now { node: Timestamp(5), wall: Timestamp(5) };

    fn key(id: u64) -> Key {
        Key {
            id: KeyId(id),
            hash: KeyHash([7; 32]),
            label: "a".to_owned(),
            scopes: Scopes::parse("demo:read").unwrap(),
            created_at: Timestamp(5),
            expires_at: None,
        }
    }

    /// Decides, applies, and tells how it ended.
    fn run(state: &mut State, command: &Command) -> Result<(), Stop> {
        let view = [(state.shard(), &*state)];
        match command.decide(&View(&view), NOW)? {
            Decision::Write(group, _) => {
                for logged in group {
                    let decoded = Entry::decode(&logged.entry.encode()).unwrap();
                    state.apply(&decoded);
                    state.mark(&decoded, Lsn(9));
                }
                Ok(())
            }
            Decision::Repeat(_) => panic!("no command about keys is a repetition"),
        }
    }

    #[test]
    fn a_key_is_there_until_it_is_revoked() {
        let mut state = State::new(KeyId::shard());
        assert_eq!(run(&mut state, &Command::CreateKey(Box::new(key(1)))), Ok(()));
        assert_eq!(state.keys().collect::<Vec<_>>(), [&key(1)]);
        assert_eq!(state.keys_touched(), Lsn(9));
        assert_eq!(run(&mut state, &Command::RevokeKey(KeyId(1))), Ok(()));
        assert_eq!(state.keys().len(), 0);
        let again = run(&mut state, &Command::RevokeKey(KeyId(1)));
        assert_eq!(again, Err(Stop::Refuse(Refusal::KeyNotFound)));
    }

    #[test]
    fn no_key_takes_the_place_of_another() {
        let mut state = State::new(KeyId::shard());
        run(&mut state, &Command::CreateKey(Box::new(key(1)))).unwrap();
        let other = Key { label: "b".to_owned(), ..key(1) };
        let outcome = run(&mut state, &Command::CreateKey(Box::new(other)));
        assert_eq!(outcome, Err(Stop::Stale));
        assert_eq!(state.keys().next(), Some(&key(1)));
    }

    #[test]
    fn keys_are_bounded() {
        let mut state = State::new(KeyId::shard());
        for id in 0..KEYS_MAX as u64 {
            state.apply(&Entry::KeyCreated(Box::new(key(id))));
        }
        let outcome = run(&mut state, &Command::CreateKey(Box::new(key(u64::MAX))));
        assert_eq!(outcome, Err(Stop::Refuse(Refusal::KeyLimit)));
    }

    #[test]
    fn an_id_reads_back_as_it_is_written() {
        for id in [0, 7, u64::MAX] {
            assert_eq!(KeyId::parse(&KeyId(id).to_string()), Some(KeyId(id)));
        }
        for bad in ["", "7", "000000000000000G", "+000000000000007", "00000000000000007"] {
            assert_eq!(KeyId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_hash_is_printed() {
        assert!(!format!("{:?}", key(1)).contains("7, 7"));
    }
}
