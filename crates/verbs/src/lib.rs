//! What can be done with sessions: once, for the terminal, for HTTP, for editors and for other agents.
//!
//! Promise: a verb does the same whoever asks; its errors say what to do next.
//! Not here: what a person sees or types (see the CLI), what goes over HTTP (see the gateway), deciding (see
//! `berth_core`). Nothing here prints, asks, or knows a terminal.
//! Start with [`Ctx`].

#![forbid(unsafe_code)]

pub mod agents;
pub mod caller;
#[expect(missing_docs, reason = "the fields are the keys of the config, and `registry` explains each")]
pub mod config;
pub mod ctx;
pub mod fork;
pub mod hosts;
pub mod life;
pub mod resume;
pub mod run;
pub mod stop;
pub mod time;
pub mod turns;

pub use ctx::Ctx;
