//! The conversation of an agent in a terminal that tells nothing by hooks: learned from the agent's own signs.
//!
//! Some agents run no hook that a person did not trust, and a person's settings can turn hooks off. The session would not
//! know which conversation it has, and its next run would begin an empty one.
//! Promise: the keeper looks only after the terminal showed something, so that an idle agent costs nothing, and before keys that
//! may end the agent reach it. Where hooks tell, they count, and nothing is looked at.
//! Not here: the signs (`writers::open_in`), the right to write a conversation (`agent_conversation`).

use berth_core::{Phase, Session};
use berth_host::clock;
use berth_transcript::Kind;

use crate::keeper::identity::KeeperIdentity;
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

/// The times at which the keeper looks for the conversation.
#[derive(Debug, Default)]
pub(super) struct ConversationSigns {
    /// True if the terminal showed something since the last look.
    is_due: bool,
    /// When the keeper looked last, on the boot clock.
    looked_at_ms: u64,
    /// The agent behind a first process that only starts it.
    wrapped: WrappedAgent,
}

fn may_end(keys: &[u8]) -> bool {
    keys.iter().any(|key| MAY_END.contains(key))
}

impl ConversationSigns {
    /// The terminal shows something.
    pub(super) fn note_output(&mut self) {
        self.is_due = true;
    }

    /// Has the next look find the agent, however long that takes.
    pub(super) fn expect(&mut self) {
        self.wrapped.walk_next();
    }

    /// True if the agent's signs have to be looked at before these keys reach it.
    pub(super) fn needs_look_before(&self, keys: &[u8]) -> bool {
        may_end(keys) && self.is_due && self.looked_at_ms + KEY_PAUSE_MS <= clock::boot_ms()
    }

    /// These keys may be the end of the first prompt, which the agent opens a conversation for.
    pub(super) fn expect_prompt(&mut self, keys: &[u8]) {
        if may_end(keys) {
            self.wrapped.expect_soon(clock::boot_ms());
        }
    }

    /// When to look again, on the boot clock.
    pub(super) fn due_ms(&self, session: &Session) -> Option<u64> {
        if !self.is_due || !needs_signs(session) {
            return None;
        }
        let is_known = session.conversation.is_some();
        Some(self.looked_at_ms + if is_known { KNOWN_PAUSE_MS } else { UNKNOWN_PAUSE_MS })
    }

    /// The conversation that the agent has open, unless hooks tell.
    pub(super) fn find(&mut self, session: &Session, identity: &KeeperIdentity) -> Option<String> {
        if !needs_signs(session) {
            return None;
        }
        (self.is_due, self.looked_at_ms) = (false, clock::boot_ms());
        let (spec, agent) = (session.spec.as_ref()?, session.agent()?);
        let kind = Kind::of(&spec.conversation)?;
        let env = turn::where_kept(spec, session.conversation.as_ref());
        let dir = berth_transcript::config_dir(kind, env).ok()?;
        writers::open_in(kind, &dir, agent.pid, identity.pid(), &mut self.wrapped)
    }
}

/// True if nothing else tells of the conversation.
fn needs_signs(session: &Session) -> bool {
    let hooks_tell = session.tells && session.edges.is_some();
    let kind = session.spec.as_ref().and_then(|spec| Kind::of(&spec.conversation));
    let has_agent = match session.phase {
        Phase::Running { .. } | Phase::Ending(_) => session.agent().is_some(),
        Phase::New | Phase::Starting | Phase::Ended { .. } => false,
    };
    session.has_terminal() && kind.is_some() && has_agent && !hooks_tell
}
