//! The keeper without a real agent: conversations on this host, and sessions in a simulated world.

mod names;
mod simulation;
