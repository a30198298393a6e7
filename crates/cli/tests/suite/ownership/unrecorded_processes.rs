//! G6: processes with a mark of ours and no record, and the attribution of a process.

use std::fs;
use std::process::{Command, Stdio};

use berth_harness::{ProcessKillGuard, TestEnvironment, wait_until};
use berth_host::identity::ProcessIdentity;
use serde_json::Value;

use crate::ownership::{AgentLookalike, StrayKillGuard, done, has_groups, is_alive, lab, written_down};

/// An id that was never minted.
const NOBODYS: &str = "zzzzzzzzzzzz";

/// Starts a process with this mark of a run, of no session.
fn start_stranger(lab: &TestEnvironment, mark: &str, home: Option<&std::path::Path>) -> ProcessKillGuard {
    let mut command = Command::new(lab.agent());
    command.args(["ignore:HUP,TERM", "hang"]).env("BERTH_RUN", mark).env_remove("BERTH_HOME");
    command.envs(home.map(|home| ("BERTH_HOME", home)));
    ProcessKillGuard::new(command.stdin(Stdio::null()).spawn().expect("it starts"))
}

/// The entry of a sweep for a process under one heading.
fn told(lab: &TestEnvironment, heading: &str, pid: u32, args: &[&str]) -> Option<Value> {
    let mut all = vec!["sweep", "--json"];
    all.extend(args);
    let swept = lab.json(all);
    let told = swept[heading].as_array().expect("a list").iter().find(|stranger| stranger["pid"] == pid);
    told.cloned()
}

fn whose(lab: &TestEnvironment, pid: u32) -> Value {
    lab.json(["why", "--json", "--pid", &pid.to_string()])
}

#[test]
fn g6_a_process_with_our_mark_and_no_record_is_told_once_as_new_and_never_ended() {
    let lab = lab();
    lab.ok(["ls"]);
    let stranger = start_stranger(&lab, &format!("{NOBODYS}:1"), Some(&lab.home()));
    let process = ProcessIdentity::of(stranger.pid()).expect("it runs");
    let pid = stranger.pid();
    // A dry run reports the process and remembers nothing.
    for dry in [&["--dry-run"][..], &["--dry-run"], &[]] {
        let first = told(&lab, "no_record", pid, dry).expect("it is told of");
        assert_eq!(first["is_new"], true, "{dry:?}: {first}");
        assert_eq!(first["uid"], rustix::process::geteuid().as_raw());
        assert!(first["guess"].as_str().is_some_and(|guess| guess.contains(NOBODYS)), "{first}");
        assert!(first["command"].as_str().is_some_and(|command| command.contains("fake-agent")), "{first}");
        let age = first["age_ms"].as_u64().expect("an age");
        assert!(age < 60_000, "{first}");
        assert!(first["why"].as_str().is_some_and(|why| why.contains("no record")), "{first}");
    }
    for _ in 0..2 {
        assert_eq!(told(&lab, "no_record", pid, &[]).expect("it is there")["is_new"], false);
    }
    let text = lab.ok(["sweep"]);
    assert!(text.contains(&format!("pid {pid} (")) && text.contains("is left alone"), "{text}");
    assert!(is_alive(&process));
    // Another process is new, even with the first one known.
    let another = start_stranger(&lab, &format!("{NOBODYS}:1"), None);
    assert_eq!(told(&lab, "no_record", another.pid(), &[]).expect("it is there")["is_new"], true);
    assert_eq!(told(&lab, "no_record", pid, &[]).expect("it is there")["is_new"], false);
}

#[test]
fn g6_a_user_at_a_terminal_is_told_of_a_stranger_once_by_any_command() {
    let lab = lab();
    let stranger = start_stranger(&lab, &format!("{NOBODYS}:1"), Some(&lab.home()));
    let mut first = lab.terminal(["ls"]);
    first.wait_exit();
    let named = format!("berth why --pid {}", stranger.pid());
    let flat = |text: String| text.replace('\n', "");
    assert!(flat(first.text()).contains(&named), "{}", first.text());
    crate::ownership::sweep::set_back(&lab.home().join("sweep.json"));
    let mut second = lab.terminal(["ls"]);
    second.wait_exit();
    assert!(!flat(second.text()).contains(&named), "{}", second.text());
}

#[test]
fn g6_a_mark_of_a_run_that_is_over_proves_too_little_to_end_a_process() {
    let lab = lab();
    let id = lab.start(&["say:ready", "hang"]);
    lab.ok(["stop", &id]);
    let stranger = start_stranger(&lab, &format!("{id}:1"), Some(&lab.home()));
    let process = ProcessIdentity::of(stranger.pid()).expect("it runs");
    let first = told(&lab, "cannot_tell", process.pid, &[]).expect("it is told of");
    assert_eq!(first["is_new"], true, "{first}");
    assert_eq!(told(&lab, "cannot_tell", process.pid, &[]).expect("it is told of")["is_new"], false);
    assert_eq!(whose(&lab, process.pid)["verdict"], "cannot-tell");
    for args in
        [&["show", &id][..], &["stop", &id], &["sweep"], &["resume", "-d", &id], &["sweep"], &["stop", &id]]
    {
        lab.ok(args);
        assert!(is_alive(&process), "{args:?}");
    }
}

#[test]
fn g6_a_group_without_a_record_is_kept_and_its_processes_are_reported() {
    if !has_groups() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let place = berth_host::cgroup::keeper_place().expect("a place");
    // An id of this test alone: others run beside it.
    let id = format!("zz{:010}", std::process::id());
    let group = place.path().parent().expect("a parent").join(format!("{id}.3"));
    fs::create_dir(&group).expect("a group");
    fs::write(group.join("cgroup.procs"), innocent.identity.pid.to_string()).expect("root may move it");
    let first = told(&lab, "no_record", innocent.identity.pid, &[]);
    let again = told(&lab, "no_record", innocent.identity.pid, &[]);
    let whose = whose(&lab, innocent.identity.pid);
    let kept = group.is_dir();
    innocent.assert_untouched();
    drop(innocent);
    wait_until("the group to be empty", || fs::remove_dir(&group).is_ok());
    let first = first.expect("it is told of");
    assert!(
        first["guess"].as_str().is_some_and(|guess| guess.contains(&id) && guess.contains("control group"))
    );
    assert_eq!((&first["is_new"], &again.expect("it is told of")["is_new"]), (&true.into(), &false.into()));
    assert_eq!((&whose["verdict"], &whose["epoch"]), (&"no-record".into(), &3.into()), "{whose}");
    assert!(kept, "a process without a record is not ours");
}

#[test]
fn g6_why_names_the_owner_of_a_process_and_the_planned_action() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    let pidfile = format!("pidfile:{}", pids.display());
    let mut script: Vec<&str> =
        vec!["child", "[", "child", "[", &pidfile, "setsid", "ignore:HUP,TERM", "hang", "]", "hang", "]"];
    // A process that carries nothing: only the kernel knows where it came from.
    let bare = lab.dir().join("bare");
    let bare_pidfile = format!("pidfile:{}", bare.display());
    script.extend([
        "child",
        "[",
        &bare_pidfile,
        "setsid",
        "close-all",
        "env-i",
        "ignore:HUP,TERM",
        "hang",
        "]",
    ]);
    script.extend(["ignore:HUP,TERM", "say:ready", "hang"]);
    let id = lab.start_with(&["--name", "mine"], &script);
    lab.wait_output(&id, "ready");
    let (keeper, agent) = (lab.process(&id, "keeper_pid"), lab.process(&id, "pid"));
    let (deep, bare) = (written_down(&pids, 1).remove(0), written_down(&bare, 1).remove(0));
    let expected =
        [(&keeper, "the lease names it"), (&agent, "above it"), (&deep, "above it"), (&bare, "above it")];
    for (process, evidence) in expected {
        let told = whose(&lab, process.pid);
        assert_eq!((&told["verdict"], &told["session"]), (&"ours".into(), &id.as_str().into()), "{told}");
        assert_eq!(told["name"], "mine");
        assert!(told["evidence"].to_string().contains(evidence), "{told}");
        assert!(told["planned_action"].to_string().contains("berth stop mine"), "{told}");
    }
    let facts = whose(&lab, deep.pid)["evidence"].to_string();
    assert!(facts.contains("holds the lock") && facts.contains("mark"), "{facts}");
    if has_groups() {
        assert!(facts.contains("control group of run 1"), "{facts}");
    }
    assert!(lab.ok(["why", "--pid", &agent.pid.to_string()]).contains("belongs to session mine"));

    // Another state directory does not take the process for its own, says where to look, and reports no stranger.
    let elsewhere = lab.dir().join("elsewhere");
    let from_there = |args: &[&str]| {
        let mut command = lab.command(args);
        command.env("BERTH_HOME", &elsewhere);
        let said = done(command);
        serde_json::from_str::<Value>(&said.out).unwrap_or_else(|_| panic!("no object: {said:?}"))
    };
    let swept = from_there(&["sweep", "--json"]);
    for process in [&keeper, &agent, &deep, &bare] {
        let told = from_there(&["why", "--json", "--pid", &process.pid.to_string()]);
        assert_eq!(told["verdict"], "elsewhere", "{told}");
        let look = format!("BERTH_HOME={} berth why --pid {}", lab.home().display(), process.pid);
        assert!(told["planned_action"].to_string().contains(&look), "{told}");
        for heading in ["no_record", "cannot_tell"] {
            let strangers = swept[heading].as_array().expect("a list");
            assert!(strangers.iter().all(|stranger| stranger["pid"] != process.pid), "{swept}");
        }
    }

    lab.kill_keeper(&id);
    let found = if has_groups() { vec![&agent, &deep, &bare] } else { vec![&agent, &deep] };
    for process in found {
        let told = whose(&lab, process.pid);
        assert_eq!(told["verdict"], "left-over", "{told}");
        assert!(told["planned_action"].to_string().contains("its keeper is gone"), "{told}");
        assert!(is_alive(process), "looking ends no process");
    }
    let stranger = start_stranger(&lab, &format!("{NOBODYS}:1"), Some(&lab.home()));
    wait_until("its mark", || whose(&lab, stranger.pid())["verdict"] == "no-record");
    let innocent = AgentLookalike::beside(&lab);
    assert_eq!(whose(&lab, innocent.identity.pid)["verdict"], "not-ours");
    assert_eq!(lab.show(&id)["state"], "lost");
    let _doomed = StrayKillGuard(vec![bare]);
    for process in [&keeper, &agent, &deep] {
        let gone = lab.berth(["why", "--pid", &process.pid.to_string()]);
        assert!(gone.code == 3 && gone.err.contains("process"), "{gone:?}");
    }
    innocent.assert_untouched();
    let mut gone = Command::new("true").spawn().expect("it starts");
    let pid = gone.id();
    gone.wait().expect("our own child");
    assert_eq!(lab.berth(["why", "--pid", &pid.to_string()]).code, 3);
    assert_eq!(lab.berth(["why"]).code, 2);
}
