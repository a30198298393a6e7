//! List of all sessions as it changes, for any number of readers.
//!
//! Promise: one thread watches while there are readers, and none otherwise; it sleeps until the kernel reports a
//! change. A newer change replaces an older one that was not read yet, so the list needs memory for each session, not
//! for each change.
//! Start with [`LiveList::subscribe`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::{Problem, SessionStatus, ViewerRights};
use berth_core::SessionId;
use berth_verbs::VerbContext;
use berth_verbs::listing::{self, ListPosition};
use berth_verbs::session_list_watch::{self, SessionListChange, SessionObservation};
use bytes::Bytes;
use tokio::sync::watch;

use crate::app_state::or_store_unreadable;
use crate::viewer_filter::SharedJson;

/// Number of deleted sessions that are remembered for readers that do not know of it yet. A reader that is further
/// behind gets the whole list again.
const KEPT_GONE: usize = 1024;

/// List of all sessions, shared by its readers.
#[derive(Debug)]
pub(crate) struct LiveList {
    ctx: VerbContext,
    state: Mutex<LiveListState>,
    /// Notifies the readers of every change.
    bell: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LiveListState {
    lookers: usize,
    /// Number of the watching thread. Messages of earlier threads are ignored.
    thread: u64,
    /// Closed to end the thread.
    until: Option<UnixStream>,
    loaded: bool,
    /// Problem that prevents a list so far.
    trouble: Option<Problem>,
    /// Number of the newest change. Numbers are never used again.
    version: u64,
    /// Sessions by the number of their last change.
    changes: BTreeMap<u64, SessionId>,
    known: HashMap<SessionId, LiveListEntry>,
    gone: usize,
    /// Number of the last change that may be forgotten.
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct LiveListEntry {
    version: u64,
    what: LiveListItem,
}

/// State of a session in the list.
#[derive(Clone, PartialEq, Debug)]
enum LiveListItem {
    /// Status as JSON, whether the session is archived, its place in the list, and its directory.
    Known {
        json: SharedJson<SessionStatus>,
        archived: bool,
        place: ListPosition,
        cwd: Box<str>,
    },
    /// The session cannot be read.
    Damaged,
    Gone,
}

/// A reader of the list.
#[derive(Debug)]
pub(crate) struct LiveListSubscription {
    list: Arc<LiveList>,
    bell: watch::Receiver<()>,
    /// Number of the newest change that the reader has; absent before it got the whole list.
    seen: Option<u64>,
}

/// Result of [`LiveListSubscription::take`].
#[derive(Debug)]
pub(crate) enum LiveListUpdate {
    /// The whole list in order, each session as JSON.
    All(Vec<Bytes>),
    /// The sessions that changed; `None` stands for a session that is gone.
    Some(Vec<(SessionId, Option<Bytes>)>),
    /// The list cannot be read.
    Trouble(Problem),
}

impl LiveList {
    pub(crate) fn new(ctx: VerbContext) -> Self {
        Self { ctx, state: Mutex::default(), bell: watch::Sender::new(()) }
    }

    /// Subscribes to the list.
    pub(crate) fn subscribe(self: &Arc<Self>) -> LiveListSubscription {
        let mut state = self.lock();
        state.lookers += 1;
        if state.until.is_none() {
            self.start(&mut state);
        }
        LiveListSubscription { list: Arc::clone(self), bell: self.bell.subscribe(), seen: None }
    }

    fn start(self: &Arc<Self>, state: &mut LiveListState) {
        let failed = |error: io::Error| {
            let what = format!("the list cannot be watched: {error}");
            Some(Problem::unreachable(what).hint("ask again later"))
        };
        let (ours, theirs) = match UnixStream::pair() {
            Ok(pair) => pair,
            Err(error) => {
                state.trouble = failed(error);
                return;
            }
        };
        state.thread += 1;
        let (list, thread) = (Arc::clone(self), state.thread);
        let watch = move || {
            session_list_watch::watch(&list.ctx, Some(theirs.as_fd()), &mut |change| {
                list.hear(thread, change)
            });
        };
        match std::thread::Builder::new().name("list".to_owned()).spawn(watch) {
            Ok(_) => (state.until, state.trouble) = (Some(ours), None),
            Err(error) => state.trouble = failed(error),
        }
    }

    fn hear(&self, thread: u64, change: SessionListChange) {
        // The disk is read here, so that no reader has to wait for it.
        let change = match change {
            SessionListChange::Trouble(problem) => {
                tracing::warn!("the list cannot be watched: {problem}");
                SessionListChange::Trouble(or_store_unreadable(&self.ctx.home, problem))
            }
            change @ (SessionListChange::Found(_) | SessionListChange::Loaded) => change,
        };
        let mut state = self.lock();
        if state.thread != thread || state.until.is_none() {
            return;
        }
        match change {
            SessionListChange::Found(found) => {
                found.into_iter().for_each(|(id, found)| state.found(id, found))
            }
            SessionListChange::Loaded => (state.loaded, state.trouble) = (true, None),
            SessionListChange::Trouble(problem) => state.trouble = Some(problem),
        }
        drop(state);
        self.bell.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, LiveListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveListState {
    fn found(&mut self, id: SessionId, found: SessionObservation) {
        let what = match found {
            SessionObservation::Known(status) => of_status(&status),
            SessionObservation::Damaged(_) => LiveListItem::Damaged,
            SessionObservation::Gone => LiveListItem::Gone,
        };
        let before = self.known.get(&id);
        if before.is_some_and(|entry| entry.what == what) || (before.is_none() && what == LiveListItem::Gone)
        {
            return;
        }
        self.version += 1;
        let entry = LiveListEntry { version: self.version, what };
        self.gone += usize::from(entry.what == LiveListItem::Gone);
        self.changes.insert(entry.version, id.clone());
        if let Some(before) = self.known.insert(id, entry) {
            self.changes.remove(&before.version);
            self.gone -= usize::from(before.what == LiveListItem::Gone);
        }
        if self.gone > KEPT_GONE {
            self.forget_oldest_gone();
        }
    }

    fn forget_oldest_gone(&mut self) {
        let is_gone =
            |id: &SessionId| self.known.get(id).is_some_and(|entry| entry.what == LiveListItem::Gone);
        let oldest = self.changes.iter().find(|(_, id)| is_gone(id)).map(|(at, id)| (*at, id.clone()));
        if let Some((version, id)) = oldest {
            self.changes.remove(&version);
            self.known.remove(&id);
            self.gone -= 1;
            self.forgotten = version;
        }
    }
}

fn of_status(status: &SessionStatus) -> LiveListItem {
    let json =
        SharedJson::new(status, |status| serde_json::to_vec(status).expect("a status is plain data").into());
    let (archived, cwd) = (status.archived_at.is_some(), status.what.cwd.as_str().into());
    LiveListItem::Known { json, archived, place: listing::list_position(status), cwd }
}

impl LiveListSubscription {
    /// Changes for this caller; `None` if there are none yet. `all` includes archived sessions.
    pub(crate) fn take(&mut self, viewer: &ViewerRights, all: bool) -> Option<LiveListUpdate> {
        self.bell.mark_unchanged();
        let state = self.list.lock();
        if !state.loaded {
            return state.trouble.clone().map(LiveListUpdate::Trouble);
        }
        let seen = self.seen.filter(|seen| *seen >= state.forgotten);
        let changed = state.changes.range(seen.map_or(0, |seen| seen + 1)..).map(|(_, id)| id);
        let changed =
            changed.filter(|id| viewer.may_see(id)).filter_map(|id| Some((id, state.known.get(id)?)));
        self.seen = Some(state.version);
        if seen.is_none() {
            let shown = changed.filter_map(|(id, entry)| match &entry.what {
                LiveListItem::Known { json, archived, place, .. } if all || !archived => {
                    Some((*place, id, json.bytes(viewer)))
                }
                LiveListItem::Known { .. } | LiveListItem::Damaged | LiveListItem::Gone => None,
            });
            // In the order of `berth ls`.
            let mut shown: Vec<_> = shown.collect();
            shown.sort_by_key(|(place, id, _)| (*place, (*id).clone()));
            return Some(LiveListUpdate::All(shown.into_iter().map(|(_, _, json)| json).collect()));
        }
        let news: Vec<_> = changed
            .filter_map(|(id, entry)| match &entry.what {
                LiveListItem::Known { json, .. } => Some((id.clone(), Some(json.bytes(viewer)))),
                LiveListItem::Gone => Some((id.clone(), None)),
                LiveListItem::Damaged => None,
            })
            .collect();
        (!news.is_empty()).then_some(LiveListUpdate::Some(news))
    }

    /// Directories of the sessions that are not archived, at most `most`, without duplicates. The directory with the
    /// latest activity comes first. `None` while the list is not known yet.
    pub(crate) fn directories(&mut self, most: usize) -> Option<Result<Vec<PathBuf>, Problem>> {
        self.bell.mark_unchanged();
        let state = self.list.lock();
        if !state.loaded {
            return state.trouble.clone().map(Err);
        }
        let mut used: HashMap<&str, Reverse<_>> = HashMap::new();
        for entry in state.known.values() {
            if let LiveListItem::Known { archived: false, place: (_, active), cwd, .. } = &entry.what {
                let last = used.entry(cwd).or_insert(*active);
                *last = (*last).min(*active);
            }
        }
        let mut used: Vec<_> = used.into_iter().map(|(dir, active)| (active, dir)).collect();
        used.sort_unstable();
        Some(Ok(used.into_iter().take(most).map(|(_, dir)| dir.into()).collect()))
    }

    /// Waits until there may be a change.
    pub(crate) async fn wait(&mut self) {
        let _ = self.bell.changed().await;
    }

    /// The number of the last change of a session.
    pub(crate) fn version_of(&self, id: &SessionId) -> Option<u64> {
        self.list.lock().known.get(id).map(|entry| entry.version)
    }

    /// Waits until a session has changed since `seen`.
    pub(crate) async fn changed(&mut self, id: &SessionId, seen: Option<u64>) {
        loop {
            self.bell.mark_unchanged();
            if self.version_of(id) != seen {
                return;
            }
            self.wait().await;
        }
    }
}

impl Drop for LiveListSubscription {
    fn drop(&mut self) {
        let mut state = self.list.lock();
        state.lookers -= 1;
        if state.lookers == 0 {
            // The thread ends when its end of the stream is closed. Its knowledge is dropped, because it may be stale
            // by the next start.
            let (thread, version) = (state.thread, state.version);
            *state = LiveListState { thread, version, forgotten: version, ..LiveListState::default() };
        }
    }
}
