//! A list that keeps itself up to date.
//!
//! Promise: nothing is read again that did not change; nobody is asked, the kernel tells. A keeper that was killed
//! writes nothing, but it closes its lease, and that is told as well.
//! Not here: drawing.
//! Start with [`Live::begin`]; wait for [`Live::fd`], then [`Live::take_news`]; call [`Live::tick`] once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_store::view;
use berth_verbs::directory_watch::{DirectoryWatch, Due};

use super::{Filter, Listing, Seen};
use crate::ctx::Ctx;

/// How often everything is looked at if the kernel has no room for so many directories.
const WHOLE_EVERY_TICKS: u32 = 5;

/// A list, and who tells what changes in it.
pub(crate) struct Live<'a> {
    ctx: &'a Ctx,
    filter: Filter,
    seen: BTreeMap<SessionId, Seen>,
    news: DirectoryWatch,
    /// Whether there are directories the kernel does not watch for us.
    is_blind: bool,
    ticks: u32,
}

impl<'a> Live<'a> {
    /// Looks at everything, and from then on at what changes.
    pub(crate) fn begin(ctx: &'a Ctx, filter: Filter) -> Result<Self, Problem> {
        // Before the first look, so that nothing falls between the two.
        let news = DirectoryWatch::new(ctx.home.clone(), usize::MAX);
        if news.is_blind() {
            let what = format!("cannot watch {} for changes", ctx.home.display());
            return Err(Problem::new(Code::Refused, what)
                .hint("fs.inotify.max_user_instances may be too small; `berth ls` works without it"));
        }
        let mut live = Self { ctx, filter, seen: BTreeMap::new(), news, is_blind: false, ticks: 0 };
        live.look_at_all()?;
        Ok(live)
    }

    /// Readable when something may have changed.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.news.fd()
    }

    /// What is known now.
    pub(crate) fn listing(&self) -> Listing {
        super::listing(&self.filter, self.seen.values().cloned())
    }

    /// Looks at what changed. The ids are of those that were looked at.
    pub(crate) fn take_news(&mut self) -> Result<BTreeSet<SessionId>, Problem> {
        match self.news.read() {
            Due::Some(changed) => {
                changed.iter().for_each(|id| self.look_at(id));
                Ok(changed)
            }
            Due::All => {
                let before: BTreeSet<SessionId> = self.seen.keys().cloned().collect();
                self.look_at_all()?;
                Ok(self.seen.keys().cloned().chain(before).collect())
            }
        }
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
        // What could not be brought to its end once is not tried again with every change: trying changes things.
        if let Some(Seen::Shown(_, Some(_)) | Seen::Damaged(_)) = self.seen.get(id) {
            let again = super::first_look(self.ctx, &self.filter, id, berth_host::clock::wall_ms());
            if let Seen::Shown(status, None) = &again
                && status.is_unrecorded_loss()
            {
                return;
            }
            self.seen.insert(id.clone(), again);
            return;
        }
        self.seen.insert(id.clone(), super::look_at(self.ctx, &self.filter, id));
    }

    fn watch(&mut self, id: &SessionId) {
        self.is_blind |= !self.news.add(id);
    }
}
