//! Waiting turns: held, moved, changed.

use super::{TurnsScenario, actor, prompt};
use crate::turns::{FinalState, MAX_PROMPT_BYTES};
use crate::{Command, Effect, Epoch, Event, Observation, Refusal, SessionPolicy, SessionState};

#[test]
fn a_paused_queue_lets_the_running_turn_finish_and_begins_no_other() {
    let mut story = TurnsScenario::working(&["two"]);
    story.order(Command::Pause { by: actor(1) }).expect("it goes on");
    assert_eq!(story.order(Command::Pause { by: actor(2) }), Ok(vec![]));
    story.over(1, FinalState::Done);
    assert_eq!(story.session.due_turn(), None);
    assert_eq!(story.session.state(true), SessionState::Idle);
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave], "no agent is started for a queue that is paused");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None, "paused stays paused");
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.order(Command::GoOn { by: actor(1) }), Ok(vec![]));
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_queue_that_was_paused_while_something_else_held_it_stays_paused() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.send(prompt("one")).expect("there is room");
    story.start().expect("nothing runs");
    story.see(Observation::SpawnFailed { epoch: Epoch(1), reason: "no such program".to_owned() });
    story.order(Command::Pause { by: actor(1) }).expect("it may");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None);
}

#[test]
fn a_turn_that_waits_can_be_moved_and_others_keep_their_order() {
    let mut story = TurnsScenario::working(&["two", "three", "four"]);
    let shift = |turn, to| Command::Move { turn, to };
    story.order(shift(4, 0)).expect("it waits");
    assert_eq!(story.queue(), [4, 2, 3]);
    story.order(shift(4, 1)).expect("it waits");
    assert_eq!(story.queue(), [2, 4, 3]);
    story.order(shift(2, u64::MAX)).expect("it waits");
    assert_eq!(story.queue(), [4, 3, 2]);
    assert_eq!(story.order(shift(2, 7)), Ok(vec![]), "it is the last already");
    assert_eq!(story.order(shift(1, 0)), Err(Refusal::TurnStarted { turn: 1 }));
    assert_eq!(story.order(shift(5, 0)), Err(Refusal::NoSuchTurn { turn: 5 }));
    story.over(1, FinalState::Done);
    assert_eq!(story.order(shift(1, 0)), Err(Refusal::TurnOver { turn: 1, end: Some(FinalState::Done) }));
}

#[test]
fn a_turn_that_waits_can_say_something_else_and_keeps_its_place() {
    let mut story = TurnsScenario::working(&["two", "three"]);
    let edit = |turn, text: &str| Command::Edit { turn, text: text.to_owned(), by: actor(3) };
    let edited = Event::TurnEdited { turn: 2, text: "rather this".to_owned(), by: actor(3) };
    assert_eq!(story.order(edit(2, "rather this")), Ok(vec![edited]));
    assert_eq!(story.order(edit(2, "rather this")), Ok(vec![]), "it says that already");
    assert_eq!(story.queue(), [2, 3]);
    assert_eq!(story.order(edit(2, " ")), Err(Refusal::EmptyPrompt));
    let long = "x".repeat(MAX_PROMPT_BYTES + 1);
    let too_long = Refusal::PromptTooLong { bytes: long.len(), limit: MAX_PROMPT_BYTES };
    assert_eq!(story.order(edit(2, &long)), Err(too_long));
    assert_eq!(story.order(edit(1, "x")), Err(Refusal::TurnStarted { turn: 1 }), "the agent has it");
    assert_eq!(story.order(edit(9, "x")), Err(Refusal::NoSuchTurn { turn: 9 }));
    story.over(1, FinalState::Done);
    assert_eq!(story.order(edit(1, "x")), Err(Refusal::TurnOver { turn: 1, end: Some(FinalState::Done) }));
    assert_eq!(story.deliver(), 2);
    assert_eq!(&*story.session.turns.open(2).expect("there").prompt, "rather this");
    assert_eq!(story.order(edit(2, "too late")), Err(Refusal::TurnStarted { turn: 2 }));
}
