//! Answers: what a session's agent asks, decided by somebody.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use berth_api::turn::Wish;
use berth_api::{Code, Scope, Status};
use berth_verbs::answer;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Target;
use crate::fault::Fault;
use crate::gate::Gate;
use crate::http::body::Body;
use crate::http::turns::refused;
use crate::routes::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/answers",
            Scope::Control,
            "answer",
            "Answer what a session's agent asks. Of all who answer one question one does.",
            answer,
        )
        .takes::<NewAnswer>()
        .gives::<Status>(200, "it is answered")
        .fails(&[Code::NotFound, Code::Refused, Code::Unreachable, Code::Unavailable]),
    ]
}

/// An answer to what an agent asks.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NewAnswer {
    /// The question that is answered: `turns.asks[].request` of the session. An answer without it would go to
    /// whatever the agent asks by then.
    request: String,
    /// What.
    answer: Decision,
    /// With `option`: the id of one of the question's options.
    option: Option<String>,
    /// The run in which it is asked: `epoch` of the session. Agents number their questions anew in each run.
    epoch: u64,
}

/// What can be answered.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// Yes, this time.
    Allow,
    /// No, this time.
    Deny,
    /// One of the question's own options.
    Option,
}

async fn answer(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Body(new): Body<NewAnswer>,
) -> Result<Json<Status>, Fault> {
    let wish = match (new.answer, new.option) {
        (Decision::Allow, None) => Wish::Allow,
        (Decision::Deny, None) => Wish::Deny,
        (Decision::Option, Some(option)) => Wish::Option(option),
        (Decision::Option, None) => {
            return Err(Fault::usage("`option` is missing: the id of one of the options"));
        }
        (Decision::Allow | Decision::Deny, Some(_)) => {
            return Err(Fault::usage("`option` goes with the answer `option`, and with no other"));
        }
    };
    let follower = gate.followers.of(&target.ctx, &target.id);
    let (request, epoch) = (Some(new.request), Some(new.epoch));
    let answered =
        follower.work(move || answer::answer(&target.ctx, &target.id, &target.handle, request, wish, epoch));
    answered.await.map(Json).map_err(refused)
}
