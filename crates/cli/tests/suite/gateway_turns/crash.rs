//! C10: the gateway or the keeper is killed at every step of a turn. An accepted turn is neither lost nor run twice.

use berth_harness::{SeededRng, TestEnvironment, said, wait_until};
use serde_json::json;

use crate::gateway_turns::{
    PromptRecord, at, did, gate, lab, mark, open, prompts, rounds, seen, send_keyed, start, states, text,
    told, turns, wait_idle, wait_mark,
};

/// Kills the gateway at a point of its own, then sends the request to the next one again.
fn gateway_dies(point: &str, body: &serde_json::Value) {
    let lab = lab();
    let id = start(&lab, &[]);
    let gateway = lab.serve_in(&[], &[("BERTH_KILLPOINT", point)]);
    let client = gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", "k")], Some(body));
    assert!(!client.is_answered(), "{point}: it died before it could answer");
    drop(gateway);
    assert_eq!(turns(&lab, &id).len(), 1, "{point}: it was accepted");
    // The turn goes on without any gateway.
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["done"], "{point}");
    let gateway = lab.serve();
    let mut waits = body.clone();
    waits["wait"] = true.into();
    let again = send_keyed(&gateway, &id, "k", &waits);
    assert_eq!((again.status, text(&again.json(), "answer")), (200, "ECHO: hello".to_owned()), "{point}");
    let receipt = send_keyed(&gateway, &id, "k", &json!({"text": body["text"]})).ok();
    assert_eq!((&receipt["repeated"], &receipt["number"]), (&true.into(), &1.into()), "{point}");
    assert_eq!(prompts(&did(&lab, &id)), ["hello"], "{point}: once");
}

#[test]
fn c10_a_gateway_killed_after_accepting_and_before_replying_loses_nothing() {
    gateway_dies("gateway-accepted", &json!({"text": "hello"}));
    gateway_dies("gateway-accepted", &json!({"text": "hello", "wait": true}));
}

#[test]
fn c10_a_gateway_killed_with_the_result_in_its_hands_loses_nothing() {
    gateway_dies("gateway-answering", &json!({"text": "hello", "wait": true}));
}

/// The gateway is killed at a random moment: the key makes both requests one turn.
#[test]
fn c10_a_gateway_killed_at_any_moment_of_a_post_neither_loses_nor_repeats_it() {
    let mut seed = SeededRng::announce("c10 gateway");
    let lab = lab();
    let id = start(&lab, &[]);
    let mut gateway = lab.serve();
    for round in 0..rounds(25) {
        let body = json!({"text": format!("round {round}"), "wait": true});
        let key = format!("k{round}");
        let client = gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", &key)], Some(&body));
        seed.dawdle(6_000);
        gateway.kill();
        drop(client);
        gateway = lab.serve();
        let turn = send_keyed(&gateway, &id, &key, &body).ok();
        assert_eq!(text(&turn, "answer"), format!("ECHO: round {round}"));
    }
    let expected: Vec<String> = (0..rounds(25)).map(|round| format!("round {round}")).collect();
    assert_eq!(prompts(&did(&lab, &id)), expected, "each once");
    assert_eq!(lab.number(&id, "epoch"), 1, "and its agent lived on");
}

/// Starts a session whose first keeper dies at this point.
fn doomed(lab: &TestEnvironment, point: &str) -> String {
    let mut command = lab.command(["run", "-d", "--agent", "fake"]);
    let told = said(command.env("BERTH_KILLPOINT", point).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{point}: {told:?}");
    told.out.trim().to_owned()
}

/// Before the agent could have heard of it, the turn runs, once; after that it never runs again. A client that waits
/// over HTTP brings the session back and hears the end.
#[test]
fn c10_a_keeper_that_dies_at_any_step_of_a_posted_turn_neither_loses_it_nor_runs_it_twice() {
    for (point, state) in [
        ("sending", "done"),
        ("accepted", "done"),
        ("due", "done"),
        ("delivered", "unknown"),
        ("said", "unknown"),
        ("answered", "done"),
    ] {
        let lab = lab();
        let gateway = lab.serve();
        let id = doomed(&lab, point);
        let turn = told(&gateway, &id, "hello");
        assert_eq!((text(&turn, "state"), &turn["number"]), (state.to_owned(), &1.into()), "{point}: {turn}");
        assert_eq!(turn["in_progress"], false, "{point}");
        let ran = did(&lab, &id);
        if state == "done" {
            assert_eq!(text(&turn, "answer"), "ECHO: hello", "{point}");
            assert_eq!(
                (prompts(&ran), ran.iter().all(PromptRecord::is_done)),
                (vec!["hello"], true),
                "{point}"
            );
        } else {
            assert!(ran.len() <= 1, "{point}: {ran:?}");
        }
        assert_eq!(turns(&lab, &id).len(), 1, "{point}");
        let result = gateway.get(&at(&id, "turns/1/result"));
        assert_eq!((result.status, text(&result.json(), "state")), (200, state.to_owned()), "{point}");
        assert_eq!(did(&lab, &id), ran, "{point}: asked again it does not run");
    }
}

/// The keeper is killed while many wait: they bring the session back once, and hear of it.
#[test]
fn c10_clients_that_wait_over_http_bring_a_session_back_once_when_its_keeper_is_killed() {
    let lab = lab();
    let gateway = lab.serve();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = lab.ok(["run", "-d", "--agent", "fake", "--on-unknown", "continue"]);
    let post = |prompt: &str, key: &str| {
        let body = json!({"text": prompt, "wait": true});
        gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", key)], Some(&body))
    };
    let first = post(&format!("{touch} {wait} first"), "first");
    wait_mark(&begun);
    let others: Vec<_> = (0..40).map(|number| post("next", &format!("k{}", number % 4))).collect();
    wait_until("them to be accepted", || turns(&lab, &id).len() == 5);
    lab.kill_keeper(&id);
    let first = first.reply().ok();
    assert_eq!(text(&first, "state"), "unknown", "{first}");
    for other in others {
        assert_eq!(text(&other.reply().ok(), "answer"), "ECHO: next");
    }
    open(&go);
    wait_idle(&gateway, &id);
    assert_eq!(lab.number(&id, "epoch"), 2, "it was started once");
    assert_eq!(did(&lab, &id).iter().filter(|did| did.prompt == "next").count(), 4);
    assert_eq!(text(&seen(&gateway, &id, 1), "state"), "unknown");
}
