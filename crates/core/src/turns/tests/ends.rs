//! How turns end: what is proven, what nobody knows, and what comes late or twice.

use super::{Story, actor, end, prompt};
use crate::turns::{Able, Final, Hold, MOST_ENDS, OnUnknown, TurnEnd, TurnState};
use crate::{Command, Effect, Epoch, Event, Exit, Observation, Outcome, Policy, State};

/// F11: what was with the agent when its run ended is unknown, never given again, and what waits is held.
#[test]
fn f11_a_turn_cut_off_by_the_end_of_its_run_is_unknown_and_not_repeated() {
    let mut story = Story::working(&["two"]);
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Unknown));
    assert_eq!(story.session.turns.hold, Some(Hold::Unknown { turn: 1 }));
    assert_eq!(story.owed(), vec![Effect::Leave], "nothing goes on without somebody's word");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None, "a new run does not lift the hold");
    assert_eq!(story.session.state(true), State::NeedsYou);
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.deliver(), 2);
}

/// F11: with the policy to continue, the next turn gets another run.
#[test]
fn f11_a_session_may_go_on_behind_an_unknown_turn_if_it_was_made_so() {
    let mut story = Story::ready(Policy { on_unknown: OnUnknown::Continue, ..Policy::default() });
    story.send(prompt("one")).expect("there is room");
    story.send(prompt("two")).expect("there is room");
    story.deliver();
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Unknown));
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!(story.deliver(), 2);
}

/// F11: what the agent's own record proves comes before the end of its run, and counts.
#[test]
fn f11_what_the_agents_record_proves_is_not_unknown() {
    for proven in [Final::Done, Final::Interrupted] {
        let mut story = Story::working(&["two"]);
        story.over(1, proven);
        story.keeper_dies();
        assert_eq!(story.state(1), TurnState::Over(proven));
        assert_eq!(story.session.turns.hold, None);
        assert_eq!(story.session.outcome(), Some(&Outcome::Lost));
        assert_eq!(story.owed(), vec![Effect::Leave], "whoever asks next begins the next run");
        story.start_ready();
        assert_eq!(story.deliver(), 2);
    }
}

/// G1: a turn whose agent was killed is over in the same commit as its run.
#[test]
fn g1_no_turn_is_called_working_when_its_run_is_over() {
    let ends: [fn(&mut Story); 4] = [Story::end_run, Story::keeper_dies, Story::reboot, |story| {
        story.stop();
        story.end_run();
    }];
    for how in ends {
        let mut story = Story::working(&["two"]);
        how(&mut story);
        assert!(!story.session.is_live());
        assert!(story.state(1).is_over());
        assert_eq!(story.state(2), TurnState::Queued);
        let before = story.events.iter().position(|event| matches!(event, Event::TurnEnded { turn: 1, .. }));
        let after = story.events.iter().position(|event| matches!(event, Event::RunEnded { .. }));
        assert!(before < after, "whoever hears of the end of the run knows about the turn");
        story.send(prompt("three")).expect("new work is not blocked");
    }
}

/// G2: what was accepted and not given to an agent survives runs, keepers and hosts.
#[test]
fn g2_a_turn_that_waits_is_never_taken_for_lost() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("there is room");
    story.keeper_dies();
    story.start().expect("nothing runs");
    story.keeper_dies();
    story.start_ready();
    story.reboot();
    assert_eq!(story.state(1), TurnState::Queued);
    story.start_ready();
    assert_eq!(story.deliver(), 1);
}

/// G3: an end that was reported while the run was ending is the end.
#[test]
fn g3_a_turn_that_finished_before_its_run_is_not_failed() {
    let mut story = Story::working(&[]);
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: Exit::Signal(9), oom: false });
    story.over(1, Final::Done);
    story.see(Observation::Empty { epoch });
    assert_eq!(story.state(1), TurnState::Over(Final::Done));
    assert_eq!(story.session.turns.hold, None);
}

#[test]
fn reports_of_turns_come_late_or_twice_and_change_nothing() {
    let mut story = Story::working(&["two"]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 2 }), vec![], "it waits");
    assert_eq!(story.over(2, Final::Done), vec![], "it waits");
    assert_eq!(story.over(3, Final::Done), vec![], "there is none");
    assert_eq!(story.over(0, Final::Done), vec![], "there is none");
    let epoch = story.session.epoch;
    assert_eq!(story.see(Observation::AgentReady { epoch, able: Able::default() }), vec![]);
    story.over(1, Final::Done);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    story.end_run();
    story.start().expect("nothing runs");
    assert_eq!(story.see(Observation::AgentReady { epoch, able: Able::default() }), vec![], "of another run");
    assert_eq!(story.see(Observation::Broken { epoch, reason: "late".to_owned() }), vec![], "of another run");
}

#[test]
fn the_same_end_is_news_once_and_not_for_ever() {
    let mut story = Story::working(&[]);
    story.over(1, Final::Failed);
    assert_eq!(story.over(1, Final::Failed), vec![], "it is the end it has");
    assert_eq!(story.over(1, Final::Done).len(), 1);
    assert_eq!(story.over(1, Final::Failed), vec![]);
    assert_eq!(story.over(1, Final::Done), vec![], "kept once is enough");
    for number in 0..20 {
        let answer = number.to_string();
        story.see(Observation::TurnOver { turn: 1, end: TurnEnd { answer, ..end(Final::Done) } });
    }
    let late = story.events.iter().filter(|event| matches!(event, Event::TurnLate { .. })).count();
    assert_eq!(late, MOST_ENDS - 1, "an agent cannot fill the journal with what comes too late");
}
