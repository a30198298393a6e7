//! Feeds of all sessions that have readers.
//!
//! Promise: the first reader of a session opens its feed, the last one closes it.
//! Start with [`FeedHub::subscribe`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::AccessScope;
use berth_core::SessionId;
use berth_store::StateDir;
use berth_verbs::VerbContext;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::event_pages::EventPages;
use super::feed::SessionFeed;
use super::live_list::LiveList;
use super::upstream;

/// Number of journals that are read at once for readers that are behind. Each read needs the memory of one journal
/// file.
const READING_AT_ONCE: usize = 3;
/// Name of the gateway in the keeper's list of clients.
const PLACE: &str = "the gateway, for readers of events";

/// The open feeds, by session.
#[derive(Debug)]
pub(crate) struct FeedHub {
    ctx: VerbContext,
    /// The list of sessions, as it changes.
    pub(crate) list: Arc<LiveList>,
    feeds: Mutex<HashMap<SessionId, OpenFeed>>,
    disk: Arc<Semaphore>,
}

/// A feed that has readers.
#[derive(Debug)]
struct OpenFeed {
    feed: Arc<SessionFeed>,
    readers: usize,
    upstream: AbortHandle,
}

/// A subscription to a feed. The feed is kept up to date while there is one.
#[derive(Debug)]
pub(crate) struct FeedSubscription {
    hub: Arc<FeedHub>,
    id: SessionId,
    pub(crate) feed: Arc<SessionFeed>,
}

impl FeedHub {
    pub(crate) fn new(home: StateDir) -> Self {
        let ctx = VerbContext {
            home,
            place: PLACE.to_owned(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: AccessScope::Admin,
        };
        Self {
            list: Arc::new(LiveList::new(ctx.clone())),
            ctx,
            feeds: Mutex::default(),
            disk: Arc::new(Semaphore::new(READING_AT_ONCE)),
        }
    }

    /// Subscribes to a session.
    pub(crate) fn subscribe(self: &Arc<Self>, id: &SessionId) -> FeedSubscription {
        let mut feeds = self.lock();
        let open = feeds.entry(id.clone()).or_insert_with(|| {
            let pages = EventPages::new(self.ctx.clone(), id.clone(), Arc::clone(&self.disk));
            let feed = Arc::new(SessionFeed::new(pages));
            let task = upstream::run(Arc::clone(&feed), self.ctx.clone(), id.clone(), Arc::clone(&self.list));
            OpenFeed { feed, readers: 0, upstream: tokio::spawn(task).abort_handle() }
        });
        open.readers += 1;
        FeedSubscription { hub: Arc::clone(self), id: id.clone(), feed: Arc::clone(&open.feed) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OpenFeed>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FeedSubscription {
    fn drop(&mut self) {
        let mut feeds = self.hub.lock();
        let Some(open) = feeds.get_mut(&self.id) else { return };
        open.readers -= 1;
        if open.readers == 0 {
            open.upstream.abort();
            feeds.remove(&self.id);
        }
    }
}
