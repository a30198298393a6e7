//! Waiting for what becomes of a session: one connection to its keeper, however many wait.
//!
//! Promise: who waits holds no thread; a keeper serves one more client and not one for each who waits; whoever
//! goes away leaves nothing behind; every wait and every number here has a limit.
//! Not here: what is waited for (see `http/turns` and `http/wait`), bringing a session back (see
//! [`berth_verbs::turns::standing`]).
//! Start with [`Followers::of`], then [`Follower::turn`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use berth_api::client::NO_TERMINAL;
use berth_api::record::{Entry, Event};
use berth_api::turn::TurnView;
use berth_api::{Code, Problem, Scope, Status};
use berth_core::{Deed, SessionId};
use berth_verbs::Ctx;
use berth_verbs::cursor::{self, Cursor};
use berth_verbs::turns::{self, Standing};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::work;
use crate::live::async_cursor::AsyncCursor;
use crate::one_look::OneLook;

/// How many may wait at once, in all sessions together.
pub(crate) const MOST_WAITING: usize = 4096;
/// How many requests may be at work for one session at once, and as many look at it, each on a thread: if its keeper
/// stands still, the others wait without one.
const MOST_AT_WORK: usize = 16;
/// How long a request waits for its turn to be worked on.
const WORK_PATIENCE: Duration = Duration::from_secs(30);
/// How many pieces of news are kept for who is slow. Who is slower looks for themselves.
const NEWS_KEPT: usize = 256;
/// How long a session may be without a keeper although it should have one.
const BACK_PATIENCE: Duration = Duration::from_secs(30);

/// Everyone who waits, by session.
#[derive(Debug)]
pub(crate) struct Followers {
    known: Mutex<HashMap<SessionId, Weak<Follower>>>,
    seats: Arc<Semaphore>,
}

impl Default for Followers {
    fn default() -> Self {
        Self { known: Mutex::default(), seats: Arc::new(Semaphore::new(MOST_WAITING)) }
    }
}

/// What is told of a session.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// Something happened.
    Event(Arc<Entry>),
    /// There may be more output.
    Output,
    /// A keeper was found, or it cannot be watched: what was known may be old.
    Anew,
    /// There is no keeper at this moment.
    Gone,
}

/// One session, and whoever waits for it.
#[derive(Debug)]
pub(crate) struct Follower {
    ctx: Ctx,
    id: SessionId,
    news: broadcast::Sender<News>,
    /// Only one brings the session back.
    bringing: tokio::sync::Mutex<()>,
    at_work: Arc<Semaphore>,
    looking: Arc<Semaphore>,
    status: OneLook<Result<Status, Fault>>,
    /// Listens to the keeper, while somebody waits.
    listening: Mutex<Option<AbortHandle>>,
}

/// How waiting for a turn came out.
pub(crate) enum Waited {
    /// What was waited for has come.
    Reached(Box<TurnView>),
    /// The time is up.
    TimedOut,
    /// It does not go on by itself.
    Held(Problem),
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The agent has the turn, or it is over.
    Begun,
    /// It is over.
    Over,
}

impl Followers {
    /// The one who follows this session.
    pub(crate) fn of(&self, ctx: &Ctx, id: &SessionId) -> Arc<Follower> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = known.get(id).and_then(Weak::upgrade) {
            return follower;
        }
        known.retain(|_, follower| follower.strong_count() > 0);
        // A program that waits is nobody who could answer a question, and looks for all who wait.
        let place = format!("{NO_TERMINAL} that waits over HTTP");
        let ctx = Ctx { place, parent: None, also: vec![], unseen: None, scope: Scope::Admin, ..ctx.clone() };
        let follower = Arc::new(Follower {
            ctx,
            id: id.clone(),
            news: broadcast::channel(NEWS_KEPT).0,
            bringing: tokio::sync::Mutex::default(),
            at_work: Arc::new(Semaphore::new(MOST_AT_WORK)),
            looking: Arc::new(Semaphore::new(MOST_AT_WORK)),
            status: OneLook::default(),
            listening: Mutex::default(),
        });
        known.insert(id.clone(), Arc::downgrade(&follower));
        follower
    }

    /// A seat to wait on.
    pub(crate) fn seat(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            let what = format!("{MOST_WAITING} clients wait at this gateway already; nothing was done");
            Fault::from(Problem::new(Code::Full, what).hint("ask without `wait`, or later")).retry_after(5)
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let listening = self.listening.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(listening) = listening.take() {
            listening.abort();
        }
    }
}

impl Follower {
    /// Does something with the session. Who goes away does not undo what was begun.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Fault> {
        self.seated(&self.at_work, verb).await
    }

    /// Looks at something. Those who look do not wait for those who wait for a keeper that stands still.
    pub(crate) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Fault> {
        self.seated(&self.looking, verb).await
    }

    async fn seated<T: Send + 'static>(
        self: &Arc<Self>,
        seats: &Arc<Semaphore>,
        verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Fault> {
        let Ok(Ok(seat)) = tokio::time::timeout(WORK_PATIENCE, Arc::clone(seats).acquire_owned()).await
        else {
            let what = format!("{MOST_AT_WORK} requests wait for the keeper of session {} already", self.id);
            let problem = Problem::new(Code::Unreachable, what)
                .hint(format!("nothing was done; `berth why {}` shows what it is doing", self.id));
            return Err(problem.into());
        };
        // Its seat is taken until this is done, also if nobody waits for it any more.
        let follower = Arc::clone(self);
        work(move || {
            let _seat = (seat, follower);
            verb()
        })
        .await
    }

    /// Hears what happens from now on.
    pub(crate) fn news(self: &Arc<Self>) -> broadcast::Receiver<News> {
        let news = self.news.subscribe();
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        listening.get_or_insert_with(|| {
            let cursor = self.ctx.session(&self.id).news();
            // For all who follow, and for no request.
            tokio::spawn(listen(cursor, self.news.clone())).abort_handle()
        });
        news
    }

    /// Waits for a turn. Whoever may start something (see [`Caller::scope`]) brings the session back for it.
    pub(crate) async fn turn(
        self: &Arc<Self>,
        number: u64,
        until: Until,
        caller: &Caller,
        end: Instant,
    ) -> Result<Waited, Fault> {
        let may_start = match caller.scope >= Scope::Send {
            true => match timeout_at(end, self.may_resume(caller)).await {
                Ok(may) => may?,
                Err(_) => return Ok(Waited::TimedOut),
            },
            false => false,
        };
        let mut news = self.news();
        let mut away_since: Option<Instant> = None;
        loop {
            let look = async {
                let _only_one = self.bringing.lock().await;
                let (ctx, id) = (self.ctx.clone(), self.id.clone());
                self.look(move || turns::standing(&ctx, &id, number, may_start)).await
            };
            let Ok(standing) = timeout_at(end, look).await else { return Ok(Waited::TimedOut) };
            match standing? {
                Standing::Over(view) => return Ok(Waited::Reached(view)),
                Standing::Coming(view) if until == Until::Begun && view.delivered_at.is_some() => {
                    return Ok(Waited::Reached(view));
                }
                Standing::Coming(_) => away_since = None,
                Standing::Held(problem) => return Ok(Waited::Held(problem)),
                Standing::NotYet(problem) => {
                    if away_since.get_or_insert_with(Instant::now).elapsed() > BACK_PATIENCE {
                        return Err(problem.into());
                    }
                }
            }
            loop {
                let Ok(heard) = timeout_at(end, news.recv()).await else { return Ok(Waited::TimedOut) };
                let is_of_interest = match heard {
                    Ok(News::Event(entry)) => concerns(&entry.event, number, until),
                    Ok(News::Anew | News::Gone) | Err(broadcast::error::RecvError::Lagged(_)) => true,
                    Ok(News::Output) => false,
                    Err(broadcast::error::RecvError::Closed) => return Ok(Waited::TimedOut),
                };
                if is_of_interest {
                    break;
                }
            }
        }
    }

    /// Whether whoever asks may begin its next run: an agent's grant may not go so far.
    async fn may_resume(self: &Arc<Self>, caller: &Caller) -> Result<bool, Fault> {
        if caller.agent.is_none() {
            return Ok(true);
        }
        // It is looked at for them, and not for all who wait.
        let (ctx, id) = (
            Ctx { parent: caller.agent.clone(), also: caller.also.clone(), ..self.ctx.clone() },
            self.id.clone(),
        );
        self.look(move || Ok(ctx.may(Deed::Resume { takes: false }, &id).is_ok())).await
    }

    /// What is known of the session now. What happens to it wakes everybody who waits: they share a look.
    pub(crate) async fn status(self: &Arc<Self>) -> Result<Status, Fault> {
        let me = Arc::clone(self);
        let look = async move {
            let (ctx, id) = (me.ctx.clone(), me.id.clone());
            me.look(move || ctx.status(&id)).await
        };
        self.status.get(move || look).await
    }
}

/// Whether who waits for this turn has to look again.
fn concerns(event: &Event, number: u64, until: Until) -> bool {
    match event {
        Event::TurnEnded { turn, .. } => *turn == number,
        Event::TurnDelivered { turn, .. } => *turn == number && until == Until::Begun,
        Event::QueueHeld { .. } => true,
        _ => false,
    }
}

/// Tells what a session's keeper tells, and whether there is one.
async fn listen(cursor: Cursor, news: broadcast::Sender<News>) {
    // Only news: whoever waits looks for themselves when they hear that there is a connection.
    let mut cursor = AsyncCursor::new(cursor);
    loop {
        let told = match cursor.next().await {
            cursor::News::Event { entry, .. } => News::Event(Arc::new(*entry)),
            cursor::News::Connected(_) => News::Anew,
            cursor::News::Notice(_) | cursor::News::Answer(_) => News::Output,
            cursor::News::Silent => continue,
            cursor::News::Lost
            | cursor::News::Refused(_)
            | cursor::News::NoKeeper(_)
            | cursor::News::Trouble(_)
            | cursor::News::Purged(_) => News::Gone,
        };
        // Nobody hears it if nobody waits at this moment.
        let _ = news.send(told);
    }
}
