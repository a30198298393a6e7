//! C11, --interrupt, --steer, --max-wait: turns that are cancelled, withdrawn, or added to.

use berth_harness::wait_until;

use crate::turns::{
    did, finish, gate, lab, mark, open, prompts, spawn, start, state, states, text, turn, turns, wait_mark,
    wait_working,
};

#[test]
fn c11_a_turn_is_withdrawn_before_it_runs_broken_off_while_it_does_and_left_alone_when_it_has() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} say:half\n{wait} x")]);
    wait_mark(&begun);
    for prompt in ["withdrawn", "third", "fourth"] {
        lab.ok(["send", &id, prompt]);
    }
    // Before: nothing runs.
    let before = lab.berth(["cancel", &format!("{id}.2")]);
    assert_eq!((before.code, state(&lab, &id, 2)), (0, "cancelled".into()), "{before:?}");
    assert_eq!(lab.berth(["result", &format!("{id}.2")]).code, 8);
    // Only that turn is cancelled.
    wait_working(&lab, &id, 1);
    // During: the turn stops, and only that one does.
    let during = lab.berth(["cancel", &format!("{id}.1"), "--json"]);
    assert_eq!(during.code, 0, "{during:?}");
    let view = turn(&lab, &id, 1);
    assert_eq!((text(&view, "state"), text(&view, "answer")), ("cancelled".into(), "half".into()));
    assert!(!view["cancelled_by"].is_null(), "{view}");
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["cancelled", "cancelled", "done", "done"]);
    // After: the answer says that the turn is over, and nothing changes.
    for number in [1, 2, 3] {
        let after = lab.berth(["cancel", &format!("{id}.{number}")]);
        assert_eq!(after.code, 1, "{after:?}");
        assert!(after.err.contains(["cancelled", "cancelled", "done"][number - 1]), "{after:?}");
    }
    assert_eq!(lab.berth(["cancel", &format!("{id}.9")]).code, 3);
    assert_eq!(states(&lab, &id), ["cancelled", "cancelled", "done", "done"]);
    let ran = did(&lab, &id);
    assert_eq!(prompts(&ran)[1..], ["third", "fourth"]);
    assert_eq!(ran[0].over.as_ref().map(|(kind, _)| kind.as_str()), Some("cut"));
    assert_eq!(lab.number(&id, "epoch"), 1, "the agent lived on");
}

/// An agent that does not hear is ended with its run after 10 s, and the waiting turn runs in the next.
#[test]
fn c11_an_agent_that_does_not_break_off_is_ended_and_the_queue_goes_on() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = &start(&lab, &["--prompt", &format!("deaf {touch} {wait} x")]);
    wait_mark(&begun);
    let next = spawn(&lab, ["send", "--wait", id, "next"]);
    wait_until("it to be accepted", || states(&lab, id).len() == 2);
    let deaf = lab.process(id, "pid");
    lab.ok(["cancel", &format!("{id}.1")]);
    assert_eq!(state(&lab, id, 1), "cancelled");
    assert!(matches!(deaf.check(), berth_host::identity::ProcessLiveness::Gone));
    assert_eq!(finish(next).out, "ECHO: next\n");
    // A late answer of the old agent, if there is one, changes nothing.
    open(&go);
    assert_eq!((state(&lab, id, 1).as_str(), lab.number(id, "epoch")), ("cancelled", 2));
    assert_eq!(did(&lab, id).iter().filter(|did| did.is_done()).count(), 1);
}

#[test]
fn a_turn_that_interrupts_breaks_the_running_one_off_and_is_next() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    lab.ok(["send", &id, "waits"]);
    assert_eq!(lab.ok(["send", "--wait", "--interrupt", &id, "urgent"]), "ECHO: urgent");
    assert_eq!(lab.berth(["wait", &format!("{id}.2"), "--timeout", "60s"]).code, 0);
    assert_eq!(states(&lab, &id), ["interrupted", "done", "done"]);
    assert_eq!(lab.berth(["result", &format!("{id}.1")]).code, 9);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["urgent", "waits"]);
    // With nothing to interrupt it is a turn like any other.
    assert_eq!(lab.ok(["send", "--wait", "--interrupt", &id, "again"]), "ECHO: again");
}

#[test]
fn an_agent_that_cannot_be_steered_refuses_it_and_nothing_is_stored() {
    let lab = lab();
    lab.add_agent("rigid", &["--no-steer"]);
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = lab.ok(["run", "-d", "--agent", "rigid", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let before = lab.log(&id).len();
    let refused = lab.berth(["send", "--steer", &id, "left a bit"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    assert!(refused.err.contains("hint:"), "{refused:?}");
    assert_eq!((lab.log(&id).len(), turns(&lab, &id).len()), (before, 1));
    open(&go);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(did(&lab, &id).len(), 1);
}

#[test]
fn a_steered_turn_goes_into_the_one_that_runs_and_ends_with_it() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    lab.ok(["send", &id, "waits"]);
    let steered = spawn(&lab, ["send", "--steer", "--wait", &id, "left a bit"]);
    wait_until("it to be taken", || turns(&lab, &id).len() == 3 && state(&lab, &id, 3) == "working");
    open(&go);
    assert_eq!(finish(steered).code, 0);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["done", "done", "done"]);
    assert_eq!(text(&turn(&lab, &id, 1), "answer"), "STEERED: left a bit\nECHO: x");
    assert_eq!(did(&lab, &id).len(), 2, "it is no prompt of its own");
    // With nothing running it is a turn like any other.
    assert_eq!(lab.ok(["send", "--steer", "--wait", &id, "alone"]), "ECHO: alone");
}

#[test]
fn a_turn_that_did_not_begin_in_time_is_withdrawn_refused_and_never_run() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    for options in [&["--max-wait", "50ms"][..], &["--max-wait", "50ms", "--wait"]] {
        let args = [&["send"], options, &[&id, "too late"]].concat();
        let late = lab.berth(args);
        assert_eq!((late.code, late.out.as_str()), (6, ""), "{late:?}");
        assert!(late.err.contains("did not begin") && late.err.contains("hint:"), "{late:?}");
    }
    assert_eq!(states(&lab, &id), ["delivered", "cancelled", "cancelled"]);
    // A turn whose time is not up runs, and its sender is told that it began.
    let patient = spawn(&lab, ["send", "--max-wait", "60s", "--json", &id, "in time"]);
    wait_until("it to be accepted", || turns(&lab, &id).len() == 4);
    open(&go);
    let patient = finish(patient);
    assert_eq!(patient.code, 0, "{patient:?}");
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["in time"], "the refused turn never ran");
    // With nothing before it, it begins at once.
    assert_eq!(lab.ok(["send", "--max-wait", "60s", "--wait", &id, "now"]), "ECHO: now");
}

/// The turn's time runs out while the session has no keeper: the agent does not get it afterwards.
#[test]
fn a_turn_whose_time_ran_out_without_a_keeper_does_not_run_when_there_is_one() {
    let lab = lab();
    let id = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    lab.ok(["queue", &id, "pause"]);
    let late = spawn(&lab, ["send", "--max-wait", "300ms", &id, "too late"]);
    wait_until("it to be accepted", || turns(&lab, &id).len() == 2);
    lab.ok(["stop", "--grace", "0s", &id]);
    let late = finish(late);
    assert_ne!(late.code, 0, "{late:?}");
    // The turn's time is up by the boot clock; there is no event for that.
    let accepted = std::time::Instant::now();
    wait_until("its time to be up", || accepted.elapsed() > std::time::Duration::from_millis(300));
    lab.ok(["queue", &id, "resume"]);
    lab.ok(["send", "--wait", &id, "next"]);
    assert_eq!(states(&lab, &id), ["done", "cancelled", "done"]);
    assert_eq!(prompts(&did(&lab, &id)), ["hello", "next"]);
}
