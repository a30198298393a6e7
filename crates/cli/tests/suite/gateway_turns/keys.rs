//! C4, C12: a turn that is sent twice, and a turn for another session.

use berth_harness::SeededRng;
use serde_json::json;

use crate::gateway_turns::{
    at, did, gate, lab, mark, open, prompts, rounds, seen_states, send, send_keyed, start, text, told,
    wait_idle, wait_mark,
};

#[test]
fn c4_a_key_means_one_turn_in_flight_when_it_waits_when_it_is_done_and_when_it_failed() {
    let lab = lab();
    let gateway = lab.serve();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let (runs, fails) = (json!({"text": format!("{touch} {wait} x")}), json!({"text": "fail:no"}));
    let first = send_keyed(&gateway, &id, "runs", &runs);
    assert_eq!((first.status, &first.json()["repeated"]), (202, &false.into()));
    wait_mark(&begun);
    send_keyed(&gateway, &id, "fails", &fails).ok();
    for (key, body, number, state) in [("runs", &runs, 1, "delivered"), ("fails", &fails, 2, "queued")] {
        let again = send_keyed(&gateway, &id, key, body);
        assert_eq!(again.status, 202, "{}", again.text());
        let receipt = again.json();
        assert_eq!((&receipt["number"], &receipt["repeated"]), (&number.into(), &true.into()), "{receipt}");
        assert_eq!(
            (text(&receipt, "state"), text(&receipt, "turn")),
            (state.into(), format!("{id}.{number}"))
        );
    }
    let other = json!({"text": "something else"});
    let refused = send_keyed(&gateway, &id, "runs", &other).problem(409, "refused");
    assert!(text(&refused, "title").contains(".1"), "it says which: {refused}");
    open(&go);
    wait_idle(&gateway, &id);
    // Over: the result again, and no second run. A failure is a result.
    for (key, body, state) in [("runs", &runs, "done"), ("fails", &fails, "failed")] {
        let mut waits = body.clone();
        waits["wait"] = true.into();
        let again = send_keyed(&gateway, &id, key, &waits);
        assert_eq!((again.status, text(&again.json(), "state")), (200, state.to_owned()));
        assert_eq!(text(&send_keyed(&gateway, &id, key, body).ok(), "state"), state);
        send_keyed(&gateway, &id, key, &other).problem(409, "refused");
    }
    // Without a keeper as well, and no keeper is started for a known answer.
    lab.ok(["stop", "--grace", "0s", &id]);
    let known = send_keyed(&gateway, &id, "runs", &runs).ok();
    assert_eq!((text(&known, "state"), &known["repeated"]), ("done".into(), &true.into()));
    send_keyed(&gateway, &id, "runs", &other).problem(409, "refused");
    assert_eq!(lab.show(&id)["state"], "stopped");
    // A retry of a failed turn is allowed: another key makes it one.
    let retry = send_keyed(&gateway, &id, "retry", &json!({"text": "again", "wait": true})).ok();
    assert_eq!((text(&retry, "answer"), text(&retry, "key")), ("ECHO: again".into(), "retry".into()));
    assert_eq!(prompts(&did(&lab, &id))[1..], ["fail:no", "again"]);
}

/// Double click, two tabs: both come before either is accepted.
#[test]
fn c4_two_posts_at_once_with_one_key_are_one_turn_and_both_hear_its_end() {
    let mut seed = SeededRng::announce("c4 http");
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    for round in 0..rounds(25) {
        if seed.below(3) == 0 {
            lab.ok(["stop", "--grace", "0s", &id]);
        }
        let (key, prompt) = (format!("key {round}"), format!("round {round}"));
        let body = json!({"text": prompt, "wait": true});
        let post = || gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", &key)], Some(&body));
        let one = post();
        seed.dawdle(8_000);
        let two = post();
        for reply in [one.reply(), two.reply()] {
            assert_eq!(reply.status, 200, "round {round}: {}", reply.text());
            assert_eq!(text(&reply.json(), "answer"), format!("ECHO: {prompt}"), "round {round}");
        }
        assert_eq!(seen_states(&gateway, &id).len() as u64, round + 1);
    }
    assert_eq!(did(&lab, &id).len() as u64, rounds(25));
}

#[test]
fn c12_a_turn_for_a_session_that_was_switched_meanwhile_is_refused_and_reaches_no_agent() {
    let lab = lab();
    let gateway = lab.serve();
    let (one, two) = (start(&lab, &["--name", "one"]), start(&lab, &["--name", "two"]));
    told(&gateway, "one", "hello");
    let native = text(&lab.show(&one), "conversation_id");
    let expecting = |expected: &str| json!({"text": "for one", "expected_session": expected, "wait": true});
    for expected in [&one, &native] {
        assert_eq!(text(&send(&gateway, "one", &expecting(expected)).ok(), "answer"), "ECHO: for one");
    }
    // Tab B gives the name to another session; tab A does not know.
    lab.ok(["rename", "one", "old"]);
    lab.ok(["rename", "two", "one"]);
    for expected in [&one, &native] {
        let refused = send(&gateway, "one", &expecting(expected)).problem(409, "refused");
        let title = text(&refused, "title");
        assert!(title.contains(expected.as_str()) && title.contains("nothing was sent"), "{title}");
    }
    // A turn for a conversation that the session has left is refused as well.
    lab.ok(["stop", "--grace", "0s", &two]);
    send(&gateway, "one", &expecting(&one)).problem(409, "refused");
    assert_eq!(lab.show(&two)["state"], "stopped", "it was not started for what it was not meant to have");
    assert!(seen_states(&gateway, &two).is_empty());
    assert_eq!(seen_states(&gateway, &one).len(), 3);
}
