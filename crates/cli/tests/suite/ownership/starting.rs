//! G2 and G3: a session that is just beginning, or whose end is not written down yet, is not garbage.

use std::process::{Child, Stdio};

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::{ProcessIdentity, process_stat};
use berth_host::lock::{LockState, lock_state};
use rustix::process::Signal;
use serde_json::Value;

use crate::ownership::sweep::set_back;
use crate::ownership::{AgentLookalike, endings, is_alive, lab, written_down};

/// A start that stands still at a point: the client that waits for it, its keeper, and the session's id.
fn stalled_at(lab: &TestEnvironment, point: &str) -> (Child, ProcessIdentity, String) {
    let pidfile = format!("pidfile:{}", lab.dir().join("pids").display());
    let agent = lab.agent();
    let mut run = lab.command(["run", "-d", "--", &agent, &pidfile, "ignore:HUP,TERM", "hang"]);
    run.env("BERTH_KILLPOINT", format!("stall:{point}"));
    let client = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("berth starts");
    let sessions = lab.home().join("sessions");
    let id =
        || Some(std::fs::read_dir(&sessions).ok()?.next()?.ok()?.file_name().into_string().expect("an id"));
    wait_until("the session's directory", || id().is_some());
    let id = id().expect("an id");
    let dir = lab.session_dir(&id);
    wait_until("the keeper's claim", || matches!(lock_state(&dir.join("lease")), Ok(Some(LockState::Held))));
    let keeper = lab.processes().into_iter().find(|process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        line.starts_with(b"berth\0keeper\0")
    });
    let has = |kind: &str| {
        let said = lab.berth(["log", &id, "--json"]);
        said.code == 0 && said.out.contains(&format!("\"event\":\"{kind}\""))
    };
    match point {
        "claimed" => {}
        "starting" => wait_until("its first events", || has("run_starting")),
        "spawned" => drop(written_down(&lab.dir().join("pids"), 1)),
        _ => wait_until("its agent", || has("run_started")),
    }
    (client, keeper.expect("a keeper"), id)
}

#[test]
fn g2_a_session_that_is_starting_is_not_swept_wherever_it_stands() {
    for point in ["claimed", "starting", "spawned", "started"] {
        let lab = lab();
        let innocent = AgentLookalike::beside(&lab);
        let (mut client, keeper, id) = stalled_at(&lab, point);
        let agent = || written_down(&lab.dir().join("pids"), 1).remove(0);
        let agent = ["spawned", "started"].contains(&point).then(agent);
        let events = log_of(&lab, &id);
        for args in [&["sweep", "--json"][..], &["sweep", "--dry-run", "--json"], &["sweep", "--json"]] {
            let swept = lab.json(args);
            for kind in ["left_over", "no_process", "failed", "damaged"] {
                assert_eq!(swept[kind], Value::Array(vec![]), "{point}: {swept}");
            }
        }
        assert!(is_alive(&keeper) && agent.iter().all(is_alive), "{point}");
        assert!(lab.session_dir(&id).is_dir(), "{point}");
        assert_eq!(log_of(&lab, &id), events, "{point}: nothing was added to its record");
        if point == "claimed" {
            // However long it has been standing there: the directory is held.
            set_back(&lab.session_dir(&id));
            let swept = lab.berth(["sweep"]);
            assert!(swept.code == 1 && swept.out.contains("another process holds it"), "{swept:?}");
            assert!(lab.session_dir(&id).is_dir());
        }
        client.kill().expect("our own child");
        client.wait().expect("our own child");
        signal(&keeper, Signal::KILL);
        wait_gone(&keeper);
        // The session is now one whose keeper is gone.
        let swept = lab.json(["sweep", "--json"]);
        let (left, none) = (swept["left_over"].to_string(), swept["no_process"].to_string());
        assert!(left.contains(&id) || none.contains(&id), "{point}: {swept}");
        assert!(lab.processes().is_empty(), "{point}: {:?}", lab.processes());
        match point {
            "claimed" => assert!(!lab.session_dir(&id).exists(), "nothing was ever said in it"),
            _ => assert_eq!(endings(&lab, &id), [(1, "\"lost\"".to_owned())], "{point}"),
        }
        innocent.assert_untouched();
    }
}

fn log_of(lab: &TestEnvironment, id: &str) -> String {
    lab.berth(["log", "--json", id]).out
}

#[test]
fn g3_a_session_whose_agent_ended_and_whose_end_is_not_recorded_yet_is_not_failed_by_a_sweep() {
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let id = lab.start(&["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let (keeper, agent) = (lab.process(&id, "keeper_pid"), lab.process(&id, "pid"));
    // The keeper has no chance to write down what it sees.
    signal(&keeper, Signal::STOP);
    wait_until("it to stand still", || process_stat(keeper.pid).is_ok_and(|stat| stat.state == 'T'));
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    for _ in 0..2 {
        let swept = lab.json(["sweep", "--json"]);
        assert_eq!(swept["alive"][0]["id"], id.as_str(), "{swept}");
        assert_eq!(
            (&swept["left_over"], &swept["no_process"]),
            (&Value::Array(vec![]), &Value::Array(vec![]))
        );
    }
    assert_eq!(lab.json(["ls", "--json"])[0]["state"], "running", "nothing else was observed");
    assert!(endings(&lab, &id).is_empty());
    signal(&keeper, Signal::CONT);
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 137);
    assert_eq!(endings(&lab, &id), [(1, r#"{"exited":{"signal":9}}"#.to_owned())]);
    innocent.assert_untouched();
}
