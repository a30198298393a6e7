//! Processes of keepers: the entry point of one, and the keepers that this process started.
//!
//! Not here: the records of keepers (see `berth_store::keepers`), what a keeper does (see `berth-keeper`).
//! Start with [`run_keeper`].

use std::ffi::OsString;

pub use berth_keeper::recover::recover_session;
pub use berth_keeper::spawn_keeper::{adopt_children, reap_keepers};

/// Runs the keeper of a session or helper in this process. `args` follow the hidden verb. Returns the exit code.
pub fn run_keeper(args: &[OsString]) -> u8 {
    berth_keeper::keeper::run_keeper(args)
}
