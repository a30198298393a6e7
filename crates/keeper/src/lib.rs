//! One session's keeper: the process that holds its lease, its run, its journal and its terminal.
//!
//! Promise: nothing is answered, published or acted on before it is committed; no client, however
//! slow, holds up the agent; when the run is over nothing of it remains.
//! Not here: the rules (see `berth-core`), other sessions, anything a person reads on a terminal.
//! Start with [`keeper::keep`] for the process, [`journaled_session::JournaledSession`] for the order of things.

#![forbid(unsafe_code)]

mod ancestry;
pub mod audit;
pub mod boundary;
pub mod branch;
pub mod callers;
pub mod carried;
pub mod copies;
mod driver;
mod foreign;
pub mod helpers;
pub mod holders;
pub mod import;
pub mod journaled_session;
pub mod keeper;
pub mod members;
pub mod notify;
mod place;
pub mod purge;
pub mod recover;
pub mod start;
pub mod sweep;
pub mod terminal_here;
pub mod turn;
pub mod whose;
pub mod why;
pub mod writers;
