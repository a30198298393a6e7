//! Start, end and answer of a turn.

use super::*;
use crate::MAX_ANSWER_BYTES;

#[test]
fn a_prompt_has_begun_when_the_agent_does_something_for_it() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    // These updates come at any time, and did so after a prompt.
    talk.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
    talk.update(json!({"sessionUpdate": "session_info_update", "title": "x"}));
    talk.update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}));
    assert_eq!(
        talk.updates.iter().filter(|update| !matches!(update, AgentUpdate::Context { .. })).count(),
        0
    );
    talk.updates.clear();
    talk.update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}));
    assert_eq!(talk.updates[0], AgentUpdate::Began { turn: 1 });
}

#[test]
fn every_stop_reason_has_its_end_and_one_of_next_year_fails_no_turn() {
    let cases = [
        ("end_turn", FinalState::Done, 0),
        ("max_tokens", FinalState::Failed, 0),
        ("max_turn_requests", FinalState::Failed, 0),
        ("refusal", FinalState::Failed, 0),
        ("cancelled", FinalState::Interrupted, 0),
        ("enlightenment", FinalState::Done, 1),
    ];
    for (stop, state, remarks) in cases {
        let mut talk = AcpTestRun::ready();
        talk.prompt(7, "x");
        talk.says(Some("m"), "answer");
        talk.hear_json(json!({"id": "turn-7", "result": {"stopReason": stop}}));
        assert_eq!((talk.ends()[0].0, talk.end().state), (7, state), "{stop}");
        assert_eq!(talk.end().answer, "answer");
        assert_eq!(talk.end().reason.is_some(), state != FinalState::Done, "{stop}");
        assert_eq!(talk.remarks().len(), remarks, "{stop}");
    }
    let mut talk = AcpTestRun::ready();
    talk.prompt(7, "x");
    talk.with(|driver, out| driver.interrupt(7, out));
    talk.hear_json(json!({"id": "turn-7", "error": {"code": -32800, "message": "Request cancelled"}}));
    assert_eq!(talk.end().state, FinalState::Interrupted);
}

#[test]
fn messages_are_kept_apart_and_the_reported_pieces_are_the_answer() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.says(Some("a"), "one, ");
    talk.says(Some("a"), "two");
    talk.says(Some("b"), "three\n");
    talk.says(Some("c"), "four");
    talk.says(None, "five ");
    talk.says(None, "six");
    talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}));
    talk.says(None, "seven");
    talk.hear_json(json!({"method": "session/update", "params": {"sessionId": "another", "update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "of a subagent"}}}}));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.end().answer, "one, two\n\nthree\n\nfour\n\nfive six\n\nseven");
    assert_eq!(talk.said(), talk.end().answer);
}

#[test]
fn an_agent_that_ends_a_turn_twice_spoils_no_other() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    talk.prompt(2, "x");
    talk.says(None, "two");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "refusal"}}));
    talk.hear_json(json!({"id": "turn-2", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.ends().len(), 2);
    assert_eq!(talk.end().answer, "two");
}

#[test]
fn a_long_answer_is_cut_at_a_character_and_says_so() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.says(Some("a"), "x");
    let piece = "é".repeat(MAX_ANSWER_BYTES / 4);
    (0..3).for_each(|_| talk.says(Some("a"), &piece));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert!(talk.end().cut);
    assert_eq!(talk.end().answer.len(), MAX_ANSWER_BYTES - 1);
    assert_eq!(talk.said().len(), 1 + 3 * piece.len(), "all of it was said");
}

#[test]
fn text_for_a_running_turn_is_taken_or_given_back() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    (2..=4).for_each(|by| talk.with(|driver, out| driver.steer(by, "left", out)));
    assert_eq!(talk.sent[1]["method"], "_session/steering");
    assert_eq!(talk.sent[1]["params"]["_meta"]["steering"]["idleBehavior"], "promptRequired");
    talk.hear_json(json!({"id": "steer-2", "result": {"outcome": "injected"}}));
    assert_eq!(talk.updates, [AgentUpdate::Began { turn: 2 }]);
    talk.hear_json(json!({"id": "steer-3", "error": {"code": -32600, "message": "no images"}}));
    assert_eq!((talk.ends()[0].0, talk.end().state), (3, FinalState::Failed));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    let states: Vec<_> = talk.ends().iter().map(|(turn, end)| (*turn, end.state)).collect();
    assert_eq!(states, [(3, FinalState::Failed), (4, FinalState::Unknown), (1, FinalState::Done)]);
    talk.hear_json(json!({"id": "steer-4", "result": {"outcome": "promptRequired"}}));
    assert_eq!((talk.ends()[3].0, talk.end().state), (4, FinalState::Failed));
    talk.with(|driver, out| driver.steer(5, "right", out));
    assert_eq!((talk.ends()[4].0, talk.end().state), (5, FinalState::Failed), "no turn is running");
}

#[test]
fn the_context_is_told_for_its_own_session_and_zero_means_unknown() {
    let mut talk = AcpTestRun::ready();
    let usage = |used: u64| json!({"sessionUpdate": "usage_update", "used": used, "size": 200_000});
    talk.update(usage(45_210));
    talk.hear_json(
        json!({"method": "session/update", "params": {"sessionId": "of a sub-agent", "update": usage(7)}}),
    );
    talk.update(usage(0));
    talk.update(json!({"sessionUpdate": "usage_update", "used": 3186}));
    let told: Vec<_> = talk.contexts().into_iter().map(|context| (context.used, context.window)).collect();
    assert_eq!(told, [(Some(45_210), Some(200_000)), (None, Some(200_000)), (Some(3186), None)]);
}
