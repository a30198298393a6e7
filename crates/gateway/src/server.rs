//! Listening: a socket in the state directory, and TCP if somebody says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_api::{Code, Problem};
use berth_keeper::Home;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tower::ServiceExt;

use crate::auth::leash::Leash;
use crate::auth::{Door, Peer, Wire};
use crate::gate::{Gate, reap_keepers};
use crate::live::patience::Patient;

/// The name of the socket in the state directory.
pub const SOCKET_NAME: &str = "gateway.sock";
/// How long a client may take for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);

/// Where to listen.
#[derive(Clone, Debug)]
pub enum Listen {
    /// The socket in the state directory.
    Socket,
    /// A network address.
    Tcp(SocketAddr),
}

/// What somebody wants of a gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// Names besides its addresses under which clients may know it.
    pub allow_hosts: Vec<String>,
}

impl Options {
    fn addresses(&self) -> Vec<std::net::IpAddr> {
        let address = |listen: &Listen| match listen {
            Listen::Socket => None,
            Listen::Tcp(address) => Some(address.ip()),
        };
        self.listen.iter().filter_map(address).collect()
    }
}

/// Serves until it is told to end. `ready` hears each address it listens on.
pub fn serve(home: Home, options: Options, mut ready: impl FnMut(String)) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("cannot start", &error))?;
    runtime.block_on(async {
        let door = Door::new(&home, &options.addresses(), &options.allow_hosts)?;
        let gate = Gate::new(home.clone(), door);
        let router = crate::routes::router(gate);
        tokio::spawn(reap_keepers());
        for listen in &options.listen {
            let router = router.clone();
            match listen {
                Listen::Socket => {
                    let path = home.root().join(SOCKET_NAME);
                    let _ = std::fs::remove_file(&path);
                    let listener =
                        UnixListener::bind(&path).map_err(|error| failed("cannot listen", &error))?;
                    ready(format!("unix:{}", path.display()));
                    tokio::spawn(accept_local(listener, router, home.clone()));
                }
                Listen::Tcp(address) => {
                    let listener =
                        TcpListener::bind(address).await.map_err(|error| failed("cannot listen", &error))?;
                    let address = listener.local_addr().map_err(|error| failed("cannot listen", &error))?;
                    ready(format!("http://{address}"));
                    tokio::spawn(accept_tcp(listener, router));
                }
            }
        }
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(|error| failed("cannot wait for signals", &error))?;
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    })
}

fn failed(what: &str, error: &std::io::Error) -> Problem {
    Problem::new(Code::Refused, format!("the gateway {what}: {error}"))
}

async fn accept_local(listener: UnixListener, router: Router, home: Home) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let Ok(credentials) = stream.peer_cred() else { continue };
        // Once for each connection: it does not change hands.
        let inside = Arc::new(berth_verbs::caller::of_peer(&home, &stream));
        let peer = Peer::Local { uid: credentials.uid(), pid: credentials.pid(), inside };
        tokio::spawn(connection(stream, peer, router.clone()));
    }
}

async fn accept_tcp(listener: TcpListener, router: Router) {
    loop {
        let Ok((stream, address)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, Peer::Network(address), router.clone()));
    }
}

pub(crate) async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
) {
    let wire = Wire { secure: false, leash: Leash::default() };
    let stream = wire.leash.hold(stream);
    let router = router.map_request(move |mut request: axum::http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(wire.clone());
        request
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router))
        .with_upgrades();
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection broke off");
    }
}
