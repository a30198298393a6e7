//! One client: let in, given TLS if that is wanted, and served until it goes.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use berth_api::{Code, Problem};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use super::door::Door;
use super::guard::Heart;
use super::limits::{self, Connections, Ticket};
use super::listeners::{Kind, Listener};
use super::log::Log;
use super::tls::Tls;
use crate::auth::{Peer, Wire, leash::Leash};
use crate::fault::Fault;
use crate::gate::Gate;

/// What every connection shares.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) gate: Arc<Gate>,
    pub(super) connections: Arc<Connections>,
    pub(super) log: Arc<Log>,
    pub(super) tls: Option<Arc<Tls>>,
}

/// Where clients come from.
enum Socket {
    Local(UnixListener),
    Network { listener: TcpListener, is_tls: bool },
}

/// Who came.
enum Came {
    Local(UnixStream),
    Network(TcpStream, SocketAddr),
}

impl Socket {
    fn open(kind: Kind) -> io::Result<Self> {
        Ok(match kind {
            Kind::Local(listener) => Self::Local(UnixListener::from_std(listener)?),
            Kind::Network { listener, is_tls } => {
                Self::Network { listener: TcpListener::from_std(listener)?, is_tls }
            }
        })
    }

    async fn next(&self) -> io::Result<Came> {
        match self {
            Self::Local(listener) => listener.accept().await.map(|(stream, _)| Came::Local(stream)),
            Self::Network { listener, .. } => {
                listener.accept().await.map(|(stream, address)| Came::Network(stream, address))
            }
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self, Self::Network { is_tls: true, .. })
    }
}

/// Lets clients in until the gateway ends. `may_stall` is for tests, and only in the first image of a process.
pub(super) async fn accept(listener: Listener, heart: Heart, server: Arc<Server>, may_stall: bool) {
    let socket = match Socket::open(listener.kind) {
        Ok(socket) => socket,
        // Without a beat the guard starts it all again.
        Err(error) => return server.log.say("failed", &format!("cannot listen: {error}")),
    };
    let mut beat = tokio::time::interval(heart.every);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = server.gate.ending.cancelled() => return,
            _ = beat.tick() => heart.beat(),
            came = socket.next() => match came {
                Ok(came) => {
                    if may_stall {
                        berth_store::killpoint::reached("gateway-accept");
                    }
                    match came {
                        Came::Local(stream) => local(stream, &server),
                        Came::Network(stream, address) if socket.is_tls() => encrypted(stream, address, &server),
                        Came::Network(stream, address) => plain(stream, address, &server),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

fn local(stream: UnixStream, server: &Arc<Server>) {
    let Ok(credentials) = stream.peer_cred() else { return };
    let (uid, pid) = (credentials.uid(), credentials.pid());
    // Until they were looked at nobody can tell who they are.
    let unseen = Err(Problem::new(Code::NotAllowed, "the caller was not identified"));
    let Some(ticket) = server.connections.enter(&Peer::Local { uid, pid, inside: Arc::new(unseen) }) else {
        return refuse(stream.into_std());
    };
    let server = server.clone();
    tokio::spawn(async move {
        // Once for each connection: it does not change hands. A short look at /proc, here and not where clients are let
        // in; a thread for each of hundreds who come at once would be more than the look.
        let inside = berth_verbs::caller::of_peer(&server.gate.home, &stream);
        serve(stream, false, Peer::Local { uid, pid, inside: Arc::new(inside) }, ticket, server).await;
    });
}

fn plain(stream: TcpStream, address: SocketAddr, server: &Arc<Server>) {
    let _ = stream.set_nodelay(true);
    let peer = Peer::Network(address);
    match server.connections.enter(&peer) {
        Some(ticket) => drop(tokio::spawn(serve(stream, false, peer, ticket, server.clone()))),
        None => refuse(stream.into_std()),
    }
}

fn encrypted(stream: TcpStream, address: SocketAddr, server: &Arc<Server>) {
    let _ = stream.set_nodelay(true);
    let peer = Peer::Network(address);
    // Who gets no room cannot be told so without the work that there is no room for.
    let Some(ticket) = server.connections.enter(&peer) else { return };
    let Some(tls) = server.tls.clone() else { return };
    let server = server.clone();
    tokio::spawn(async move {
        let leave = ticket.seat.leave.clone();
        let shaken = tokio::select! {
            () = leave.cancelled() => return,
            shaken = tokio::time::timeout(limits::patience(limits::TLS_PATIENCE), shaken(stream, &tls)) => shaken,
        };
        match shaken {
            Ok(Ok(Some(stream))) => serve(stream, true, peer, ticket, server).await,
            Ok(Ok(None)) => tracing::debug!("http was spoken where TLS is"),
            Ok(Err(error)) => tracing::debug!(%error, "no TLS came about"),
            Err(_) => tracing::debug!("no TLS came about in time"),
        }
    });
}

/// The stream with TLS on it; nothing if somebody speaks HTTP without it, who is told so in words they understand.
async fn shaken(mut stream: TcpStream, tls: &Tls) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    // TLS begins with a record's number, a request with the letters of its method.
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic() {
        stream.write_all(not_encrypted().as_bytes()).await?;
        stream.shutdown().await?;
        // Who still sends would never read it if we closed with that unread. They have the time that TLS has.
        let mut rest = stream.take(limits::MAX_UNREAD_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        return Ok(None);
    }
    tls.acceptor().accept(stream).await.map(Some)
}

fn not_encrypted() -> String {
    let fault = Fault::usage("this is an https port, and http was spoken to it; nothing was done")
        .hint("the same address with https:// works; a token that was sent like this should be revoked");
    answer("400 Bad Request", "", &fault.json(StatusCode::BAD_REQUEST))
}

/// An answer of one who has no router.
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
    peer: Peer,
    ticket: Ticket,
    server: Arc<Server>,
) {
    let wire = Wire { secure, leash: Leash::default() };
    let held = wire.leash.hold(stream);
    let seat = ticket.seat.clone();
    let door = Door::new(&server, peer, wire, seat.clone());
    let stream = held.patient(limits::patience(limits::WRITE_PATIENCE), ticket);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::patience(limits::HEAD_PATIENCE))
        .max_header_size(limits::MAX_HEAD_BYTES)
        .max_buf_size(limits::MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), door)
        .with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended: Result<(), hyper::Error> = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = seat.leave.cancelled() => {
            if !server.gate.ending.is_cancelled() {
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

/// Tells somebody that there is no room. It fits the buffer of a new socket, so nobody waits for it to be read.
fn refuse(stream: io::Result<impl Write>) {
    let fault = Fault::from(
        Problem::new(Code::Full, "the gateway serves as many connections as it may")
            .hint("close some, or try again in a moment"),
    );
    let body = fault.json(StatusCode::SERVICE_UNAVAILABLE);
    let text = answer("503 Service Unavailable", "Retry-After: 1\r\n", &body);
    if let Ok(mut stream) = stream {
        let _ = stream.write_all(text.as_bytes());
    }
}

/// What a service of ours never fails with.
pub(super) type Never = Infallible;
