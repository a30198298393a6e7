//! The queue of a session: turns that wait, their order, and whether the queue is paused.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use berth_api::{AccessScope, ProblemCode};
use berth_verbs::queue::{self, QueueView};
use berth_verbs::turns;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app_state::AppState;
use crate::caller::RequestedSession;
use crate::http::extractors::JsonBody;
use crate::http::turns::{TurnNumber, refused};
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, nothing_hidden};

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    let fails =
        [ProblemCode::NotFound, ProblemCode::Refused, ProblemCode::Unreachable, ProblemCode::Unavailable];
    vec![
        Route::get("get_queue", "/v1/sessions/{session}/queue", AccessScope::Read, show)
            .about("Turns that wait in a session.")
            .gives::<QueueView>(200, "the waiting turns, the next one first")
            .fails(&[NotFound, Refused]),
        Route::new(Method::PATCH, "change_queue", "/v1/sessions/{session}/queue", AccessScope::Send, change)
            .about("Pauses the queue so that no further turn begins, or resumes it after any kind of pause.")
            .takes::<ChangeQueue>()
            .gives::<QueueView>(200, "the turns that wait now")
            .fails(&fails),
        Route::new(
            Method::DELETE,
            "drop_turn",
            "/v1/sessions/{session}/queue/{turn}",
            AccessScope::Send,
            withdraw,
        )
        .about("Withdraws a waiting turn.")
        .gives::<QueueView>(200, "the turns that wait now")
        .fails(&fails),
        Route::new(
            Method::PATCH,
            "change_turn",
            "/v1/sessions/{session}/queue/{turn}",
            AccessScope::Send,
            edit,
        )
        .about("Moves a waiting turn, or changes its text.")
        .takes::<ChangeTurn>()
        .gives::<QueueView>(200, "the turns that wait now")
        .fails(&fails),
    ]
}

nothing_hidden!(QueueView);

/// Pause or resume of a queue.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ChangeQueue {
    /// True to let no further turn begin; false to resume the queue.
    paused: bool,
}

/// Changes of a waiting turn.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ChangeTurn {
    /// New position: the number of turns before it, so 0 is next.
    position: Option<u64>,
    /// New text of the prompt. The turn keeps its place and its idempotency key.
    #[schemars(length(min = 1, max = 1_048_576))]
    text: Option<String>,
}

async fn show(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
) -> Result<JsonAnswer<QueueView>, HttpProblem> {
    done(&state, target, |_| Ok(())).await
}

async fn change(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    JsonBody(change): JsonBody<ChangeQueue>,
) -> Result<JsonAnswer<QueueView>, HttpProblem> {
    done(&state, target, move |target| match change.paused {
        true => queue::pause_queue(&target.ctx, &target.id),
        false => queue::continue_queue(&target.ctx, &target.id),
    })
    .await
}

async fn withdraw(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    TurnNumber(number): TurnNumber,
) -> Result<JsonAnswer<QueueView>, HttpProblem> {
    done(&state, target, move |target| queue::withdraw_turn(&target.ctx, &target.id, number)).await
}

async fn edit(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    TurnNumber(number): TurnNumber,
    JsonBody(change): JsonBody<ChangeTurn>,
) -> Result<JsonAnswer<QueueView>, HttpProblem> {
    if change.position.is_none() && change.text.is_none() {
        return Err(
            HttpProblem::usage("the request changes nothing").hint("give `position`, `text`, or both")
        );
    }
    done(&state, target, move |RequestedSession { ctx, id, .. }| {
        // The new text is checked before anything is changed.
        change.text.as_deref().map_or(Ok(()), turns::check_prompt)?;
        if let Some(to) = change.position {
            queue::move_turn(ctx, id, number, to)?;
        }
        change.text.map_or(Ok(()), |text| queue::edit_turn(ctx, id, number, text))
    })
    .await
}

/// Runs a verb, and answers with the turns that wait afterwards.
async fn done(
    state: &AppState,
    target: RequestedSession,
    verb: impl FnOnce(&RequestedSession) -> Result<(), berth_api::Problem> + Send + 'static,
) -> Result<JsonAnswer<QueueView>, HttpProblem> {
    let follower = state.followers.of(&target.ctx, &target.id);
    let waiting = follower.work(move || {
        verb(&target)?;
        queue::waiting_turns(&target.ctx, &target.id, &target.handle)
    });
    waiting.await.map(JsonAnswer).map_err(refused)
}
