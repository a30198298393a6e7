//! Files of the state directory about sessions: claims, journals, output, logs, names, the current session of a terminal,
//! permits of notifiers, the audit log, and what is derived from them.
//!
//! Promise: of all processes at most one may write a session. A reader needs no right and changes nothing.
//! Not here: what a session may do (`berth-core`), what its keeper does (`berth-keeper`).
//! Start with [`StateDir`], then [`store`] for claims and journals, [`session_status`] for a status without the keeper.

#![forbid(unsafe_code)]

pub mod audit;
pub mod claim;
pub mod config_file;
pub mod conversation_locks;
pub mod current_session;
pub mod derived_files;
pub mod fnv;
pub mod foreign_lease_holder;
pub mod keepers;
pub mod killpoint;
pub mod names;
pub mod notifications;
pub mod output;
pub mod process_ref;
mod purge;
mod session_files;
pub mod session_status;
pub mod session_view;
pub mod snapshot;
pub mod state_dir;
pub mod store;
pub mod stored_session;
pub mod turn_index;
pub mod turn_output;
pub mod turn_view;

pub use current_session::TerminalIdentity;
pub use purge::{PendingPurge, PurgeError};
pub use session_files::SessionFiles;
pub use session_view::SessionView;
pub use state_dir::StateDir;
