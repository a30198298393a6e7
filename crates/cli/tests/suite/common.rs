//! Shared by the modules of the suite: processes that an agent wrote down, how runs ended, snapshots of screens, and bytes
//! within bytes.

use std::path::Path;

use berth_harness::{TestEnvironment, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};

/// True while this very process lives.
pub(crate) fn is_alive(process: &ProcessIdentity) -> bool {
    matches!(process.check(), ProcessLiveness::Alive(_))
}

/// The processes an agent wrote down with `pidfile`, those that ended meanwhile left out.
pub(crate) fn written_down(pidfile: &Path, count: usize) -> Vec<ProcessIdentity> {
    let read = || std::fs::read_to_string(pidfile).unwrap_or_default();
    wait_until("the pids to be written down", || read().lines().count() >= count);
    let mut pids: Vec<u32> = read().lines().map(|line| line.parse().expect("a pid")).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(|pid| ProcessIdentity::of(pid).ok()).collect()
}

/// How the runs in a journal ended: number and outcome, in order.
pub(crate) fn endings(lab: &TestEnvironment, id: &str) -> Vec<(u64, String)> {
    let ended = lab.events(id, "run_ended");
    let of = |event: &serde_json::Value| event["epoch"].as_u64().expect("a number");
    ended.iter().map(|event| (of(event), event["outcome"].to_string())).collect()
}

/// True if these bytes occur.
pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Settings of snapshots of a screen or a table: they replace what differs from run to run, which is ids, ages, sizes of
/// memory, and paths. A session in a snapshot runs in `/`: other directories have other names and branches elsewhere.
pub(crate) fn screen_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"/\S*/fake-agent", "fake-agent");
    settings.add_filter(r"sh -c '/.*", "sh -c '[script]");
    settings.add_filter(r"wait-file:/\S+", "wait-file:[path]");
    settings.add_filter(r"\b[0-9a-hjkmnp-tv-z]{12}\b", "[session-id]");
    // The memory of a row is measured after the row was drawn for the first time.
    settings.add_filter(r"(?m)( +[\d.]+[KMG])? +(now|\d+[smhd])$", "  now");
    // In a table an age has the width of its column.
    settings.add_filter(r"\b(\d[smhd] |\d\d[smhd]\b)", "now");
    settings
}
