//! Tests of the host through the public functions of the crate: real processes, terminals, locks, control
//! groups and directories.

mod cgroup;
mod common;
mod identity;
mod lock;
mod places;
mod ports;
mod process;
mod pty;
mod scope;
mod signals;
mod spawn;
mod tree;
mod watchdog;
