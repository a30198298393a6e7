//! Turns: what was sent to a session's agent and what came of it; sending, and breaking off.
//!
//! Promise: what is answered with a receipt is on disk, once, whatever becomes of the connection; who sends the same
//! key again hears of the same turn.
//! Start with [`send`].

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_api::turn::{LONGEST_WAIT_MS, NewTurn, Receipt, TurnPage, TurnView};
use berth_api::{Code, Problem, Scope, TurnState};
use berth_store::killpoint;
use berth_verbs::turns;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::caller::Target;
use crate::fault::Fault;
use crate::follow::{Until, Waited};
use crate::gate::Gate;
use crate::http::body::{Body, Query, idempotency_key};
use crate::quota::Lasting;
use crate::routes::Route;
use crate::visible::{Json, nothing_hidden};

/// How long `wait` waits if nothing is said.
pub(crate) const USUAL_WAIT_MS: u64 = 5 * 60 * 1000;
/// When a queue that was full, or an agent that was busy, may be tried again, in seconds.
const RETRY_SECONDS: u64 = 5;
/// How many turns one answer has at most.
const MOST_TURNS: usize = 1000;
/// How much text they have together, but for the last one: each may have mebibytes, and an answer is made as a whole.
const MOST_BYTES: usize = 4 << 20;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_turns", "/v1/sessions/{session}/turns", Scope::Read, list)
            .about("The turns of a session, in the order they were accepted.")
            .query::<Which>()
            .gives::<TurnPage>(200, "the turns")
            .fails(&[Code::NotFound]),
        Route::post("send_turn", "/v1/sessions/{session}/turns", Scope::Send, send)
            .about("Send a prompt to a session's agent.")
            .header(
                "Idempotency-Key",
                "Makes the call repeatable: the same key with the same text means the same turn.",
            )
            .takes::<NewTurn>()
            .gives::<Receipt>(202, "it is on disk, and waits or runs")
            .gives::<TurnView>(200, "with `wait`: what came of it")
            .tells("Location", "With a receipt: where the turn is.")
            .fails(&[
                Code::NotFound,
                Code::Refused,
                Code::Full,
                Code::TimedOut,
                Code::Unreachable,
                Code::Unavailable,
            ]),
        Route::get("get_turn", "/v1/sessions/{session}/turns/{turn}", Scope::Read, one)
            .about("Everything known about a turn.")
            .gives::<TurnView>(200, "the turn")
            .fails(&[Code::NotFound]),
        Route::get("get_result", "/v1/sessions/{session}/turns/{turn}/result", Scope::Read, result)
            .about("What came of a turn.")
            .gives::<TurnView>(200, "it is over")
            .gives::<TurnView>(202, "it is in progress")
            .fails(&[Code::NotFound]),
        Route::post("cancel_turn", "/v1/sessions/{session}/turns/{turn}/cancel", Scope::Send, cancel)
            .about("Cancel a queued or running turn.")
            .gives::<TurnView>(200, "it is over and will not run")
            .fails(&[Code::NotFound, Code::Refused, Code::Held, Code::TimedOut, Code::Unreachable]),
    ]
}

nothing_hidden!(TurnPage, Receipt);

/// Which turns are wanted.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those behind this number.
    #[serde(default)]
    after: u64,
    /// At most so many; 1000 if nothing is said, and never more. Fewer come if they are long (4 MiB): go on behind the last.
    limit: Option<usize>,
}

/// The number of a turn in the path.
pub(crate) struct TurnNumber(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for TurnNumber {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Fault::usage("the path is not UTF-8"))?;
        let text =
            params.iter().find(|(name, _)| *name == "turn").map(|(_, value)| value).unwrap_or_default();
        text.parse().map(Self).map_err(|_| {
            Fault::usage(format!("`{}` is not a turn", text.escape_debug()))
                .hint("a turn is named by its number in the session, as in /turns/3")
        })
    }
}

/// What a verb refused, with when to ask again.
pub(crate) fn refused(mut fault: Fault) -> Fault {
    match fault.problem.code {
        Code::Full | Code::Unreachable | Code::Unavailable if fault.retry_after.is_none() => {
            fault.retry_after = Some(RETRY_SECONDS);
        }
        _ => {}
    }
    fault
}

/// When a wait ends that may take this long.
pub(crate) fn end_of_wait(timeout_ms: Option<u64>) -> Result<Instant, Fault> {
    let ms = timeout_ms.unwrap_or(USUAL_WAIT_MS);
    if ms > LONGEST_WAIT_MS {
        return Err(Fault::usage(format!("`timeout_ms` is at most {LONGEST_WAIT_MS}, not {ms}"))
            .hint("ask again when that time is up"));
    }
    Ok(Instant::now() + Duration::from_millis(ms))
}

async fn list(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Query(which): Query<Which>,
) -> Result<Json<TurnPage>, Fault> {
    let follower = gate.followers.of(&target.ctx, &target.id);
    let limit = which.limit.unwrap_or(MOST_TURNS).min(MOST_TURNS);
    let from = which.after.saturating_add(1);
    // Each may be long: the last one goes beyond the limit of bytes, so that whoever goes on always gets one.
    let read = move || turns::page(&target.ctx, &target.id, from, limit as u64, MOST_BYTES);
    follower.look(read).await.map(Json)
}

async fn one(
    State(gate): State<Arc<Gate>>,
    target: Target,
    TurnNumber(number): TurnNumber,
) -> Result<Json<TurnView>, Fault> {
    view(&gate, &target, number).await.map(Json)
}

async fn result(
    State(gate): State<Arc<Gate>>,
    target: Target,
    TurnNumber(number): TurnNumber,
) -> Result<Response, Fault> {
    let view = view(&gate, &target, number).await?;
    let status = if view.in_progress { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(view)).into_response())
}

async fn view(gate: &Gate, target: &Target, number: u64) -> Result<TurnView, Fault> {
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    gate.followers.of(&ctx, &id).look(move || turns::view(&ctx, &id, number)).await
}

async fn send(
    State(gate): State<Arc<Gate>>,
    target: Target,
    headers: HeaderMap,
    Body(mut new): Body<NewTurn>,
) -> Result<Response, Fault> {
    let key = idempotency_key(&headers)?;
    if new.key.is_some() && key.is_some() && new.key != key {
        return Err(Fault::usage("the `Idempotency-Key` is not the `key` in the body"));
    }
    new.key = key.or(new.key);
    let end = end_of_wait(new.timeout_ms)?;
    // This gateway waits, and not on the connection to the keeper.
    let wait = std::mem::take(&mut new.wait);
    let until = match (wait, new.max_wait_ms) {
        (true, _) => Some(Until::Over),
        (false, Some(_)) => Some(Until::Begun),
        (false, None) => None,
    };
    // Whoever cannot wait is told before anything is stored.
    let _seat = until.map(|_| gate.followers.seat()).transpose()?;
    let stay = until.map(|_| gate.quotas.stay(&target.caller, Lasting::Wait, None));
    let follower = gate.followers.of(&target.ctx, &target.id);
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    let sent = follower.work(move || turns::send(&ctx, &id, new).map(|(_, receipt)| receipt));
    let receipt = sent.await.map_err(refused)?;
    killpoint::reached("gateway-accepted");
    let (Some(until), Some(stay)) = (until, stay) else { return Ok(accepted(receipt)) };
    let waited = match stay.or_closed(follower.turn(receipt.number, until, &target.caller, end)).await {
        Ok(waited) => waited,
        // It is accepted all the same: who was told of a failure would send it again, and it would be said twice.
        Err(fault) => return Ok(accepted(Receipt { held: Some(fault.problem.what), ..receipt })),
    };
    match waited {
        Waited::Reached(view) => {
            killpoint::reached("gateway-answering");
            match turns::withdrawn(&view) {
                Some(problem) => {
                    Err(Fault::from(problem).status(StatusCode::TOO_MANY_REQUESTS).retry_after(RETRY_SECONDS))
                }
                None if wait => Ok(Json(*view).into_response()),
                None => Ok(accepted(Receipt { state: view.state, position: None, ..receipt })),
            }
        }
        // It is accepted, whatever holds it up.
        Waited::Held(problem) => Ok(accepted(Receipt { held: Some(problem.what), ..receipt })),
        Waited::TimedOut => match self::view(&gate, &target, receipt.number).await {
            Ok(TurnView { state, position, held, .. }) => {
                Ok(accepted(Receipt { state, position, held, ..receipt }))
            }
            Err(fault) => Ok(accepted(Receipt { held: Some(fault.problem.what), ..receipt })),
        },
    }
}

/// A receipt, and where the turn is.
fn accepted(receipt: Receipt) -> Response {
    let place = format!("/v1/sessions/{}/turns/{}", receipt.session, receipt.number);
    let mut response = (StatusCode::ACCEPTED, Json(receipt)).into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

async fn cancel(
    State(gate): State<Arc<Gate>>,
    target: Target,
    TurnNumber(number): TurnNumber,
) -> Result<Json<TurnView>, Fault> {
    let _seat = gate.followers.seat()?;
    let follower = gate.followers.of(&target.ctx, &target.id);
    let (ctx, id) = (target.ctx.clone(), target.id.clone());
    let asked = follower.work(move || turns::cancel(&ctx, &id, number));
    let mut view = asked.await.map_err(refused)?;
    if view.in_progress {
        let end = Instant::now() + turns::CANCEL_TAKES;
        view = match follower.turn(number, Until::Over, &target.caller, end).await? {
            Waited::Reached(view) => *view,
            Waited::Held(problem) => return Err(problem.into()),
            Waited::TimedOut => {
                let what = format!("turn {} is being cancelled and is not over yet", view.turn);
                return Err(Problem::new(Code::TimedOut, what).hint("look again in a moment").into());
            }
        };
    }
    if matches!(view.state, TurnState::Cancelled | TurnState::Interrupted) {
        return Ok(Json(view));
    }
    let what = format!("turn {} was {} before the agent could be told", view.turn, view.state);
    Err(Problem::new(Code::Refused, what).hint("its result is stored").into())
}
