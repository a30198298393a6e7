//! Compares the end of a turn that a hook reported with the agent's transcript.
//!
//! Every tool of an agent can call the agent's hooks, and the keeper cannot distinguish the two: both run below the agent.
//! So the end of a client's turn counts only when the agent's transcript has it, and the answer is the one
//! in the transcript.
//! Promise: agents report an end before or after they write it, so the keeper waits for the record to change; the turn
//! goes on meanwhile. If the record does not follow although the agent is idle, the end is recorded as reported by a
//! hook: `done` with that remark if there is no record of the turn, `unknown` if the record has the turn and no end.
//! Not here: reading a record (`berth_transcript`), ends that no hook reports ([`TuiTurns::check_agent`]),
//! the events (`berth_core`).
//! Start with [`TuiTurns::note_end`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::status::{ActivityStatus, Timestamp};
use berth_conversations::foreign_writers::RegistryActivity;
use berth_conversations::location;
use berth_core::{EndProof, FinalState, Session, TerminalReport, TurnEnd, TurnProgress};
use berth_driver::MAX_ANSWER_BYTES;
use berth_host::clock;
use berth_store::{SessionView, killpoint};
use berth_transcript::RecordedProgress;

use super::{STILL_MS, TuiTurns, doing};
use crate::keeper::identity::KeeperIdentity;
use crate::turn_outcome::{self, RecordedTurnEnd};

/// The time that an idle agent may take to write down an end that a hook reported.
const PROOF_PATIENCE: Duration = Duration::from_secs(5);
/// The time to wait for an agent that has no record: an agent that keeps records makes one with the first prompt.
const NO_RECORD_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two checks of the record while it is expected to change.
const CHECK_MS: u64 = 50;
/// The pause when the record has not changed for long: the agent works, and a tool reported an end.
const CHECK_SLOWLY_MS: u64 = 1000;
/// The factor by which the pause is longer than the last read took.
const READ_PAUSE_FACTOR: u64 = 20;

/// An end that a hook reported and that is not proven.
#[derive(Debug)]
pub(in crate::keeper) struct ReportedEnd {
    how: ReportedEndKind,
    turn: u64,
    /// The time when the hook reported it, on the boot clock.
    reported_at_ms: u64,
    /// The time since when the agent has not been seen at work, on the boot clock.
    idle_since_ms: u64,
    check_at_ms: u64,
    /// The position of the record when it was last read, and its content.
    read: Option<(RecordPosition, RecordedTurnEnd)>,
}

#[derive(Debug)]
enum ReportedEndKind {
    Stopped { answer: Option<String> },
    Interrupted,
}

/// The position of a record at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordPosition {
    path: PathBuf,
    bytes: u64,
    changed_at: (i64, i64),
}

impl ReportedEnd {
    /// The agent ended its turn with this answer.
    pub(in crate::keeper) fn stopped(answer: Option<String>) -> Self {
        Self::new(ReportedEndKind::Stopped { answer })
    }

    /// The agent broke off its turn.
    pub(in crate::keeper) fn interrupted() -> Self {
        Self::new(ReportedEndKind::Interrupted)
    }

    fn new(how: ReportedEndKind) -> Self {
        let now = clock::boot_ms();
        Self { how, turn: 0, reported_at_ms: now, idle_since_ms: now, check_at_ms: now, read: None }
    }

    /// The time of the next read of the record, on the boot clock.
    pub(super) fn check_at_ms(&self) -> u64 {
        self.check_at_ms
    }
}

/// The verdict on an end, and its consequences.
#[derive(Debug)]
pub(in crate::keeper) struct EndVerdict {
    pub(in crate::keeper) told: TerminalReport,
    /// True if the agent has ended: later entries in its record may be another program's.
    pub(in crate::keeper) has_ended: bool,
    /// The answer, for the followers of the turn.
    pub(in crate::keeper) answer: Option<String>,
}

impl From<TerminalReport> for EndVerdict {
    fn from(told: TerminalReport) -> Self {
        Self { told, has_ended: false, answer: None }
    }
}

/// The turn of a client that the agent has, and that the next end it reports is about.
pub(in crate::keeper) fn turn_to_prove(session: &Session) -> Option<u64> {
    let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
    let is_known = session
        .spec
        .as_ref()
        .and_then(|spec| berth_transcript::TranscriptKind::of(&spec.conversation))
        .is_some();
    let turn = session.turns.current.as_ref()?.turn;
    let works = session.turns.open(turn).is_some_and(|turn| turn.state == TurnProgress::Working);
    (is_its_own && is_known && works).then_some(turn)
}

impl TuiTurns {
    /// Processes the end that a hook reports. Returns the report that the keeper can make now; the end of a client's
    /// turn waits for its proof.
    pub(in crate::keeper) fn note_end(
        &mut self,
        mut reported: ReportedEnd,
        history: &SessionView,
        identity: &KeeperIdentity,
    ) -> Option<EndVerdict> {
        let Some(turn) = turn_to_prove(&history.session) else {
            return Some(self.unproven_end(reported, EndProof::HookOnly));
        };
        reported.turn = turn;
        self.reported_end = Some(reported);
        self.proven_end(clock::boot_ms(), history, identity)
    }

    /// Reads the record again, if that is due.
    pub(in crate::keeper) fn on_proof_time(
        &mut self,
        now: u64,
        history: &SessionView,
        identity: &KeeperIdentity,
    ) -> Option<EndVerdict> {
        if self.reported_end.as_ref().is_none_or(|reported| reported.check_at_ms > now) {
            return None;
        }
        self.proven_end(now, history, identity)
    }

    /// Records the length of the record, so that only later entries are read for the turn that is typed now.
    pub(super) fn mark_record(&mut self, session: &Session) {
        self.record_position = record_position(session, None);
    }

    /// The verdict on the reported end; `None` while it waits.
    fn proven_end(
        &mut self,
        now: u64,
        history: &SessionView,
        identity: &KeeperIdentity,
    ) -> Option<EndVerdict> {
        let mut reported = self.reported_end.take()?;
        if turn_to_prove(&history.session) != Some(reported.turn) {
            // The turn has ended for another reason.
            return None;
        }
        let mut read_pause_ms = 0;
        let known = reported.read.as_ref().map(|(position, _)| position.path.clone());
        let position = record_position(&history.session, known);
        if let Some(position) =
            position.filter(|position| reported.read.as_ref().is_none_or(|(at, _)| at != position))
        {
            let begun = self.record_position.as_ref().filter(|begun| begun.path == position.path);
            let from_bytes = begun.map_or(0, |begun| begun.bytes);
            let recorded = turn_outcome::search_agent_record(history, identity.session(), from_bytes);
            reported.read = Some((position, recorded));
            // An agent that changes a large record again and again must not keep the loop from its clients.
            let spent_ms = clock::boot_ms().saturating_sub(now);
            read_pause_ms = spent_ms * READ_PAUSE_FACTOR;
        }
        let contradicted = match &reported.read {
            Some((_, RecordedTurnEnd::Over(end))) => {
                let end = end.clone();
                return Some(self.recorded_end(end));
            }
            Some((_, RecordedTurnEnd::Unfinished(why, RecordedProgress::BrokenOff))) => {
                let reason = format!("it was interrupted: {why}");
                let end = TurnEnd::without_answer(FinalState::Interrupted, reason);
                let told = match reported.how {
                    ReportedEndKind::Interrupted => TerminalReport::Interrupted,
                    ReportedEndKind::Stopped { .. } => TerminalReport::Quiet { end: Some(end) },
                };
                self.note_proof("the agent's transcript has it");
                return Some(told.into());
            }
            Some((_, RecordedTurnEnd::Unfinished(_, RecordedProgress::Open))) => true,
            Some((
                _,
                RecordedTurnEnd::Unfinished(_, RecordedProgress::NoPrompt) | RecordedTurnEnd::CannotTell,
            )) => false,
            // The record existed when the turn was typed, and was removed since.
            None => self.record_position.is_some(),
        };
        self.note_proof("not in the agent's transcript");
        if self.is_at_work(now, &history.session) {
            reported.idle_since_ms = now;
        }
        let usually = if reported.read.is_some() { PROOF_PATIENCE } else { NO_RECORD_PATIENCE };
        let patience = killpoint::patience("BERTH_PROOF_MS", usually).as_millis() as u64;
        if now >= reported.idle_since_ms + patience {
            let proof = if contradicted { EndProof::Contradicted } else { EndProof::HookOnly };
            return Some(self.unproven_end(reported, proof));
        }
        let is_fresh = now < reported.reported_at_ms + PROOF_PATIENCE.as_millis() as u64;
        let pause_ms = if is_fresh { CHECK_MS } else { CHECK_SLOWLY_MS };
        reported.check_at_ms = now + pause_ms.max(read_pause_ms);
        self.reported_end = Some(reported);
        None
    }

    /// The record has the end: the record counts, not the hook.
    fn recorded_end(&mut self, end: TurnEnd) -> EndVerdict {
        self.note_proof("the agent's transcript has it");
        self.ended_at_ms = Some(clock::boot_ms());
        if end.state != FinalState::Done {
            let told = TerminalReport::Quiet { end: Some(end) };
            return EndVerdict { told, has_ended: true, answer: None };
        }
        let answer = Some(end.answer.clone());
        let told =
            TerminalReport::Stopped { answer: Some(end.answer), cut: end.cut, proof: EndProof::Recorded };
        EndVerdict { told, has_ended: true, answer }
    }

    /// Only the hook reported the end.
    fn unproven_end(&mut self, reported: ReportedEnd, proof: EndProof) -> EndVerdict {
        self.ended_at_ms = Some(clock::boot_ms());
        let ReportedEndKind::Stopped { answer } = reported.how else {
            return EndVerdict { told: TerminalReport::Interrupted, has_ended: true, answer: None };
        };
        let said = answer.clone().filter(|_| proof != EndProof::Contradicted);
        EndVerdict { told: stopped(answer, proof), has_ended: true, answer: said }
    }

    /// Adds the record's verdict to the last hook, for display.
    fn note_proof(&mut self, what: &str) {
        if let Some(ActivityStatus { how, .. }) = &mut self.last_report {
            let hook = how.split(", ").next().unwrap_or_default();
            *how = format!("{hook}, {what}");
        } else {
            self.last_report = Some(ActivityStatus { how: what.to_owned(), at: Timestamp(clock::wall_ms()) });
        }
    }

    /// True if the agent is seen to work: by its own list, or, if it keeps none, by its painting.
    fn is_at_work(&self, now: u64, session: &Session) -> bool {
        match doing(session) {
            Some(RegistryActivity::Idle { .. }) => false,
            Some(RegistryActivity::Busy { .. } | RegistryActivity::Other) => true,
            None => session.asks_on_screen() || now.saturating_sub(self.shown_at_ms) < STILL_MS,
        }
    }
}

/// The current position of the agent's record of the conversation, if there is one. `known` is the path where it
/// was found before.
fn record_position(session: &Session, known: Option<PathBuf>) -> Option<RecordPosition> {
    let path = match known {
        Some(path) => path,
        None => location::conversation_files(session).ok()?.into_iter().next()?,
    };
    let file = fs::metadata(&path).ok()?;
    Some(RecordPosition { path, bytes: file.len(), changed_at: (file.mtime(), file.mtime_nsec()) })
}

fn stopped(answer: Option<String>, proof: EndProof) -> TerminalReport {
    let mut answer = answer;
    let cut = answer.as_ref().is_some_and(|answer| answer.len() > MAX_ANSWER_BYTES);
    if let Some(answer) = answer.as_mut().filter(|_| cut) {
        answer.truncate(answer.floor_char_boundary(MAX_ANSWER_BYTES));
    }
    TerminalReport::Stopped { answer, cut, proof }
}
