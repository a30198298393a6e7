//! Processes that a dead keeper's run leaves behind are found by evidence and ended; bystanders are not.
//!
//! Not here: a process that closed every descriptor *and* cleared its environment. Only a control group proves that
//! such a process is ours (see `ownership/escapes.rs`, E3).

use berth_harness::{signal, wait_gone};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;

use crate::crash::{endings, lab, written_down};

const WAYS: [(&str, &[&str]); 6] = [
    ("a deaf child", &["ignore:HUP,TERM"]),
    ("a deaf session leader", &["ignore:HUP,TERM", "setsid"]),
    ("a daemon", &["ignore:HUP,TERM", "daemonise"]),
    ("an orphan without environment", &["ignore:HUP,TERM", "orphan", "env-i", "ignore:HUP,TERM"]),
    (
        "a session leader without environment or output",
        &["ignore:HUP,TERM", "setsid", "close", "env-i", "ignore:HUP,TERM"],
    ),
    (
        "a grandchild of a daemon",
        &["ignore:HUP,TERM", "daemonise", "child", "[", "setsid", "orphan", "hang", "]"],
    ),
];

fn script(pidfile: &str, way: &[&str]) -> Vec<String> {
    let mut script: Vec<&str> = vec!["ignore:HUP,TERM", pidfile, "child", "["];
    script.extend(way);
    script.extend(["hang", "]", "say:settled", "hang"]);
    script.into_iter().map(str::to_owned).collect()
}

#[test]
fn processes_that_outlive_a_killed_keeper_are_ended_by_the_next_command() {
    for (at, (what, way)) in WAYS.into_iter().enumerate() {
        const VERBS: [&str; 5] = ["resume", "show", "ls", "stop", "wait"];
        // Every way with one command, and the first with every command.
        let verbs = if at == 0 { &VERBS[..] } else { &VERBS[at % VERBS.len()..][..1] };
        for next in verbs.iter().copied() {
            let lab = lab();
            let pids = lab.dir().join("pids");
            let script = script(&format!("pidfile:{}", pids.display()), way);
            let id = lab.start(&script.iter().map(String::as_str).collect::<Vec<_>>());
            lab.wait_output(&id, "settled");
            let tree = written_down(&pids, 2);
            assert!(tree.len() >= 2, "{what}: {tree:?}");
            lab.kill_keeper(&id);
            for process in &tree {
                assert!(
                    matches!(process.check(), ProcessLiveness::Alive(_)),
                    "{what}: {process:?} should be deaf"
                );
            }
            match next {
                "ls" => drop(lab.json(["ls", "--json"])),
                "resume" => drop(lab.ok(["resume", "-d", &id])),
                verb => drop(lab.berth([verb, &id])),
            }
            for process in &tree {
                assert!(
                    matches!(process.check(), ProcessLiveness::Gone),
                    "{what} outlived `{next}`: {process:?}"
                );
            }
            assert_eq!(endings(&lab, &id)[0], (1, "\"lost\"".to_owned()), "{what}");
            if next == "resume" {
                lab.wait_output(&id, "settled");
                let again = written_down(&pids, tree.len() + 2);
                lab.ok(["stop", "--grace", "0s", &id]);
                again.iter().for_each(wait_gone);
            }
        }
    }
}

#[test]
fn a_living_keeper_ends_escaped_processes_at_stop() {
    for (what, way) in WAYS {
        let lab = lab();
        let pids = lab.dir().join("pids");
        let script = script(&format!("pidfile:{}", pids.display()), way);
        let id = lab.start(&script.iter().map(String::as_str).collect::<Vec<_>>());
        lab.wait_output(&id, "settled");
        let tree = written_down(&pids, 2);
        lab.ok(["stop", "--grace", "50ms", &id]);
        for process in &tree {
            assert!(
                matches!(process.check(), ProcessLiveness::Gone),
                "{what} outlived its session: {process:?}"
            );
        }
    }
}

#[test]
fn the_lab_sees_a_process_that_cleared_its_environment() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    let script = script(&format!("pidfile:{}", pids.display()), WAYS[3].1);
    let id = lab.start(&script.iter().map(String::as_str).collect::<Vec<_>>());
    lab.wait_output(&id, "settled");
    let without_environment = |process: &ProcessIdentity| {
        std::fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environment| environment.is_empty())
            && matches!(process.check(), ProcessLiveness::Alive(_))
    };
    let bare: Vec<_> = written_down(&pids, 3).into_iter().filter(without_environment).collect();
    let seen = lab.processes();
    assert!(bare.len() == 1 && seen.contains(&bare[0]), "{bare:?} is not in {seen:?}");
    lab.ok(["stop", "--grace", "0s", &id]);
}

#[test]
fn a_leftover_process_that_is_stopped_is_ended() {
    let lab = lab();
    let id = lab.start(&["ignore:HUP", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let agent = lab.process(&id, "pid");
    signal(&agent, Signal::STOP);
    lab.kill_keeper(&id);
    assert_eq!(lab.show(&id)["state"], "lost");
    assert!(matches!(agent.check(), ProcessLiveness::Gone));
}

#[test]
fn a_bystander_with_the_same_command_line_is_left_alone() {
    let lab = lab();
    let file = lab.dir().join("ready");
    let touch = format!("touch:{}", file.display());
    let script = ["ignore:HUP,TERM", &touch, "hang"];
    // Runs the same program with the same arguments, and even with a mark that is almost ours.
    let mut bystander = std::process::Command::new(lab.agent())
        .args(script)
        .env("BERTH_RUN", "another:1")
        .spawn()
        .expect("the agent starts");
    let innocent = ProcessIdentity::of(bystander.id()).expect("it runs");
    let id = lab.start(&script);
    berth_harness::wait_until("the agent to be deaf", || file.exists());
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    assert_eq!(lab.show(&id)["state"], "lost");
    assert!(matches!(agent.check(), ProcessLiveness::Gone));
    lab.ok(["resume", "-d", &id]);
    lab.ok(["stop", "--grace", "0s", &id]);
    assert!(matches!(innocent.check(), ProcessLiveness::Alive(_)), "an innocent process was ended");
    bystander.kill().expect("our own child");
    bystander.wait().expect("our own child");
}
