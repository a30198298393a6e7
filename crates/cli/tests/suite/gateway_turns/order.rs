//! C3, C6, C8, C15: many senders, one after the other; the queue and its limit.

use std::collections::BTreeSet;

use berth_harness::SeededRng;
use serde_json::{Value, json};

use crate::gateway_turns::{
    at, busy, did, gate, lab, mark, open, prompts, seen, seen_states, send, send_keyed, start, text, told,
    wait_accepted, wait_idle, wait_mark,
};

#[test]
fn c3_fifty_posts_with_and_without_keys_run_in_the_order_they_were_accepted() {
    let mut seed = SeededRng::announce("c3 http");
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    told(&gateway, &id, "warm");
    // Every fifth request repeats the one before it, with the same key.
    let asked: Vec<(String, Option<String>)> = (0..50_u64)
        .map(|at| {
            let of = if at % 5 == 4 { at - 1 } else { at };
            (format!("sleep:{} number {of}", of % 3), (of % 5 == 3).then(|| format!("key-{of}")))
        })
        .collect();
    let (gateway, id) = (&gateway, id.as_str());
    let receipts: Vec<Value> = std::thread::scope(|scope| {
        let posts: Vec<_> = asked
            .iter()
            .map(|(prompt, key)| {
                let body = json!({"text": prompt});
                let post = scope.spawn(move || match key {
                    Some(key) => send_keyed(gateway, id, key, &body),
                    None => send(gateway, id, &body),
                });
                seed.dawdle(2_000);
                post
            })
            .collect();
        let replies = posts.into_iter().map(|post| post.join().expect("a reply"));
        replies
            .map(|reply| {
                assert_eq!(reply.status, 202, "{}", reply.text());
                reply.json()
            })
            .collect()
    });
    for ((prompt, key), receipt) in asked.iter().zip(&receipts) {
        let turn = seen(gateway, id, receipt["number"].as_u64().expect("a number"));
        assert_eq!((text(&turn, "prompt"), turn["key"].as_str()), (prompt.clone(), key.as_deref()));
    }
    let numbers: BTreeSet<u64> = receipts.iter().filter_map(|receipt| receipt["number"].as_u64()).collect();
    assert_eq!(numbers, (2..=41).collect(), "one turn for each key");
    let repeated = receipts.iter().filter(|receipt| receipt["repeated"] == true).count();
    assert_eq!(repeated, 10, "of two with one key one is new");
    wait_idle(gateway, id);
    let all = gateway.get(&at(id, "turns")).ok();
    let accepted: Vec<String> =
        all["turns"].as_array().expect("an array").iter().map(|turn| text(turn, "prompt")).collect();
    let ran = did(&lab, id);
    assert_eq!(prompts(&ran), accepted);
    assert!(ran.iter().all(|did| did.is_done()), "{ran:?}");
    assert_eq!(lab.number(id, "epoch"), 1);
}

/// C8: however long a turn takes, no other turn overtakes it. C6: the end of the first is not the end of the second.
#[test]
fn c8_a_second_post_waits_for_a_turn_that_takes_long_and_c6_is_in_progress_when_the_first_has_ended() {
    let lab = lab();
    let gateway = lab.serve();
    let ((go, wait), (second_go, second_wait)) = (gate(&lab, "go"), gate(&lab, "second"));
    let (begun, touch) = mark(&lab, "begun");
    let (second_begun, second_touch) = mark(&lab, "second-begun");
    let id = start(&lab, &[]);
    let tab = |prompt: String| {
        gateway.begin("POST", &at(&id, "turns"), &[], Some(&json!({"text": prompt, "wait": true})))
    };
    let a = tab(format!("{touch} {wait} first"));
    wait_mark(&begun);
    let b = tab(format!("{second_touch} {second_wait} second"));
    wait_accepted(&gateway, &id, 2);
    for number in [1, 2] {
        assert_eq!(seen(&gateway, &id, number)["in_progress"], true);
        let result = gateway.get(&at(&id, &format!("turns/{number}/result")));
        assert_eq!((result.status, &result.json()["in_progress"]), (202, &true.into()));
    }
    assert!(!second_begun.exists(), "one at a time");
    open(&go);
    let first = a.reply().ok();
    assert_eq!((text(&first, "answer"), &first["in_progress"]), ("ECHO: first".into(), &false.into()));
    assert_eq!(seen(&gateway, &id, 2)["in_progress"], true, "the first is not the second");
    wait_mark(&second_begun);
    assert_eq!(seen(&gateway, &id, 1)["in_progress"], false);
    assert_eq!(seen(&gateway, &id, 2)["in_progress"], true);
    open(&second_go);
    assert_eq!(text(&b.reply().ok(), "answer"), "ECHO: second");
    assert_eq!(gateway.get(&at(&id, "turns/2/result")).status, 200);
    assert_eq!(seen_states(&gateway, &id), ["done", "done"]);
    assert_eq!(did(&lab, &id).len(), 2);
}

#[test]
fn c15_a_full_queue_answers_429_with_a_time_and_stores_nothing() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    let (gateway, id) = (&gateway, id.as_str());
    std::thread::scope(|scope| {
        let posts: Vec<_> = (0..100)
            .map(|at| scope.spawn(move || send(gateway, id, &json!({"text": format!("number {at}")})).status))
            .collect();
        posts.into_iter().for_each(|post| assert_eq!(post.join().expect("a reply"), 202));
    });
    let before = lab.log(id).len();
    for body in [json!({"text": "one too many"}), json!({"text": "one too many", "wait": true})] {
        let full = send_keyed(gateway, id, "late", &body);
        let problem = full.problem(429, "full");
        let seconds: u64 = full.header("retry-after").expect("a time").parse().expect("seconds");
        assert!((1..=60).contains(&seconds) && problem["detail"].is_string(), "{problem}");
    }
    assert_eq!(lab.log(id).len(), before, "nothing is stored");
    assert_eq!(gateway.get(&at(id, "turns")).ok()["total"], 101);
    gateway.ask("DELETE", &at(id, "queue/101"), &[], None).ok();
    let receipt = send_keyed(gateway, id, "late", &json!({"text": "one too many"})).ok();
    assert_eq!((&receipt["number"], &receipt["repeated"]), (&102.into(), &false.into()));
    open(&go);
    wait_idle(gateway, id);
    let ran = did(&lab, id);
    assert_eq!((ran.len(), ran.last().expect("one").prompt.as_str()), (101, "one too many"));
}

#[test]
fn long_lists_come_in_pages_that_can_be_continued() {
    const MANY: usize = 7;
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    // As long as a prompt may be; the agent says it all again.
    let long = "x".repeat(1 << 20);
    for _ in 0..MANY {
        told(&gateway, &id, &long);
    }
    for what in ["turns", "transcript"] {
        let (mut after, mut numbers) = (0, Vec::new());
        while numbers.len() < MANY {
            let part = gateway.get(&at(&id, &format!("{what}?after={after}&limit=100")));
            assert!(part.body.len() < 9 << 20, "{what} behind {after}: {} bytes", part.body.len());
            let part = part.ok();
            let turns = part["turns"].as_array().expect("turns");
            numbers.extend(turns.iter().filter_map(|turn| turn["number"].as_u64()));
            after = *numbers.last().expect("at least one each time");
        }
        assert_eq!(numbers, (1..=MANY as u64).collect::<Vec<_>>(), "{what}");
    }
    let output = gateway.get(&at(&id, "output?limit=8388608"));
    let end: usize = output.header("x-output-end").expect("an end").parse().expect("a number");
    assert!(output.body.len() == 1 << 20 && end > MANY << 20, "{} of {end}", output.body.len());
}
