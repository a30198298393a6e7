//! Runs that follow by themselves, and those that do not.

use std::time::Duration;

use super::{IDLE_MS, TurnsScenario, actor, prompt};
use crate::turns::{FinalState, QueueHold, RELEASE_GRACE};
use crate::{Command, Effect, Epoch, Observation, ProcessExit, Refusal, SessionPolicy};

/// Stopped stays stopped: waiting turns do not bring a run back.
#[test]
fn waiting_turns_do_not_bring_a_stopped_session_back() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    story.order(Command::Pause { by: actor(1) }).expect("it goes on");
    story.send(prompt("one")).expect("there is room");
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    story.stop();
    assert_eq!(story.send(prompt("two")), Err(Refusal::BeingEnded));
    assert_eq!(story.session.due_turn(), None, "nothing is given to an agent that is being ended");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    story.start_ready();
    assert_eq!(story.deliver(), 1, "the next run has the accepted turns");
}

/// Stopped stays stopped, also if the run was ending anyway when a user stopped it.
#[test]
fn a_session_that_is_stopped_while_its_run_ends_does_not_go_on() {
    let ways: [fn(&mut TurnsScenario); 3] = [
        TurnsScenario::stop,
        |story| {
            story.pass(RELEASE_GRACE.as_millis() as u64);
            story.stop();
        },
        |story| {
            let stop = Command::Stop { by: actor(9), grace: Duration::from_secs(3600) };
            story.order(stop).expect("stopping is never refused");
        },
    ];
    for stop in ways {
        let mut story =
            TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
        story.pass(IDLE_MS);
        story.send(prompt("one")).expect("it would go on");
        stop(&mut story);
        story.end_run();
        assert_eq!(story.owed(), vec![Effect::Leave]);
        assert_eq!(story.session.stopped_by, Some(actor(9)));
    }
}

/// Now between two runs: a keeper may have to wait for its disk before it begins the next.
#[test]
fn a_session_that_is_stopped_between_two_runs_does_not_go_on() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    story.pass(IDLE_MS);
    story.send(prompt("one")).expect("it goes on");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.stop();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    assert!(!story.session.is_live());
    story.start_ready();
    assert_eq!(story.deliver(), 1);
}

/// An agent that never comes as far as a turn is not started over and over.
#[test]
fn an_agent_that_fails_before_its_first_turn_holds_the_queue() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.send(prompt("one")).expect("there is room");
    story.start().expect("nothing runs");
    story.see(Observation::SpawnFailed { epoch: Epoch(1), reason: "no such program".to_owned() });
    let reason = "no such program".to_owned();
    assert_eq!(story.session.turns.hold, Some(QueueHold::AgentFailed { reason }));
    assert_eq!(story.owed(), vec![Effect::Leave]);

    story.start().expect("a user tries again");
    assert_eq!(story.session.turns.hold, None, "a new start lifts the hold");
    let agent = story.process(8);
    story.see(Observation::Spawned { epoch: Epoch(2), agent });
    let reason = "not logged in".to_owned();
    story.see(Observation::Broken { epoch: Epoch(2), reason: reason.clone() });
    assert_eq!(story.see(Observation::Broken { epoch: Epoch(2), reason: "again".into() }), vec![]);
    story.end_run();
    assert_eq!(story.session.turns.hold, Some(QueueHold::AgentFailed { reason }));

    story.start_ready();
    assert_eq!(story.deliver(), 1, "and nothing was lost");
}

/// Now for an agent that says that it takes turns and then ends before it gets one.
#[test]
fn an_agent_that_ends_as_soon_as_it_is_ready_is_not_started_over_and_over() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.send(prompt("one")).expect("there is room");
    story.start_ready();
    story.end_run();
    let reason = "it ended before it took a turn".to_owned();
    assert_eq!(story.session.turns.hold, Some(QueueHold::AgentFailed { reason }));
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

#[test]
fn an_agent_that_ends_after_each_turn_is_started_for_the_next() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    for number in 1..=3 {
        story.send(prompt("more")).expect("there is room");
        story.send(prompt("more")).expect("there is room");
        story.start_ready();
        assert_eq!(story.deliver(), number);
        story.over(number, FinalState::Done);
        story.end_run();
        assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(number) }]);
    }
}

#[test]
fn a_turn_that_comes_while_an_agent_without_one_is_ending_gets_another() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: ProcessExit::Code(0), oom: false });
    story.send(prompt("one")).expect("no client asked for an end");
    story.see(Observation::Empty { epoch });
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch }]);
}
