//! Metrics for Prometheus.
//!
//! Promise: metrics about sessions and turns are derived from their journals, so a restart of the gateway does not
//! change them; only metrics about the gateway itself begin at zero. A journal is read once, and then only its new
//! events.
//! Not here: access to the metrics (see `http::system`), a dashboard (docs/grafana).
//! Start with [`GatewayMetrics::new`]; `sessions` reads the sessions.

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

use crate::single_flight::SingleFlight;
pub(crate) use sessions::SessionMetrics;

/// Buckets from reads of memory to requests that wait for a keeper.
const REQUEST_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

/// Metrics of the gateway, and those of its sessions.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) connections_evicted: Counter,
    pub(crate) events_sent: Counter,
    pub(crate) panics: Counter,
    memory: Gauge<i64>,
    open_files: Gauge,
    sessions: Mutex<SessionMetrics>,
    /// Coalesces concurrent requests for the metrics.
    pub(crate) looks: SingleFlight<Result<Bytes, Problem>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl GatewayMetrics {
    /// Makes metrics at zero. `restarts` is the number of times that this process replaced its own program.
    pub(crate) fn new(restarts: u64) -> Self {
        let mut registry = Registry::with_prefix("berth");
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "Version of the gateway", build);
        let restarted = Counter::<u64, AtomicU64>::default();
        restarted.inc_by(restarts);
        registry.register("gateway_restarts", "Restarts in place after the gateway was stuck", restarted);
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let request_seconds =
            Family::<RouteLabels, Histogram, fn() -> Histogram>::new_with_constructor(|| {
                Histogram::new(REQUEST_SECONDS)
            });
        registry.register_with_unit(
            "http_request",
            "Time from a request to the first byte of its answer",
            Unit::Seconds,
            request_seconds.clone(),
        );
        let connections = Gauge::default();
        registry.register("http_connections", "Connections that are open", connections.clone());
        let connections_refused = Counter::default();
        registry.register(
            "http_connections_refused",
            "Connections that were refused at the connection limit",
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
        registry.register(
            "gateway_panics",
            "Requests that failed because of a bug in the gateway",
            panics.clone(),
        );
        let memory = Gauge::default();
        registry.register_with_unit("gateway_memory", "Memory of the gateway", Unit::Bytes, memory.clone());
        let open_files = Gauge::default();
        registry.register("gateway_open_files", "Files and sockets the gateway has open", open_files.clone());
        let sessions = Mutex::new(SessionMetrics::register(&mut registry));
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
            looks: SingleFlight::default(),
        }
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, route: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let method = word(method);
        self.requests.get_or_create(&RequestLabels { route, method, status: status.as_u16() }).inc();
        self.request_seconds.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
    }

    /// Writes the metrics as text for Prometheus. Reads sessions, so it waits for the disk.
    pub(crate) fn text(&self, home: &berth_store::StateDir) -> String {
        self.memory.set(memory_bytes().unwrap_or_default());
        self.open_files.set(std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as i64));
        // Two concurrent reads would count new events twice.
        let mut sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sessions.update(home);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// The name of a known method; others could be any text that a client chose.
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
    let stat = berth_host::identity::process_stat(std::process::id()).ok()?;
    i64::try_from(stat.rss_bytes()).ok()
}
