//! The server: listening, serving, and shutting down.
//!
//! Promise: each state directory has one gateway; a second one reports the first and ends. A network address that is
//! not loopback needs TLS, unless the user allowed plain HTTP. On a signal to end, the gateway accepts no more
//! connections, finishes short requests, ends long ones, and exits within [`END_PATIENCE`]. Killing it changes no run.
//! Not here: authentication (see `auth`), the requests themselves (see `routes`).
//! Start with [`serve`], then `connection` (one client) and `guard` (the watchdog).

pub(crate) mod access_log;
mod address;
mod connection;
mod connection_limits;
mod connection_service;
mod listeners;
mod response_body;
mod supervisor;
mod systemd;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use berth_api::Problem;
use berth_store::StateDir;

pub use access_log::AccessLogFormat;
pub use address::TcpAddress;
pub use listeners::InheritedListeners;
pub use tls::TlsFiles;

use crate::app_state::AppState;
use crate::metrics::GatewayMetrics;
use connection::ServerContext;
use connection_limits::ConnectionLimits;
pub(crate) use connection_limits::DeferredServing;
pub(crate) use connection_limits::from_files as connection_limit;
use listeners::{BoundListeners, SOCKET_NAME};
use supervisor::{ListenerHeartbeat, SupervisorSetup};

/// Time for short requests to finish at shutdown.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Number of verbs that may wait for keepers and disks at once; further ones wait for a free thread.
const MAX_VERBS: usize = 512;

/// A place to listen on.
#[derive(Clone, Debug)]
pub enum ListenAddress {
    /// The local socket in the state directory.
    Socket,
    /// A network address and port.
    Tcp(TcpAddress),
}

/// Settings of a gateway.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Places to listen on.
    pub listen: Vec<ListenAddress>,
    /// Certificate and key for network addresses; plain HTTP without them.
    pub tls: Option<TlsFiles>,
    /// Allows plain HTTP on addresses other than loopback.
    pub insecure_http: bool,
    /// Host names by which clients may use the gateway, besides its addresses.
    pub allow_hosts: Vec<String>,
    /// Addresses and networks of proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Vec<String>,
    /// Allows reading the metrics without a token.
    pub open_metrics: bool,
    /// Format of the request log on standard error; no log if `None`.
    pub log: Option<AccessLogFormat>,
    /// File descriptors that an earlier image of this process left to this one.
    pub inherited: Option<InheritedListeners>,
    /// Arguments with which the watchdog restarts this program; see `guard`.
    pub again: Vec<std::ffi::OsString>,
}

impl ServeOptions {
    /// The network addresses to listen on, as far as they can be resolved.
    pub(crate) fn addresses(&self) -> Vec<std::net::IpAddr> {
        let address = |listen: &ListenAddress| match listen {
            ListenAddress::Socket => None,
            ListenAddress::Tcp(address) => address.resolve().ok().map(|address| address.ip()),
        };
        self.listen.iter().filter_map(address).collect()
    }
}

/// Serves until a signal ends it. `ready` is called with each address after all of them listen.
pub fn serve(
    home: StateDir,
    options: ServeOptions,
    mut ready: impl FnMut(String) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let inherited = options.inherited.clone().unwrap_or_default();
    let tls = options.tls.clone().map(tls::ReloadableTls::load).transpose()?.map(Arc::new);
    let metrics = Arc::new(GatewayMetrics::new(inherited.restarts));
    if inherited.restarts > 0 {
        berth_verbs::keepers::adopt_children();
    }
    // The settings are checked before anything is opened.
    let state = AppState::new(home.clone(), options.clone(), metrics.clone())?;
    let ending = state.ending.clone();
    let listeners = BoundListeners::open(&home, &options, &inherited)?;
    // Before any thread is started: signals blocked here are blocked in all threads, and only the guard receives them.
    let guard = SupervisorSetup::new().map_err(|error| failed("cannot wait for signals", &error))?;
    let limit = connection_limit();
    let log =
        Arc::new(access_log::AccessLog::start(options.log).map_err(|error| failed("cannot start", &error))?);
    let proxies = state.access.proxies.clone();
    let connections = ConnectionLimits::new(limit, metrics.clone(), ending.clone(), proxies);
    let hearts: Vec<ListenerHeartbeat> =
        listeners.all.iter().map(|listener| ListenerHeartbeat::new(&listener.name)).collect();
    let addresses: Vec<String> = listeners.all.iter().map(|listener| listener.name.clone()).collect();
    let again = supervisor::InPlaceRestart::prepare(&options.again, &listeners, inherited.restarts + 1)
        .map_err(|error| failed("cannot prepare to start again", &error))?;
    let BoundListeners { lock, all } = listeners;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(MAX_VERBS)
        .build()
        .map_err(|error| failed("cannot start", &error))?;
    let router = crate::routes::router(state.clone());
    let server = Arc::new(ServerContext { router, state, connections, log: log.clone(), tls: tls.clone() });
    guard
        .start(hearts.clone(), again, ending.clone(), log.clone(), tls)
        .map_err(|error| failed("cannot start", &error))?;
    if inherited.restarts == 0 {
        if let Err(problem) = addresses.iter().try_for_each(|address| ready(address.clone())) {
            // The lock is still held, so this socket belongs to this process.
            let _ = std::fs::remove_file(home.root().join(SOCKET_NAME));
            return Err(problem);
        }
    } else {
        log.say("restarted", &format!("in place, for the {}. time: it was stuck", inherited.restarts));
    }
    systemd::tell("READY=1");
    let ended = runtime.block_on(async {
        let mut accepting = tokio::task::JoinSet::new();
        for (listener, heart) in all.into_iter().zip(hearts) {
            accepting.spawn(connection::accept(listener, heart, server.clone(), inherited.restarts == 0));
        }
        ending.cancelled().await;
        // The listeners are closed with their tasks: a client that connects now is refused, and finds the next gateway.
        while let Some(done) = accepting.join_next().await {
            done.map_err(|error| Problem::bug(format!("the gateway stopped listening: {error}")))?;
        }
        // Only the holder of the lock may remove the socket, and this process holds it.
        let _ = std::fs::remove_file(home.root().join(SOCKET_NAME));
        let _ = tokio::time::timeout(END_PATIENCE, server.connections.all_closed()).await;
        Ok(())
    });
    // A verb that waits for a keeper is not waited for: it is only a client of that keeper.
    runtime.shutdown_background();
    log.flush();
    drop(lock);
    ended
}

fn failed(what: &str, error: &std::io::Error) -> Problem {
    Problem::refused(format!("the gateway {what}: {error}"))
}
