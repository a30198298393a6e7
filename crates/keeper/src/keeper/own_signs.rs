//! The conversation of an agent in a terminal that tells nothing by hooks: learned from the agent's own signs.
//!
//! Some agents run no hook that a person did not trust, and a person's settings can turn hooks off. The session would not
//! know which conversation it has, and its next run would begin an empty one.
//! Promise: the keeper looks only after the terminal showed something, so that an idle agent costs nothing, and before keys that
//! may end the agent reach it. Where hooks tell, they count, and nothing is looked at.
//! Not here: the signs (`writers::open_in`), the right to write a conversation (`conversation`).
//! Start with [`Keeper::look_for_conversation`].

use berth_core::Phase;
use berth_host::clock;
use berth_transcript::Kind;

use super::Keeper;
use crate::turn;
use crate::writers::{self, WrappedAgent};

/// The shortest time between two looks while no conversation is known.
const UNKNOWN_PAUSE_MS: u64 = 500;
/// The pause once a conversation is known: users rarely change it.
const KNOWN_PAUSE_MS: u64 = 2000;
/// The shortest time between a look and one before a key: a person may hold Enter down.
const KEY_PAUSE_MS: u64 = 100;
/// Enter, Ctrl-C, Ctrl-D: the agent may end by them, and take its signs along.
const MAY_END: [u8; 3] = [b'\r', 0x03, 0x04];

/// When the keeper looks for the conversation.
#[derive(Debug, Default)]
pub(super) struct OwnSigns {
    /// The terminal showed something since the last look.
    is_due: bool,
    /// When the keeper looked last, on the boot clock.
    looked_at_ms: u64,
    /// The agent behind a first process that only starts it.
    wrapped: WrappedAgent,
}

impl OwnSigns {
    /// The terminal shows something.
    pub(super) fn shown(&mut self) {
        self.is_due = true;
    }
}

impl Keeper {
    /// Looks which conversation the agent has open, and follows it, however long the look takes.
    pub(super) fn look_for_conversation(&mut self) {
        self.desk.signs.wrapped.walk_next();
        self.follow_signs();
    }

    fn follow_signs(&mut self) {
        if !self.needs_signs() {
            return;
        }
        (self.desk.signs.is_due, self.desk.signs.looked_at_ms) = (false, clock::boot_ms());
        let Some(id) = self.open_conversation() else { return };
        let mut reports = Vec::new();
        self.follow_conversation(id, false, false, &mut reports);
        if !reports.is_empty() {
            self.report(reports);
        }
    }

    /// Keys are about to reach the agent.
    pub(super) fn look_before(&mut self, keys: &[u8]) {
        if !keys.iter().any(|key| MAY_END.contains(key)) {
            return;
        }
        let now = clock::boot_ms();
        if self.desk.signs.is_due && self.desk.signs.looked_at_ms + KEY_PAUSE_MS <= now {
            self.follow_signs();
        }
        // What was typed may be the first prompt, which the agent opens a conversation for.
        self.desk.signs.wrapped.expect_soon(now);
    }

    /// When to look again, on the boot clock.
    pub(super) fn signs_due_ms(&self) -> Option<u64> {
        if !self.desk.signs.is_due || !self.needs_signs() {
            return None;
        }
        let is_known = self.owner.history().session.conversation.is_some();
        Some(self.desk.signs.looked_at_ms + if is_known { KNOWN_PAUSE_MS } else { UNKNOWN_PAUSE_MS })
    }

    pub(super) fn on_signs_time(&mut self) {
        if self.signs_due_ms().is_some_and(|at| at <= clock::boot_ms()) {
            self.follow_signs();
        }
    }

    /// Whether nothing else tells of the conversation.
    fn needs_signs(&self) -> bool {
        let session = &self.owner.history().session;
        let hooks_tell = session.tells && session.edges.is_some();
        let kind = session.spec.as_ref().and_then(|spec| Kind::of(&spec.conversation));
        let has_agent = match session.phase {
            Phase::Running { .. } | Phase::Ending(_) => session.agent().is_some(),
            Phase::New | Phase::Starting | Phase::Ended { .. } => false,
        };
        session.has_terminal() && kind.is_some() && has_agent && !hooks_tell
    }

    fn open_conversation(&mut self) -> Option<String> {
        let session = &self.owner.history().session;
        let (spec, agent) = (session.spec.as_ref()?, session.agent()?);
        let kind = Kind::of(&spec.conversation)?;
        let env = turn::where_kept(spec, session.conversation.as_ref());
        let dir = berth_transcript::config_dir(kind, env).ok()?;
        writers::open_in(kind, &dir, agent.pid, self.me.pid, &mut self.desk.signs.wrapped)
    }
}
