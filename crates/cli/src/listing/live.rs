//! A list that keeps itself up to date.
//!
//! Promise: nothing is read again that did not change; nobody is asked, the kernel tells. A keeper that was killed
//! writes nothing, but it closes its lease, and that is told as well.
//! Not here: drawing.
//! Start with [`Live::begin`]; wait for [`Live::fd`], then [`Live::take_news`]; call [`Live::tick`] once a second.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_keeper::view;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::{Filter, Listing, Seen};
use crate::ctx::{Ctx, is_unrecorded_loss};

/// How often everything is looked at if the kernel has no room for so many directories.
const WHOLE_EVERY_TICKS: u32 = 5;

/// A list, and who tells what changes in it.
pub(crate) struct Live<'a> {
    ctx: &'a Ctx,
    filter: Filter,
    seen: BTreeMap<SessionId, Seen>,
    news: OwnedFd,
    /// What each watch is about; the directory of all sessions is about none of them.
    watches: HashMap<i32, SessionId>,
    /// Whether there are directories the kernel does not watch for us.
    is_blind: bool,
    ticks: u32,
}

impl<'a> Live<'a> {
    /// Looks at everything, and from then on at what changes.
    pub(crate) fn begin(ctx: &'a Ctx, filter: Filter) -> Result<Self, Problem> {
        let cannot = |what: &str, error: rustix::io::Errno| {
            Problem::new(Code::Refused, format!("cannot watch {what}: {error}"))
                .hint("fs.inotify.max_user_instances may be too small; `berth ls` works without it")
        };
        let news = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|error| cannot("for changes", error))?;
        let dir = ctx.home.sessions_dir();
        // Before the first look, so that nothing falls between the two.
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        inotify::add_watch(&news, &dir, flags | WatchFlags::ONLYDIR)
            .map_err(|error| cannot(&dir.display().to_string(), error))?;
        let (seen, watches) = (BTreeMap::new(), HashMap::new());
        let mut live = Self { ctx, filter, seen, news, watches, is_blind: false, ticks: 0 };
        live.look_at_all()?;
        Ok(live)
    }

    /// Readable when something may have changed.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// What is known now.
    pub(crate) fn listing(&self) -> Listing {
        super::listing(&self.filter, self.seen.values().cloned())
    }

    /// Looks at what changed. The ids are of those that were looked at.
    pub(crate) fn take_news(&mut self) -> Result<BTreeSet<SessionId>, Problem> {
        let mut changed = BTreeSet::new();
        let mut is_anything_else = false;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.news, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            match self.watches.get(&event.wd()) {
                Some(_) if flags.contains(ReadFlags::IGNORED) => drop(self.watches.remove(&event.wd())),
                Some(id) => drop(changed.insert(id.clone())),
                None => is_anything_else = true,
            }
        }
        if is_anything_else {
            changed.extend(self.look_for_others()?);
        }
        for id in &changed {
            self.look_at(id);
        }
        Ok(changed)
    }

    /// What no file tells: output is written without a word, and a machine may be too busy to see a lease freed
    /// together with its end.
    pub(crate) fn tick(&mut self) -> Result<(), Problem> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.is_blind && self.ticks.is_multiple_of(WHOLE_EVERY_TICKS) {
            return self.look_at_all();
        }
        let mut gone = Vec::new();
        for (id, seen) in &mut self.seen {
            let Seen::Shown(status, _) = seen else { continue };
            if status.keeper_pid.is_none() {
                continue;
            }
            view::refresh_output(&self.ctx.home, id, status);
            if !view::is_there(status.keeper_pid) {
                gone.push(id.clone());
            }
        }
        gone.iter().for_each(|id| self.look_at(id));
        Ok(())
    }

    fn look_at_all(&mut self) -> Result<(), Problem> {
        let ids = super::ids(self.ctx)?;
        self.is_blind = false;
        ids.iter().for_each(|id| self.watch(id));
        let seen = super::look_at_all(self.ctx, &self.filter, &ids);
        self.seen = ids.into_iter().zip(seen).collect();
        Ok(())
    }

    /// Sessions that came or went.
    fn look_for_others(&mut self) -> Result<Vec<SessionId>, Problem> {
        let ids: BTreeSet<SessionId> = super::ids(self.ctx)?.into_iter().collect();
        let gone: Vec<SessionId> = self.seen.keys().filter(|id| !ids.contains(id)).cloned().collect();
        gone.iter().for_each(|id| drop(self.seen.remove(id)));
        let new: Vec<SessionId> = ids.into_iter().filter(|id| !self.seen.contains_key(id)).collect();
        new.iter().for_each(|id| self.watch(id));
        Ok(new.into_iter().chain(gone).collect())
    }

    fn look_at(&mut self, id: &SessionId) {
        if !self.ctx.home.session_dir(id).is_dir() {
            self.seen.remove(id);
            return;
        }
        // What could not be brought to its end once is not tried again with every change: trying changes things.
        if let Some(Seen::Shown(_, Some(_)) | Seen::Damaged(_)) = self.seen.get(id) {
            let again = super::first_look(self.ctx, &self.filter, id, berth_host::clock::wall_ms());
            if let Seen::Shown(status, None) = &again
                && is_unrecorded_loss(status)
            {
                return;
            }
            self.seen.insert(id.clone(), again);
            return;
        }
        self.seen.insert(id.clone(), super::look_at(self.ctx, &self.filter, id));
    }

    fn watch(&mut self, id: &SessionId) {
        // The short cut is put in place by renaming it; a lease is closed when its holder ends.
        let flags = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.news, self.ctx.home.session_dir(id), flags) {
            Ok(watch) => drop(self.watches.insert(watch, id.clone())),
            // Gone again.
            Err(rustix::io::Errno::NOENT) => {}
            Err(_) => self.is_blind = true,
        }
    }
}
