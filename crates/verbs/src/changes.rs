//! Which sessions there are, and what is known of each, as it changes: for lists that live.
//!
//! Promise: nothing is polled for that the kernel tells: a session that is made or purged, a state that is
//! written anew, a keeper that dies. Where the kernel has no more watches to give, that is looked at every few
//! seconds instead. A run whose keeper died is brought to its end, as by every list.
//! Not here: what one session does (ask its keeper), how a list is ordered and shown.
//! Start with [`watch`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_host::identity::Pidfd;
use berth_store::view;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ctx::Ctx;
use crate::directory_watch::{DirectoryWatch, Due};

/// How many are told of at once while everything is looked at for the first time.
const BATCH: usize = 64;
/// Changes are gathered this long: a busy session writes its state twenty times a second.
const GATHER: Duration = Duration::from_millis(50);
/// How often is looked at what the kernel does not tell of.
const SLOWLY_SECONDS: i64 = 3;
/// How many sessions are watched for changes. One that is over and beyond that is not looked at again.
const MAX_WATCHES: usize = 4096;
/// How many keepers are watched for their death. The rest is looked at slowly.
const MAX_PIDFDS: usize = 400;

/// What was found out about a session.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// What is known of it.
    Known(Box<Status>),
    /// It is there, and cannot be read.
    Damaged(Problem),
    /// It is not there.
    Gone,
}

/// What is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// About some sessions.
    Found(Vec<(SessionId, Found)>),
    /// Every session that was there at the beginning has been told of.
    Loaded,
    /// The sessions cannot be listed.
    Trouble(Problem),
}

/// Tells of every session, and then of every change, until there is something to read from `until`, or its other
/// end is closed.
pub fn watch(ctx: &Ctx, until: Option<BorrowedFd<'_>>, tell: &mut dyn FnMut(Change)) {
    let mut watcher = Watcher {
        ctx,
        until,
        tell,
        dirs: DirectoryWatch::new(ctx.home.clone(), MAX_WATCHES),
        keepers: BTreeMap::new(),
        unwatched: BTreeSet::new(),
        healed: BTreeSet::new(),
        is_loaded: false,
    };
    watcher.look_at_all();
    while let Some(mut due) = watcher.wait() {
        // What comes in quick succession is one change.
        let until = Instant::now() + GATHER;
        while !due.is_all() && Instant::now() < until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            due.add(watcher.dirs.read());
        }
        match due {
            Due::All => watcher.look_at_all(),
            Due::Some(ids) => watcher.look_at(ids),
        }
    }
}

struct Watcher<'a> {
    ctx: &'a Ctx,
    until: Option<BorrowedFd<'a>>,
    tell: &'a mut dyn FnMut(Change),
    dirs: DirectoryWatch,
    keepers: BTreeMap<SessionId, (u32, Pidfd)>,
    /// Who runs and is not watched.
    unwatched: BTreeSet<SessionId>,
    /// Losses that were cleared up, or tried to, by session and run.
    healed: BTreeSet<(SessionId, u64)>,
    /// Everything was looked at once.
    is_loaded: bool,
}

impl Watcher<'_> {
    fn look_at_all(&mut self) {
        self.dirs.begin();
        let known: BTreeSet<SessionId> = self.dirs.watched().union(&self.unwatched).cloned().collect();
        let ids = match self.ctx.home.list() {
            Ok(ids) => ids,
            Err(problem) => {
                (self.tell)(Change::Trouble(problem));
                // Nobody tells when it gets better: it is tried again slowly.
                self.dirs.give_up();
                return;
            }
        };
        self.dirs.forget_moved();
        let gone: BTreeSet<SessionId> =
            known.into_iter().filter(|id| ids.binary_search(id).is_err()).collect();
        self.look_at(gone);
        for batch in ids.chunks(BATCH) {
            self.look_at(batch.iter().cloned().collect());
        }
        if !std::mem::replace(&mut self.is_loaded, true) {
            (self.tell)(Change::Loaded);
        }
    }

    fn look_at(&mut self, ids: BTreeSet<SessionId>) {
        if ids.is_empty() {
            return;
        }
        let found: Vec<(SessionId, Found)> =
            ids.into_iter().map(|id| (id.clone(), self.look_at_one(&id))).collect();
        (self.tell)(Change::Found(found));
    }

    fn look_at_one(&mut self, id: &SessionId) -> Found {
        // The watch first: what changes from now on is told.
        // Where there is none to be had, who runs is looked at slowly.
        self.dirs.add(id);
        match view::status(&self.ctx.home, id) {
            Ok(status) => {
                self.watch_keeper(id, status.keeper_pid);
                if status.is_unrecorded_loss() && self.healed.insert((id.clone(), status.epoch)) {
                    self.heal(id);
                }
                Found::Known(Box::new(status))
            }
            // Being made this very moment, given up before anything was said in it, or purged.
            Err(problem) if problem.code == Code::NotFound => {
                self.keepers.remove(id);
                self.unwatched.remove(id);
                self.healed.retain(|(healed, _)| healed != id);
                Found::Gone
            }
            Err(problem) => Found::Damaged(problem),
        }
    }

    /// A keeper that is killed writes nothing any more; the kernel tells of its end.
    fn watch_keeper(&mut self, id: &SessionId, pid: Option<u32>) {
        if self.keepers.get(id).map(|(pid, _)| *pid) == pid {
            return;
        }
        self.keepers.remove(id);
        self.unwatched.remove(id);
        let Some(pid) = pid else { return };
        let has_room = self.keepers.len() < MAX_PIDFDS;
        match Pidfd::open(pid).ok().filter(|_| has_room) {
            Some(pidfd) => {
                self.keepers.insert(id.clone(), (pid, pidfd));
                if !self.dirs.watched().contains(id) {
                    self.unwatched.insert(id.clone());
                }
            }
            None => {
                self.unwatched.insert(id.clone());
            }
        }
    }

    /// A loss nobody has recorded yet: what the run left behind is ended, as `berth ls` does. The record that
    /// makes is the next change.
    fn heal(&self, id: &SessionId) {
        let (ctx, id) = (self.ctx.clone(), id.clone());
        // Its state says "lost" until it is cleared up, and after: a failure changes nothing that is shown.
        let _ = std::thread::Builder::new().name("heal".to_owned()).spawn(move || ctx.healed(&id).map(drop));
    }

    /// Waits until something changed; `None` when nobody wants to know any more.
    fn wait(&mut self) -> Option<Due> {
        let dead = {
            let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.keepers.len() + 2);
            fds.extend(self.until.map(|until| PollFd::from_borrowed_fd(until, PollFlags::IN)));
            fds.extend(self.dirs.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let first = fds.len();
            let keepers = self.keepers.values();
            fds.extend(keepers.map(|(_, pidfd)| PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)));
            let slowly = Timespec { tv_sec: SLOWLY_SECONDS, tv_nsec: 0 };
            let is_blind = self.dirs.is_blind();
            let timeout = (is_blind || !self.unwatched.is_empty()).then_some(&slowly);
            match poll(&mut fds, timeout) {
                Ok(0) if is_blind => return Some(Due::All),
                Ok(0) => return Some(Due::Some(self.unwatched.clone())),
                Ok(_) | Err(_) => {}
            }
            if self.until.is_some() && !fds[0].revents().is_empty() {
                return None;
            }
            let ended = fds[first..].iter().map(|fd| !fd.revents().is_empty());
            let ended = self.keepers.keys().zip(ended).filter(|(_, ended)| *ended);
            ended.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>()
        };
        self.keepers.retain(|id, _| !dead.contains(id));
        let mut due = self.dirs.read();
        due.add(Due::Some(dead));
        Some(due)
    }
}
