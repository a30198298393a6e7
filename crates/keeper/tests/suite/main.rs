//! The keeper without a real agent: conversations on this host, and sessions in a simulated world.

mod growth;
mod names;
mod simulation;
mod writers;
