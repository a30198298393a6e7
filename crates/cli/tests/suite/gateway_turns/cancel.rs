//! C11, `max_wait_ms`, manners: turns that are cancelled, withdrawn, or meet a running one.

use berth_harness::wait_until;
use serde_json::{Value, json};

use crate::gateway_turns::{
    at, busy, did, gate, lab, mark, open, prompts, seen, seen_states, send, start, text, told, wait_accepted,
    wait_idle, wait_mark,
};

#[test]
fn c11_a_turn_is_withdrawn_before_it_runs_broken_off_while_it_does_and_left_alone_when_it_has() {
    let lab = lab();
    let gateway = lab.serve();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let body = json!({"text": format!("{touch} say:half\n{wait} x"), "wait": true});
    let waiting = gateway.begin("POST", &at(&id, "turns"), &[], Some(&body));
    wait_mark(&begun);
    for prompt in ["withdrawn", "third", "fourth"] {
        send(&gateway, &id, &json!({"text": prompt})).ok();
    }
    let cancel = |number: u64| gateway.post(&at(&id, &format!("turns/{number}/cancel")), &json!({}));
    // Before: nothing runs, and only the cancelled turn's place is free.
    let before = cancel(2).ok();
    assert_eq!((text(&before, "state"), &before["delivered_at"]), ("cancelled".into(), &Value::Null));
    wait_until("the first to be worked on", || text(&seen(&gateway, &id, 1), "state") == "working");
    assert_eq!(seen(&gateway, &id, 3)["position"], 0);
    // During: the turn stops, and only that one does. The waiting client hears that.
    let during = cancel(1).ok();
    assert_eq!((text(&during, "state"), text(&during, "answer")), ("cancelled".into(), "half".into()));
    assert_eq!(text(&waiting.reply().ok(), "state"), "cancelled");
    wait_idle(&gateway, &id);
    assert_eq!(seen_states(&gateway, &id), ["cancelled", "cancelled", "done", "done"]);
    // After: the answer says that the turn is over, and nothing changes.
    for (number, state) in [(1, "cancelled"), (2, "cancelled"), (3, "done")] {
        let after = cancel(number).problem(409, "refused");
        assert!(text(&after, "title").contains(state), "{after}");
    }
    cancel(9).problem(404, "not-found");
    assert_eq!(seen_states(&gateway, &id), ["cancelled", "cancelled", "done", "done"]);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["third", "fourth"]);
    assert_eq!(lab.number(&id, "epoch"), 1, "the agent lived on");
}

#[test]
fn c11_a_late_success_does_not_overwrite_cancelled_and_the_queue_goes_on() {
    let lab = lab();
    let gateway = lab.serve();
    let late = lab.dir().join("late");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("late:{} {touch} silent", late.display())]);
    wait_mark(&begun);
    let next = gateway.begin("POST", &at(&id, "turns"), &[], Some(&json!({"text": "next", "wait": true})));
    wait_accepted(&gateway, &id, 2);
    let cancelled = gateway.post(&at(&id, "turns/1/cancel"), &json!({})).ok();
    assert_eq!(text(&cancelled, "state"), "cancelled");
    // The cancellation is on record. Only now does the agent say that it has done the turn all the same.
    assert_eq!(text(&seen(&gateway, &id, 1), "state"), "cancelled");
    open(&late);
    wait_mark(&late.with_extension("said"));
    assert_eq!(text(&next.reply().ok(), "answer"), "ECHO: next");
    assert_eq!(seen_states(&gateway, &id), ["cancelled", "done"]);
    let of_first = |event: &Value| event["turn"] == 1;
    let ends: Vec<Value> = lab.events(&id, "turn_ended").into_iter().filter(of_first).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(lab.number(&id, "epoch"), 1, "the agent lived on to say it");
}

#[test]
fn c11_an_agent_that_does_not_hear_is_ended_with_its_run_and_the_queue_goes_on() {
    let lab = lab();
    let gateway = lab.serve();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("deaf {touch} {wait} x")]);
    wait_mark(&begun);
    let next = gateway.begin("POST", &at(&id, "turns"), &[], Some(&json!({"text": "next", "wait": true})));
    wait_accepted(&gateway, &id, 2);
    let cancelled = gateway.post(&at(&id, "turns/1/cancel"), &json!({})).ok();
    assert_eq!(text(&cancelled, "state"), "cancelled");
    assert_eq!(text(&next.reply().ok(), "answer"), "ECHO: next");
    assert_eq!((text(&seen(&gateway, &id, 1), "state"), lab.number(&id, "epoch")), ("cancelled".into(), 2));
}

#[test]
fn a_turn_that_does_not_begin_in_time_is_withdrawn_with_429_and_never_run() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    for wait in [false, true] {
        let late = send(&gateway, &id, &json!({"text": "too late", "max_wait_ms": 50, "wait": wait}));
        let problem = late.problem(429, "timed-out");
        assert!(text(&problem, "title").contains("withdrawn"), "{problem}");
        assert!(late.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
    }
    assert_eq!(seen_states(&gateway, &id), ["delivered", "cancelled", "cancelled"]);
    // A turn whose time is not up is answered when the agent has it.
    let body = json!({"text": "in time", "max_wait_ms": 60_000});
    let patient = gateway.begin("POST", &at(&id, "turns"), &[], Some(&body));
    wait_accepted(&gateway, &id, 4);
    open(&go);
    let patient = patient.reply();
    assert_eq!(patient.status, 202, "{}", patient.text());
    assert_ne!(text(&patient.json(), "state"), "queued");
    wait_idle(&gateway, &id);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["in time"], "the refused turn never ran");
}

#[test]
fn a_turn_may_interrupt_the_running_one_or_be_added_to_it() {
    let lab = lab();
    lab.add_agent("rigid", &["--no-steer"]);
    let gateway = lab.serve();
    let (id, _) = busy(&lab);
    let urgent = send(&gateway, &id, &json!({"text": "urgent", "manner": "interrupt", "wait": true})).ok();
    assert_eq!(text(&urgent, "answer"), "ECHO: urgent");
    assert_eq!(seen_states(&gateway, &id), ["interrupted", "done"]);
    let alone = send(&gateway, &id, &json!({"text": "alone", "manner": "steer", "wait": true})).ok();
    assert_eq!(text(&alone, "answer"), "ECHO: alone");
    // An agent that cannot be steered: refused, and nothing is stored.
    let (_, wait) = gate(&lab, "never");
    let (rigid_begun, touch) = mark(&lab, "rigid-begun");
    let rigid = lab.ok(["run", "-d", "--agent", "rigid", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&rigid_begun);
    send(&gateway, &rigid, &json!({"text": "left a bit", "manner": "steer"})).problem(409, "refused");
    assert_eq!(seen_states(&gateway, &rigid).len(), 1);
    assert_eq!(text(&told(&gateway, &id, "after"), "answer"), "ECHO: after");
}
