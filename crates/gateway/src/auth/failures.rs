//! Rate limit for wrong secrets, by address.
//!
//! Promise: an address that keeps sending wrong secrets gets 429 with the time of a useful retry; the number of
//! remembered addresses has a limit. A valid secret is accepted all the same, from any address: all processes of a
//! machine share one, so otherwise any process could lock the owner out. That weakens nothing, since no number of
//! guesses finds 256 random bits: the limit keeps the log quiet, it does not protect the secret.
//! Start with [`AuthFailures::count`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of wrong secrets in a row that an address may send.
pub(crate) const MOST_AT_ONCE: u32 = 10;
/// Time after which an address may send another one.
pub(crate) const ANOTHER_AFTER: Duration = Duration::from_secs(3);
/// Number of remembered addresses. Beyond it the quietest quarter of them is forgotten.
const MOST_ADDRESSES: usize = 4096;

/// Recent failures.
#[derive(Debug, Default)]
pub(crate) struct AuthFailures {
    /// Time until which the failures of an address count. Each failure adds [`ANOTHER_AFTER`].
    until: Mutex<HashMap<IpAddr, Instant>>,
}

impl AuthFailures {
    /// Counts a failure. Fails with the time to wait.
    pub(crate) fn count(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut known = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let address = place(address);
        if known.len() >= MOST_ADDRESSES && !known.contains_key(&address) {
            known.retain(|_, until| *until > now);
            if known.len() >= MOST_ADDRESSES {
                let mut untils: Vec<Instant> = known.values().copied().collect();
                let quiet = *untils.select_nth_unstable(MOST_ADDRESSES / 4).1;
                known.retain(|_, until| *until > quiet);
            }
        }
        let until = known.entry(address).or_insert(now);
        let counted = (*until).max(now) + ANOTHER_AFTER;
        let over = counted.saturating_duration_since(now + ANOTHER_AFTER * MOST_AT_ONCE);
        if over.is_zero() {
            *until = counted;
            return Ok(());
        }
        Err(over)
    }
}

/// The network that counts as one place: the owner of one IPv6 address has a whole network of them.
pub(crate) fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_may_fail_ten_times_and_then_every_three_seconds() {
        let failures = AuthFailures::default();
        let start = Instant::now();
        let one = address("10.0.0.1");
        for _ in 0..MOST_AT_ONCE {
            assert_eq!(failures.count(one, start), Ok(()));
        }
        assert_eq!(failures.count(one, start), Err(ANOTHER_AFTER));
        assert_eq!(failures.count(one, start), Err(ANOTHER_AFTER), "being refused does not lengthen it");
        assert_eq!(failures.count(address("10.0.0.2"), start), Ok(()), "another address");
        assert_eq!(failures.count(one, start + ANOTHER_AFTER), Ok(()));
        assert!(failures.count(one, start + ANOTHER_AFTER).is_err());
        let much_later = start + ANOTHER_AFTER * 100;
        for _ in 0..MOST_AT_ONCE {
            assert_eq!(failures.count(one, much_later), Ok(()));
        }
    }

    #[test]
    fn a_network_of_version_6_is_one_place_and_a_mapped_address_is_the_one_of_version_4() {
        assert_eq!(place(address("2001:db8::1")), place(address("2001:db8::ffff:2")));
        assert_ne!(place(address("2001:db8::1")), place(address("2001:db8:0:1::1")));
        assert_eq!(place(address("::ffff:10.0.0.1")), address("10.0.0.1"));
    }

    #[test]
    fn a_million_addresses_take_no_more_room_than_the_limit() {
        let failures = AuthFailures::default();
        let start = Instant::now();
        let busy = address("192.0.2.1");
        for _ in 0..MOST_AT_ONCE {
            let _ = failures.count(busy, start);
        }
        for number in 0..20_000_u32 {
            let _ = failures.count(IpAddr::from(number.to_be_bytes()), start);
        }
        assert!(failures.until.lock().expect("ours").len() <= MOST_ADDRESSES);
        assert!(
            failures.count(busy, start).is_err(),
            "the address with most failures is not forgotten first"
        );
    }
}
