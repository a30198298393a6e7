//! The list of all sessions as it changes, for however many look at it.
//!
//! Promise: one thread watches while anybody looks, and none else; it sleeps until the kernel tells of a change.
//! What is not read yet is replaced by what is newer, so a list that nobody reads stays as small as the sessions are
//! many.
//! Start with [`List::subscribe`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::{Code, Problem, Status, Viewer};
use berth_core::SessionId;
use berth_verbs::Ctx;
use berth_verbs::changes::{self, Change, Found};
use berth_verbs::listing::{self, Place};
use bytes::Bytes;
use tokio::sync::watch;

use crate::gate::or_no_store;
use crate::visible::Shared;

/// How many sessions that are gone are remembered, for those who have not heard yet. Who is further behind is told
/// the whole list again.
const KEPT_GONE: usize = 1024;

/// The list.
#[derive(Debug)]
pub(crate) struct List {
    ctx: Ctx,
    state: Mutex<State>,
    /// Rings at every change.
    bell: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    lookers: usize,
    /// Grows with every thread that watches: what an earlier one still says counts no more.
    thread: u64,
    /// Closed to end the thread.
    until: Option<UnixStream>,
    loaded: bool,
    /// Why there is no list yet.
    trouble: Option<Problem>,
    /// The newest change. Numbers are never used again.
    version: u64,
    /// The changes, by number; the last of each session.
    changes: BTreeMap<u64, SessionId>,
    known: HashMap<SessionId, Entry>,
    gone: usize,
    /// Changes up to this one may be forgotten.
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    version: u64,
    what: What,
}

/// What is known of a session.
#[derive(Clone, PartialEq, Debug)]
enum What {
    /// Its status as JSON, whether it is put away, where it comes in the list, and its directory.
    Known {
        json: Shared<Status>,
        archived: bool,
        place: Place,
        cwd: Box<str>,
    },
    /// It cannot be read.
    Damaged,
    Gone,
}

/// Somebody who looks at the list.
#[derive(Debug)]
pub(crate) struct Looking {
    list: Arc<List>,
    bell: watch::Receiver<()>,
    /// The newest change it knows of; nothing before the whole list.
    seen: Option<u64>,
}

/// What is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// All of them, in the order of the list, as JSON, one each.
    All(Vec<Bytes>),
    /// What changed since.
    Some(Vec<(SessionId, Option<Bytes>)>),
    /// There is no list to be had.
    Trouble(Problem),
}

impl List {
    pub(crate) fn new(ctx: Ctx) -> Self {
        Self { ctx, state: Mutex::default(), bell: watch::Sender::new(()) }
    }

    /// Looks at the list from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Looking {
        let mut state = self.lock();
        state.lookers += 1;
        if state.until.is_none() {
            self.start(&mut state);
        }
        Looking { list: Arc::clone(self), bell: self.bell.subscribe(), seen: None }
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        let failed = |error: io::Error| {
            let what = format!("the list cannot be watched: {error}");
            Some(Problem::new(Code::Unreachable, what).hint("ask again later"))
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
            changes::watch(&list.ctx, Some(theirs.as_fd()), &mut |change| list.hear(thread, change));
        };
        match std::thread::Builder::new().name("list".to_owned()).spawn(watch) {
            Ok(_) => (state.until, state.trouble) = (Some(ours), None),
            Err(error) => state.trouble = failed(error),
        }
    }

    fn hear(&self, thread: u64, change: Change) {
        // The disk is looked at before anybody has to wait for it.
        let change = match change {
            Change::Trouble(problem) => {
                tracing::warn!("the list cannot be watched: {problem}");
                Change::Trouble(or_no_store(&self.ctx.home, problem))
            }
            change @ (Change::Found(_) | Change::Loaded) => change,
        };
        let mut state = self.lock();
        if state.thread != thread || state.until.is_none() {
            return;
        }
        match change {
            Change::Found(found) => found.into_iter().for_each(|(id, found)| state.found(id, found)),
            Change::Loaded => (state.loaded, state.trouble) = (true, None),
            Change::Trouble(problem) => state.trouble = Some(problem),
        }
        drop(state);
        self.bell.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn found(&mut self, id: SessionId, found: Found) {
        let what = match found {
            Found::Known(status) => of_status(&status),
            Found::Damaged(_) => What::Damaged,
            Found::Gone => What::Gone,
        };
        let before = self.known.get(&id);
        if before.is_some_and(|entry| entry.what == what) || (before.is_none() && what == What::Gone) {
            return;
        }
        self.version += 1;
        let entry = Entry { version: self.version, what };
        self.gone += usize::from(entry.what == What::Gone);
        self.changes.insert(entry.version, id.clone());
        if let Some(before) = self.known.insert(id, entry) {
            self.changes.remove(&before.version);
            self.gone -= usize::from(before.what == What::Gone);
        }
        if self.gone > KEPT_GONE {
            self.forget_oldest_gone();
        }
    }

    fn forget_oldest_gone(&mut self) {
        let is_gone = |id: &SessionId| self.known.get(id).is_some_and(|entry| entry.what == What::Gone);
        let oldest = self.changes.iter().find(|(_, id)| is_gone(id)).map(|(at, id)| (*at, id.clone()));
        if let Some((version, id)) = oldest {
            self.changes.remove(&version);
            self.known.remove(&id);
            self.gone -= 1;
            self.forgotten = version;
        }
    }
}

fn of_status(status: &Status) -> What {
    let json =
        Shared::new(status, |status| serde_json::to_vec(status).expect("a status is plain data").into());
    let (archived, cwd) = (status.archived_at.is_some(), status.what.cwd.as_str().into());
    What::Known { json, archived, place: listing::place(status), cwd }
}

impl Looking {
    /// What is new for this caller; nothing yet. `all` says whether those put away are there.
    pub(crate) fn take(&mut self, viewer: &Viewer, all: bool) -> Option<Told> {
        self.bell.mark_unchanged();
        let state = self.list.lock();
        if !state.loaded {
            return state.trouble.clone().map(Told::Trouble);
        }
        let seen = self.seen.filter(|seen| *seen >= state.forgotten);
        let changed = state.changes.range(seen.map_or(0, |seen| seen + 1)..).map(|(_, id)| id);
        let changed =
            changed.filter(|id| viewer.may_see(id)).filter_map(|id| Some((id, state.known.get(id)?)));
        self.seen = Some(state.version);
        if seen.is_none() {
            let shown = changed.filter_map(|(id, entry)| match &entry.what {
                What::Known { json, archived, place, .. } if all || !archived => {
                    Some((*place, id, json.bytes(viewer)))
                }
                What::Known { .. } | What::Damaged | What::Gone => None,
            });
            // As `berth ls` has them.
            let mut shown: Vec<_> = shown.collect();
            shown.sort_by_key(|(place, id, _)| (*place, (*id).clone()));
            return Some(Told::All(shown.into_iter().map(|(_, _, json)| json).collect()));
        }
        let news: Vec<_> = changed
            .filter_map(|(id, entry)| match &entry.what {
                What::Known { json, .. } => Some((id.clone(), Some(json.bytes(viewer)))),
                What::Gone => Some((id.clone(), None)),
                What::Damaged => None,
            })
            .collect();
        (!news.is_empty()).then_some(Told::Some(news))
    }

    /// Directories of the sessions that are not archived, each once, that of the last active session first, at most
    /// `most`; nothing yet.
    pub(crate) fn directories(&mut self, most: usize) -> Option<Result<Vec<PathBuf>, Problem>> {
        self.bell.mark_unchanged();
        let state = self.list.lock();
        if !state.loaded {
            return state.trouble.clone().map(Err);
        }
        let mut used: HashMap<&str, Reverse<_>> = HashMap::new();
        for entry in state.known.values() {
            if let What::Known { archived: false, place: (_, active), cwd, .. } = &entry.what {
                let last = used.entry(cwd).or_insert(*active);
                *last = (*last).min(*active);
            }
        }
        let mut used: Vec<_> = used.into_iter().map(|(dir, active)| (active, dir)).collect();
        used.sort_unstable();
        Some(Ok(used.into_iter().take(most).map(|(_, dir)| dir.into()).collect()))
    }

    /// Waits until there may be more.
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

impl Drop for Looking {
    fn drop(&mut self) {
        let mut state = self.list.lock();
        state.lookers -= 1;
        if state.lookers == 0 {
            // The thread ends when its end of the stream is closed; what it knew may be old by the next time.
            let (thread, version) = (state.thread, state.version);
            *state = State { thread, version, forgotten: version, ..State::default() };
        }
    }
}
