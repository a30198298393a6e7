//! The agent's bytes: read, stored, then shown or understood.
//!
//! Promise: file first: output that a client saw or the keeper acted on survives a crash. Clients first, then the
//! keeper's own screen: users wait for one of them.
//! Not here: the files (`output_recorder`), the two ways to an agent (`agent_terminal`, `agent_link`).

use berth_core::{Event, Observation};
use rustix::event::epoll;

use super::Keeper;
use super::agent_link::AgentLink;
use super::event_loop::AGENT_IN;
use super::output_recorder::ReadUntil;
use super::waiting_reports::exit_among;
use crate::journaled_session::SessionInput;
use crate::turn_outcome;

impl Keeper {
    pub(super) fn on_terminal(&mut self, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.terminal.write_keys();
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.read_terminal(ReadUntil::Quiet);
        }
    }

    /// Reads the terminal. True if there may be more.
    pub(super) fn read_terminal(&mut self, until: ReadUntil) -> bool {
        if self.output.is_stuck() {
            return false;
        }
        let mut buffer = self.output.take_buffer();
        let read = self.terminal.read(&mut buffer, until);
        if read.bytes > 0 {
            self.record(&buffer[..read.bytes], false);
        }
        self.output.keep_buffer(buffer);
        if read.is_closed {
            self.terminal.close();
        }
        read.has_more
    }

    /// Something can be read from the pipes or written to them, or a side is closed.
    pub(super) fn on_agent(&mut self, token: u64) {
        if token == AGENT_IN {
            if let Some(agent) = &mut self.agent {
                agent.write_words();
            }
        } else {
            self.read_agent(ReadUntil::Quiet);
            self.read_complaints();
        }
    }

    /// Reads what an agent on pipes wrote. True if there may be more.
    fn read_agent(&mut self, until: ReadUntil) -> bool {
        if self.output.is_stuck() {
            return false;
        }
        let Some(agent) = &mut self.agent else { return false };
        let mut buffer = self.output.take_buffer();
        let read = agent.read(&mut buffer, until);
        if read.bytes > 0 {
            self.record(&buffer[..read.bytes], true);
        }
        self.output.keep_buffer(buffer);
        if let Some(agent) = self.agent.as_mut().filter(|_| read.is_closed) {
            agent.note_silence();
        }
        read.has_more
    }

    fn read_complaints(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.read_complaints();
        }
    }

    /// Stores output, then shows it, or has it understood if it comes from an agent on pipes.
    fn record(&mut self, bytes: &[u8], is_from_pipes: bool) {
        let stored = self.output.store(bytes);
        for before in stored.dropped_before {
            // Not recorded now: output read while that is on its way to the disk would overtake the rest of this.
            // A note that fails is repeated when the next file is dropped.
            self.journal.defer(SessionInput::Note(Event::OutputDropped { before }));
        }
        if stored.has_new_file {
            // Lists look at the file in use for signs of life.
            self.write_status();
        }
        let bytes = &bytes[..stored.bytes];
        if !is_from_pipes {
            self.show(bytes);
        } else if let Some(agent) = &mut self.agent {
            let out = agent.understand(bytes);
            self.heed(out);
        }
        if stored.is_cut {
            self.set_agent_read(false);
            self.journal.retry_soon();
        }
    }

    /// Stores the output for which the disk had no room.
    pub(super) fn retry_output(&mut self) {
        let waiting = self.output.take_unwritten();
        if waiting.is_empty() {
            return;
        }
        self.record(&waiting, self.agent.is_some());
        if !self.output.is_stuck() {
            self.set_agent_read(true);
        }
    }

    /// Stops reading the agent while its output waits for room on the disk, or goes on.
    fn set_agent_read(&mut self, on: bool) {
        self.terminal.set_read(on);
        if let Some(agent) = &mut self.agent {
            agent.set_read(on);
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let safe = self.terminal.split(bytes);
        self.clients.show(&safe);
        self.tui_turns.note_output();
        let answers = self.terminal.feed(bytes);
        // Where no client answers for its terminal the keeper does: agents ask at start and wait.
        if self.has_room_for_keys(answers.len()) && !self.clients.has_writer_that_sees() {
            self.terminal.queue_keys(&answers);
        }
    }

    /// Reports exits once everything the agent said before is in the output files.
    pub(super) fn report_exits(&mut self) {
        if !self.run.has_exits() {
            return;
        }
        // Output that is still in the terminal came before the exit. A process tree that goes on printing does not
        // hold the report up: one buffer is enough for a dead agent's last words.
        let is_over = self.run.is_over();
        while self.read_terminal(ReadUntil::Empty) && is_over {}
        self.read_complaints();
        while self.read_agent(ReadUntil::Empty) && is_over {}
        if self.output.is_stuck() {
            return;
        }
        // The last reports of the agent may have come while a batch was in flight: they were before the exit.
        self.take_deferred();
        while is_over && self.journal.has_deferred() {
            self.take_deferred();
        }
        let mut exits = self.run.take_exits();
        // No process of the run is left, and its whole output was read: the outcome of its turn is known.
        if is_over && let Some(fate) = self.fate_of_current(&exits) {
            exits.insert(0, fate);
        }
        self.report(exits);
    }

    /// The outcome of the turn of an agent that has ended.
    fn fate_of_current(&self, exits: &[Observation]) -> Option<Observation> {
        let session = self.journal.session();
        let current = session.turns.current.as_ref()?;
        let seen = exit_among(exits.iter()).or(self.journal.waiting().exit());
        let exit = seen.or(match &session.phase {
            berth_core::RunPhase::Ending(ending) => ending.exit,
            _ => None,
        });
        let complaint = self.agent.as_ref().map(AgentLink::complaint).unwrap_or_default();
        let end = turn_outcome::dead_agent_turn_end(
            self.journal.history(),
            self.identity.session(),
            exit,
            &complaint,
        )?;
        Some(Observation::TurnOver { turn: current.turn, end })
    }
}
