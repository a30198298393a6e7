//! Other hosts, over a real ssh (see [`berth_harness::TestHostPair`]).

mod fleet;
mod hostile;
mod names;
mod ssh_connections;
mod verbs;

use berth_harness::{TestEnvironment, TestHostPair};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Two hosts, of which this one does not know the other.
fn strangers() -> TestHostPair {
    TestHostPair::new(lab(), lab())
}

/// Two hosts, with the other one added as `box`.
fn added() -> TestHostPair {
    strangers().added()
}
