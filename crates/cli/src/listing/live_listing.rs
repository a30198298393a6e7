//! A list of sessions that keeps itself up to date.
//!
//! Promise: a session is read again only if its files changed, as inotify reports. A killed keeper writes nothing, but
//! it closes its lease, and that is reported too.
//! Not here: drawing.
//! Start with [`LiveListing::begin`]; wait for [`LiveListing::fd`], then [`LiveListing::take_news`]; call [`LiveListing::tick`] once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use berth_api::Problem;
use berth_core::SessionId;
use berth_store::session_status;
use berth_verbs::directory_watch::{ChangedSessions, DirectoryWatch};

use super::{ListingEntry, SessionFilter, SessionListing};
use crate::ctx::CommandContext;

/// How many ticks pass between two full reads if inotify has too few watches.
const WHOLE_EVERY_TICKS: u32 = 5;

/// A list, and the watches on its sessions.
pub(crate) struct LiveListing<'a> {
    ctx: &'a CommandContext,
    filter: SessionFilter,
    seen: BTreeMap<SessionId, ListingEntry>,
    news: DirectoryWatch,
    /// True if some directories could not be watched.
    is_blind: bool,
    ticks: u32,
}

impl<'a> LiveListing<'a> {
    /// Reads all sessions, and from then on only those that change.
    pub(crate) fn begin(ctx: &'a CommandContext, filter: SessionFilter) -> Result<Self, Problem> {
        // Before the first read, so that no change falls between the two.
        let news = DirectoryWatch::new(ctx.home.clone(), usize::MAX);
        if news.is_blind() {
            let what = format!("cannot watch {} for changes", ctx.home.display());
            return Err(Problem::refused(what)
                .hint("fs.inotify.max_user_instances may be too small; `berth ls` works without it"));
        }
        let mut live = Self { ctx, filter, seen: BTreeMap::new(), news, is_blind: false, ticks: 0 };
        live.look_at_all()?;
        Ok(live)
    }

    /// Readable once something may have changed.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.news.fd()
    }

    /// The sessions as they are known now.
    pub(crate) fn listing(&self) -> SessionListing {
        super::listing(&self.filter, self.seen.values().cloned())
    }

    /// Reads the sessions that changed, and gives their ids.
    pub(crate) fn take_news(&mut self) -> Result<BTreeSet<SessionId>, Problem> {
        match self.news.read() {
            ChangedSessions::Some(changed) => {
                changed.iter().for_each(|id| self.look_at(id));
                Ok(changed)
            }
            ChangedSessions::All => {
                let before: BTreeSet<SessionId> = self.seen.keys().cloned().collect();
                self.look_at_all()?;
                Ok(self.seen.keys().cloned().chain(before).collect())
            }
        }
    }

    /// Call once a second, for changes without a file event: output that is only written, and a lease whose release a
    /// busy machine reports late.
    pub(crate) fn tick(&mut self) -> Result<(), Problem> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.is_blind && self.ticks.is_multiple_of(WHOLE_EVERY_TICKS) {
            return self.look_at_all();
        }
        let mut gone = Vec::new();
        for (id, seen) in &mut self.seen {
            let ListingEntry::Shown(status, _) = seen else { continue };
            if status.keeper_pid.is_none() {
                continue;
            }
            session_status::refresh_output(&self.ctx.home, id, status);
            if !session_status::is_keeper_alive(status.keeper_pid) {
                gone.push(id.clone());
            }
        }
        gone.iter().for_each(|id| self.look_at(id));
        Ok(())
    }

    fn look_at_all(&mut self) -> Result<(), Problem> {
        self.news.begin();
        let ids = super::ids(self.ctx)?;
        self.news.forget_moved();
        self.is_blind = self.news.is_blind();
        ids.iter().for_each(|id| self.watch(id));
        let seen = super::look_at_all(self.ctx, &self.filter, &ids);
        self.seen = ids.into_iter().zip(seen).collect();
        Ok(())
    }

    fn look_at(&mut self, id: &SessionId) {
        if !self.ctx.home.session(id).exists() {
            self.seen.remove(id);
            return;
        }
        self.watch(id);
        // A session whose recovery failed once is not recovered again at every change: recovery itself changes files.
        if let Some(ListingEntry::Shown(_, Some(_)) | ListingEntry::Damaged(_)) = self.seen.get(id) {
            let again = super::first_look(self.ctx, &self.filter, id, berth_host::clock::wall_ms());
            if let ListingEntry::Shown(status, None) = &again
                && status.is_unrecorded_loss()
            {
                return;
            }
            self.seen.insert(id.clone(), again);
            return;
        }
        self.seen.insert(id.clone(), super::read_entry(self.ctx, &self.filter, id));
    }

    fn watch(&mut self, id: &SessionId) {
        self.is_blind |= !self.news.add(id);
    }
}
