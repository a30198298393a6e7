//! Waiting until a session is idle, needs somebody, is done with its latest turn or with a given one, ends, or says something.

use std::sync::Arc;

use axum::extract::State;
use berth_api::record::Event;
use berth_api::turn::TurnView;
use berth_api::{Code, Problem, Scope, Status, Viewer};
use berth_core::{Refusal, SessionId};
use berth_verbs::wait::{self, Matcher, Wanted};
use regex::bytes::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout_at};

use crate::caller::Target;
use crate::fault::Fault;
use crate::follow::{Follower, News, Until, Waited as TurnWaited};
use crate::gate::Gate;
use crate::http::body::Body;
use crate::http::turns::end_of_wait;
use crate::quota::Lasting;
use crate::routes::Route;
use crate::visible::{Json, Visible};

/// How many may wait for output at once: each keeps what it looks back over.
const MOST_MATCHING: usize = 64;
/// How large a pattern may become in memory.
pub(crate) const MAX_PATTERN_BYTES: usize = 1024 * 1024;

static MATCHING: Semaphore = Semaphore::const_new(MOST_MATCHING);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("wait", "/v1/sessions/{session}/wait", Scope::Read, wait_for)
            .about(
                "Wait until a session is idle, needs an answer, is done with its latest turn or with a \
                 given one, ends, or says something.",
            )
            .takes::<WaitFor>()
            .gives::<Waited>(200, "it has come")
            .fails(&[
                Code::NotFound,
                Code::Refused,
                Code::Held,
                Code::TimedOut,
                Code::Full,
                Code::Unreachable,
            ]),
    ]
}

/// What to wait for, and how long.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct WaitFor {
    /// What to wait for.
    r#for: What,
    /// How long; then the answer is 504. Five minutes if nothing is said, at most an hour.
    #[schemars(range(max = 3_600_000))]
    timeout_ms: Option<u64>,
}

/// What can be waited for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// It has nothing to do, and nothing waits.
    Idle,
    /// It needs an answer.
    NeedsYou,
    /// Its latest turn is over.
    Done,
    /// The turn with this number is over.
    Turn(u64),
    /// Its run is over.
    Exit,
    /// Its output, as plain text, matches this regular expression.
    Output(String),
}

/// What has come.
#[derive(Serialize, JsonSchema, Debug)]
struct Waited {
    /// What is known of the session.
    session: Status,
    /// With `done` and `turn`: the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnView>,
}

impl Visible for Waited {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.session.hide_from(viewer);
    }
}

async fn wait_for(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Body(wish): Body<WaitFor>,
) -> Result<Json<Waited>, Fault> {
    let end = end_of_wait(wish.timeout_ms)?;
    let _seat = gate.followers.seat()?;
    let stay = gate.quotas.stay(&target.caller, Lasting::Wait, None);
    stay.or_closed(waited(&gate, &target, wish, end)).await.map(Json)
}

async fn waited(gate: &Gate, target: &Target, wish: WaitFor, end: Instant) -> Result<Waited, Fault> {
    let follower = gate.followers.of(&target.ctx, &target.id);
    let status = status_by(&follower, end, || timed_out(&target.id, "its keeper does not answer")).await?;
    if status.turns.is_none()
        && matches!(wish.r#for, What::Idle | What::NeedsYou | What::Done | What::Turn(_))
    {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, &target.handle).into());
    }
    let mut turn = None;
    let session = match wish.r#for {
        What::Idle => until_state(&follower, target, Wanted::Idle, end).await?,
        What::NeedsYou => until_state(&follower, target, Wanted::NeedsYou, end).await?,
        What::Done => {
            let latest = wait::latest_turn(&status, &target.handle)?;
            let (session, view) = until_over(&follower, target, latest, end).await?;
            turn = Some(view);
            session
        }
        What::Turn(number) => {
            let total = status.turns.as_ref().map_or(0, |turns| turns.total);
            if number == 0 || number > total {
                let missing = Refusal::NoSuchTurn { turn: number };
                return Err(berth_api::problem::refusal(&missing, &target.handle).into());
            }
            let (session, view) = until_over(&follower, target, number, end).await?;
            turn = Some(view);
            session
        }
        What::Exit => until_exit(&follower, &target.id, end).await?,
        What::Output(pattern) => until_output(&follower, target, &pattern, status.output_from, end).await?,
    };
    Ok(Waited { session, turn })
}

/// Waits for the end of a turn.
async fn until_over(
    follower: &Arc<Follower>,
    target: &Target,
    number: u64,
    end: Instant,
) -> Result<(Status, TurnView), Fault> {
    let view = match follower.turn(number, Until::Over, &target.caller, end).await? {
        TurnWaited::Reached(view) => *view,
        TurnWaited::Held(problem) => return Err(problem.into()),
        TurnWaited::TimedOut => return Err(timed_out(&target.id, &format!("turn {number} is not over"))),
    };
    let late = || timed_out(&target.id, "its keeper does not answer");
    Ok((status_by(follower, end, late).await?, view))
}

/// What to make of a piece of news.
enum Heard {
    /// Something happened.
    Event(Arc<berth_api::Entry>),
    /// There may be more output.
    Output,
    /// Look again.
    Anew,
}

async fn next(
    news: &mut tokio::sync::broadcast::Receiver<News>,
    end: Instant,
    late: impl FnOnce() -> Fault,
) -> Result<Heard, Fault> {
    match timeout_at(end, news.recv()).await {
        Ok(Ok(News::Event(entry))) => Ok(Heard::Event(entry)),
        Ok(Ok(News::Output)) => Ok(Heard::Output),
        Ok(Ok(News::Anew | News::Gone) | Err(RecvError::Lagged(_))) => Ok(Heard::Anew),
        Ok(Err(RecvError::Closed)) | Err(_) => Err(late()),
    }
}

/// What is known of the session, unless its keeper takes longer than anybody waits.
async fn status_by(
    follower: &Arc<Follower>,
    end: Instant,
    late: impl FnOnce() -> Fault,
) -> Result<Status, Fault> {
    timeout_at(end, follower.status()).await.map_err(|_| late())?
}

async fn until_state(
    follower: &Arc<Follower>,
    target: &Target,
    wanted: Wanted,
    end: Instant,
) -> Result<Status, Fault> {
    let mut news = follower.news();
    let late = || timed_out(&target.id, &format!("it is not {}", wanted.state()));
    loop {
        let status = status_by(follower, end, late).await?;
        if wait::is_there(&status, wanted) {
            return Ok(status);
        }
        if status.keeper_pid.is_none() {
            return Err(wait::will_not_be(&status, &target.handle, wanted).into());
        }
        while let Heard::Output = next(&mut news, end, late).await? {}
    }
}

async fn until_exit(follower: &Arc<Follower>, id: &SessionId, end: Instant) -> Result<Status, Fault> {
    let mut news = follower.news();
    let late = || timed_out(id, "it has not ended");
    loop {
        let status = status_by(follower, end, late).await?;
        if status.keeper_pid.is_none() {
            return Ok(status);
        }
        loop {
            match next(&mut news, end, late).await? {
                Heard::Event(entry) if matches!(entry.event, Event::RunEnded { .. }) => {
                    return status_by(follower, end, late).await;
                }
                Heard::Anew => break,
                Heard::Event(_) | Heard::Output => {}
            }
        }
    }
}

async fn until_output(
    follower: &Arc<Follower>,
    target: &Target,
    pattern: &str,
    from: u64,
    end: Instant,
) -> Result<Status, Fault> {
    let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(MAX_PATTERN_BYTES).build();
    let regex = regex.map_err(|error| Fault::usage(format!("the pattern cannot be used: {error}")))?;
    let _seat = MATCHING.try_acquire().map_err(|error| match error {
        TryAcquireError::NoPermits | TryAcquireError::Closed => {
            let what = format!("{MOST_MATCHING} clients wait for output at this gateway already");
            Fault::from(Problem::new(Code::Full, what).hint("ask again later")).retry_after(5)
        }
    })?;
    let mut matcher = Matcher::new(&target.ctx, &target.id, from, regex);
    let mut news = follower.news();
    let late = || timed_out(&target.id, "nothing in its output matches");
    let mut status = status_by(follower, end, late).await?;
    loop {
        let look = follower.look(move || {
            let found = matcher.look()?;
            Ok((matcher, found))
        });
        let found;
        (matcher, found) = timeout_at(end, look).await.map_err(|_| late())??;
        if found {
            return status_by(follower, end, late).await;
        }
        if status.keeper_pid.is_none() {
            return Err(wait::never_said(&target.id).into());
        }
        let mut is_stale = !matches!(next(&mut news, end, late).await?, Heard::Output);
        // What has piled up meanwhile is looked at once.
        loop {
            match news.try_recv() {
                Ok(News::Output) => {}
                Ok(News::Event(_) | News::Anew | News::Gone) | Err(TryRecvError::Lagged(_)) => {
                    is_stale = true
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        // Output alone says that its keeper is there: that need not be asked at every piece.
        if is_stale {
            status = status_by(follower, end, late).await?;
        }
    }
}

fn timed_out(id: &SessionId, what: &str) -> Fault {
    Problem::new(Code::TimedOut, format!("waited for session {id}: {what}"))
        .hint(format!("ask again; `berth why {id}` shows what it is doing"))
        .into()
}
