//! Processes and the sessions they belong to: attribution, callers, nested sessions, the control groups of a run.
//!
//! Promise: every answer rests on facts that were read just now; a process that cannot be attributed is reported as such.
//! Not here: decisions about sessions and records of them (see `berth-keeper`), agents' signs (see `berth-driver`).
//! Start with [`attribution::attribute_process`] for one process, [`session_processes::member_processes`] for one session,
//! [`callers::sessions_around_process`] for a caller.

#![forbid(unsafe_code)]

pub mod attribution;
pub mod callers;
pub mod hook_ancestry;
pub mod nested_sessions;
pub mod own_terminal;
pub mod run_cgroups;
pub mod session_processes;
