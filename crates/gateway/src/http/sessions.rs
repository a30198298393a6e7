//! Sessions: the list, and one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use berth_api::{Code, Scope, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body::Query;
use crate::routes::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/sessions",
            Scope::Read,
            "list_sessions",
            "The sessions, who needs you first.",
            list,
        )
        .filtered()
        .query::<Which>()
        .gives::<Sessions>(200, "the list"),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}",
            Scope::Read,
            "get_session",
            "What is known about a session.",
            one,
        )
        .gives::<Status>(200, "what is known")
        .fails(&[Code::NotFound]),
    ]
}

/// Which sessions are wanted.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those that are put away, too.
    #[serde(default)]
    all: bool,
}

/// A list of sessions.
#[derive(Serialize, JsonSchema)]
struct Sessions {
    sessions: Vec<Status>,
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Sessions>, Fault> {
    let ctx = caller.ctx(&gate);
    let sessions = work(move || {
        let ids = ctx.home.session_ids().map_err(|error| {
            berth_api::Problem::new(Code::Unreachable, format!("cannot list the sessions: {error}"))
        })?;
        let known = ids
            .iter()
            .filter(|id| caller.may_see(id))
            .filter_map(|id| berth_keeper::view::status(&ctx.home, id).ok());
        Ok(known.filter(|status| which.all || status.archived_at.is_none()).collect::<Vec<_>>())
    });
    Ok(Json(Sessions { sessions: sessions.await? }))
}

async fn one(target: Target) -> Result<Json<Status>, Fault> {
    let known = work(move || target.ctx.known(&target.id)).await?;
    Ok(Json(known.0))
}
