//! What can be counted, for Prometheus.
//!
//! Promise: what is told about sessions and turns follows from their journals, so it is the same after the gateway
//! was killed; only what is about the gateway itself begins at zero. A journal is read once, and then only what is
//! new in it.
//! Not here: who may see it (see `http::system`), a page to look at it (docs/grafana).
//! Start with [`Metrics::new`]; `sessions` looks at sessions.

mod sessions;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use berth_api::Problem;
use bytes::Bytes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::one_look::OneLook;
pub(crate) use sessions::Sessions;

/// From what is in memory to what waits for a keeper.
const REQUEST_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    request_seconds: Family<OfRoute, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) connections_evicted: Counter,
    pub(crate) events_sent: Counter,
    pub(crate) panics: Counter,
    memory: Gauge<i64>,
    open_files: Gauge,
    sessions: Mutex<Sessions>,
    /// Who looks at all of it.
    pub(crate) looks: OneLook<Result<Bytes, Problem>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfRoute {
    route: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

impl Metrics {
    /// Nothing is counted yet. `restarts` is how often this process replaced its own program.
    pub(crate) fn new(restarts: u64) -> Self {
        let mut registry = Registry::with_prefix("berth");
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "The version of the gateway", build);
        let restarted = Counter::<u64, AtomicU64>::default();
        restarted.inc_by(restarts);
        registry.register(
            "gateway_restarts",
            "How often the gateway stood still and replaced its own program",
            restarted,
        );
        let requests = Family::<Answered, Counter>::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let request_seconds = Family::<OfRoute, Histogram, fn() -> Histogram>::new_with_constructor(|| {
            Histogram::new(REQUEST_SECONDS)
        });
        registry.register_with_unit(
            "http_request",
            "How long a request took to the first byte of its answer",
            Unit::Seconds,
            request_seconds.clone(),
        );
        let connections = Gauge::default();
        registry.register("http_connections", "Connections that are open", connections.clone());
        let connections_refused = Counter::default();
        registry.register(
            "http_connections_refused",
            "Connections there was no room for",
            connections_refused.clone(),
        );
        let connections_evicted = Counter::default();
        registry.register(
            "http_connections_evicted",
            "Idle connections that were closed to make room",
            connections_evicted.clone(),
        );
        let events_sent = Counter::default();
        registry.register("events_sent", "Events that were sent on streams", events_sent.clone());
        let panics = Counter::default();
        registry.register("gateway_panics", "Requests the gateway made a mistake with", panics.clone());
        let memory = Gauge::default();
        registry.register_with_unit(
            "gateway_memory",
            "What the gateway has in memory",
            Unit::Bytes,
            memory.clone(),
        );
        let open_files = Gauge::default();
        registry.register("gateway_open_files", "Files and sockets the gateway has open", open_files.clone());
        let sessions = Mutex::new(Sessions::register(&mut registry));
        Self {
            registry,
            requests,
            request_seconds,
            connections,
            connections_refused,
            connections_evicted,
            events_sent,
            panics,
            memory,
            open_files,
            sessions,
            looks: OneLook::default(),
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let method = word(method);
        self.requests.get_or_create(&Answered { route, method, status: status.as_u16() }).inc();
        self.request_seconds.get_or_create(&OfRoute { route }).observe(took.as_secs_f64());
    }

    /// All of it, as Prometheus reads it. Looks at sessions: it waits for the disk.
    pub(crate) fn text(&self, home: &berth_store::Home) -> String {
        self.memory.set(memory_bytes().unwrap_or_default());
        self.open_files.set(std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as i64));
        // Two that ask at the same moment would count what is new twice.
        let mut sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sessions.look(home);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// A method that is ours; others are many, and chosen by strangers.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn memory_bytes() -> Option<i64> {
    let stat = berth_host::identity::stat(std::process::id()).ok()?;
    i64::try_from(stat.rss_bytes()).ok()
}
