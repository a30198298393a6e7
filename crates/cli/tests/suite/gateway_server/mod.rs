//! The gateway as a server: where it listens, which clients it lets in, when it ends, what it reports about itself.

mod dashboard;
mod ending;
mod instances;
mod limits;
mod listening;
mod logs;
mod metrics;
mod odd_bytes;
mod panics;
mod systemd;
mod watchdog;

use berth_harness::TestEnvironment;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}
