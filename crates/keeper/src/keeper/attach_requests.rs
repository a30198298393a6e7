//! Attached clients: the right to type, the size of the terminal, and keys.
//!
//! Promise: at most one client may type; keys with an old right reach nothing.
//! Start with [`Keeper::attach`], then [`Keeper::type_keys`].

use berth_api::message::{Answer, Role, Size};
use berth_api::{Code, Problem, problem};
use berth_core::{Command, Fence, Observation, Phase, Refusal, Writer};
use berth_store::killpoint;

use super::Keeper;
use super::publish::STATUS_DELAY_MS;
use crate::audit::{self, AuditEvent};
use crate::journaled_session::Input;

impl Keeper {
    pub(super) fn attach(&mut self, key: u64, role: Role, size: Size) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        let held = self.clients.fence(key);
        let fence = match role {
            Role::Observer => {
                if let Some(fence) = held {
                    self.release_writer(fence);
                }
                None
            }
            Role::Writer | Role::Take => Some(self.take_writer(key, role == Role::Take)?),
        };
        if fence.is_some() {
            self.resize(size);
        }
        if !self.clients.attach(key, fence) {
            return Ok(None);
        }
        let answer = Answer::Attached {
            fence: fence.map(|fence| fence.0),
            size: self.terminal.size(),
            alternate: self.terminal.in_alternate(),
            output_end: self.output.end(),
        };
        self.clients.answer(key, &answer);
        // At once, so that the screen is the one of `output_end`.
        self.flush(key);
        self.write_status_within(STATUS_DELAY_MS);
        Ok(None)
    }

    /// Gives the right to type to a client, and tells the one that loses it.
    fn take_writer(&mut self, key: u64, force: bool) -> Result<Fence, Problem> {
        let Some(who) = self.clients.actor(key) else { return Ok(Fence(0)) };
        let taker = problem::describe(&who);
        let before = self.journal.session().writer.clone();
        self.order(Command::TakeWriter { who, force })?;
        self.note_taken(before.as_ref(), &taker);
        self.clients.demote_others(key, &taker, self.terminal.size());
        Ok(self.journal.session().fence)
    }

    /// Writes down that a terminal was taken from its writer, if it had one.
    fn note_taken(&self, before: Option<&Writer>, taker: &str) {
        let Some(before) = before else { return };
        let event = AuditEvent::WriterTaken {
            session: self.identity.session().to_string(),
            name: self.handle_name(),
            from: audit::plain(&problem::describe(&before.holder)),
        };
        audit::note(self.identity.root(), taker, event);
    }

    /// Gives the agent's terminal the size of the writer's.
    pub(super) fn resize(&mut self, size: Size) {
        if self.terminal.resize(size) {
            let size = self.terminal.size();
            self.output.set_size(size);
            self.clients.tell_resized(size);
        }
    }

    /// Types once: takes the right, uses it, gives it back, in one commit.
    pub(super) fn type_text(&mut self, key: u64, text: &str, force: bool) -> Result<Option<Answer>, Problem> {
        killpoint::reached("typing");
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        if !self.terminal.is_open() {
            return Err(Problem::new(Code::Refused, "the agent has closed its terminal; nothing was typed"));
        }
        if self.journal.session().phase == Phase::Starting {
            // Its start is not recorded yet. Refuse before a client's right is taken for it.
            return Err(self.refused(&Refusal::NotRunning));
        }
        if !self.has_room_for_keys(text.len()) {
            return Err(Problem::new(Code::Refused, "the agent does not read its input; nothing was typed")
                .hint("try again when it has read what is waiting"));
        }
        let taker = problem::describe(&by);
        let fence = self.journal.session().fence.next();
        let bytes = text.len() as u64;
        let inputs = vec![
            Input::Command(Command::TakeWriter { who: by.clone(), force }),
            Input::Command(Command::Type { by, fence, bytes }),
            Input::Command(Command::ReleaseWriter { fence }),
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

    /// Keys of an attached person: checked, not journalled.
    pub(super) fn on_keys(&mut self, key: u64, payload: &[u8]) {
        let Some((fence, keys)) = payload.split_first_chunk::<8>() else { return };
        let fence = Fence(u64::from_le_bytes(*fence));
        let own = self.clients.fence(key);
        if own == Some(fence) && self.journal.session().may_type(fence).is_ok() {
            self.type_keys(keys);
        }
    }

    /// Types keys of a person. While a turn is typed for a client, they wait: they would be joined with it.
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
