//! Questions: shown in full, answered in their own words, ended once.

use berth_core::{ChosenReply, FinalState, MOST_ASKS, QuestionOptionKind};
use serde_json::json;

use super::replay::{CodexReplay, DriverCall, ReplayTrigger, lines};
use super::{NEW, ends, hear, one_end, opened, sent, turn_completed};
use crate::common::chosen;
use crate::{AgentUpdate, Driver, DriverOutput};

#[test]
fn a_command_waits_for_an_answer_and_gets_the_one_chosen() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "touch")),
        (ReplayTrigger::Asked, DriverCall::Answer("0", "acceptWithExecpolicyAmendment")),
    ];
    let play = CodexReplay::run(lines("approval"), NEW, &script);
    let ask = play.ask();
    assert_eq!((ask.request.as_str(), ask.tool.as_str()), ("0", "shell"));
    assert_eq!(ask.detail, "need it\n\n/bin/bash -lc 'touch x; echo hi'\n\nin /home/me/project");
    let options: Vec<_> = ask.options.iter().map(|option| (option.id.as_str(), option.kind)).collect();
    let known = [
        ("accept", QuestionOptionKind::AllowOnce),
        ("acceptWithExecpolicyAmendment", QuestionOptionKind::AllowAlways),
        ("decline", QuestionOptionKind::RejectOnce),
        ("cancel", QuestionOptionKind::Other),
    ];
    assert_eq!(options, known);
    let rule = json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["touch", "x"] } });
    assert_eq!(play.sent.last(), Some(&json!({ "id": 0, "result": { "decision": rule } })));
    assert!(
        !play.updates.iter().any(|update| matches!(update, AgentUpdate::QuestionWithdrawn { .. })),
        "the caller that answers needs no update"
    );
    assert_eq!(one_end(&play).answer, "TOOLDONE hi");
}

#[test]
fn a_question_ends_with_its_turn() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "touch")),
        (ReplayTrigger::Asked, DriverCall::Interrupt(1)),
        (ReplayTrigger::Ended(1), DriverCall::Prompt(2, "after")),
    ];
    let play = CodexReplay::run(lines("approval_interrupted"), NEW, &script);
    let withdrawn = play
        .updates
        .iter()
        .position(|update| *update == AgentUpdate::QuestionWithdrawn { request: "0".into() });
    let ended = play.updates.iter().position(|update| matches!(update, AgentUpdate::Ended { turn: 1, .. }));
    assert!(withdrawn.is_some() && withdrawn < ended, "{:?}", play.updates);
    let told: Vec<_> = ends(&play.updates).into_iter().map(|(turn, end)| (turn, end.state)).collect();
    assert_eq!(told, [(1, FinalState::Interrupted), (2, FinalState::Done)]);
}

#[test]
fn an_answer_of_another_client_ends_a_question() {
    let play =
        CodexReplay::run(lines("approval"), NEW, &[(ReplayTrigger::Ready, DriverCall::Prompt(1, "touch"))]);
    assert!(play.updates.contains(&AgentUpdate::QuestionWithdrawn { request: "0".into() }));
}

#[test]
fn every_kind_of_question_is_shown_in_full_and_answered_in_its_own_words() {
    let permissions = json!({
        "network": { "enabled": true },
        "fileSystem": {
            "read": null,
            "write": ["/tmp/q"],
            "entries": [{ "path": { "type": "path", "path": "/tmp/q" }, "access": "write" }],
        },
    });
    for (name, choice, detail, result) in [
        ("edit", "accept", "add /home/me/project/a.txt\nhello", json!({ "decision": "accept" })),
        (
            "permissions",
            "acceptForSession",
            "/tmp/q",
            json!({ "permissions": permissions, "scope": "session" }),
        ),
        ("permissions", "decline", "need it", json!({ "permissions": {}, "scope": "turn" })),
        (
            "question",
            "2",
            "Which?\n1. A (Recommended): a\n2. B: b",
            json!({ "answers": { "q1": { "answers": ["B"] } } }),
        ),
        (
            "mcp",
            "acceptForSession",
            "Allow the tst MCP server to run tool \"poke\"?\n\n{\"x\":\"1\"}",
            json!({ "action": "accept", "content": {}, "_meta": { "persist": "session" } }),
        ),
        ("mcp", "decline", "poke", json!({ "action": "decline" })),
    ] {
        let script = [
            (ReplayTrigger::Ready, DriverCall::Prompt(1, "ask")),
            (ReplayTrigger::Asked, DriverCall::Answer("0", choice)),
        ];
        let play = CodexReplay::run(lines(name), NEW, &script);
        assert!(play.ask().detail.contains(detail), "{name}: {}", play.ask().detail);
        assert_eq!(play.sent.last(), Some(&json!({ "id": 0, "result": result })), "{name}");
    }
}

#[test]
fn the_older_questions_are_answered_too() {
    for (method, params, choice, decision) in [
        ("execCommandApproval", json!({ "command": ["touch", "x"] }), "accept", json!("approved")),
        (
            "applyPatchApproval",
            json!({ "fileChanges": { "touch x": { "type": "add", "content": "hello" } } }),
            "decline",
            json!({ "denied": { "rejection": "rejected by the user" } }),
        ),
    ] {
        let (mut driver, mut out) = opened();
        hear(&mut driver, json!({ "id": "q", "method": method, "params": params }), &mut out);
        let Some(AgentUpdate::Asks { ask }) = out.updates.pop() else { panic!("{method} is a question") };
        assert!(ask.detail.contains("touch x"), "{}", ask.detail);
        driver.answer(&ask.request, &chosen(choice), &mut out);
        assert_eq!(sent(&mut out), [json!({ "id": "q", "result": { "decision": decision } })]);
    }
}

#[test]
fn a_form_can_only_be_refused() {
    let (mut driver, mut out) = opened();
    let schema = json!({ "type": "object", "properties": { "age": {} }, "required": ["age"] });
    let params = json!({ "threadId": "T", "serverName": "s", "mode": "form", "message": "How old?", "requestedSchema": schema });
    hear(
        &mut driver,
        json!({ "id": 7, "method": "mcpServer/elicitation/request", "params": params }),
        &mut out,
    );
    let Some(AgentUpdate::Asks { ask }) = out.updates.pop() else { panic!("it is a question") };
    assert!(ask.options.iter().all(|option| option.kind != QuestionOptionKind::AllowOnce), "{ask:?}");
}

#[test]
fn the_questions_of_a_sub_agent_are_asked_and_end_with_a_no() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    let params = json!({ "threadId": "S", "turnId": "M", "itemId": "c", "command": "ls" });
    let method = "item/commandExecution/requestApproval";
    hear(&mut driver, json!({ "id": 3, "method": method, "params": params }), &mut out);
    let Some(AgentUpdate::Asks { ask }) = out.updates.last() else { panic!("it is a question") };
    assert_eq!(ask.tool, "shell (sub-agent)");
    out = DriverOutput::default();
    hear(&mut driver, turn_completed("N", "completed"), &mut out);
    assert_eq!(sent(&mut out), [json!({ "id": 3, "result": { "decision": "decline" } })]);
    assert_eq!(out.updates[0], AgentUpdate::QuestionWithdrawn { request: "3".into() });
}

#[test]
fn questions_beyond_the_limit_are_answered_with_no() {
    let (mut driver, mut out) = opened();
    for number in 0..=MOST_ASKS {
        let params = json!({ "threadId": "T", "turnId": "N", "itemId": "c" });
        let method = "item/fileChange/requestApproval";
        hear(&mut driver, json!({ "id": number, "method": method, "params": params }), &mut out);
    }
    let asks = out.updates.iter().filter(|update| matches!(update, AgentUpdate::Asks { .. }));
    assert_eq!(asks.count(), MOST_ASKS);
    assert_eq!(sent(&mut out), [json!({ "id": MOST_ASKS, "result": { "decision": "decline" } })]);
}

#[test]
fn an_unknown_request_is_refused_rather_than_left_waiting() {
    let (mut driver, mut out) = opened();
    hear(&mut driver, json!({ "id": 0, "method": "attestation/generate", "params": {} }), &mut out);
    let answer = &sent(&mut out)[0];
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(0), &json!(-32601)));
    assert!(matches!(out.updates.as_slice(), [AgentUpdate::Remark { .. }]));
}

#[test]
fn the_reason_of_a_refusal_goes_into_the_turn_before_the_refusal() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    let params = json!({ "threadId": "T", "turnId": "N", "itemId": "c", "command": "ls" });
    let method = "item/commandExecution/requestApproval";
    hear(&mut driver, json!({ "id": 3, "method": method, "params": params }), &mut out);
    let Some(AgentUpdate::Asks { ask }) = out.updates.last() else { panic!("it is a question") };
    assert!(ask.takes_reason && !ask.takes_text && !ask.several);
    out = DriverOutput::default();
    let reply = ChosenReply { text: Some("use mktemp".to_owned()), ..chosen("decline") };
    driver.answer("3", &reply, &mut out);
    let input = json!([{ "type": "text", "text": "use mktemp" }]);
    let steer = json!({ "threadId": "T", "expectedTurnId": "N", "input": input });
    let [reason, refusal] = &sent(&mut out)[..] else { panic!("two lines") };
    assert_eq!((&reason["method"], &reason["params"]), (&json!("turn/steer"), &steer));
    assert_eq!(refusal, &json!({ "id": 3, "result": { "decision": "decline" } }));
    let error = json!({ "code": -32600, "message": "no active turn to steer" });
    hear(&mut driver, json!({ "id": "reason-3", "error": error }), &mut out);
    let [AgentUpdate::Remark { what }] = &out.updates[..] else { panic!("{:?}", out.updates) };
    assert!(what.contains("did not reach codex") && what.contains("no active turn"), "{what}");
}

#[test]
fn the_older_questions_have_a_field_for_the_reason() {
    let (mut driver, mut out) = opened();
    let params = json!({ "command": ["touch", "x"] });
    hear(&mut driver, json!({ "id": "q", "method": "execCommandApproval", "params": params }), &mut out);
    let Some(AgentUpdate::Asks { ask }) = out.updates.pop() else { panic!("it is a question") };
    assert!(ask.takes_reason);
    let reply = ChosenReply { text: Some("use mktemp".to_owned()), ..chosen("decline") };
    driver.answer(&ask.request, &reply, &mut out);
    let decision = json!({ "denied": { "rejection": "use mktemp" } });
    assert_eq!(sent(&mut out), [json!({ "id": "q", "result": { "decision": decision } })]);
}

#[test]
fn questions_of_the_model_are_asked_one_after_the_other_and_take_own_words() {
    let (mut driver, mut out) = opened();
    let options = json!([{ "label": "A", "description": "a" }, { "label": "B", "description": "b" }]);
    let questions = json!([
        { "id": "q1", "header": "H", "question": "Which?", "isOther": true, "options": options },
        { "id": "q2", "header": "H", "question": "Why?", "isOther": false, "options": null },
        { "id": "q3", "header": "H", "question": "When?", "isOther": false, "options": options },
    ]);
    let params = json!({ "threadId": "T", "turnId": "N", "questions": questions });
    hear(&mut driver, json!({ "id": 0, "method": "item/tool/requestUserInput", "params": params }), &mut out);
    let mut asks = Vec::new();
    let own = |text: &str| ChosenReply { chosen: vec![], text: Some(text.to_owned()) };
    for reply in [chosen("2"), own("just so"), chosen("1")] {
        let Some(AgentUpdate::Asks { ask }) = out.updates.pop() else { panic!("it is a question") };
        driver.answer(&ask.request, &reply, &mut out);
        asks.push((ask.request, ask.takes_text));
    }
    assert_eq!(asks, [("0".into(), true), ("0/2".into(), true), ("0/3".into(), false)]);
    let answers = json!({
        "q1": { "answers": ["B"] }, "q2": { "answers": ["user_note: just so"] }, "q3": { "answers": ["A"] },
    });
    assert_eq!(sent(&mut out), [json!({ "id": 0, "result": { "answers": answers } })]);
}

#[test]
fn a_question_for_a_secret_is_not_asked_because_the_journal_would_keep_the_answer() {
    let (mut driver, mut out) = opened();
    let question = json!({ "id": "q1", "header": "H", "question": "Password?", "isSecret": true });
    let params = json!({ "threadId": "T", "turnId": "N", "questions": [question] });
    hear(&mut driver, json!({ "id": 0, "method": "item/tool/requestUserInput", "params": params }), &mut out);
    assert_eq!(sent(&mut out)[0]["error"]["code"], -32601);
}
