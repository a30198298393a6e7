//! Answers: what a session's agent asks, decided by somebody.

use std::sync::Arc;

use axum::extract::State;
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
use crate::visible::Json;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("answer", "/v1/sessions/{session}/answers", Scope::Control, answer)
            .about("Answer a question of a session's agent. The first answer to a question counts.")
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
    /// Kind of the answer.
    answer: Decision,
    /// With `option`: the id of one of the question's options.
    option: Option<String>,
    /// With `option`, instead of `option`: the ids of the chosen options of a question that takes `several`.
    options: Option<Vec<String>>,
    /// With `deny`, or an option that refuses: the reason, which the agent reads; for questions with `takes_reason`.
    /// With `text`: the answer in own words; for questions with `takes_text`. With `options`: one more answer in own
    /// words.
    text: Option<String>,
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
    /// One of the question's own options, or several.
    Option,
    /// An answer in own words.
    Text,
}

async fn answer(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Body(new): Body<NewAnswer>,
) -> Result<Json<Status>, Fault> {
    let wish = wish(new.answer, new.option, new.options, new.text)?;
    let follower = gate.followers.of(&target.ctx, &target.id);
    let (request, epoch) = (Some(new.request), Some(new.epoch));
    let answered =
        follower.work(move || answer::answer(&target.ctx, &target.id, &target.handle, request, wish, epoch));
    answered.await.map(Json).map_err(refused)
}

fn wish(
    answer: Decision,
    option: Option<String>,
    options: Option<Vec<String>>,
    text: Option<String>,
) -> Result<Wish, Fault> {
    match (answer, option, options, text) {
        (Decision::Allow, None, None, None) => Ok(Wish::Allow),
        (Decision::Deny, None, None, reason) => Ok(Wish::Deny { reason }),
        (Decision::Option, Some(option), None, text) => Ok(Wish::Options { ids: vec![option], text }),
        (Decision::Option, None, Some(ids), text) if !ids.is_empty() => Ok(Wish::Options { ids, text }),
        (Decision::Option, Some(_), Some(_), _) => {
            Err(Fault::usage("give `option` or `options`, and not both"))
        }
        (Decision::Option, None, Some(_) | None, _) => {
            Err(Fault::usage("`option` is missing: the id of one of the options"))
        }
        (Decision::Text, None, None, Some(text)) => Ok(Wish::Options { ids: vec![], text: Some(text) }),
        (Decision::Text, None, None, None) => Err(Fault::usage("`text` is missing: the answer in own words")),
        (Decision::Allow, None, None, Some(_)) => {
            Err(Fault::usage("`text` goes with the answers `deny`, `option` and `text`, not with `allow`"))
        }
        (Decision::Allow | Decision::Deny | Decision::Text, _, _, _) => {
            Err(Fault::usage("`option` and `options` go with the answer `option`, and with no other"))
        }
    }
}
