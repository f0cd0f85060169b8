//! Buckets of tokens, one for each client, in bounded memory.
//!
//! A bucket is one number: when it will be full again if nobody asks. A request moves that instant
//! on by the time in which one token comes back, and is refused when the bucket would have to owe
//! more than it holds. A bucket that is full is as good as none, so that forgetting it changes
//! nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use headwater_core::access::KeyId;
use headwater_core::ids::Timestamp;
use parking_lot::Mutex;

use super::Rate;

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 16;

/// Clients that a part remembers. When all of them have asked lately, the quarter that asked least
/// is forgotten: it is given a full bucket early.
const CLIENTS_MAX: usize = 4096;

/// Who is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Key(KeyId),
    /// A whole address of IPv4, the network of an address of IPv6.
    Address(u128),
}

impl Client {
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            // Half of the address is the client's to choose.
            IpAddr::V6(v6) => v6.to_bits() & !u128::from(u64::MAX),
        })
    }
}

/// All buckets: when each will be full, in nanoseconds of node time.
#[derive(Debug)]
pub(super) struct Rates {
    token_ns: u64,
    /// What a bucket may owe and still give a token.
    debt_max_ns: u64,
    parts: [Mutex<HashMap<Client, u64>>; PARTS],
    hasher: RandomState,
}

impl Rates {
    pub(super) fn new(rate: Rate) -> Self {
        let token_ns = 1_000_000_000 / u64::from(rate.per_second.get());
        Self {
            token_ns,
            debt_max_ns: token_ns * u64::from(rate.burst.get() - 1),
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
        }
    }

    /// Takes a token, or says when there will be one.
    pub(super) fn take(&self, client: Client, now: Timestamp) -> Result<(), Duration> {
        let now_ns = now.0.saturating_mul(1_000_000);
        let part = usize::try_from(self.hasher.hash_one(client) % PARTS as u64);
        let mut part = self.parts[part.expect("there are few parts")].lock();
        let known = part.get(&client).copied();
        let full_at = known.unwrap_or(0).max(now_ns);
        let debt_ns = full_at - now_ns;
        if debt_ns > self.debt_max_ns {
            return Err(Duration::from_nanos(debt_ns - self.debt_max_ns));
        }
        if known.is_none() && part.len() >= CLIENTS_MAX {
            make_room(&mut part, now_ns);
        }
        part.insert(client, full_at.saturating_add(self.token_ns));
        Ok(())
    }
}

/// Forgets what is full, and if that is not enough, what is next to it.
fn make_room(part: &mut HashMap<Client, u64>, now_ns: u64) {
    part.retain(|_, full_at| *full_at > now_ns);
    if part.len() > CLIENTS_MAX / 4 * 3 {
        let mut instants: Vec<u64> = part.values().copied().collect();
        let (_, cut, _) = instants.select_nth_unstable(CLIENTS_MAX / 4);
        let cut = *cut;
        part.retain(|_, full_at| *full_at > cut);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn rates(per_second: u32, burst: u32) -> Rates {
        let number = |n| NonZeroU32::new(n).unwrap();
        Rates::new(Rate { per_second: number(per_second), burst: number(burst) })
    }

    fn client(n: u32) -> Client {
        Client::at(IpAddr::V4(n.into()))
    }

    fn held(rates: &Rates) -> usize {
        rates.parts.iter().map(|part| part.lock().len()).sum()
    }

    #[test]
    fn a_burst_is_given_at_once_and_then_a_token_at_a_time() {
        let rates = rates(10, 3);
        let take = |ms: u64| rates.take(client(1), Timestamp(1_000_000 + ms));
        assert_eq!([take(0), take(0), take(0)], [Ok(()); 3]);
        assert_eq!(take(0), Err(Duration::from_millis(100)));
        // Being refused costs nothing.
        assert_eq!(take(99), Err(Duration::from_millis(1)));
        assert_eq!([take(100), take(200), take(300)], [Ok(()); 3]);
        assert_eq!(take(300), Err(Duration::from_millis(100)));
        // A rest fills the bucket and no more.
        assert_eq!([take(9_000), take(9_000), take(9_000)], [Ok(()); 3]);
        assert!(take(9_000).is_err());
    }

    #[test]
    fn clients_are_counted_apart_and_an_ipv6_network_is_one() {
        let rates = rates(1, 1);
        let take =
            |address: &str| rates.take(Client::at(address.parse().unwrap()), Timestamp(5)).is_ok();
        for (address, given) in [
            ("10.0.0.1", true),
            ("10.0.0.2", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("2001:db8:0:1::1", true),
            ("2001:db8:0:1:ffff::1", false),
            ("2001:db8:0:2::1", true),
        ] {
            assert_eq!(take(address), given, "{address}");
        }
        assert!(rates.take(Client::Key(KeyId(7)), Timestamp(5)).is_ok());
    }

    #[test]
    fn a_million_clients_leave_no_growth_behind() {
        let rates = rates(1, 2);
        let busy = client(u32::MAX);
        for n in 0..1_000_000 {
            // All of them within one second: none is full again.
            let now = Timestamp(1_000 + u64::from(n) / 1_100);
            assert_eq!(rates.take(client(n), now), Ok(()));
            let _refused_mostly = rates.take(busy, now).is_err();
        }
        assert!(held(&rates) <= PARTS * CLIENTS_MAX, "{}", held(&rates));
        // A table grows once more when what was forgotten has left its marks, and then no more.
        let room: usize = rates.parts.iter().map(|part| part.lock().capacity()).sum();
        assert!(room <= PARTS * CLIENTS_MAX * 4, "{room}");
        // Whoever asks most is remembered longest.
        assert!(rates.take(busy, Timestamp(1_900)).is_err());
    }
}
