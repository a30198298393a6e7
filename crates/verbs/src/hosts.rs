//! Other hosts, reached over plain ssh: no open port, no relay, only `berth proxy` on the other side.
//!
//! Promise: an unreachable host is reported as such, with its last known state and the age of that; messages of ssh are
//! passed on.
//! Not here: the transport of a request (see [`ssh`]), the records of hosts (see [`berth_config::hosts`]), keys and
//! addresses (see ~/.ssh/config).
//! Start with [`RemoteHost::resolve`], then [`host_status`].

mod list;
pub mod ssh;

pub use berth_config::hosts::{HostSnapshot, RemoteHost, add_host, all_hosts, remove_host, save_snapshot};
pub use list::{HostStatus, MAX_SESSIONS, PATIENCE, all_host_statuses, ask_host, host_status, version_skew};
