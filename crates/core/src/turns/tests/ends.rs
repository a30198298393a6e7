//! Ends of turns: proven ones, unknown ones, and reports that come late or twice.

use super::{TurnsScenario, actor, end, prompt};
use crate::turns::{AgentCapabilities, FinalState, MOST_ENDS, OnUnknown, QueueHold, TurnEnd, TurnProgress};
use crate::{
    Command, Effect, Epoch, Event, Observation, ProcessExit, RunOutcome, SessionPolicy, SessionState,
};

/// F11: a turn that the agent had when its run ended is unknown and never given again, and the waiting turns are held.
#[test]
fn f11_a_turn_cut_off_by_the_end_of_its_run_is_unknown_and_not_repeated() {
    let mut story = TurnsScenario::working(&["two"]);
    story.end_run();
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!(story.session.turns.hold, Some(QueueHold::Unknown { turn: 1 }));
    assert_eq!(story.owed(), vec![Effect::Leave], "nothing goes on without a user");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None, "a new run does not lift the hold");
    assert_eq!(story.session.state(true), SessionState::NeedsYou);
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.deliver(), 2);
}

/// F11: with the policy to continue, the next turn gets another run.
#[test]
fn f11_a_session_may_go_on_behind_an_unknown_turn_if_it_was_made_so() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { on_unknown: OnUnknown::Continue, ..SessionPolicy::default() });
    story.send(prompt("one")).expect("there is room");
    story.send(prompt("two")).expect("there is room");
    story.deliver();
    story.end_run();
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!(story.deliver(), 2);
}

/// F11: an end that the agent's transcript proves comes before the end of its run, and counts.
#[test]
fn f11_what_the_agents_record_proves_is_not_unknown() {
    for proven in [FinalState::Done, FinalState::Interrupted] {
        let mut story = TurnsScenario::working(&["two"]);
        story.over(1, proven);
        story.keeper_dies();
        assert_eq!(story.state(1), TurnProgress::Over(proven));
        assert_eq!(story.session.turns.hold, None);
        assert_eq!(story.session.outcome(), Some(&RunOutcome::Lost));
        assert_eq!(story.owed(), vec![Effect::Leave], "the next request begins the next run");
        story.start_ready();
        assert_eq!(story.deliver(), 2);
    }
}

/// G1: a turn whose agent was killed is over in the same commit as its run.
#[test]
fn g1_no_turn_is_called_working_when_its_run_is_over() {
    let ends: [fn(&mut TurnsScenario); 4] =
        [TurnsScenario::end_run, TurnsScenario::keeper_dies, TurnsScenario::reboot, |story| {
            story.stop();
            story.end_run();
        }];
    for how in ends {
        let mut story = TurnsScenario::working(&["two"]);
        how(&mut story);
        assert!(!story.session.is_live());
        assert!(story.state(1).is_over());
        assert_eq!(story.state(2), TurnProgress::Queued);
        let before = story.events.iter().position(|event| matches!(event, Event::TurnEnded { turn: 1, .. }));
        let after = story.events.iter().position(|event| matches!(event, Event::RunEnded { .. }));
        assert!(before < after, "a reader of the run's end has read the turn's end");
        story.send(prompt("three")).expect("new work is not blocked");
    }
}

/// G2: an accepted turn that was not given to an agent survives runs, keepers and hosts.
#[test]
fn g2_a_turn_that_waits_is_never_taken_for_lost() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.send(prompt("one")).expect("there is room");
    story.keeper_dies();
    story.start().expect("nothing runs");
    story.keeper_dies();
    story.start_ready();
    story.reboot();
    assert_eq!(story.state(1), TurnProgress::Queued);
    story.start_ready();
    assert_eq!(story.deliver(), 1);
}

/// G3: an end that was reported while the run was ending is the end.
#[test]
fn g3_a_turn_that_finished_before_its_run_is_not_failed() {
    let mut story = TurnsScenario::working(&[]);
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: ProcessExit::Signal(9), oom: false });
    story.over(1, FinalState::Done);
    story.see(Observation::Empty { epoch });
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Done));
    assert_eq!(story.session.turns.hold, None);
}

#[test]
fn reports_of_turns_come_late_or_twice_and_change_nothing() {
    let mut story = TurnsScenario::working(&["two"]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 2 }), vec![], "it waits");
    assert_eq!(story.over(2, FinalState::Done), vec![], "it waits");
    assert_eq!(story.over(3, FinalState::Done), vec![], "there is none");
    assert_eq!(story.over(0, FinalState::Done), vec![], "there is none");
    let epoch = story.session.epoch;
    assert_eq!(story.see(Observation::AgentReady { epoch, able: AgentCapabilities::default() }), vec![]);
    story.over(1, FinalState::Done);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    story.end_run();
    story.start().expect("nothing runs");
    assert_eq!(
        story.see(Observation::AgentReady { epoch, able: AgentCapabilities::default() }),
        vec![],
        "of another run"
    );
    assert_eq!(story.see(Observation::Broken { epoch, reason: "late".to_owned() }), vec![], "of another run");
}

#[test]
fn a_repeated_report_of_an_end_is_recorded_once() {
    let mut story = TurnsScenario::working(&[]);
    story.over(1, FinalState::Failed);
    assert_eq!(story.over(1, FinalState::Failed), vec![], "it is the end it has");
    assert_eq!(story.over(1, FinalState::Done).len(), 1);
    assert_eq!(story.over(1, FinalState::Failed), vec![]);
    assert_eq!(story.over(1, FinalState::Done), vec![], "kept once is enough");
    for number in 0..20 {
        let answer = number.to_string();
        story.see(Observation::TurnOver { turn: 1, end: TurnEnd { answer, ..end(FinalState::Done) } });
    }
    let late = story.events.iter().filter(|event| matches!(event, Event::LateResult { .. })).count();
    assert_eq!(late, MOST_ENDS - 1, "an agent cannot fill the journal with what comes too late");
}
