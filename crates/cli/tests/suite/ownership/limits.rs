//! E9: limits hold, and memory that ran out is told apart from a signal that another process sent.

use std::fs;
use std::path::PathBuf;

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::ownership::namespace::{WITHOUT_GROUPS, can_unshare, changed};
use crate::ownership::{AgentLookalike, done, has_groups, is_alive, lab, written_down};

/// Far more than the fake agent needs, and far less than it is told to use.
const MEMORY: &str = "32M";
const HOG: &str = "hog:256M";

/// True if this host can limit a run. If not, limits are refused, which is tested elsewhere.
fn can_limit(lab: &TestEnvironment) -> bool {
    let said =
        lab.berth(["run", "--max-memory", MEMORY, "--max-procs", "10", "--max-cpu", "1", "--", "true"]);
    if said.code != 0 {
        assert!(said.code == 1 && said.err.contains("cannot limit"), "{said:?}");
        eprintln!("SKIPPED: this host cannot limit a run: {}", said.err);
    }
    said.code == 0
}

/// The groups with the limits of a session's run: its own group, and those of version 1.
fn groups(lab: &TestEnvironment, id: &str) -> Vec<PathBuf> {
    let boundary = lab.show(id)["boundary"].clone();
    let old = boundary["limited_in"].as_array().cloned().unwrap_or_default();
    old.iter().chain([&boundary["cgroup"]]).filter_map(|path| path.as_str()).map(PathBuf::from).collect()
}

fn limit(lab: &TestEnvironment, id: &str, files: &[&str]) -> String {
    let paths = groups(lab, id);
    let mut read =
        files.iter().flat_map(|file| paths.iter().map(move |path| fs::read_to_string(path.join(file))));
    read.find_map(Result::ok).unwrap_or_else(|| panic!("none of {files:?} in {paths:?}")).trim().to_owned()
}

#[test]
fn e9_memory_that_ran_out_is_the_outcome_everywhere() {
    let lab = lab();
    if !can_limit(&lab) {
        return;
    }
    let innocent = AgentLookalike::beside(&lab);
    let id = lab
        .start_with(&["--name", "hungry", "--max-memory", MEMORY], &["say:ready", HOG, "say:full", "hang"]);
    let groups = groups(&lab, &id);
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 137);
    let shown = lab.show(&id);
    assert_eq!(
        (&shown["state"], &shown["oom"], &shown["exit"]),
        (&"stopped".into(), &true.into(), &137.into())
    );
    assert_eq!(shown["oom_kills"], 1, "{shown}");
    assert!(lab.ok(["ls"]).contains("out of memory"));
    assert!(lab.ok(["show", &id]).contains("out of memory"));
    assert!(lab.ok(["log", &id]).contains("agent killed: out of memory"));
    assert_eq!(lab.events(&id, "run_ended")[0]["outcome"], "out_of_memory");
    wait_until("the groups to go", || groups.iter().all(|group| !group.exists()));
    innocent.assert_untouched();
    // The next run has the same limit, and a new count.
    lab.ok(["resume", "-d", &id]);
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 137);
    assert_eq!((&lab.show(&id)["oom"], &lab.show(&id)["oom_kills"]), (&true.into(), &1.into()));
}

#[test]
fn e9_a_sigkill_from_outside_is_not_called_out_of_memory() {
    let lab = lab();
    if !can_limit(&lab) {
        return;
    }
    let id = lab.start_with(&["--max-memory", MEMORY], &["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    signal(&lab.process(&id, "pid"), Signal::KILL);
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 137);
    let shown = lab.show(&id);
    assert_eq!((&shown["oom"], &shown["signal"], &shown["oom_kills"]), (&false.into(), &9.into(), &0.into()));
    assert!(lab.events(&id, "oom_killed").is_empty());
    assert!(!lab.ok(["ls"]).contains("memory ran out") && !lab.ok(["log", &id]).contains("out of memory"));
}

#[test]
fn e9_a_child_that_memory_ran_out_for_is_told_and_is_not_the_outcome_of_the_agent_that_goes_on() {
    for end in ["kill -9", "stop", "exit"] {
        let lab = lab();
        if !can_limit(&lab) {
            return;
        }
        let (pids, go) = (lab.dir().join("pids"), lab.dir().join("go"));
        let (pidfile, wait) = (format!("pidfile:{}", pids.display()), format!("wait-file:{}", go.display()));
        let mut script = vec!["child", "[", &pidfile, &wait, HOG, "hang", "]"];
        // The agent only waits: a process that asks for memory when there is none may be killed for it as well.
        script.extend(["ignore:HUP,TERM", "say:ready", "expect:leave", "exit:5"]);
        let id = lab.start_with(&["--max-memory", MEMORY], &script);
        lab.wait_output(&id, "ready");
        let agent = lab.process(&id, "pid");
        let child = written_down(&pids, 1).remove(0);
        fs::write(format!("/proc/{}/oom_score_adj", child.pid), "1000").expect("every process may raise it");
        fs::write(&go, "").expect("a file");
        wait_gone(&child);
        // The keeper answers from its state, which follows the journal.
        wait_until("the count of kills", || lab.show(&id)["oom_kills"] == 1);
        let shown = lab.show(&id);
        assert_eq!((&shown["state"], &shown["oom"]), (&"running".into(), &false.into()));
        assert_eq!(lab.events(&id, "oom_killed").len(), 1);
        assert!(is_alive(&agent));
        let code = match end {
            "kill -9" => {
                // Long after the first killing, which counts as a cause no longer.
                wait_until("the killing to be history", || lab.log(&id).last().is_some_and(is_old));
                signal(&agent, Signal::KILL);
                137
            }
            "stop" => {
                lab.ok(["stop", "--grace", "0s", &id]);
                137
            }
            _ => {
                lab.ok(["input", "--enter", &id, "leave"]);
                5
            }
        };
        assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, code, "{end}");
        let shown = lab.show(&id);
        assert_eq!((&shown["oom"], &shown["oom_kills"]), (&false.into(), &1.into()), "{end}: {shown}");
        assert_eq!(lab.events(&id, "oom_killed").len(), 1, "{end}");
    }
}

/// True if an event is older than the time within which a killing by the kernel is taken for its cause.
fn is_old(event: &serde_json::Value) -> bool {
    let at: berth_api::Timestamp = serde_json::from_value(event["at"].clone()).expect("a time");
    berth_host::clock::wall_ms().saturating_sub(at.0) > 2500
}

#[test]
fn e9_the_limits_are_in_the_groups_of_the_run_and_hold() {
    let lab = lab();
    if !can_limit(&lab) {
        return;
    }
    let options = ["--max-memory", "64M", "--max-procs", "12", "--max-cpu", "0.5"];
    let id = lab.start_with(&options, &["say:ready", "loop", "[", "child", "[", "hang", "]", "]"]);
    // One fork too many is refused, and the agent says so.
    assert_eq!(lab.berth(["wait", &id, "--for", "output:cannot fork", "--timeout", "60s"]).code, 0);
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 91);

    let id = lab.start_with(&options, &["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    assert_eq!(limit(&lab, &id, &["memory.max", "memory.limit_in_bytes"]), (64 << 20).to_string());
    assert_eq!(limit(&lab, &id, &["pids.max"]), "12");
    let cpu = limit(&lab, &id, &["cpu.max", "cpu.cfs_quota_us"]);
    assert!(["50000 100000", "50000"].contains(&cpu.as_str()), "{cpu}");
    let agent = lab.number(&id, "pid").to_string();
    for path in groups(&lab, &id) {
        let members = fs::read_to_string(path.join("cgroup.procs")).expect("a group");
        assert!(
            members.lines().any(|pid| pid == agent),
            "{} does not hold the agent: {members}",
            path.display()
        );
    }
    let why = lab.ok(["why", &id]);
    assert!(why.contains("67108864 bytes of memory, 12 processes and threads, 50 % of a core"), "{why}");
    assert_eq!(lab.show(&id)["limits"]["processes"], 12);
    let groups = groups(&lab, &id);
    lab.ok(["stop", "--grace", "0s", &id]);
    wait_until("the groups to go", || groups.iter().all(|group| !group.exists()));
}

#[test]
fn e9_groups_of_a_limited_run_are_removed_after_the_keeper_was_killed() {
    let lab = lab();
    if !can_limit(&lab) {
        return;
    }
    let id = lab
        .start_with(&["--max-memory", MEMORY, "--max-procs", "9"], &["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let groups = groups(&lab, &id);
    assert!(!groups.is_empty());
    lab.kill_keeper(&id);
    assert!(groups.iter().all(|group| group.exists()));
    lab.ok(["sweep"]);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[test]
fn e9_a_limit_that_the_host_cannot_hold_is_refused_and_leaves_nothing() {
    if !can_unshare() || !has_groups() {
        return;
    }
    let lab = lab();
    let place = berth_host::cgroup::keeper_place().expect("a place");
    let top = place.path().parent().expect("a parent").to_owned();
    let mine = |lab: &TestEnvironment| {
        // Other tests make and remove groups here all the time; ours would have our mark in it.
        let ids: Vec<_> = fs::read_dir(lab.home().join("sessions")).expect("a directory").collect();
        ids.len()
    };
    // No groups at all; no controllers but the group itself.
    let only_ours = "for it in memory pids cpu; do umount /sys/fs/cgroup/$it; done";
    for (host, script) in [("without groups", WITHOUT_GROUPS), ("without controllers", only_ours)] {
        for option in [["--max-memory", "64M"], ["--max-procs", "5"], ["--max-cpu", "1"]] {
            let [flag, value] = option;
            let name = format!("n{}", flag.len());
            let before = names_in(&top);
            let args = ["run", "-d", "--name", &name, flag, value, "--", "true"];
            let said = done(changed(&lab, script, &args));
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{host}: {said:?}");
            assert!(said.err.contains("cannot limit the") && said.err.contains("hint:"), "{host}: {said:?}");
            assert_eq!(mine(&lab), 0, "{host}: no session is left");
            assert_eq!(lab.berth(["show", &name]).code, 3, "{host}: and no name");
            let fresh: Vec<_> = names_in(&top).into_iter().filter(|name| !before.contains(name)).collect();
            assert!(fresh.iter().all(|name| !is_abandoned(&top.join(name))), "{host}: {fresh:?}");
        }
        // Without limits it runs there, with less to hold it.
        let plain = done(changed(&lab, script, &["run", "--", "true"]));
        assert_eq!(plain.code, 0, "{host}: {plain:?}");
        for id in fs::read_dir(lab.home().join("sessions")).expect("a directory").flatten() {
            fs::remove_dir_all(id.path()).expect("it is over");
        }
    }
}

fn names_in(dir: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a directory").flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// True if a group that others may have made stays empty for longer than a group in use would.
fn is_abandoned(group: &std::path::Path) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::time::Instant::now() < until {
        let empty =
            fs::read_to_string(group.join("cgroup.events")).is_ok_and(|text| text.contains("populated 0"));
        if !empty {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn e9_an_invalid_limit_is_a_usage_error() {
    let lab = lab();
    for (flag, values) in [
        ("--max-memory", &["", "0", "lots", "-1G", "4X", "12"][..]),
        ("--max-procs", &["", "0", "-1", "many", "1.5"]),
        ("--max-cpu", &["", "0", "-1", "fast", "%"]),
    ] {
        for value in values {
            let said = lab.berth(["run", "-d", &format!("{flag}={value}"), "--", "true"]);
            assert_eq!(said.code, 2, "{flag}={value}: {said:?}");
        }
    }
    assert!(lab.json(["ls", "--all", "--json"]).as_array().is_some_and(Vec::is_empty));
}
