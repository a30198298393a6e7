//! C3, C6, C7, C8, C15: many senders, one after the other; the queue and its limit.

use std::collections::BTreeSet;

use berth_harness::{SeededRng, wait_until};

use crate::turns::{
    damage_prompt, damaged_at_the_first_turn, did, finish, gate, lab, mark, open, prompts, rounds, send_long,
    spawn, start, states, text, turns, wait_mark,
};

#[test]
fn c3_fifty_senders_are_answered_in_the_order_they_were_accepted() {
    let mut seed = SeededRng::announce("c3");
    let lab = lab();
    let id = start(&lab, &["--prompt", "warm"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    // Every fifth request repeats the one before it, with the same key.
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
    // C6: a client that waits for the session waits for all of its turns.
    let idle = spawn(&lab, ["wait", &id, "--for", "idle", "--timeout", "60s", "--json"]);
    open(&go);
    assert_eq!(finish(second).out, "ECHO: second\n");
    assert_eq!(finish(third).out, "ECHO: third\n");
    assert_eq!(finish(idle).code, 0);
    assert_eq!(states(&lab, &id), ["done", "done", "done"]);
    assert_eq!(did(&lab, &id).len(), 3);
}

/// C7: other commands on a session while a turn runs wait or are refused; the turn goes on, or is ended and says so.
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
    // Stopped stays stopped: the waiting turn waits.
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
fn c3_senders_that_meet_a_keeper_that_leaves_lose_nothing() {
    let mut seed = SeededRng::announce("c3 leaving");
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

#[test]
fn the_latest_turns_of_a_session_are_listed_without_a_read_of_the_first_ones() {
    let lab = lab();
    let id = damaged_at_the_first_turn(&lab);
    let numbers = |args: &[&str]| {
        let turns = lab.json([&["turns", &id, "--json"], args].concat());
        let numbers = turns.as_array().expect("an array").iter().map(|turn| turn["number"].as_u64());
        numbers.collect::<Option<Vec<_>>>().expect("numbers")
    };
    assert_eq!(numbers(&["--last", "2"]), [19, 20]);
    assert_eq!(numbers(&["--from", "18"]), [18, 19, 20]);
    assert!(numbers(&["--from", "21"]).is_empty());
    let table = lab.ok(["turns", &id, "--last", "1"]);
    assert!(table.lines().count() == 2 && table.contains(&format!("{id}.20  done")), "{table}");
    let past_the_end = lab.berth(["turns", &id, "--from", "21"]);
    assert_eq!((past_the_end.out.as_str(), past_the_end.err.as_str()), ("", "the last turn is 20\n"));
    assert_eq!(lab.berth(["turns", &id]).code, 1, "the first turn is damaged");
    assert_eq!(lab.berth(["turns", &id, "--from", "1", "--last", "1"]).code, 2);
}

#[test]
fn a_list_of_long_turns_is_read_in_pages_and_ends_well_where_a_later_page_is_damaged() {
    let lab = lab();
    let id = start(&lab, &[]);
    for _ in 0..5 {
        send_long(&lab, &id, 500_000);
        lab.ok(["wait", &id, "--timeout", "60s"]);
    }
    // A stopped session leaves a snapshot only after many events; without one its whole journal is read.
    (6..=20).for_each(|turn| drop(lab.ok(["send", &id, &format!("prompt {turn}")])));
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let numbers = |json: &str| -> Vec<u64> {
        let turns: Vec<serde_json::Value> = serde_json::from_str(json).expect("an array");
        turns.iter().map(|turn| turn["number"].as_u64().expect("a number")).collect()
    };
    assert_eq!(numbers(&lab.ok(["turns", &id, "--json"])), (1..=20).collect::<Vec<_>>());
    let table = lab.ok(["turns", &id]);
    assert_eq!((table.lines().count(), table.matches("PROMPT").count()), (21, 1), "{table}");

    lab.ok(["stop", &id]);
    damage_prompt(&lab, &id, "prompt 6");
    let json = lab.berth(["turns", &id, "--json"]);
    let printed = numbers(&json.out);
    assert_eq!((json.code, printed.first()), (1, Some(&1)), "{json:?}");
    assert!(printed.len() < 6 && json.err.contains("error: "), "{printed:?} {}", json.err);
    let table = lab.berth(["turns", &id]);
    assert_eq!((table.code, table.out.lines().count()), (1, 1 + printed.len()), "{table:?}");
}
