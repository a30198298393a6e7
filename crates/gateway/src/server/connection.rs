//! Connections: accepting clients, TLS handshakes, and serving requests.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use berth_api::Problem;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use super::access_log::AccessLog;
use super::connection_limits::{self, ConnectionLimits, ConnectionPermit};
use super::connection_service::ConnectionService;
use super::listeners::{BoundListener, ListenerKind};
use super::supervisor::ListenerHeartbeat;
use super::tls::ReloadableTls;
use crate::app_state::AppState;
use crate::auth::{ConnectionDetails, ConnectionPeer, revocation::RevocationHandle};
use crate::http_problem::HttpProblem;

/// State that all connections share.
#[derive(Debug)]
pub(super) struct ServerContext {
    pub(super) router: Router,
    pub(super) state: Arc<AppState>,
    pub(super) connections: Arc<ConnectionLimits>,
    pub(super) log: Arc<AccessLog>,
    pub(super) tls: Option<Arc<ReloadableTls>>,
}

/// Socket that accepts clients.
enum AsyncListener {
    Local(UnixListener),
    Network { listener: TcpListener, is_tls: bool },
}

/// An accepted connection.
enum AcceptedStream {
    Local(UnixStream),
    Network(TcpStream, SocketAddr),
}

impl AsyncListener {
    fn open(kind: ListenerKind) -> io::Result<Self> {
        Ok(match kind {
            ListenerKind::Local(listener) => Self::Local(UnixListener::from_std(listener)?),
            ListenerKind::Network { listener, is_tls } => {
                Self::Network { listener: TcpListener::from_std(listener)?, is_tls }
            }
        })
    }

    async fn next(&self) -> io::Result<AcceptedStream> {
        match self {
            Self::Local(listener) => listener.accept().await.map(|(stream, _)| AcceptedStream::Local(stream)),
            Self::Network { listener, .. } => {
                listener.accept().await.map(|(stream, address)| AcceptedStream::Network(stream, address))
            }
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self, Self::Network { is_tls: true, .. })
    }
}

/// Accepts clients until the gateway shuts down. `may_stall` is for tests, and only in the first image of a process.
pub(super) async fn accept(
    listener: BoundListener,
    heart: ListenerHeartbeat,
    server: Arc<ServerContext>,
    may_stall: bool,
) {
    let socket = match AsyncListener::open(listener.kind) {
        Ok(socket) => socket,
        // The listener does not beat, so the guard restarts the gateway.
        Err(error) => return server.log.say("failed", &format!("cannot listen: {error}")),
    };
    let mut beat = tokio::time::interval(heart.every);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = server.state.ending.cancelled() => return,
            _ = beat.tick() => heart.beat(),
            came = socket.next() => match came {
                Ok(came) => {
                    if may_stall {
                        berth_store::killpoint::reached("gateway-accept");
                    }
                    match came {
                        AcceptedStream::Local(stream) => local(stream, &server),
                        AcceptedStream::Network(stream, address) if socket.is_tls() => encrypted(stream, address, &server),
                        AcceptedStream::Network(stream, address) => plain(stream, address, &server),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(connection_limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

fn local(stream: UnixStream, server: &Arc<ServerContext>) {
    let Ok(credentials) = stream.peer_cred() else { return };
    let (uid, pid) = (credentials.uid(), credentials.pid());
    // Until the process at the other end was examined, its caller is unknown.
    let unseen = Err(Problem::not_allowed("the caller was not identified"));
    let Some(ticket) =
        server.connections.enter(&ConnectionPeer::Local { uid, pid, inside: Arc::new(unseen) })
    else {
        return refuse(stream.into_std());
    };
    let server = server.clone();
    tokio::spawn(async move {
        // Once for each connection, since its process does not change. This reads /proc for a short time, and not in
        // the accept loop. For hundreds of connections at once, a thread for each would cost more than the read.
        let inside = berth_verbs::caller::of_peer(&server.state.home, &stream);
        serve(stream, false, ConnectionPeer::Local { uid, pid, inside: Arc::new(inside) }, ticket, server)
            .await;
    });
}

fn plain(stream: TcpStream, address: SocketAddr, server: &Arc<ServerContext>) {
    let _ = stream.set_nodelay(true);
    let peer = ConnectionPeer::Network(address);
    match server.connections.enter(&peer) {
        Some(ticket) => drop(tokio::spawn(serve(stream, false, peer, ticket, server.clone()))),
        None => refuse(stream.into_std()),
    }
}

fn encrypted(stream: TcpStream, address: SocketAddr, server: &Arc<ServerContext>) {
    let _ = stream.set_nodelay(true);
    let peer = ConnectionPeer::Network(address);
    // A refusal over TLS would take the handshake, for which there is no room.
    let Some(ticket) = server.connections.enter(&peer) else { return };
    let Some(tls) = server.tls.clone() else { return };
    let server = server.clone();
    tokio::spawn(async move {
        let leave = ticket.seat.leave.clone();
        let shaken = tokio::select! {
            () = leave.cancelled() => return,
            shaken = tokio::time::timeout(connection_limits::idle_timeout(connection_limits::TLS_PATIENCE), accept_tls(stream, &tls)) => shaken,
        };
        match shaken {
            Ok(Ok(Some(stream))) => serve(stream, true, peer, ticket, server).await,
            Ok(Ok(None)) => tracing::debug!("a client used HTTP on a TLS port"),
            Ok(Err(error)) => tracing::debug!(%error, "the TLS handshake failed"),
            Err(_) => tracing::debug!("the TLS handshake timed out"),
        }
    });
}

/// Does the TLS handshake. Returns `None` for a client that sends plain HTTP, which gets a plain answer that says so.
async fn accept_tls(mut stream: TcpStream, tls: &ReloadableTls) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    // A TLS record begins with a number, an HTTP request with a letter.
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic() {
        stream.write_all(not_encrypted().as_bytes()).await?;
        stream.shutdown().await?;
        // If unread input were discarded by the close, a client that is still sending would never read the answer. The
        // timeout is that of the handshake.
        let mut rest = stream.take(connection_limits::MAX_UNREAD_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        return Ok(None);
    }
    tls.acceptor().accept(stream).await.map(Some)
}

fn not_encrypted() -> String {
    let fault = HttpProblem::usage("this port needs https, and the request came by http; nothing was done")
        .hint("use the same address with https://; revoke a token that was sent like this");
    answer("400 Bad Request", "", &fault.json(StatusCode::BAD_REQUEST))
}

/// The text of an answer that no router makes.
fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/problem+json\r\n{headers}Connection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    secure: bool,
    peer: ConnectionPeer,
    ticket: ConnectionPermit,
    server: Arc<ServerContext>,
) {
    let wire = ConnectionDetails { secure, revocation: RevocationHandle::default() };
    let held = wire.revocation.hold(stream);
    let seat = ticket.seat.clone();
    let service = ConnectionService::new(&server, peer, wire, seat.clone());
    let stream = held.patient(connection_limits::idle_timeout(connection_limits::WRITE_PATIENCE), ticket);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connection_limits::idle_timeout(connection_limits::HEAD_PATIENCE))
        .max_header_size(connection_limits::MAX_HEAD_BYTES)
        .max_buf_size(connection_limits::MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended: Result<(), hyper::Error> = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = seat.leave.cancelled() => {
            if !server.state.ending.is_cancelled() {
                return;
            }
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection was interrupted");
    }
}

/// Refuses a connection. The answer fits the buffer of a new socket, so writing it does not block.
fn refuse(stream: io::Result<impl Write>) {
    let fault = HttpProblem::from(
        Problem::full("the gateway is at its limit of connections")
            .hint("close some, or try again in a moment"),
    );
    let body = fault.json(StatusCode::SERVICE_UNAVAILABLE);
    let text = answer("503 Service Unavailable", "Retry-After: 1\r\n", &body);
    if let Ok(mut stream) = stream {
        let _ = stream.write_all(text.as_bytes());
    }
}

/// Error type of services that cannot fail.
pub(super) type ImpossibleError = Infallible;
