//! Two sessions that want one conversation at once: one runs, the other is told which. B1, B2, B8.

use std::collections::BTreeSet;

use berth_harness::{CommandOutput, SeededRng, TestEnvironment, signal, wait_until};
use serde_json::Value;

use crate::turns::{finish, lab, only_did, prompts, rounds, spawn, start, text};

/// A conversation without a writer: the session that had it, and the agent's id of it.
fn conversation(lab: &TestEnvironment) -> (String, String) {
    let id = start(lab, &["--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    let native = text(&lab.show(&id), "conversation_id");
    lab.ok(["stop", "--grace", "0s", &id]);
    (id, native)
}

/// Asserts that exactly one of them runs, and that the other one was told so. Returns the output of the first.
fn one_of(said: [CommandOutput; 2], round: u64) -> CommandOutput {
    let codes: BTreeSet<i32> = said.iter().map(|said| said.code).collect();
    assert_eq!(codes, BTreeSet::from([0, 4]), "round {round}: {said:?}");
    let [one, two] = said;
    let (winner, loser) = if one.code == 0 { (one, two) } else { (two, one) };
    let id = winner.out.trim();
    assert!(loser.err.contains(id) && loser.err.contains("hint:"), "round {round}: {id} is named: {loser:?}");
    assert_eq!(loser.out, "", "round {round}: no id for what does not run");
    winner
}

fn ids(lab: &TestEnvironment) -> BTreeSet<String> {
    let listed: Value = lab.json(["ls", "--all", "--json"]);
    listed.as_array().expect("an array").iter().map(|session| text(session, "id")).collect()
}

#[test]
fn b1_of_two_sessions_that_resume_one_conversation_at_once_one_runs() {
    let mut seed = SeededRng::announce("two resumes");
    let lab = lab();
    let (first, native) = conversation(&lab);
    let (mut said, mut known) = (vec!["hello".to_owned()], BTreeSet::from([first.clone()]));
    for round in 0..rounds(100) {
        let run = ["run", "-d", "--agent", "fake", "--resume", native.as_str()];
        // Now and then one of the two is the session that had the conversation before.
        let other = if seed.below(4) == 0 { vec!["resume", "-d", &first] } else { run.to_vec() };
        let children = if seed.below(2) == 0 { [run.to_vec(), other] } else { [other, run.to_vec()] };
        let [one, two] = children;
        let one = spawn(&lab, one);
        seed.dawdle(8_000);
        let two = spawn(&lab, two);
        let winner = one_of([finish(one), finish(two)], round);
        let id = winner.out.trim();
        // The session that lost left nothing behind.
        known.insert(id.to_owned());
        assert_eq!(ids(&lab), known, "round {round}");
        let prompt = format!("round {round}");
        assert_eq!(lab.ok(["send", "--wait", id, &prompt]), format!("ECHO: {prompt}"));
        said.push(prompt);
        assert_eq!(prompts(&only_did(&lab)), said, "round {round}");
        lab.ok(["stop", "--grace", "0s", id]);
    }
}

/// A run that has ended holds up no other, however long its keeper takes to say goodbye.
#[test]
fn b1_a_conversation_is_free_as_soon_as_its_run_is_over() {
    let lab = lab();
    let (first, native) = conversation(&lab);
    let mut again = lab.command(["resume", "-d", &first]);
    let again = again.env("BERTH_KILLPOINT", "stop:keeper-leaves").output().expect("berth can be started");
    assert!(again.status.success(), "{again:?}");
    let keeper = lab.process(&first, "keeper_pid");
    lab.ok(["stop", "--grace", "0s", &first]);
    wait_until("a keeper that stands still while it leaves", || {
        std::fs::read_to_string(format!("/proc/{}/stat", keeper.pid)).is_ok_and(|stat| stat.contains(") T "))
    });
    let other = lab.berth(["run", "-d", "--agent", "fake", "--resume", &native]);
    signal(&keeper, rustix::process::Signal::CONT);
    assert_eq!(other.code, 0, "{other:?}");
    assert_eq!(lab.ok(["send", "--wait", other.out.trim(), "mine now"]), "ECHO: mine now");
}

/// The session that has the conversation works on a turn when the other one comes.
#[test]
fn b1_a_conversation_that_is_being_written_is_refused_with_the_name_of_its_writer() {
    let lab = lab();
    let (first, native) = conversation(&lab);
    let (gate, wait) = crate::turns::gate(&lab, "gate");
    let (mark, touch) = crate::turns::mark(&lab, "mark");
    let id = lab.ok([
        "run",
        "-d",
        "--agent",
        "fake",
        "--resume",
        &native,
        "--prompt",
        &format!("{touch} {wait} x"),
    ]);
    crate::turns::wait_mark(&mark);
    for refused in [
        lab.berth(["run", "-d", "--agent", "fake", "--resume", &native]),
        lab.berth(["run", "--agent", "fake", "--resume", &native, "--prompt", "never said"]),
        lab.berth(["resume", "-d", &first]),
        lab.berth(["send", &first, "never said"]),
    ] {
        assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{refused:?}");
        assert!(refused.err.contains(&id) && refused.err.contains("berth fork"), "{refused:?}");
    }
    crate::turns::open(&gate);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    assert_eq!(lab.ok(["send", "--wait", &id, "and on"]), "ECHO: and on");
    assert_eq!(only_did(&lab).len(), 3, "{:?}", only_did(&lab));
    // The conversation is free as soon as it has no writer.
    lab.ok(["stop", "--grace", "0s", &id]);
    assert_eq!(lab.ok(["send", "--wait", &first, "mine again"]), "ECHO: mine again");
    assert_eq!(only_did(&lab).len(), 4);
}

#[test]
fn b2_a_conversation_is_free_as_soon_as_its_keeper_is_killed() {
    let lab = lab();
    let (_, native) = conversation(&lab);
    let mut last: Option<String> = None;
    for _ in 0..5 {
        if let Some(id) = &last {
            lab.kill_keeper(id);
        }
        // No command looks in between.
        let id = lab.ok(["run", "-d", "--agent", "fake", "--resume", &native]);
        assert_eq!(lab.ok(["send", "--wait", &id, "mine"]), "ECHO: mine");
        last = Some(id);
    }
    assert_eq!(only_did(&lab).len(), 6);
}

/// B8: one session is resumed twice.
#[test]
fn b8_of_two_concurrent_resumes_of_one_session_one_starts_its_agent() {
    let mut seed = SeededRng::announce("b8");
    let lab = lab();
    let (id, _) = conversation(&lab);
    for round in 0..rounds(20) {
        let one = spawn(&lab, ["resume", "-d", &id]);
        seed.dawdle(6_000);
        let two = spawn(&lab, ["resume", "-d", &id]);
        let said = [finish(one), finish(two)];
        let codes: BTreeSet<i32> = said.iter().map(|said| said.code).collect();
        assert_eq!(codes, BTreeSet::from([0, 4]), "round {round}: {said:?}");
        assert_eq!(lab.number(&id, "epoch") as u64, round + 2, "round {round}");
        if seed.below(2) == 0 {
            lab.ok(["stop", "--grace", "0s", &id]);
        } else {
            lab.kill_keeper(&id);
        }
    }
    let starting = lab.events(&id, "run_starting").len() as u64;
    assert_eq!(starting, rounds(20) + 1);
}

/// B8: one client resumes, the other one sends.
#[test]
fn b8_a_resume_and_a_send_at_once_start_one_agent_and_the_turn_runs() {
    let mut seed = SeededRng::announce("b8 send");
    let lab = lab();
    let (id, _) = conversation(&lab);
    for round in 0..rounds(20) {
        let prompt = format!("round {round}");
        let send = spawn(&lab, ["send", "--wait", &id, &prompt]);
        seed.dawdle(8_000);
        let resume = finish(spawn(&lab, ["resume", "-d", &id]));
        let sent = finish(send);
        assert!([0, 4].contains(&resume.code), "round {round}: {resume:?}");
        assert_eq!((sent.code, sent.out), (0, format!("ECHO: {prompt}\n")), "round {round}: {}", sent.err);
        assert_eq!(lab.number(&id, "epoch") as u64, round + 2, "round {round}");
        lab.ok(["stop", "--grace", "0s", &id]);
    }
    assert_eq!(only_did(&lab).len() as u64, rounds(20) + 1);
}
