//! Many sessions over HTTP: the API under `/v1`, live events, terminals, and the page.
//!
//! Promise: it holds no session state. Killed at any moment it takes nothing along; started again it serves the
//! same. Unauthenticated bytes cause no effect, on loopback too.
//! Not here: what a verb does (see `berth_verbs`), who keeps a session (see `berth_keeper`).
//! Start with [`serve`], then [`routes`].

#![forbid(unsafe_code)]

mod audit;
mod auth;
mod caller;
mod counts;
mod fault;
mod fleet;
mod follow;
mod gate;
mod http;
mod live;
mod metrics;
mod one_look;
pub mod openapi;
mod page;
mod proxy;
mod quota;
pub mod routes;
mod seats;
mod server;
mod trace;
mod visible;

pub use proxy::serve_stdio;
pub use server::{Address, Inherited, Listen, LogFormat, Options, TlsFiles, serve};
