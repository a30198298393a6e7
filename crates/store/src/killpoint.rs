//! Kill points: places where tests make a keeper or a gateway die, stall or panic. Not in release builds.
//!
//! Start with `reached`.

use std::time::Duration;

/// Variable with the number of milliseconds after which a loop that stalls is replaced.
#[cfg(debug_assertions)]
const STUCK_VARIABLE: &str = "BERTH_STUCK_MS";
/// The variable that arms a point: `NAME` or `NAME:COUNT` dies there, the COUNTth time that it is passed;
/// `stall:NAME` and `stall:NAME:COUNT` stand still, `panic:NAME` and `panic:NAME:COUNT` panic, `panic:NAME:every` each time,
/// `stop:NAME` waits there for SIGCONT.
pub const VARIABLE: &str = "BERTH_KILLPOINT";

/// Dies with SIGKILL, stalls or panics, if a test armed this point.
#[cfg(debug_assertions)]
pub fn reached(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Ok(armed) = std::env::var(VARIABLE) else { return };
    let (action, point) = match armed.split_once(':') {
        Some((action @ ("stall" | "stop" | "panic"), point)) => (action, point),
        Some(_) | None => ("die", armed.as_str()),
    };
    let (wanted, count) = point.split_once(':').unwrap_or((point, "1"));
    let is_it =
        || count == "every" || PASSED.fetch_add(1, Ordering::Relaxed) + 1 == count.parse().unwrap_or(1);
    if wanted != name || !is_it() {
        return;
    }
    match action {
        "stall" => loop {
            std::thread::park();
        },
        "stop" => {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::STOP);
        }
        "panic" => panic!("a test wanted a panic at {name}"),
        _ => {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        }
    }
}

/// The variable that names a point and a file, `sync:/path`: the point waits while the file exists, and makes
/// `/path.held` when it begins to. So a test has a disk that is slow for exactly as long as the test likes.
#[cfg(debug_assertions)]
const HOLD_VARIABLE: &str = "BERTH_HOLD";

/// Waits, if a test asked for it.
#[cfg(debug_assertions)]
pub fn wait_if_armed(name: &str) {
    let Ok(armed) = std::env::var(HOLD_VARIABLE) else { return };
    let Some((_, path)) = armed.split_once(':').filter(|(wanted, _)| *wanted == name) else { return };
    if std::path::Path::new(path).exists() {
        let _ = std::fs::write(format!("{path}.held"), "");
    }
    while std::path::Path::new(path).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// True if a test may have this point wait.
#[cfg(debug_assertions)]
pub fn may_hold(name: &str) -> bool {
    std::env::var(HOLD_VARIABLE)
        .is_ok_and(|armed| armed.split_once(':').is_some_and(|(wanted, _)| wanted == name))
}

/// False in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn may_hold(_name: &str) -> bool {
    false
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn wait_if_armed(_name: &str) {}

/// Time that one round of the loop may take; tests may set a shorter one.
#[cfg(debug_assertions)]
pub fn stuck_after(usually: Duration) -> Duration {
    patience(STUCK_VARIABLE, usually)
}

/// The usual time, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn stuck_after(usually: Duration) -> Duration {
    usually
}

/// A timeout, which tests may shorten by this variable.
#[cfg(debug_assertions)]
pub fn patience(variable: &str, usually: Duration) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.map_or(usually, Duration::from_millis)
}

/// The usual timeout, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn patience(_variable: &str, usually: Duration) -> Duration {
    usually
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reached(_name: &str) {}
