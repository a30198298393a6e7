//! C10, F11, restarts in place: the keeper dies or is replaced at every step of a turn's life.

use std::path::Path;
use std::process::Command;

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, said, wait_until};

use crate::turns::{
    PromptRecord, did, finish, gate, lab, mark, open, prompts, spawn, spawned, start, states, text, turn,
    wait_mark,
};

/// Starts a session whose first keeper dies at this point.
fn doomed(lab: &TestEnvironment, point: &str, options: &[&str]) -> String {
    let mut command = lab.command([&["run", "-d", "--agent", "fake"], options].concat());
    let told = said(command.env("BERTH_KILLPOINT", point).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{point}: {told:?}");
    told.out.trim().to_owned()
}

fn answers(did: &[PromptRecord]) -> Vec<bool> {
    did.iter().map(PromptRecord::is_done).collect()
}

/// Before the agent could have heard of it, the turn runs, once; after that it never runs again.
#[test]
fn c10_a_keeper_that_dies_at_any_step_of_a_turn_neither_loses_it_nor_runs_it_twice() {
    for (point, code) in
        [("sending", 0), ("accepted", 0), ("due", 0), ("delivered", 10), ("said", 10), ("answered", 0)]
    {
        let lab = lab();
        let id = doomed(&lab, point, &[]);
        // A client that waits brings the session back and hears the end.
        let told = lab.berth(["send", "--wait", &id, "hello"]);
        assert_eq!(told.code, code, "{point}: {told:?}");
        let turns = crate::turns::turns(&lab, &id);
        assert_eq!(turns.len(), 1, "{point}: {turns:?}");
        let (state, ran) = (text(&turns[0], "state"), did(&lab, &id));
        if code == 0 {
            assert_eq!((state.as_str(), told.out.as_str()), ("done", "ECHO: hello\n"), "{point}");
            assert_eq!((prompts(&ran), answers(&ran)), (vec!["hello"], vec![true]), "{point}");
        } else {
            assert_eq!(state, "unknown", "{point}");
            assert!(ran.len() <= 1, "{point}: {ran:?}");
        }
        // The client asks once more: it is the same turn, and does not run.
        assert_eq!(lab.berth(["result", &format!("{id}.1")]).code, code, "{point}");
        assert_eq!(did(&lab, &id), ran, "{point}");
    }
}

/// The outcome of a cut-off turn is in the output behind its delivery; the turns before it may have printed for a year.
#[test]
fn recovery_of_a_cut_off_turn_does_not_read_the_output_of_the_turns_before_it() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--prompt", "flood:24M"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    lab.ok(["send", &id, &format!("say:half\n{touch} {wait} x")]);
    wait_mark(&begun);
    assert!(lab.output(&id).len() > 24 << 20);
    lab.kill_keeper(&id);
    let resume = lab.command(["resume", "-d", &id]);
    // The kernel counts the bytes that a shell and the commands it waited for have read.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "\"$@\" >&2 && cat /proc/$$/io", "sh"])
        .arg(resume.get_program())
        .args(resume.get_args());
    shell.envs(resume.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = said(shell.output().expect("a shell"));
    assert_eq!(told.code, 0, "{told:?}");
    let read = told.out.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
    let read: u64 = read.trim().parse().expect("a number");
    assert!(read < 8 << 20, "{read} bytes were read");
    assert_eq!(states(&lab, &id), ["done", "unknown"]);
}

/// Another turn waits behind the one that was cut off: it is not lost, and does not run before its time.
#[test]
fn c10_a_turn_behind_one_that_was_cut_off_is_held_and_then_runs() {
    for point in ["due:2", "answered:1", "said:2", "delivered:2"] {
        let lab = lab();
        let (go, wait) = gate(&lab, "go");
        let (begun, touch) = mark(&lab, "begun");
        let id = doomed(&lab, point, &[]);
        lab.ok(["send", &id, &format!("{touch} {wait} first")]);
        wait_mark(&begun);
        let second = spawn(&lab, ["send", "--wait", &id, "second"]);
        wait_until("it to be accepted", || states(&lab, &id).len() == 2);
        let third = spawn(&lab, ["send", "--wait", &id, "third"]);
        wait_until("it to be accepted", || states(&lab, &id).len() == 3);
        open(&go);
        let (second, third) = (finish(second), finish(third));
        if point == "said:2" || point == "delivered:2" {
            assert_eq!(states(&lab, &id), ["done", "unknown", "queued"], "{point}");
            assert_eq!((second.code, third.code), (10, 4), "{point}: {third:?}");
            assert!(third.err.contains("resume"), "{point}: it says how to go on: {third:?}");
            lab.ok(["queue", &id, "resume"]);
            assert_eq!(lab.berth(["wait", &format!("{id}.3"), "--timeout", "60s"]).code, 0, "{point}");
        } else {
            assert_eq!(
                (second.out.as_str(), third.out.as_str()),
                ("ECHO: second\n", "ECHO: third\n"),
                "{point}"
            );
        }
        let ran = did(&lab, &id);
        let mut seen = prompts(&ran);
        seen.dedup();
        assert_eq!(seen.len(), ran.len(), "{point}: none twice: {ran:?}");
        assert_eq!(ran.last().expect("one").prompt, "third", "{point}");
    }
}

/// F11: `continue` says that waiting turns do not build on earlier ones.
#[test]
fn f11_behind_an_unknown_turn_the_queue_goes_on_only_where_it_was_told_to() {
    for (policy, code) in [("hold", 4), ("continue", 0)] {
        let lab = lab();
        let (_, wait) = gate(&lab, "never");
        let (begun, touch) = mark(&lab, "begun");
        let id = start(&lab, &["--on-unknown", policy, "--prompt", &format!("{touch} {wait} x")]);
        wait_mark(&begun);
        lab.ok(["send", &id, "next"]);
        lab.kill_keeper(&id);
        let next = lab.berth(["wait", &format!("{id}.2"), "--timeout", "60s"]);
        assert_eq!(next.code, code, "{policy}: {next:?}");
        assert_eq!(states(&lab, &id)[0], "unknown", "{policy}");
        assert_eq!(
            did(&lab, &id).iter().filter(|did| did.prompt != "next").count(),
            1,
            "{policy}: not again"
        );
        if policy == "hold" {
            let shown = lab.show(&id);
            assert!(
                text(&shown["turns"], "held").contains(&format!("{}.1", text(&shown, "name"))),
                "{shown}"
            );
            // A new turn is accepted and waits as well; its sender is told why.
            let more = lab.berth(["send", "--wait", &id, "more"]);
            assert_eq!(more.code, 4, "{more:?}");
            assert_eq!(states(&lab, &id), ["unknown", "queued", "queued"]);
            assert_eq!(lab.berth(["wait", &id, "--for", "needs-you", "--timeout", "60s"]).code, 0);
            lab.ok(["queue", &id, "resume"]);
            assert_eq!(lab.berth(["wait", &format!("{id}.3"), "--timeout", "60s"]).code, 0);
        }
        assert_eq!(lab.berth(["result", &format!("{id}.2")]).out, "ECHO: next\n", "{policy}");
    }
}

/// C10: the agent had answered and the keeper had not heard it yet: the answer is in the output.
#[test]
fn c10_an_answer_that_was_written_before_the_keeper_died_is_found() {
    let lab = lab();
    let id = doomed(&lab, "answered", &[]);
    lab.ok(["send", &id, "tool:Bash:ls\nhello"]);
    wait_until("the keeper to die", || lab.show(&id)["keeper_pid"].is_null());
    // No keeper is needed for that: looking is enough.
    let told = lab.berth(["result", &format!("{id}.1")]);
    assert_eq!((told.code, told.out.as_str()), (0, "ECHO: hello\n"), "{told:?}");
    assert_eq!(lab.show(&id)["state"], "lost");
    assert_eq!(turn(&lab, &id, 1)["output_tokens"].as_u64(), Some("ECHO: hello".len() as u64));
}

/// C10: the next keeper dies while it starts, and the waiting turn is still there.
#[test]
fn c10_a_keeper_that_dies_while_it_starts_the_agent_again_loses_nothing() {
    for point in ["claimed", "starting", "spawned", "started", "due", "sending"] {
        let lab = lab();
        let id = start(&lab, &["--prompt", "first"]);
        lab.ok(["wait", &id, "--timeout", "60s"]);
        lab.ok(["queue", &id, "pause"]);
        lab.ok(["send", &id, "second"]);
        lab.kill_keeper(&id);
        lab.ok(["queue", &id, "pause"]);
        let mut resume = lab.command(["resume", "-d", &id]);
        let _ = resume.env("BERTH_KILLPOINT", point).output().expect("berth starts");
        assert_eq!(states(&lab, &id), ["done", "queued"], "{point}");
        lab.ok(["queue", &id, "resume"]);
        let told = lab.berth(["wait", &format!("{id}.2"), "--timeout", "60s"]);
        assert_eq!(told.code, 0, "{point}: {told:?}");
        assert_eq!(prompts(&did(&lab, &id)), ["first", "second"], "{point}");
    }
}

/// A client that waits when the keeper is killed hears the end nevertheless.
#[test]
fn c10_a_client_that_waits_for_a_turn_brings_the_session_back_when_its_keeper_is_killed() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--on-unknown", "continue"]);
    let first = spawn(&lab, ["send", "--wait", &id, &format!("{touch} {wait} first")]);
    wait_mark(&begun);
    let second = spawn(&lab, ["send", "--wait", &id, "second"]);
    wait_until("it to be accepted", || states(&lab, &id).len() == 2);
    let third = spawned(lab.command(["wait", &format!("{id}.2")]).env("UNUSED", "1"));
    lab.kill_keeper(&id);
    open(&go);
    let (first, second, third) = (finish(first), finish(second), finish(third));
    assert_eq!(first.code, 10, "{first:?}");
    assert_eq!((second.code, second.out.as_str(), third.code), (0, "ECHO: second\n", 0), "{second:?}");
    assert_eq!(lab.number(&id, "epoch"), 2);
    assert_eq!(did(&lab, &id).len(), 2);
}

pub(crate) fn restart(dir: &Path) {
    let mut connection = KeeperConnection::open(dir, "a test".into()).expect("a keeper");
    connection.send(KeeperRequest::Restart).expect("a request");
}

/// The keeper replaces its program while the agent works: same agent, same turn, same answer.
#[test]
fn a_keeper_that_replaces_its_program_during_a_turn_hears_it_to_its_end() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let prompt = format!("say:one \n{touch} context:9:100 {wait} two");
    let waiting = spawn(&lab, ["send", "--wait", &id, &prompt]);
    wait_mark(&begun);
    let pid = lab.number(&id, "pid");
    lab.ok(["send", &id, "next"]);
    for round in 1..=3 {
        restart(&lab.session_dir(&id));
        wait_until("the new program", || lab.events(&id, "keeper_restarted").len() == round);
    }
    wait_until("the context to be known", || lab.show(&id)["context"]["used_tokens"] == 9);
    let native = text(&lab.show(&id), "conversation_id");
    let refused = lab.berth(["run", "-d", "--agent", "fake", "--resume", &native]);
    assert_eq!(refused.code, 4, "the right to write the conversation came along: {refused:?}");
    open(&go);
    let told = finish(waiting);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.ends_with("ECHO: two\n"), "{told:?}");
    assert_eq!(lab.berth(["wait", &format!("{id}.2"), "--timeout", "60s"]).code, 0);
    assert_eq!((lab.number(&id, "pid"), lab.number(&id, "epoch")), (pid, 1));
    assert_eq!(text(&turn(&lab, &id, 1), "answer"), "one ECHO: two");
    assert_eq!(did(&lab, &id).len(), 2);
    // Idle again, it is still the agent's keeper.
    restart(&lab.session_dir(&id));
    assert_eq!(lab.ok(["send", "--wait", &id, "after"]), "ECHO: after");
    assert_eq!((lab.number(&id, "pid"), lab.number(&id, "epoch")), (pid, 1));
}

/// An agent that finishes its turn although its supervisor died: the answer was not heard, and the turn says so.
#[test]
fn f11_an_agent_that_outlives_its_keeper_is_ended_before_the_next_one_writes() {
    let lab = lab();
    lab.add_agent("stays", &["--at-eof", "stay", "--do", "ignore:TERM,HUP"]);
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let prompt = format!("{touch} {wait} x");
    let id = lab.ok(["run", "-d", "--agent", "stays", "--on-unknown", "continue", "--prompt", &prompt]);
    wait_mark(&begun);
    let old = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    assert_eq!(lab.ok(["send", "--wait", &id, "next"]), "ECHO: next");
    assert!(matches!(old.check(), berth_host::identity::ProcessLiveness::Gone));
    let ran = did(&lab, &id);
    assert_eq!((ran.len(), answers(&ran)), (2, vec![false, true]), "{ran:?}");
}
