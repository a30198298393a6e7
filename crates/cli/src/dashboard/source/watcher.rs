//! The list: which sessions there are, and what is known of each, as it changes.
//!
//! Promise: nothing is polled for that the kernel tells: a session that is made or purged, a state that is
//! written anew, a keeper that dies. Where the kernel has no more watches to give, that is looked at every few
//! seconds instead.
//! Start with [`watch`].

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::identity::Pidfd;
use berth_keeper::view;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::super::model::Found;
use super::super::row::Known;
use super::{Mailbox, timespec};
use crate::ctx::{Ctx, is_unrecorded_loss};

/// How many are told of at once while everything is looked at for the first time.
const BATCH: usize = 64;
/// Changes are gathered this long: a busy session writes its state twenty times a second.
const GATHER: Duration = Duration::from_millis(50);
/// How often is looked at what the kernel does not tell of.
const SLOWLY: Duration = Duration::from_secs(3);
/// How many sessions are watched for changes. One that is over and beyond that is not looked at again.
const MAX_WATCHES: usize = 4096;
/// How many keepers are watched for their death. The rest is looked at slowly.
const MAX_PIDFDS: usize = 400;

pub(super) fn watch(ctx: &Arc<Ctx>, mailbox: &Mailbox) {
    let mut watcher = Watcher {
        ctx,
        mailbox,
        notify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok(),
        root: -1,
        dirs: BTreeMap::new(),
        watched: BTreeSet::new(),
        keepers: BTreeMap::new(),
        unwatched: BTreeSet::new(),
        healed: BTreeSet::new(),
    };
    watcher.look_at_all();
    mailbox.put(|inbox| inbox.loaded = true);
    loop {
        let mut due = watcher.wait();
        // What comes in quick succession is one change.
        let until = Instant::now() + GATHER;
        while !due.is_all() && Instant::now() < until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            due.add(watcher.read());
        }
        match due {
            Due::All => watcher.look_at_all(),
            Due::Some(ids) => watcher.look_at(ids),
        }
    }
}

/// What has to be looked at.
enum Due {
    All,
    Some(BTreeSet<SessionId>),
}

impl Due {
    fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Some(ids), Self::Some(more)) => ids.extend(more),
            (Self::All, _) => {}
            (Self::Some(_), Self::All) => *self = Self::All,
        }
    }
}

struct Watcher<'a> {
    ctx: &'a Arc<Ctx>,
    mailbox: &'a Mailbox,
    notify: Option<OwnedFd>,
    /// The watch on the directory of all sessions.
    root: i32,
    dirs: BTreeMap<i32, SessionId>,
    /// The sessions in `dirs`.
    watched: BTreeSet<SessionId>,
    keepers: BTreeMap<SessionId, (u32, Pidfd)>,
    /// Who runs and is not watched.
    unwatched: BTreeSet<SessionId>,
    /// Losses that were cleared up, or tried to, by session and run.
    healed: BTreeSet<(SessionId, u64)>,
}

impl Watcher<'_> {
    fn look_at_all(&mut self) {
        if let Some(notify) = &self.notify {
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::ONLYDIR;
            self.root = inotify::add_watch(notify, self.ctx.home.sessions_dir(), flags).unwrap_or(-1);
        }
        let known: BTreeSet<SessionId> = self.watched.union(&self.unwatched).cloned().collect();
        let ids = match self.ctx.home.session_ids() {
            Ok(ids) => ids,
            Err(error) => {
                let what = format!("cannot list {}: {error}", self.ctx.home.sessions_dir().display());
                let problem = Problem::new(Code::Refused, what);
                self.mailbox.put(|inbox| inbox.trouble = Some(problem));
                return;
            }
        };
        let gone: BTreeSet<SessionId> =
            known.into_iter().filter(|id| ids.binary_search(id).is_err()).collect();
        self.look_at(gone);
        for batch in ids.chunks(BATCH) {
            self.look_at(batch.iter().cloned().collect());
        }
    }

    fn look_at(&mut self, ids: BTreeSet<SessionId>) {
        if ids.is_empty() {
            return;
        }
        let found: Vec<(SessionId, Found)> =
            ids.into_iter().map(|id| (id.clone(), self.look_at_one(&id))).collect();
        self.mailbox.put(|inbox| inbox.found.extend(found));
    }

    fn look_at_one(&mut self, id: &SessionId) -> Found {
        // The watch first: what changes from now on is told.
        self.add_watch(id);
        match view::status(&self.ctx.home, id) {
            Ok(status) => {
                self.watch_keeper(id, status.keeper_pid);
                if is_unrecorded_loss(&status) && self.healed.insert((id.clone(), status.epoch)) {
                    self.heal(id);
                }
                Found::Known(Box::new(Known::Status(Box::new(status))))
            }
            // Being made this very moment, given up before anything was said in it, or purged.
            Err(problem) if problem.code == Code::NotFound => {
                self.keepers.remove(id);
                self.unwatched.remove(id);
                Found::Gone
            }
            Err(problem) => Found::Known(Box::new(Known::Damaged(problem))),
        }
    }

    fn add_watch(&mut self, id: &SessionId) {
        if self.watched.contains(id) || self.watched.len() >= MAX_WATCHES {
            return;
        }
        let flags = WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let dir = self.ctx.home.session_dir(id);
        let Some(notify) = &self.notify else { return };
        // Where there is none to be had, who runs is looked at slowly.
        if let Ok(watch) = inotify::add_watch(notify, &dir, flags) {
            self.dirs.insert(watch, id.clone());
            self.watched.insert(id.clone());
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
                if !self.watched.contains(id) {
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
        let (ctx, id) = (Arc::clone(self.ctx), id.clone());
        // Its state says "lost" until it is cleared up, and after: a failure changes nothing that is shown.
        let _ = std::thread::Builder::new().name("heal".to_owned()).spawn(move || ctx.healed(&id).map(drop));
    }

    /// Waits until something changed.
    fn wait(&mut self) -> Due {
        let dead = {
            let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.keepers.len() + 1);
            fds.extend(
                self.notify.iter().map(|notify| PollFd::from_borrowed_fd(notify.as_fd(), PollFlags::IN)),
            );
            let first = fds.len();
            let keepers = self.keepers.values();
            fds.extend(keepers.map(|(_, pidfd)| PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)));
            let slowly = timespec(SLOWLY);
            let is_blind = self.notify.is_none() || self.root < 0;
            let timeout = (is_blind || !self.unwatched.is_empty()).then_some(&slowly);
            match poll(&mut fds, timeout) {
                Ok(0) if is_blind => return Due::All,
                Ok(0) => return Due::Some(self.unwatched.clone()),
                Ok(_) | Err(_) => {}
            }
            let ended = fds[first..].iter().map(|fd| !fd.revents().is_empty());
            let ended = self.keepers.keys().zip(ended).filter(|(_, ended)| *ended);
            ended.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>()
        };
        self.keepers.retain(|id, _| !dead.contains(id));
        let mut due = self.read();
        due.add(Due::Some(dead));
        due
    }

    /// What the kernel has told so far.
    fn read(&mut self) -> Due {
        let mut ids = BTreeSet::new();
        let mut forgotten = Vec::new();
        let Some(notify) = &self.notify else { return Due::Some(ids) };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(notify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Due::All;
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if event.events().contains(ReadFlags::IGNORED) {
                forgotten.push(event.wd());
            } else if event.wd() == self.root {
                ids.extend(name.and_then(SessionId::parse));
            } else if matches!(name, Some(view::STATUS_FILE | berth_api::client::SOCKET_NAME)) {
                ids.extend(self.dirs.get(&event.wd()).cloned());
            }
        }
        for watch in forgotten {
            if let Some(id) = self.dirs.remove(&watch) {
                self.watched.remove(&id);
                ids.insert(id);
            }
        }
        Due::Some(ids)
    }
}
