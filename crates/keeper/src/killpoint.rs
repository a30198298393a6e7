//! Places where tests can make the keeper die, or stand still. Not in release builds.

use std::time::Duration;

/// The variable that says after how many milliseconds a loop that stands still is replaced.
pub const STUCK_VARIABLE: &str = "BERTH_STUCK_MS";
/// The variable that arms a point: `NAME` or `NAME:COUNT` dies, `stall:NAME` stands still.
pub const VARIABLE: &str = "BERTH_KILLPOINT";

/// Dies here with SIGKILL, or stalls, if a test asked for it.
#[cfg(debug_assertions)]
pub fn reached(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Ok(armed) = std::env::var(VARIABLE) else { return };
    if armed.strip_prefix("stall:") == Some(name) && PASSED.fetch_add(1, Ordering::Relaxed) == 0 {
        loop {
            std::thread::park();
        }
    }
    let (wanted, count) = armed.split_once(':').unwrap_or((&armed, "1"));
    if wanted == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == count.parse().unwrap_or(1) {
        let me = rustix::process::getpid();
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
    }
}

/// How long a turn of the loop may take; tests may be less patient.
#[cfg(debug_assertions)]
pub fn stuck_after(usually: Duration) -> Duration {
    patience(STUCK_VARIABLE, usually)
}

/// What it usually is, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn stuck_after(usually: Duration) -> Duration {
    usually
}

/// How long to be patient; tests may be less so, by this variable.
#[cfg(debug_assertions)]
pub fn patience(variable: &str, usually: Duration) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.map_or(usually, Duration::from_millis)
}

/// What it usually is, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn patience(_variable: &str, usually: Duration) -> Duration {
    usually
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reached(_name: &str) {}
