//! A11, G1: every way a turn ends has a code of its own, and none of them is 0 but one.

use std::collections::BTreeSet;

use berth_harness::{CommandOutput, TestEnvironment, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::turns::{did, finish, gate, lab, mark, prompts, spawn, start, state, text, turn, wait_mark};

/// The codes of `send --wait`, `wait` and `result` for a turn that ends by itself.
fn codes(lab: &TestEnvironment, id: &str, prompt: &str) -> [i32; 3] {
    let sent = lab.berth(["send", "--wait", "--json", id, prompt]);
    let view: serde_json::Value = serde_json::from_str(&sent.out).unwrap_or_else(|_| panic!("{sent:?}"));
    let turn = text(&view, "turn");
    [sent.code, lab.berth(["wait", &turn, "--timeout", "60s"]).code, lab.berth(["result", &turn]).code]
}

#[test]
fn a11_an_agent_that_exits_is_killed_cancelled_or_too_slow_is_told_apart_by_its_code() {
    let lab = lab();
    let id = start(&lab, &[]);
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    assert_eq!(codes(&lab, &id, "fine"), [0, 0, 0]);
    let exits = codes(&lab, &id, "exit:3");
    let killed = codes(&lab, &id, "die:9");
    let failed = codes(&lab, &id, "fail:no");
    // Exit 0 in the middle of a turn is not a success, either.
    let quits = codes(&lab, &id, "exit:0");
    lab.ok(["send", &id, &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    let turn = format!("{id}.6");
    let late = lab.berth(["wait", &turn, "--timeout", "10ms"]);
    let waiting = spawn(&lab, ["wait", &turn]);
    assert_eq!(lab.berth(["result", &turn]).code, 4, "it is not over");
    lab.ok(["cancel", &turn]);
    let cancelled =
        [finish(waiting).code, lab.berth(["wait", &turn]).code, lab.berth(["result", &turn]).code];
    assert_eq!((exits, killed, cancelled, late.code), ([1; 3], [9; 3], [8; 3], 6));
    assert_eq!((failed, quits), ([1; 3], [1; 3]));
    let distinct = BTreeSet::from([exits[0], killed[0], cancelled[0], late.code]);
    assert!(distinct.len() == 4 && !distinct.contains(&0));
    let reasons = [2, 3, 4].map(|number| text(&crate::turns::turn(&lab, &id, number), "reason"));
    assert!(reasons[0].contains("exit 3") && reasons[1].contains("signal 9"), "{reasons:?}");
    assert!(reasons[2].contains("no"), "{reasons:?}");
    // Each of them in a run of its own, and all in one conversation.
    assert_eq!(prompts(&did(&lab, &id))[..5], ["fine", "exit:3", "die:9", "fail:no", "exit:0"]);
    // For the session: its latest turn.
    assert_eq!(lab.berth(["wait", &id, "--for", "done", "--timeout", "60s"]).code, 8);
}

#[test]
fn a11_the_answer_goes_to_stdout_and_everything_else_to_stderr() {
    let lab = lab();
    let id = start(&lab, &[]);
    let said =
        lab.berth(["send", "--wait", &id, "think:hm\ntool:Bash:ls\nstderr:complaint\nsay:one\\n\nsay:two"]);
    assert_eq!(said, CommandOutput { code: 0, out: "one\ntwo\n".into(), err: String::new() });
    let failed = lab.berth(["send", "--wait", &id, "say:half\nfail:no more"]);
    assert_eq!((failed.code, failed.out.as_str()), (1, "half\n"), "{failed:?}");
    assert!(failed.err.contains("no more"), "{failed:?}");
    let exits = lab.berth(["send", "--wait", &id, "stderr:out of luck\nexit:3"]);
    assert_eq!((exits.code, exits.out.as_str()), (1, ""), "{exits:?}");
    assert!(exits.err.contains("exit 3") && exits.err.contains("out of luck"), "{exits:?}");
    // `run --prompt` ends with these codes as well.
    let run = lab.berth(["run", "--agent", "fake", "--prompt", "hello"]);
    assert_eq!((run.code, run.out.as_str()), (0, "ECHO: hello\n"), "{run:?}");
    assert_eq!(lab.berth(["run", "--agent", "fake", "--prompt", "fail:x"]).code, 1);
    assert_eq!(lab.berth(["run", "--agent", "fake", "--prompt", "die:9"]).code, 9);
    let lines = lab.berth(["send", "--wait", &id, "two\nlines"]);
    assert_eq!(lines.out, "ECHO: two\nlines\n");
}

/// G1: the waiting client is told, and the next turn is not held up.
#[test]
fn g1_a_turn_whose_agent_is_killed_is_interrupted_and_new_work_runs() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let waiting = [
        spawn(&lab, ["send", "--wait", &id, &format!("{touch} {wait} x")]),
        {
            wait_mark(&begun);
            spawn(&lab, ["wait", &format!("{id}.1")])
        },
        spawn(&lab, ["wait", &id, "--for", "done"]),
    ];
    let next = spawn(&lab, ["send", "--wait", &id, "next"]);
    wait_until("it to be accepted", || lab.show(&id)["turns"]["total"] == 2);
    let (agent, keeper) = (lab.process(&id, "pid"), lab.number(&id, "keeper_pid"));
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    for (at, said) in waiting.into_iter().map(finish).enumerate() {
        // A client that waits for the session may have come after the second turn was there.
        assert!(said.code == 9 || (at == 2 && said.code == 0), "{at}: {said:?}");
    }
    let said = finish(next);
    assert_eq!((said.code, said.out.as_str()), (0, "ECHO: next\n"), "{said:?}");
    // B6: the keeper began the next run itself, in the same conversation, and was not in its own way.
    assert_eq!((lab.number(&id, "keeper_pid"), lab.number(&id, "epoch")), (keeper, 2));
    assert_eq!(state(&lab, &id, 1), "interrupted");
    assert_eq!(did(&lab, &id).len(), 2);
    // Killed when it has nothing to do: nothing is lost, and the next turn starts it again.
    signal(&lab.process(&id, "pid"), Signal::KILL);
    crate::turns::wait_unkept(&lab, &id);
    assert_eq!(lab.ok(["send", "--wait", &id, "and on"]), "ECHO: and on");
    assert_eq!(turn(&lab, &id, 3)["epoch"], 3);
}

/// G2: a turn that waits is not an orphan.
#[test]
fn g2_a_turn_that_waits_is_left_alone_by_sweeps_and_other_commands() {
    let lab = lab();
    let id = start(&lab, &[]);
    lab.ok(["queue", &id, "pause"]);
    lab.ok(["send", &id, "waits"]);
    for look in [&["sweep"][..], &["ls"], &["show", &id], &["why", &id], &["ps", &id]] {
        lab.ok(look);
    }
    assert_eq!(state(&lab, &id, 1), "queued");
    lab.ok(["stop", "--grace", "0s", &id]);
    lab.ok(["sweep"]);
    assert_eq!((state(&lab, &id, 1).as_str(), &lab.show(&id)["state"]), ("queued", &"stopped".into()));
    lab.ok(["queue", &id, "resume"]);
    assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 0);
    assert_eq!(did(&lab, &id).len(), 1);
}

/// G3, C11: the first end counts, and a later one is kept beside it.
#[test]
fn g3_a_finished_turn_is_done_whatever_comes_after_it() {
    let lab = lab();
    let id = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &id, "--timeout", "60s"]);
    signal(&lab.process(&id, "keeper_pid"), Signal::KILL);
    lab.ok(["sweep"]);
    assert_eq!(state(&lab, &id, 1), "done");
    assert_eq!(lab.berth(["result", &format!("{id}.1")]).out, "ECHO: hello\n");
    assert_eq!(lab.events(&id, "turn_ended").len(), 1);
}
