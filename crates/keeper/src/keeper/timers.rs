//! Time, signals, exits and the run's group: the events that come neither from a client nor from the agent's output.
//!
//! Promise: the loop sleeps no longer than until the next thing is due, and for ever if nothing is.

use berth_core::{Command, Event, Observation, PROOF_TIMEOUT};
use berth_host::clock;
use rustix::event::Timespec;

use super::{Keeper, SIGTERM_GRACE, libc_chld};
use crate::journaled_session::SessionInput;

/// The loop looks around at least this often while something is due.
const LONGEST_SLEEP_MS: u64 = 3600 * 1000;

impl Keeper {
    pub(super) fn on_signals(&mut self) {
        while let Some(signal) = self.event_loop.signal() {
            if signal == libc_chld() {
                self.on_children();
            } else {
                let by = self.identity.as_actor("SIGTERM to the keeper");
                let stop = Command::Stop { by, grace: SIGTERM_GRACE };
                if self.take(vec![SessionInput::Command(stop)]).is_err() {
                    // The host shuts down and the disk is full: the order counts, the record is not possible.
                    self.run.terminate();
                }
            }
        }
    }

    /// Collects exits and, when no child is left, the proof that the run is over.
    pub(super) fn on_children(&mut self) {
        let reaping = self.run.reap(self.journal.session(), self.journal.waiting());
        if reaping.is_unclear {
            self.journal.retry_soon();
        }
        if let Some(oom) = reaping.oom {
            self.report(vec![oom]);
        }
        self.report_exits();
    }

    /// Handles the kernel's report that the run's group changed.
    pub(super) fn on_boundary(&mut self) {
        let is_early = self.run.rearm_watches();
        self.check_memory();
        if is_early {
            self.journal.retry_soon();
        }
        self.on_children();
    }

    /// Reports processes that the kernel killed because memory ran out.
    fn check_memory(&mut self) {
        if let Some(oom) = self.run.check_memory(self.journal.epoch()) {
            self.report(vec![oom]);
        }
    }

    pub(super) fn on_time(&mut self) {
        let boot_ms = clock::boot_ms();
        if self.journal.take_retry(boot_ms) {
            self.retry();
        }
        self.on_agent_time();
        self.on_tui_time();
        let ticks = [self.journal.kill_at_ms(), self.journal.idle_end_ms(), self.turns_due_ms()];
        if ticks.into_iter().flatten().min().is_some_and(|at| at <= boot_ms) {
            self.report(vec![Observation::Tick]);
        }
        self.look_whether_ready();
        if let Some(since_ms) = self.run.kill_again(boot_ms) {
            self.on_children();
            self.report_what_is_left(since_ms);
        }
        if self.status.due_at_ms().is_some_and(|at| at <= boot_ms) {
            self.write_status();
        }
        if let Err(error) = self.output.sync_if_due(boot_ms) {
            let what = format!("some output may not survive a power cut: {error}");
            let _ = self.take(vec![SessionInput::Note(Event::Warned { what })]);
        }
    }

    /// Tries again the writes that the disk refused, and the checks without a result.
    fn retry(&mut self) {
        self.retry_output();
        self.check_memory();
        self.on_children();
        self.report_again();
        self.release_absent_writer();
        self.look_again_at_owners();
        self.run.deliver_again();
    }

    /// Reports the helper as ready or as failed, once that is known.
    pub(super) fn look_whether_ready(&mut self) {
        let (session, end) = (self.journal.session(), self.output.end());
        if let Some(report) = self.helper.probe(session, &self.identity, end) {
            self.report(vec![report]);
        }
    }

    /// Reports the processes that remain although the run was killed long ago.
    fn report_what_is_left(&mut self, since_ms: u64) {
        if since_ms < PROOF_TIMEOUT.as_millis() as u64 {
            return;
        }
        let mut left = self.run.leftovers();
        if self.output.is_stuck() {
            left.push("the last of its output waits for room on the disk".to_owned());
        }
        if !left.is_empty() && self.journal.waiting().is_empty() {
            let epoch = self.journal.epoch();
            self.report(vec![Observation::StillThere { epoch, left }]);
        }
    }

    /// The next time at which turns change without an input. Once that is reported, a full disk decides when it
    /// is tried again.
    fn turns_due_ms(&self) -> Option<u64> {
        let session = self.journal.session();
        let due = session.turns_wake_at_boot_ms().filter(|_| !self.journal.has_reported_tick());
        // An agent in a terminal reports an end a moment before it has written it down, and may go on after it.
        let settled = self.tui_turns.settled_at_ms().filter(|_| session.switch_is_due());
        settled.map_or(due, |settled| due.map(|due| due.max(settled)))
    }

    /// The time that the loop may sleep; `None` when nothing is due.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        let session = self.journal.session();
        let due = [
            self.journal.retry_at_ms(),
            self.journal.kill_at_ms(),
            self.run.kill_again_at_ms(),
            self.status.due_at_ms(),
            self.output.sync_due_ms(),
            self.journal.idle_end_ms(),
            self.helper.probe_at_ms(),
            self.turns_due_ms(),
            self.agent_due_ms(),
            self.tui_turns.due_ms(session, &self.terminal),
            self.tui_turns.signs_due_ms(session),
        ];
        let due = due.into_iter().flatten().min()?;
        // Some kernels count a sleep in 31 bits of milliseconds.
        let left = due.saturating_sub(clock::boot_ms()).min(LONGEST_SLEEP_MS);
        Some(Timespec {
            tv_sec: (left / 1000).cast_signed(),
            tv_nsec: ((left % 1000) * 1_000_000).cast_signed(),
        })
    }
}
