//! Publishes committed events to clients, lists, notifications and copies, and writes the status that
//! describes the session.
//!
//! Promise: only what is on disk is published.
//! Start with [`Keeper::publish`].

use berth_api::{SessionStatus, redact};
use berth_core::Event;
use berth_host::clock;
use berth_journal::Committed;
use berth_store::killpoint;
use berth_store::session_view::StoredEvent;

use super::agent_link::AgentLink;
use super::status_writer::FIRST_BRANCH_PATIENCE;
use super::{Keeper, cwd_of};
use crate::notify::{self, NotifierParent};

/// The delay within which lists may miss changes of a turn. Writing the status file costs as much as accepting a
/// turn, and twice if the next event has to take its traces to the disk.
pub(super) const STATUS_DELAY_MS: u64 = 50;

/// Delays notifications until the client that started the run knows that it began. Before, that client gets
/// the errors itself.
#[derive(Debug, Default)]
pub(super) struct NotificationGate {
    is_open: bool,
    /// The cached fact about the config file: whether it mentions notifications.
    known: notify::NotifyConfigCache,
}

impl NotificationGate {
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }
}

impl Keeper {
    /// Sends committed events to clients, lists, notifications and the copier.
    pub(super) fn publish(&mut self, events: &[Committed<StoredEvent>]) {
        for event in events {
            tracing::info!(seq = event.seq().0, event = %redact::variant_name(&event.get().event), "committed");
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

    /// Starts the notifier for events that no client was looking at. The events are on disk.
    fn notify_people(&mut self, events: &[Committed<StoredEvent>]) {
        if !self.notifications.is_open {
            return;
        }
        let mut told = notify::select_notable(self.journal.session(), events);
        told.retain(|(seq, occasion)| {
            let event = events.iter().find(|event| event.seq().0 == *seq);
            !event.is_some_and(|event| self.clients.is_shown_to_user(&event.get().event, *occasion))
        });
        if told.is_empty() {
            return;
        }
        killpoint::reached("telling");
        notify::notify_of_events(
            self.identity.files(),
            &told,
            NotifierParent::Keeper,
            &mut self.notifications.known,
        );
        killpoint::reached("told");
    }

    fn write_status_after(&mut self, events: &[Committed<StoredEvent>]) {
        if events.iter().all(|event| is_of_a_turn(&event.get().event)) {
            return self.write_status_within(STATUS_DELAY_MS);
        }
        let has_started = events.iter().any(|event| matches!(event.get().event, Event::RunStarted { .. }));
        if has_started {
            self.status.read_branch_within(cwd_of(self.journal.session()), FIRST_BRANCH_PATIENCE);
        }
        self.write_status();
        if has_started {
            // The branch may be read later than that.
            self.write_status_within(STATUS_DELAY_MS);
        }
    }

    pub(super) fn status(&self) -> SessionStatus {
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
            turns.last_report = self.tui_turns.last_report().or(turns.last_report.take());
            turns.activity = self.agent.as_ref().and_then(AgentLink::activity);
            turns.releases_in_ms = session.release_at_boot_ms().map(|at| at.saturating_sub(boot_ms));
        }
        let expiry = session.expiry.as_ref().filter(|expiry| expiry.boot.0 == self.identity.process().boot);
        status.expires_in_ms = expiry.map(|expiry| expiry.boot_ms.saturating_sub(boot_ms));
        status
    }

    /// Writes the status file for lists. The status is derived, so a failure costs only time.
    pub(super) fn write_status(&mut self) {
        if self.journal.is_busy() {
            // The journal may have more by now than the status, and a reader of both would believe the status.
            return self.write_status_within(0);
        }
        self.status.begin_write();
        if !self.journal.is_disowned() {
            self.identity.files().write_status_cache(&self.written_status());
        }
    }

    pub(super) fn written_status(&self) -> SessionStatus {
        let mut status = self.status();
        if !self.journal.session().is_live() {
            status.keeper_pid = None;
            // The clients are disconnected with its last frames.
            (status.clients, status.attached) = (0, vec![]);
        }
        status
    }

    /// Schedules a write of the status file within this time.
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
            | Event::LateResult { .. }
    )
}
