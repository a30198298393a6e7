//! What can be done with sessions: once, for the terminal, for HTTP, for editors and for other agents.
//!
//! Promise: a verb does the same whoever asks; its errors say what to do next.
//! Not here: what a person sees or types (see the CLI), what goes over HTTP (see the gateway), deciding (see
//! `berth_core`). Nothing here prints, asks, or knows a terminal.
//! Start with [`Ctx`].

#![forbid(unsafe_code)]

pub mod agents;
pub mod answer;
pub mod auto_name;
pub mod caller;
pub mod changed_files;
pub mod changes;
#[expect(missing_docs, reason = "the fields are the keys of the config, and `registry` explains each")]
pub mod config;
pub mod ctx;
pub mod cursor;
pub mod directories;
pub mod directory_watch;
pub mod doctor;
pub mod events;
pub mod export;
pub mod foreign;
pub mod fork;
pub mod grep;
pub mod heads;
pub mod helper;
pub mod history;
pub mod hook;
pub mod hosts;
pub mod input;
pub mod interface;
pub mod life;
pub mod links;
pub mod listing;
pub mod output;
pub mod port;
pub mod progress;
pub mod ps;
pub mod purge;
pub mod queue;
pub mod records;
pub mod resume;
pub mod run;
pub mod screen;
pub mod session;
pub mod setup;
pub mod stop;
pub mod tokens;
pub mod transcript;
pub mod turns;
pub mod wait;
pub mod words;

pub use ctx::Ctx;
pub use cursor::Cursor;
pub use progress::Progress;
pub use session::Session;
