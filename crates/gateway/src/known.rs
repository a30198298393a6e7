//! Sessions that were looked at a moment ago, with the answer as it was sent.
//!
//! Promise: an answer is given again only if the kernel told of no change to the files it follows from, and its keeper
//! lives, at the moment it is asked for; that is one system call. It holds nothing that is not on disk, and no more
//! than [`MOST_KNOWN`] of them. Where nothing can be watched, nothing is remembered.
//! Start with [`Known::again`].

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use berth_core::SessionId;
use berth_host::clock;
use berth_keeper::{Home, Sight};
use bytes::Bytes;
use rustix::fs::inotify::WatchFlags;

use crate::notices::{ANY_CHANGE, MOVED_AWAY, Notice, Notices};

/// How many are remembered. Each costs three watches, and one that runs a descriptor.
const MOST_KNOWN: usize = 256;
/// How old an answer may be that counts down.
const COUNTDOWN_STEP_MS: u64 = 20;

/// What is remembered.
#[derive(Debug)]
pub(crate) struct Known {
    notices: Option<Notices>,
    memory: RwLock<Memory>,
    /// Held by who looks at a session to remember it.
    looking: Mutex<()>,
}

#[derive(Debug, Default)]
struct Memory {
    entries: HashMap<SessionId, Entry>,
    /// Who is watched: who is not, and has no entry, has changed since somebody began to look.
    watched: HashMap<SessionId, Vec<i32>>,
    watches: HashMap<i32, Of>,
    /// The keepers, by the numbers their ends are told by.
    keepers: HashMap<u64, SessionId>,
    last_number: u64,
}

/// What a watch is about.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    /// Where all of them are.
    All,
    One(SessionId),
}

#[derive(Debug)]
struct Entry {
    sight: Sight,
    body: Mutex<Encoded>,
    number: u64,
}

#[derive(Clone, Debug)]
struct Encoded {
    at_ms: u64,
    body: Bytes,
}

impl Known {
    /// One that remembers, or one that does not: what tells of changes is scarce, and who asks only once needs none.
    pub(crate) fn new(remembers: bool) -> Self {
        let notices = remembers.then(Notices::open).and_then(Result::ok);
        Self { notices, memory: RwLock::default(), looking: Mutex::default() }
    }

    /// The answer about the session that is called so, if it is known and everything is as it was.
    pub(crate) fn again(&self, home: &Home, handle: &str) -> Option<(SessionId, Bytes)> {
        let notices = self.notices.as_ref()?;
        // First this, then what is remembered: see `Notices::take`.
        if notices.are_there() {
            self.write().hear(notices);
        }
        // A whole id first: a name that looks like one must not redirect it.
        // One that is not remembered is looked up the long way.
        if let Some(id) = SessionId::parse(handle) {
            return Some((id.clone(), self.body(&id, |_| true)?));
        }
        if self.read().entries.is_empty() {
            return None;
        }
        let id = home.pointed_at_by(handle)?;
        // What the session says of itself counts.
        let body = self.body(&id, |sight| sight.name() == Some(handle))?;
        Some((id, body))
    }

    /// Looks at a session, and remembers it if its files alone tell what is known, and nothing happened meanwhile.
    pub(crate) fn look(&self, home: &Home, id: &SessionId) -> Option<Bytes> {
        let notices = self.notices.as_ref()?;
        // Whoever comes meanwhile looks for themselves, and leaves the memory alone.
        let _looking = match self.looking.try_lock() {
            Ok(looking) => looking,
            Err(TryLockError::Poisoned(looking)) => looking.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.write().expect(notices, home, id)?;
        let seen = Sight::take(home, id).and_then(|sight| Some((encoded(&sight)?, sight)));
        let mut memory = self.write();
        let body = seen.and_then(|(body, sight)| memory.keep(notices, id, sight, body));
        if body.is_none() {
            memory.forget(notices, id);
        }
        body
    }

    fn body(&self, id: &SessionId, is_meant: impl Fn(&Sight) -> bool) -> Option<Bytes> {
        let memory = self.read();
        memory.entries.get(id).filter(|entry| is_meant(&entry.sight)).map(Entry::body)
    }

    fn read(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Memory> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Forgets what may have changed.
    fn hear(&mut self, notices: &Notices) {
        for notice in notices.take() {
            let of = match notice {
                Notice::Changed { watch, .. } => self.watches.get(&watch).cloned(),
                Notice::Ended(number) => self.keepers.get(&number).cloned().map(Of::One),
                Notice::Lost => Some(Of::All),
            };
            match of {
                Some(Of::One(id)) => self.forget(notices, &id),
                Some(Of::All) => self.forget_all(notices),
                // The last word of a watch that was given up.
                None => {}
            }
        }
    }

    /// Has everything told that happens to a session from now on.
    fn expect(&mut self, notices: &Notices, home: &Home, id: &SessionId) -> Option<()> {
        self.hear(notices);
        self.forget(notices, id);
        if self.entries.len() >= MOST_KNOWN {
            self.forget_all(notices);
        }
        // A session is where all of them are, and that may be moved away as a whole.
        for dir in [home.root().to_owned(), home.sessions_dir()] {
            self.watches.insert(notices.watch(&dir, MOVED_AWAY).ok()?, Of::All);
        }
        let watched = self.watched.entry(id.clone()).or_default();
        let mut is_watched = true;
        for dir in Sight::follows_from(home, id) {
            // For once: one that changes all the time and that nobody asks about fills no queue.
            match notices.watch(&dir, ANY_CHANGE | WatchFlags::ONESHOT) {
                Ok(watch) => {
                    watched.push(watch);
                    self.watches.insert(watch, Of::One(id.clone()));
                }
                // Not every session has all of them. One that comes later is a change in the first.
                Err(error) => is_watched &= error.kind() == io::ErrorKind::NotFound,
            }
        }
        if is_watched {
            return Some(());
        }
        self.forget(notices, id);
        None
    }

    /// Remembers what was seen, unless something happened since it was expected.
    fn keep(&mut self, notices: &Notices, id: &SessionId, sight: Sight, body: Encoded) -> Option<Bytes> {
        if !self.watched.contains_key(id) {
            return None;
        }
        self.last_number += 1;
        let (number, again) = (self.last_number, body.body.clone());
        if let Some(keeper) = sight.keeper() {
            notices.attend(keeper, number).ok()?;
            self.keepers.insert(number, id.clone());
        }
        self.entries.insert(id.clone(), Entry { sight, body: Mutex::new(body), number });
        self.hear(notices);
        self.entries.contains_key(id).then_some(again)
    }

    fn forget(&mut self, notices: &Notices, id: &SessionId) {
        if let Some(entry) = self.entries.remove(id) {
            self.keepers.remove(&entry.number);
            if let Some(keeper) = entry.sight.keeper() {
                notices.leave(keeper);
            }
        }
        for watch in self.watched.remove(id).unwrap_or_default() {
            self.watches.remove(&watch);
            notices.unwatch(watch);
        }
    }

    fn forget_all(&mut self, notices: &Notices) {
        let all: Vec<SessionId> = self.watched.keys().cloned().collect();
        all.iter().for_each(|id| self.forget(notices, id));
        for (watch, _) in self.watches.drain() {
            notices.unwatch(watch);
        }
    }
}

impl Entry {
    fn body(&self) -> Bytes {
        let mut last = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = || clock::wall_ms().saturating_sub(last.at_ms) > COUNTDOWN_STEP_MS;
        if self.sight.counts_down()
            && is_old()
            && let Some(next) = encoded(&self.sight)
        {
            *last = next;
        }
        last.body.clone()
    }
}

fn encoded(sight: &Sight) -> Option<Encoded> {
    let body = serde_json::to_vec(&sight.status()).ok()?;
    Some(Encoded { at_ms: clock::wall_ms(), body: body.into() })
}
