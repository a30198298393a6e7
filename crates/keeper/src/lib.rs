//! One session's keeper: the process that holds its lease, its run, its journal and its terminal.
//!
//! Promise: nothing is answered, published or acted on before it is committed; no client, however
//! slow, holds up the agent; when the run is over nothing of it remains.
//! Not here: the rules (see `berth-core`), other sessions, anything a person reads on a terminal.
//! Start with [`keeper::keep`] for the process, [`owner::Owner`] for the order of things.

#![forbid(unsafe_code)]

mod ancestry;
pub mod audit;
pub mod boundary;
pub mod branch;
pub mod callers;
pub mod carried;
mod clients;
pub mod conversations;
pub mod copies;
mod derived;
mod driver;
mod fnv;
mod foreign;
pub mod helpers;
pub mod history;
pub mod holders;
pub mod home;
pub mod import;
pub mod keeper;
pub mod killpoint;
pub mod members;
pub mod names;
pub mod notify;
pub mod output;
pub mod owner;
pub mod past;
mod place;
pub mod purge;
pub mod recover;
pub mod snapshot;
pub mod start;
pub mod store;
pub mod stranger;
pub mod sweep;
pub mod terminals;
pub mod turn;
pub mod turn_index;
pub mod view;
pub mod whose;
pub mod writers;

pub use history::History;
pub use home::Home;
pub use terminals::Terminal;
