//! Transcripts that agents wrote or that a test made: checked, repaired, and asked what became of a prompt.

mod branches;
mod check;
mod common;
mod damage;
mod fate;
mod live;
mod memory;
mod repair;
mod tools;
mod tree;
