//! The clocks: two to measure with, one to show.
//!
//! Promise: [`boot_ms`] never jumps, and counts the time a laptop slept; [`awake_ms`] does not count the time asleep.
//! Not here: what to do when time has passed.
//! Start with [`boot_ms`]. [`awake_ms`] is for timeouts of work, which stops while the machine sleeps. [`wall_ms`] is
//! for display only, since people and NTP set it.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds since this machine started, time asleep included.
pub fn boot_ms() -> u64 {
    milliseconds(clock_gettime(ClockId::Boottime))
}

/// Milliseconds since this machine started, without the time it slept: no process makes progress then.
pub fn awake_ms() -> u64 {
    milliseconds(clock_gettime(ClockId::Monotonic))
}

/// Milliseconds since 1970 by the wall clock.
pub fn wall_ms() -> u64 {
    milliseconds(clock_gettime(ClockId::Realtime))
}

fn milliseconds(time: Timespec) -> u64 {
    // A wall clock set before 1970 shows as 1970.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanoseconds / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_does_not_go_back() {
        let earlier = boot_ms();
        assert!(boot_ms() >= earlier);
    }

    #[test]
    fn the_wall_clock_is_past_2020() {
        assert!(wall_ms() > 1_577_836_800_000);
    }
}
