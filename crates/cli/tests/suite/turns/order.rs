//! C3, C6, C7, C8, C15: many senders, one after the other; the queue and its limit.

use std::collections::BTreeSet;

use berth_harness::{Seed, wait_until};

use crate::turns::{
    did, finish, gate, lab, mark, open, prompts, rounds, spawn, start, states, text, turns, wait_mark,
};

#[test]
fn c3_fifty_senders_are_answered_in_the_order_they_were_accepted() {
    let mut seed = Seed::announce("c3");
    let lab = lab();
    let id = start(&lab, &["--prompt", "warm"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    // Every fifth asks for what the one before it asked for, with the same key.
    let asked: Vec<(String, Option<String>)> = (0..50_u64)
        .map(|at| {
            let of = if at % 5 == 4 { at - 1 } else { at };
            (format!("sleep:{} number {of}", of % 3), (of % 5 == 3).then(|| format!("key-{of}")))
        })
        .collect();
    let children: Vec<_> = asked
        .iter()
        .map(|(prompt, key)| {
            let mut args = vec!["send", "--json", &id, prompt];
            args.extend(key.iter().flat_map(|key| ["--key", key]));
            let child = spawn(&lab, args);
            seed.dawdle(2_000);
            child
        })
        .collect();
    let receipts: Vec<serde_json::Value> = children
        .into_iter()
        .map(|child| {
            let said = finish(child);
            assert_eq!(said.code, 0, "{said:?}");
            serde_json::from_str(&said.out).expect("a receipt")
        })
        .collect();
    for ((prompt, key), receipt) in asked.iter().zip(&receipts) {
        let number = receipt["number"].as_u64().expect("a number");
        let turn = crate::turns::turn(&lab, &id, number);
        assert_eq!((text(&turn, "prompt"), turn["key"].as_str()), (prompt.clone(), key.as_deref()));
    }
    let numbers: BTreeSet<u64> =
        receipts.iter().map(|receipt| receipt["number"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (2..=41).collect(), "one turn for each key");
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let accepted: Vec<String> = turns(&lab, &id).iter().map(|turn| text(turn, "prompt")).collect();
    let ran = did(&lab, &id);
    assert_eq!(prompts(&ran), accepted);
    assert!(ran.iter().all(|did| did.is_done()), "{ran:?}");
    assert_eq!(lab.number(&id, "epoch"), 1);
}

/// C8: no lease or limit of ours makes room for a second one, however long the first takes.
#[test]
fn c8_a_turn_waits_for_one_that_takes_long_and_c6_it_is_seen_to_wait() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} long")]);
    wait_mark(&begun);
    let second = spawn(&lab, ["send", "--wait", &id, "second"]);
    wait_until("the second to be accepted", || turns(&lab, &id).len() == 2);
    let third = spawn(&lab, ["send", "--wait", &id, "third"]);
    wait_until("the third to be accepted", || turns(&lab, &id).len() == 3);
    assert_eq!(states(&lab, &id)[1..], ["queued", "queued"]);
    let shown = lab.show(&id);
    assert_eq!(
        (text(&shown, "state"), text(&shown["turns"], "current")),
        ("working".into(), format!("{id}.1"))
    );
    // C6: whoever waits for the session waits for all of them.
    let idle = spawn(&lab, ["wait", &id, "--for", "idle", "--timeout", "60s", "--json"]);
    open(&go);
    assert_eq!(finish(second).out, "ECHO: second\n");
    assert_eq!(finish(third).out, "ECHO: third\n");
    assert_eq!(finish(idle).code, 0);
    assert_eq!(states(&lab, &id), ["done", "done", "done"]);
    assert_eq!(did(&lab, &id).len(), 3);
}

/// C7: what else is done to a session while a turn runs waits or is refused; the turn goes on, or is ended and
/// says so.
#[test]
fn c7_renaming_and_resuming_do_not_touch_a_running_turn_and_stopping_ends_it() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--name", "before", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    lab.ok(["send", &id, "waits"]);
    lab.ok(["rename", "before", "after"]);
    let again = lab.berth(["resume", "-d", "after"]);
    assert_eq!(again.code, 4, "{again:?}");
    let fresh = lab.berth(["resume", "-d", "--fresh", "after"]);
    assert_eq!(fresh.code, 4, "{fresh:?}");
    assert_eq!(states(&lab, "after"), ["delivered", "queued"]);
    let waiting = spawn(&lab, ["wait", "after.1", "--timeout", "60s"]);
    lab.ok(["stop", "--grace", "50ms", "after"]);
    assert_eq!(finish(waiting).code, 9);
    // Stopped stays stopped: what waits waits.
    assert_eq!(states(&lab, "after"), ["interrupted", "queued"]);
    let ran = did(&lab, "after");
    assert_eq!((ran.len(), ran[0].is_done()), (1, false), "{ran:?}");
    assert_eq!(lab.show("after")["state"], "stopped");
    lab.ok(["resume", "-d", "after"]);
    assert_eq!(lab.berth(["wait", "after.2", "--timeout", "60s"]).code, 0);
    assert_eq!(did(&lab, &id).len(), 2);
}

#[test]
fn c15_the_turn_after_the_last_that_may_wait_is_refused_and_nothing_of_it_is_stored() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let children: Vec<_> = (0..100).map(|at| spawn(&lab, ["send", &id, &format!("number {at}")])).collect();
    children.into_iter().for_each(|child| assert_eq!(finish(child).code, 0));
    let before = lab.log(&id).len();
    for key in ["a", "b"] {
        let full = lab.berth(["send", "--key", key, &id, "one too many"]);
        assert_eq!((full.code, full.out.as_str()), (1, ""), "{full:?}");
        assert!(full.err.contains("100") && full.err.contains("hint:"), "{full:?}");
    }
    assert_eq!(lab.log(&id).len(), before, "nothing is stored");
    assert_eq!(turns(&lab, &id).len(), 101);
    // A turn that was accepted before is still known.
    lab.ok(["queue", &id, "drop", "101"]);
    let receipt = lab.json(["send", "--json", "--key", "a", &id, "one too many"]);
    assert_eq!((&receipt["number"], &receipt["repeated"]), (&102.into(), &false.into()));
    open(&go);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let ran = did(&lab, &id);
    assert_eq!(ran.len(), 101, "all but the one that was dropped");
    assert_eq!(ran.last().expect("one").prompt, "one too many");
}

/// C3 over ends of runs: the agent is released whenever it has nothing to do, and nothing is lost or turned round.
#[test]
fn c3_senders_who_meet_a_keeper_that_leaves_lose_nothing() {
    let mut seed = Seed::announce("c3 leaving");
    let lab = lab();
    let id = start(&lab, &["--idle", "1ms"]);
    for round in 0..rounds(40) {
        let prompt = format!("round {round}");
        assert_eq!(lab.ok(["send", "--wait", &id, &prompt]), format!("ECHO: {prompt}"));
        seed.dawdle(30_000);
    }
    let ran = did(&lab, &id);
    let expected: Vec<String> = (0..rounds(40)).map(|round| format!("round {round}")).collect();
    assert_eq!(prompts(&ran), expected);
}
