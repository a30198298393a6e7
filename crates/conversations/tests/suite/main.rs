//! Conversations on this host, without a real agent.

mod writers;
