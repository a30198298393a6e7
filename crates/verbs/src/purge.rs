//! Sessions deleted for good: which, and what goes with them.
//!
//! Promise: what runs, or cannot be told not to, is refused before anything is deleted; what changed since it was
//! looked at is kept.
//! Not here: the deleting itself (see `berth_keeper::purge`), asking for a yes.
//! Start with [`named`].

use std::time::Duration;

use berth_api::{Code, Problem, SessionState, Status};
use berth_core::{Deed, SessionId};
use berth_keeper::purge;
use berth_store::view;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ctx::Ctx;

/// What is deleted of one session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Purged")]
pub struct Doomed {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// The caller's key.
    pub key: Option<String>,
    /// The state it was in.
    pub state: SessionState,
    /// How many bytes it has, or had.
    pub bytes: u64,
    /// Whether it is gone.
    pub purged: bool,
    #[serde(skip)]
    session: SessionId,
    /// The last event that was looked at.
    #[serde(skip)]
    seen: u64,
}

impl Doomed {
    fn new(ctx: &Ctx, session: SessionId, status: Status) -> Self {
        let bytes = ctx.home.session(&session).size();
        let (name, key) = (status.name, status.what.key);
        Self {
            id: status.id,
            name,
            key,
            state: status.state,
            bytes,
            purged: false,
            session,
            seen: status.seq,
        }
    }

    /// How people address it.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// Deletes it, if nothing happened in it since it was looked at: one that came back, or was put away anew, is
    /// another.
    pub fn purge(&mut self, ctx: &Ctx) -> Result<(), Problem> {
        ctx.may(Deed::Purge, &self.session)?;
        let bytes = purge::purge(&ctx.home, &self.session, self.seen)?;
        (self.purged, self.bytes) = (true, bytes);
        Ok(())
    }
}

/// One that somebody named. If it runs, or cannot be told not to, that is refused.
pub fn named(ctx: &Ctx, id: &SessionId, handle: &str) -> Result<Doomed, Problem> {
    let status = ctx.status(id)?;
    if !status.is_over() {
        let what = format!("session `{handle}` is {}, and what runs is not purged", status.state);
        return Err(Problem::new(Code::Held, format!("{what}; nothing was deleted"))
            .hint(format!("end it with `berth stop {handle}` first")));
    }
    Ok(Doomed::new(ctx, id.clone(), status))
}

/// Those that were put away, for so long.
pub fn archived(ctx: &Ctx, older_than: Option<Duration>) -> Result<Vec<Doomed>, Problem> {
    let age_ms = older_than.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let now = berth_host::clock::wall_ms();
    let ids = crate::listing::ids(ctx)?;
    let is_meant = |status: &Status| {
        let age = status.archived_at.map(|at| now.saturating_sub(at.0));
        status.state == SessionState::Archived && age.is_some_and(|age| age >= age_ms)
    };
    let known = ids.into_iter().filter_map(|id| {
        // One that cannot be read is not known to be archived, and is kept.
        let status = view::status(&ctx.home, &id).ok().filter(is_meant)?;
        Some(Doomed::new(ctx, id, status))
    });
    Ok(known.collect())
}
