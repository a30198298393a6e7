//! E3, B9 and B10: processes that do everything to get away from their session.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::ownership::namespace::{WITHOUT_GROUPS, can_unshare, changed, inside_pid_namespace};
use crate::ownership::{
    AgentLookalike, StrayKillGuard, done, endings, group_of, has_groups, is_alive, is_gone, lab, written_down,
};

/// All ways to escape at once: a session leader, a daemon, a process without environment, one without environment and
/// without any descriptor, one that holds the terminal, and one that is another process by the time a scan has looked.
/// The last leaves a dead process each millisecond, which is why these tests bring a process 1 that collects them.
const ESCAPES: [&[&str]; 6] = [
    &["ignore:HUP,TERM,INT", "setsid", "hang"],
    &["ignore:HUP,TERM,INT", "daemonise", "hang"],
    &["ignore:HUP,TERM,INT", "orphan", "env-i", "ignore:HUP,TERM,INT", "hang"],
    &BARE,
    &["ignore:HUP,TERM,INT", "orphan", "child", "[", "say:holding", "hang", "]", "hang"],
    &["ignore:HUP,TERM,INT", "setsid", "loop", "[", "orphan", "sleep:1", "]"],
];

/// A process that carries nothing of ours: no lock, no mark, no parent, no terminal.
const BARE: [&str; 7] =
    ["ignore:HUP,TERM,INT", "setsid", "close-all", "orphan", "env-i", "ignore:HUP,TERM,INT", "hang"];

fn pids(lab: &TestEnvironment) -> PathBuf {
    lab.dir().join("pids")
}

/// An agent with these children, itself deaf as well.
fn agent_with(lab: &TestEnvironment, children: &[&[&str]]) -> Vec<String> {
    let pidfile = format!("pidfile:{}", pids(lab).display());
    let mut script = vec!["ignore:HUP,TERM,INT", &pidfile];
    for child in children {
        script.extend(["child", "["]);
        script.extend(*child);
        script.push("]");
    }
    script.extend(["say:settled", "hang"]);
    script.into_iter().map(str::to_owned).collect()
}

/// Starts the agent with a control group or without; returns the session and all its processes.
fn start(lab: &TestEnvironment, children: &[&[&str]], with_group: bool) -> (String, StrayKillGuard) {
    let script = agent_with(lab, children);
    let agent = lab.agent();
    let mut args = vec!["run", "-d", "--", &agent];
    args.extend(script.iter().map(String::as_str));
    let said = if with_group { lab.berth(&args) } else { done(changed(lab, WITHOUT_GROUPS, &args)) };
    assert_eq!(said.code, 0, "{said:?}");
    let id = said.out.trim().to_owned();
    lab.wait_output(&id, "settled");
    assert_eq!(group_of(lab, &id).is_some(), with_group);
    let tree = written_down(&pids(lab), children.len() + 1);
    assert!(tree.len() >= 2, "{tree:?}");
    (id, StrayKillGuard(tree))
}

fn is_removed(group: &Path) -> bool {
    !group.exists()
}

#[test]
fn e3_everything_a_session_started_ends_with_it_however_it_tried_to_get_away() {
    inside_pid_namespace(
        "ownership::escapes::e3_everything_a_session_started_ends_with_it_however_it_tried_to_get_away",
        || {
            if !has_groups() {
                return;
            }
            let lab = lab();
            let innocent = AgentLookalike::beside(&lab);
            let (id, tree) = start(&lab, &ESCAPES, true);
            let group = group_of(&lab, &id).expect("a group");
            let said = lab.berth(["stop", "--grace", "50ms", &id]);
            assert_eq!(said.code, 0, "{said:?}");
            assert!(tree.iter().all(is_gone), "{tree:?}");
            assert!(is_removed(&group), "the group of an ended run is gone, and so no process is in it");
            wait_until("the keeper to leave", || lab.processes().is_empty());
            assert_eq!(lab.show(&id)["state"], "stopped");
            innocent.assert_untouched();
        },
    );
}

#[test]
fn e3_without_control_groups_the_keeper_ends_all_of_that_as_well_and_why_says_what_is_missing() {
    inside_pid_namespace(
        "ownership::escapes::e3_without_control_groups_the_keeper_ends_all_of_that_as_well_and_why_says_what_is_missing",
        || {
            let lab = lab();
            let innocent = AgentLookalike::beside(&lab);
            let (id, tree) = start(&lab, &ESCAPES, false);
            let why = lab.ok(["why", &id]);
            assert!(why.contains("no control group (no cgroup hierarchy"), "{why}");
            assert!(
                why.contains("killed with -9") && why.contains("may be missed"),
                "the consequence is named: {why}"
            );
            let said = lab.berth(["stop", "--grace", "50ms", &id]);
            assert_eq!(said.code, 0, "{said:?}");
            assert!(tree.iter().all(is_gone), "{tree:?}");
            wait_until("the keeper to leave", || lab.processes().is_empty());
            innocent.assert_untouched();
        },
    );
}

#[test]
fn e3_a_process_that_carries_nothing_of_ours_is_found_by_its_group_after_the_keeper_was_killed() {
    if !has_groups() {
        return;
    }
    for next in ["show", "ls", "sweep", "stop", "resume"] {
        let lab = lab();
        let innocent = AgentLookalike::beside(&lab);
        let (id, tree) = start(&lab, &[&BARE], true);
        let group = group_of(&lab, &id).expect("a group");
        let agent = lab.process(&id, "pid");
        lab.kill_keeper(&id);
        // Only the process without any mark is left, with no parent of ours.
        signal(&agent, Signal::KILL);
        wait_gone(&agent);
        let bare: Vec<_> = tree.iter().filter(|process| is_alive(process)).collect();
        assert_eq!(bare.len(), 1, "{tree:?}");
        let before = lab.json(["sweep", "--dry-run", "--json"]);
        assert!(is_alive(bare[0]), "a dry run ends no process");
        assert!(before["left_over"].to_string().contains(&format!("pid {}", bare[0].pid)), "{before}");
        let said = match next {
            "resume" => lab.berth(["resume", "-d", &id]),
            "ls" | "sweep" => lab.berth([next]),
            _ => lab.berth([next, &id]),
        };
        assert_eq!(said.code, 0, "{next}: {said:?}");
        assert!(is_gone(bare[0]), "{next} did not end it");
        assert!(is_removed(&group), "{next} left the group behind");
        assert_eq!(endings(&lab, &id)[0], (1, "\"lost\"".to_owned()), "{next}");
        innocent.assert_untouched();
        lab.ok(["stop", "--grace", "0s", &id]);
    }
}

#[test]
fn e3_a_storm_of_forks_is_ended_after_the_keeper_was_killed() {
    inside_pid_namespace(
        "ownership::escapes::e3_a_storm_of_forks_is_ended_after_the_keeper_was_killed",
        || {
            if !has_groups() {
                return;
            }
            let lab = lab();
            let innocent = AgentLookalike::beside(&lab);
            let (id, tree) = start(&lab, &ESCAPES, true);
            let group = group_of(&lab, &id).expect("a group");
            lab.kill_keeper(&id);
            let shown = lab.show(&id);
            assert_eq!(shown["state"], "lost", "{shown}");
            assert!(tree.iter().all(is_gone), "{tree:?}");
            assert!(is_removed(&group));
            assert!(lab.processes().is_empty(), "{:?}", lab.processes());
            innocent.assert_untouched();
        },
    );
}

/// Without control groups less is promised, and `why` says so beforehand (see above).
#[test]
fn e3_without_control_groups_one_that_carries_nothing_is_missed_after_kill_9_and_why_had_said_so() {
    if !can_unshare() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let (id, tree) = start(&lab, &[&BARE, &["ignore:HUP,TERM", "daemonise", "hang"]], false);
    let why = lab.ok(["why", &id]);
    assert!(
        why.contains("a process that cleared its environment and closed its files may be missed"),
        "{why}"
    );
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    let bare: Vec<_> = tree.iter().filter(|process| is_alive(process) && is_bare(process)).collect();
    assert_eq!(bare.len(), 1);
    assert_eq!(lab.show(&id)["state"], "lost");
    let whose = lab.json(["why", "--json", "--pid", &bare[0].pid.to_string()]);
    assert_eq!(whose["verdict"], "not-ours", "nothing is guessed: {whose}");
    assert!(is_alive(bare[0]), "{whose}");
    innocent.assert_untouched();
    signal(bare[0], Signal::KILL);
    wait_gone(bare[0]);
    assert!(lab.processes().is_empty(), "all other processes were found: {:?}", lab.processes());
}

fn is_bare(process: &ProcessIdentity) -> bool {
    std::fs::read(format!("/proc/{}/environ", process.pid)).is_ok_and(|environment| environment.is_empty())
}

#[test]
fn b9_the_next_run_begins_only_when_the_last_one_that_ignored_everything_is_proven_dead() {
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let script = agent_with(&lab, &[&["ignore:HUP,TERM,INT", "setsid", "hang"]]);
    let agent = lab.agent();
    let mut args = vec!["run", "--name", "b9", "--", &agent];
    args.extend(script.iter().map(String::as_str));
    let mut window = lab.terminal(args);
    window.wait_for("settled");
    let old = written_down(&pids(&lab), 2);
    assert!(old.len() >= 2 && old.iter().all(is_alive));
    window.signal(Signal::KILL);
    window.wait_exit();
    assert_eq!(lab.show("b9")["state"], "running", "the window was only a window");

    // While the run is being ended no command starts the next one, however long that takes.
    let mut patient = lab.command(["stop", "--grace", "1h", "b9"]);
    let patient = patient.stderr(Stdio::null()).spawn().expect("berth starts");
    wait_until("the stop to be on record", || lab.show("b9")["state"] == "stopping");
    let refused = lab.berth(["resume", "-d", "b9"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(old.iter().all(is_alive), "and its refusal ended no process");

    // From the moment the run is killed: a command that succeeds finds no process of the last run.
    let mut deadly = lab.command(["stop", "--grace", "50ms", "b9"]);
    let deadly = deadly.stderr(Stdio::null()).spawn().expect("berth starts");
    wait_until("the next run to begin", || {
        let said = lab.berth(["resume", "-d", "b9"]);
        assert!(
            said.code == 0
                || old.iter().any(is_alive)
                || lab.events("b9", "run_ended").len() == 1
                || said.code == 4,
            "{said:?}"
        );
        assert!(said.code != 0 || old.iter().all(is_gone), "it began beside the last one: {old:?}");
        said.code == 0
    });
    assert_eq!(endings(&lab, "b9"), [(1, r#"{"exited":{"signal":9}}"#.to_owned())]);
    assert_eq!(lab.events("b9", "kill_ordered").len(), 1);
    // Both stops asked for the end of run 1 and were told of it, or of the next one that had begun by then.
    for stop in [patient, deadly] {
        let code = berth_harness::wait_child(stop);
        assert!([0, 4].contains(&code), "{code}");
    }
    innocent.assert_untouched();
    lab.ok(["stop", "--grace", "0s", "b9"]);
}

#[test]
fn b10_an_agent_whose_command_line_says_nothing_is_found_because_it_is_ours() {
    for killed in [false, true] {
        let lab = lab();
        let innocent = AgentLookalike::beside(&lab);
        let pidfile = format!("pidfile:{}", pids(&lab).display());
        // The process has another name, and no variable left that could say more.
        let script = format!(
            "exec -a vim {} {pidfile} ignore:HUP,TERM env-i ignore:HUP,TERM say:up hang",
            lab.agent()
        );
        let id = lab.ok(["run", "-d", "--", "bash", "-c", &script]);
        lab.wait_output(&id, "up");
        let agent = written_down(&pids(&lab), 1).remove(0);
        let line = std::fs::read(format!("/proc/{}/cmdline", agent.pid)).expect("it runs");
        assert!(!String::from_utf8_lossy(&line).contains(&id) && is_bare(&agent));
        if killed {
            lab.kill_keeper(&id);
            assert_eq!(lab.show(&id)["state"], "lost");
        } else {
            lab.ok(["stop", "--grace", "50ms", &id]);
        }
        assert!(is_gone(&agent), "killed: {killed}");
        innocent.assert_untouched();
    }
}
