//! Where a feed's news comes from: the session's keeper while there is one, else its files.
//!
//! Promise: one connection; nothing is asked of the keeper that it does not tell anybody who watches, but for the
//! status, and that not more than ten times a second. A keeper that goes away, is replaced or comes back is followed.
//! Start with [`run`].

use std::sync::Arc;
use std::time::Duration;

use berth_api::Status;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::Event;
use berth_core::SessionId;
use berth_store::view;
use berth_verbs::Ctx;
use berth_verbs::cursor::News;
use tokio::time::Instant;

use super::async_cursor::{AsyncCursor, sleep_until};
use super::feed::{Feed, current_turn};
use super::list::{List, Looking};

/// The shortest time between two questions for the status.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// When a session without a keeper is looked at, even if nobody told of a change.
const SLOWLY: Duration = Duration::from_secs(10);
/// How many pieces of news are taken together.
const MAX_TOGETHER: usize = 512;

/// Keeps a feed up to date, until nobody reads it.
pub(crate) async fn run(feed: Arc<Feed>, ctx: Ctx, id: SessionId, list: Arc<List>) {
    // Only what is new: everything before is in the journal, and who wants it reads it there.
    let cursor = AsyncCursor::new(ctx.session(&id).news().every(SLOWLY));
    let status = Ask { is_owed: false, is_stale: false, asked_at: Instant::now() };
    let mut upstream = Upstream { feed: &feed, ctx: &ctx, id: &id, cursor, status, current: None };
    // Kept from one look to the next: who looks alone starts a thread, and ends it when they stop looking.
    let mut looking: Option<(Looking, Option<u64>)> = None;
    // The log says already that the session cannot be read.
    let mut is_troubled = false;
    // News that ended the one before it.
    let mut behind: Option<News> = None;
    loop {
        let changed = async {
            let Some((changes, seen)) = &mut looking else { return std::future::pending().await };
            tokio::select! {
                () = changes.changed(&id, *seen) => {}
                () = feed.look_wanted() => {}
            }
        };
        let news = async {
            match behind.take() {
                Some(news) => news,
                None => upstream.cursor.next().await,
            }
        };
        let due = upstream.status.due();
        let news = tokio::select! {
            news = news => news,
            () = sleep_until(due) => {
                upstream.ask_status();
                continue;
            }
            () = changed => {
                if let Some((changes, seen)) = &mut looking {
                    *seen = changes.version_of(&id);
                }
                upstream.cursor.look_soon();
                continue;
            }
        };
        match news {
            News::Connected(status) => {
                (looking, is_troubled) = (None, false);
                upstream.connected(&status);
            }
            News::NoKeeper(_) if looking.is_none() => {
                // Listened to before anything is looked at: a change after that is not missed.
                let changes = list.subscribe();
                let seen = changes.version_of(&id);
                looking = Some((changes, seen));
                upstream.cursor.look_soon();
            }
            News::NoKeeper(Ok(status)) => {
                is_troubled = false;
                feed.begin(&status);
            }
            News::NoKeeper(Err(problem)) | News::Trouble(problem) => {
                // Told at every look, several times a second.
                if !std::mem::replace(&mut is_troubled, true) {
                    tracing::warn!(%id, "cannot be read along: {problem}");
                }
            }
            // Stopped or stuck. That does not make its session unknown.
            News::Silent => upstream.begin_by_files().await,
            News::Refused(problem) => {
                tracing::info!(%id, "the keeper refuses to be watched: {problem}");
                upstream.begin_by_files().await;
            }
            News::Purged(_) => return feed.end(id.as_str()),
            News::Lost => upstream.status.is_owed = false,
            news @ (News::Event { .. } | News::Notice(_) | News::Answer(_)) => behind = upstream.hear(news),
        }
    }
}

struct Upstream<'a> {
    feed: &'a Feed,
    ctx: &'a Ctx,
    id: &'a SessionId,
    cursor: AsyncCursor,
    status: Ask,
    /// The turn the agent has, and that is followed. What is steered is delivered into it and has no words of its own.
    current: Option<u64>,
}

/// When the status is asked for.
struct Ask {
    /// An answer is owed.
    is_owed: bool,
    /// It may be another one now.
    is_stale: bool,
    asked_at: Instant,
}

impl Ask {
    fn due(&self) -> Option<Instant> {
        (self.is_stale && !self.is_owed).then(|| self.asked_at + STATUS_EVERY)
    }
}

impl Upstream<'_> {
    fn connected(&mut self, status: &Status) {
        self.feed.begin(status);
        self.status = Ask { is_owed: false, is_stale: false, asked_at: Instant::now() };
        self.current = current_turn(status);
        if let Some(turn) = self.current {
            self.cursor.ask(Request::Follow { turn });
        }
    }

    async fn begin_by_files(&self) {
        let (ctx, id) = (self.ctx.clone(), self.id.clone());
        let looked = tokio::task::spawn_blocking(move || view::status(&ctx.home, &id));
        if let Ok(Ok(status)) = looked.await {
            self.feed.begin(&status);
        }
    }

    fn ask_status(&mut self) {
        self.status = Ask { is_owed: true, is_stale: false, asked_at: Instant::now() };
        self.cursor.ask(Request::Status);
    }

    /// Passes news on, together with what is there behind it. What cannot be passed on ends that, and is given back.
    fn hear(&mut self, first: News) -> Option<News> {
        let mut told = Vec::new();
        let mut status = None;
        let mut follow = None;
        let mut behind = None;
        let mut next = Some(first);
        while let Some(news) = next.take() {
            match news {
                News::Event { seq, entry } => {
                    self.status.is_stale = true;
                    match &entry.event {
                        Event::TurnDelivered { turn, .. } if self.current.is_none() => {
                            self.current = Some(*turn);
                            follow = self.current;
                        }
                        Event::TurnEnded { turn, .. } if self.current == Some(*turn) => self.current = None,
                        _ => {}
                    }
                    told.push(Notice::Event { seq, entry });
                }
                News::Notice(notice) => {
                    self.status.is_stale |= matches!(notice, Notice::Doing { .. });
                    told.push(notice);
                }
                News::Answer(Answer::Done { status: newest }) => {
                    self.status.is_owed = false;
                    // An end that was not told, because too much was, does not silence the next turn.
                    let current = current_turn(&newest);
                    if self.current != current {
                        (self.current, follow) = (current, current.or(follow));
                    }
                    status = Some(newest);
                }
                // A turn that was over before it could be followed is in the journal.
                News::Answer(_) => {}
                other => {
                    behind = Some(other);
                    break;
                }
            }
            if told.len() < MAX_TOGETHER {
                next = self.cursor.ready();
            }
        }
        if !told.is_empty() {
            self.feed.tell(told);
        }
        if let Some(status) = status {
            self.feed.status(&status);
        }
        if let Some(turn) = follow {
            self.cursor.ask(Request::Follow { turn });
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_store::Home;
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
        let (sessions, away) = (dir.join("sessions"), dir.join("away"));
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
