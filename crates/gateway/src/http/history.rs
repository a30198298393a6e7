//! History: the copies that are kept of a session's transcript, and restoring one of them.

use berth_api::{AccessScope, ProblemCode};
use berth_verbs::history::{self, RestoredHistory, SessionHistory};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app_state::run_blocking;
use crate::caller::RequestedSession;
use crate::http::extractors::JsonBody;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::JsonAnswer;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("get_history", "/v1/sessions/{session}/history", AccessScope::Read, show)
            .about("The copies of a session's transcript, one from the end of each turn.")
            .gives::<SessionHistory>(200, "the states that the copies can restore, the oldest first")
            .fails(&[NotFound, Refused]),
        Route::post(
            "restore_history",
            "/v1/sessions/{session}/history/restore",
            AccessScope::Control,
            put_back,
        )
        .about(
            "Restores a transcript to the place where the agent looks for it. An existing file is not \
                 overwritten.",
        )
        .takes::<RestoreHistory>()
        .gives::<RestoredHistory>(200, "the transcript is restored")
        .fails(&[NotFound, Held, Refused, Unreachable]),
    ]
}

async fn show(target: RequestedSession) -> Result<JsonAnswer<SessionHistory>, HttpProblem> {
    Ok(JsonAnswer(run_blocking(move || history::read_history(&target.ctx, &target.id)).await?))
}

/// The state of a transcript to restore.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct RestoreHistory {
    /// Number of the state; the last one if absent.
    at: Option<u64>,
}

async fn put_back(
    target: RequestedSession,
    JsonBody(RestoreHistory { at }): JsonBody<RestoreHistory>,
) -> Result<JsonAnswer<RestoredHistory>, HttpProblem> {
    Ok(JsonAnswer(run_blocking(move || history::restore_history(&target.ctx, &target.id, at, None)).await?))
}
