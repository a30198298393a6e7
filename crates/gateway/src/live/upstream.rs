//! Where a feed's news comes from: the session's keeper while there is one, else its files.
//!
//! Promise: one connection; nothing is asked of the keeper that it does not tell anybody who watches, but for the
//! status, and that not more than ten times a second. A keeper that goes away, is replaced or comes back is followed.
//! Start with [`run`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::Event;
use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_keeper::view;
use berth_verbs::Ctx;
use tokio::time::Instant;

use super::client::{self, Hearing, Saying};
use super::feed::{Feed, current_turn};
use super::list::{List, Looking};

/// The shortest time between two questions for the status.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// How long a keeper may take for its first answer before the files are shown.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause before a keeper is tried again that starts, ends or replaces itself.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// When a session without a keeper is looked at, even if nobody told of a change.
const SLOWLY: Duration = Duration::from_secs(10);
/// How many pieces of news are taken together.
const MAX_TOGETHER: usize = 512;

/// Keeps a feed up to date, until nobody reads it.
pub(crate) async fn run(feed: Arc<Feed>, ctx: Ctx, id: SessionId, list: Arc<List>) {
    let dir = ctx.home.session_dir(&id);
    let mut pause = Duration::from_millis(1);
    // Kept from one look to the next: who looks alone starts a thread, and ends it when they stop looking.
    let mut looking: Option<Looking> = None;
    loop {
        if let Ok((hearing, saying)) = client::open(dir.clone(), ctx.asker()).await {
            looking = None;
            let upstream =
                Upstream { feed: &feed, ctx: &ctx, id: &id, saying, status_asked: false, current: None };
            let was_heard = upstream.listen(hearing).await.unwrap_or(false);
            pause = if was_heard { Duration::from_millis(1) } else { (pause * 2).min(MAX_PAUSE) };
            tokio::time::sleep(pause).await;
            continue;
        }
        // Listened to before anything is looked at: a change after that is not missed.
        let changes = looking.get_or_insert_with(|| list.subscribe());
        let seen = changes.version_of(&id);
        match look(&ctx, &id).await {
            Ok((_, true)) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
                continue;
            }
            Ok((status, false)) => feed.begin(&status),
            // Only if it was purged: where all of them are may be away for a moment.
            Err(problem) if problem.code == Code::NotFound && feed.pages.is_gone() => {
                return feed.end(id.as_str());
            }
            Err(problem) => tracing::warn!(%id, "cannot be read along: {problem}"),
        }
        pause = Duration::from_millis(1);
        let changed = async {
            tokio::select! {
                () = changes.changed(&id, seen) => {}
                () = feed.look_wanted() => {}
            }
        };
        let _ = tokio::time::timeout(SLOWLY, changed).await;
    }
}

/// What the files say, and whether somebody holds the session all the same.
async fn look(ctx: &Ctx, id: &SessionId) -> Result<(Status, bool), Problem> {
    let (ctx, id) = (ctx.clone(), id.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let status = view::status(&ctx.home, &id)?;
        Ok((status, ctx.is_kept(&id)))
    });
    looked.await.unwrap_or_else(|error| Err(Problem::new(Code::Bug, format!("looking failed: {error}"))))
}

struct Upstream<'a> {
    feed: &'a Feed,
    ctx: &'a Ctx,
    id: &'a SessionId,
    saying: Saying,
    /// An answer is owed.
    status_asked: bool,
    /// The turn the agent has, and that is followed. What is steered is delivered into it and has no words of its own.
    current: Option<u64>,
}

impl Upstream<'_> {
    /// Listens until the keeper goes away. Whether it told anything.
    async fn listen(mut self, mut hearing: Hearing) -> io::Result<bool> {
        // Only what is new: everything before is in the journal, and who wants it reads it there.
        self.saying.ask(Request::Watch { from: u64::MAX }).await?;
        let first = tokio::time::timeout(PATIENCE, hearing.next()).await;
        let first = match first {
            Ok(first) => first?,
            Err(_) => {
                // Stopped or stuck. That does not make its session unknown.
                if let Ok((status, _)) = look(self.ctx, self.id).await {
                    self.feed.begin(&status);
                }
                hearing.next().await?
            }
        };
        let status = match first {
            Some(Arrival::Answer(Answer::Done { status })) => status,
            Some(Arrival::Answer(Answer::Problem { problem })) => {
                tracing::info!(id = %self.id, "the keeper refuses to be watched: {problem}");
                if let Ok((status, _)) = look(self.ctx, self.id).await {
                    self.feed.begin(&status);
                }
                return Ok(false);
            }
            Some(_) | None => return Ok(false),
        };
        self.feed.begin(&status);
        self.current = current_turn(&status);
        if let Some(turn) = self.current {
            self.saying.ask(Request::Follow { turn }).await?;
        }
        let mut stale_since: Option<Instant> = None;
        let mut asked_at = Instant::now();
        loop {
            let due = stale_since.filter(|_| !self.status_asked).map(|_| asked_at + STATUS_EVERY);
            let arrival = tokio::select! {
                arrival = hearing.next() => arrival?,
                () = sleep_until(due) => {
                    (stale_since, self.status_asked, asked_at) = (None, true, Instant::now());
                    self.saying.ask(Request::Status).await?;
                    continue;
                }
            };
            let Some(arrival) = arrival else { return Ok(true) };
            let mut arrivals = vec![arrival];
            while let Some(more) = hearing.ready()? {
                arrivals.push(more);
                if arrivals.len() == MAX_TOGETHER {
                    break;
                }
            }
            if self.hear(arrivals).await? {
                stale_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Passes news on. Whether the status may be another one now.
    async fn hear(&mut self, arrivals: Vec<Arrival>) -> io::Result<bool> {
        let mut news = Vec::with_capacity(arrivals.len());
        let mut follow = None;
        let mut status = None;
        let mut is_stale = false;
        for arrival in arrivals {
            match arrival {
                Arrival::Notice(notice) => {
                    match &notice {
                        Notice::Event { entry, .. } => {
                            is_stale = true;
                            match &entry.event {
                                Event::TurnDelivered { turn, .. } if self.current.is_none() => {
                                    self.current = Some(*turn);
                                    follow = self.current;
                                }
                                Event::TurnEnded { turn, .. } if self.current == Some(*turn) => {
                                    self.current = None;
                                }
                                _ => {}
                            }
                        }
                        Notice::Doing { .. } => is_stale = true,
                        Notice::Output { .. }
                        | Notice::Said { .. }
                        | Notice::Replaced { .. }
                        | Notice::Resized { .. } => {}
                    }
                    news.push(notice);
                }
                Arrival::Answer(Answer::Done { status: newest }) => {
                    self.status_asked = false;
                    // An end that was not told, because too much was, does not silence the next turn.
                    let current = current_turn(&newest);
                    if self.current != current {
                        (self.current, follow) = (current, current.or(follow));
                    }
                    status = Some(newest);
                }
                // A turn that was over before it could be followed is in the journal.
                Arrival::Answer(
                    Answer::Problem { .. }
                    | Answer::Heard
                    | Answer::Decided { .. }
                    | Answer::Receipt { .. }
                    | Answer::Attached { .. }
                    | Answer::Screen { .. },
                )
                | Arrival::Output(_)
                | Arrival::Screen(_) => {}
            }
        }
        if !news.is_empty() {
            self.feed.tell(news);
        }
        if let Some(status) = status {
            self.feed.status(&status);
        }
        if let Some(turn) = follow {
            self.saying.ask(Request::Follow { turn }).await?;
        }
        Ok(is_stale)
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_keeper::Home;
    use tokio::sync::Semaphore;

    use super::super::pages::Pages;
    use super::*;

    #[test]
    fn a_session_is_gone_when_it_was_purged_and_not_while_all_of_them_are_away() {
        let dir = std::env::temp_dir().join(format!("berth-upstream-{}", std::process::id()));
        let home = Home::open(dir.clone()).expect("a state directory");
        let ctx = Ctx {
            home,
            place: "a test".into(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: berth_api::Scope::Admin,
        };
        let id = SessionId::parse("mj277ycbmc9g").expect("an id");
        let (sessions, away) = (ctx.home.sessions_dir(), dir.join("away"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let ends_within = |patience| {
            let pages = Pages::new(ctx.clone(), id.clone(), Arc::new(Semaphore::new(1)));
            let list = Arc::new(List::new(ctx.clone()));
            let followed = run(Arc::new(Feed::new(pages)), ctx.clone(), id.clone(), list);
            runtime.block_on(async { tokio::time::timeout(patience, followed).await.is_ok() })
        };
        fs::rename(&sessions, &away).expect("our own directory");
        assert!(!ends_within(Duration::from_millis(300)), "nobody knows whether it is there");
        fs::rename(&away, &sessions).expect("our own directory");
        assert!(ends_within(Duration::from_secs(60)), "all are there, and this one is not");
        fs::remove_dir_all(dir).expect("our own directory");
    }
}
