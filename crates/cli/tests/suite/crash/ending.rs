//! Ends: E7, F10, signals to the keeper, and stops that come early.

use berth_harness::{SeededRng, signal, wait_gone, wait_until};
use berth_host::identity::ProcessLiveness;
use rustix::process::Signal;

use crate::crash::{endings, lab, written_down};

#[test]
fn e7_an_agent_that_ignores_term_is_killed_after_the_grace_and_proven_gone() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    let pidfile = format!("pidfile:{}", pids.display());
    let id = lab.start(&[
        "ignore:TERM,HUP,INT",
        &pidfile,
        "child",
        "[",
        "setsid",
        "hang",
        "]",
        "say:ready",
        "hang",
    ]);
    lab.wait_output(&id, "ready");
    let tree = written_down(&pids, 2);
    let began = std::time::Instant::now();
    let said = lab.berth(["stop", &id, "--grace", "300ms"]);
    assert_eq!(said.code, 0, "{said:?}");
    let took = began.elapsed();
    assert!(took >= std::time::Duration::from_millis(300), "it was given its grace");
    assert!(took < std::time::Duration::from_secs(15), "and no more than that: {took:?}");
    for process in &tree {
        assert!(matches!(process.check(), ProcessLiveness::Gone), "{process:?}");
    }
    assert_eq!(lab.events(&id, "kill_ordered").len(), 1);
    assert_eq!(endings(&lab, &id), [(1, r#"{"exited":{"signal":9}}"#.to_owned())]);
    assert_eq!(lab.show(&id)["exit"], 137);
}

#[test]
fn e7_an_agent_that_obeys_is_not_killed_and_a_stopped_one_is_woken_to_obey() {
    let lab = lab();
    for stopped in [false, true] {
        let id = lab.start(&["say:ready", "hang"]);
        lab.wait_output(&id, "ready");
        if stopped {
            let agent = lab.process(&id, "pid");
            signal(&agent, Signal::STOP);
            wait_until("it to stand still", || {
                berth_host::identity::process_stat(agent.pid).is_ok_and(|stat| stat.state == 'T')
            });
        }
        lab.ok(["stop", &id, "--grace", "1h"]);
        assert!(lab.events(&id, "kill_ordered").is_empty());
        assert_eq!(lab.show(&id)["exit"], 143);
    }
}

#[test]
fn f10_an_agent_that_ends_at_the_very_moment_it_is_killed_ends_once() {
    let lab = lab();
    let mut seed = SeededRng::announce("f10");
    for round in 0..25 {
        let grace_ms = 20 + seed.below(15);
        let sleep = format!("sleep:{}", 15 + seed.below(25));
        let script = format!(
            "trap '{} {sleep} exit:4; exit 4' TERM; echo ready; while :; do read -t 1 x; done",
            lab.agent()
        );
        let id = lab.ok(["run", "-d", "--", "bash", "-c", &script]);
        lab.wait_output(&id, "ready");
        let keeper = lab.process(&id, "keeper_pid");
        let stop = lab.berth(["stop", &id, "--grace", &format!("{grace_ms}ms"), "--json"]);
        assert_eq!(stop.code, 0, "round {round}: {stop:?}");
        wait_gone(&keeper);
        let ended = lab.events(&id, "run_ended");
        assert_eq!(ended.len(), 1, "round {round}: {:#?}", lab.log(&id));
        let (own, killed) = (lab.events(&id, "agent_exited").len(), lab.events(&id, "kill_ordered").len());
        assert!(own == 1 && killed <= 1, "round {round}: {:#?}", lab.log(&id));
        let exit = lab.show(&id)["exit"].as_i64();
        assert!([Some(4), Some(137)].contains(&exit), "round {round}: {exit:?}");
        assert_eq!(
            lab.berth(["wait", &id]).code,
            exit.expect("a code") as i32,
            "round {round}: everyone hears the same"
        );
    }
}

#[test]
fn f10_stop_sigterm_a_natural_end_and_kill_9_of_the_agent_at_once_end_a_run_once() {
    let lab = lab();
    let mut seed = SeededRng::announce("f10 all");
    for round in 0..20 {
        let sleep = format!("sleep:{}", seed.below(15));
        let id = lab.start(&["say:ready", &sleep, "exit:4"]);
        let (keeper, agent) = match (lab.show(&id)["keeper_pid"].as_u64(), lab.show(&id)["pid"].as_u64()) {
            (Some(keeper), Some(agent)) => (keeper as u32, agent as u32),
            _ => continue,
        };
        let identities = [keeper, agent].map(berth_host::identity::ProcessIdentity::of);
        let stops: Vec<_> = (0..2)
            .map(|_| {
                let mut stop = lab.command(["stop", "--grace", "5ms", &id]);
                stop.stderr(std::process::Stdio::null()).spawn().expect("berth starts")
            })
            .collect();
        for (identity, kind) in identities.iter().zip([Signal::TERM, Signal::KILL]) {
            seed.dawdle(5_000);
            if let Ok(identity) = identity {
                signal(identity, kind);
            }
        }
        for stop in stops {
            assert_eq!(berth_harness::wait_child(stop), 0, "round {round}");
        }
        if let Ok(keeper) = &identities[0] {
            wait_gone(keeper);
        }
        assert_eq!(lab.events(&id, "run_ended").len(), 1, "round {round}: {:#?}", lab.log(&id));
        assert_eq!(lab.show(&id)["state"], "stopped");
    }
}

#[test]
fn sigterm_to_the_keeper_ends_the_session_in_order() {
    let lab = lab();
    let id = lab.start(&["say:ready\n", "hang"]);
    lab.wait_output(&id, "ready");
    let keeper = lab.process(&id, "keeper_pid");
    let mut wait = lab.command(["wait", &id]).spawn().expect("berth starts");
    signal(&keeper, Signal::TERM);
    wait_gone(&keeper);
    assert_eq!(wait.wait().expect("our own child").code(), Some(143));
    let shown = lab.show(&id);
    assert_eq!(shown["state"], "stopped");
    assert_eq!(shown["stopped_by"]["place"], "SIGTERM to the keeper");
    assert!(lab.processes().is_empty());
    assert_eq!(lab.json(["resume", "-d", "--json", &id])["epoch"], 2);
}

#[test]
fn hup_int_quit_pipe_and_the_stop_keys_mean_nothing_to_a_keeper() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "echo"]);
    lab.wait_output(&id, "ready");
    let before = lab.show(&id);
    let keeper = lab.process(&id, "keeper_pid");
    for kind in
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::PIPE, Signal::TSTP, Signal::TTIN, Signal::TTOU]
    {
        signal(&keeper, kind);
        let mark = format!("<{}>", kind.as_raw());
        lab.ok(["input", &id, &mark]);
        lab.wait_output(&id, &mark);
    }
    let after = lab.show(&id);
    for fact in ["state", "pid", "keeper_pid", "epoch"] {
        assert_eq!(after[fact], before[fact]);
    }
    // The agent inherits none of that: its signals are as a shell would set them.
    let id = lab.start(&["report", "hang"]);
    lab.wait_output(&id, "signals_ignored");
    let output = lab.output(&id);
    let report: serde_json::Value = serde_json::from_slice(output.trim_ascii()).expect("a report");
    assert_eq!(report["signals_blocked"], "0000000000000000");
    // Only PIPE, which the agent's own runtime ignores.
    assert_eq!(report["signals_ignored"], "0000000000001000");
}

#[test]
fn a_stop_that_comes_while_the_session_starts_ends_it_or_comes_too_early() {
    let lab = lab();
    let mut seed = SeededRng::announce("early stop");
    let agent = lab.agent();
    for round in 0..25 {
        let name = format!("early-{round}");
        let run = lab
            .command(["run", "-d", "--name", &name, "--", &agent, "hang"])
            .stdout(std::process::Stdio::null())
            .spawn();
        let run = run.expect("berth starts");
        seed.dawdle(10_000);
        let stop = lab.berth(["stop", &name]);
        let started = berth_harness::wait_child(run);
        assert_eq!(started, 0, "round {round}");
        match stop.code {
            // The stop came before the session existed: then the session runs.
            3 => assert_eq!(lab.show(&name)["state"], "running", "round {round}"),
            0 => assert_eq!(lab.show(&name)["state"], "stopped", "round {round}: {:#?}", lab.log(&name)),
            _ => panic!("round {round}: {stop:?}"),
        }
        lab.ok(["stop", &name]);
        assert_eq!(lab.events(&name, "run_ended").len(), 1, "round {round}");
        assert!(lab.events(&name, "run_started").len() <= 1, "round {round}");
    }
    assert!(
        lab.processes().is_empty() || {
            wait_until("the keepers to leave", || lab.processes().is_empty());
            true
        }
    );
}
