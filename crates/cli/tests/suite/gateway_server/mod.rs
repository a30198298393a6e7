//! How the gateway serves: where it listens, whom it lets in, when it ends, what it tells about itself.

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

use berth_harness::Lab;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}
