//! Answers: decisions on the questions that a session's agent asks.

use std::sync::Arc;

use axum::extract::State;
use berth_api::turn::QuestionReply;
use berth_api::{AccessScope, ProblemCode, SessionStatus};
use berth_verbs::answer;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app_state::AppState;
use crate::caller::RequestedSession;
use crate::http::extractors::JsonBody;
use crate::http::turns::refused;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::JsonAnswer;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::post("answer", "/v1/sessions/{session}/answers", AccessScope::Control, answer)
            .about("Answer a question of a session's agent. Only the first answer to a question counts.")
            .takes::<NewAnswer>()
            .gives::<SessionStatus>(200, "the question is answered")
            .fails(&[NotFound, Refused, Unreachable, Unavailable]),
    ]
}

/// An answer to a question of an agent.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NewAnswer {
    /// Id of the question: `turns.asks[].request` of the session. It is required, because an answer without it would go
    /// to any question that the agent asks by then.
    request: String,
    /// Kind of the answer.
    answer: AnswerDecision,
    /// With `option`: the id of one of the question's options.
    option: Option<String>,
    /// With `option`, instead of `option`: the ids of the chosen options of a question that takes `several`.
    options: Option<Vec<String>>,
    /// Text of the answer. With `deny`, or an option that refuses: the reason, which the agent reads; for questions
    /// with `takes_reason`. With `text`: the answer in the user's own words; for questions with `takes_text`. With
    /// `options`: one more answer in the user's own words.
    text: Option<String>,
    /// Number of the run that asks: `epoch` of the session. Agents number their questions anew in each run.
    epoch: u64,
}

/// Kind of an answer.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum AnswerDecision {
    /// Allow it, this time.
    Allow,
    /// Refuse it, this time.
    Deny,
    /// Choose one or several of the question's own options.
    Option,
    /// Answer in the user's own words.
    Text,
}

async fn answer(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    JsonBody(new): JsonBody<NewAnswer>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let reply = reply(new.answer, new.option, new.options, new.text)?;
    let follower = state.followers.of(&target.ctx, &target.id);
    let (request, epoch) = (Some(new.request), Some(new.epoch));
    let answered =
        follower.work(move || answer::answer(&target.ctx, &target.id, &target.handle, request, reply, epoch));
    answered.await.map(JsonAnswer).map_err(refused)
}

fn reply(
    answer: AnswerDecision,
    option: Option<String>,
    options: Option<Vec<String>>,
    text: Option<String>,
) -> Result<QuestionReply, HttpProblem> {
    match (answer, option, options, text) {
        (AnswerDecision::Allow, None, None, None) => Ok(QuestionReply::Allow),
        (AnswerDecision::Deny, None, None, reason) => Ok(QuestionReply::Deny { reason }),
        (AnswerDecision::Option, Some(option), None, text) => {
            Ok(QuestionReply::Options { ids: vec![option], text })
        }
        (AnswerDecision::Option, None, Some(ids), text) if !ids.is_empty() => {
            Ok(QuestionReply::Options { ids, text })
        }
        (AnswerDecision::Option, Some(_), Some(_), _) => {
            Err(HttpProblem::usage("give `option` or `options`, and not both"))
        }
        (AnswerDecision::Option, None, Some(_) | None, _) => {
            Err(HttpProblem::usage("`option` is missing: give the id of one of the options"))
        }
        (AnswerDecision::Text, None, None, Some(text)) => {
            Ok(QuestionReply::Options { ids: vec![], text: Some(text) })
        }
        (AnswerDecision::Text, None, None, None) => {
            Err(HttpProblem::usage("`text` is missing: give the answer in your own words"))
        }
        (AnswerDecision::Allow, None, None, Some(_)) => Err(HttpProblem::usage(
            "`text` goes with the answers `deny`, `option` and `text`, not with `allow`",
        )),
        (AnswerDecision::Allow | AnswerDecision::Deny | AnswerDecision::Text, _, _, _) => {
            Err(HttpProblem::usage("`option` and `options` go with the answer `option`, and with no other"))
        }
    }
}
