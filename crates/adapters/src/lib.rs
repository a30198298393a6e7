//! Adapters: sessions for editors over ACP, and for other agents over MCP, on standard input and output.
//!
//! Promise: only the protocol is on standard output; a client that leaves ends nothing.
//! Not here: state of sessions (each request asks `berth-verbs`), arguments of the command line (see the CLI).
//! Start with [`acp::serve`] and [`mcp::serve`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod acp;
pub mod mcp;
