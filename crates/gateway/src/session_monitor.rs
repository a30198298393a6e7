//! Waits for a session: one connection to its keeper, however many requests wait.
//!
//! Promise: a waiting request keeps no thread. A keeper has one client more, not one for each waiting request. A client
//! that disconnects leaves nothing behind. Every wait and every number here has a limit.
//! Not here: the conditions (see `http/turns` and `http/wait`), bringing a session back (see
//! [`berth_verbs::turns::turn_wait_state`]).
//! Start with [`SessionMonitors::of`], then [`SessionMonitor::turn`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use berth_api::client::SCRIPT_CLIENT;
use berth_api::record::{Event, EventEntry};
use berth_api::turn::TurnView;
use berth_api::{AccessScope, Problem, SessionStatus};
use berth_core::{CallerAction, SessionId};
use berth_verbs::VerbContext;
use berth_verbs::session_cursor::{self, SessionCursor};
use berth_verbs::turns::{self, TurnWaitState};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::app_state::run_blocking;
use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::live::async_cursor::AsyncCursor;
use crate::single_flight::SingleFlight;

/// Number of requests that may wait at once, in all sessions together.
pub(crate) const MOST_WAITING: usize = 4096;
/// Number of requests that may work on one session at once, each on a thread, and as many that read it. If its keeper
/// is stuck, the other requests wait without a thread.
const MOST_AT_WORK: usize = 16;
/// Timeout for a request that waits for its turn to work.
const WORK_PATIENCE: Duration = Duration::from_secs(30);
/// Number of notifications that are kept for a slow request. A slower one reads the session itself.
const NEWS_KEPT: usize = 256;
/// Time that a session may be without a keeper although it should have one.
const BACK_PATIENCE: Duration = Duration::from_secs(30);

/// Followers of all sessions that requests wait for.
#[derive(Debug)]
pub(crate) struct SessionMonitors {
    known: Mutex<HashMap<SessionId, Weak<SessionMonitor>>>,
    seats: Arc<Semaphore>,
}

impl Default for SessionMonitors {
    fn default() -> Self {
        Self { known: Mutex::default(), seats: Arc::new(Semaphore::new(MOST_WAITING)) }
    }
}

/// A notification about a session.
#[derive(Clone, Debug)]
pub(crate) enum SessionNews {
    /// An event was written.
    Event(Arc<EventEntry>),
    /// There may be more output.
    Output,
    /// A keeper was found, or cannot be watched: the known state may be stale.
    Anew,
    /// There is no keeper at this moment.
    Gone,
}

/// A session, shared by the requests that wait for it.
#[derive(Debug)]
pub(crate) struct SessionMonitor {
    ctx: VerbContext,
    id: SessionId,
    news: broadcast::Sender<SessionNews>,
    /// Held by the request that brings the session back.
    bringing: tokio::sync::Mutex<()>,
    at_work: Arc<Semaphore>,
    looking: Arc<Semaphore>,
    status: SingleFlight<Result<SessionStatus, HttpProblem>>,
    /// The task that listens to the keeper, while requests wait.
    listening: Mutex<Option<AbortHandle>>,
}

/// Result of waiting for a turn.
pub(crate) enum TurnWaitOutcome {
    /// The turn has reached the state.
    Reached(Box<TurnView>),
    /// The time is up.
    TimedOut,
    /// The turn does not go on without help.
    Held(Problem),
}

/// State of a turn to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TurnMilestone {
    /// The agent has the turn, or the turn is over.
    Begun,
    /// The turn is over.
    Over,
}

impl SessionMonitors {
    /// The follower of this session.
    pub(crate) fn of(&self, ctx: &VerbContext, id: &SessionId) -> Arc<SessionMonitor> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = known.get(id).and_then(Weak::upgrade) {
            return follower;
        }
        known.retain(|_, follower| follower.strong_count() > 0);
        // A waiting program cannot answer questions. It reads for all requests that wait.
        let place = format!("{SCRIPT_CLIENT} that waits over HTTP");
        let ctx = VerbContext {
            place,
            parent: None,
            also: vec![],
            unseen: None,
            scope: AccessScope::Admin,
            ..ctx.clone()
        };
        let follower = Arc::new(SessionMonitor {
            ctx,
            id: id.clone(),
            news: broadcast::channel(NEWS_KEPT).0,
            bringing: tokio::sync::Mutex::default(),
            at_work: Arc::new(Semaphore::new(MOST_AT_WORK)),
            looking: Arc::new(Semaphore::new(MOST_AT_WORK)),
            status: SingleFlight::default(),
            listening: Mutex::default(),
        });
        known.insert(id.clone(), Arc::downgrade(&follower));
        follower
    }

    /// Takes a place for one more waiting request.
    pub(crate) fn seat(&self) -> Result<OwnedSemaphorePermit, HttpProblem> {
        Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            let what = format!("{MOST_WAITING} clients wait at this gateway already; nothing was done");
            HttpProblem::from(Problem::full(what).hint("ask without `wait`, or later")).retry_after(5)
        })
    }
}

impl Drop for SessionMonitor {
    fn drop(&mut self) {
        let listening = self.listening.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(listening) = listening.take() {
            listening.abort();
        }
    }
}

impl SessionMonitor {
    /// Runs a verb on the session. The verb goes on if its caller disconnects.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, HttpProblem> {
        self.with_permit(&self.at_work, verb).await
    }

    /// Reads something of the session. Readers do not wait for requests that wait for a stuck keeper.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, HttpProblem> {
        self.with_permit(&self.looking, verb).await
    }

    async fn with_permit<T: Send + 'static>(
        self: &Arc<Self>,
        seats: &Arc<Semaphore>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let Ok(Ok(seat)) = tokio::time::timeout(WORK_PATIENCE, Arc::clone(seats).acquire_owned()).await
        else {
            let what = format!("{MOST_AT_WORK} requests wait for the keeper of session {} already", self.id);
            let problem = Problem::unreachable(what)
                .hint(format!("nothing was done; `berth why {}` shows what it is doing", self.id));
            return Err(problem.into());
        };
        // The seat is taken until the work is done, even if no caller waits for it any more.
        let follower = Arc::clone(self);
        run_blocking(move || {
            let _seat = (seat, follower);
            verb()
        })
        .await
    }

    /// Subscribes to notifications from now on.
    pub(crate) fn news(self: &Arc<Self>) -> broadcast::Receiver<SessionNews> {
        let news = self.news.subscribe();
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        listening.get_or_insert_with(|| {
            let cursor = self.ctx.session(&self.id).news();
            // This task works for all followers, so it carries no request id.
            tokio::spawn(listen(cursor, self.news.clone())).abort_handle()
        });
        news
    }

    /// Waits for a turn. If the caller may start something (see [`RequestCaller::scope`]), the session is brought back for the
    /// turn.
    pub(crate) async fn turn(
        self: &Arc<Self>,
        number: u64,
        until: TurnMilestone,
        caller: &RequestCaller,
        end: Instant,
    ) -> Result<TurnWaitOutcome, HttpProblem> {
        let may_start = match caller.scope >= AccessScope::Send {
            true => match timeout_at(end, self.may_resume(caller)).await {
                Ok(may) => may?,
                Err(_) => return Ok(TurnWaitOutcome::TimedOut),
            },
            false => false,
        };
        let mut news = self.news();
        let mut away_since: Option<Instant> = None;
        loop {
            let look = async {
                let _only_one = self.bringing.lock().await;
                let (ctx, id) = (self.ctx.clone(), self.id.clone());
                self.read(move || turns::turn_wait_state(&ctx, &id, number, may_start)).await
            };
            let Ok(standing) = timeout_at(end, look).await else { return Ok(TurnWaitOutcome::TimedOut) };
            match standing? {
                TurnWaitState::Over(view) => return Ok(TurnWaitOutcome::Reached(view)),
                TurnWaitState::Coming(view)
                    if until == TurnMilestone::Begun && view.delivered_at.is_some() =>
                {
                    return Ok(TurnWaitOutcome::Reached(view));
                }
                TurnWaitState::Coming(_) => away_since = None,
                TurnWaitState::Held(problem) => return Ok(TurnWaitOutcome::Held(problem)),
                TurnWaitState::NotYet(problem) => {
                    if away_since.get_or_insert_with(Instant::now).elapsed() > BACK_PATIENCE {
                        return Err(problem.into());
                    }
                }
            }
            loop {
                let Ok(heard) = timeout_at(end, news.recv()).await else {
                    return Ok(TurnWaitOutcome::TimedOut);
                };
                let is_of_interest = match heard {
                    Ok(SessionNews::Event(entry)) => concerns(&entry.event, number, until),
                    Ok(SessionNews::Anew | SessionNews::Gone)
                    | Err(broadcast::error::RecvError::Lagged(_)) => true,
                    Ok(SessionNews::Output) => false,
                    Err(broadcast::error::RecvError::Closed) => return Ok(TurnWaitOutcome::TimedOut),
                };
                if is_of_interest {
                    break;
                }
            }
        }
    }

    /// True if the caller may begin the next run: the grant of an agent may not allow it.
    async fn may_resume(self: &Arc<Self>, caller: &RequestCaller) -> Result<bool, HttpProblem> {
        if caller.agent.is_none() {
            return Ok(true);
        }
        // This is read on behalf of the caller, not of all requests that wait.
        let (ctx, id) = (
            VerbContext { parent: caller.agent.clone(), also: caller.also.clone(), ..self.ctx.clone() },
            self.id.clone(),
        );
        self.read(move || Ok(ctx.may(CallerAction::Resume { takes: false }, &id).is_ok())).await
    }

    /// The current state of the session. An event wakes all waiting requests, which share one read.
    pub(crate) async fn status(self: &Arc<Self>) -> Result<SessionStatus, HttpProblem> {
        let me = Arc::clone(self);
        let look = async move {
            let (ctx, id) = (me.ctx.clone(), me.id.clone());
            me.read(move || ctx.status(&id)).await
        };
        self.status.get(move || look).await
    }
}

/// True if a request that waits for this turn has to read it again.
fn concerns(event: &Event, number: u64, until: TurnMilestone) -> bool {
    match event {
        Event::TurnEnded { turn, .. } => *turn == number,
        Event::TurnDelivered { turn, .. } => *turn == number && until == TurnMilestone::Begun,
        Event::QueueHeld { .. } => true,
        _ => false,
    }
}

/// Forwards notifications of the session's keeper, and of its absence.
async fn listen(cursor: SessionCursor, news: broadcast::Sender<SessionNews>) {
    // Only new events: a request reads the state itself when it hears of a new connection.
    let mut cursor = AsyncCursor::new(cursor);
    loop {
        let told = match cursor.next().await {
            session_cursor::CursorNews::Event { entry, .. } => SessionNews::Event(Arc::new(*entry)),
            session_cursor::CursorNews::Connected(_) => SessionNews::Anew,
            session_cursor::CursorNews::Notice(_) | session_cursor::CursorNews::Answer(_) => {
                SessionNews::Output
            }
            session_cursor::CursorNews::Silent => continue,
            session_cursor::CursorNews::Lost
            | session_cursor::CursorNews::Refused(_)
            | session_cursor::CursorNews::NoKeeper(_)
            | session_cursor::CursorNews::Trouble(_)
            | session_cursor::CursorNews::Purged(_) => SessionNews::Gone,
        };
        // Fails if no request waits at this moment.
        let _ = news.send(told);
    }
}
