//! Questions of the agent.

use berth_core::{ChosenReply, MOST_ASKS, QuestionOption};

use super::*;
use crate::common::chosen;

#[test]
fn a_question_is_withdrawn_by_the_agent_or_by_the_end_of_its_turn() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.asks(json!(0));
    talk.asks(json!("s"));
    talk.asks(json!(0));
    assert_eq!(talk.sent.last().unwrap()["error"]["code"], -32600, "an id is taken once");
    talk.hear_json(json!({"method": "$/cancel_request", "params": {"requestId": 0}}));
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    assert_eq!(
        (&talk.sent.last().unwrap()["id"], &talk.sent.last().unwrap()["result"]),
        (&json!(0), &cancelled)
    );
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    let withdrawn: Vec<_> = talk
        .updates
        .iter()
        .filter(|update| matches!(update, AgentUpdate::QuestionWithdrawn { .. }))
        .collect();
    let named = |request: &str| AgentUpdate::QuestionWithdrawn { request: request.to_owned() };
    assert_eq!(withdrawn, [&named("0"), &named("s")]);
    // An answer to a withdrawn question is not sent.
    let sent = talk.sent.len();
    talk.with(|driver, out| driver.answer("0", &chosen("yes"), out));
    assert_eq!(talk.sent.len(), sent);
}

#[test]
fn an_answer_without_a_valid_option_leaves_the_question_open() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.asks(json!(0));
    let sent = talk.sent.len();
    talk.with(|driver, out| driver.answer("0", &chosen("maybe"), out));
    assert_eq!(talk.sent.len(), sent);
    talk.with(|driver, out| driver.answer("0", &chosen("yes"), out));
    assert_eq!(talk.sent.last().unwrap()["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn a_question_during_an_interrupt_or_without_options_or_beyond_the_limit_is_not_passed_on() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    (0..MOST_ASKS as u64 + 1).for_each(|id| talk.asks(json!(id)));
    let asks = |talk: &AcpTestRun| {
        talk.updates.iter().filter(|update| matches!(update, AgentUpdate::Asks { .. })).count()
    };
    assert_eq!(asks(&talk), MOST_ASKS);
    talk.with(|driver, out| driver.interrupt(1, out));
    let answered =
        talk.sent.iter().filter(|sent| sent["result"]["outcome"]["outcome"] == "cancelled").count();
    assert_eq!(answered, MOST_ASKS + 1, "every request is answered");
    talk.asks(json!(1000));
    talk.hear_json(json!({"id": 1001, "method": "session/request_permission", "params": {}}));
    assert_eq!(asks(&talk), MOST_ASKS);
    assert_eq!(talk.sent.last().unwrap()["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn a_method_we_do_not_offer_is_refused_and_remarks_have_a_limit() {
    let mut talk = AcpTestRun::ready();
    for n in 0..100 {
        talk.hear_json(json!({"id": n, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}));
        assert_eq!(talk.sent.last().unwrap()["error"]["code"], -32601);
        talk.hear(b"this is { not JSON");
    }
    assert_eq!(talk.sent.len(), 100);
    assert_eq!(talk.remarks().len(), MOST_REMARKS as usize + 1);
}

#[test]
fn the_detail_of_a_question_is_complete() {
    let detail = |call: Value| {
        let ask = OpenToolCalls::default().ask("r".to_owned(), &json!({"toolCall": call}));
        (ask.tool, ask.detail)
    };
    let words = |tool: &str, detail: &str| (tool.to_owned(), detail.to_owned());
    let command = "one\ntwo && three";
    assert_eq!(
        detail(json!({"name": "Bash", "title": "Run", "rawInput": {"command": command}})),
        words("Bash", command)
    );
    assert_eq!(
        detail(json!({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}})),
        words("execute", "ls -l")
    );
    let diff =
        json!({"type": "diff", "path": "/a/b", "oldText": "1\n2\n3\n4\n", "newText": "1\ntwo\n3\n4\n"});
    let new = json!({"type": "diff", "path": "/c", "oldText": null, "newText": "x\n"});
    let edit = json!({"name": "Edit", "content": [diff, new], "rawInput": {"file_path": "/a/b"}});
    assert_eq!(detail(edit), words("Edit", "/a/b\n-2\n+two\n/c\n+x"));
    assert_eq!(
        detail(json!({"title": "Fetch", "rawInput": {"url": "http://x"}})),
        words("Fetch", "{\n  \"url\": \"http://x\"\n}")
    );
    assert_eq!(detail(json!({"title": "Think hard"})), words("Think hard", "Think hard"));
    assert_eq!(detail(json!(7)), words("tool", ""));
    let long =
        detail(json!({"name": "Bash", "rawInput": {"command": "é".repeat(tool_call::MAX_DETAIL_BYTES)}})).1;
    assert!(long.len() <= tool_call::MAX_DETAIL_BYTES && long.ends_with("(the rest is in the output)"));
}

#[test]
fn a_question_is_completed_from_earlier_updates_of_its_call() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "name": "Bash", "title": "Terminal", "rawInput": {}}));
    talk.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": {"command": "make"}}),
    );
    let params = json!({"toolCall": {"toolCallId": "t"}, "options": [{"optionId": "y", "kind": "new_kind"}]});
    talk.hear_json(json!({"id": 5, "method": "session/request_permission", "params": params}));
    let Some(AgentUpdate::Asks { ask }) = talk.updates.last() else { panic!("{:?}", talk.updates) };
    assert_eq!((ask.request.as_str(), ask.tool.as_str(), ask.detail.as_str()), ("5", "Bash", "make"));
    let option = QuestionOption { id: "y".to_owned(), name: "y".to_owned(), kind: QuestionOptionKind::Other };
    assert_eq!(ask.options, [option]);
}

#[test]
fn the_reason_of_a_refusal_goes_into_the_running_turn_before_the_refusal() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.asks(json!(0));
    let Some(AgentUpdate::Asks { ask }) = talk.updates.last().cloned() else { panic!("it is a question") };
    assert!(ask.takes_reason && !ask.takes_text && !ask.several);
    let reply = ChosenReply { text: Some("use mktemp".to_owned()), ..chosen("no") };
    talk.with(|driver, out| driver.answer("0", &reply, out));
    let [.., reason, refusal] = talk.sent.as_slice() else { panic!("two lines") };
    assert_eq!((&reason["method"], &reason["id"]), (&json!("_session/steering"), &json!("reason-0")));
    assert_eq!(reason["params"]["prompt"][0]["text"], "use mktemp");
    assert_eq!(refusal["result"]["outcome"]["optionId"], "no");
    talk.hear_json(json!({"id": "reason-0", "result": {"outcome": "promptRequired"}}));
    assert!(
        talk.remarks().iter().any(|remark| remark.contains("did not reach the agent")),
        "{:?}",
        talk.updates
    );
}

#[test]
fn an_agent_that_takes_no_text_into_a_turn_takes_no_reason() {
    let mut talk = AcpTestRun::ready();
    talk.driver.able.steer = false;
    talk.prompt(1, "x");
    talk.asks(json!(0));
    let Some(AgentUpdate::Asks { ask }) = talk.updates.last() else { panic!("it is a question") };
    assert!(!ask.takes_reason);
}
