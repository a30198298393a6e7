//! Processes as records name them: by number, start and boot.

use berth_core::{Process, Session};
use berth_host::identity::{Identity, Verdict};

/// The core's view of an identity.
pub fn process(identity: Identity) -> Process {
    Process { pid: identity.pid, start_ticks: identity.start_ticks, boot: identity.boot.into() }
}

/// The host's view of a process.
pub fn identity(process: &Process) -> Identity {
    Identity { pid: process.pid, start_ticks: process.start_ticks, boot: process.boot.0.clone() }
}

/// Why nothing here tells whether the current or last run is over, if that was on another host.
pub fn elsewhere(session: &Session) -> Option<String> {
    session.keeper.as_ref().and_then(|keeper| identity(keeper).elsewhere())
}

/// Whether a live run's keeper is gone: then whoever holds the lease is clearing up after it.
pub fn lost_its_keeper(session: &Session) -> bool {
    let keeper = session.keeper.as_ref().filter(|_| session.is_live());
    keeper.is_some_and(|keeper| matches!(identity(keeper).check(), Verdict::Gone))
}
