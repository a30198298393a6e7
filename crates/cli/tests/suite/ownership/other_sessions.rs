//! E5, G5 and sessions inside sessions: clearing up one session does not disturb its neighbours.

use std::process::{Command, Stdio};

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::ownership::{AgentLookalike, BERTH, endings, group_of, has_groups, is_alive, is_gone, lab};

#[test]
fn e5_when_one_session_ends_and_a_sweep_runs_the_other_and_an_operators_shell_are_untouched() {
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let mut operator = Command::new("sh");
    operator.args(["-c", "trap 'echo signalled' HUP INT TERM; echo there; read line; echo $line"]);
    let mut operator = operator.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    let script = ["ignore:HUP,TERM", "raw", "say:ready", "echo", "hang"];
    let (one, other) = (lab.start(&script), lab.start(&script));
    for id in [&one, &other] {
        lab.wait_output(id, "ready");
    }
    let (before, log) = (lab.show(&other), lab.log(&other));
    for round in ["stopped", "killed"] {
        let agent = lab.process(&one, "pid");
        if round == "stopped" {
            lab.ok(["stop", "--grace", "0s", &one]);
        } else {
            lab.kill_keeper(&one);
        }
        let swept = lab.json(["sweep", "--json"]);
        assert!(is_gone(&agent), "{round}: {swept}");
        assert_eq!(swept["alive"].as_array().map(Vec::len), Some(1), "{round}: {swept}");
        assert_eq!(swept["alive"][0]["id"], other.as_str(), "{round}");
        assert_eq!(swept["left_over"].as_array().map(Vec::len), Some((round == "killed").into()), "{swept}");
        let now = lab.show(&other);
        for fact in ["state", "pid", "keeper_pid", "epoch"] {
            assert_eq!(now[fact], before[fact], "{round}");
        }
        assert_eq!(lab.log(&other), log, "{round}: nothing happened to it");
        if round == "stopped" {
            lab.ok(["resume", "-d", &one]);
            lab.wait_output(&one, "ready");
        }
    }
    lab.ok(["input", &other, "<alive>"]);
    lab.wait_output(&other, "<alive>");
    innocent.assert_untouched();
    use std::io::Write;
    operator.stdin.take().expect("piped").write_all(b"still here\n").expect("it reads");
    let said = operator.wait_with_output().expect("our own child");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "there\nstill here\n");
}

#[test]
fn g5_a_session_whose_window_and_keeper_are_gone_is_shown_as_lost_with_the_way_back_and_never_dropped() {
    let lab = lab();
    let agent = lab.agent();
    let mut window = lab.terminal(["run", "--name", "g5", "--", &agent, "say:ready", "hang"]);
    window.wait_for("ready");
    let keeper = lab.process("g5", "keeper_pid");
    window.close();
    signal(&keeper, Signal::KILL);
    wait_gone(&keeper);
    let waited = lab.berth(["wait", "g5"]);
    assert!(waited.code == 1 && waited.err.contains("berth resume g5"), "{waited:?}");
    let swept = lab.ok(["sweep"]);
    for _ in 0..2 {
        let listed = lab.json(["ls", "--json"]);
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{swept}");
        assert_eq!((&listed[0]["state"], &listed[0]["name"]), (&"lost".into(), &"g5".into()));
        assert!(lab.ok(["why", "g5"]).contains("berth resume"));
        lab.ok(["sweep"]);
    }
    assert_eq!(lab.json(["resume", "-d", "--json", "g5"])["epoch"], 2);
    window.wait_exit();
}

/// A session with another one inside; the inner one's processes.
fn nested(lab: &TestEnvironment) -> Vec<ProcessIdentity> {
    let agent = lab.agent();
    let script = format!(
        "{BERTH} run -d --name inner -- {agent} ignore:HUP,TERM say:inner hang && \
         exec {agent} ignore:HUP,TERM say:both hang"
    );
    lab.ok(["run", "-d", "--name", "outer", "--", "sh", "-c", &script]);
    lab.wait_output("outer", "both");
    lab.wait_output("inner", "inner");
    vec![lab.process("inner", "keeper_pid"), lab.process("inner", "pid")]
}

fn cgroup_of(process: &ProcessIdentity) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).expect("it runs");
    text.lines().find_map(|line| line.strip_prefix("0::")).expect("version 2").to_owned()
}

#[test]
fn a_session_inside_a_session_has_a_group_of_its_own_and_outlives_the_killing_of_the_outer_one() {
    if !has_groups() {
        return;
    }
    for way in ["stop", "kill -9", "sweep"] {
        let lab = lab();
        let inner = nested(&lab);
        let outer = group_of(&lab, "outer").expect("a group");
        let name = outer.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(inner.iter().all(|process| !cgroup_of(process).contains(&name)), "{name}");
        assert!(cgroup_of(&inner[0]).ends_with("/berth/keepers"), "{}", cgroup_of(&inner[0]));
        let agent = lab.process("outer", "pid");
        match way {
            "stop" => drop(lab.ok(["stop", "--grace", "0s", "outer"])),
            _ => lab.kill_keeper("outer"),
        }
        match way {
            "kill -9" => assert_eq!(lab.show("outer")["state"], "lost"),
            _ => drop(lab.ok(["sweep"])),
        }
        assert!(is_gone(&agent), "{way}");
        assert!(inner.iter().all(is_alive), "{way} ended what is of the inner session");
        assert_eq!(lab.show("inner")["state"], "running", "{way}");
        // The group goes with the last process of its run, wherever the inner session came from.
        wait_until("the outer group to go", || !outer.exists());
        lab.ok(["stop", "--grace", "0s", "inner"]);
        assert_eq!(endings(&lab, "inner").len(), 1);
    }
}

#[test]
fn leftovers_of_an_inner_keeper_are_ended_and_the_living_outer_session_is_not() {
    let lab = lab();
    let inner = nested(&lab);
    let innocent = AgentLookalike::beside(&lab);
    let outer = [lab.process("outer", "keeper_pid"), lab.process("outer", "pid")];
    lab.kill_keeper("inner");
    assert!(is_alive(&inner[1]), "the outer keeper adopts it");
    assert_eq!(lab.show("inner")["state"], "lost");
    assert!(is_gone(&inner[1]));
    assert!(outer.iter().all(is_alive));
    assert_eq!(lab.show("outer")["state"], "running");
    innocent.assert_untouched();
    lab.ok(["stop", "--grace", "0s", "outer"]);
}
