//! One connection on standard input and output: the other end of ssh, which has said who it is.
//!
//! Promise: it lasts as long as the connection does, also when that becomes a terminal, and no longer than somebody
//! reads what it says.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::header;
use berth_api::{Code, Problem};
use berth_store::Home;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::{AsyncRead, ReadBuf, Stdin};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::auth::{Peer, Wire};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::server::Options;

/// Serves until the other side has heard enough. They may do what this process may.
pub fn serve_stdio(home: Home) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| Problem::new(Code::Refused, format!("the proxy cannot start: {error}")))?;
    let pid = i32::try_from(std::process::id()).ok();
    let inside = Arc::new(berth_verbs::caller::of_pid(&home, std::process::id()));
    let peer = Peer::Local { uid: rustix::process::getuid().as_raw(), pid, inside };
    let router = crate::routes::router(Gate::new(home, Options::default(), Arc::new(Metrics::new(0)))?);
    let wire = Wire::default();
    runtime.block_on(async {
        let over = CancellationToken::new();
        let stdin = Counted { stdin: tokio::io::stdin(), _in_use: over.clone().drop_guard() };
        let stdio = wire.leash.hold(tokio::io::join(stdin, tokio::io::stdout()));
        let router = router.map_request(move |mut request: axum::http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(wire.clone());
            request
        });
        let signs = Signs::watched();
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
            // ssh says when the other side is gone; it may have nothing to ask for long.
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stdio), TowerToHyperService::new(router))
            .with_upgrades();
        let served = async {
            if let Err(error) = served.await {
                tracing::debug!(%error, "the connection was interrupted");
            }
            // One that became a terminal is no longer served as HTTP, but it is not over: somebody else has it now.
            over.cancelled().await;
        };
        tokio::select! {
            () = served => {}
            () = signs.gone() => {}
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    Ok(())
}

/// What tells that the other side is gone.
#[derive(Clone, Default)]
struct Signs {
    /// Nobody says anything more. They may still wait for an answer.
    asked_all: CancellationToken,
    /// Nobody can read our standard output.
    deserted: CancellationToken,
    /// Events are told here: that is an answer without end, to somebody who asks nothing more, and hears nothing for
    /// long. It is not for whoever closed their end, for that is how ssh says that a gateway was killed.
    streams: CancellationToken,
}

impl Signs {
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

    /// Nobody waits for anything any more.
    async fn gone(self) {
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

/// Standard input, and a sign for when nobody has it any more.
struct Counted {
    stdin: Stdin,
    _in_use: DropGuard,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_read(cx, buf)
    }
}
