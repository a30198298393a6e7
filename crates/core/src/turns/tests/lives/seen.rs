//! The promises, kept a second time in the plainest way and read from the events alone.

use std::collections::BTreeMap;

use super::super::TurnsScenario;
use crate::turns::{FinalState, MOST_QUEUED, SendMode, StartDeadline, TurnLookup, TurnProgress};
use crate::{Event, RunPhase, Session};

/// Facts from the events so far.
#[derive(Default)]
pub(super) struct TurnEventModel {
    pub(super) accepted: u64,
    /// For each turn: how often it was given to an agent, and its state.
    pub(super) turns: BTreeMap<u64, (u32, TurnProgress)>,
    /// Text that each key belongs to.
    pub(super) keys: BTreeMap<String, String>,
    /// Turns that were not moved and were in no hurry: they keep their order.
    pub(super) plain: Vec<u64>,
    pub(super) last_plain: u64,
    /// Ends that were reported, with their turns.
    pub(super) told: Vec<(u64, FinalState)>,
    /// True if a client stopped the session and none has started it since.
    pub(super) is_stopped: bool,
    /// Turns that are over, in the order they ended.
    pub(super) ended: Vec<u64>,
    /// Reports of ends that came after the end.
    pub(super) late: Vec<(u64, FinalState)>,
    /// True if a client archived the session and none has restored it since.
    pub(super) is_archived: bool,
}

impl TurnEventModel {
    /// Notes an event, and checks whether it may happen in the state that it met.
    pub(super) fn witness(&mut self, story: &TurnsScenario, event: &Event) {
        let before = &story.session;
        match event {
            Event::TurnAccepted { turn, prompt } => {
                self.accepted += 1;
                assert_eq!(*turn, self.accepted, "numbered without a gap");
                assert!(before.turns.queue.len() < MOST_QUEUED);
                self.turns.insert(*turn, (0, TurnProgress::Queued));
                // A retry goes before the waiting turns.
                if prompt.manner == SendMode::Queue && prompt.retry.is_none() {
                    self.plain.push(*turn);
                }
            }
            Event::TurnDelivered { turn, epoch, .. } => {
                let is_running = matches!(before.phase, RunPhase::Running { .. });
                assert!(is_running && *epoch == before.epoch, "given to an agent that does not run");
                assert!(before.turns.ready.is_some(), "given to an agent that takes no turns");
                assert_eq!(before.turns.hold, None, "given while it was held");
                let given = before.turns.open(*turn).expect("accepted before");
                let in_time = |by: &StartDeadline| by.boot == story.boot() && by.boot_ms > story.now.boot_ms;
                assert!(given.start_by.as_ref().is_none_or(in_time), "given too late");
                let is_expired = before.is_expired(&story.boot(), story.now.boot_ms);
                assert!(!is_expired, "given when the session's time was up");
                let steers = given.manner == SendMode::Steer;
                assert!(before.turns.current.is_none() || steers, "two at a time");
                let (times, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!((*times, *state), (0, TurnProgress::Queued), "given twice");
                (*times, *state) = (1, TurnProgress::Delivered);
                if self.plain.contains(turn) {
                    assert!(*turn > self.last_plain, "{turn} was overtaken by {}", self.last_plain);
                    self.last_plain = *turn;
                }
            }
            Event::TurnBegan { turn } => {
                let (_, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!(*state, TurnProgress::Delivered);
                *state = TurnProgress::Working;
            }
            Event::TurnEnded { turn, end, .. } => self.ended(before, *turn, end.state),
            Event::LateResult { turn, end } => {
                let (_, state) = self.turns.get(turn).expect("accepted before");
                assert!(state.is_over(), "late is what comes after the end");
                let is_here = matches!(before.turns.find(*turn), TurnLookup::Here(_));
                assert!(is_here, "what is told of a turn that is no longer in memory is ignored");
                assert!(!self.late.contains(&(*turn, end.state)), "kept twice");
                self.late.push((*turn, end.state));
            }
            Event::CancelRequested { turn, .. } => {
                let current = before.turns.current.as_ref().expect("only what runs is broken off");
                assert_eq!((current.turn, &current.cancel), (*turn, &None), "asked once");
            }
            Event::RunReleased { epoch, .. } => {
                let may = matches!(before.phase, RunPhase::Starting | RunPhase::Running { .. });
                assert!(may && *epoch == before.epoch);
            }
            Event::RunStarting { .. } => {
                assert!(!self.is_archived, "what was put away does not run");
                self.is_stopped = false;
            }
            Event::Archived { .. } => {
                assert!(!before.is_live() && !self.is_archived, "put away once, and nothing that runs");
                self.is_archived = true;
            }
            Event::Restored { .. } => {
                assert!(self.is_archived, "only what was put away comes back");
                self.is_archived = false;
            }
            Event::RunEnded { .. } => {
                assert_eq!(before.turns.current, None, "no turn outlives its run");
            }
            Event::Created { .. }
            | Event::Renamed { .. }
            | Event::RunStarted { .. }
            | Event::StopRequested { .. }
            | Event::AgentExited { .. }
            | Event::OomKilled { .. }
            | Event::KillOrdered { .. }
            | Event::EndUnproven { .. }
            | Event::WriterGranted { .. }
            | Event::WriterReleased { .. }
            | Event::Typed { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::HelperDeclared { .. }
            | Event::CommandChanged { .. }
            | Event::OwnerJoined { .. }
            | Event::OwnerLeft { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::AgentReady { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::QuestionWithdrawn { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::ExpirySet { .. }
            | Event::TagsChanged { .. }
            | Event::NoteChanged { .. }
            | Event::Imported { .. }
            | Event::PolicySet { .. }
            | Event::HooksInjected { .. }
            | Event::ActivityReported { .. }
            | Event::InterfaceChosen { .. }
            | Event::Warned { .. } => {}
        }
    }

    /// Checks that each turn has one end, and none that claims more than was reported.
    fn ended(&mut self, before: &Session, turn: u64, end: FinalState) {
        let current = before.turns.current.as_ref();
        let whole = current.filter(|it| it.turn == turn || it.steered.contains(&turn)).map(|it| it.turn);
        let of_it = |told: &&(u64, FinalState)| told.0 == turn || Some(told.0) == whole;
        let was_told = |fate: FinalState| self.told.iter().filter(of_it).any(|(_, told)| *told == fate);
        let cancel = current.filter(|it| Some(it.turn) == whole).and_then(|it| it.cancel.as_ref());
        let (_, state) = self.turns.get(&turn).expect("accepted before");
        match (*state, end) {
            (TurnProgress::Over(first), _) => panic!("turn {turn} was {first:?} and is {end:?}"),
            (TurnProgress::Queued, FinalState::Cancelled) => {}
            (TurnProgress::Queued, _) => panic!("turn {turn} never reached an agent and is {end:?}"),
            (TurnProgress::Delivered | TurnProgress::Working, FinalState::Done | FinalState::Failed) => {
                assert!(was_told(end), "no report said that turn {turn} is {end:?}");
            }
            (TurnProgress::Delivered | TurnProgress::Working, FinalState::Cancelled) => {
                assert!(
                    was_told(end) || cancel.is_some_and(|it| !it.for_another),
                    "no client asked for that"
                );
            }
            (TurnProgress::Delivered | TurnProgress::Working, FinalState::Interrupted) => {
                let broken_off = cancel.is_some_and(|it| it.for_another)
                    && (was_told(FinalState::Failed) || was_told(FinalState::Cancelled));
                assert!(was_told(end) || broken_off, "no report proved that turn {turn} did not finish");
            }
            (TurnProgress::Delivered | TurnProgress::Working, FinalState::Unknown) => {}
        }
        self.turns.get_mut(&turn).expect("accepted before").1 = TurnProgress::Over(end);
        self.ended.push(turn);
    }
}
