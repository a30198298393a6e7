//! Prompts: through the queue, told as they are done, ended for a reason.

use berth_harness::wait_until;
use serde_json::json;

use crate::acp::{AcpEditor, gate, lab, open};

#[test]
fn a_prompt_is_a_turn_that_everyone_sees_and_its_answer_ends_it() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let (go, wait) = gate(&lab, "go");
    let prompt = editor.prompt(&session, &format!("say:one \ntool:Read:/etc/hosts\n{wait}\nsay:two"));
    editor.hears("tool_call", "/etc/hosts");
    open(&go);
    let said = editor.rpc.answer(prompt);
    assert_eq!(said["result"]["stopReason"], "end_turn", "{said}");
    assert_eq!(said["result"]["_meta"]["berth"]["turn"], format!("{session}.1"));
    let told = editor.told();
    let at =
        |end: &str| told.iter().position(|line| line.ends_with(end)).unwrap_or_else(|| panic!("{told:?}"));
    assert!(at("agent_message_chunk: one ") < at("tool_call: /etc/hosts"), "{told:?}");
    assert!(at("tool_call: /etc/hosts") < at("tool_call_update: completed"), "{told:?}");
    assert!(at("tool_call: /etc/hosts") < at("two"), "{told:?}");
    assert!(
        !told.iter().any(|line| line.starts_with("user_message_chunk")),
        "the editor shows its own: {told:?}"
    );
    let turn = lab.json(["turn", &format!("{session}.1"), "--json"]);
    assert_eq!(turn["state"], "done");
    assert!(turn["by"]["place"].as_str().is_some_and(|place| place.starts_with("Zed (ACP)")), "{turn}");
    assert!(turn["key"].is_null(), "a key of our own is not shown: {turn}");
}

#[test]
fn two_editors_on_one_session_keep_one_order_and_both_see_all_of_it() {
    let lab = lab();
    let mut one = AcpEditor::start(&lab, &[]);
    let session = one.new_session(lab.dir());
    let mut two = AcpEditor::start(&lab, &[&session]);
    assert_eq!(two.new_session(lab.dir()), session, "it was given that one");
    let (go, wait) = gate(&lab, "go");
    let first = one.prompt(&session, &format!("say:begun\n{wait} first"));
    // The other editor sees the prompt, and the text that is said to it.
    two.hears("user_message_chunk", "first");
    two.hears("agent_message_chunk", "begun");
    let second = two.prompt(&session, "second");
    wait_until("the second to wait", || {
        lab.show(&session)["turns"]["queued"].as_array().is_some_and(|it| it.len() == 1)
    });
    let third = one.prompt(&session, "third");
    wait_until("the third to wait", || {
        lab.show(&session)["turns"]["queued"].as_array().is_some_and(|it| it.len() == 2)
    });
    open(&go);
    let ends = [one.rpc.answer(first), two.rpc.answer(second), one.rpc.answer(third)];
    assert!(ends.iter().all(|said| said["result"]["stopReason"] == "end_turn"), "{ends:?}");
    two.hears("agent_message_chunk", "ECHO: third");
    for (editor, others) in [(&one, &["second"][..]), (&two, &["first", "third"])] {
        let said = editor.said();
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
        assert!(at("ECHO: first") < at("ECHO: second") && at("ECHO: second") < at("ECHO: third"), "{said}");
        let told = editor.told();
        let shown: Vec<&String> = told.iter().filter(|line| line.starts_with("user_message_chunk")).collect();
        assert_eq!(shown.len(), others.len(), "only what others said: {told:?}");
        assert!(shown.iter().zip(others).all(|(line, other)| line.contains(other)), "{shown:?}");
    }
}

#[test]
fn prompts_of_one_editor_are_done_in_the_order_they_came() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let prompts: Vec<u64> =
        (0..8).map(|number| editor.prompt(&session, &format!("number {number}"))).collect();
    for prompt in prompts {
        assert_eq!(editor.rpc.answer(prompt)["result"]["stopReason"], "end_turn");
    }
    let expected: String = (0..8).map(|number| format!("ECHO: number {number}")).collect();
    assert_eq!(editor.said(), expected);
}

#[test]
fn an_editor_killed_in_mid_turn_loses_nothing_and_load_shows_it() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let (go, wait) = gate(&lab, "go");
    editor.prompt(&session, &format!("say:before \ntool:Bash:make\n{wait} after"));
    editor.hears("agent_message_chunk", "before");
    // Dropping the editor kills it with SIGKILL.
    drop(editor);
    assert_eq!(lab.show(&session)["state"], "working", "the session was not ended");
    let mut editor = AcpEditor::start(&lab, &[]);
    editor.load(&session);
    editor.hears("user_message_chunk", "before");
    editor.hears("agent_message_chunk", "before");
    open(&go);
    editor.hears("agent_message_chunk", "ECHO: after");
    assert_eq!(lab.berth(["wait", &format!("{session}.1"), "--timeout", "60s"]).code, 0);
    let mut late = AcpEditor::start(&lab, &[]);
    late.load(&session);
    let told = late.told();
    let kinds: Vec<&str> = told.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(kinds.first(), Some(&"user_message_chunk"), "{told:?}");
    assert_eq!(kinds.last(), Some(&"agent_message_chunk"), "{told:?}");
    assert!(kinds.contains(&"tool_call"), "{told:?}");
    assert!(late.said().contains("before") && late.said().ends_with("ECHO: after"), "{told:?}");
}

#[test]
fn an_editor_that_closes_has_its_prompts_accepted_and_ends_nothing() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    // The agent has to be started for the turns, which takes longer than to close.
    lab.ok(["stop", &session]);
    let (go, wait) = gate(&lab, "go");
    editor.prompt(&session, &format!("{wait} first"));
    editor.prompt(&session, "second");
    let (code, complaints) = editor.rpc.talk.end();
    assert_eq!((code, complaints.as_str()), (0, ""));
    open(&go);
    assert_eq!(lab.berth(["wait", &session, "--for", "idle", "--timeout", "60s"]).code, 0);
    let turns = lab.json(["turns", &session, "--json"]);
    let ended: Vec<_> = turns
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| (turn["state"].clone(), turn["answer"].clone()))
        .collect();
    assert_eq!(ended, [("done".into(), "ECHO: first".into()), (json!("done"), json!("ECHO: second"))]);
}

#[test]
fn a_cancel_reaches_the_editors_own_turn_and_no_other() {
    let lab = lab();
    let mut one = AcpEditor::start(&lab, &[]);
    let session = one.new_session(lab.dir());
    let mut two = AcpEditor::start(&lab, &[]);
    two.load(&session);
    let running = one.prompt(&session, "say:begun\nsilent");
    two.hears("agent_message_chunk", "begun");
    let waiting = two.prompt(&session, "never");
    wait_until("it to wait", || {
        lab.show(&session)["turns"]["queued"].as_array().is_some_and(|it| it.len() == 1)
    });
    two.rpc.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(two.rpc.answer(waiting)["result"]["stopReason"], "cancelled");
    assert_eq!(lab.json(["turn", &format!("{session}.2"), "--json"])["state"], "cancelled");
    assert_eq!(lab.show(&session)["state"], "working", "the other one's goes on");
    one.rpc.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(one.rpc.answer(running)["result"]["stopReason"], "cancelled");
    let next = one.prompt(&session, "next");
    assert_eq!(one.rpc.answer(next)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_turn_that_is_not_done_is_never_called_done() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    for (prompt, stop) in [("stop:refusal", "refusal"), ("stop:max_tokens", "max_tokens")] {
        let prompt = editor.prompt(&session, prompt);
        assert_eq!(editor.rpc.answer(prompt)["result"]["stopReason"], stop);
    }
    let prompt = editor.prompt(&session, "fail:no luck");
    let failed = editor.rpc.answer(prompt);
    assert!(failed["error"]["message"].as_str().is_some_and(|said| said.contains("no luck")), "{failed}");
    assert_eq!(failed["error"]["data"]["turn"]["state"], "failed", "{failed}");
    let prompt = editor.prompt(&session, "say:half\ndie:KILL");
    let died = editor.rpc.answer(prompt);
    let said = died["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("interrupted") && said.contains("signal 9"), "the turn was not cancelled: {died}");
    // The keeper dies with the turn, so how far the turn got is not known.
    let (_, wait) = gate(&lab, "never");
    let prompt = editor.prompt(&session, &format!("say:begun again\n{wait}"));
    editor.hears("agent_message_chunk", "begun again");
    lab.kill_keeper(&session);
    let unknown = editor.rpc.answer(prompt);
    let state = lab.json(["turn", &format!("{session}.5"), "--json"])["state"].clone();
    assert_eq!(state, "unknown", "{unknown}");
    let said = unknown["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("its end is unknown") && said.contains("not repeated"), "{unknown}");
    assert_eq!(unknown["error"]["data"]["turn"]["state"], "unknown", "{unknown}");
}

#[test]
fn a_prompt_that_was_edited_in_the_queue_is_shown_as_the_agent_got_it() {
    let lab = lab();
    let session = lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let (go, wait) = gate(&lab, "go");
    lab.ok(["send", "s", &format!("say:begun\n{wait}")]);
    let mut editor = AcpEditor::start(&lab, &[]);
    editor.load("s");
    lab.ok(["send", "s", "as it was"]);
    lab.ok(["queue", "s", "edit", &format!("{session}.2"), "as it is"]);
    open(&go);
    editor.hears("agent_message_chunk", "ECHO: as it is");
    let told = editor.told();
    assert!(told.contains(&"user_message_chunk: as it is".to_owned()), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("as it was")), "{told:?}");
}
