//! Attached clients: the right to type, the size of the terminal, and keys.
//!
//! Promise: at most one client may type; keys sent with an old fence reach nothing.
//! Start with [`Keeper::attach`], then [`Keeper::type_keys`].

use berth_api::message::{AttachMode, KeeperAnswer, WindowSize};
use berth_api::{Problem, problem};
use berth_core::{Command, Fence, Observation, Refusal, RunPhase, Writer};
use berth_store::audit::{self, AuditEvent};
use berth_store::killpoint;

use super::Keeper;
use super::publish::STATUS_DELAY_MS;
use crate::journaled_session::SessionInput;

impl Keeper {
    pub(super) fn attach(
        &mut self,
        key: u64,
        role: AttachMode,
        size: WindowSize,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        self.room_for_lasting()?;
        let held = self.clients.fence(key);
        let fence = match role {
            AttachMode::Observer => {
                if let Some(fence) = held {
                    self.release_writer(fence);
                }
                None
            }
            AttachMode::Writer | AttachMode::Take => Some(self.take_writer(key, role == AttachMode::Take)?),
        };
        if fence.is_some() {
            self.resize(size);
        }
        if !self.clients.attach(key, fence) {
            return Ok(None);
        }
        let answer = KeeperAnswer::Attached {
            fence: fence.map(|fence| fence.0),
            size: self.terminal.size(),
            alternate: self.terminal.in_alternate(),
            output_end: self.output.end(),
        };
        self.clients.answer(key, &answer);
        // Flushed at once, so that the screen is the one of `output_end`.
        self.flush(key);
        self.write_status_within(STATUS_DELAY_MS);
        Ok(None)
    }

    /// Gives the right to type to a client, and notifies the client that loses it.
    fn take_writer(&mut self, key: u64, force: bool) -> Result<Fence, Problem> {
        let Some(who) = self.clients.actor(key) else { return Ok(Fence(0)) };
        let taker = problem::describe(&who);
        let before = self.journal.session().writer.clone();
        self.order(Command::TakeWriter { who, force })?;
        self.note_taken(before.as_ref(), &taker);
        self.clients.demote_others(key, &taker, self.terminal.size());
        Ok(self.journal.session().fence)
    }

    /// Records in the audit log that a terminal was taken over from its writer, if it had one.
    fn note_taken(&self, before: Option<&Writer>, taker: &str) {
        let Some(before) = before else { return };
        let event = AuditEvent::WriterTaken {
            session: self.identity.session().to_string(),
            name: self.handle_name(),
            from: audit::text_for_log(&problem::describe(&before.holder)),
        };
        audit::append_audit_event(self.identity.root(), taker, event);
    }

    /// Gives the agent's terminal the size of the writer's.
    pub(super) fn resize(&mut self, size: WindowSize) {
        if self.terminal.resize(size) {
            let size = self.terminal.size();
            self.output.set_size(size);
            self.clients.tell_resized(size);
        }
    }

    /// Types a text: takes the right to type, uses it and gives it back, in one commit.
    pub(super) fn type_text(
        &mut self,
        key: u64,
        text: &str,
        force: bool,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        killpoint::reached("typing");
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        if !self.terminal.is_open() {
            return Err(Problem::refused("the agent has closed its terminal; nothing was typed"));
        }
        if self.journal.session().phase == RunPhase::Starting {
            // The agent's start is not recorded yet. Refuse before another client loses its right to type.
            return Err(self.refused(&Refusal::NotRunning));
        }
        if !self.has_room_for_keys(text.len()) {
            return Err(Problem::refused("the agent does not read its input; nothing was typed")
                .hint("try again when the agent has read the waiting keys"));
        }
        let taker = problem::describe(&by);
        let fence = self.journal.session().fence.next();
        let bytes = text.len() as u64;
        let inputs = vec![
            SessionInput::Command(Command::TakeWriter { who: by.clone(), force }),
            SessionInput::Command(Command::Type { by, fence, bytes }),
            SessionInput::Command(Command::ReleaseWriter { fence }),
        ];
        let before = self.journal.session().writer.clone();
        let answers = self.take(inputs)?;
        if let Some(refusal) = answers.into_iter().find_map(Result::err) {
            return Err(self.refused(&refusal));
        }
        self.note_taken(before.as_ref(), &taker);
        self.clients.demote_others(key, &taker, self.terminal.size());
        self.type_keys(text.as_bytes());
        self.done()
    }

    /// Keys of an attached user: checked, not journalled.
    pub(super) fn on_keys(&mut self, key: u64, payload: &[u8]) {
        let Some((fence, keys)) = payload.split_first_chunk::<8>() else { return };
        let fence = Fence(u64::from_le_bytes(*fence));
        let own = self.clients.fence(key);
        if own == Some(fence) && self.journal.session().may_type(fence).is_ok() {
            self.type_keys(keys);
        }
    }

    /// Types a user's keys. While a turn is typed for a client, the keys wait: otherwise they would be mixed into it.
    fn type_keys(&mut self, keys: &[u8]) {
        self.look_for_conversation_before(keys);
        if self.tui_turns.is_typing() {
            self.tui_turns.keep_behind(keys);
        } else {
            self.terminal.queue_keys(keys);
        }
        if self.tui_turns.note_typed(keys, self.journal.session()) {
            self.report(vec![Observation::DraftGone]);
        }
    }

    /// True if so many more keys may wait for the agent.
    pub(super) fn has_room_for_keys(&self, count: usize) -> bool {
        self.terminal.has_room_for_keys(self.tui_turns.kept_behind() + count)
    }
}
