//! Text for a turn that is running.

use super::{TurnsScenario, actor, hurried};
use crate::turns::{AgentCapabilities, FinalState, QueueHold, SendMode, TurnProgress};
use crate::{Command, Effect, Observation, Refusal, SessionPolicy};

#[test]
fn text_is_steered_into_the_turn_that_runs() {
    let mut story = TurnsScenario::working(&["two"]);
    story.send(hurried("and this", SendMode::Steer)).expect("it can");
    assert_eq!(story.queue(), [3, 2], "before what waits");
    assert_eq!(story.deliver(), 3);
    assert_eq!(story.owed(), vec![Effect::Say { turn: 3 }], "the agent said that it has the first");
    assert_eq!(story.cancel(3), Err(Refusal::PartOf { turn: 3, whole: 1 }));
    story.see(Observation::TurnBegan { turn: 3 });
    story.over(1, FinalState::Done);
    assert_eq!(
        (story.state(1), story.state(3)),
        (TurnProgress::Over(FinalState::Done), TurnProgress::Over(FinalState::Done))
    );
    assert_eq!(story.deliver(), 2);
}

/// F11 for text that is steered: text that the agent never confirmed is not called done.
#[test]
fn f11_text_that_may_have_come_too_late_for_its_turn_is_unknown() {
    let mut story = TurnsScenario::working(&["two"]);
    story.send(hurried("and this", SendMode::Steer)).expect("it can");
    story.deliver();
    story.over(1, FinalState::Done);
    assert_eq!(
        (story.state(1), story.state(3)),
        (TurnProgress::Over(FinalState::Done), TurnProgress::Over(FinalState::Unknown))
    );
    assert_eq!(story.session.turns.hold, Some(QueueHold::Unknown { turn: 3 }));
}

#[test]
fn text_for_an_agent_that_cannot_be_steered_is_refused() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.start().expect("nothing runs");
    let (epoch, agent) = (story.session.epoch, story.process(8));
    story.see(Observation::Spawned { epoch, agent });
    story.see(Observation::AgentReady { epoch, able: AgentCapabilities { steer: false, resume: true } });
    story.send(hurried("with nothing to steer it is a turn", SendMode::Steer)).expect("it is");
    assert_eq!(story.deliver(), 1);
    assert_eq!(story.send(hurried("and this", SendMode::Steer)), Err(Refusal::CannotSteer));
}

#[test]
fn nothing_is_steered_while_the_queue_is_held() {
    let mut story = TurnsScenario::working(&[]);
    let hold = QueueHold::ForeignWriter { who: "pid 5".to_owned() };
    story.see(Observation::Held { hold });
    story.send(hurried("and this", SendMode::Steer)).expect("there is room");
    assert_eq!(story.session.due_turn(), None);
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.deliver(), 2);
}
