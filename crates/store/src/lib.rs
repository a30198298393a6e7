//! Sessions on disk: their claims, journals, output and names, and what is derived from them.
//!
//! Promise: of all processes at most one may write a session. A reader needs no right and changes nothing.
//! Not here: what a session may do (`berth-core`), what its keeper does (`berth-keeper`).
//! Start with [`Home`], then [`store`] for claims and journals, [`view`] for a look from outside.

#![forbid(unsafe_code)]

pub mod claim;
pub mod conversations;
pub mod derived;
pub mod fnv;
mod grave;
pub mod history;
pub mod home;
pub mod keepers;
pub mod killpoint;
pub mod names;
pub mod output;
pub mod past;
pub mod process;
mod session_files;
pub mod snapshot;
pub mod store;
pub mod stranger;
pub mod terminals;
pub mod turn_index;
pub mod turn_view;
pub mod view;

pub use grave::{Grave, NotBuried};
pub use history::History;
pub use home::Home;
pub use session_files::SessionFiles;
pub use terminals::Terminal;
