//! One connection on standard input and output: the other end of ssh, which has said who it is.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
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
        let stdio = wire.leash.hold(tokio::io::join(tokio::io::stdin(), tokio::io::stdout()));
        let router = router.map_request(move |mut request: axum::http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(wire.clone());
            request
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .half_close(true)
            // ssh says when the other side is gone; it may have nothing to ask for long.
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stdio), TowerToHyperService::new(router))
            .with_upgrades();
        if let Err(error) = served.await {
            tracing::debug!(%error, "the connection broke off");
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    Ok(())
}
