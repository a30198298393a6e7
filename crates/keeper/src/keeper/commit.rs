//! Commits: inputs become events on disk, and the loop goes on while the disk is at work.
//!
//! Promise: one batch is in flight at a time. Until it is on disk, nothing of it is applied, answered, published or acted
//! upon, and no other batch is decided; requests and reports that arrive are the next batch, in their order. Keys, output,
//! screens and reads need no journal and go on, and so does the exchange with an agent on pipes. Without a terminal,
//! and while the disk is quick, the loop writes the batch itself (`sync_pace`).
//! Not here: the thread (`commit_pipeline`), the contents of a batch (`journaled_session`), the answers (`requests`).
//! Start with [`Keeper::take`] for inputs that have an answer, [`Keeper::report`] for reports.

use std::os::fd::OwnedFd;

use berth_api::Problem;
use berth_core::{Command, Event, Observation, Refusal};
use berth_store::store;
use rustix::event::{PollFd, PollFlags, epoll, poll};

use super::agent_link::AgentLink;
use super::output_recorder::ReadUntil;
use super::{Keeper, now};
use crate::journaled_session::{CommittedBatch, DecidedBatch, SessionInput, WrittenBatch};

/// Number of inputs that may wait for the batch in flight before the agent is no longer heard.
const MAX_DEFERRED: usize = 256;

impl Keeper {
    /// Commits inputs, publishes the events and starts the effects. Returns one answer for each input.
    pub(super) fn take(&mut self, inputs: Vec<SessionInput>) -> Result<Vec<Result<(), Refusal>>, Problem> {
        Ok(self.take_batch(inputs)?.answers)
    }

    pub(super) fn take_batch(&mut self, inputs: Vec<SessionInput>) -> Result<CommittedBatch, Problem> {
        if self.journal.is_busy() {
            debug_assert!(false, "a batch in the middle of another: {inputs:?}");
            return Err(Problem::bug("the keeper is still writing the change before this one"));
        }
        self.check_lease(&inputs)?;
        self.commit(inputs)
    }

    /// Commits one order, which may be refused.
    pub(super) fn order(&mut self, command: Command) -> Result<(), Problem> {
        let answers = self.take(vec![SessionInput::Command(command)])?;
        match answers.into_iter().find_map(Result::err) {
            Some(refusal) => Err(self.refused(&refusal)),
            None => Ok(()),
        }
    }

    /// Commits inputs whether or not the lease is still held.
    pub(super) fn commit(&mut self, inputs: Vec<SessionInput>) -> Result<CommittedBatch, Problem> {
        let (batch, thread) = self.journal.begin(inputs, now());
        let written = match &thread {
            Some(thread) => thread.write(batch, |done| self.attend(done)),
            None => self.write_here(batch),
        };
        match self.journal.finish(written, thread) {
            Ok(taken) => {
                self.publish(&taken.events);
                Ok(taken)
            }
            Err(error) => Err(store::journal_problem(&error, self.identity.session().as_str())),
        }
    }

    /// Writes a batch while the loop waits. Waiting for a slow disk does not count as a stuck loop.
    fn write_here(&self, batch: DecidedBatch) -> WrittenBatch {
        self.event_loop.disarm_watchdog();
        let written = batch.write();
        if !self.event_loop.is_undisturbed() {
            self.arm_watchdog();
        }
        written
    }

    /// Commits reports, behind those that arrived while a batch was in flight. If the journal refuses, they wait: the
    /// source of a report does not repeat it.
    pub(super) fn report(&mut self, reports: Vec<Observation>) {
        if self.journal.is_busy() {
            // The reports become part of the next batch.
            return reports.into_iter().for_each(|report| self.journal.defer(SessionInput::Report(report)));
        }
        let (mut earlier, mut others) = (Vec::new(), Vec::new());
        for input in self.journal.take_deferred() {
            match input {
                SessionInput::Report(report) => earlier.push(report),
                SessionInput::Note(_) | SessionInput::Command(_) => others.push(input),
            }
        }
        earlier.extend(reports);
        let inputs = self.journal.with_waiting(earlier);
        if !inputs.is_empty() {
            match self.take(inputs) {
                Ok(_) => self.journal.clear_waiting(),
                Err(_) => self.journal.retry_soon(),
            }
        }
        // A note that the disk rejects is lost; such a note is about the disk or comes again.
        others.into_iter().for_each(|input| drop(self.take(vec![input])));
    }

    /// Commits the reports that the journal refused before.
    pub(super) fn report_again(&mut self) {
        let waited = !self.journal.waiting().is_empty();
        self.report(vec![]);
        if waited && self.journal.waiting().is_empty() && self.journal.session().tells {
            // The consequences could not be known at the time of the report.
            self.after_edge();
        }
    }

    /// Records an event without an answer with the next batch: a commit in the middle of an agent's updates would hear
    /// newer ones before the rest of these. If the disk rejects it, it is lost.
    pub(super) fn note(&mut self, event: Event) {
        self.journal.defer(SessionInput::Note(event));
    }

    /// Waits until the batch is written, and handles other events meanwhile.
    fn attend(&mut self, done: &OwnedFd) {
        let (with_terminal, with_listener) = (self.terminal.polled(), self.clients.has_room());
        // The agent waits at its pipe if more has come in than a disk should ever hold up.
        let agent = self.agent.iter().filter(|_| self.journal.deferred() < MAX_DEFERRED);
        let (tokens, pipes): (Vec<u64>, Vec<PollFd<'_>>) = agent.flat_map(AgentLink::polled).unzip();
        let (keys, clients): (Vec<u64>, Vec<PollFd<'_>>) = self.clients.polled().into_iter().unzip();
        let mut polled = vec![PollFd::new(done, PollFlags::IN)];
        let has_terminal = with_terminal.is_some();
        polled.extend(with_terminal);
        polled.extend(pipes);
        if with_listener {
            polled.push(PollFd::new(self.event_loop.listener(), PollFlags::IN));
        }
        polled.extend(clients);
        // Waiting does not count as a stuck loop, even if the disk takes long.
        self.event_loop.disarm_watchdog();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing can be attended to, so wait for the disk alone.
            Err(_) => std::thread::yield_now(),
        }
        let found: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);
        if !self.event_loop.is_undisturbed() {
            self.arm_watchdog();
        }
        if found[0].contains(PollFlags::IN) {
            // The batch is written, or was before this wait began.
            let _ = rustix::io::read(done, &mut [0; 8]);
        }
        let mut found = found.into_iter().skip(1);
        if has_terminal {
            let found = found.next().unwrap_or(PollFlags::empty());
            if found.contains(PollFlags::OUT) {
                self.on_terminal(epoll::EventFlags::OUT);
            }
            if found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read_terminal(ReadUntil::Quiet);
            }
        }
        for (token, found) in tokens.into_iter().zip(found.by_ref()) {
            if !found.is_empty() {
                self.on_agent(token);
            }
        }
        if with_listener && found.next().is_some_and(|found| !found.is_empty()) {
            self.accept();
        }
        for (key, found) in keys.into_iter().zip(found) {
            if !found.is_empty() {
                self.attend_to(key, found);
            }
        }
        self.unpause_clients();
        self.flush_all();
    }

    fn attend_to(&mut self, key: u64, found: PollFlags) {
        let reads = self.clients.is_read_meanwhile(key);
        if reads && found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.receive(key);
        }
        if found.contains(PollFlags::OUT) {
            self.clients.write_now(key);
        } else if !reads && found.intersects(PollFlags::HUP | PollFlags::ERR) {
            // The client hung up. Frames that it sent before that are read afterwards. A client that merely has
            // something to send, and is not read because another client sent a long request just now, stays.
            self.clients.depart(key);
        }
    }

    /// True if inputs arrived while a batch was in flight and wait.
    pub(super) fn has_deferred(&self) -> bool {
        self.journal.has_deferred() || self.clients.has_news()
    }

    /// Commits the inputs that arrived while a batch was in flight, and forgets clients that left.
    pub(super) fn take_deferred(&mut self) {
        self.forget_departing();
        if self.journal.has_deferred() {
            self.report(vec![]);
        }
    }
}
