//! Who reads which session, and what is kept open for them.
//!
//! Promise: the first reader of a session opens its feed, the last one closes it.
//! Start with [`Hub::subscribe`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::Scope;
use berth_core::SessionId;
use berth_store::Home;
use berth_verbs::Ctx;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::feed::Feed;
use super::list::List;
use super::pages::Pages;
use super::upstream;

/// How many journals are read at once for those who are behind. Each needs the memory of a file of a journal.
const READING_AT_ONCE: usize = 3;
/// What keepers know us as.
const PLACE: &str = "the gateway, for those who read along";

/// All feeds.
#[derive(Debug)]
pub(crate) struct Hub {
    ctx: Ctx,
    /// The list, as it changes.
    pub(crate) list: Arc<List>,
    feeds: Mutex<HashMap<SessionId, Open>>,
    disk: Arc<Semaphore>,
}

/// A feed that somebody reads.
#[derive(Debug)]
struct Open {
    feed: Arc<Feed>,
    readers: usize,
    upstream: AbortHandle,
}

/// The right to read a feed; while there is one, the feed is kept up to date.
#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    id: SessionId,
    pub(crate) feed: Arc<Feed>,
}

impl Hub {
    pub(crate) fn new(home: Home) -> Self {
        let ctx = Ctx {
            home,
            place: PLACE.to_owned(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: Scope::Admin,
        };
        Self {
            list: Arc::new(List::new(ctx.clone())),
            ctx,
            feeds: Mutex::default(),
            disk: Arc::new(Semaphore::new(READING_AT_ONCE)),
        }
    }

    /// Reads along with a session.
    pub(crate) fn subscribe(self: &Arc<Self>, id: &SessionId) -> Subscription {
        let mut feeds = self.lock();
        let open = feeds.entry(id.clone()).or_insert_with(|| {
            let pages = Pages::new(self.ctx.clone(), id.clone(), Arc::clone(&self.disk));
            let feed = Arc::new(Feed::new(pages));
            let task = upstream::run(Arc::clone(&feed), self.ctx.clone(), id.clone(), Arc::clone(&self.list));
            Open { feed, readers: 0, upstream: tokio::spawn(task).abort_handle() }
        });
        open.readers += 1;
        Subscription { hub: Arc::clone(self), id: id.clone(), feed: Arc::clone(&open.feed) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Open>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
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
