//! Every request of one connection: numbered, timed, told of, and answered whatever happens.
//!
//! Promise: a handler that panics is answered with a problem (`bug`), and takes nobody else along. Each answer has
//! the id of its request, and so have the calls to keepers that were made for it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse;
use berth_api::{Code, Problem};
use futures_util::FutureExt;
use hyper::body::Incoming;
use tower::Service as _;

use super::connection::{Never, Server};
use super::limits::Seat;
use super::log::Line;
use super::outgoing::Outgoing;
use crate::auth::{Peer, Wire};
use crate::fault::Fault;
use crate::routes::Matched;
use crate::trace::{self, REQUEST_ID, Trace};

/// The way in for one connection.
#[derive(Clone, Debug)]
pub(super) struct Door {
    router: Router,
    server: Arc<Server>,
    peer: Peer,
    wire: Wire,
    seat: Arc<Seat>,
}

impl Door {
    pub(super) fn new(server: &Arc<Server>, peer: Peer, wire: Wire, seat: Arc<Seat>) -> Self {
        Self { router: server.router.clone(), server: server.clone(), peer, wire, seat }
    }
}

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response<Outgoing>;
    type Error = Never;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Outgoing>, Never>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let started = Instant::now();
        let serving = self.seat.serve();
        let (server, seat) = (self.server.clone(), self.seat.clone());
        let trace = Arc::new(Trace::of(request.headers(), server.log.is_on()));
        let method = request.method().clone();
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.wire.clone());
        let answered = self.router.clone().call(request.map(axum::body::Body::new));
        Box::pin(async move {
            let answered = AssertUnwindSafe(trace::within(trace.clone(), answered)).catch_unwind();
            let mut response = match answered.await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    server.gate.metrics.panics.inc();
                    Fault::from(
                        Problem::new(Code::Bug, "the gateway made a mistake with this request")
                            .hint(format!("tell the people who make berth; the request was {}", trace.id)),
                    )
                    .into_response()
                }
            };
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                seat.stay();
            }
            if let Ok(id) = HeaderValue::from_str(&trace.id) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            let route = response.extensions_mut().remove::<Matched>().map_or("-", |matched| matched.0);
            let took = started.elapsed();
            server.gate.metrics.answered(route, &method, response.status(), took);
            let line = Line { method: &method, route, status: response.status(), took, trace: &trace };
            server.log.request(&line);
            Ok(Outgoing::wrap(response, serving, &server.gate))
        })
    }
}
