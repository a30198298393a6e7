//! The queue over HTTP: seen, dropped, moved, changed, paused and let go on.

use std::path::PathBuf;

use berth_harness::{GatewayProcess, SeededRng, TestEnvironment};
use serde_json::{Value, json};

use crate::gateway_turns::{
    at, did, gate, lab, mark, open, prompts, rounds, seen, seen_states, send, send_keyed, start, text,
    wait_idle, wait_mark,
};

/// A session with a queue of three behind a turn that runs, and the file that ends that turn.
fn queue_of_three(lab: &TestEnvironment, gateway: &GatewayProcess) -> (String, PathBuf) {
    let (go, wait) = gate(lab, "go");
    let (begun, touch) = mark(lab, "begun");
    let id = start(lab, &["--prompt", &format!("{touch} {wait} first")]);
    wait_mark(&begun);
    for prompt in ["a", "b", "c"] {
        send_keyed(gateway, &id, &format!("key-{prompt}"), &json!({"text": prompt})).ok();
    }
    (id, go)
}

fn waiting(queue: &Value) -> Vec<String> {
    queue["queued"].as_array().expect("an array").iter().map(|turn| text(turn, "prompt")).collect()
}

fn change(gateway: &GatewayProcess, id: &str, turn: u64, body: &Value) -> berth_harness::HttpResponse {
    gateway.ask("PATCH", &at(id, &format!("queue/{turn}")), &[], Some(body))
}

#[test]
fn queued_turns_are_moved_changed_and_dropped_and_run_in_their_final_form() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = queue_of_three(&lab, &gateway);
    assert_eq!(waiting(&gateway.get(&at(&id, "queue")).ok()), ["a", "b", "c"]);
    assert_eq!(waiting(&change(&gateway, &id, 4, &json!({"position": 0})).ok()), ["c", "a", "b"]);
    let both = change(&gateway, &id, 2, &json!({"position": 99, "text": "rather this"})).ok();
    assert_eq!(waiting(&both), ["c", "b", "rather this"]);
    let same = change(&gateway, &id, 2, &json!({"text": "rather this"})).ok();
    assert_eq!(waiting(&same), ["c", "b", "rather this"]);
    assert_eq!(lab.events(&id, "turn_edited").len(), 1, "said twice it is changed once");
    let dropped = gateway.ask("DELETE", &at(&id, "queue/3"), &[], None).ok();
    assert_eq!(waiting(&dropped), ["c", "rather this"]);
    // Turns that run, are over or never existed, and changes that are not valid.
    for (turn, body, status, code) in [
        (1, json!({"text": "x"}), 409, "refused"),
        (1, json!({"position": 0}), 409, "refused"),
        (3, json!({"text": "x"}), 409, "refused"),
        (9, json!({"text": "x"}), 404, "not-found"),
        (2, json!({}), 400, "usage"),
        (2, json!({"text": ""}), 400, "usage"),
        (2, json!({"text": "", "position": 0}), 400, "usage"),
        (2, json!({"text": "x".repeat((1 << 20) + 1)}), 400, "usage"),
        (2, json!({"position": -1}), 400, "usage"),
        (2, json!({"place": 1}), 400, "usage"),
    ] {
        change(&gateway, &id, turn, &body).problem(status, code);
    }
    assert_eq!(waiting(&gateway.get(&at(&id, "queue")).ok()), ["c", "rather this"], "a no changes nothing");
    // The key still means this turn, with the text it came with.
    let again = send_keyed(&gateway, &id, "key-a", &json!({"text": "a"})).ok();
    assert_eq!((&again["number"], &again["repeated"]), (&2.into(), &true.into()));
    send_keyed(&gateway, &id, "key-a", &json!({"text": "rather this"})).problem(409, "refused");
    open(&go);
    wait_idle(&gateway, &id);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["c", "rather this"]);
    let turn = seen(&gateway, &id, 2);
    assert_eq!(
        (text(&turn, "prompt"), text(&turn, "answer")),
        ("rather this".into(), "ECHO: rather this".into())
    );
    assert!(
        turn["edited_at"].is_string() && text(&turn["edited_by"], "place").contains("local socket"),
        "{turn}"
    );
}

#[test]
fn a_paused_queue_lets_no_turn_begin_until_it_goes_on_with_or_without_a_keeper() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = queue_of_three(&lab, &gateway);
    let pause =
        |paused: bool| gateway.ask("PATCH", &at(&id, "queue"), &[], Some(&json!({"paused": paused}))).ok();
    assert!(text(&pause(true), "held").contains("paused"));
    open(&go);
    let over = gateway.begin("GET", &at(&id, "turns/1/result"), &[], None);
    drop(over);
    berth_harness::wait_until("the first to be over", || {
        !seen(&gateway, &id, 1)["in_progress"].as_bool().expect("told")
    });
    assert_eq!(seen_states(&gateway, &id), ["done", "queued", "queued", "queued"]);
    let receipt = send(&gateway, &id, &json!({"text": "d", "wait": true, "timeout_ms": 50}));
    assert_eq!(receipt.status, 202, "{}", receipt.text());
    assert!(text(&receipt.json(), "held").contains("paused"), "{}", receipt.text());
    lab.kill_keeper(&id);
    assert_eq!(
        waiting(&change(&gateway, &id, 2, &json!({"text": "changed"})).ok()),
        ["changed", "b", "c", "d"]
    );
    assert!(lab.show(&id)["keeper_pid"].is_null(), "no keeper was started for that");
    assert_eq!(pause(false)["held"], Value::Null);
    wait_idle(&gateway, &id);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["changed", "b", "c", "d"]);
}

/// The agent takes the turn while a client changes it: the agent says the old text or the new one, and
/// the client is told which.
#[test]
fn a_turn_that_is_changed_as_it_begins_says_what_its_editor_was_told() {
    let mut seed = SeededRng::announce("edit http");
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    let mut expected = Vec::new();
    for round in 0..rounds(25) {
        let (go, wait) = gate(&lab, &format!("go-{round}"));
        let first = format!("{wait} first {round}");
        send(&gateway, &id, &json!({"text": first})).ok();
        let receipt = send(&gateway, &id, &json!({"text": format!("old {round}")})).ok();
        let number = receipt["number"].as_u64().expect("a number");
        open(&go);
        seed.dawdle(12_000);
        let reply = change(&gateway, &id, number, &json!({"text": format!("new {round}")}));
        let is_changed = match reply.status {
            200 => true,
            _ => reply.problem(409, "refused").is_null(),
        };
        expected.extend([first, format!("{} {round}", if is_changed { "new" } else { "old" })]);
        wait_idle(&gateway, &id);
    }
    assert_eq!(prompts(&did(&lab, &id)), expected);
}
