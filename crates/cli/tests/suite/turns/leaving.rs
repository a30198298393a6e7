//! C5, F1, B3, G4: clients that go away, terminals that close, keepers that stand still.

use berth_harness::{signal, wait_gone, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;

use crate::turns::{
    did, finish, gate, lab, mark, open, spawn, start, state, states, text, wait_mark, wait_working,
};

#[test]
fn c5_a_turn_goes_on_when_the_waiting_client_is_killed_and_can_be_asked_for_again() {
    for how in [Signal::KILL, Signal::TERM, Signal::HUP, Signal::INT] {
        let lab = lab();
        let (go, wait) = gate(&lab, "go");
        let (begun, touch) = mark(&lab, "begun");
        let id = start(&lab, &[]);
        let prompt = format!("say:half \n{touch} {wait} whole");
        let client = spawn(&lab, ["send", "--wait", "--key", "k", &id, &prompt]);
        wait_mark(&begun);
        signal(&ProcessIdentity::of(client.id()).expect("it runs"), how);
        assert_ne!(finish(client).code, 0, "{how:?}");
        wait_working(&lab, &id, 1);
        assert_eq!(lab.berth(["result", &format!("{id}.1")]).code, 4, "{how:?}: not an error, not yet");
        // The client asks again, and it is the same turn: the text so far, then the rest.
        let again = spawn(&lab, ["send", "--wait", "--key", "k", &id, &prompt]);
        open(&go);
        let again = finish(again);
        assert_eq!((again.code, again.out.as_str()), (0, "half ECHO: whole\n"), "{how:?}: {again:?}");
        assert_eq!(did(&lab, &id).len(), 1, "{how:?}");
    }
}

#[test]
fn f1_a_turn_goes_on_when_the_terminal_it_was_sent_from_is_closed_or_its_client_killed() {
    for how in [None, Some(Signal::HUP), Some(Signal::TERM), Some(Signal::KILL)] {
        let lab = lab();
        let (go, wait) = gate(&lab, "go");
        let (begun, touch) = mark(&lab, "begun");
        let id = start(&lab, &["--name", "long"]);
        let prompt = format!("say:half\\n\n{touch} {wait} whole");
        let mut terminal = lab.terminal(["send", "--wait", "long", &prompt]);
        wait_mark(&begun);
        let client = terminal.identity();
        match how {
            Some(how) => signal(&client, how),
            None => terminal.close(),
        }
        wait_gone(&client);
        wait_working(&lab, &id, 1);
        open(&go);
        assert_eq!(lab.berth(["wait", "long.1", "--timeout", "60s"]).code, 0, "{how:?}");
        assert_eq!(lab.berth(["result", "long.1"]).out, "half\nECHO: whole\n", "{how:?}");
    }
}

/// F1: when the whole session was cut off, `resume --last` offers it.
#[test]
fn f1_a_session_that_was_cut_off_in_a_turn_is_what_resume_offers_first() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let stopped = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &stopped, "--timeout", "60s"]);
    let id = start(&lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    lab.ok(["stop", "--grace", "0s", &stopped]);
    lab.kill_keeper(&id);
    assert_eq!(lab.ok(["resume", "--last", "-d"]), id);
    // The turn that it was doing is not done again by itself.
    assert_eq!(states(&lab, &id), ["unknown"]);
    assert_eq!(did(&lab, &id).len(), 1);
}

/// B3, G4: a keeper that stands still is not taken over. Its lease is a lock, so no process can take it; nothing is
/// called unknown, and nothing is killed.
#[test]
fn b3_a_keeper_that_stands_still_keeps_its_session_and_its_conversation() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--name", "s", "--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let native = text(&lab.show("s"), "conversation_id");
    let (keeper, agent) = (lab.process("s", "keeper_pid"), lab.process("s", "pid"));
    signal(&keeper, Signal::STOP);
    for _ in 0..2 {
        let other = lab.berth(["run", "-d", "--agent", "fake", "--resume", &native]);
        assert_eq!(other.code, 4, "{other:?}");
        assert!(other.err.contains(&id), "{other:?}");
    }
    lab.ok(["sweep"]);
    lab.ok(["ls"]);
    assert!(["delivered", "working"].contains(&state(&lab, "s", 1).as_str()));
    assert!(
        matches!(agent.check(), ProcessLiveness::Alive(_))
            && matches!(keeper.check(), ProcessLiveness::Alive(_))
    );
    // A client that sends meanwhile waits for the keeper, and its turn is accepted once, when the keeper goes on.
    let sent = spawn(&lab, ["send", "--wait", "s", "next"]);
    open(&go);
    wait_until("the agent to be done", || did_end(&lab, &native));
    signal(&keeper, Signal::CONT);
    let sent = finish(sent);
    assert_eq!((sent.code, sent.out.as_str()), (0, "ECHO: next\n"), "{sent:?}");
    assert_eq!(states(&lab, "s"), ["done", "done"]);
    assert_eq!(did(&lab, "s").len(), 2);
}

fn did_end(lab: &berth_harness::TestEnvironment, native: &str) -> bool {
    crate::turns::transcript(&lab.store().join(format!("{native}.jsonl")))
        .iter()
        .any(crate::turns::PromptRecord::is_done)
}

/// A client that stands still in the middle of an answer holds up no turn.
#[test]
fn c5_a_client_that_stands_still_does_not_hold_the_turn_up() {
    let lab = lab();
    let (begun, touch) = mark(&lab, "begun");
    let (go, wait) = gate(&lab, "go");
    let id = start(&lab, &[]);
    let client = spawn(&lab, ["send", "--wait", &id, &format!("{touch} {wait} flood:8M say:end")]);
    wait_mark(&begun);
    let process = ProcessIdentity::of(client.id()).expect("it runs");
    signal(&process, Signal::STOP);
    open(&go);
    assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 0);
    assert_eq!(lab.ok(["send", "--wait", &id, "next"]), "ECHO: next");
    signal(&process, Signal::CONT);
    let said = finish(client);
    assert_eq!(said.code, 0, "{}", said.err);
}
