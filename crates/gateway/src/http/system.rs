//! About the gateway itself: is it there, can it work, what can it do.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::IntoResponse;
use berth_api::{Code, Problem, Scope, Timestamp, TokenKind};
use berth_store::{Home, killpoint};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::one_look::OneLook;
use crate::routes::Route;
use crate::visible::{Json, nothing_hidden};

/// Where the metrics are.
pub(crate) const METRICS: &str = "/metrics";
/// The format they are in.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long the disk may take to tell whether it can be used.
const READY_PATIENCE: Duration = Duration::from_secs(2);
/// With less room than this on the disk nothing can be accepted for long.
const LEAST_FREE_BYTES: u64 = 4 << 20;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("health", "/healthz", Scope::Read, health)
            .about("Whether the gateway is alive.")
            .open()
            .gives::<Health>(200, "it is"),
        Route::get("ready", "/readyz", Scope::Read, ready)
            .about("Whether the gateway can do its work.")
            .open()
            .gives::<Health>(200, "it can")
            .fails(&[Code::Unreachable]),
        Route::get("metrics", METRICS, Scope::Read, metrics)
            .about("What can be counted, for Prometheus.")
            .gives_as(200, "OpenMetrics", METRICS_TYPE, None),
        Route::get("openapi", "/openapi.json", Scope::Read, openapi)
            .about("This description.")
            .open()
            .gives::<serde_json::Value>(200, "OpenAPI 3.1"),
        Route::get("whoami", "/v1/whoami", Scope::Read, whoami)
            .about("Who you are to this gateway.")
            .filtered()
            .gives::<WhoAmI>(200, "what you may do"),
    ]
}

nothing_hidden!(Health, WhoAmI);

/// Alive.
#[derive(Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

async fn ready(State(gate): State<Arc<Gate>>) -> Result<Json<Health>, Fault> {
    let not_ready = |why: String| {
        let problem = Problem::new(Code::Unreachable, format!("the gateway cannot do its work: {why}"));
        Fault::from(problem.hint("`berth doctor` on that machine tells more"))
    };
    if gate.ending.is_cancelled() {
        return Err(not_ready("it is ending".to_owned()));
    }
    match tokio::time::timeout(READY_PATIENCE, looked(&gate.home)).await {
        // Not where it is: anybody may ask.
        Ok(looked) => {
            looked.map_err(|why| not_ready(format!("its state directory cannot be used: {why}")))?
        }
        Err(_) => return Err(not_ready("the disk does not answer".to_owned()).retry_after(1)),
    }
    Ok(Json(Health { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}

/// What is seen of the disk. A disk that hangs must not hang a thread for everybody who asks: one looks at a time, for all
/// who wait.
async fn looked(home: &Home) -> Result<(), String> {
    static LOOKS: LazyLock<OneLook<Result<(), String>>> = LazyLock::new(OneLook::default);
    let home = home.clone();
    let look = || async move {
        let seen = tokio::task::spawn_blocking(move || usable(&home)).await;
        seen.unwrap_or_else(|error| Err(error.to_string()))
    };
    LOOKS.get(look).await
}

/// Whether sessions can be listed and something could be written. Nothing is: anybody may ask.
fn usable(home: &Home) -> Result<(), String> {
    let root = home.root();
    home.session_ids().map_err(|error| format!("the sessions cannot be listed: {error}"))?;
    rustix::fs::access(root, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| format!("it cannot be written to: {error}"))?;
    let disk = rustix::fs::statvfs(root).map_err(|error| format!("its disk cannot be looked at: {error}"))?;
    if disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("its disk is read-only".to_owned());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < LEAST_FREE_BYTES {
        return Err(format!("its disk is full: {free} bytes are free"));
    }
    Ok(())
}

async fn metrics(State(gate): State<Arc<Gate>>) -> Result<impl IntoResponse, Fault> {
    let looking = gate.clone();
    let look = || async move {
        let text = work(move || Ok(looking.metrics.text(&looking.home))).await;
        text.map(Bytes::from).map_err(|fault| fault.problem)
    };
    // Every look reads journals and keeps a thread meanwhile: there is one at a time, for whoever waits for it.
    let text = gate.metrics.looks.get(look).await?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text))
}

async fn openapi() -> impl IntoResponse {
    // It never changes, and anybody may ask.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| crate::openapi::description().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

/// What a caller may do.
#[derive(Serialize, JsonSchema)]
struct WhoAmI {
    /// Where you are, as records call it.
    place: String,
    /// How far you may go.
    scope: Scope,
    /// What your token is called; nothing for the owner of the gateway at its socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// How you showed who you are; nothing for the owner of the gateway at its socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<TokenKind>,
    /// The ids of the only sessions there are for you; all if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<Vec<String>>,
    /// When that ends, by the gateway's clock; never if nothing is said.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// The gateway's version.
    version: &'static str,
}

async fn whoami(caller: Caller) -> Json<WhoAmI> {
    killpoint::reached("gateway-handler");
    let pass = caller.pass.as_deref();
    Json(WhoAmI {
        scope: caller.scope,
        name: pass.map(|pass| pass.name.clone()),
        kind: pass.map(|pass| pass.kind),
        sessions: caller.sessions.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect()),
        expires_at: pass.and_then(|pass| pass.expires_at_ms).map(Timestamp),
        version: env!("CARGO_PKG_VERSION"),
        place: caller.place,
    })
}

pub(crate) async fn nothing_here(uri: axum::http::Uri) -> Fault {
    let what = format!("there is nothing at {}", uri.path().escape_debug());
    Fault::from(Problem::new(Code::NotFound, what).hint("GET /openapi.json tells what there is"))
        .status(StatusCode::NOT_FOUND)
}

pub(crate) async fn not_like_this(method: Method, uri: axum::http::Uri) -> Fault {
    let what = format!("{} is not asked with {method}", uri.path().escape_debug());
    Fault::usage(what).hint("GET /openapi.json tells what there is").status(StatusCode::METHOD_NOT_ALLOWED)
}
