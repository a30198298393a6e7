//! Processes as records name them: by pid, start time and boot.
//!
//! Start with [`to_process_identity`].

use berth_core::{ProcessRef, Session};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};

/// Converts an identity of the host to the core's type.
pub fn to_process_ref(identity: ProcessIdentity) -> ProcessRef {
    ProcessRef { pid: identity.pid, start_ticks: identity.start_ticks, boot: identity.boot.into() }
}

/// Converts a process of the core to the host's type.
pub fn to_process_identity(process: &ProcessRef) -> ProcessIdentity {
    ProcessIdentity { pid: process.pid, start_ticks: process.start_ticks, boot: process.boot.0.clone() }
}

/// Reason why this host cannot tell whether the current or last run is over, if that run was on another host.
pub fn other_host_of_run(session: &Session) -> Option<String> {
    session.keeper.as_ref().and_then(|keeper| to_process_identity(keeper).on_another_host())
}

/// True if a live run's keeper is gone: then the holder of the lease is a command that clears up after it.
pub fn lost_its_keeper(session: &Session) -> bool {
    let keeper = session.keeper.as_ref().filter(|_| session.is_live());
    keeper.is_some_and(|keeper| matches!(to_process_identity(keeper).check(), ProcessLiveness::Gone))
}
