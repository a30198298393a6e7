//! HTTP over standard input and output, for the gateway at the other end of ssh. ssh has authenticated the user.
//!
//! Promise: the proxy runs as long as the connection, also after that became a terminal, and stops when no process
//! reads its output any more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::header;
use berth_api::Problem;
use berth_store::StateDir;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::{AsyncRead, ReadBuf, Stdin};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::app_state::AppState;
use crate::auth::{ConnectionDetails, ConnectionPeer};
use crate::metrics::GatewayMetrics;
use crate::server::ServeOptions;

/// Serves HTTP on standard input and output until the other side disconnects. Requests have the rights of this process.
pub fn serve_stdio(home: StateDir) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Problem::refused(format!("the proxy cannot start: {error}")))?;
    let pid = i32::try_from(std::process::id()).ok();
    let inside = Arc::new(berth_verbs::caller::of_pid(&home, std::process::id()));
    let peer = ConnectionPeer::Local { uid: rustix::process::getuid().as_raw(), pid, inside };
    let router = crate::routes::router(AppState::new(
        home,
        ServeOptions::default(),
        Arc::new(GatewayMetrics::new(0)),
    )?);
    let wire = ConnectionDetails::default();
    runtime.block_on(async {
        let over = CancellationToken::new();
        let stdin = GuardedStdin { stdin: tokio::io::stdin(), _in_use: over.clone().drop_guard() };
        let stdio = wire.revocation.hold(tokio::io::join(stdin, tokio::io::stdout()));
        let router = router.map_request(move |mut request: axum::http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(wire.clone());
            request
        });
        let signs = HangupSignals::watched();
        let streams = signs.streams.clone();
        let router = router.map_response(move |response: axum::response::Response| {
            let kind = response.headers().get(header::CONTENT_TYPE);
            if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
                streams.cancel();
            }
            response
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .half_close(true)
            // ssh detects a lost peer, and the peer may send no request for long.
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stdio), TowerToHyperService::new(router))
            .with_upgrades();
        let served = async {
            if let Err(error) = served.await {
                tracing::debug!(%error, "the connection was interrupted");
            }
            // After an upgrade the connection is no longer served as HTTP, but it lives on in its handler.
            over.cancelled().await;
        };
        tokio::select! {
            () = served => {}
            () = signs.closed() => {}
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    Ok(())
}

/// Signs that the other side has disconnected.
#[derive(Clone, Default)]
struct HangupSignals {
    /// End of standard input: the other side sends no more requests, but may still wait for an answer.
    asked_all: CancellationToken,
    /// No process can read our standard output.
    deserted: CancellationToken,
    /// This connection has an event stream: an endless answer, for which end of input and silence are normal. Then the
    /// end of standard input ends the proxy, because that is how ssh shows that a gateway was killed.
    streams: CancellationToken,
}

impl HangupSignals {
    /// Watches both ends. The thread waits for nothing else, and ends with the process.
    fn watched() -> Self {
        let signs = Self::default();
        let told = signs.clone();
        std::thread::spawn(move || {
            while !told.deserted.is_cancelled() {
                let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
                let mut ends = vec![PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
                if !told.asked_all.is_cancelled() {
                    ends.push(PollFd::from_borrowed_fd(stdin, PollFlags::RDHUP));
                }
                match poll(&mut ends, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
                let is_over = |end: usize| ends.get(end).is_some_and(|end| !end.revents().is_empty());
                if is_over(0) {
                    told.deserted.cancel();
                }
                if is_over(1) {
                    told.asked_all.cancel();
                }
            }
        });
        signs
    }

    /// Waits until the other side has disconnected.
    async fn closed(self) {
        let no_more_events = async {
            self.asked_all.cancelled().await;
            self.streams.cancelled().await;
        };
        tokio::select! {
            () = self.deserted.cancelled() => {}
            () = no_more_events => {}
        }
    }
}

/// Standard input, with a sign for when its reader was dropped.
struct GuardedStdin {
    stdin: Stdin,
    _in_use: DropGuard,
}

impl AsyncRead for GuardedStdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_read(cx, buf)
    }
}
