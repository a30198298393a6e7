//! Operations on sessions, written once for the terminal, HTTP, editors and other agents: lists, turns, waits, transcripts,
//! other hosts over ssh, hooks and their setup, the gateway's addresses, and the words for durations, states and ends.
//!
//! Promise: an operation has the same effect for every caller; its errors say what to do next.
//! Not here: display and input for people (see the CLI), HTTP (see the gateway), decisions about sessions (see
//! `berth_core`), settings (see `berth_config`). Nothing here prints, asks, or knows a terminal.
//! Start with [`VerbContext`].

#![forbid(unsafe_code)]

pub mod answer;
pub mod auto_name;
pub mod caller;
pub mod changed_files;
pub mod context;
pub mod directories;
pub mod directory_watch;
pub mod doctor;
pub mod events;
pub mod export;
pub mod follow;
pub mod foreign;
pub mod fork;
pub mod format;
pub mod gateway_urls;
pub mod grep;
pub mod helper;
pub mod history;
pub mod hook;
pub mod hosts;
pub mod input;
pub mod interface;
pub mod journal_heads;
pub mod keepers;
pub mod lifecycle;
pub mod listing;
pub mod output;
pub mod port;
pub mod progress;
pub mod ps;
pub mod purge;
pub mod queue;
pub mod resume;
pub mod run;
pub mod screen;
pub mod session;
pub mod session_cursor;
pub mod session_list_watch;
pub mod setup;
pub mod stop;
pub mod sweep;
pub mod transcript;
pub mod transcript_files;
pub mod turns;
pub mod wait;
pub mod why;

pub use context::VerbContext;
pub use progress::ProgressSink;
pub use session::SessionHandle;
pub use session_cursor::SessionCursor;

use berth_config::{agents, config};
