//! Live changes of all sessions: which exist, and the status of each, for lists that update themselves.
//!
//! Promise: no polling where the kernel notifies: a session is created or purged, a state file is rewritten, a keeper
//! dies. Without a free kernel watch the session is polled every few seconds instead. A run whose keeper died is
//! recorded as ended, as by every list.
//! Not here: events inside one session (ask its keeper), the order and display of a list.
//! Start with [`watch`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::SessionId;
use berth_host::identity::Pidfd;
use berth_store::session_status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::VerbContext;
use crate::directory_watch::{ChangedSessions, DirectoryWatch};

/// Limit for sessions per batch during the first load.
const BATCH: usize = 64;
/// Changes are collected for this long: a busy session writes its state twenty times a second.
const GATHER: Duration = Duration::from_millis(50);
/// Polling interval for sessions without a kernel watch.
const SLOWLY_SECONDS: i64 = 3;
/// Limit for sessions with a file watch. An ended session beyond it is not polled.
const MAX_WATCHES: usize = 4096;
/// Limit for keepers whose death is watched. Others are polled slowly.
const MAX_PIDFDS: usize = 400;

/// State of a session at the moment of the report.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionObservation {
    /// Status of a readable session.
    Known(Box<SessionStatus>),
    /// The session exists and cannot be read.
    Damaged(Problem),
    /// The session does not exist any more.
    Gone,
}

/// One report of [`watch`].
#[derive(Clone, PartialEq, Debug)]
pub enum SessionListChange {
    /// States of some sessions.
    Found(Vec<(SessionId, SessionObservation)>),
    /// Every session that existed at the beginning has been reported.
    Loaded,
    /// The list of sessions cannot be read.
    Trouble(Problem),
}

/// Reports every session, then every change, until `until` becomes readable or its other end is closed.
pub fn watch(ctx: &VerbContext, until: Option<BorrowedFd<'_>>, tell: &mut dyn FnMut(SessionListChange)) {
    let mut watcher = SessionListWatcher {
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
        // Changes in quick succession are reported as one.
        let until = Instant::now() + GATHER;
        while !due.is_all() && Instant::now() < until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            due.add(watcher.dirs.read());
        }
        match due {
            ChangedSessions::All => watcher.look_at_all(),
            ChangedSessions::Some(ids) => watcher.look_at(ids),
        }
    }
}

struct SessionListWatcher<'a> {
    ctx: &'a VerbContext,
    until: Option<BorrowedFd<'a>>,
    tell: &'a mut dyn FnMut(SessionListChange),
    dirs: DirectoryWatch,
    keepers: BTreeMap<SessionId, (u32, Pidfd)>,
    /// Sessions with a run and without a watch: polled.
    unwatched: BTreeSet<SessionId>,
    /// Lost runs that were cleared up, or tried to be, by session and run.
    healed: BTreeSet<(SessionId, u64)>,
    /// True once every session was read.
    is_loaded: bool,
}

impl SessionListWatcher<'_> {
    fn look_at_all(&mut self) {
        self.dirs.begin();
        let known: BTreeSet<SessionId> = self.dirs.watched().union(&self.unwatched).cloned().collect();
        let ids = match self.ctx.home.list() {
            Ok(ids) => ids,
            Err(problem) => {
                (self.tell)(SessionListChange::Trouble(problem));
                // The kernel does not tell when watches are free again, so this is retried slowly.
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
            (self.tell)(SessionListChange::Loaded);
        }
    }

    fn look_at(&mut self, ids: BTreeSet<SessionId>) {
        if ids.is_empty() {
            return;
        }
        let found: Vec<(SessionId, SessionObservation)> =
            ids.into_iter().map(|id| (id.clone(), self.look_at_one(&id))).collect();
        (self.tell)(SessionListChange::Found(found));
    }

    fn look_at_one(&mut self, id: &SessionId) -> SessionObservation {
        // Adds the watch before reading, so that no later change is missed.
        // Without a free watch a session with a run is polled.
        self.dirs.add(id);
        match session_status::status(&self.ctx.home, id) {
            Ok(status) => {
                self.watch_keeper(id, status.keeper_pid);
                if status.is_unrecorded_loss() && self.healed.insert((id.clone(), status.epoch)) {
                    self.heal(id);
                }
                SessionObservation::Known(Box::new(status))
            }
            // A session that is just being created, that was given up before its first event, or that was purged.
            Err(problem) if problem.code == ProblemCode::NotFound => {
                self.keepers.remove(id);
                self.unwatched.remove(id);
                self.healed.retain(|(healed, _)| healed != id);
                SessionObservation::Gone
            }
            Err(problem) => SessionObservation::Damaged(problem),
        }
    }

    /// A killed keeper writes no more state; the kernel reports its end through a pidfd.
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

    /// Ends a run whose keeper died and whose loss is not recorded yet, as `berth ls` does. The record of the loss is
    /// the next change.
    fn heal(&self, id: &SessionId) {
        let (ctx, id) = (self.ctx.clone(), id.clone());
        // The state says "lost" before and after the clean-up, so a failure changes nothing on display.
        let _ = std::thread::Builder::new().name("heal".to_owned()).spawn(move || ctx.healed(&id).map(drop));
    }

    /// Waits until something changed; `None` when the caller has no interest any more.
    fn wait(&mut self) -> Option<ChangedSessions> {
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
                Ok(0) if is_blind => return Some(ChangedSessions::All),
                Ok(0) => return Some(ChangedSessions::Some(self.unwatched.clone())),
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
        due.add(ChangedSessions::Some(dead));
        Some(due)
    }
}
