//! One session's keeper: the process that holds its lease, its run, its journal and its terminal. Also the ways to begin
//! one: start, recovery after a crash, helpers, import of a conversation.
//!
//! Promise: nothing is answered, published or acted on before it is committed; no client, however
//! slow, holds up the agent; when the run is over nothing of it remains.
//! Not here: the rules (see `berth-core`), other sessions (see `berth-procs`), conversations of other agents (see
//! `berth-conversations`), anything a person reads on a terminal.
//! Start with [`keeper::run_keeper`] for the process, [`journaled_session::JournaledSession`] for the order of things.

#![forbid(unsafe_code)]

mod admission;
mod agent_launch;
mod client_place;
pub mod git_branch;
pub mod helpers;
pub mod import;
pub mod journaled_session;
pub mod keeper;
pub mod notify;
pub mod recover;
pub mod spawn_keeper;
pub mod turn_outcome;
