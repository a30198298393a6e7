//! Many sessions over HTTP: the API under `/v1`, live events, terminals, and the page.
//!
//! Promise: the gateway holds no session state. Killing it changes no run, and a new process serves the same sessions.
//! Unauthenticated bytes cause no effect, on loopback too.
//! Not here: the operations themselves (see `berth_verbs`), the process that holds a session (see `berth_keeper`).
//! Start with [`serve`], then [`routes`].

#![forbid(unsafe_code)]

mod app_state;
mod audit;
mod auth;
mod caller;
mod http;
mod http_problem;
mod key_counts;
mod live;
mod metrics;
pub mod openapi;
mod page;
mod proxy;
mod quota;
mod remote_hosts;
pub mod routes;
mod server;
mod session_monitor;
mod single_flight;
mod trace;
mod viewer_filter;
mod work_limits;

pub use proxy::serve_stdio;
pub use server::{
    AccessLogFormat, InheritedListeners, ListenAddress, ServeOptions, TcpAddress, TlsFiles, serve,
};
