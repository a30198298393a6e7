//! The queue: what waits in a session, in which order, and whether it goes on.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use berth_api::{Code, Scope};
use berth_verbs::queue::{self, Waiting};
use berth_verbs::turns;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Target;
use crate::fault::Fault;
use crate::gate::Gate;
use crate::http::body::Body;
use crate::http::turns::{TurnNumber, refused};
use crate::routes::Route;
use crate::visible::{Json, nothing_hidden};

pub(crate) fn routes() -> Vec<Route> {
    let fails = [Code::NotFound, Code::Refused, Code::Unreachable, Code::Unavailable];
    vec![
        Route::get("get_queue", "/v1/sessions/{session}/queue", Scope::Read, show)
            .about("What waits in a session.")
            .gives::<Waiting>(200, "what waits, the next one first")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::new(Method::PATCH, "change_queue", "/v1/sessions/{session}/queue", Scope::Send, change)
            .about("Let no further turn begin, or let the queue go on, whatever held it.")
            .takes::<QueueChange>()
            .gives::<Waiting>(200, "what waits now")
            .fails(&fails),
        Route::new(Method::DELETE, "drop_turn", "/v1/sessions/{session}/queue/{turn}", Scope::Send, withdraw)
            .about("Withdraw a turn that waits.")
            .gives::<Waiting>(200, "what waits now")
            .fails(&fails),
        Route::new(Method::PATCH, "change_turn", "/v1/sessions/{session}/queue/{turn}", Scope::Send, edit)
            .about("Put a turn that waits at another place, or have it say something else.")
            .takes::<TurnChange>()
            .gives::<Waiting>(200, "what waits now")
            .fails(&fails),
    ]
}

nothing_hidden!(Waiting);

/// Whether a queue goes on.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct QueueChange {
    /// No further turn begins.
    paused: bool,
}

/// What is to be different about a turn that waits.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct TurnChange {
    /// How many shall be before it: 0 is next.
    position: Option<u64>,
    /// What it shall say. Its place stays, and its key still means it.
    #[schemars(length(min = 1, max = 1_048_576))]
    text: Option<String>,
}

async fn show(State(gate): State<Arc<Gate>>, target: Target) -> Result<Json<Waiting>, Fault> {
    done(&gate, target, |_| Ok(())).await
}

async fn change(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Body(change): Body<QueueChange>,
) -> Result<Json<Waiting>, Fault> {
    done(&gate, target, move |target| match change.paused {
        true => queue::pause(&target.ctx, &target.id),
        false => queue::go_on(&target.ctx, &target.id),
    })
    .await
}

async fn withdraw(
    State(gate): State<Arc<Gate>>,
    target: Target,
    TurnNumber(number): TurnNumber,
) -> Result<Json<Waiting>, Fault> {
    done(&gate, target, move |target| queue::withdraw(&target.ctx, &target.id, number)).await
}

async fn edit(
    State(gate): State<Arc<Gate>>,
    target: Target,
    TurnNumber(number): TurnNumber,
    Body(change): Body<TurnChange>,
) -> Result<Json<Waiting>, Fault> {
    if change.position.is_none() && change.text.is_none() {
        return Err(Fault::usage("nothing is to be different").hint("give `position`, `text`, or both"));
    }
    done(&gate, target, move |Target { ctx, id, .. }| {
        // What cannot be said is told before anything is changed.
        change.text.as_deref().map_or(Ok(()), turns::check_prompt)?;
        if let Some(to) = change.position {
            queue::shift(ctx, id, number, to)?;
        }
        change.text.map_or(Ok(()), |text| queue::edit(ctx, id, number, text))
    })
    .await
}

/// Does something, and tells what waits then.
async fn done(
    gate: &Gate,
    target: Target,
    verb: impl FnOnce(&Target) -> Result<(), berth_api::Problem> + Send + 'static,
) -> Result<Json<Waiting>, Fault> {
    let follower = gate.followers.of(&target.ctx, &target.id);
    let waiting = follower.work(move || {
        verb(&target)?;
        queue::waiting(&target.ctx, &target.id, &target.handle)
    });
    waiting.await.map(Json).map_err(refused)
}
