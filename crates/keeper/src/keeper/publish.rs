//! Committed events on their way to clients, lists, people and copies, and the status that describes the session.
//!
//! Promise: only what is on disk is published.
//! Start with [`Keeper::publish`].

use berth_api::{Status, redact};
use berth_core::Event;
use berth_host::clock;
use berth_journal::Committed;
use berth_store::history::Stored;
use berth_store::killpoint;

use super::agent_link::AgentLink;
use super::status_writer::FIRST_BRANCH_PATIENCE;
use super::{Keeper, cwd_of};
use crate::notify::{self, Teller};

/// How long lists may have to look into the journal for what happened to a turn. Writing the short cut
/// costs as much as accepting a turn, and twice if the next event has to take its traces to the disk.
pub(super) const STATUS_DELAY_MS: u64 = 50;

/// Whether people are told of events: only once the client that started the run knows that it began. Before, it hears itself
/// what goes wrong.
#[derive(Debug, Default)]
pub(super) struct NotificationGate {
    is_open: bool,
    /// The part of the config file that is about telling people.
    known: notify::Known,
}

impl NotificationGate {
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }
}

impl Keeper {
    /// Tells clients, lists, people and the copier what was committed.
    pub(super) fn publish(&mut self, events: &[Committed<Stored>]) {
        for event in events {
            tracing::info!(seq = event.seq().0, event = %redact::kind(&event.get().event), "committed");
            self.clients.tell(event);
        }
        if events.is_empty() {
            return;
        }
        self.notify_people(events);
        self.status.follow(events, self.journal.history());
        self.copies.follow(events, self.journal.session(), &self.identity);
        self.write_status_after(events);
        let is_end = |event: &Event| matches!(event, Event::RunEnded { .. } | Event::EndUnproven { .. });
        if events.iter().any(|event| is_end(&event.get().event)) {
            self.answer_waiting_for_end();
        }
        self.answer_hooks(events);
        self.answer_waiting_for_readiness();
        self.answer_waiting_for_agent();
    }

    /// Starts the notifier for what no client was looking at. What it tells of is on disk.
    fn notify_people(&mut self, events: &[Committed<Stored>]) {
        if !self.notifications.is_open {
            return;
        }
        let mut told = notify::worth_telling(self.journal.session(), events);
        told.retain(|(seq, occasion)| {
            let event = events.iter().find(|event| event.seq().0 == *seq);
            !event.is_some_and(|event| self.clients.is_looked_at(&event.get().event, *occasion))
        });
        if told.is_empty() {
            return;
        }
        killpoint::reached("telling");
        notify::tell(self.identity.files(), &told, Teller::Keeper, &mut self.notifications.known);
        killpoint::reached("told");
    }

    fn write_status_after(&mut self, events: &[Committed<Stored>]) {
        if events.iter().all(|event| is_of_a_turn(&event.get().event)) {
            return self.write_status_within(STATUS_DELAY_MS);
        }
        let has_started = events.iter().any(|event| matches!(event.get().event, Event::RunStarted { .. }));
        if has_started {
            self.status.read_branch_within(cwd_of(self.journal.session()), FIRST_BRANCH_PATIENCE);
        }
        self.write_status();
        if has_started {
            // The branch may have come later than that.
            self.write_status_within(STATUS_DELAY_MS);
        }
    }

    pub(super) fn status(&self) -> Status {
        let session = self.journal.session();
        let mut status = self.journal.history().status(self.identity.session(), true);
        status.attached = self.clients.attached_status();
        status.clients = status.attached.len();
        status.output_bytes = self.output.end();
        status.output_file = self.output.file_name();
        let size = self.terminal.size();
        (status.rows, status.cols) = (size.rows, size.cols);
        self.identity.files().add_output(&mut status);
        let boot_ms = clock::boot_ms();
        self.status.fill(session.has_terminal(), &mut status);
        if let Some(turns) = &mut status.turns {
            turns.told = self.tui_turns.told().or(turns.told.take());
            turns.activity = self.agent.as_ref().and_then(AgentLink::activity);
            turns.releases_in_ms = session.release_at_boot_ms().map(|at| at.saturating_sub(boot_ms));
        }
        let expiry = session.expiry.as_ref().filter(|expiry| expiry.boot.0 == self.identity.process().boot);
        status.expires_in_ms = expiry.map(|expiry| expiry.boot_ms.saturating_sub(boot_ms));
        status
    }

    /// Writes the short cut for lists. It is derived, so a failure costs only time.
    pub(super) fn write_status(&mut self) {
        if self.journal.is_busy() {
            // The journal may have more by now than the status tells, and a reader of both would believe the status.
            return self.write_status_within(0);
        }
        self.status.begin_write();
        if !self.journal.is_disowned() {
            self.identity.files().write_short_cut(&self.written_status());
        }
    }

    pub(super) fn written_status(&self) -> Status {
        let mut status = self.status();
        if !self.journal.session().is_live() {
            status.keeper_pid = None;
            // They are sent away with its last words.
            (status.clients, status.attached) = (0, vec![]);
        }
        status
    }

    /// Sees to it that lists learn of something within this time.
    pub(super) fn write_status_within(&mut self, ms: u64) {
        self.status.write_within(ms, cwd_of(self.journal.session()));
    }
}

/// True for an event about one turn and nothing else. Such events come often.
fn is_of_a_turn(event: &Event) -> bool {
    matches!(
        event,
        Event::TurnAccepted { .. }
            | Event::TurnDelivered { .. }
            | Event::TurnBegan { .. }
            | Event::TurnEnded { .. }
            | Event::TurnLate { .. }
    )
}
