//! Waiting for what becomes of a session: one connection to its keeper, however many wait.
//!
//! Promise: who waits holds no thread; a keeper serves one more client and not one for each who waits; whoever
//! goes away leaves nothing behind; every wait and every number here has a limit.
//! Not here: what is waited for (see `http/turns` and `http/wait`), bringing a session back (see
//! [`berth_verbs::turns::standing`]).
//! Start with [`Followers::of`], then [`Follower::turn`].

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use berth_api::client::{Arrival, NO_TERMINAL};
use berth_api::frame;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::{Entry, Event};
use berth_api::turn::TurnView;
use berth_api::{Code, Connection, Problem, Scope, Status};
use berth_core::{Deed, SessionId};
use berth_verbs::Ctx;
use berth_verbs::turns::{self, Standing};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::work;

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
/// The pauses before a keeper is connected to again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));
/// The pause where a keeper serves too many to be watched: whoever waits looks that often.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How much is read from a keeper at a time.
const READ_BYTES: usize = 32 * 1024;

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
        let ctx = Ctx { place, parent: None, unseen: None, ..ctx.clone() };
        let follower = Arc::new(Follower {
            ctx,
            id: id.clone(),
            news: broadcast::channel(NEWS_KEPT).0,
            bringing: tokio::sync::Mutex::default(),
            at_work: Arc::new(Semaphore::new(MOST_AT_WORK)),
            looking: Arc::new(Semaphore::new(MOST_AT_WORK)),
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
            let (ctx, id, news) = (self.ctx.clone(), self.id.clone(), self.news.clone());
            tokio::spawn(listen(ctx, id, news)).abort_handle()
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
        let may_start = caller.scope >= Scope::Send && self.may_resume(caller).await?;
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
        let (ctx, id) = (Ctx { parent: caller.agent.clone(), ..self.ctx.clone() }, self.id.clone());
        self.look(move || Ok(ctx.may(Deed::Resume { takes: false }, &id).is_ok())).await
    }

    /// What is known of the session now.
    pub(crate) async fn status(self: &Arc<Self>) -> Result<Status, Fault> {
        let (ctx, id) = (self.ctx.clone(), self.id.clone());
        self.look(move || ctx.status(&id)).await
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

/// Tells what a session's keeper tells, and finds the next keeper when there is one.
async fn listen(ctx: Ctx, id: SessionId, news: broadcast::Sender<News>) {
    let mut pause = PAUSES.0;
    loop {
        let (asker, session) = (ctx.clone(), id.clone());
        // Only news: whoever waits looks for themselves when they hear that there is a connection.
        let found = work(move || {
            let Some(mut keeper) = asker.keeper_of(&session)? else { return Ok(None) };
            Ok(keeper.send(Request::Watch { from: u64::MAX }).is_ok().then_some(keeper))
        });
        let kept = match found.await {
            Ok(Some(keeper)) => tell(keeper, &news).await.unwrap_or(Told::Dropped),
            Ok(None) | Err(_) => Told::Dropped,
        };
        pause = match kept {
            Told::Something => PAUSES.0,
            Told::Dropped => (pause * 2).min(PAUSES.1),
            Told::TooMany => LOOK_PAUSE,
        };
        let _ = news.send(News::Gone);
        tokio::time::sleep(pause).await;
    }
}

/// What a keeper told before it went away.
enum Told {
    Something,
    Dropped,
    TooMany,
}

async fn tell(keeper: Connection, news: &broadcast::Sender<News>) -> io::Result<Told> {
    let (stream, mut ahead) = keeper.into_stream();
    stream.set_nonblocking(true)?;
    let mut stream = UnixStream::from_std(stream)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut told = Told::Dropped;
    loop {
        while let Some(frame) = frame::take(&mut ahead)? {
            // Nobody hears it if nobody waits at this moment.
            let _ = news.send(match Arrival::understand(frame)? {
                Arrival::Answer(Answer::Problem { .. }) => return Ok(Told::TooMany),
                Arrival::Notice(Notice::Event { entry, .. }) => News::Event(Arc::new(*entry)),
                Arrival::Answer(_) => {
                    told = Told::Something;
                    News::Anew
                }
                Arrival::Notice(_) | Arrival::Output(_) | Arrival::Screen(_) => News::Output,
            });
        }
        match stream.read(&mut buffer).await? {
            0 => return Ok(told),
            count => ahead.extend_from_slice(&buffer[..count]),
        }
    }
}
