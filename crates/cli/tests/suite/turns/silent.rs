//! A keeper that is suspended: the files answer as far as they can, and the answer says so.
//!
//! The keeper stays suspended until all assertions are through, so that no answer can be its own.

use std::time::{Duration, Instant};

use berth_harness::{CommandOutput, signal};
use rustix::process::Signal;
use serde_json::Value;

use super::*;

/// How long a read may take on a machine with a lot to do. A read that waits for the keeper takes 13 seconds.
const LONGEST_READ: Duration = Duration::from_secs(8);
/// The note that a user reads on standard error.
const NOTE: &str = "does not answer: this is read from its files";

#[test]
fn reads_are_answered_from_disk_while_the_keeper_is_suspended() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--name", "s", "--prompt", "first"]);
    lab.ok(["wait", "s", "--timeout", "60s"]);
    lab.ok(["send", "s", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    lab.ok(["send", "s", "third"]);
    let keeper = lab.process("s", "keeper_pid");
    assert_eq!(lab.show("s").get("keeper_silent"), None);

    signal(&keeper, Signal::STOP);
    let read = |args: &[&str]| -> CommandOutput {
        let asked_at = Instant::now();
        let said = lab.berth(args);
        assert!(asked_at.elapsed() < LONGEST_READ, "{args:?} took {:?}", asked_at.elapsed());
        assert!(said.err.contains(NOTE), "{args:?}: {said:?}");
        said
    };
    let json = |args: &[&str]| -> Value {
        let said = read(args);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{args:?}: {error}: {said:?}"))
    };
    let status = json(&["show", "--json", "s"]);
    assert_eq!((&status["keeper_silent"], &status["turns"]["total"]), (&true.into(), &3.into()), "{status}");
    let turns = json(&["turns", "--json", "s"]);
    assert!(
        turns.as_array().is_some_and(|turns| turns.iter().all(|turn| turn["keeper_silent"] == true)),
        "{turns}"
    );
    let queue = json(&["queue", "--json", "s"]);
    assert_eq!(
        (&queue["keeper_silent"], &queue["queued"][0]["prompt"]),
        (&true.into(), &"third".into()),
        "{queue}"
    );
    assert_eq!(json(&["turn", "--json", "s.1"])["keeper_silent"], true);
    assert_eq!(read(&["result", "s.1"]).out, "ECHO: first\n");
    for text in [&["show", "s"][..], &["turns", "s"], &["turn", "s.1"], &["queue", "s"]] {
        assert_eq!(read(text).code, 0, "{text:?}");
    }

    signal(&keeper, Signal::CONT);
    open(&go);
    lab.ok(["wait", &format!("{id}.3"), "--timeout", "60s"]);
    assert_eq!(states(&lab, "s"), ["done", "done", "done"]);
}

#[test]
fn a_long_list_of_turns_waits_only_once_for_a_suspended_keeper() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    (0..10).for_each(|_| send_long(&lab, &id, 500_000));
    lab.ok(["wait", "s", "--timeout", "60s"]);
    let took = |args: &[&str]| {
        let asked_at = Instant::now();
        assert_eq!(lab.berth(args).code, 0);
        asked_at.elapsed()
    };
    let from_keeper = took(&["turns", "s"]);
    let keeper = lab.process("s", "keeper_pid");
    signal(&keeper, Signal::STOP);
    let (show, turns) = (took(&["show", "s"]), took(&["turns", "s"]));
    signal(&keeper, Signal::CONT);
    // The list has five pages.
    assert!(turns < show * 2 + from_keeper * 2, "{turns:?}, and {show:?} to show the session");
}

#[test]
fn a_wait_keeps_its_timeout_while_the_keeper_is_suspended() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--name", "s", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let keeper = lab.process("s", "keeper_pid");
    signal(&keeper, Signal::STOP);
    let turn = format!("{id}.1");
    for args in [
        &["s"][..],
        &[&turn],
        &["s", "--for", "done"],
        &["s", "--for", "exit"],
        &["s", "--for", "output:never"],
    ] {
        let asked_at = Instant::now();
        let said = lab.berth([&["wait", "--timeout", "2s"], args].concat());
        assert_eq!(said.code, 6, "{args:?}: {said:?}");
        assert!(asked_at.elapsed() < LONGEST_READ, "{args:?} took {:?}", asked_at.elapsed());
    }
    signal(&keeper, Signal::CONT);
    open(&go);
    lab.ok(["wait", "s", "--timeout", "60s"]);
}
