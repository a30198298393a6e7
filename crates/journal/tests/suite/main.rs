//! The journal from the outside, on fake disks and on a real one.

mod append;
mod chain;
mod common;
mod crashes;
mod damage;
mod golden;
mod index;
mod merge;
