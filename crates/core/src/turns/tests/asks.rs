//! What the agent asks.

use super::{Story, actor, ask};
use crate::turns::{Final, MOST_ASKS, Wish};
use crate::{Command, Event, Observation, Refusal, State};

#[test]
fn an_agents_question_is_answered_by_name_or_if_it_is_the_only_one() {
    let mut story = Story::working(&[]);
    let answer = |request: Option<&str>, wish| Command::Answer {
        request: request.map(str::to_owned),
        wish,
        by: actor(3),
    };
    assert_eq!(
        story.order(answer(None, Wish::Allow)),
        Err(Refusal::NoSuchRequest { request: None }),
        "nothing was asked"
    );
    story.see(Observation::Asks { ask: ask("a") });
    assert_eq!(story.see(Observation::Asks { ask: ask("a") }), vec![], "once");
    assert_eq!(story.session.state(true), State::NeedsYou);
    story.see(Observation::Asks { ask: ask("b") });
    let which = Refusal::WhichRequest { requests: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(story.order(answer(None, Wish::Allow)), Err(which));
    let options = vec!["yes".to_owned(), "no".to_owned()];
    let wish = Wish::Option("maybe".to_owned());
    assert_eq!(story.order(answer(Some("a"), wish)), Err(Refusal::NoSuchOption { options }));
    let chosen = |request: &str, choice: &str| {
        Ok(vec![Event::Answered { request: request.to_owned(), choice: choice.to_owned(), by: actor(3) }])
    };
    assert_eq!(story.order(answer(Some("a"), Wish::Deny)), chosen("a", "no"));
    assert_eq!(story.order(answer(None, Wish::Allow)), chosen("b", "yes"));
    let gone = Refusal::NoSuchRequest { request: Some("b".to_owned()) };
    assert_eq!(story.order(answer(Some("b"), Wish::Allow)), Err(gone), "answered once");
}

#[test]
fn questions_end_with_the_turn_and_have_a_limit() {
    let mut story = Story::working(&[]);
    for number in 0..MOST_ASKS {
        assert_eq!(story.see(Observation::Asks { ask: ask(&number.to_string()) }).len(), 1);
    }
    assert_eq!(story.see(Observation::Asks { ask: ask("one more") }), vec![]);
    assert_eq!(story.see(Observation::Unasked { request: "0".to_owned() }).len(), 1);
    assert_eq!(story.see(Observation::Unasked { request: "0".to_owned() }), vec![]);
    story.over(1, Final::Done);
    assert_eq!(story.session.turns.asks, vec![]);
    assert_eq!(story.session.state(true), State::Idle);
}
