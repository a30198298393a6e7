//! C4, C12: a turn that is sent twice, and a turn for another session.

use berth_harness::SeededRng;

use crate::turns::{
    did, finish, gate, lab, mark, open, prompts, rounds, spawn, start, states, text, wait_mark,
};

#[test]
fn c4_a_repeated_key_means_the_same_turn_in_flight_when_it_waits_and_when_it_is_over() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let (runs, fails) = (format!("{touch} {wait} x"), "fail:no".to_owned());
    lab.ok(["send", "--key", "runs", &id, &runs]);
    wait_mark(&begun);
    lab.ok(["send", "--key", "fails", &id, &fails]);
    let again = |key: &str, prompt: &str| lab.json(["send", "--json", "--key", key, &id, prompt]);
    let (in_flight, waits) = (again("runs", &runs), again("fails", &fails));
    for (receipt, number, state) in [(&in_flight, 1, "delivered"), (&waits, 2, "queued")] {
        assert_eq!(receipt["number"], number, "{receipt}");
        assert_eq!((text(receipt, "state"), &receipt["repeated"]), (state.into(), &true.into()), "{receipt}");
        assert_eq!((text(receipt, "turn"), text(receipt, "session")), (format!("{id}.{number}"), id.clone()));
    }
    let other = lab.berth(["send", "--key", "runs", &id, "something else"]);
    assert_eq!((other.code, other.out.as_str()), (1, ""), "{other:?}");
    assert!(other.err.contains("runs") || other.err.contains(".1"), "it says which: {other:?}");
    open(&go);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(text(&again("runs", &runs), "state"), "done");
    assert_eq!(text(&again("fails", &fails), "state"), "failed", "a key is a key after a failure, too");
    assert_eq!(lab.berth(["send", "--wait", "--key", "fails", &id, &fails]).code, 1);
    assert_eq!(lab.berth(["send", "--key", "fails", &id, "something else"]).code, 1);
    // Without a keeper as well, and no keeper is started for a known answer.
    lab.ok(["stop", "--grace", "0s", &id]);
    let known = again("runs", &runs);
    assert_eq!((text(&known, "state"), &known["repeated"]), ("done".into(), &true.into()));
    assert_eq!(lab.berth(["send", "--wait", "--key", "fails", &id, &fails]).code, 1);
    assert_eq!(lab.berth(["send", "--key", "runs", &id, "something else"]).code, 1);
    assert_eq!(lab.show(&id)["state"], "stopped");
    // A retry is allowed, with another key.
    assert_eq!(lab.ok(["send", "--wait", "--key", "retry", &id, "again"]), "ECHO: again");
    assert_eq!(prompts(&did(&lab, &id)), [runs.as_str(), "fail:no", "again"]);
}

/// C4: a keeper forgets turns that are long over, and no key.
#[test]
fn c4_a_key_means_its_turn_also_when_the_keeper_no_longer_has_that_in_memory() {
    let lab = lab();
    let id = start(&lab, &[]);
    lab.ok(["send", "--wait", "--key", "first", &id, "one"]);
    assert_eq!(lab.berth(["send", "--wait", "--key", "fails", &id, "fail:no"]).code, 1);
    for number in 0..=berth_core::MOST_OVER_KEPT {
        lab.ok(["send", "--wait", &id, &format!("more {number}")]);
    }
    let check = |when: &str| {
        for (key, prompt, number, state) in [("first", "one", 1, "done"), ("fails", "fail:no", 2, "failed")] {
            let receipt = lab.json(["send", "--json", "--key", key, &id, prompt]);
            assert_eq!(
                (&receipt["number"], &receipt["repeated"]),
                (&number.into(), &true.into()),
                "{when}: {receipt}"
            );
            assert_eq!(text(&receipt, "state"), state, "{when}: {receipt}");
        }
        assert_eq!(lab.ok(["send", "--wait", "--key", "first", &id, "one"]), "ECHO: one", "{when}");
        assert_eq!(lab.berth(["send", "--wait", "--key", "fails", &id, "fail:no"]).code, 1, "{when}");
        let other = lab.berth(["send", "--key", "first", &id, "something else"]);
        assert!(other.code == 1 && other.err.contains(".1"), "{when}: {other:?}");
        assert_eq!(text(&lab.json(["turn", "--json", &format!("{id}.2")]), "state"), "failed", "{when}");
    };
    check("kept");
    let over = lab.berth(["cancel", &format!("{id}.1")]);
    assert!(over.code == 1 && over.err.contains("is over already"), "{over:?}");
    lab.ok(["stop", "--grace", "0s", &id]);
    check("stopped");
    assert_eq!(lab.show(&id)["state"], "stopped", "nothing is started for what is known");
    assert_eq!(prompts(&did(&lab, &id)).iter().filter(|prompt| **prompt == "one").count(), 1, "said once");
}

/// C4: both come before either is accepted.
#[test]
fn c4_two_at_once_with_one_key_are_one_turn() {
    let mut seed = SeededRng::announce("c4");
    let lab = lab();
    let id = start(&lab, &[]);
    for round in 0..rounds(25) {
        let (key, prompt) = (format!("key {round}"), format!("round {round}"));
        if seed.below(3) == 0 {
            lab.ok(["stop", "--grace", "0s", &id]);
        }
        let one = spawn(&lab, ["send", "--wait", "--key", &key, &id, &prompt]);
        seed.dawdle(8_000);
        let two = spawn(&lab, ["send", "--wait", "--key", &key, &id, &prompt]);
        for said in [finish(one), finish(two)] {
            assert_eq!(
                (said.code, said.out),
                (0, format!("ECHO: {prompt}\n")),
                "round {round}: {}",
                said.err
            );
        }
        assert_eq!(states(&lab, &id).len() as u64, round + 1);
    }
    assert_eq!(did(&lab, &id).len() as u64, rounds(25));
}

#[test]
fn c12_a_turn_for_another_session_or_conversation_is_refused() {
    let lab = lab();
    let (one, two) = (start(&lab, &["--name", "one"]), start(&lab, &["--name", "two"]));
    lab.ok(["send", "--wait", &one, "hello"]);
    let native = text(&lab.show(&one), "conversation_id");
    assert_eq!(lab.ok(["send", "--wait", "one", "--expect", &one, "mine"]), "ECHO: mine");
    assert_eq!(lab.ok(["send", "--wait", "one", "--expect", &native, "mine"]), "ECHO: mine");
    for expected in [two.as_str(), "no-such-conversation"] {
        let refused = lab.berth(["send", "one", "--expect", expected, "misrouted"]);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
        assert!(refused.err.contains(expected) && refused.err.contains("nothing was sent"), "{refused:?}");
    }
    assert_eq!(states(&lab, &one).len(), 3);
    // The name means another session now.
    lab.ok(["rename", "one", "old"]);
    lab.ok(["rename", "two", "one"]);
    assert_eq!(lab.berth(["send", "one", "--expect", &one, "misrouted"]).code, 1);
    assert_eq!(lab.berth(["send", "one", "--expect", &native, "misrouted"]).code, 1);
    assert!(states(&lab, &two).is_empty());
    // Without a keeper as well: the session that is not meant is not started.
    lab.ok(["stop", "--grace", "0s", &two]);
    assert_eq!(lab.berth(["send", "one", "--expect", &one, "misrouted"]).code, 1);
    assert!(states(&lab, &two).is_empty());
    assert_eq!(lab.show(&two)["state"], "stopped", "it was not started for what it was not meant to have");
}
