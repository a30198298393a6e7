//! Wrong secrets, counted by where they come from.
//!
//! Promise: an address that shows wrong secrets all the time hears 429 and when to ask again; what is remembered has
//! a largest size. Whoever shows a right secret is let in all the same, from whatever address: on one machine all
//! share one, so that otherwise any process could lock its owner out. That costs nothing, since no number of tries
//! finds 256 random bits; the limit is for the noise, not for the secret.
//! Start with [`Failures::count`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many wrong secrets in a row an address may show.
pub(crate) const MOST_AT_ONCE: u32 = 10;
/// After how long it may show another.
pub(crate) const ANOTHER_AFTER: Duration = Duration::from_secs(3);
/// How many addresses are remembered. One more, and the quietest quarter of them is forgotten.
const MOST_ADDRESSES: usize = 4096;

/// Who failed lately.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// By address: until when what it did counts. Each failure adds [`ANOTHER_AFTER`].
    until: Mutex<HashMap<IpAddr, Instant>>,
}

impl Failures {
    /// Counts one. An error is how long to wait.
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

/// Whoever has one address of version 6 has all of its network.
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
        let failures = Failures::default();
        let start = Instant::now();
        let one = address("10.0.0.1");
        for _ in 0..MOST_AT_ONCE {
            assert_eq!(failures.count(one, start), Ok(()));
        }
        assert_eq!(failures.count(one, start), Err(ANOTHER_AFTER));
        assert_eq!(failures.count(one, start), Err(ANOTHER_AFTER), "being refused does not lengthen it");
        assert_eq!(failures.count(address("10.0.0.2"), start), Ok(()), "somebody else");
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
        let failures = Failures::default();
        let start = Instant::now();
        let busy = address("192.0.2.1");
        for _ in 0..MOST_AT_ONCE {
            let _ = failures.count(busy, start);
        }
        for number in 0..20_000_u32 {
            let _ = failures.count(IpAddr::from(number.to_be_bytes()), start);
        }
        assert!(failures.until.lock().expect("ours").len() <= MOST_ADDRESSES);
        assert!(failures.count(busy, start).is_err(), "who is loudest is not forgotten first");
    }
}
