//! The conversation of an agent in a terminal whose hooks report nothing: learned from the agent's own signs.
//!
//! Some agents run no hook that a user did not trust, and a user's settings can turn hooks off. The session would not
//! know which conversation it has, and its next run would begin an empty one.
//! Promise: the keeper looks only after the terminal showed something, so that an idle agent costs nothing, and before keys that
//! may end the agent reach it. Where hooks report, they count, and the signs are not read.
//! Not here: the signs (`foreign_writers::conversation_open_in_run`), the right to write a conversation (`run_conversation`).

use berth_conversations::foreign_writers::{self, WrappedAgent};
use berth_conversations::location;
use berth_core::{RunPhase, Session};
use berth_host::clock;
use berth_transcript::TranscriptKind;

use crate::keeper::identity::KeeperIdentity;

/// The shortest time between two looks while no conversation is known.
const UNKNOWN_PAUSE_MS: u64 = 500;
/// The pause once a conversation is known: users rarely change it.
const KNOWN_PAUSE_MS: u64 = 2000;
/// The shortest time between a look and one before a key: a user may hold Enter down.
const KEY_PAUSE_MS: u64 = 100;
/// Enter, Ctrl-C, Ctrl-D: the agent may end after them, and its signs with it.
const MAY_END: [u8; 3] = [b'\r', 0x03, 0x04];

/// The times at which the keeper looks for the conversation.
#[derive(Debug, Default)]
pub(super) struct ConversationSigns {
    /// True if the terminal showed something since the last look.
    is_due: bool,
    /// The time when the keeper looked last, on the boot clock.
    looked_at_ms: u64,
    /// The agent behind a first process that only starts it.
    wrapped: WrappedAgent,
}

fn may_end(keys: &[u8]) -> bool {
    keys.iter().any(|key| MAY_END.contains(key))
}

impl ConversationSigns {
    /// Notes that the terminal showed output.
    pub(super) fn note_output(&mut self) {
        self.is_due = true;
    }

    /// Makes the next look find the agent, even if that takes long.
    pub(super) fn expect(&mut self) {
        self.wrapped.walk_next();
    }

    /// True if the agent's signs must be read before these keys reach it.
    pub(super) fn needs_look_before(&self, keys: &[u8]) -> bool {
        may_end(keys) && self.is_due && self.looked_at_ms + KEY_PAUSE_MS <= clock::boot_ms()
    }

    /// Notes keys that may end the first prompt, for which the agent opens a conversation.
    pub(super) fn expect_prompt(&mut self, keys: &[u8]) {
        if may_end(keys) {
            self.wrapped.expect_soon(clock::boot_ms());
        }
    }

    /// The time of the next look, on the boot clock.
    pub(super) fn due_ms(&self, session: &Session) -> Option<u64> {
        if !self.is_due || !needs_signs(session) {
            return None;
        }
        let is_known = session.conversation.is_some();
        Some(self.looked_at_ms + if is_known { KNOWN_PAUSE_MS } else { UNKNOWN_PAUSE_MS })
    }

    /// The conversation that the agent has open, unless hooks report it.
    pub(super) fn find(&mut self, session: &Session, identity: &KeeperIdentity) -> Option<String> {
        if !needs_signs(session) {
            return None;
        }
        (self.is_due, self.looked_at_ms) = (false, clock::boot_ms());
        let (spec, agent) = (session.spec.as_ref()?, session.agent()?);
        let kind = TranscriptKind::of(&spec.conversation)?;
        let env = location::where_kept(spec, session.conversation.as_ref());
        let dir = berth_transcript::config_dir(kind, env).ok()?;
        foreign_writers::conversation_open_in_run(kind, &dir, agent.pid, identity.pid(), &mut self.wrapped)
    }
}

/// True if the conversation is not known otherwise.
fn needs_signs(session: &Session) -> bool {
    let hooks_tell = session.tells && session.edges.is_some();
    let kind = session.spec.as_ref().and_then(|spec| TranscriptKind::of(&spec.conversation));
    let has_agent = match session.phase {
        RunPhase::Running { .. } | RunPhase::Ending(_) => session.agent().is_some(),
        RunPhase::New | RunPhase::Starting | RunPhase::Ended { .. } => false,
    };
    session.has_terminal() && kind.is_some() && has_agent && !hooks_tell
}
