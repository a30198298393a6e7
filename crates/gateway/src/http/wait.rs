//! Waits until a session is idle, needs an answer, is done with its latest turn or a given one, ends, or prints a text.

use std::sync::Arc;

use axum::extract::State;
use berth_api::record::Event;
use berth_api::turn::TurnView;
use berth_api::{AccessScope, Problem, ProblemCode, SessionStatus, ViewerRights};
use berth_core::{Refusal, SessionId};
use berth_verbs::wait::{self, AwaitedState, OutputMatcher};
use regex::bytes::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout_at};

use crate::app_state::AppState;
use crate::caller::RequestedSession;
use crate::http::extractors::JsonBody;
use crate::http::turns::end_of_wait;
use crate::http_problem::HttpProblem;
use crate::quota::LastingKind;
use crate::routes::Route;
use crate::session_monitor::{SessionMonitor, SessionNews, TurnMilestone, TurnWaitOutcome as TurnWaited};
use crate::viewer_filter::{JsonAnswer, ViewerFiltered};

/// Largest number of requests that wait for output at once: each keeps some past output in memory.
const MOST_MATCHING: usize = 64;
/// Size limit of a compiled pattern in memory.
pub(crate) const MAX_PATTERN_BYTES: usize = 1024 * 1024;

static MATCHING: Semaphore = Semaphore::const_new(MOST_MATCHING);

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::post("wait", "/v1/sessions/{session}/wait", AccessScope::Read, wait_for)
            .about(
                "Waits for a condition of a session: idle, an open question, the end of a turn, the end of \
                 the run, or a line of output.",
            )
            .takes::<WaitRequest>()
            .gives::<SessionWaitResult>(200, "the condition is met")
            .fails(&[NotFound, Refused, Held, TimedOut, Full, Unreachable]),
    ]
}

/// The condition to wait for, and the time limit.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct WaitRequest {
    /// Condition to wait for.
    r#for: WaitCondition,
    /// Time limit in milliseconds; after it the answer is 504. Five minutes by default, at most an hour.
    #[schemars(range(max = 3_600_000))]
    timeout_ms: Option<u64>,
}

/// A condition to wait for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
enum WaitCondition {
    /// The session has nothing to do, and no turn waits.
    Idle,
    /// The session needs an answer.
    NeedsYou,
    /// The latest turn is over.
    Done,
    /// The turn with this number is over.
    Turn(u64),
    /// The run has ended.
    Exit,
    /// The output, as plain text, matches this regular expression.
    Output(String),
}

/// The state in which the condition was met.
#[derive(Serialize, JsonSchema, Debug)]
struct SessionWaitResult {
    /// The state of the session.
    session: SessionStatus,
    /// With `done` and `turn`: the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnView>,
}

impl ViewerFiltered for SessionWaitResult {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.session.hide_from(viewer);
    }
}

async fn wait_for(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    JsonBody(request): JsonBody<WaitRequest>,
) -> Result<JsonAnswer<SessionWaitResult>, HttpProblem> {
    let end = end_of_wait(request.timeout_ms)?;
    let _seat = state.followers.seat()?;
    let stay = state.quotas.stay(&target.caller, LastingKind::Wait, None);
    stay.or_closed(waited(&state, &target, request, end)).await.map(JsonAnswer)
}

async fn waited(
    state: &AppState,
    target: &RequestedSession,
    request: WaitRequest,
    end: Instant,
) -> Result<SessionWaitResult, HttpProblem> {
    let follower = state.followers.of(&target.ctx, &target.id);
    let status =
        status_by(&follower, end, || timed_out(&target.id, "has a keeper that does not answer")).await?;
    if status.turns.is_none()
        && matches!(
            request.r#for,
            WaitCondition::Idle | WaitCondition::NeedsYou | WaitCondition::Done | WaitCondition::Turn(_)
        )
    {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, &target.handle).into());
    }
    let mut turn = None;
    let session = match request.r#for {
        WaitCondition::Idle => wait_for_state(&follower, target, AwaitedState::Idle, end).await?,
        WaitCondition::NeedsYou => wait_for_state(&follower, target, AwaitedState::NeedsYou, end).await?,
        WaitCondition::Done => {
            let latest = wait::latest_turn(&status, &target.handle)?;
            let (session, view) = wait_until_turn_ends(&follower, target, latest, end).await?;
            turn = Some(view);
            session
        }
        WaitCondition::Turn(number) => {
            let total = status.turns.as_ref().map_or(0, |turns| turns.total);
            if number == 0 || number > total {
                let missing = Refusal::NoSuchTurn { turn: number };
                return Err(berth_api::problem::refusal(&missing, &target.handle).into());
            }
            let (session, view) = wait_until_turn_ends(&follower, target, number, end).await?;
            turn = Some(view);
            session
        }
        WaitCondition::Exit => until_exit(&follower, &target.id, end).await?,
        WaitCondition::Output(pattern) => {
            until_output(&follower, target, &pattern, status.output_from, end).await?
        }
    };
    Ok(SessionWaitResult { session, turn })
}

/// Waits for the end of a turn.
async fn wait_until_turn_ends(
    follower: &Arc<SessionMonitor>,
    target: &RequestedSession,
    number: u64,
    end: Instant,
) -> Result<(SessionStatus, TurnView), HttpProblem> {
    let view = match follower.turn(number, TurnMilestone::Over, &target.caller, end).await? {
        TurnWaited::Reached(view) => *view,
        TurnWaited::Held(problem) => return Err(problem.into()),
        TurnWaited::TimedOut => {
            return Err(timed_out(&target.id, &format!("has not finished turn {number}")));
        }
    };
    let late = || timed_out(&target.id, "has a keeper that does not answer");
    Ok((status_by(follower, end, late).await?, view))
}

/// The meaning of a notification.
enum WaitSignal {
    /// An event was written.
    Event(Arc<berth_api::EventEntry>),
    /// There may be more output.
    Output,
    /// Notifications were missed: read the state again.
    Anew,
}

async fn next(
    news: &mut tokio::sync::broadcast::Receiver<SessionNews>,
    end: Instant,
    late: impl FnOnce() -> HttpProblem,
) -> Result<WaitSignal, HttpProblem> {
    match timeout_at(end, news.recv()).await {
        Ok(Ok(SessionNews::Event(entry))) => Ok(WaitSignal::Event(entry)),
        Ok(Ok(SessionNews::Output)) => Ok(WaitSignal::Output),
        Ok(Ok(SessionNews::Anew | SessionNews::Gone) | Err(RecvError::Lagged(_))) => Ok(WaitSignal::Anew),
        Ok(Err(RecvError::Closed)) | Err(_) => Err(late()),
    }
}

/// The state of the session, unless its keeper takes longer than the caller waits.
async fn status_by(
    follower: &Arc<SessionMonitor>,
    end: Instant,
    late: impl FnOnce() -> HttpProblem,
) -> Result<SessionStatus, HttpProblem> {
    timeout_at(end, follower.status()).await.map_err(|_| late())?
}

async fn wait_for_state(
    follower: &Arc<SessionMonitor>,
    target: &RequestedSession,
    wanted: AwaitedState,
    end: Instant,
) -> Result<SessionStatus, HttpProblem> {
    let mut news = follower.news();
    let late = || timed_out(&target.id, &format!("is not {}", wanted.state()));
    loop {
        let status = status_by(follower, end, late).await?;
        if wait::is_reached(&status, wanted) {
            return Ok(status);
        }
        if status.keeper_pid.is_none() {
            return Err(wait::not_running_problem(&status, &target.handle, wanted).into());
        }
        while let WaitSignal::Output = next(&mut news, end, late).await? {}
    }
}

async fn until_exit(
    follower: &Arc<SessionMonitor>,
    id: &SessionId,
    end: Instant,
) -> Result<SessionStatus, HttpProblem> {
    let mut news = follower.news();
    let late = || timed_out(id, "has not ended");
    loop {
        let status = status_by(follower, end, late).await?;
        if status.keeper_pid.is_none() {
            return Ok(status);
        }
        loop {
            match next(&mut news, end, late).await? {
                WaitSignal::Event(entry) if matches!(entry.event, Event::RunEnded { .. }) => {
                    return status_by(follower, end, late).await;
                }
                WaitSignal::Anew => break,
                WaitSignal::Event(_) | WaitSignal::Output => {}
            }
        }
    }
}

async fn until_output(
    follower: &Arc<SessionMonitor>,
    target: &RequestedSession,
    pattern: &str,
    from: u64,
    end: Instant,
) -> Result<SessionStatus, HttpProblem> {
    let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(MAX_PATTERN_BYTES).build();
    let regex = regex.map_err(|error| HttpProblem::usage(format!("the pattern cannot be used: {error}")))?;
    let _seat = MATCHING.try_acquire().map_err(|error| match error {
        TryAcquireError::NoPermits | TryAcquireError::Closed => {
            let what = format!("{MOST_MATCHING} clients wait for output at this gateway already");
            HttpProblem::from(Problem::full(what).hint("ask again later")).retry_after(5)
        }
    })?;
    let mut matcher = OutputMatcher::new(&target.ctx, &target.id, from, regex);
    let mut news = follower.news();
    let late = || timed_out(&target.id, "printed no match");
    let mut status = status_by(follower, end, late).await?;
    loop {
        let look = follower.read(move || {
            let found = matcher.read_and_match()?;
            Ok((matcher, found))
        });
        let found;
        (matcher, found) = timeout_at(end, look).await.map_err(|_| late())??;
        if found {
            return status_by(follower, end, late).await;
        }
        if status.keeper_pid.is_none() {
            return Err(wait::output_missing_problem(&target.id).into());
        }
        let mut is_stale = !matches!(next(&mut news, end, late).await?, WaitSignal::Output);
        // All notifications that are queued by now are handled at once.
        loop {
            match news.try_recv() {
                Ok(SessionNews::Output) => {}
                Ok(SessionNews::Event(_) | SessionNews::Anew | SessionNews::Gone)
                | Err(TryRecvError::Lagged(_)) => is_stale = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        // New output shows that the keeper is alive, so not every piece needs a request to it.
        if is_stale {
            status = status_by(follower, end, late).await?;
        }
    }
}

fn timed_out(id: &SessionId, what: &str) -> HttpProblem {
    Problem::timed_out(format!("timed out: session {id} {what}"))
        .hint(format!("ask again; `berth why {id}` shows what it is doing"))
        .into()
}
