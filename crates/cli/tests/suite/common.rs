//! What modules of the suite share: processes that an agent wrote down, how runs ended, and bytes within bytes.

use std::path::Path;

use berth_harness::{Lab, wait_until};
use berth_host::identity::{Identity, Verdict};

/// True while this very process lives.
pub(crate) fn is_alive(process: &Identity) -> bool {
    matches!(process.check(), Verdict::Alive(_))
}

/// The processes an agent wrote down with `pidfile`, those that ended meanwhile left out.
pub(crate) fn written_down(pidfile: &Path, count: usize) -> Vec<Identity> {
    let read = || std::fs::read_to_string(pidfile).unwrap_or_default();
    wait_until("the pids to be written down", || read().lines().count() >= count);
    let mut pids: Vec<u32> = read().lines().map(|line| line.parse().expect("a pid")).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(|pid| Identity::of(pid).ok()).collect()
}

/// How the runs in a journal ended: number and outcome, in order.
pub(crate) fn endings(lab: &Lab, id: &str) -> Vec<(u64, String)> {
    let ended = lab.events(id, "run_ended");
    let of = |event: &serde_json::Value| event["epoch"].as_u64().expect("a number");
    ended.iter().map(|event| (of(event), event["outcome"].to_string())).collect()
}

/// True if these bytes occur.
pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
