//! About the gateway itself: is it there, can it work, what can it do.

use axum::Json;
use axum::http::{Method, StatusCode};
use berth_api::{Code, Problem, Scope, Timestamp, TokenKind};
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
            .filtered()
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
