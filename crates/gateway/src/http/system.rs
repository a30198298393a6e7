//! About the gateway itself: is it there, can it work, what can it do.

use axum::Json;
use axum::http::{Method, StatusCode};
use berth_api::{Code, Problem, Scope};
use schemars::JsonSchema;
use serde::Serialize;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::routes::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/healthz", Scope::Read, "health", "Whether the gateway is alive.", health)
            .open()
            .gives::<Health>(200, "it is"),
        Route::new(Method::GET, "/openapi.json", Scope::Read, "openapi", "This description.", openapi)
            .open()
            .gives::<serde_json::Value>(200, "OpenAPI 3.1"),
        Route::new(Method::GET, "/v1/whoami", Scope::Read, "whoami", "Who you are to this gateway.", whoami)
            .gives::<WhoAmI>(200, "what you may do"),
    ]
}

/// Alive.
#[derive(Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

async fn openapi() -> Json<serde_json::Value> {
    Json(crate::openapi::description())
}

/// What a caller may do.
#[derive(Serialize, JsonSchema)]
struct WhoAmI {
    /// Where you are, as records call it.
    place: String,
    /// How far you may go.
    scope: Scope,
    /// The gateway's version.
    version: &'static str,
}

async fn whoami(caller: Caller) -> Json<WhoAmI> {
    Json(WhoAmI { place: caller.place, scope: caller.scope, version: env!("CARGO_PKG_VERSION") })
}

pub(crate) async fn nothing_here(uri: axum::http::Uri) -> Fault {
    let what = format!("there is nothing at {}", uri.path().escape_debug());
    Fault::from(Problem::new(Code::NotFound, what).hint("GET /openapi.json tells what there is"))
        .status(StatusCode::NOT_FOUND)
}
