//! Permissions: asked in the editor and everywhere, answered once.

use berth_harness::wait_until;
use serde_json::{Value, json};

use crate::acp::{AcpEditor, lab};

fn asked(editor: &mut AcpEditor) -> Value {
    editor.rpc.talk.wait("a question", |said| said["method"] == "session/request_permission")
}

#[test]
fn a_permission_question_of_the_agent_is_answered_in_the_editor() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    for (option, expected) in [("allow-once", "Bash: allow-once"), ("reject", "Bash: reject")] {
        let prompt = editor.prompt(&session, "ask:Bash:rm -rf x");
        let question = asked(&mut editor);
        assert_eq!(question["params"]["sessionId"], session);
        assert!(question["params"]["toolCall"].to_string().contains("rm -rf x"), "in full: {question}");
        let options = question["params"]["options"].as_array().expect("options");
        let kinds: Vec<&str> = options.iter().filter_map(|option| option["kind"].as_str()).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"], "{question}");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        editor.rpc.talk.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
        assert_eq!(editor.rpc.answer(prompt)["result"]["stopReason"], "end_turn");
        editor.hears("agent_message_chunk", expected);
    }
    let by = lab.events(&session, "answered");
    assert!(by.iter().all(|it| it.to_string().contains("Zed (ACP)")), "{by:?}");
}

#[test]
fn the_first_answer_decides_and_the_question_in_the_editor_is_withdrawn() {
    let lab = lab();
    let mut one = AcpEditor::start(&lab, &[]);
    let session = one.new_session(lab.dir());
    let mut two = AcpEditor::start(&lab, &[]);
    two.load(&session);
    let prompt = one.prompt(&session, "ask:Bash:rm -rf x");
    let (first, second) = (asked(&mut one), asked(&mut two));
    wait_until("the session to need an answer", || lab.show(&session)["state"] == "needs-you");
    lab.ok(["answer", &session, "deny"]);
    for (editor, question) in [(&mut one, &first), (&mut two, &second)] {
        let withdrawn = editor.rpc.talk.wait("a withdrawal", |said| said["method"] == "$/cancel_request");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
        // A click in the other editor at the same moment changes nothing.
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow-always"}});
        editor.rpc.talk.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
    }
    assert_eq!(one.rpc.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(one.said().contains("Bash: reject"), "{:?}", one.told());
    assert_eq!(lab.events(&session, "answered").len(), 1);
}

#[test]
fn an_editor_that_opens_a_session_gets_its_open_questions() {
    let lab = lab();
    let session = lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:make"]);
    wait_until("the session to need an answer", || lab.show("s")["state"] == "needs-you");
    let mut editor = AcpEditor::start(&lab, &[]);
    editor.load("s");
    let question = asked(&mut editor);
    assert_eq!(question["params"]["sessionId"], "s", "as the editor calls it");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    editor.rpc.talk.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
    assert_eq!(lab.berth(["wait", &format!("{session}.1"), "--timeout", "60s"]).code, 0);
    // An editor that says it cannot ask leaves the question to others.
    lab.ok(["send", "s", "ask:Bash:again"]);
    let question = asked(&mut editor);
    let error = json!({"code": -32601, "message": "what?"});
    editor.rpc.talk.say(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    editor.ok("session/list", json!({}));
    assert_eq!(lab.show("s")["state"], "needs-you");
    lab.ok(["answer", "s", "allow", "--yes"]);
    assert_eq!(lab.berth(["wait", &format!("{session}.2"), "--timeout", "60s"]).code, 0);
}

#[test]
fn an_allow_of_the_last_run_never_allows_a_question_of_the_next() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let first = editor.prompt(&session, "ask:Bash:ls");
    let old = asked(&mut editor);
    lab.ok(["stop", "--grace", "0s", &session]);
    assert!(editor.rpc.answer(first)["error"].is_object());
    // The dialog closes with the run that asked.
    let is_withdrawn =
        |said: &Value| said["method"] == "$/cancel_request" && said["params"]["requestId"] == old["id"];
    if !editor.rpc.talk.heard.iter().any(is_withdrawn) {
        editor.rpc.talk.wait("a withdrawal", is_withdrawn);
    }
    // The next run calls its first question as the last one did.
    let second = editor.prompt(&session, "ask:Bash:rm -rf everything");
    let new = asked(&mut editor);
    assert!(new["params"]["toolCall"].to_string().contains("rm -rf everything"), "{new}");
    assert_ne!(new["id"], old["id"]);
    let choose = |id: &Value, option: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}});
    // The user clicks in the old dialog nevertheless.
    editor.rpc.talk.say(&choose(&old["id"], "allow-once"));
    editor.ok("session/list", json!({}));
    assert_eq!(lab.show(&session)["state"], "needs-you");
    editor.rpc.talk.say(&choose(&new["id"], "reject"));
    assert_eq!(editor.rpc.answer(second)["result"]["stopReason"], "end_turn");
    assert!(editor.said().contains("Bash: reject"), "{:?}", editor.told());
    assert_eq!(lab.events(&session, "answered").len(), 1);
}
