//! Private PostgreSQL servers for tests: real programs, fsync on, a directory of their own.
//!
//! Promise: no system cluster is used or changed. A dropped server leaves no process, socket, file or shared memory.
//! Not here: what the database has in it.
//! Start with [`PgServer::start`]; [`PgServer::standby`] adds a second server, [`CuttingProxy`] loses answers.

#![forbid(unsafe_code)]

mod proxy;
mod server;

pub use proxy::CuttingProxy;
pub use server::{PgOptions, PgServer, TlsFiles};
