//! Checks of the terminal's agent by the clock: whether it listens, whether it still works, and the time of
//! the next look.
//!
//! Promise: an end that no hook reports is noticed, by the agent's own list of sessions or by its record.
//! Start with [`TuiTurns::due_ms`].

use berth_api::status::{ActivityStatus, Timestamp};
use berth_conversations::foreign_writers::RegistryActivity;
use berth_core::{Observation, QueueHold, Session, TerminalReport};
use berth_host::clock;
use berth_store::{SessionView, killpoint};

use super::{
    CHECK_MS, LISTENING_MS, PasteStage, ReportedEnd, SETTLED_MS, STILL_LONG_MS, STILL_MS, TELL_PATIENCE,
    TuiTurns, doing, echo_patience_ms, is_told_of, traits_of, works,
};
use crate::keeper::agent_terminal::AgentTerminal;
use crate::keeper::identity::KeeperIdentity;
use crate::turn_outcome;

impl TuiTurns {
    /// The next deadline of the terminal's agent, on the boot clock.
    pub(in crate::keeper) fn due_ms(&self, session: &Session, terminal: &AgentTerminal) -> Option<u64> {
        if !is_told_of(session) {
            return None;
        }
        let paste = self.paste.as_ref().map(|paste| match paste.stage {
            PasteStage::Pasted { since_ms } if terminal.has_waiting_keys() => since_ms + echo_patience_ms(),
            PasteStage::Pasted { since_ms } if self.shown_at_ms < since_ms => since_ms + echo_patience_ms(),
            PasteStage::Pasted { .. } => self.shown_at_ms + SETTLED_MS,
            PasteStage::Sent { until_ms } => until_ms,
        });
        let awaited = if session.edges.is_some() || session.turns.hold.is_some() {
            None
        } else if traits_of(session).tells_late {
            Some(self.shown_at_ms + LISTENING_MS)
        } else {
            self.awaited_since_ms.map(|since| since + TELL_PATIENCE.as_millis() as u64)
        };
        // A deadline that has passed without effect is repeated, but not at once.
        let now = clock::boot_ms();
        let typable = self.due_since_ms.map(|_| now + SETTLED_MS);
        let proof = self.reported_end.as_ref().map(ReportedEnd::check_at_ms);
        let due = [paste, awaited, typable, proof, self.check_at_ms, self.remember_at_ms];
        let due = due.into_iter().flatten().min()?;
        Some(if due <= now { now + SETTLED_MS } else { due })
    }

    /// True if time changes anything for the terminal's agent.
    pub(in crate::keeper) fn has_time(session: &Session) -> bool {
        is_told_of(session)
    }

    /// True if a turn waits for the terminal to take it.
    pub(in crate::keeper) fn take_typable(&mut self, session: &Session) -> bool {
        let waits = self.due_since_ms.is_some();
        // If the turn is not due any more, nothing happens.
        self.due_since_ms = self.due_since_ms.filter(|_| session.due_turn().is_some());
        waits
    }

    /// Waits for the first report of an agent. An agent that never reports before its first prompt is believed to
    /// listen when its terminal takes pastes and is quiet; for any other, the queue is held after a while.
    pub(in crate::keeper) fn await_first_word(
        &mut self,
        now: u64,
        session: &Session,
        terminal: &mut AgentTerminal,
    ) -> Option<Observation> {
        if session.edges.is_some() {
            return None;
        }
        let epoch = session.epoch;
        if traits_of(session).tells_late {
            let quiet = self.shown_at_ms > 0 && self.shown_at_ms + LISTENING_MS <= now;
            if quiet && terminal.takes_paste() {
                return Some(Observation::Told { epoch, told: TerminalReport::Started });
            } else if quiet {
                // Another program is in its place. That one paints when it is over.
                self.shown_at_ms = now;
            }
            return None;
        }
        if session.turns.queue.is_empty() || session.turns.hold.is_some() {
            self.awaited_since_ms = None;
            return None;
        }
        let since = *self.awaited_since_ms.get_or_insert(now);
        let patience = killpoint::patience("BERTH_READY_MS", TELL_PATIENCE).as_millis() as u64;
        (since + patience <= now).then(|| {
            let reason = format!(
                "its hooks have not reported within {} s that it is ready for a prompt: it may be asking something on its screen",
                TELL_PATIENCE.as_secs()
            );
            Observation::Held { hold: QueueHold::AgentFailed { reason } }
        })
    }

    /// True once when the agent is to be checked.
    pub(in crate::keeper) fn take_check(&mut self, now: u64) -> bool {
        let is_due = self.check_at_ms.is_some_and(|at| at <= now);
        if is_due {
            self.check_at_ms = Some(now + CHECK_MS);
        }
        is_due
    }

    /// Checks the agent's transcripts of its activity: not every end is reported by a hook.
    pub(in crate::keeper) fn check_agent(
        &mut self,
        history: &SessionView,
        identity: &KeeperIdentity,
    ) -> Option<Observation> {
        let session = &history.session;
        if !works(session) {
            self.check_at_ms = None;
            return None;
        }
        // The proof of a reported end reads the record already, and decides.
        if self.reported_end.is_some() {
            return None;
        }
        if traits_of(session).paints_while_working {
            return self.check_record(history, identity);
        }
        let epoch = session.epoch;
        match doing(session) {
            Some(RegistryActivity::Idle { since_ms }) if since_ms > self.busy_at_ms => {}
            // A user answered the question, and the tool runs; no hook reports before that is over.
            Some(RegistryActivity::Busy { since_ms })
                if session.asks_on_screen() && (1..since_ms).contains(&self.asked_at_ms) =>
            {
                return Some(Observation::Told { epoch, told: TerminalReport::GoesOn });
            }
            Some(RegistryActivity::Idle { .. } | RegistryActivity::Busy { .. } | RegistryActivity::Other)
            | None => return None,
        }
        let end = turn_outcome::idle_agent_turn_end(history, identity.session());
        let how = "the agent's own list of sessions".to_owned();
        self.last_report = Some(ActivityStatus { how, at: Timestamp(clock::wall_ms()) });
        Some(Observation::Told { epoch, told: TerminalReport::Quiet { end } })
    }

    /// Checks the record of an agent that keeps no list: such an agent paints as long as it works. An end that no
    /// hook reports (the model could not be reached) is in its record.
    fn check_record(&mut self, history: &SessionView, identity: &KeeperIdentity) -> Option<Observation> {
        let session = &history.session;
        let still_ms = clock::boot_ms().saturating_sub(self.shown_at_ms);
        if still_ms < STILL_MS || session.asks_on_screen() {
            return None;
        }
        let has_turn = session.turns.current.is_some();
        let end = turn_outcome::recorded_end(history, identity.session());
        if end.is_none() && (has_turn || still_ms < STILL_LONG_MS) {
            // Reading it takes as long as it is large: the longer nothing happens, the more rarely it is read.
            self.check_at_ms = Some(clock::boot_ms() + still_ms.clamp(CHECK_MS, STILL_LONG_MS));
            return None;
        }
        let how = "the agent's transcript".to_owned();
        self.last_report = Some(ActivityStatus { how, at: Timestamp(clock::wall_ms()) });
        Some(Observation::Told { epoch: session.epoch, told: TerminalReport::Quiet { end } })
    }
}
