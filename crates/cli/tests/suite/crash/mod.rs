//! Crashes: keepers killed at random, leftovers, kill points, stuck loops, and ends that race.
//!
//! `BERTH_CRASH_RUNS=500` runs the whole crash test, `BERTH_SEED=N` repeats a run.

mod ending;
mod killpoints;
mod leftovers;
mod lost;
mod random;
mod stuck;

use berth_harness::TestEnvironment;

use crate::common::{endings, written_down};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}
