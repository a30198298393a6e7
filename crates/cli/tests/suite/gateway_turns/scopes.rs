//! Scopes of tokens for turns: a token that may only read starts, sends and answers nothing, not even by waiting.

use serde_json::{Value, json};

use crate::gateway_turns::{at, did, gate, lab, mark, start, text, told, wait_accepted, wait_mark};

#[test]
fn a_read_token_starts_nothing_by_waiting_and_may_not_send_or_answer() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen=127.0.0.1:0"]);
    let bearer = |scope: &str| {
        let token = lab.ok(["token", "new", "--scope", scope, "--name", scope]);
        format!("Bearer {token}")
    };
    let (reader, sender) = (bearer("read"), bearer("send"));
    let ask = |who: &str, method: &str, path: &str, body: Option<&Value>| {
        gateway.ask_tcp(method, path, &[("Authorization", who)], body)
    };
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--on-unknown", "continue", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let second = json!({"text": "second"});
    ask(&sender, "POST", &at(&id, "turns"), Some(&second)).ok();
    wait_accepted(&gateway, &id, 2);
    for (method, path, body) in [
        ("POST", "turns", json!({"text": "x"})),
        ("POST", "turns/2/cancel", json!({})),
        ("PATCH", "queue", json!({"paused": true})),
        ("PATCH", "queue/2", json!({"text": "x"})),
        ("DELETE", "queue/2", json!({})),
    ] {
        ask(&reader, method, &at(&id, path), Some(&body)).problem(403, "not-allowed");
    }
    for who in [&reader, &sender] {
        ask(who, "POST", &at(&id, "answers"), Some(&json!({"answer": "allow"}))).problem(403, "not-allowed");
    }
    assert_eq!(ask(&reader, "GET", &at(&id, "queue"), None).ok()["queued"][0]["prompt"], "second");
    // The keeper is gone. A token that may only read is told so, and nothing is started; one that may send resumes.
    lab.kill_keeper(&id);
    let done = json!({"for": "done", "timeout_ms": 60_000});
    let held = ask(&reader, "POST", &at(&id, "wait"), Some(&done)).problem(409, "held");
    assert!(text(&held, "title").contains("is not running"), "{held}");
    assert!(lab.show(&id)["keeper_pid"].is_null(), "no keeper was started");
    let waited = ask(&sender, "POST", &at(&id, "wait"), Some(&done)).ok();
    assert_eq!(text(&waited["turn"], "answer"), "ECHO: second");
    assert_eq!(did(&lab, &id).len(), 2);
    assert_eq!(text(&told(&gateway, &id, "third"), "answer"), "ECHO: third");
    let last = ask(&reader, "POST", &at(&id, "wait"), Some(&done)).ok();
    assert_eq!(text(&last["turn"], "answer"), "ECHO: third");
}

#[test]
fn a_token_with_a_list_of_sessions_is_not_told_which_other_writes_its_conversation() {
    let lab = lab();
    let gateway = lab.serve();
    let one = start(&lab, &["--name", "one"]);
    told(&gateway, "one", "remember this");
    lab.ok(["stop", "--grace", "0s", "one"]);
    let other = start(&lab, &["--resume", &text(&lab.show("one"), "conversation_id")]);
    let resume = |sessions: &[&str]| {
        let name = format!("for-{}", sessions.len());
        let secret = lab.ok([&["token", "new", "--scope", "admin", "--name", &name], sessions].concat());
        let bearer = format!("Bearer {secret}");
        let asked = gateway.ask("POST", &at(&one, "resume"), &[("Authorization", &bearer)], Some(&json!({})));
        asked.problem(409, "in-use").to_string()
    };
    assert!(resume(&[]).contains(&other), "a token that may see the session is told");
    let told = resume(&["--session", "one", "--yes"]);
    assert!(!told.contains(&other) && told.contains("may not see"), "{told}");
}

/// The keeper believes the gateway about the sender of a turn, and marks any other claim.
#[test]
fn the_sender_that_the_gateway_names_is_recorded_without_a_mark() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    let turn = crate::gateway_turns::told(&gateway, &id, "hello");
    let place = turn["by"]["place"].as_str().expect("a text");
    assert!(place.contains("the local socket") && !place.contains("(claimed)"), "{turn}");
}
