//! Drivers: how we talk to one kind of agent.

pub(crate) mod pty;
