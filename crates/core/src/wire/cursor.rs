//! The cursor of live reads (`base-protocol.md` §7): it changes every 20 seconds, so that shared
//! caches may collapse equal requests without ever serving one answer for ever.

/// 2024-10-09T00:00:00Z in milliseconds since the Unix epoch: interval 0.
const EPOCH_MS: u64 = 1_728_432_000_000;
/// The length of an interval.
const INTERVAL_MS: u64 = 20_000;
/// How far ahead a client that is already in the current interval may be sent, in seconds.
const JITTER_SECONDS_MAX: u64 = 3_600;

/// The cursor to answer a client that sent `client`, at wall time `now_ms`: the current interval,
/// or, when the client is already there or ahead, something strictly greater than what it sent.
/// `jitter` is any random number; it spreads clients over the following hour.
///
/// A cursor that is no decimal number below 2^64 (less an hour) counts as none.
pub fn next(client: Option<&str>, now_ms: u64, jitter: u64) -> String {
    let current = now_ms.saturating_sub(EPOCH_MS) / INTERVAL_MS;
    let ahead = client.and_then(parse).filter(|client| *client >= current).and_then(|client| {
        let seconds = jitter % JITTER_SECONDS_MAX + 1;
        client.checked_add((seconds * 1_000 / INTERVAL_MS).max(1))
    });
    ahead.unwrap_or(current).to_string()
}

fn parse(text: &str) -> Option<u64> {
    // `u64::from_str` takes a leading plus sign as well.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: u64 = EPOCH_MS + 1_000 * INTERVAL_MS + 19_999;

    #[test]
    fn a_client_without_a_usable_or_current_cursor_gets_the_current_interval() {
        for client in [None, Some(""), Some("abc"), Some("-1"), Some("+2000"), Some("999")] {
            assert_eq!(next(client, NOW_MS, 7), "1000", "{client:?}");
        }
        assert_eq!(next(Some("99999999999999999999"), NOW_MS, 7), "1000");
        assert_eq!(next(Some("18446744073709551615"), NOW_MS, 7), "1000");
        assert_eq!(next(None, 0, 0), "0");
    }

    #[test]
    fn jitter_is_between_one_interval_and_an_hour() {
        assert_eq!(next(Some("1000"), NOW_MS, 0), "1001");
        assert_eq!(next(Some("1000"), NOW_MS, 38), "1001");
        assert_eq!(next(Some("1000"), NOW_MS, 39), "1002");
        assert_eq!(next(Some("1000"), NOW_MS, 3_599), "1180");
        assert_eq!(next(Some("1000"), NOW_MS, 3_600), "1001");
    }

    proptest! {
        #[test]
        fn the_answer_is_never_what_a_client_just_sent(
            client in 0..u64::MAX / 2, now in any::<u64>(), jitter in any::<u64>(),
        ) {
            let answer: u64 = next(Some(&client.to_string()), now, jitter).parse().unwrap();
            let current: u64 = next(None, now, jitter).parse().unwrap();
            prop_assert!(answer >= current && answer != client);
            prop_assert!(client < current || (client + 1..=client + 180).contains(&answer));
        }
    }
}
