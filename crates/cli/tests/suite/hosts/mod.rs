//! Other hosts, over a real ssh (see [`berth_harness::Hosts`]).

mod fleet;
mod hostile;
mod lines;
mod names;
mod verbs;

use berth_harness::{Hosts, Lab};

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

/// Two hosts, of which this one does not know the other.
fn strangers() -> Hosts {
    Hosts::new(lab(), lab())
}

/// The same with the other host added as `box`.
fn added() -> Hosts {
    strangers().added()
}
