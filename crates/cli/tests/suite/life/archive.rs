//! Archiving and restoring.

use berth_harness::{wait_gone, wait_until};
use rustix::process::Signal;

use crate::life::{archived, lab, lab_with_agent, state, status_cache, stopped};

#[test]
fn an_archived_session_keeps_everything_and_comes_back_as_it_was() {
    let lab = lab();
    let id = stopped(&lab, "fix");
    let (log, output) = (lab.log(&id).len(), lab.output(&id));
    let said = lab.berth(["archive", "fix"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", "fix is archived\n"));
    let shown = lab.show("fix");
    assert_eq!(shown["state"], "archived");
    assert!(shown["archived_at"].is_string(), "{shown}");
    assert_eq!(status_cache(&lab, &id)["state"], "archived", "lists need not read the journal");
    assert_eq!(lab.output(&id), output);
    let event = lab.events(&id, "archived").pop().expect("it is in the journal");
    assert_eq!(event["by"]["uid"], rustix::process::getuid().as_raw());
    assert!(lab.ok(["log", "fix"]).contains("archived by pid "));
    assert!(lab.ok(["why", "fix"]).contains("fix is archived"));
    assert!(lab.ok(["screen", "fix"]).contains("ready"));
    let said = lab.berth(["restore", "fix"]);
    assert_eq!((said.code, said.err.as_str()), (0, "fix is stopped; `berth resume fix` starts it\n"));
    let shown = lab.show("fix");
    assert_eq!((&shown["state"], &shown["archived_at"]), (&"stopped".into(), &serde_json::Value::Null));
    assert_eq!(status_cache(&lab, &id)["state"], "stopped");
    assert_eq!(lab.log(&id).len(), log + 2);
}

#[test]
fn a_running_session_is_not_archived_unless_it_is_ended_first() {
    let lab = lab();
    let id = lab.start_with(&["--name", "busy"], &["ignore:TERM", "hang"]);
    let agent = lab.process(&id, "pid");
    let said = lab.berth(["archive", "busy"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("berth stop busy") && said.err.contains("--stop"), "{said:?}");
    assert_eq!(state(&lab, &id), "running");
    let ended = lab.json(["archive", "--stop", "--grace", "0s", "busy", "--json"]);
    assert_eq!((&ended[0]["id"], &ended[0]["state"]), (&id.as_str().into(), &"archived".into()));
    wait_gone(&agent);
    assert_eq!(state(&lab, &id), "archived");
}

/// D6: ending, archiving and restoring twice is the same as once, and other sessions are not affected.
#[test]
fn d6_ending_and_archiving_twice_is_the_same_as_once_and_unrelated_sessions_are_untouched() {
    let lab = lab();
    let other = lab.start(&["hang"]);
    let (untouched, agent) = (lab.log(&other).len(), lab.process(&other, "pid"));
    let id = stopped(&lab, "twice");
    for verb in ["stop", "archive", "archive", "stop", "restore", "restore", "stop"] {
        lab.ok([verb, "twice"]);
    }
    for kind in ["stop_requested", "run_ended", "archived", "restored"] {
        assert_eq!(lab.events(&id, kind).len(), 1, "{kind}");
    }
    assert_eq!(lab.log(&other).len(), untouched);
    assert_eq!(lab.process(&other, "pid"), agent);
}

#[test]
fn nothing_is_sent_to_an_archived_session_and_resume_restores_it_in_one_commit() {
    let lab = lab_with_agent();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "bot"]);
    let sent = lab.ok(["send", "bot", "--key", "k", "--wait", "one"]);
    assert_eq!(sent, "ECHO: one");
    lab.ok(["archive", "--stop", "bot"]);
    for args in [vec!["send", "bot", "two"], vec!["send", "bot", "--wait", "two"]] {
        let said = lab.berth(&args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains("archived") && said.err.contains("berth restore bot"), "{said:?}");
    }
    // A repeated send with its key hears the outcome, and starts nothing.
    assert_eq!(lab.ok(["send", "bot", "--key", "k", "--wait", "one"]), "ECHO: one");
    assert_eq!(state(&lab, "bot"), "archived");
    lab.ok(["resume", "-d", "bot"]);
    assert_eq!(lab.ok(["send", "bot", "--wait", "three"]), "ECHO: three");
    let kinds: Vec<String> = lab.log(&id).iter().map(|event| event["event"].to_string()).collect();
    let back = kinds.iter().position(|kind| kind == "\"restored\"").expect("it was restored");
    let log = lab.log(&id);
    let starting = log.iter().rposition(|event| event["event"] == "run_starting").expect("it runs again");
    assert!(back < starting, "{kinds:?}");
    assert_eq!(log[back]["at"], log[starting]["at"], "one commit has one time");
    assert_ne!(log[back]["by"]["pid"], 0, "the client that asked is recorded");
}

/// B9: the old run is proven gone before a session is archived or restored.
#[test]
fn b9_a_session_whose_keeper_died_is_archived_once_its_deaf_agent_is_gone() {
    let lab = lab();
    let id = lab.start_with(&["--name", "deaf"], &["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    lab.ok(["archive", "deaf"]);
    assert!(
        matches!(agent.check(), berth_host::identity::ProcessLiveness::Gone),
        "archived beside its agent"
    );
    let kinds: Vec<_> = lab.log(&id).iter().map(|event| event["event"].clone()).collect();
    let at = |kind: &str| kinds.iter().position(|found| found == kind).expect("it happened");
    assert!(at("run_ended") < at("archived"), "{kinds:?}");
    lab.ok(["restore", "deaf"]);
    assert_eq!(state(&lab, "deaf"), "lost", "it is what it was");
}

/// G5: the terminal is gone, then the keeper: the session is called lost, nothing of it is dropped, and it comes back.
#[test]
fn g5_a_session_whose_terminal_and_keeper_vanished_is_lost_and_comes_back_whole() {
    let lab = lab();
    let id = lab.start_with(&["--name", "window"], &["ignore:HUP", "flood:64K", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let mut terminal = lab.terminal(["attach", "window"]);
    terminal.wait_for("ready");
    terminal.close();
    terminal.wait_exit();
    assert_eq!(state(&lab, &id), "running", "a window is not a session");
    let (agent, output) = (lab.process(&id, "pid"), lab.output(&id));
    berth_harness::signal(&lab.process(&id, "keeper_pid"), Signal::KILL);
    wait_until("the loss to be seen", || {
        let listed = lab.json(["ls", "--json"]);
        listed.as_array().expect("an array").iter().any(|it| it["id"] == id.as_str() && it["state"] == "lost")
    });
    wait_gone(&agent);
    assert_eq!(lab.output(&id), output, "nothing of it is dropped");
    lab.ok(["archive", "window"]);
    lab.ok(["restore", "window"]);
    assert_eq!((state(&lab, &id).as_str(), lab.output(&id)), ("lost", output.clone()));
    lab.ok(["resume", "-d", "window"]);
    lab.wait_output(&id, "ready");
    assert_eq!(lab.number(&id, "epoch"), 2);
    assert!(lab.output(&id).starts_with(&output), "earlier output is still there");
}

#[test]
fn archive_and_restore_with_one_unknown_name_change_nothing() {
    let lab = lab();
    let one = stopped(&lab, "one");
    let two = archived(&lab, "two");
    for verb in ["archive", "restore"] {
        let said = lab.berth([verb, "one", "two", "nobody"]);
        assert_eq!(said.code, 3, "{said:?}");
    }
    assert_eq!((state(&lab, &one).as_str(), state(&lab, &two).as_str()), ("stopped", "archived"));
    assert_eq!(lab.berth(["archive"]).code, 2, "a session has to be named");
    assert_eq!(lab.berth(["archive", "one", "--older-than", "1d"]).code, 2, "named or by age");
}

#[test]
fn old_sessions_are_archived_only_after_a_yes() {
    let lab = lab();
    let (old, older) = (stopped(&lab, "old"), stopped(&lab, "older"));
    let busy = lab.start(&["hang"]);
    let said = lab.berth(["archive", "--older-than", "0s"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains("2 sessions would be archived") && said.err.contains("--yes"), "{said:?}");
    for id in [&old, &older] {
        assert_eq!(state(&lab, id), "stopped", "nothing was done");
    }
    let none = lab.berth(["archive", "--older-than", "2w", "--yes"]);
    assert_eq!((none.code, state(&lab, &old).as_str()), (0, "stopped"), "{none:?}");
    lab.ok(["archive", "--older-than", "0s", "--yes"]);
    for id in [&old, &older] {
        assert_eq!(state(&lab, id), "archived");
    }
    assert_eq!(state(&lab, &busy), "running", "a running session is not at rest");
}
