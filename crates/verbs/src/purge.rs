//! Purging: sessions that are deleted for good.
//!
//! Promise: a running session, or one whose state is not certain, is refused before anything is deleted; a session that
//! changed since it was examined is kept.
//! Not here: the deletion itself (see `deletion`), the confirmation by the user.
//! Start with [`named`].

mod deletion;

use std::time::Duration;

use berth_api::{Problem, SessionState, SessionStatus};
use berth_core::{CallerAction, SessionId};
use berth_store::session_status;
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::VerbContext;
pub(crate) use deletion::finish;

/// A session that is purged, or would be.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Purged")]
pub struct PurgedSession {
    /// Id of the session.
    pub id: String,
    /// Name of the session.
    pub name: Option<String>,
    /// Key with which the session was created.
    pub key: Option<String>,
    /// State before the purge.
    pub state: SessionState,
    /// Size of the session's files, in bytes.
    pub bytes: u64,
    /// True if the session was deleted.
    pub purged: bool,
    #[serde(skip)]
    session: SessionId,
    /// Number of the last event that was examined.
    #[serde(skip)]
    seen: u64,
}

impl PurgedSession {
    fn new(ctx: &VerbContext, session: SessionId, status: SessionStatus) -> Self {
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

    /// The session's name, else its id.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// Deletes the session, if nothing happened in it since it was examined: a session that was restored, or archived
    /// again, is kept.
    pub fn purge(&mut self, ctx: &VerbContext) -> Result<(), Problem> {
        ctx.may(CallerAction::Purge, &self.session)?;
        let bytes = deletion::purge(&ctx.home, &self.session, self.seen)?;
        (self.purged, self.bytes) = (true, bytes);
        Ok(())
    }
}

/// A session that a user named. It is refused if it runs, or if its state is not certain.
pub fn named(ctx: &VerbContext, id: &SessionId, handle: &str) -> Result<PurgedSession, Problem> {
    let status = ctx.status(id)?;
    if !status.is_over() {
        let what = format!("session `{handle}` is {}, and a running session cannot be purged", status.state);
        return Err(Problem::held(format!("{what}; nothing was deleted"))
            .hint(format!("end it with `berth stop {handle}` first")));
    }
    Ok(PurgedSession::new(ctx, id.clone(), status))
}

/// The sessions that were archived for this long.
pub fn archived(ctx: &VerbContext, older_than: Option<Duration>) -> Result<Vec<PurgedSession>, Problem> {
    let age_ms = older_than.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let now = berth_host::clock::wall_ms();
    let ids = crate::listing::ids(ctx)?;
    let is_meant = |status: &SessionStatus| {
        let age = status.archived_at.map(|at| now.saturating_sub(at.0));
        status.state == SessionState::Archived && age.is_some_and(|age| age >= age_ms)
    };
    let known = ids.into_iter().filter_map(|id| {
        // A session that cannot be read is not known to be archived, and is kept.
        let status = session_status::status(&ctx.home, &id).ok().filter(is_meant)?;
        Some(PurgedSession::new(ctx, id, status))
    });
    Ok(known.collect())
}
