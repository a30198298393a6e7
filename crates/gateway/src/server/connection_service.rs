//! Service of one connection: each request gets an id, is timed and logged, and is always answered.
//!
//! Promise: a panic in a handler is answered with a problem (`bug`), and affects no other request. Each answer has the
//! id of its request, and so have the calls to keepers that were made for it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use berth_api::Problem;
use futures_util::FutureExt;
use hyper::body::Incoming;
use tower::Service as _;

use super::access_log::AccessLogLine;
use super::connection::{ImpossibleError, ServerContext};
use super::connection_limits::{ClientConnection, DeferredServing};
use super::response_body::ResponseBody;
use crate::auth::{ConnectionDetails, ConnectionPeer, headers};
use crate::http_problem::HttpProblem;
use crate::quota::RequestPermit;
use crate::routes::MatchedRoute;
use crate::trace::{self, REQUEST_ID, RequestTrace};

/// The service for one connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionService {
    router: Router,
    server: Arc<ServerContext>,
    peer: ConnectionPeer,
    wire: ConnectionDetails,
    seat: Arc<ClientConnection>,
}

impl ConnectionService {
    pub(super) fn new(
        server: &Arc<ServerContext>,
        peer: ConnectionPeer,
        wire: ConnectionDetails,
        seat: Arc<ClientConnection>,
    ) -> Self {
        Self { router: server.router.clone(), server: server.clone(), peer, wire, seat }
    }
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ResponseBody>;
    type Error = ImpossibleError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, ImpossibleError>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let server = &self.server;
        let told = RequestSummary {
            started: Instant::now(),
            method: request.method().clone(),
            trace: Arc::new(RequestTrace::of(request.headers(), server.log.is_on())),
        };
        let once_known = DeferredServing::new(&self.seat);
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.wire.clone());
        request.extensions_mut().insert(once_known.clone());
        let answered = self.router.clone().call(request.map(axum::body::Body::new));
        Box::pin(work(server.clone(), self.seat.clone(), told, once_known, answered))
    }
}

/// Lets the router answer, and adds what every answer has.
async fn work(
    server: Arc<ServerContext>,
    seat: Arc<ClientConnection>,
    told: RequestSummary,
    once_known: DeferredServing,
    answered: impl Future<Output = Result<Response<Body>, ImpossibleError>>,
) -> Result<Response<ResponseBody>, ImpossibleError> {
    let answered = AssertUnwindSafe(trace::within(told.trace.clone(), answered)).catch_unwind();
    let mut response = match answered.await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            server.state.metrics.panics.inc();
            let fault = Problem::bug("the gateway failed during this request").hint(format!(
                "this is a bug in berth: please report it with the request id {}",
                told.trace.id
            ));
            let mut response = HttpProblem::from(fault).into_response();
            // This answer bypassed the layer that adds headers. They are as strict as for the API, whatever the path.
            headers::add(&mut response, "/v1/", false);
            response
        }
    };
    // After an upgrade the connection counts as served until its end.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        seat.stay();
    }
    let matched = response.extensions_mut().remove::<MatchedRoute>();
    told.answered(&server, &mut response, matched.map_or("-", |matched| matched.path));
    // The connection of an unknown caller may be closed to make room: otherwise it would be kept for as long as the
    // caller takes to read.
    let serving = once_known.take().filter(|_| matched.is_some_and(|matched| matched.is_known));
    let underway = response.extensions_mut().remove::<Arc<RequestPermit>>();
    Ok(ResponseBody::wrap(response, (serving, underway), &server.state))
}

/// Data of a request that is needed when it is answered.
struct RequestSummary {
    started: Instant,
    method: Method,
    trace: Arc<RequestTrace>,
}

impl RequestSummary {
    fn answered<B>(&self, server: &ServerContext, response: &mut Response<B>, route: &'static str) {
        let Self { started, method, trace } = self;
        if let Ok(id) = HeaderValue::from_str(&trace.id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let took = started.elapsed();
        server.state.metrics.answered(route, method, response.status(), took);
        server.log.request(&AccessLogLine { method, route, status: response.status(), took, trace });
    }
}
