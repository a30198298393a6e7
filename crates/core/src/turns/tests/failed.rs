//! The queue behind a turn that failed because of the model.

use super::{TurnsScenario, prompt};
use crate::turns::{
    FIRST_BACK_OFF, FinalState, MAX_PROMPT_BYTES, MOST_RETRIES, OnFailed, QueueHold, SendMode, TurnEnd,
    TurnFailure, TurnProgress, TurnRetry,
};
use crate::{Effect, Epoch, Event, Observation, SessionPolicy, SessionState};

const BACK_OFF_MS: u64 = FIRST_BACK_OFF.as_millis() as u64;

fn working(on_failed: OnFailed, waiting: &[&str]) -> TurnsScenario {
    let mut story = TurnsScenario::ready(SessionPolicy { on_failed, ..SessionPolicy::default() });
    story.send(prompt("the first")).expect("there is room");
    story.deliver();
    story.see(Observation::TurnBegan { turn: 1 });
    for text in waiting {
        story.send(prompt(text)).expect("there is room");
    }
    story
}

fn fails(story: &mut TurnsScenario, turn: u64, failure: TurnFailure) -> Vec<Event> {
    let end = TurnEnd { failure, ..TurnEnd::without_answer(FinalState::Failed, "429 {}") };
    story.see(Observation::TurnOver { turn, end })
}

#[test]
fn a_failure_of_the_model_holds_what_waits_until_somebody_says_so() {
    for failure in [TurnFailure::Limit, TurnFailure::Overloaded, TurnFailure::Login] {
        let mut story = working(OnFailed::Hold, &["the second"]);
        fails(&mut story, 1, failure);
        let held = QueueHold::ModelFailed { turn: 1, failure, reason: "429 {}".to_owned() };
        assert_eq!(story.session.turns.hold, Some(held));
        assert_eq!(story.session.state(true), SessionState::NeedsYou);
        assert_eq!(story.session.due_turn(), None);
        story.pass(24 * 3_600_000);
        assert_eq!(story.session.due_turn(), None, "time alone changes nothing");
        story.end_run();
        story.start_ready();
        assert_eq!(story.session.due_turn(), None, "nor does another run");
        story.go_on();
        assert_eq!(story.deliver(), 2);
    }
}

#[test]
fn any_other_failure_and_a_failure_with_nothing_behind_it_hold_nothing() {
    let mut story = working(OnFailed::Hold, &["the second"]);
    fails(&mut story, 1, TurnFailure::Other);
    assert_eq!(story.deliver(), 2);
    fails(&mut story, 2, TurnFailure::Limit);
    assert_eq!(story.session.turns.hold, None, "nothing waited");
    story.send(prompt("the third")).expect("there is room");
    assert_eq!(story.deliver(), 3, "a client that sends after the failure knows of it");
}

#[test]
fn with_continue_the_queue_goes_on_behind_every_failure() {
    let mut story = working(OnFailed::Continue, &["the second"]);
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_retry_says_the_same_text_before_what_waits_after_a_back_off_that_doubles_and_then_holds() {
    let mut story = working(OnFailed::Retry, &["the second"]);
    let mut failed = 1;
    for attempt in 1..=MOST_RETRIES {
        fails(&mut story, failed, TurnFailure::Overloaded);
        let again = story.session.turns.last();
        assert_eq!(story.queue(), [again, 2], "before what waits");
        let turn = story.session.turns.open(again).expect("it was accepted");
        assert_eq!((&*turn.prompt, turn.retry), ("the first", Some(TurnRetry { of: 1, attempt })));
        let key = format!("~retry-1-{attempt}");
        assert_eq!(story.session.turns.keyed(&key), Some(again), "a key of its own");
        assert_eq!(story.session.state(true), SessionState::Idle, "no user is needed");
        let back_off = BACK_OFF_MS << (attempt - 1);
        assert_eq!(story.wakes_at(), Some(story.now.boot_ms + back_off));
        story.pass(back_off - 1);
        assert_eq!(story.session.due_turn(), None);
        story.pass(1);
        assert_eq!(story.deliver(), again);
        failed = again;
    }
    fails(&mut story, failed, TurnFailure::Overloaded);
    assert!(
        matches!(story.session.turns.hold, Some(QueueHold::ModelFailed { .. })),
        "{:?}",
        story.session.turns
    );
    assert_eq!(story.queue(), [2]);
}

#[test]
fn a_retry_can_be_had_at_once_and_outlives_the_keeper_and_the_boot() {
    let mut story = working(OnFailed::Retry, &[]);
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!(story.session.due_turn(), None);
    story.go_on();
    assert_eq!(story.deliver(), 2);
    fails(&mut story, 2, TurnFailure::Limit);
    story.reboot();
    story.start_ready();
    assert_eq!(story.session.due_turn(), None);
    story.pass(0);
    assert_eq!(story.deliver(), 3, "a back-off of an earlier boot is over");
}

#[test]
fn text_added_to_a_failed_turn_is_repeated_with_it() {
    let mut story = working(OnFailed::Retry, &[]);
    story.send(super::hurried("and this", SendMode::Steer)).expect("it can");
    assert_eq!(story.deliver(), 2);
    story.see(Observation::TurnBegan { turn: 2 });
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!(&*story.session.turns.open(3).expect("it was accepted").prompt, "the first\n\nand this");
}

#[test]
fn a_back_off_goes_on_in_another_run_and_an_agent_that_ends_there_holds_the_queue() {
    let mut story = working(OnFailed::Retry, &[]);
    fails(&mut story, 1, TurnFailure::Limit);
    let until = story.wakes_at();
    story.end_run();
    assert_eq!(story.owed(), [Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!((story.session.due_turn(), story.wakes_at()), (None, until), "not sooner than it was said");
    story.end_run();
    assert_eq!(story.owed(), [Effect::Leave], "not over and over");
    assert!(
        matches!(story.session.turns.hold, Some(QueueHold::AgentFailed { .. })),
        "{:?}",
        story.session.turns
    );

    let mut story = working(OnFailed::Retry, &[]);
    fails(&mut story, 1, TurnFailure::Limit);
    story.stop();
    story.end_run();
    assert_eq!(story.owed(), [Effect::Leave], "stopped stays stopped");
}

#[test]
fn a_retry_that_is_withdrawn_takes_its_back_off_along() {
    let mut story = working(OnFailed::Retry, &["the second"]);
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!(story.queue(), [3, 2]);
    story.cancel(2).expect("it waits");
    assert_eq!(story.session.due_turn(), None, "another turn is another matter");
    story.send(prompt("the fourth")).expect("there is room");
    story.cancel(3).expect("it waits");
    assert_eq!(story.session.turns.hold, None);
    assert_eq!(story.deliver(), 4);
}

#[test]
fn a_session_whose_time_is_up_neither_keeps_a_back_off_nor_begins_one() {
    let policy = SessionPolicy {
        on_failed: OnFailed::Retry,
        ttl_ms: Some(BACK_OFF_MS / 2),
        ..SessionPolicy::default()
    };
    let mut story = TurnsScenario::ready(policy.clone());
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    fails(&mut story, 1, TurnFailure::Limit);
    story.pass(BACK_OFF_MS / 2);
    assert_eq!(
        (story.state(2), &story.session.turns.hold),
        (TurnProgress::Over(FinalState::Cancelled), &None)
    );
    story.pass(BACK_OFF_MS);
    assert_eq!(story.pass(1), []);
    assert_eq!(story.wakes_at(), None, "nothing is left to wake for");

    let mut story = TurnsScenario::ready(policy);
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    story.pass(BACK_OFF_MS / 2);
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!((story.queue(), &story.session.turns.hold), (vec![], &None));
}

#[test]
fn a_text_that_grew_too_long_for_a_prompt_is_not_retried() {
    let mut story = working(OnFailed::Retry, &[]);
    story.send(super::hurried(&"x".repeat(MAX_PROMPT_BYTES), SendMode::Steer)).expect("it can");
    assert_eq!(story.deliver(), 2);
    story.see(Observation::TurnBegan { turn: 2 });
    story.send(prompt("the third")).expect("there is room");
    fails(&mut story, 1, TurnFailure::Limit);
    assert!(matches!(story.session.turns.hold, Some(QueueHold::ModelFailed { turn: 1, .. })));
    assert_eq!(story.queue(), [3]);
}

#[test]
fn nothing_is_retried_that_would_fail_again_or_may_have_been_done() {
    let mut story = working(OnFailed::Retry, &["the second"]);
    fails(&mut story, 1, TurnFailure::Login);
    assert!(
        matches!(story.session.turns.hold, Some(QueueHold::ModelFailed { .. })),
        "a login does not mend itself"
    );
    assert_eq!(story.queue(), [2]);

    let mut story = working(OnFailed::Retry, &["the second"]);
    let end = TurnEnd { failure: TurnFailure::Limit, ..TurnEnd::without_answer(FinalState::Unknown, "") };
    story.see(Observation::TurnOver { turn: 1, end });
    assert_eq!(story.queue(), [2], "never what is unknown");

    let mut story = working(OnFailed::Retry, &["the second"]);
    story.cancel(1).expect("it runs");
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!((story.state(1), story.queue()), (TurnProgress::Over(FinalState::Cancelled), vec![2]));

    let mut story = working(OnFailed::Retry, &["the second"]);
    story.stop();
    fails(&mut story, 1, TurnFailure::Limit);
    assert_eq!(story.queue(), [2], "stopped stays stopped");
}
