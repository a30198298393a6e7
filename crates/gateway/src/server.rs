//! Serving: from the first listener to the last answer.
//!
//! Promise: one gateway for each state directory; who comes second is told who is first, and ends. A network address
//! that is not loopback has TLS, or somebody said that it need not. Told to end, it lets nobody else in, finishes
//! what is short, ends what is not, and is gone within [`END_PATIENCE`]; killed, it takes nothing along.
//! Not here: who asks (see `auth`), what is asked (see `routes`).
//! Start with [`serve`], then `connection` (one client) and `guard` (who looks after all of it).

mod address;
mod connection;
mod door;
mod guard;
mod limits;
mod listeners;
pub(crate) mod log;
mod outgoing;
mod systemd;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_store::Home;

pub use address::Address;
pub use listeners::Inherited;
pub use log::LogFormat;
pub use tls::TlsFiles;

use crate::gate::Gate;
use crate::metrics::Metrics;
use connection::Server;
use guard::{Guard, Heart};
use limits::Connections;
pub(crate) use limits::OnceKnown;
pub(crate) use limits::from_files as connection_limit;
use listeners::{Listeners, SOCKET_NAME};

/// How long short requests may take to finish when the gateway is told to end.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How many verbs may wait for keepers and disks at once; more wait for their turn.
const MAX_VERBS: usize = 512;

/// Where to listen.
#[derive(Clone, Debug)]
pub enum Listen {
    /// The socket in the state directory.
    Socket,
    /// A network address.
    Tcp(Address),
}

/// What somebody wants of a gateway.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// The certificate and its key, for network addresses.
    pub tls: Option<TlsFiles>,
    /// Whether a network address that is not loopback may do without TLS.
    pub insecure_http: bool,
    /// Names besides its addresses under which clients may know it.
    pub allow_hosts: Vec<String>,
    /// Addresses and networks of proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<String>,
    /// Whether everybody may see the metrics.
    pub open_metrics: bool,
    /// How each request is told of on standard error; not at all if nothing is said.
    pub log: Option<LogFormat>,
    /// What an earlier image of this process left to this one.
    pub inherited: Option<Inherited>,
    /// The arguments that start this program like this again; see `guard`.
    pub again: Vec<std::ffi::OsString>,
}

impl Options {
    /// The network addresses it is to listen on, as far as they can be told.
    pub(crate) fn addresses(&self) -> Vec<std::net::IpAddr> {
        let address = |listen: &Listen| match listen {
            Listen::Socket => None,
            Listen::Tcp(address) => address.resolve().ok().map(|address| address.ip()),
        };
        self.listen.iter().filter_map(address).collect()
    }
}

/// Serves until it is told to end. `ready` hears each address it listens on, once it listens on all of them.
pub fn serve(
    home: Home,
    options: Options,
    mut ready: impl FnMut(String) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let inherited = options.inherited.clone().unwrap_or_default();
    let tls = options.tls.clone().map(tls::Tls::load).transpose()?.map(Arc::new);
    let metrics = Arc::new(Metrics::new(inherited.restarts));
    if inherited.restarts > 0 {
        berth_keeper::start::adopt_children();
    }
    // What was asked for is looked at before anything is opened.
    let gate = Gate::new(home.clone(), options.clone(), metrics.clone())?;
    let ending = gate.ending.clone();
    let listeners = Listeners::open(&home, &options, &inherited)?;
    // Before any thread is there: what is blocked here is blocked in all of them, and comes to the guard alone.
    let guard = Guard::new().map_err(|error| failed("cannot wait for signals", &error))?;
    let limit = connection_limit();
    let log = Arc::new(log::Log::start(options.log).map_err(|error| failed("cannot start", &error))?);
    let proxies = gate.door.proxies.clone();
    let connections = Connections::new(limit, metrics.clone(), ending.clone(), proxies);
    let hearts: Vec<Heart> = listeners.all.iter().map(|listener| Heart::new(&listener.name)).collect();
    let addresses: Vec<String> = listeners.all.iter().map(|listener| listener.name.clone()).collect();
    let again = guard::Again::prepare(&options.again, &listeners, inherited.restarts + 1)
        .map_err(|error| failed("cannot prepare to start again", &error))?;
    let Listeners { lock, all } = listeners;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(MAX_VERBS)
        .build()
        .map_err(|error| failed("cannot start", &error))?;
    let router = crate::routes::router(gate.clone());
    let server = Arc::new(Server { router, gate, connections, log: log.clone(), tls: tls.clone() });
    guard
        .start(hearts.clone(), again, ending.clone(), log.clone(), tls)
        .map_err(|error| failed("cannot start", &error))?;
    if inherited.restarts == 0 {
        if let Err(problem) = addresses.iter().try_for_each(|address| ready(address.clone())) {
            // The lock is still ours, so this is our socket.
            let _ = std::fs::remove_file(home.root().join(SOCKET_NAME));
            return Err(problem);
        }
    } else {
        log.say("restarted", &format!("in place, for the {}. time: it had stood still", inherited.restarts));
    }
    systemd::tell("READY=1");
    let ended = runtime.block_on(async {
        let mut accepting = tokio::task::JoinSet::new();
        for (listener, heart) in all.into_iter().zip(hearts) {
            accepting.spawn(connection::accept(listener, heart, server.clone(), inherited.restarts == 0));
        }
        ending.cancelled().await;
        // The listeners go with their tasks: whoever comes now is refused, and finds the next gateway.
        while let Some(done) = accepting.join_next().await {
            done.map_err(|error| Problem::new(Code::Bug, format!("the gateway stopped listening: {error}")))?;
        }
        // Only who holds the lock may: it is ours, and nobody else's.
        let _ = std::fs::remove_file(home.root().join(SOCKET_NAME));
        let _ = tokio::time::timeout(END_PATIENCE, server.connections.all_closed()).await;
        Ok(())
    });
    // A verb that waits for a keeper would be waited for; it is no more than a client of that keeper.
    runtime.shutdown_background();
    log.flush();
    drop(lock);
    ended
}

fn failed(what: &str, error: &std::io::Error) -> Problem {
    Problem::new(Code::Refused, format!("the gateway {what}: {error}"))
}
