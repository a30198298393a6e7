//! Crashes: keepers killed at random, leftovers, kill points, stuck loops, and ends that race.
//!
//! `BERTH_CRASH_RUNS=500` runs the whole crash test, `BERTH_SEED=N` repeats a run.

mod ending;
mod killpoints;
mod leftovers;
mod lost;
mod random;
mod stuck;

use std::path::Path;

use berth_harness::{Lab, wait_until};
use berth_host::identity::Identity;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

/// The processes an agent wrote down with `pidfile`.
fn written_down(pidfile: &Path, count: usize) -> Vec<Identity> {
    let read = || std::fs::read_to_string(pidfile).unwrap_or_default();
    wait_until("the pids to be written down", || read().lines().count() >= count);
    let mut pids: Vec<u32> = read().lines().map(|line| line.parse().expect("a pid")).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(|pid| Identity::of(pid).ok()).collect()
}

/// How the runs in a journal ended: number and outcome, in order.
fn endings(lab: &Lab, id: &str) -> Vec<(u64, String)> {
    let ended = lab.events(id, "run_ended");
    ended
        .iter()
        .map(|event| (event["epoch"].as_u64().expect("a number"), event["outcome"].to_string()))
        .collect()
}
