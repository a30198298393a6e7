//! Occasions: what of a session's history people want to be told of while they do something else.
//!
//! Promise: what a person did themselves (stop, cancel, pause, answer) is never an occasion; a turn that is
//! done is one only when nothing else waits, a failure and a question always are.
//! Not here: whether somebody is looking anyway, and how they are told (see the keeper's `notify`).
//! Start with [`occasions`].

use crate::turns::{Final, Release, is_withdrawn};
use crate::{Event, Exit, Outcome, Session};

/// Something to tell people of. The first is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Occasion {
    /// The agent asks something, or the queue does not go on without somebody's word.
    NeedsYou,
    /// A turn or a run failed, or nobody knows how it ended.
    Failed,
    /// The agent has done what it was asked to, or its run ended by itself.
    Finished,
}

impl Occasion {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 3] = [Self::NeedsYou, Self::Failed, Self::Finished];

    /// The word people see and write.
    pub fn word(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs-you",
            Self::Failed => "failed",
            Self::Finished => "finished",
        }
    }

    /// The occasion of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|occasion| occasion.word() == word)
    }
}

/// Which occasions a session's people are told of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// Those their config file names.
    #[default]
    AsConfigured,
    /// These, whatever it says.
    Only(Vec<Occasion>),
}

impl Notify {
    /// Whether nobody is ever told anything.
    pub fn is_never(&self) -> bool {
        match self {
            Self::AsConfigured => false,
            Self::Only(occasions) => occasions.is_empty(),
        }
    }
}

/// Which of these events are occasions. They were committed together, and `session` is the state after them.
pub fn occasions<'e>(
    session: &Session,
    events: impl IntoIterator<Item = &'e Event>,
) -> Vec<(usize, Occasion)> {
    let found =
        events.into_iter().enumerate().filter_map(|(at, event)| Some((at, occasion(session, event)?)));
    found.collect()
}

fn occasion(session: &Session, event: &Event) -> Option<Occasion> {
    // Owners of a helper see its trouble themselves, and so does who stopped a session.
    if session.sharing.is_some() || session.stopped_by.is_some() {
        return None;
    }
    match event {
        Event::Asked { ask } => {
            let waits = session.turns.asks.iter().any(|waiting| waiting.request == ask.request);
            waits.then_some(Occasion::NeedsYou)
        }
        Event::QueueHeld { hold } => hold.needs_someone().then_some(Occasion::NeedsYou),
        Event::TurnEnded { end, .. } => {
            let turns = &session.turns;
            let nothing_waits = turns.current.is_none() && turns.queue.is_empty();
            match end.state {
                Final::Done => nothing_waits.then_some(Occasion::Finished),
                Final::Failed => Some(Occasion::Failed),
                // Also what a person broke off for another turn, which then waits or is with the agent.
                Final::Interrupted | Final::Unknown => {
                    let for_another = session.is_live() && turns.hold.is_none() && !nothing_waits;
                    (!for_another).then_some(Occasion::Failed)
                }
                Final::Cancelled => is_withdrawn(end).then_some(Occasion::Failed),
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
        | Event::Declared { .. }
        | Event::Respecified { .. }
        | Event::OwnerJoined { .. }
        | Event::OwnerLeft { .. }
        | Event::BecameReady { .. }
        | Event::NeverReady { .. }
        | Event::ConversationEntered { .. }
        | Event::ConversationLeft { .. }
        | Event::AgentReady { .. }
        | Event::HooksCarried { .. }
        | Event::EdgeSeen { .. }
        | Event::TurnAccepted { .. }
        | Event::TurnDelivered { .. }
        | Event::TurnBegan { .. }
        | Event::CancelRequested { .. }
        | Event::TurnLate { .. }
        | Event::Answered { .. }
        | Event::Unasked { .. }
        | Event::QueueResumed { .. }
        | Event::QueueMoved { .. }
        | Event::TurnEdited { .. }
        | Event::InterfaceChosen { .. }
        | Event::Released { .. }
        | Event::ExpirySet { .. }
        | Event::Archived { .. }
        | Event::Restored { .. }
        | Event::Tagged { .. }
        | Event::Noted { .. }
        | Event::Imported { .. }
        | Event::PolicySet { .. }
        | Event::Warned { .. } => None,
    }
}

fn run_ended(session: &Session, outcome: &Outcome) -> Option<Occasion> {
    // The next run begins by itself; if that fails, the queue is held.
    if session.goes_on() {
        return None;
    }
    match (&session.released, outcome) {
        // It has been quiet for long, or a person wanted its turn broken off.
        (Some(Release::Idle | Release::Unresponsive | Release::Switched), Outcome::Exited(_)) => None,
        (Some(Release::Expired), Outcome::Exited(_)) => Some(Occasion::Finished),
        (None, Outcome::Exited(Exit::Code(0))) => Some(Occasion::Finished),
        (None | Some(Release::Broken { .. }), Outcome::Exited(_))
        | (_, Outcome::OutOfMemory | Outcome::StartFailed(_) | Outcome::Lost) => Some(Occasion::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Actor, Ask, Epoch, Hold, Phase, Process, Prompt, Spec, TurnEnd};

    fn told(before: &[Event], batch: &[Event]) -> Vec<Occasion> {
        let session = Session::replay(before.iter().chain(batch));
        occasions(&session, batch).into_iter().map(|(_, occasion)| occasion).collect()
    }

    fn agent(turns: u64) -> Vec<Event> {
        let spec = Spec { driver: "acp".to_owned(), ..Spec::default() };
        let epoch = Epoch(1);
        let (keeper, boundary) = (Process::default(), Default::default());
        let mut events = vec![
            Event::Created { spec, name: None },
            Event::RunStarting { epoch, keeper, output_from: 0, boundary },
            Event::RunStarted { epoch, agent: Process::default() },
            Event::AgentReady { epoch, able: Default::default(), at_boot_ms: 0 },
        ];
        for turn in 1..=turns {
            let prompt = Prompt {
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

    fn ended(turn: u64, state: Final) -> Event {
        Event::TurnEnded { turn, end: TurnEnd::without_answer(state, "because"), at_boot_ms: 1 }
    }

    fn run_over(outcome: Outcome) -> Event {
        Event::RunEnded { epoch: Epoch(1), outcome }
    }

    fn stop() -> Event {
        Event::StopRequested { epoch: Epoch(1), by: Actor::default(), kill_at_boot_ms: 9 }
    }

    #[test]
    fn a_turn_that_is_done_is_told_only_when_nothing_waits_and_a_failed_one_always() {
        assert_eq!(told(&agent(1), &[ended(1, Final::Done)]), [Occasion::Finished]);
        assert_eq!(told(&agent(2), &[ended(1, Final::Done)]), []);
        assert_eq!(told(&agent(2), &[ended(1, Final::Failed)]), [Occasion::Failed]);
    }

    #[test]
    fn what_a_person_did_is_not_told() {
        assert_eq!(told(&agent(1), &[ended(1, Final::Cancelled)]), []);
        let stopped: Vec<Event> = agent(1).into_iter().chain([stop()]).collect();
        let batch = [ended(1, Final::Interrupted), run_over(Outcome::Exited(Exit::Signal(15)))];
        assert_eq!(told(&stopped, &batch), []);
        // Broken off for another turn, which waits.
        assert_eq!(told(&agent(2), &[ended(1, Final::Interrupted)]), []);
        let paused = Event::QueueHeld { hold: Hold::Paused { by: Actor::default() } };
        assert_eq!(told(&agent(2), &[paused]), []);
    }

    #[test]
    fn a_lost_run_is_told_although_the_queue_is_held_as_well() {
        let held = Event::QueueHeld { hold: Hold::Unknown { turn: 1 } };
        let batch = [ended(1, Final::Unknown), held, run_over(Outcome::Lost)];
        assert_eq!(told(&agent(2), &batch), [Occasion::Failed, Occasion::NeedsYou, Occasion::Failed]);
    }

    #[test]
    fn a_question_is_told_unless_it_was_withdrawn_with_it() {
        let ask =
            |request: &str| Ask { request: request.to_owned(), tool: "bash".to_owned(), ..Ask::default() };
        let asked = Event::Asked { ask: ask("1") };
        assert_eq!(told(&agent(1), std::slice::from_ref(&asked)), [Occasion::NeedsYou]);
        let unasked = Event::Unasked { request: "1".to_owned() };
        assert_eq!(told(&agent(1), &[asked, unasked]), []);
    }

    #[test]
    fn a_command_that_ends_by_itself_is_told_by_its_code() {
        let spec = Spec { driver: "pty".to_owned(), ..Spec::default() };
        let epoch = Epoch(1);
        let before = [
            Event::Created { spec, name: None },
            Event::RunStarting {
                epoch,
                keeper: Process::default(),
                output_from: 0,
                boundary: Default::default(),
            },
            Event::RunStarted { epoch, agent: Process::default() },
        ];
        let exit = |code| run_over(Outcome::Exited(Exit::Code(code)));
        assert_eq!(told(&before, &[exit(0)]), [Occasion::Finished]);
        assert_eq!(told(&before, &[exit(3)]), [Occasion::Failed]);
        assert_eq!(told(&before, &[run_over(Outcome::OutOfMemory)]), [Occasion::Failed]);
        assert_eq!(told(&before, &[stop(), exit(0)]), []);
        assert!(matches!(Session::replay(&before).phase, Phase::Running { .. }));
    }

    #[test]
    fn an_agent_that_was_released_for_being_idle_is_not_told_and_one_whose_time_was_up_is() {
        let released = |why| Event::Released { epoch: Epoch(1), why, kill_at_boot_ms: 1 };
        let exit = run_over(Outcome::Exited(Exit::Code(0)));
        let done: Vec<Event> = agent(1).into_iter().chain([ended(1, Final::Done)]).collect();
        assert_eq!(told(&done, &[released(Release::Idle), exit.clone()]), []);
        assert_eq!(told(&done, &[released(Release::Expired), exit]), [Occasion::Finished]);
    }
}
