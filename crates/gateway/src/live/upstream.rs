//! Source of a feed's events: the session's keeper while there is one, otherwise the session's files.
//!
//! Promise: a feed has one connection. Besides watching, it asks the keeper only for the status, at most ten times a
//! second. It follows a keeper that stops, is replaced or starts again.
//! Start with [`run`].

use std::sync::Arc;
use std::time::Duration;

use berth_api::SessionStatus;
use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest};
use berth_api::record::Event;
use berth_core::SessionId;
use berth_store::session_status;
use berth_verbs::VerbContext;
use berth_verbs::session_cursor::CursorNews;
use tokio::time::Instant;

use super::async_cursor::{AsyncCursor, sleep_until};
use super::feed::{SessionFeed, current_turn};
use super::live_list::{LiveList, LiveListSubscription};

/// Shortest time between two requests for the status.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// Interval for reading a session without a keeper, if no change was reported.
const SLOWLY: Duration = Duration::from_secs(10);
/// Number of notifications that are handled together.
const MAX_TOGETHER: usize = 512;

/// Keeps a feed up to date until it has no readers.
pub(crate) async fn run(feed: Arc<SessionFeed>, ctx: VerbContext, id: SessionId, list: Arc<LiveList>) {
    // Only new events: earlier ones are in the journal, and readers find them there.
    let cursor = AsyncCursor::new(ctx.session(&id).news().every(SLOWLY));
    let status = StatusRefresh { is_owed: false, is_stale: false, asked_at: Instant::now() };
    let mut upstream = FeedUpstream { feed: &feed, ctx: &ctx, id: &id, cursor, status, current: None };
    // Kept between reads: without other readers of the list each subscription starts a thread and ends it.
    let mut looking: Option<(LiveListSubscription, Option<u64>)> = None;
    // True if the log says already that the session cannot be read.
    let mut is_troubled = false;
    // A notification that ended the batch before it.
    let mut behind: Option<CursorNews> = None;
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
            CursorNews::Connected(status) => {
                (looking, is_troubled) = (None, false);
                upstream.connected(&status);
            }
            CursorNews::NoKeeper(_) if looking.is_none() => {
                // Subscribed before anything is read, so that no change after that is missed.
                let changes = list.subscribe();
                let seen = changes.version_of(&id);
                looking = Some((changes, seen));
                upstream.cursor.look_soon();
            }
            CursorNews::NoKeeper(Ok(status)) => {
                is_troubled = false;
                feed.begin(&status);
            }
            CursorNews::NoKeeper(Err(problem)) | CursorNews::Trouble(problem) => {
                // This is reported at every read, several times a second, but logged once.
                if !std::mem::replace(&mut is_troubled, true) {
                    tracing::warn!(%id, "the events of the session cannot be read: {problem}");
                }
            }
            // The keeper is stopped or stuck, but the session is known from its files.
            CursorNews::Silent => upstream.begin_by_files().await,
            CursorNews::Refused(problem) => {
                tracing::info!(%id, "the keeper refuses to be watched: {problem}");
                upstream.begin_by_files().await;
            }
            CursorNews::Purged(_) => return feed.end(id.as_str()),
            CursorNews::Lost => upstream.status.is_owed = false,
            news @ (CursorNews::Event { .. } | CursorNews::Notice(_) | CursorNews::Answer(_)) => {
                behind = upstream.hear(news)
            }
        }
    }
}

struct FeedUpstream<'a> {
    feed: &'a SessionFeed,
    ctx: &'a VerbContext,
    id: &'a SessionId,
    cursor: AsyncCursor,
    status: StatusRefresh,
    /// Number of the followed turn, which the agent works on. A steering prompt joins that turn and has no answer of
    /// its own.
    current: Option<u64>,
}

/// State of the requests for the status.
struct StatusRefresh {
    /// True while an answer is pending.
    is_owed: bool,
    /// True if the status may have changed since.
    is_stale: bool,
    asked_at: Instant,
}

impl StatusRefresh {
    fn due(&self) -> Option<Instant> {
        (self.is_stale && !self.is_owed).then(|| self.asked_at + STATUS_EVERY)
    }
}

impl FeedUpstream<'_> {
    fn connected(&mut self, status: &SessionStatus) {
        self.feed.begin(status);
        self.status = StatusRefresh { is_owed: false, is_stale: false, asked_at: Instant::now() };
        self.current = current_turn(status);
        if let Some(turn) = self.current {
            self.cursor.ask(KeeperRequest::Follow { turn });
        }
    }

    async fn begin_by_files(&self) {
        let (ctx, id) = (self.ctx.clone(), self.id.clone());
        let looked = tokio::task::spawn_blocking(move || session_status::status(&ctx.home, &id));
        if let Ok(Ok(status)) = looked.await {
            self.feed.begin(&status);
        }
    }

    fn ask_status(&mut self) {
        self.status = StatusRefresh { is_owed: true, is_stale: false, asked_at: Instant::now() };
        self.cursor.ask(KeeperRequest::Status);
    }

    /// Handles a notification, together with those queued behind it. Returns one that has to be handled by itself.
    fn hear(&mut self, first: CursorNews) -> Option<CursorNews> {
        let mut told = Vec::new();
        let mut status = None;
        let mut follow = None;
        let mut behind = None;
        let mut next = Some(first);
        while let Some(news) = next.take() {
            match news {
                CursorNews::Event { seq, entry } => {
                    self.status.is_stale = true;
                    match &entry.event {
                        Event::TurnDelivered { turn, .. } if self.current.is_none() => {
                            self.current = Some(*turn);
                            follow = self.current;
                        }
                        Event::TurnEnded { turn, .. } if self.current == Some(*turn) => self.current = None,
                        _ => {}
                    }
                    told.push(KeeperNotice::Event { seq, entry });
                }
                CursorNews::Notice(notice) => {
                    self.status.is_stale |= matches!(notice, KeeperNotice::Doing { .. });
                    told.push(notice);
                }
                CursorNews::Answer(KeeperAnswer::Done { status: newest }) => {
                    self.status.is_owed = false;
                    // A missing end of a turn (too many notices were sent) must not silence the next turn.
                    let current = current_turn(&newest);
                    if self.current != current {
                        (self.current, follow) = (current, current.or(follow));
                    }
                    status = Some(newest);
                }
                // A turn that ended before it could be followed is in the journal.
                CursorNews::Answer(_) => {}
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
            self.cursor.ask(KeeperRequest::Follow { turn });
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_store::StateDir;
    use tokio::sync::Semaphore;

    use super::super::event_pages::EventPages;
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_session_is_gone_when_it_was_purged_and_not_while_all_of_them_are_away() {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        let ctx = VerbContext {
            home,
            place: "a test".into(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: berth_api::AccessScope::Admin,
        };
        let id = SessionId::parse("mj277ycbmc9g").expect("an id");
        let (sessions, away) = (dir.join("sessions"), dir.join("away"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let ends_within = |patience| {
            let pages = EventPages::new(ctx.clone(), id.clone(), Arc::new(Semaphore::new(1)));
            let list = Arc::new(LiveList::new(ctx.clone()));
            let followed = run(Arc::new(SessionFeed::new(pages)), ctx.clone(), id.clone(), list);
            runtime.block_on(async { tokio::time::timeout(patience, followed).await.is_ok() })
        };
        fs::rename(&sessions, &away).expect("our own directory");
        assert!(
            !ends_within(Duration::from_millis(300)),
            "the gateway cannot tell whether the session exists"
        );
        fs::rename(&away, &sessions).expect("our own directory");
        assert!(ends_within(Duration::from_secs(60)), "the others exist, and this one does not");
    }
}
