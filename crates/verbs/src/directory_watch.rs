//! File watches on sessions: inotify on the directory of all sessions, and on each session's directory.
//!
//! Promise: reports a session that is created or purged, a state file that is rewritten, a keeper that starts to listen
//! or releases its lease. Changes before [`DirectoryWatch::add`] are not reported: add first, then read.
//! Not here: reading the sessions (see `changes` and the CLI's `ls --watch`).
//! Start with [`DirectoryWatch::new`].

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use berth_core::SessionId;
use berth_store::SessionFiles;
use berth_store::StateDir;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Sessions that may have changed.
#[derive(Debug)]
pub enum ChangedSessions {
    /// Every session: the kernel's queue overflowed, or the directory of all sessions was replaced.
    All,
    /// Only these sessions.
    Some(BTreeSet<SessionId>),
}

impl ChangedSessions {
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    pub(crate) fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Some(ids), Self::Some(more)) => ids.extend(more),
            (Self::All, _) => {}
            (Self::Some(_), Self::All) => *self = Self::All,
        }
    }
}

/// Watches the directories of sessions.
#[derive(Debug)]
pub struct DirectoryWatch {
    home: StateDir,
    /// Limit for watched sessions.
    most: usize,
    notify: Option<OwnedFd>,
    /// The watch on the directory of all sessions.
    root: i32,
    /// True if the directory of all sessions was replaced by another one, and so are those in it.
    is_elsewhere: bool,
    dirs: BTreeMap<i32, SessionId>,
    /// The sessions that `dirs` watches.
    watched: BTreeSet<SessionId>,
}

impl DirectoryWatch {
    /// Watches the directory of all sessions, and later at most `most` of them.
    pub fn new(home: StateDir, most: usize) -> Self {
        let notify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let (dirs, watched) = (BTreeMap::new(), BTreeSet::new());
        let mut watch = Self { home, most, notify, root: -1, is_elsewhere: false, dirs, watched };
        watch.begin();
        watch
    }

    /// Starts to watch the directory of all sessions, unless it is watched already.
    pub fn begin(&mut self) {
        let Some(notify) = &self.notify else { return };
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        self.root = inotify::add_watch(notify, self.home.watched_place(), flags).unwrap_or(-1);
    }

    /// Stops all reports until the next [`DirectoryWatch::begin`].
    pub(crate) fn give_up(&mut self) {
        self.root = -1;
    }

    /// Drops the watches of directories that were moved away.
    pub fn forget_moved(&mut self) {
        if let Some(notify) = &self.notify
            && std::mem::take(&mut self.is_elsewhere)
        {
            for (watch, _) in std::mem::take(&mut self.dirs) {
                let _ = inotify::remove_watch(notify, watch);
            }
            self.watched.clear();
        }
    }

    /// Readable when something changed.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.notify.as_ref().map(AsFd::as_fd)
    }

    /// True if the kernel does not report new and purged sessions.
    pub fn is_blind(&self) -> bool {
        self.notify.is_none() || self.root < 0
    }

    /// Sessions with a watch.
    pub(crate) fn watched(&self) -> &BTreeSet<SessionId> {
        &self.watched
    }

    /// Watches a session; true if the watch exists, or the session does not.
    pub fn add(&mut self, id: &SessionId) -> bool {
        let Some(notify) = self.notify.as_ref().filter(|_| !self.watched.contains(id)) else {
            return self.notify.is_some();
        };
        if self.watched.len() >= self.most {
            return false;
        }
        // The status is put in place by renaming it; a lease is closed when its holder ends.
        let flags = WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(notify, self.home.session(id).argument(), flags) {
            Ok(watch) => {
                self.dirs.insert(watch, id.clone());
                self.watched.insert(id.clone());
                true
            }
            Err(rustix::io::Errno::NOENT) => true,
            Err(_) => false,
        }
    }

    /// The sessions that changed since the last call.
    pub fn read(&mut self) -> ChangedSessions {
        let mut ids = BTreeSet::new();
        let mut forgotten = Vec::new();
        let Some(notify) = &self.notify else { return ChangedSessions::Some(ids) };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(notify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return ChangedSessions::All;
            }
            let is_away = event.events().intersects(
                ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED,
            );
            if event.wd() == self.root && is_away {
                // The watched directory was moved away. Its replacement is read as a whole.
                let _ = inotify::remove_watch(notify, self.root);
                (self.root, self.is_elsewhere) = (-1, true);
                return ChangedSessions::All;
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if event.events().contains(ReadFlags::IGNORED) {
                forgotten.push(event.wd());
            } else if event.wd() == self.root {
                ids.extend(name.and_then(SessionId::parse));
            } else if name.is_some_and(SessionFiles::is_news) {
                ids.extend(self.dirs.get(&event.wd()).cloned());
            }
        }
        for watch in forgotten {
            if let Some(id) = self.dirs.remove(&watch) {
                self.watched.remove(&id);
                ids.insert(id);
            }
        }
        ChangedSessions::Some(ids)
    }
}
