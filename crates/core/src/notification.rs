//! Occasions: events of a session that its users are notified of while they are elsewhere.
//!
//! Promise: a user's own action (stop, cancel, pause, answer) is never an occasion. A turn that is done is one only
//! when no other turn waits; a failure and a question always are.
//! Not here: whether a user is attached anyway, and how users are notified (see the keeper's `notify`).
//! Start with [`occasions`].

use crate::turns::{FinalState, ReleaseReason, is_withdrawn};
use crate::{Event, ProcessExit, RunOutcome, Session};

/// Kind of notification. The first is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NotificationKind {
    /// The agent asks a question, or the queue waits for a user.
    NeedsYou,
    /// A turn or a run failed, or its end is unknown.
    Failed,
    /// The agent is done with its turns, or its run ended by itself.
    Finished,
}

impl NotificationKind {
    /// All occasions, the most urgent first.
    pub const ALL: [Self; 3] = [Self::NeedsYou, Self::Failed, Self::Finished];

    /// Word that people see and write.
    pub fn word(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs-you",
            Self::Failed => "failed",
            Self::Finished => "finished",
        }
    }

    /// Finds an occasion by its word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|occasion| occasion.word() == word)
    }
}

/// Occasions that a session's users are notified of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NotificationPolicy {
    /// The occasions that the user's config file names.
    #[default]
    AsConfigured,
    /// Exactly these, whatever the config file says.
    Only(Vec<NotificationKind>),
}

impl NotificationPolicy {
    /// True if no notification is ever sent.
    pub fn is_never(&self) -> bool {
        match self {
            Self::AsConfigured => false,
            Self::Only(occasions) => occasions.is_empty(),
        }
    }
}

/// Finds the occasions among events that were committed together. `session` is the state after them.
pub fn occasions<'e>(
    session: &Session,
    events: impl IntoIterator<Item = &'e Event>,
) -> Vec<(usize, NotificationKind)> {
    let found =
        events.into_iter().enumerate().filter_map(|(at, event)| Some((at, occasion(session, event)?)));
    found.collect()
}

fn occasion(session: &Session, event: &Event) -> Option<NotificationKind> {
    // Owners of a helper see its trouble themselves, and a client that stopped a session knows about the end.
    if session.sharing.is_some() || session.stopped_by.is_some() {
        return None;
    }
    match event {
        Event::QuestionAsked { ask } => {
            let waits = session.turns.asks.iter().any(|waiting| waiting.request == ask.request);
            waits.then_some(NotificationKind::NeedsYou)
        }
        Event::QueueHeld { hold } => hold.needs_someone().then_some(NotificationKind::NeedsYou),
        Event::TurnEnded { end, .. } => {
            let turns = &session.turns;
            let nothing_waits = turns.current.is_none() && turns.queue.is_empty();
            match end.state {
                FinalState::Done => nothing_waits.then_some(NotificationKind::Finished),
                FinalState::Failed => Some(NotificationKind::Failed),
                // This includes a turn that a user interrupted for another one, which then waits or is with the agent.
                FinalState::Interrupted | FinalState::Unknown => {
                    let for_another = session.is_live() && turns.hold.is_none() && !nothing_waits;
                    (!for_another).then_some(NotificationKind::Failed)
                }
                FinalState::Cancelled => is_withdrawn(end).then_some(NotificationKind::Failed),
            }
        }
        Event::RunEnded { outcome, .. } => run_ended(session, outcome),
        Event::Created { .. }
        | Event::Renamed { .. }
        | Event::RunStarting { .. }
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
        | Event::HooksInjected { .. }
        | Event::ActivityReported { .. }
        | Event::TurnAccepted { .. }
        | Event::TurnDelivered { .. }
        | Event::TurnBegan { .. }
        | Event::CancelRequested { .. }
        | Event::LateResult { .. }
        | Event::Answered { .. }
        | Event::QuestionWithdrawn { .. }
        | Event::QueueResumed { .. }
        | Event::QueueMoved { .. }
        | Event::TurnEdited { .. }
        | Event::InterfaceChosen { .. }
        | Event::RunReleased { .. }
        | Event::ExpirySet { .. }
        | Event::Archived { .. }
        | Event::Restored { .. }
        | Event::TagsChanged { .. }
        | Event::NoteChanged { .. }
        | Event::Imported { .. }
        | Event::PolicySet { .. }
        | Event::Warned { .. } => None,
    }
}

fn run_ended(session: &Session, outcome: &RunOutcome) -> Option<NotificationKind> {
    // The next run begins by itself; if that fails, the queue is held.
    if session.goes_on() {
        return None;
    }
    match (&session.released, outcome) {
        // The agent was idle for long, or a user wanted its turn interrupted.
        (
            Some(ReleaseReason::Idle | ReleaseReason::Unresponsive | ReleaseReason::Switched),
            RunOutcome::Exited(_),
        ) => None,
        (Some(ReleaseReason::Expired), RunOutcome::Exited(_)) => Some(NotificationKind::Finished),
        (None, RunOutcome::Exited(ProcessExit::Code(0))) => Some(NotificationKind::Finished),
        (None | Some(ReleaseReason::Broken { .. }), RunOutcome::Exited(_))
        | (_, RunOutcome::OutOfMemory | RunOutcome::StartFailed(_) | RunOutcome::Lost) => {
            Some(NotificationKind::Failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Actor, AgentQuestion, Epoch, ProcessRef, QueueHold, RunPhase, SessionSpec, TurnEnd, TurnPrompt,
    };

    fn told(before: &[Event], batch: &[Event]) -> Vec<NotificationKind> {
        let session = Session::replay(before.iter().chain(batch));
        occasions(&session, batch).into_iter().map(|(_, occasion)| occasion).collect()
    }

    fn agent(turns: u64) -> Vec<Event> {
        let spec = SessionSpec { driver: "acp".to_owned(), ..SessionSpec::default() };
        let epoch = Epoch(1);
        let (keeper, boundary) = (ProcessRef::default(), Default::default());
        let mut events = vec![
            Event::Created { spec, name: None },
            Event::RunStarting { epoch, keeper, output_from: 0, boundary },
            Event::RunStarted { epoch, agent: ProcessRef::default() },
            Event::AgentReady { epoch, able: Default::default(), at_boot_ms: 0 },
        ];
        for turn in 1..=turns {
            let prompt = TurnPrompt {
                by: Actor::default(),
                text: "do it".to_owned(),
                key: None,
                start_by: None,
                manner: Default::default(),
                retry: None,
            };
            events.push(Event::TurnAccepted { turn, prompt });
        }
        events.push(Event::TurnDelivered { turn: 1, epoch, output_from: 0 });
        events
    }

    fn ended(turn: u64, state: FinalState) -> Event {
        Event::TurnEnded { turn, end: TurnEnd::without_answer(state, "because"), at_boot_ms: 1 }
    }

    fn run_over(outcome: RunOutcome) -> Event {
        Event::RunEnded { epoch: Epoch(1), outcome }
    }

    fn stop() -> Event {
        Event::StopRequested { epoch: Epoch(1), by: Actor::default(), kill_at_boot_ms: 9 }
    }

    #[test]
    fn a_turn_that_is_done_is_told_only_when_nothing_waits_and_a_failed_one_always() {
        assert_eq!(told(&agent(1), &[ended(1, FinalState::Done)]), [NotificationKind::Finished]);
        assert_eq!(told(&agent(2), &[ended(1, FinalState::Done)]), []);
        assert_eq!(told(&agent(2), &[ended(1, FinalState::Failed)]), [NotificationKind::Failed]);
    }

    #[test]
    fn an_action_of_the_user_is_not_an_occasion() {
        assert_eq!(told(&agent(1), &[ended(1, FinalState::Cancelled)]), []);
        let stopped: Vec<Event> = agent(1).into_iter().chain([stop()]).collect();
        let batch =
            [ended(1, FinalState::Interrupted), run_over(RunOutcome::Exited(ProcessExit::Signal(15)))];
        assert_eq!(told(&stopped, &batch), []);
        // Interrupted for another turn, which waits.
        assert_eq!(told(&agent(2), &[ended(1, FinalState::Interrupted)]), []);
        let paused = Event::QueueHeld { hold: QueueHold::Paused { by: Actor::default() } };
        assert_eq!(told(&agent(2), &[paused]), []);
    }

    #[test]
    fn a_lost_run_is_told_although_the_queue_is_held_as_well() {
        let held = Event::QueueHeld { hold: QueueHold::Unknown { turn: 1 } };
        let batch = [ended(1, FinalState::Unknown), held, run_over(RunOutcome::Lost)];
        assert_eq!(
            told(&agent(2), &batch),
            [NotificationKind::Failed, NotificationKind::NeedsYou, NotificationKind::Failed]
        );
    }

    #[test]
    fn a_question_is_told_unless_it_was_withdrawn_with_it() {
        let ask = |request: &str| AgentQuestion {
            request: request.to_owned(),
            tool: "bash".to_owned(),
            ..AgentQuestion::default()
        };
        let asked = Event::QuestionAsked { ask: ask("1") };
        assert_eq!(told(&agent(1), std::slice::from_ref(&asked)), [NotificationKind::NeedsYou]);
        let withdrawn = Event::QuestionWithdrawn { request: "1".to_owned() };
        assert_eq!(told(&agent(1), &[asked, withdrawn]), []);
    }

    #[test]
    fn a_command_that_ends_by_itself_is_told_by_its_code() {
        let spec = SessionSpec { driver: "pty".to_owned(), ..SessionSpec::default() };
        let epoch = Epoch(1);
        let before = [
            Event::Created { spec, name: None },
            Event::RunStarting {
                epoch,
                keeper: ProcessRef::default(),
                output_from: 0,
                boundary: Default::default(),
            },
            Event::RunStarted { epoch, agent: ProcessRef::default() },
        ];
        let exit = |code| run_over(RunOutcome::Exited(ProcessExit::Code(code)));
        assert_eq!(told(&before, &[exit(0)]), [NotificationKind::Finished]);
        assert_eq!(told(&before, &[exit(3)]), [NotificationKind::Failed]);
        assert_eq!(told(&before, &[run_over(RunOutcome::OutOfMemory)]), [NotificationKind::Failed]);
        assert_eq!(told(&before, &[stop(), exit(0)]), []);
        assert!(matches!(Session::replay(&before).phase, RunPhase::Running { .. }));
    }

    #[test]
    fn an_agent_that_was_released_for_being_idle_is_not_told_and_one_whose_time_was_up_is() {
        let released = |why| Event::RunReleased { epoch: Epoch(1), why, kill_at_boot_ms: 1 };
        let exit = run_over(RunOutcome::Exited(ProcessExit::Code(0)));
        let done: Vec<Event> = agent(1).into_iter().chain([ended(1, FinalState::Done)]).collect();
        assert_eq!(told(&done, &[released(ReleaseReason::Idle), exit.clone()]), []);
        assert_eq!(told(&done, &[released(ReleaseReason::Expired), exit]), [NotificationKind::Finished]);
    }
}
