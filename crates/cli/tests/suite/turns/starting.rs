//! A1, A2: starting sessions with agents that take turns; and agents that start agents.

use std::collections::BTreeSet;

use berth_harness::wait_until;

use crate::turns::{did, finish, gate, lab, mark, open, spawn, start, text, wait_mark};

#[test]
fn a1_starting_another_session_without_a_terminal_asks_nothing_and_touches_no_session() {
    let lab = lab();
    let first = start(&lab, &["--prompt", "hello"]);
    lab.ok(["wait", &first, "--timeout", "60s"]);
    let pid = lab.number(&first, "pid");
    let said = finish(spawn(&lab, ["run", "-d", "--agent", "fake"]));
    assert_eq!(said.code, 0, "{said:?}");
    assert_ne!(said.out.trim(), first);
    assert_eq!(lab.number(&first, "pid"), pid);
    assert_eq!(lab.ok(["send", "--wait", &first, "still here"]), "ECHO: still here");
    // Without a terminal, leaving out -d makes no difference: there is no user to talk to.
    let plain = lab.berth(["run", "--agent", "fake"]);
    assert_eq!((plain.code, plain.err.as_str()), (0, ""), "{plain:?}");
    assert_eq!(lab.json(["ls", "--json"]).as_array().map(Vec::len), Some(3));
}

#[test]
fn a2_twenty_started_at_once_are_twenty_sessions_with_twenty_conversations() {
    let lab = lab();
    let children: Vec<_> = (0..20)
        .map(|at| spawn(&lab, ["run", "-d", "--agent", "fake", "--prompt", &format!("number {at}")]))
        .collect();
    let said: Vec<_> = children.into_iter().map(finish).collect();
    let ids: BTreeSet<&str> = said.iter().map(|said| said.out.trim()).collect();
    assert!(ids.len() == 20 && said.iter().all(|said| said.code == 0), "{said:?}");
    for (at, said) in said.iter().enumerate() {
        let id = said.out.trim();
        assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 0);
        let ran = did(&lab, id);
        assert_eq!((ran.len(), ran[0].prompt.clone()), (1, format!("number {at}")));
        assert!(lab.events(id, "stop_requested").is_empty(), "no session was stopped");
    }
    assert_eq!(crate::turns::transcripts(&lab).len(), 20);
    let stop: Vec<&str> = ["stop", "--grace", "0s"].into_iter().chain(ids.iter().copied()).collect();
    lab.ok(stop);
}

/// One key used from two places is one session with one first turn.
#[test]
fn a2_the_same_run_twice_with_one_key_is_one_session_and_one_turn() {
    let lab = lab();
    let run = ["run", "-d", "--agent", "fake", "--key", "nightly", "--prompt", "hello"];
    let said: Vec<_> = (0..4).map(|_| spawn(&lab, run)).collect::<Vec<_>>().into_iter().map(finish).collect();
    let ids: BTreeSet<&str> = said.iter().map(|said| said.out.trim()).collect();
    assert!(ids.len() == 1 && said.iter().all(|said| said.code == 0), "{said:?}");
    let id = said[0].out.trim();
    lab.ok(["wait", id, "--timeout", "60s"]);
    assert_eq!(did(&lab, id).len(), 1);
    // Without -d the command prints the answer, once more; the agent is not asked again.
    let again = lab.berth(["run", "--agent", "fake", "--key", "nightly", "--prompt", "hello"]);
    assert_eq!((again.code, again.out.as_str()), (0, "ECHO: hello\n"), "{again:?}");
    assert_eq!(did(&lab, id).len(), 1);
}

/// An agent's tool starts another session: it is not the agent's child in any way that matters.
#[test]
fn an_agent_that_starts_an_agent_does_not_take_it_along() {
    let lab = lab();
    let berth = env!("CARGO_BIN_EXE_berth");
    // To its own session it sends only with a grant.
    let outer = start(&lab, &["--name", "outer", "--grant", "send"]);
    let inner = format!("sh:{berth} run -d --name inner --agent fake --prompt hello");
    let said = lab.berth(["send", "--wait", "outer", &inner]);
    assert_eq!((said.code, said.out.trim()), (0, text(&lab.show("inner"), "id").as_str()), "{said:?}");
    // The agent can send to the inner session, and gets the answer.
    let ask = format!("sh:{berth} send --wait inner what");
    assert_eq!(lab.ok(["send", "--wait", "outer", &ask]), "ECHO: what");
    // The agent may send to its own session; that turn waits until the present one is finished.
    let own = format!("sh:{berth} send outer later");
    lab.ok(["send", "--wait", "outer", &own]);
    wait_until("its own turn", || crate::turns::states(&lab, &outer) == ["done"; 4]);
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    lab.ok(["send", "inner", &format!("{touch} {wait} long")]);
    wait_mark(&begun);
    // The end of the one is not the end of the other.
    let inner_pid = lab.process("inner", "pid");
    lab.ok(["stop", "--grace", "0s", "outer"]);
    assert!(matches!(inner_pid.check(), berth_host::identity::ProcessLiveness::Alive(_)));
    open(&go);
    assert_eq!(lab.berth(["wait", "inner", "--timeout", "60s"]).code, 0);
    assert_eq!(did(&lab, "inner").len(), 3);
    assert_eq!(did(&lab, "outer").len(), 4);
}

/// The inner session outlives a killed outer keeper as well.
#[test]
fn an_agent_that_was_started_by_an_agent_outlives_the_keeper_of_that() {
    let lab = lab();
    let berth = env!("CARGO_BIN_EXE_berth");
    start(&lab, &["--name", "outer"]);
    lab.ok([
        "send",
        "--wait",
        "outer",
        &format!("sh:{berth} run -d --name inner --agent fake --prompt hello"),
    ]);
    lab.ok(["wait", "inner", "--timeout", "60s"]);
    let inner_pid = lab.number("inner", "pid");
    lab.kill_keeper("outer");
    assert_eq!(lab.show("outer")["state"], "lost");
    assert_eq!(lab.ok(["send", "--wait", "inner", "still here"]), "ECHO: still here");
    assert_eq!(lab.number("inner", "pid"), inner_pid);
}

#[test]
fn a_sweep_knows_an_agent_that_takes_turns_as_alive_whatever_it_does() {
    let lab = lab();
    let id = start(&lab, &[]);
    let is_alive = || {
        let report = lab.json(["sweep", "--json"]);
        // Only lines about this session: others of this machine end just now, and may look like anything.
        for list in ["no_record", "cannot_tell"] {
            assert!(!report[list].to_string().contains(&id), "{list}: {report}");
        }
        let alive = report["alive"].as_array().expect("a list").clone();
        let processes = alive.iter().find(|alive| alive["id"] == id.as_str());
        processes.and_then(|alive| alive["processes"].as_u64())
    };
    assert_eq!((lab.show(&id)["state"].as_str(), is_alive()), (Some("idle"), Some(2)));
    lab.ok(["send", &id, "ask:Bash:ls"]);
    lab.ok(["wait", &id, "--for", "needs-you"]);
    assert_eq!(is_alive(), Some(2));
    lab.ok(["stop", &id]);
    assert_eq!(is_alive(), None);
}
