//! Interrupted turns: cancelled, or interrupted for another turn.

use super::{PATIENCE_MS, TurnsScenario, end, hurried};
use crate::turns::{FinalState, RELEASE_GRACE, ReleaseReason, SendMode, TurnProgress};
use crate::{Effect, Epoch, Event, Refusal};

/// C11: a turn that is cancelled before it is given to the agent never is; only its own place is freed.
#[test]
fn c11_a_turn_cancelled_while_it_waits_never_reaches_the_agent() {
    let mut story = TurnsScenario::working(&["two", "three"]);
    story.cancel(2).expect("it waits");
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.queue(), [3]);
    assert_eq!(story.state(1), TurnProgress::Working);
    story.over(1, FinalState::Done);
    assert_eq!(story.deliver(), 3);
}

/// C11: a turn that is cancelled while the agent has it is interrupted; the agent's report comes after.
#[test]
fn c11_a_turn_cancelled_while_it_runs_is_broken_off() {
    let mut story = TurnsScenario::working(&["two"]);
    story.cancel(1).expect("it runs");
    assert_eq!(story.state(1), TurnProgress::Working, "asked is not done");
    assert!(story.owed().contains(&Effect::Interrupt { turn: 1 }));
    assert_eq!(story.session.due_turn(), None);
    assert_eq!(story.cancel(1), Ok(vec![]), "asked once is enough");
    story.over(1, FinalState::Failed);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Cancelled));
    assert!(story.reason(1).contains("pts/2"), "{}", story.reason(1));
    assert_eq!(story.deliver(), 2);
}

/// C11: a turn that was done before it could be interrupted is done.
#[test]
fn c11_a_cancel_that_comes_too_late_does_not_undo_what_was_done() {
    let mut story = TurnsScenario::working(&[]);
    story.cancel(1).expect("it runs");
    story.over(1, FinalState::Done);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Done));
    assert_eq!(story.cancel(1), Err(Refusal::TurnOver { turn: 1, end: Some(FinalState::Done) }));
    assert_eq!(story.cancel(2), Err(Refusal::NoSuchTurn { turn: 2 }));
    assert_eq!(story.cancel(0), Err(Refusal::NoSuchTurn { turn: 0 }));
}

/// C11: a late success is kept beside `cancelled` and does not overwrite it.
#[test]
fn c11_a_late_success_does_not_overwrite_cancelled() {
    let mut story = TurnsScenario::working(&["two"]);
    story.cancel(1).expect("it runs");
    story.over(1, FinalState::Failed);
    let late = story.over(1, FinalState::Done);
    assert_eq!(late, vec![Event::LateResult { turn: 1, end: end(FinalState::Done) }]);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.deliver(), 2);
    story.over(1, FinalState::Unknown);
    assert_eq!(story.state(2), TurnProgress::Delivered, "a late word about one turn is none about another");
}

/// C11: an agent that does not interrupt a turn when asked to loses its run, not the queue.
#[test]
fn c11_an_agent_that_does_not_break_off_is_ended_for_it() {
    let mut story = TurnsScenario::working(&["two"]);
    story.cancel(1).expect("it runs");
    let until = story.now.boot_ms + PATIENCE_MS;
    assert_eq!(story.wakes_at(), Some(until));
    assert_eq!(story.pass(PATIENCE_MS - 1), vec![]);
    let kill_at_boot_ms = until + RELEASE_GRACE.as_millis() as u64;
    let why = ReleaseReason::Unresponsive;
    let released = Event::RunReleased { epoch: Epoch(1), why, kill_at_boot_ms };
    assert_eq!(story.pass(1), vec![released]);
    assert_eq!(story.pass(1), vec![], "once");
    story.end_run();
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
}

#[test]
fn a_turn_in_a_hurry_has_the_running_one_broken_off_for_it() {
    let mut story = TurnsScenario::working(&["two"]);
    story.send(hurried("now", SendMode::Interrupt)).expect("there is room");
    assert!(story.owed().contains(&Effect::Interrupt { turn: 1 }));
    story.send(hurried("now as well", SendMode::Interrupt)).expect("there is room");
    assert_eq!(story.queue(), [3, 4, 2]);
    story.over(1, FinalState::Failed);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Interrupted));
    assert_eq!(story.deliver(), 3);
    assert!(!story.owed().contains(&Effect::Interrupt { turn: 3 }), "one that came later waits for it");
}

/// F11: `interrupted` is proven. A request to interrupt is not a proof.
#[test]
fn f11_a_turn_broken_off_for_another_is_interrupted_only_if_that_is_proven() {
    let mut story = TurnsScenario::working(&[]);
    story.send(hurried("now", SendMode::Interrupt)).expect("there is room");
    story.pass(PATIENCE_MS);
    story.end_run();
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!(story.session.turns.hold, None, "a client that interrupts has said that the queue goes on");
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
}
