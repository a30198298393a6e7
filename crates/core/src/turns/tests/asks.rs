//! Questions of the agent.

use super::{TurnsScenario, actor, ask};
use crate::turns::{
    AgentQuestion, BadReply, ChosenReply, FinalState, MAX_REPLY_BYTES, MOST_ASKS, QuestionOption,
    QuestionOptionKind, QuestionReply,
};
use crate::{Command, Event, Observation, Refusal, SessionState};

#[test]
fn an_agents_question_is_answered_by_name_or_if_it_is_the_only_one() {
    let mut story = TurnsScenario::working(&[]);
    let answer = |request: Option<&str>, wanted| Command::Answer {
        request: request.map(str::to_owned),
        reply: wanted,
        by: actor(3),
    };
    assert_eq!(
        story.order(answer(None, QuestionReply::Allow)),
        Err(Refusal::NoSuchRequest { request: None }),
        "nothing was asked"
    );
    story.see(Observation::Asks { ask: ask("a") });
    assert_eq!(story.see(Observation::Asks { ask: ask("a") }), vec![], "once");
    assert_eq!(story.session.state(true), SessionState::NeedsYou);
    story.see(Observation::Asks { ask: ask("b") });
    let which = Refusal::WhichRequest { requests: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(story.order(answer(None, QuestionReply::Allow)), Err(which));
    let options = vec!["yes".to_owned(), "no".to_owned()];
    let wanted = QuestionReply::option("maybe");
    assert_eq!(story.order(answer(Some("a"), wanted)), Err(Refusal::NoSuchOption { options }));
    let chosen = |request: &str, choice: &str, text: Option<&str>| {
        let options = ask(request).options.into_iter();
        let chosen = options.filter(|option| option.id == choice).collect();
        let reply = ChosenReply { chosen, text: text.map(str::to_owned) };
        Ok(vec![Event::Answered { request: request.to_owned(), reply, by: actor(3) }])
    };
    let no = QuestionReply::Deny { reason: Some("use mktemp".to_owned()) };
    assert_eq!(story.order(answer(Some("a"), no)), chosen("a", "no", Some("use mktemp")));
    assert_eq!(story.order(answer(None, QuestionReply::Allow)), chosen("b", "yes", None));
    let gone = Refusal::NoSuchRequest { request: Some("b".to_owned()) };
    assert_eq!(story.order(answer(Some("b"), QuestionReply::Allow)), Err(gone), "answered once");
}

#[test]
fn questions_end_with_the_turn_and_have_a_limit() {
    let mut story = TurnsScenario::working(&[]);
    for number in 0..MOST_ASKS {
        assert_eq!(story.see(Observation::Asks { ask: ask(&number.to_string()) }).len(), 1);
    }
    assert_eq!(story.see(Observation::Asks { ask: ask("one more") }), vec![]);
    assert_eq!(story.see(Observation::QuestionWithdrawn { request: "0".to_owned() }).len(), 1);
    assert_eq!(story.see(Observation::QuestionWithdrawn { request: "0".to_owned() }), vec![]);
    story.over(1, FinalState::Done);
    assert_eq!(story.session.turns.asks, vec![]);
    assert_eq!(story.session.state(true), SessionState::Idle);
}

#[test]
fn an_answer_that_does_not_fit_its_question_is_refused_and_leaves_it_open() {
    let option =
        |id: &str| QuestionOption { id: id.to_owned(), name: id.to_owned(), kind: QuestionOptionKind::Other };
    let no = QuestionOption { kind: QuestionOptionKind::RejectOnce, ..option("no") };
    let question = |several, takes_text, takes_reason| AgentQuestion {
        request: "q".to_owned(),
        options: vec![option("1"), option("2"), no.clone()],
        several,
        takes_text,
        takes_reason,
        ..AgentQuestion::default()
    };
    let options = |ids: &[&str], text: Option<&str>| QuestionReply::Options {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        text: text.map(str::to_owned),
    };
    let deny = |reason: &str| QuestionReply::Deny { reason: Some(reason.to_owned()) };
    let too_long = "x".repeat(MAX_REPLY_BYTES + 1);
    let (bytes, limit) = (too_long.len(), MAX_REPLY_BYTES);
    for (ask, wanted, why) in [
        (question(false, false, false), deny("why"), BadReply::NoReason),
        (question(false, false, true), options(&[], Some("other")), BadReply::NoText),
        (question(false, true, true), options(&["1", "2"], None), BadReply::OnlyOne),
        (question(false, true, true), options(&["1"], Some("other")), BadReply::OnlyOne),
        (question(true, false, true), options(&["1"], Some("other")), BadReply::TextBesideOption),
        (question(true, true, true), options(&["1", "no"], None), BadReply::OnlyOne),
        (question(true, true, true), deny("  "), BadReply::Empty),
        (question(true, true, true), deny(&too_long), BadReply::TooLong { bytes, limit }),
    ] {
        let mut story = TurnsScenario::working(&[]);
        story.see(Observation::Asks { ask: ask.clone() });
        let command = Command::Answer { request: None, reply: wanted.clone(), by: actor(3) };
        assert_eq!(story.order(command), Err(Refusal::BadAnswer(why)), "{ask:?} {wanted:?}");
        assert_eq!(story.session.turns.asks, vec![ask]);
    }
}

#[test]
fn several_options_and_own_words_are_recorded_in_the_order_of_the_question() {
    let option =
        |id: &str| QuestionOption { id: id.to_owned(), name: id.to_owned(), kind: QuestionOptionKind::Other };
    let ask = AgentQuestion {
        request: "q".to_owned(),
        options: vec![option("1"), option("2"), option("3")],
        several: true,
        takes_text: true,
        ..AgentQuestion::default()
    };
    for (ids, text, chosen) in [
        (&["3", "1"][..], None, vec![option("1"), option("3")]),
        (&["2"], Some("and sqlite"), vec![option("2")]),
        (&[], Some("neither"), vec![]),
    ] {
        let mut story = TurnsScenario::working(&[]);
        story.see(Observation::Asks { ask: ask.clone() });
        let text = text.map(str::to_owned);
        let wanted = QuestionReply::Options {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            text: text.clone(),
        };
        let reply = ChosenReply { chosen, text };
        let answered = Event::Answered { request: "q".to_owned(), reply, by: actor(3) };
        let command = Command::Answer { request: None, reply: wanted, by: actor(3) };
        assert_eq!(story.order(command), Ok(vec![answered]));
        assert_eq!(story.session.turns.asks, vec![]);
    }
}
