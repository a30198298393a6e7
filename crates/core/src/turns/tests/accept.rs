//! Accepted turns, their order, and the meaning of a key.

use super::{TurnsScenario, actor, keyed, prompt};
use crate::turns::{AgentCapabilities, FinalState, MAX_KEY_BYTES, MAX_PROMPT_BYTES, MOST_QUEUED};
use crate::{
    Command, Effect, Observation, Refusal, Session, SessionPolicy, SessionSpec, SessionState, decide,
};

/// C1: the first turn of a new session is not a special case, and a second one waits for it.
#[test]
fn c1_two_first_turns_run_one_after_the_other() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    story.send(prompt("one")).expect("accepted before anything runs");
    story.send(prompt("two")).expect("accepted before anything runs");
    assert_eq!(story.owed(), vec![], "nothing is given to an agent that is not there");
    story.start().expect("nothing runs");
    assert_eq!(story.order(Command::Deliver { turn: 1, output_from: 0 }), Err(Refusal::NotDue { turn: 1 }));
    let epoch = story.session.epoch;
    let agent = story.process(8);
    story.see(Observation::Spawned { epoch, agent });
    assert_eq!(story.owed(), vec![], "it runs, and has not said that it takes turns");
    story.see(Observation::AgentReady { epoch, able: AgentCapabilities::default() });
    assert_eq!(story.deliver(), 1);
    assert_eq!(story.owed(), vec![Effect::Say { turn: 1 }]);
    assert_eq!(story.order(Command::Deliver { turn: 2, output_from: 0 }), Err(Refusal::NotDue { turn: 2 }));
    story.over(1, FinalState::Done);
    assert_eq!(story.deliver(), 2);
    story.over(2, FinalState::Done);
    assert_eq!(story.session.state(true), SessionState::Idle);
}

/// C3: the order of acceptance is the order of delivery, and none overlaps.
#[test]
fn c3_fifty_turns_are_given_in_the_order_they_were_accepted() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    for number in 1..=50 {
        let sent = if number % 2 == 0 { keyed("again", &format!("k{number}")) } else { prompt("again") };
        story.send(sent).expect("there is room");
    }
    for number in 1..=50 {
        assert_eq!(story.deliver(), number);
        assert_eq!(story.session.due_turn(), None, "one at a time");
        story.see(Observation::TurnBegan { turn: number });
        story.over(number, FinalState::Done);
    }
}

/// C4: a key means one turn, in flight, after success and after failure; with another text it is refused.
#[test]
fn c4_a_key_means_one_turn_whatever_became_of_it() {
    for fate in [
        FinalState::Done,
        FinalState::Failed,
        FinalState::Cancelled,
        FinalState::Interrupted,
        FinalState::Unknown,
    ] {
        let mut story = TurnsScenario::ready(SessionPolicy::default());
        story.send(keyed("say it", "k")).expect("new");
        let again = |story: &mut TurnsScenario, when: &str| {
            assert_eq!(story.send(keyed("say it", "k")), Ok(vec![]), "{when}");
            assert_eq!(story.send(keyed("other", "k")), Err(Refusal::KeyReused { turn: 1 }), "{when}");
            assert_eq!(story.session.turns.keyed("k"), Some(1), "{when}");
        };
        again(&mut story, "waiting");
        story.deliver();
        again(&mut story, "delivered");
        story.over(1, fate);
        again(&mut story, "over");
        story.end_run();
        story.keeper_dies();
        again(&mut story, "after the run and its keeper");
        assert_eq!(story.session.turns.last(), 1);
    }
}

/// C4: a retry that finds the queue full or the session ending still gets its receipt.
#[test]
fn c4_a_repeated_call_is_recognised_before_anything_is_refused() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    story.send(keyed("one", "k")).expect("new");
    for _ in 1..MOST_QUEUED {
        story.send(prompt("more")).expect("there is room");
    }
    assert_eq!(story.send(keyed("one", "k")), Ok(vec![]));
    story.stop();
    assert_eq!(story.send(keyed("one", "k")), Ok(vec![]));
}

/// C4: a key belongs to the call. A caller that repeats its key gets its turn, even if another client changed the
/// turn since.
#[test]
fn c4_a_turn_that_was_changed_is_still_what_its_key_and_first_text_mean() {
    let mut story = TurnsScenario::working(&[]);
    story.send(keyed("say it", "k")).expect("new");
    let edit = Command::Edit { turn: 2, text: "say that".to_owned(), by: actor(3) };
    story.order(edit).expect("it waits");
    let check = |story: &mut TurnsScenario, when: &str| {
        assert_eq!(story.send(keyed("say it", "k")), Ok(vec![]), "{when}");
        assert_eq!(story.send(keyed("say that", "k")), Err(Refusal::KeyReused { turn: 2 }), "{when}");
    };
    check(&mut story, "waiting");
    story.over(1, FinalState::Done);
    story.deliver();
    check(&mut story, "delivered");
    story.over(2, FinalState::Failed);
    story.end_run();
    story.keeper_dies();
    check(&mut story, "over");
    assert_eq!(story.session.turns.last(), 2);
}

/// C8: however long a turn takes, the next one waits for it.
#[test]
fn c8_a_turn_of_eight_hours_is_not_overtaken() {
    let mut story = TurnsScenario::working(&["two"]);
    for _ in 0..8 {
        assert_eq!(story.pass(3_600_000), vec![]);
        assert_eq!(story.session.due_turn(), None);
    }
    story.over(1, FinalState::Done);
    assert_eq!(story.deliver(), 2);
}

/// C15: exactly so many wait; one more is refused and leaves nothing behind.
#[test]
fn c15_a_full_queue_refuses_and_stores_nothing() {
    let mut story = TurnsScenario::working(&[]);
    for _ in 0..MOST_QUEUED {
        story.send(prompt("more")).expect("there is room");
    }
    let before = story.session.clone();
    assert_eq!(story.send(keyed("too much", "k")), Err(Refusal::QueueFull { limit: MOST_QUEUED }));
    assert_eq!(story.session, before);
    story.over(1, FinalState::Done);
    story.deliver();
    story.send(keyed("too much", "k")).expect("the key was not used up, and there is room");
    assert_eq!(story.send(prompt("again")), Err(Refusal::QueueFull { limit: MOST_QUEUED }));
}

#[test]
fn bad_prompts_and_keys_are_refused_by_name() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    assert_eq!(story.send(prompt(" \n\t")), Err(Refusal::EmptyPrompt));
    let bytes = MAX_PROMPT_BYTES + 1;
    let limit = MAX_PROMPT_BYTES;
    assert_eq!(story.send(prompt(&"x".repeat(bytes))), Err(Refusal::PromptTooLong { bytes, limit }));
    story.send(prompt(&"x".repeat(limit))).expect("the limit is part of what is allowed");
    for bytes in [0, MAX_KEY_BYTES + 1] {
        let refused = story.send(keyed("text", &"k".repeat(bytes)));
        assert_eq!(refused, Err(Refusal::BadKey { bytes, limit: MAX_KEY_BYTES }));
    }
    story.send(keyed("text", &"k".repeat(MAX_KEY_BYTES))).expect("the limit is part of what is allowed");
}

#[test]
fn an_agent_in_a_terminal_takes_no_turns() {
    let mut story = TurnsScenario::new(SessionPolicy::default());
    for driver in ["", "pty"] {
        story.session.spec = Some(SessionSpec { driver: driver.to_owned(), ..SessionSpec::default() });
        let by = actor(1);
        let orders = [
            Command::Send { prompt: prompt("hello") },
            Command::Pause { by: by.clone() },
            Command::GoOn { by },
        ];
        for order in orders {
            assert_eq!(decide(&story.session, order, story.now), Err(Refusal::NoTurns));
        }
    }
    let nothing = Session::default();
    let send = Command::Send { prompt: prompt("hello") };
    assert_eq!(decide(&nothing, send, story.now), Err(Refusal::NotCreated));
}
