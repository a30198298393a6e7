//! Turns of a session: sending prompts, reading results, and cancelling.
//!
//! Promise: a turn that is answered with a receipt is on disk exactly once, even if the connection is lost. A repeated
//! request with the same key returns the same turn.
//! Start with [`send`].

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_api::turn::{LONGEST_WAIT_MS, NewTurn, TurnPage, TurnReceipt, TurnView};
use berth_api::{AccessScope, Problem, ProblemCode, TurnState};
use berth_store::killpoint;
use berth_verbs::turns;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::app_state::AppState;
use crate::caller::RequestedSession;
use crate::http::extractors::{JsonBody, QueryParams, idempotency_key};
use crate::http_problem::HttpProblem;
use crate::quota::LastingKind;
use crate::routes::Route;
use crate::session_monitor::{TurnMilestone, TurnWaitOutcome};
use crate::viewer_filter::{JsonAnswer, nothing_hidden};

/// Default time limit of `wait`.
pub(crate) const USUAL_WAIT_MS: u64 = 5 * 60 * 1000;
/// Time after which a retry may find room in a full queue, or a busy agent idle, in seconds.
const RETRY_SECONDS: u64 = 5;
/// Largest number of turns in one answer.
const MOST_TURNS: usize = 1000;
/// Size limit of their texts together. The last turn may exceed it: each may have mebibytes, and an answer is built as
/// a whole.
const MOST_BYTES: usize = 4 << 20;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("list_turns", "/v1/sessions/{session}/turns", AccessScope::Read, list)
            .about("The turns of a session, in the order they were accepted.")
            .query::<TurnsQuery>()
            .gives::<TurnPage>(200, "the turns")
            .fails(&[NotFound]),
        Route::post("send_turn", "/v1/sessions/{session}/turns", AccessScope::Send, send)
            .about("Sends a prompt to a session's agent.")
            .header(
                "Idempotency-Key",
                "Makes the call repeatable: a second call with the same key and text returns the same turn.",
            )
            .takes::<NewTurn>()
            .gives::<TurnReceipt>(202, "the turn is on disk, and waits or runs")
            .gives::<TurnView>(200, "with `wait`: the turn and its result")
            .response_header("Location", "With a receipt: the path of the turn.")
            .fails(&[NotFound, Refused, Full, TimedOut, Unreachable, Unavailable]),
        Route::get("get_turn", "/v1/sessions/{session}/turns/{turn}", AccessScope::Read, one)
            .about("A turn: its prompt, state and result.")
            .gives::<TurnView>(200, "the turn")
            .fails(&[NotFound]),
        Route::get("get_result", "/v1/sessions/{session}/turns/{turn}/result", AccessScope::Read, result)
            .about("The result of a turn.")
            .gives::<TurnView>(200, "the turn is over")
            .gives::<TurnView>(202, "the turn waits or runs")
            .fails(&[NotFound]),
        Route::post("cancel_turn", "/v1/sessions/{session}/turns/{turn}/cancel", AccessScope::Send, cancel)
            .about("Cancels a queued or running turn.")
            .gives::<TurnView>(200, "the turn is over, or will not run")
            .fails(&[NotFound, Refused, Held, TimedOut, Unreachable]),
    ]
}

nothing_hidden!(TurnPage, TurnReceipt);

/// The turns that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct TurnsQuery {
    /// Number of the last turn that the client has already.
    #[serde(default)]
    after: u64,
    /// Largest number of turns; 1000 by default and at most. Long turns (over 4 MiB together) make the page shorter:
    /// ask again behind the last one.
    limit: Option<usize>,
}

/// Number of a turn, from the path.
pub(crate) struct TurnNumber(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for TurnNumber {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpProblem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| HttpProblem::usage("the path is not UTF-8"))?;
        let text =
            params.iter().find(|(name, _)| *name == "turn").map(|(_, value)| value).unwrap_or_default();
        text.parse().map(Self).map_err(|_| {
            HttpProblem::usage(format!("`{}` is not a valid turn number", text.escape_debug()))
                .hint("use the number of the turn in the session, as in /turns/3")
        })
    }
}

/// Adds the time of a useful retry to the error of a verb.
pub(crate) fn refused(mut fault: HttpProblem) -> HttpProblem {
    match fault.problem.code {
        ProblemCode::Full | ProblemCode::Unreachable | ProblemCode::Unavailable
            if fault.retry_after.is_none() =>
        {
            fault.retry_after = Some(RETRY_SECONDS);
        }
        _ => {}
    }
    fault
}

/// The end of a wait with this time limit.
pub(crate) fn end_of_wait(timeout_ms: Option<u64>) -> Result<Instant, HttpProblem> {
    let ms = timeout_ms.unwrap_or(USUAL_WAIT_MS);
    if ms > LONGEST_WAIT_MS {
        return Err(HttpProblem::usage(format!("`timeout_ms` is at most {LONGEST_WAIT_MS}, not {ms}"))
            .hint("ask again when that time is up"));
    }
    Ok(Instant::now() + Duration::from_millis(ms))
}

async fn list(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    QueryParams(which): QueryParams<TurnsQuery>,
) -> Result<JsonAnswer<TurnPage>, HttpProblem> {
    let follower = state.followers.of(&target.ctx, &target.id);
    let limit = which.limit.unwrap_or(MOST_TURNS).min(MOST_TURNS);
    let from = which.after.saturating_add(1);
    // Turns may be long: the last one may exceed the size limit, so that every page has at least one.
    let read = move || target.ctx.session(&target.id).turns(from, limit as u64, MOST_BYTES);
    follower.read(read).await.map(JsonAnswer)
}

async fn one(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    TurnNumber(number): TurnNumber,
) -> Result<JsonAnswer<TurnView>, HttpProblem> {
    view(&state, &target, number).await.map(JsonAnswer)
}

async fn result(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    TurnNumber(number): TurnNumber,
) -> Result<Response, HttpProblem> {
    let view = view(&state, &target, number).await?;
    let status = if view.in_progress { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, JsonAnswer(view)).into_response())
}

async fn view(state: &AppState, target: &RequestedSession, number: u64) -> Result<TurnView, HttpProblem> {
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    state.followers.of(&ctx, &id).read(move || ctx.session(&id).turn(number)).await
}

async fn send(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    headers: HeaderMap,
    JsonBody(mut new): JsonBody<NewTurn>,
) -> Result<Response, HttpProblem> {
    let key = idempotency_key(&headers)?;
    if new.key.is_some() && key.is_some() && new.key != key {
        return Err(HttpProblem::usage("the header `Idempotency-Key` and the field `key` differ"));
    }
    new.key = key.or(new.key);
    let end = end_of_wait(new.timeout_ms)?;
    // This gateway does the waiting, not the connection to the keeper.
    let wait = std::mem::take(&mut new.wait);
    let until = match (wait, new.max_wait_ms) {
        (true, _) => Some(TurnMilestone::Over),
        (false, Some(_)) => Some(TurnMilestone::Begun),
        (false, None) => None,
    };
    // If there is no free place to wait, the request is refused before anything is stored.
    let _seat = until.map(|_| state.followers.seat()).transpose()?;
    let stay = until.map(|_| state.quotas.stay(&target.caller, LastingKind::Wait, None));
    let follower = state.followers.of(&target.ctx, &target.id);
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    let sent = follower.work(move || ctx.session(&id).send(new).map(|(_, receipt)| receipt));
    let receipt = sent.await.map_err(refused)?;
    killpoint::reached("gateway-accepted");
    let (Some(until), Some(stay)) = (until, stay) else { return Ok(accepted(receipt)) };
    let waited = match stay.or_closed(follower.turn(receipt.number, until, &target.caller, end)).await {
        Ok(waited) => waited,
        // The turn is accepted all the same: a caller that got an error would send the prompt again, and the agent
        // would get it twice.
        Err(fault) => return Ok(accepted(TurnReceipt { held: Some(fault.problem.what), ..receipt })),
    };
    match waited {
        TurnWaitOutcome::Reached(view) => {
            killpoint::reached("gateway-answering");
            match turns::turn_withdrawn_problem(&view) {
                Some(problem) => Err(HttpProblem::from(problem)
                    .status(StatusCode::TOO_MANY_REQUESTS)
                    .retry_after(RETRY_SECONDS)),
                None if wait => Ok(JsonAnswer(*view).into_response()),
                None => Ok(accepted(TurnReceipt { state: view.state, position: None, ..receipt })),
            }
        }
        // The turn is accepted, whatever delays it.
        TurnWaitOutcome::Held(problem) => Ok(accepted(TurnReceipt { held: Some(problem.what), ..receipt })),
        TurnWaitOutcome::TimedOut => match self::view(&state, &target, receipt.number).await {
            Ok(TurnView { state, position, held, .. }) => {
                Ok(accepted(TurnReceipt { state, position, held, ..receipt }))
            }
            Err(fault) => Ok(accepted(TurnReceipt { held: Some(fault.problem.what), ..receipt })),
        },
    }
}

/// The answer with a receipt, and the path of the turn.
fn accepted(receipt: TurnReceipt) -> Response {
    let place = format!("/v1/sessions/{}/turns/{}", receipt.session, receipt.number);
    let mut response = (StatusCode::ACCEPTED, JsonAnswer(receipt)).into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

async fn cancel(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    TurnNumber(number): TurnNumber,
) -> Result<JsonAnswer<TurnView>, HttpProblem> {
    let _seat = state.followers.seat()?;
    let follower = state.followers.of(&target.ctx, &target.id);
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    let asked = follower.work(move || turns::cancel(&ctx, &id, number));
    let mut view = asked.await.map_err(refused)?;
    if view.in_progress {
        let end = Instant::now() + turns::CANCEL_TAKES;
        view = match follower.turn(number, TurnMilestone::Over, &target.caller, end).await? {
            TurnWaitOutcome::Reached(view) => *view,
            TurnWaitOutcome::Held(problem) => return Err(problem.into()),
            TurnWaitOutcome::TimedOut => {
                let what = format!("turn {} is being cancelled and is not over yet", view.turn);
                return Err(Problem::timed_out(what).hint("look again in a moment").into());
            }
        };
    }
    if matches!(view.state, TurnState::Cancelled | TurnState::Interrupted) {
        return Ok(JsonAnswer(view));
    }
    let what = format!("turn {} was {} before the request reached the agent", view.turn, view.state);
    Err(Problem::refused(what).hint("its result is stored").into())
}
