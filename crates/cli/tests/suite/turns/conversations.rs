//! Conversations: gone, copied, changed on the way, left by a dead keeper. B4, B6, B13, B14, C14, G8.

use std::path::PathBuf;

use berth_harness::{SeededRng, TestEnvironment, signal, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;

use crate::turns::{
    did, finish, gate, lab, mark, open, prompts, rounds, spawn, start, state, states, text, transcript,
    transcripts, wait_mark,
};

fn native(lab: &TestEnvironment, id: &str) -> String {
    text(&lab.show(id), "conversation_id")
}

fn file(lab: &TestEnvironment, native: &str) -> PathBuf {
    lab.store().join(format!("{native}.jsonl"))
}

/// C14: the agent would answer, and it would go unnoticed that it has forgotten everything.
#[test]
fn c14_a_conversation_that_is_gone_is_an_error_with_a_choice_and_not_a_fresh_start() {
    let lab = lab();
    let id = start(&lab, &["--name", "s", "--prompt", "remember this"]);
    lab.ok(["wait", "s", "--timeout", "60s"]);
    lab.ok(["stop", "--grace", "0s", "s"]);
    let old = native(&lab, "s");
    std::fs::remove_file(file(&lab, &old)).expect("the transcript");
    for _ in 0..2 {
        let gone = lab.berth(["resume", "-d", "s"]);
        assert_ne!(gone.code, 0, "{gone:?}");
        assert!(gone.err.contains(&old) && gone.err.contains("berth resume s --fresh"), "{gone:?}");
    }
    let sent = lab.berth(["send", "--wait", "s", "what was it?"]);
    assert_ne!(sent.code, 0, "{sent:?}");
    assert_eq!(sent.out, "");
    assert!(sent.err.contains("berth resume s --fresh"), "{sent:?}");
    assert!(transcripts(&lab).is_empty(), "there was no answer");
    wait_until("nothing of it to be left", || lab.processes().is_empty());
    // The choice: a new conversation in the same session; and the dead id is not tried again.
    lab.ok(["resume", "-d", "--fresh", "s"]);
    assert_ne!(native(&lab, "s"), old);
    // There was no turn in the new conversation. Agents write no transcript then, and nothing is forgotten with it.
    lab.ok(["stop", "--grace", "0s", "s"]);
    let _ = std::fs::remove_file(file(&lab, &native(&lab, "s")));
    assert_eq!(lab.ok(["send", "--wait", "s", "new"]), "ECHO: new");
    lab.ok(["stop", "--grace", "0s", "s"]);
    assert_eq!(lab.ok(["send", "--wait", "s", "and on"]), "ECHO: and on");
    assert_eq!(prompts(&did(&lab, &id)).last(), Some(&"and on"));
    assert!(!file(&lab, &old).exists());
}

#[test]
fn c14_resuming_a_conversation_that_never_was_is_an_error_and_leaves_no_session_that_runs() {
    let lab = lab();
    let never = "00000000-0000-4000-8000-000000000000";
    let gone = lab.berth(["run", "-d", "--name", "s", "--agent", "fake", "--resume", never]);
    assert!(gone.code != 0 && gone.err.contains(never), "{gone:?}");
    assert_eq!(gone.out, "");
    wait_until("nothing of it to be left", || lab.processes().is_empty());
    // The failed session does not hold the id.
    let again = lab.berth(["run", "-d", "--agent", "fake", "--resume", never, "--prompt", "hello"]);
    assert!(again.code != 0 && again.code != 4, "{again:?}");
    assert!(transcripts(&lab).is_empty());
}

/// C14: an agent that never got a turn has no transcript, and nothing is missing.
#[test]
fn c14_a_session_that_was_never_sent_anything_can_be_resumed() {
    let lab = lab();
    let id = start(&lab, &[]);
    for _ in 0..2 {
        lab.ok(["stop", "--grace", "0s", &id]);
        lab.ok(["resume", "-d", &id]);
    }
    assert_eq!(lab.ok(["send", "--wait", &id, "hello"]), "ECHO: hello");
    assert_eq!(transcripts(&lab).len(), 1);
}

/// C10, C14: the keeper died when the first turn was on its way, and the agent never had it: there is no transcript,
/// and nothing is forgotten.
#[test]
fn c14_a_first_turn_that_never_reached_the_agent_does_not_make_its_conversation_missing() {
    let lab = lab();
    let mut run = lab.command(["run", "-d", "--agent", "fake", "--on-unknown", "continue"]);
    let told = berth_harness::said(run.env("BERTH_KILLPOINT", "delivered").output().expect("berth starts"));
    let id = told.out.trim();
    lab.ok(["send", id, "never said"]);
    wait_until("the keeper to die", || lab.show(id)["keeper_pid"].is_null());
    assert_eq!(state(&lab, id, 1), "unknown");
    let next = lab.berth(["send", "--wait", id, "next"]);
    assert_eq!((next.code, next.out.as_str()), (0, "ECHO: next\n"), "{next:?}");
    // A new image of the keeper hears all of that again, and is not confused by it.
    crate::turns::crash::restart(&lab.session_dir(id));
    assert_eq!(lab.ok(["send", "--wait", id, "and on"]), "ECHO: and on");
    assert_eq!(states(&lab, id), ["unknown", "done", "done"]);
    assert_eq!(prompts(&did(&lab, id)), ["next", "and on"]);
    // Nor is it missing after the next keeper died as well.
    lab.ok(["send", id, "silent"]);
    lab.kill_keeper(id);
    assert_eq!(lab.ok(["send", "--wait", id, "still"]), "ECHO: still");
}

#[test]
fn a_fork_has_everything_that_was_said_and_goes_its_own_way() {
    let lab = lab();
    let id = start(&lab, &["--name", "one", "--prompt", "shared"]);
    lab.ok(["wait", "one", "--timeout", "60s"]);
    // While the other session works as well.
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let two = lab.ok(["fork", "one", "--name", "two"]);
    assert_ne!(two, id);
    assert_ne!(native(&lab, "one"), native(&lab, "two"));
    lab.ok(["send", "one", &format!("{touch} {wait} mine")]);
    wait_mark(&begun);
    assert_eq!(lab.ok(["send", "--wait", "two", "yours"]), "ECHO: yours");
    open(&go);
    lab.ok(["wait", "one", "--timeout", "60s"]);
    assert_eq!(prompts(&did(&lab, "two")), ["shared", "yours"]);
    assert_eq!(did(&lab, "one").len(), 2);
    assert_eq!(states(&lab, "two"), ["done"], "the turns of the other one are its own");
    // The session comes back in its own conversation.
    let copy = native(&lab, "two");
    lab.ok(["stop", "--grace", "0s", "two"]);
    assert_eq!(lab.ok(["send", "--wait", "two", "again"]), "ECHO: again");
    assert_eq!((native(&lab, "two"), did(&lab, "two").len()), (copy, 3));
    // A session that never had a turn has nothing to copy, or a copy of nothing.
    let empty = start(&lab, &[]);
    let forked = lab.berth(["fork", &empty]);
    assert!(forked.code != 0 && forked.err.contains("hint:"), "{forked:?}");
}

/// G8: the right to write moves along, and so does the conversation that the session resumes.
#[test]
fn g8_an_agent_that_goes_on_in_another_conversation_is_followed_there() {
    let lab = lab();
    let id = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let old = native(&lab, &id);
    let said = lab.berth(["send", "--wait", &id, "new-id\nmoved"]);
    assert_eq!((said.code, said.out.as_str()), (0, "ECHO: moved\n"), "{said:?}");
    let new = native(&lab, &id);
    assert_ne!(new, old);
    // The new conversation is ours, the old one is free.
    let refused = lab.berth(["run", "-d", "--agent", "fake", "--resume", &new]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains(&id), "{refused:?}");
    let other = lab.ok(["run", "-d", "--agent", "fake", "--resume", &old]);
    assert_eq!(lab.ok(["send", "--wait", &other, "in the old one"]), "ECHO: in the old one");
    // The session comes back in the new conversation, also after a crash.
    lab.kill_keeper(&id);
    assert_eq!(lab.ok(["send", "--wait", &id, "in the new one"]), "ECHO: in the new one");
    assert_eq!(native(&lab, &id), new);
    assert_eq!(prompts(&transcript(&file(&lab, &new))), ["new-id\nmoved", "in the new one"]);
    assert_eq!(prompts(&transcript(&file(&lab, &old))), ["hello", "new-id\nmoved", "in the old one"]);
}

/// B4: the agent outlives its keeper, and the lock does not: it is another session's turn to prove it gone.
#[test]
fn b4_an_agent_that_outlives_its_keeper_does_not_write_beside_the_next_session() {
    let lab = lab();
    lab.add_agent("stays", &["--at-eof", "stay", "--do", "ignore:TERM,HUP"]);
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = lab.ok(["run", "-d", "--agent", "stays", "--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let native = native(&lab, &id);
    lab.ok(["send", &id, &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let old = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    assert!(matches!(old.check(), ProcessLiveness::Alive(_)), "it is deaf");
    // Another session takes the conversation at once.
    let next = lab.berth(["run", "-d", "--agent", "fake", "--resume", &native]);
    let is_gone = matches!(old.check(), ProcessLiveness::Gone);
    assert!(
        next.code == 0 && is_gone || next.code == 4,
        "two may write it: {next:?}, the old one gone: {is_gone}"
    );
    if next.code == 0 {
        assert_eq!(lab.ok(["send", "--wait", next.out.trim(), "next"]), "ECHO: next");
    }
    open(&go);
    let ran = transcript(&file(&lab, &native));
    assert!(!ran[1].is_done(), "{ran:?}");
}

/// B14: the session that has the conversation is stopped or killed at any instant while others want it: 0 or 1 writer,
/// never 2, and in the end one of them gets it.
#[test]
fn b14_a_conversation_that_changes_hands_at_any_instant_has_one_writer() {
    let mut seed = SeededRng::announce("b14");
    let lab = lab();
    lab.add_agent("stays", &["--at-eof", "stay", "--do", "ignore:TERM,HUP"]);
    let first = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &first, "--timeout", "60s"]);
    let native = native(&lab, &first);
    let mut has = first;
    for round in 0..rounds(20) {
        let kind = if seed.below(2) == 0 { "stays" } else { "fake" };
        lab.ok(["send", &has, &format!("sleep:{} {round}", seed.below(30))]);
        let keeper = lab.show(&has)["keeper_pid"]
            .as_u64()
            .and_then(|pid| ProcessIdentity::of(u32::try_from(pid).ok()?).ok());
        seed.dawdle(20_000);
        let stopping = if seed.below(2) == 0 {
            keeper.iter().for_each(|keeper| signal(keeper, Signal::KILL));
            None
        } else {
            Some(spawn(&lab, ["stop", "--grace", "0s", &has]))
        };
        let wants = ["run", "-d", "--agent", kind, "--resume", &native];
        let mut next = String::new();
        wait_until("a session to get it", || {
            let said = lab.berth(wants);
            assert!([0, 4].contains(&said.code), "round {round}: {said:?}");
            next = said.out.trim().to_owned();
            said.code == 0
        });
        stopping.into_iter().for_each(|child| assert_eq!(finish(child).code, 0));
        has = next;
        let prompt = format!("mine {round}");
        assert_eq!(lab.ok(["send", "--wait", &has, &prompt]), format!("ECHO: {prompt}"));
        transcript(&file(&lab, &native));
    }
}

/// B13: the real problem is reported, and is not called "in use".
#[test]
fn b13_a_lock_that_cannot_be_made_is_told_as_that() {
    let lab = lab();
    let id = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let native = native(&lab, &id);
    lab.ok(["stop", "--grace", "0s", &id]);
    let conversations = lab.home().join("conversations");
    std::fs::rename(&conversations, lab.dir().join("aside")).expect("the locks");
    std::fs::write(&conversations, "in the way").expect("a file");
    for args in [
        &["resume", "-d", &id][..],
        &["run", "-d", "--agent", "fake", "--resume", &native],
        &["send", "--wait", &id, "never said"],
    ] {
        let refused = lab.berth(args);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{args:?}: {refused:?}");
        assert!(refused.err.contains("cannot lock conversation"), "{args:?}: {refused:?}");
    }
    std::fs::remove_file(&conversations).expect("our own file");
    assert_eq!(lab.ok(["send", "--wait", &id, "again"]), "ECHO: again");
    assert_eq!(did(&lab, &id).len(), 2);
}

/// An agent that cannot take a conversation up again says so, and is not given a new one.
#[test]
fn an_agent_that_refuses_to_load_is_an_error_and_the_turn_waits() {
    let lab = lab();
    lab.add_agent("amnesiac", &["--refuse-load"]);
    let id = lab.ok(["run", "-d", "--agent", "amnesiac", "--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    lab.ok(["stop", "--grace", "0s", &id]);
    let sent = lab.berth(["send", "--wait", &id, "more"]);
    assert!(sent.code != 0 && sent.out.is_empty(), "{sent:?}");
    assert_eq!(states(&lab, &id)[0], "done");
    assert_eq!(did(&lab, &id).len(), 1);
}
