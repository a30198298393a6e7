//! Input that is not valid is refused with a reason, and stores nothing.

use serde_json::{Value, json};

use crate::gateway_turns::{at, lab, start};

#[test]
fn invalid_input_is_refused_by_name_and_stores_nothing() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    let long = "x".repeat((1 << 20) + 1);
    for (body, named) in [
        (json!({}), "text"),
        (json!({"text": 1}), "text"),
        (json!({"text": ""}), "empty"),
        (json!({"text": " \n"}), "empty"),
        (json!({"text": long}), "1048576"),
        (json!({"text": "x", "max_wait": 1}), "max_wait"),
        (json!({"text": "x", "max_wait_ms": -1}), "max_wait_ms"),
        (json!({"text": "x", "manner": "shout"}), "shout"),
        (json!({"text": "x", "wait": "yes"}), "wait"),
        (json!({"text": "x", "timeout_ms": 3_600_001}), "timeout_ms"),
        (json!([]), ""),
        (json!("text"), ""),
        (Value::Null, ""),
    ] {
        let problem = gateway.post(&at(&id, "turns"), &body).problem(400, "usage");
        assert!(problem["title"].as_str().is_some_and(|title| title.contains(named)), "{named}: {problem}");
    }
    for key in ["", &"k".repeat(257)] {
        let reply =
            gateway.ask("POST", &at(&id, "turns"), &[("Idempotency-Key", key)], Some(&json!({"text": "x"})));
        reply.problem(400, "usage");
    }
    let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    gateway.ask("POST", &at(&id, "turns"), &twice, Some(&json!({"text": "x"}))).problem(400, "usage");
    for turn in ["0", "2", "99999999999999999999", "-1", "x", "..%2f1", "1%00"] {
        for (method, path) in [
            ("GET", format!("turns/{turn}")),
            ("GET", format!("turns/{turn}/result")),
            ("POST", format!("turns/{turn}/cancel")),
            ("DELETE", format!("queue/{turn}")),
        ] {
            let reply = gateway.ask(method, &at(&id, &path), &[], None);
            assert!(matches!(reply.status, 400 | 404), "{method} {path}: {} {}", reply.status, reply.text());
            let code = if reply.status == 400 { "usage" } else { "not-found" };
            reply.problem(reply.status, code);
        }
    }
    for (path, body) in
        [("queue", json!({})), ("queue", json!({"paused": 1})), ("queue", json!({"paused": true, "more": 1}))]
    {
        gateway.ask("PATCH", &at(&id, path), &[], Some(&body)).problem(400, "usage");
    }
    for body in
        [json!({}), json!({"for": "ever"}), json!({"for": "idle", "timeout_ms": 1e12}), json!({"for": 1})]
    {
        gateway.post(&at(&id, "wait"), &body).problem(400, "usage");
    }
    gateway.get(&at(&id, "turns?limit=x")).problem(400, "usage");
    gateway.get(&at(&id, "turns?more=1")).problem(400, "usage");
    assert_eq!(gateway.get(&at(&id, "turns")).ok()["total"], 0);
    assert!(lab.events(&id, "turn_accepted").is_empty() && lab.events(&id, "queue_held").is_empty());
}

/// A session in a terminal takes no turns, and one that is not there is not there.
#[test]
fn a_session_without_turns_says_so_and_none_at_all_is_404() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    gateway.post(&at(&id, "turns"), &json!({"text": "x"})).problem(409, "refused");
    gateway.get(&at(&id, "queue")).problem(409, "refused");
    assert_eq!(gateway.get(&at(&id, "turns")).ok()["turns"], json!([]));
    let answer = json!({"answer": "allow", "request": "1", "epoch": 1});
    gateway.post(&at(&id, "answers"), &answer).problem(404, "not-found");
    for (method, path) in [
        ("GET", "turns"),
        ("POST", "turns"),
        ("GET", "turns/1"),
        ("GET", "queue"),
        ("POST", "answers"),
        ("POST", "wait"),
    ] {
        let body = json!({"text": "x", "answer": "allow", "request": "1", "epoch": 1, "for": "idle"});
        let body = (method == "POST").then_some(&body);
        gateway.ask(method, &at("no-such", path), &[], body).problem(404, "not-found");
    }
}
