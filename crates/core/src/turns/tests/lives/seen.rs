//! What is promised, kept a second time in the plainest way and read from the events alone.

use std::collections::BTreeMap;

use super::super::Story;
use crate::turns::{Final, MOST_QUEUED, Manner, StartBy, TurnLookup, TurnState};
use crate::{Event, Phase, Session};

/// What the events said so far.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) accepted: u64,
    /// How often each turn was given to an agent, and where it stands.
    pub(super) turns: BTreeMap<u64, (u32, TurnState)>,
    /// The text each key belongs to.
    pub(super) keys: BTreeMap<String, String>,
    /// Turns nobody moved and that were in no hurry: they keep their order.
    pub(super) plain: Vec<u64>,
    pub(super) last_plain: u64,
    /// Which ends were reported of which turn.
    pub(super) told: Vec<(u64, Final)>,
    /// Somebody stopped it, and nobody has started it since.
    pub(super) is_stopped: bool,
    /// Turns that are over, in the order they ended.
    pub(super) ended: Vec<u64>,
    /// Which of them came after the end.
    pub(super) late: Vec<(u64, Final)>,
    /// Somebody put it away, and nobody has brought it back since.
    pub(super) is_archived: bool,
}

impl Seen {
    /// Takes note of an event, and of whether it may happen in the state it met.
    pub(super) fn witness(&mut self, story: &Story, event: &Event) {
        let before = &story.session;
        match event {
            Event::TurnAccepted { turn, prompt } => {
                self.accepted += 1;
                assert_eq!(*turn, self.accepted, "numbered without a gap");
                assert!(before.turns.queue.len() < MOST_QUEUED);
                self.turns.insert(*turn, (0, TurnState::Queued));
                // A retry goes before what waits.
                if prompt.manner == Manner::Queue && prompt.retry.is_none() {
                    self.plain.push(*turn);
                }
            }
            Event::TurnDelivered { turn, epoch, .. } => {
                let is_running = matches!(before.phase, Phase::Running { .. });
                assert!(is_running && *epoch == before.epoch, "given to an agent that does not run");
                assert!(before.turns.ready.is_some(), "given to an agent that takes no turns");
                assert_eq!(before.turns.hold, None, "given while it was held");
                let given = before.turns.open(*turn).expect("accepted before");
                let in_time = |by: &StartBy| by.boot == story.boot() && by.boot_ms > story.now.boot_ms;
                assert!(given.start_by.as_ref().is_none_or(in_time), "given too late");
                let is_expired = before.is_expired(&story.boot(), story.now.boot_ms);
                assert!(!is_expired, "given when the session's time was up");
                let steers = given.manner == Manner::Steer;
                assert!(before.turns.current.is_none() || steers, "two at a time");
                let (times, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!((*times, *state), (0, TurnState::Queued), "given twice");
                (*times, *state) = (1, TurnState::Delivered);
                if self.plain.contains(turn) {
                    assert!(*turn > self.last_plain, "{turn} was overtaken by {}", self.last_plain);
                    self.last_plain = *turn;
                }
            }
            Event::TurnBegan { turn } => {
                let (_, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!(*state, TurnState::Delivered);
                *state = TurnState::Working;
            }
            Event::TurnEnded { turn, end, .. } => self.ended(before, *turn, end.state),
            Event::TurnLate { turn, end } => {
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
            Event::Released { epoch, .. } => {
                let may = matches!(before.phase, Phase::Starting | Phase::Running { .. });
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
            | Event::Declared { .. }
            | Event::Respecified { .. }
            | Event::OwnerJoined { .. }
            | Event::OwnerLeft { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::AgentReady { .. }
            | Event::Asked { .. }
            | Event::Answered { .. }
            | Event::Unasked { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::ExpirySet { .. }
            | Event::Tagged { .. }
            | Event::Noted { .. }
            | Event::Imported { .. }
            | Event::PolicySet { .. }
            | Event::HooksCarried { .. }
            | Event::EdgeSeen { .. }
            | Event::InterfaceChosen { .. }
            | Event::Warned { .. } => {}
        }
    }

    /// One end each, and none that claims more than somebody said.
    fn ended(&mut self, before: &Session, turn: u64, end: Final) {
        let current = before.turns.current.as_ref();
        let whole = current.filter(|it| it.turn == turn || it.steered.contains(&turn)).map(|it| it.turn);
        let of_it = |told: &&(u64, Final)| told.0 == turn || Some(told.0) == whole;
        let was_told = |fate: Final| self.told.iter().filter(of_it).any(|(_, told)| *told == fate);
        let cancel = current.filter(|it| Some(it.turn) == whole).and_then(|it| it.cancel.as_ref());
        let (_, state) = self.turns.get(&turn).expect("accepted before");
        match (*state, end) {
            (TurnState::Over(first), _) => panic!("turn {turn} was {first:?} and is {end:?}"),
            (TurnState::Queued, Final::Cancelled) => {}
            (TurnState::Queued, _) => panic!("turn {turn} never reached an agent and is {end:?}"),
            (TurnState::Delivered | TurnState::Working, Final::Done | Final::Failed) => {
                assert!(was_told(end), "nobody said that turn {turn} is {end:?}");
            }
            (TurnState::Delivered | TurnState::Working, Final::Cancelled) => {
                assert!(was_told(end) || cancel.is_some_and(|it| !it.for_another), "nobody wanted that");
            }
            (TurnState::Delivered | TurnState::Working, Final::Interrupted) => {
                let broken_off = cancel.is_some_and(|it| it.for_another)
                    && (was_told(Final::Failed) || was_told(Final::Cancelled));
                assert!(was_told(end) || broken_off, "nobody proved that turn {turn} did not finish");
            }
            (TurnState::Delivered | TurnState::Working, Final::Unknown) => {}
        }
        self.turns.get_mut(&turn).expect("accepted before").1 = TurnState::Over(end);
        self.ended.push(turn);
    }
}
