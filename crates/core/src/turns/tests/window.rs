//! Turns that are long over: the parts that a session forgets, and those that it never does.

use super::{TurnsScenario, actor, keyed, prompt};
use crate::turns::{FinalState, MOST_OVER_KEPT, TurnLookup, TurnProgress};
use crate::{Command, Refusal, SessionPolicy};

/// A session with `count` turns that are done, each with a key.
fn after(count: usize) -> TurnsScenario {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    for number in 1..=count {
        story.apply_send(number);
    }
    story
}

impl TurnsScenario {
    /// One more turn is sent, given and done. Unlike [`TurnsScenario::order`] it does not replay the whole life.
    fn apply_send(&mut self, number: usize) {
        use crate::{Observation, decide, observe};
        let prompt = keyed("say it", &format!("key {number}"));
        let turn = self.session.turns.last() + 1;
        let orders = [Command::Send { prompt }, Command::Deliver { turn, output_from: 0 }];
        for order in orders {
            let events = decide(&self.session, order, self.now).expect("it is its turn");
            self.apply(&events);
        }
        let over = Observation::TurnOver { turn, end: super::end(FinalState::Done) };
        let events = observe(&self.session, &over, self.now);
        self.apply(&events);
    }
}

#[test]
fn a_turn_leaves_memory_when_enough_others_have_ended_after_it() {
    let mut story = after(MOST_OVER_KEPT);
    assert!(matches!(story.session.turns.find(1), TurnLookup::Here(_)));
    story.apply_send(MOST_OVER_KEPT + 1);
    assert_eq!(story.session.turns.find(1), TurnLookup::Past);
    assert!(matches!(story.session.turns.find(2), TurnLookup::Here(_)));
    assert_eq!(story.session.turns.last(), MOST_OVER_KEPT as u64 + 1);
}

#[test]
fn a_turn_that_waited_for_long_is_in_memory_when_it_ends() {
    let mut story = TurnsScenario::working(&["waits"]);
    story.order(Command::Pause { by: actor(1) }).expect("it takes turns");
    story.over(1, FinalState::Done);
    for _ in 0..2 * MOST_OVER_KEPT {
        story.send(prompt("withdrawn")).expect("there is room");
        let last = story.session.turns.last();
        story.cancel(last).expect("it waits");
    }
    assert_eq!(story.session.turns.find(1), TurnLookup::Past);
    story.cancel(2).expect("it waits");
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
    assert!(matches!(story.session.turns.find(2), TurnLookup::Here(_)), "its receipt tells how it ended");
}

#[test]
fn a_command_for_a_turn_that_left_memory_is_refused_because_it_is_over() {
    let mut story = after(MOST_OVER_KEPT + 1);
    let by = actor(1);
    let orders = [
        Command::Cancel { turn: 1, by: by.clone() },
        Command::Withdraw { turn: 1, by: by.clone() },
        Command::Move { turn: 1, to: 0 },
        Command::Edit { turn: 1, text: "else".to_owned(), by },
    ];
    for order in orders {
        assert_eq!(story.order(order), Err(Refusal::TurnOver { turn: 1, end: None }));
    }
    assert_eq!(story.over(1, FinalState::Failed), vec![], "a late report is ignored");
}

#[test]
fn a_key_of_a_turn_that_left_memory_still_means_it() {
    let mut story = after(MOST_OVER_KEPT + 1);
    assert_eq!(story.session.turns.find(1), TurnLookup::Past);
    assert_eq!(story.session.turns.keyed("key 1"), Some(1));
    assert_eq!(story.send(keyed("say it", "key 1")), Ok(vec![]));
    assert_eq!(story.send(keyed("something else", "key 1")), Err(Refusal::KeyReused { turn: 1 }));
}

#[test]
fn thirty_thousand_turns_with_keys_need_less_than_800_kib() {
    let story = after(30_000);
    let turns = &story.session.turns;
    assert_eq!(turns.last(), 30_000);
    assert_eq!(turns.window.len(), MOST_OVER_KEPT);
    assert!(turns.keys.heap_bytes() < 700 << 10, "{} bytes", turns.keys.heap_bytes());
    for number in [1, 257, 29_999, 30_000] {
        assert_eq!(turns.keyed(&format!("key {number}")), Some(number));
    }
}
