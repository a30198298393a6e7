//! Compares the end of a turn that a hook reported with the agent's own record.
//!
//! Every tool of an agent can call the agent's hooks, and the keeper cannot distinguish the two: both run below the agent.
//! So the end of a client's turn counts only when the agent's transcript has it, and the answer is the one in the
//! transcript.
//! Promise: agents report an end before or after they write it, so the keeper waits for the record to change; the turn
//! goes on meanwhile. Where the record does not follow although the agent is idle, the end is recorded as told by a
//! hook: `done` with that remark if there is no record of the turn, `unknown` if the record has the turn and no end.
//! Not here: reading a record (`berth_transcript`), ends that no hook reports ([`TuiTurns::check_agent`]), the events
//! (`berth_core`).
//! Start with [`TuiTurns::note_end`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::status::{Timestamp, ToldStatus};
use berth_core::{EndProof, Final, Session, Told, TurnEnd, TurnState};
use berth_driver::MAX_ANSWER_BYTES;
use berth_host::clock;
use berth_store::{History, killpoint};
use berth_transcript::Progress;

use super::{STILL_MS, TuiTurns, doing};
use crate::keeper::identity::KeeperIdentity;
use crate::turn::{self, Recorded};
use crate::writers::Doing;

/// How long an idle agent may take to write down an end that a hook reported.
const PROOF_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for an agent that has no record: an agent that keeps records makes one with the first prompt.
const NO_RECORD_PATIENCE: Duration = Duration::from_secs(2);
/// How often the record is checked while it is expected to change.
const CHECK_MS: u64 = 50;
/// How often the record is checked when it has not changed for long: the agent works, and a tool reported an end.
const CHECK_SLOWLY_MS: u64 = 1000;
/// How many times as long as the last read the keeper waits before the next one.
const READ_PAUSE_FACTOR: u64 = 20;

/// An end that a hook reported and that is not proven.
#[derive(Debug)]
pub(in crate::keeper) struct ReportedEnd {
    how: How,
    turn: u64,
    /// When the hook reported it, on the boot clock.
    reported_at_ms: u64,
    /// Since when the agent has not been seen at work, on the boot clock.
    idle_since_ms: u64,
    check_at_ms: u64,
    /// The record when it was last read, and what it said.
    read: Option<(RecordPosition, Recorded)>,
}

#[derive(Debug)]
enum How {
    Stopped { answer: Option<String> },
    Interrupted,
}

/// A record as it was at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordPosition {
    path: PathBuf,
    bytes: u64,
    changed_at: (i64, i64),
}

impl ReportedEnd {
    /// The agent ended its turn with this answer.
    pub(in crate::keeper) fn stopped(answer: Option<String>) -> Self {
        Self::new(How::Stopped { answer })
    }

    /// The agent broke its turn off.
    pub(in crate::keeper) fn interrupted() -> Self {
        Self::new(How::Interrupted)
    }

    fn new(how: How) -> Self {
        let now = clock::boot_ms();
        Self { how, turn: 0, reported_at_ms: now, idle_since_ms: now, check_at_ms: now, read: None }
    }

    /// When to read the record again, on the boot clock.
    pub(super) fn check_at_ms(&self) -> u64 {
        self.check_at_ms
    }
}

/// What is known of an end, and what follows from it.
#[derive(Debug)]
pub(in crate::keeper) struct EndVerdict {
    pub(in crate::keeper) told: Told,
    /// True if the agent has ended: what is in its record from now on may be another program's.
    pub(in crate::keeper) has_ended: bool,
    /// The answer, for the followers of the turn.
    pub(in crate::keeper) answer: Option<String>,
}

impl From<Told> for EndVerdict {
    fn from(told: Told) -> Self {
        Self { told, has_ended: false, answer: None }
    }
}

/// The turn of a client that the agent has, and that the next end it reports is about.
pub(in crate::keeper) fn turn_to_prove(session: &Session) -> Option<u64> {
    let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
    let is_known =
        session.spec.as_ref().and_then(|spec| berth_transcript::Kind::of(&spec.conversation)).is_some();
    let turn = session.turns.current.as_ref()?.turn;
    let works = session.turns.open(turn).is_some_and(|turn| turn.state == TurnState::Working);
    (is_its_own && is_known && works).then_some(turn)
}

impl TuiTurns {
    /// Takes the end that a hook reports. Returns what the keeper can report now; the end of a client's turn waits for its
    /// proof.
    pub(in crate::keeper) fn note_end(
        &mut self,
        mut reported: ReportedEnd,
        history: &History,
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
        history: &History,
        identity: &KeeperIdentity,
    ) -> Option<EndVerdict> {
        if self.reported_end.as_ref().is_none_or(|reported| reported.check_at_ms > now) {
            return None;
        }
        self.proven_end(now, history, identity)
    }

    /// Remembers how long the record is, so that only what is behind that is read for the turn that is typed now.
    pub(super) fn mark_record(&mut self, session: &Session) {
        self.record_position = record_position(session, None);
    }

    /// What is known of the reported end now; `None` while it waits.
    fn proven_end(&mut self, now: u64, history: &History, identity: &KeeperIdentity) -> Option<EndVerdict> {
        let mut reported = self.reported_end.take()?;
        if turn_to_prove(&history.session) != Some(reported.turn) {
            // The turn has ended in another way.
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
            let recorded = turn::recorded(history, identity.session(), from_bytes);
            reported.read = Some((position, recorded));
            // An agent that changes a large record again and again must not keep the loop from its clients.
            let spent_ms = clock::boot_ms().saturating_sub(now);
            read_pause_ms = spent_ms * READ_PAUSE_FACTOR;
        }
        let contradicted = match &reported.read {
            Some((_, Recorded::Over(end))) => {
                let end = end.clone();
                return Some(self.recorded_end(end));
            }
            Some((_, Recorded::Unfinished(why, Progress::BrokenOff))) => {
                let reason = format!("it was interrupted: {why}");
                let end = TurnEnd::without_answer(Final::Interrupted, reason);
                let told = match reported.how {
                    How::Interrupted => Told::Interrupted,
                    How::Stopped { .. } => Told::Quiet { end: Some(end) },
                };
                self.note_proof("the agent's own record has it");
                return Some(told.into());
            }
            Some((_, Recorded::Unfinished(_, Progress::Open))) => true,
            Some((_, Recorded::Unfinished(_, Progress::NoPrompt) | Recorded::CannotTell)) => false,
            // There was a record when the turn was typed, and it was removed since.
            None => self.record_position.is_some(),
        };
        self.note_proof("not in the agent's own record");
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

    /// The record has the end: the record counts, and not the hook.
    fn recorded_end(&mut self, end: TurnEnd) -> EndVerdict {
        self.note_proof("the agent's own record has it");
        self.ended_at_ms = Some(clock::boot_ms());
        if end.state != Final::Done {
            let told = Told::Quiet { end: Some(end) };
            return EndVerdict { told, has_ended: true, answer: None };
        }
        let answer = Some(end.answer.clone());
        let told = Told::Stopped { answer: Some(end.answer), cut: end.cut, proof: EndProof::Recorded };
        EndVerdict { told, has_ended: true, answer }
    }

    /// Only the hook reported the end.
    fn unproven_end(&mut self, reported: ReportedEnd, proof: EndProof) -> EndVerdict {
        self.ended_at_ms = Some(clock::boot_ms());
        let How::Stopped { answer } = reported.how else {
            return EndVerdict { told: Told::Interrupted, has_ended: true, answer: None };
        };
        let said = answer.clone().filter(|_| proof != EndProof::Contradicted);
        EndVerdict { told: stopped(answer, proof), has_ended: true, answer: said }
    }

    /// Says beside the last hook what the record says about it.
    fn note_proof(&mut self, what: &str) {
        if let Some(ToldStatus { how, .. }) = &mut self.told {
            let hook = how.split(", ").next().unwrap_or_default();
            *how = format!("{hook}, {what}");
        } else {
            self.told = Some(ToldStatus { how: what.to_owned(), at: Timestamp(clock::wall_ms()) });
        }
    }

    /// True if the agent is seen to work: by its own list, or, if it keeps none, by what it paints.
    fn is_at_work(&self, now: u64, session: &Session) -> bool {
        match doing(session) {
            Some(Doing::Idle { .. }) => false,
            Some(Doing::Busy { .. } | Doing::Other) => true,
            None => session.asks_on_screen() || now.saturating_sub(self.shown_at_ms) < STILL_MS,
        }
    }
}

/// The agent's record of the conversation as it is now, if there is one. `known` is where it was found before.
fn record_position(session: &Session, known: Option<PathBuf>) -> Option<RecordPosition> {
    let path = match known {
        Some(path) => path,
        None => turn::conversation_files(session).ok()?.into_iter().next()?,
    };
    let file = fs::metadata(&path).ok()?;
    Some(RecordPosition { path, bytes: file.len(), changed_at: (file.mtime(), file.mtime_nsec()) })
}

fn stopped(answer: Option<String>, proof: EndProof) -> Told {
    let mut answer = answer;
    let cut = answer.as_ref().is_some_and(|answer| answer.len() > MAX_ANSWER_BYTES);
    if let Some(answer) = answer.as_mut().filter(|_| cut) {
        answer.truncate(answer.floor_char_boundary(MAX_ANSWER_BYTES));
    }
    Told::Stopped { answer, cut, proof }
}
