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
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use berth_api::{Code, Problem};
use futures_util::FutureExt;
use hyper::body::Incoming;
use tower::Service as _;

use super::connection::{Never, Server};
use super::limits::{OnceKnown, Seat};
use super::log::Line;
use super::outgoing::Outgoing;
use crate::auth::{Peer, Wire, headers};
use crate::fault::Fault;
use crate::quota::Underway;
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
        let server = &self.server;
        let told = Told {
            started: Instant::now(),
            method: request.method().clone(),
            trace: Arc::new(Trace::of(request.headers(), server.log.is_on())),
        };
        let once_known = OnceKnown::new(&self.seat);
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.wire.clone());
        request.extensions_mut().insert(once_known.clone());
        let answered = self.router.clone().call(request.map(axum::body::Body::new));
        Box::pin(work(server.clone(), self.seat.clone(), told, once_known, answered))
    }
}

/// Has the router answer.
async fn work(
    server: Arc<Server>,
    seat: Arc<Seat>,
    told: Told,
    once_known: OnceKnown,
    answered: impl Future<Output = Result<Response<Body>, Never>>,
) -> Result<Response<Outgoing>, Never> {
    let answered = AssertUnwindSafe(trace::within(told.trace.clone(), answered)).catch_unwind();
    let mut response = match answered.await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            server.gate.metrics.panics.inc();
            let fault = Problem::new(Code::Bug, "the gateway made a mistake with this request")
                .hint(format!("tell the people who make berth; the request was {}", told.trace.id));
            let mut response = Fault::from(fault).into_response();
            // It came past who else adds them. As strict as for the API, whatever was asked.
            headers::add(&mut response, "/v1/", false);
            response
        }
    };
    // A connection that becomes something else is ours to its end.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        seat.stay();
    }
    let matched = response.extensions_mut().remove::<Matched>();
    told.answered(&server, &mut response, matched.map_or("-", |matched| matched.path));
    // Whoever nobody knows is in nobody's way: with their answers on the way they would be, for as long as they like to read.
    let serving = once_known.take().filter(|_| matched.is_some_and(|matched| matched.is_known));
    let underway = response.extensions_mut().remove::<Arc<Underway>>();
    Ok(Outgoing::wrap(response, (serving, underway), &server.gate))
}

/// What is told of a request when it is answered.
struct Told {
    started: Instant,
    method: Method,
    trace: Arc<Trace>,
}

impl Told {
    fn answered<B>(&self, server: &Server, response: &mut Response<B>, route: &'static str) {
        let Self { started, method, trace } = self;
        if let Ok(id) = HeaderValue::from_str(&trace.id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let took = started.elapsed();
        server.gate.metrics.answered(route, method, response.status(), took);
        server.log.request(&Line { method, route, status: response.status(), took, trace });
    }
}
