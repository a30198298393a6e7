//! Operations on sessions that have files and no keeper.

#![forbid(unsafe_code)]

mod common;
mod growth;
mod turn_output;
