//! The gateway itself: health, readiness, metrics, API description, and the rights of the caller.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::IntoResponse;
use berth_api::{AccessScope, Problem, ProblemCode, Timestamp, TokenKind};
use berth_store::{StateDir, killpoint};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::{AppState, run_blocking};
use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::single_flight::SingleFlight;
use crate::viewer_filter::{JsonAnswer, nothing_hidden};

/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";
/// Media type of the metrics.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Timeout for the check of the disk.
const READY_PATIENCE: Duration = Duration::from_secs(2);
/// Smallest free space on the disk: with less, new work would soon fail.
const LEAST_FREE_BYTES: u64 = 4 << 20;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("health", "/healthz", AccessScope::Read, health)
            .about("Liveness of the gateway.")
            .open()
            .gives::<GatewayHealth>(200, "the gateway is alive"),
        Route::get("ready", "/readyz", AccessScope::Read, ready)
            .about("Readiness of the gateway: whether it can do its work.")
            .open()
            .gives::<GatewayHealth>(200, "the gateway can do its work")
            .fails(&[Unreachable]),
        Route::get("metrics", METRICS, AccessScope::Read, metrics)
            .about("Metrics of the gateway and its sessions, for Prometheus.")
            .gives_as(200, "OpenMetrics", METRICS_TYPE, None),
        Route::get("openapi", "/openapi.json", AccessScope::Read, openapi)
            .about("This description of the API.")
            .open()
            .gives::<serde_json::Value>(200, "OpenAPI 3.1"),
        Route::get("whoami", "/v1/whoami", AccessScope::Read, whoami)
            .about("The identity and rights of the caller.")
            .filtered()
            .gives::<WhoAmI>(200, "the rights of the caller"),
    ]
}

nothing_hidden!(GatewayHealth, WhoAmI);

/// Health of the gateway.
#[derive(Serialize, JsonSchema)]
struct GatewayHealth {
    /// Always `ok`.
    status: &'static str,
    /// Version of berth.
    version: &'static str,
}

async fn health() -> JsonAnswer<GatewayHealth> {
    JsonAnswer(GatewayHealth { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

async fn ready(State(state): State<Arc<AppState>>) -> Result<JsonAnswer<GatewayHealth>, HttpProblem> {
    let not_ready = |why: String| {
        let problem = Problem::unreachable(format!("the gateway cannot do its work: {why}"));
        HttpProblem::from(problem.hint("run `berth doctor` on that machine for details"))
    };
    if state.ending.is_cancelled() {
        return Err(not_ready("it is shutting down".to_owned()));
    }
    match tokio::time::timeout(READY_PATIENCE, looked(&state.home)).await {
        // The path of the directory is left out, because this route needs no token.
        Ok(looked) => {
            looked.map_err(|why| not_ready(format!("its state directory cannot be used: {why}")))?
        }
        Err(_) => return Err(not_ready("the disk does not answer".to_owned()).retry_after(1)),
    }
    Ok(JsonAnswer(GatewayHealth { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}

/// Checks the disk. Concurrent checks are coalesced (single-flight): a disk that hangs blocks one thread, not one for
/// each caller.
async fn looked(home: &StateDir) -> Result<(), String> {
    static LOOKS: LazyLock<SingleFlight<Result<(), String>>> = LazyLock::new(SingleFlight::default);
    let home = home.clone();
    let look = || async move {
        let seen = tokio::task::spawn_blocking(move || usable(&home)).await;
        seen.unwrap_or_else(|error| Err(error.to_string()))
    };
    LOOKS.get(look).await
}

/// Checks that sessions can be listed and the directory is writable. Nothing is written, because this route needs no
/// token.
fn usable(home: &StateDir) -> Result<(), String> {
    let root = home.root();
    home.session_ids().map_err(|error| format!("the sessions cannot be listed: {error}"))?;
    rustix::fs::access(root, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| format!("the directory is not writable: {error}"))?;
    let disk = rustix::fs::statvfs(root)
        .map_err(|error| format!("the free space of its disk cannot be read: {error}"))?;
    if disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("its disk is read-only".to_owned());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < LEAST_FREE_BYTES {
        return Err(format!("its disk is full: {free} bytes are free"));
    }
    Ok(())
}

async fn metrics(State(state): State<Arc<AppState>>) -> Result<impl IntoResponse, HttpProblem> {
    let looking = state.clone();
    let look = || async move {
        let text = run_blocking(move || Ok(looking.metrics.text(&looking.home))).await;
        text.map(Bytes::from).map_err(|fault| fault.problem)
    };
    // Making the metrics reads journals and keeps a thread busy, so concurrent requests are coalesced.
    let text = state.metrics.looks.get(look).await?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text))
}

async fn openapi() -> impl IntoResponse {
    // The text never changes, and this route needs no token.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| crate::openapi::openapi_document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

/// Identity and rights of a caller.
#[derive(Serialize, JsonSchema)]
struct WhoAmI {
    /// Name of the client in records: its kind and place.
    place: String,
    /// Scope of the caller.
    scope: AccessScope,
    /// Name of the token; absent for the owner of the gateway at its socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Kind of the credential that authenticated the caller; absent for the owner of the gateway at its socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<TokenKind>,
    /// Ids of the sessions that the caller is limited to; absent if it may use all.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<Vec<String>>,
    /// Time at which the token expires, by the gateway's clock; absent if it never does.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Version of the gateway.
    version: &'static str,
}

async fn whoami(caller: RequestCaller) -> JsonAnswer<WhoAmI> {
    killpoint::reached("gateway-handler");
    let pass = caller.pass.as_deref();
    JsonAnswer(WhoAmI {
        scope: caller.scope,
        name: pass.map(|pass| pass.name.clone()),
        kind: pass.map(|pass| pass.kind),
        sessions: caller.sessions.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect()),
        expires_at: pass.and_then(|pass| pass.expires_at_ms).map(Timestamp),
        version: env!("CARGO_PKG_VERSION"),
        place: caller.place,
    })
}

pub(crate) async fn route_not_found(uri: axum::http::Uri) -> HttpProblem {
    let what = format!("there is no route at {}", uri.path().escape_debug());
    HttpProblem::from(Problem::not_found(what).hint("GET /openapi.json lists the routes"))
        .status(StatusCode::NOT_FOUND)
}

pub(crate) async fn method_not_allowed(method: Method, uri: axum::http::Uri) -> HttpProblem {
    let what = format!("{} does not accept the method {method}", uri.path().escape_debug());
    HttpProblem::usage(what).hint("GET /openapi.json lists the routes").status(StatusCode::METHOD_NOT_ALLOWED)
}
