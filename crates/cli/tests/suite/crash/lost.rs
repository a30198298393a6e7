//! A lost run: B2, B4, G1, H5, and neighbours that must not notice.

use berth_harness::{SeededRng, signal, wait_gone, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;

use crate::crash::{endings, lab, written_down};

/// F1: after a crash, `resume --last` offers the session that was cut off, this directory's first.
#[test]
fn f1_the_session_that_was_cut_off_here_is_offered_first() {
    let lab = lab();
    let (here, there) = (lab.dir().join("here"), lab.dir().join("there"));
    for dir in [&here, &there] {
        std::fs::create_dir(dir).expect("a directory");
    }
    let start = |name: &str, dir: &std::path::Path| {
        lab.start_with(&["--name", name, "--cwd", &dir.display().to_string()], &["say:up", "hang"]);
        lab.wait_output(name, "up");
    };
    lab.ok(["run", "-q", "--name", "done", "--", "true"]);
    start("cut-off-here", &here);
    start("stopped-here", &here);
    start("cut-off-there", &there);
    lab.ok(["stop", "stopped-here"]);
    for name in ["cut-off-here", "cut-off-there"] {
        lab.kill_keeper(name);
    }
    let resume = |dir: &std::path::Path| {
        let output =
            lab.command(["resume", "--last", "-d", "--json"]).current_dir(dir).output().expect("berth runs");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a session");
        said["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!(resume(&here), "cut-off-here");
    assert_eq!(resume(&here), "cut-off-there", "cut off elsewhere comes before stopped here");
    assert_eq!(resume(&here), "stopped-here");
    let none = lab.berth(["resume", "--last"]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(
        none.err.contains("`berth resume done` runs it again"),
        "a finished run is not repeated: {none:?}"
    );
    assert_eq!(lab.show("done")["epoch"], 1);
    // A session that failed by itself is not lost.
    assert_eq!(lab.berth(["run", "-q", "--name", "failed", "--", "false"]).code, 1);
    assert_eq!(resume(&here), "failed");
}

#[test]
fn b2_a_session_whose_keeper_was_killed_is_resumed_at_once_without_cleaning_up() {
    let lab = lab();
    let id = lab.start_with(&["--name", "again"], &["say:ready", "hang"]);
    for epoch in 2..6 {
        let keeper = lab.process(&id, "keeper_pid");
        signal(&keeper, Signal::KILL);
        // No command looks in between: the dead keeper's socket and lease are still lying there.
        wait_gone(&keeper);
        let resumed = lab.json(["resume", "-d", "--json", "again"]);
        assert_eq!(resumed["epoch"], epoch);
        assert_eq!(resumed["state"], "running");
        assert_ne!(resumed["keeper_pid"], keeper.pid);
        lab.wait_output(&id, "ready");
    }
    let lost: Vec<_> = (1..5).map(|epoch| (epoch, "\"lost\"".to_owned())).collect();
    assert_eq!(endings(&lab, &id), lost);
}

#[test]
fn b2_of_many_concurrent_resumes_of_a_lost_session_one_starts_it() {
    let lab = lab();
    let id = lab.start(&["say:ready", "hang"]);
    for epoch in 2..5 {
        lab.kill_keeper(&id);
        let resumers: Vec<_> = (0..6)
            .map(|_| {
                let mut command = lab.command(["resume", "-d", &id]);
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
                command.spawn().expect("berth starts")
            })
            .collect();
        let said: Vec<_> = resumers
            .into_iter()
            .map(|child| berth_harness::said(child.wait_with_output().expect("our own child")))
            .collect();
        let mut codes: Vec<_> = said.iter().map(|said| said.code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 4, 4, 4, 4, 4], "{said:?}");
        assert_eq!(lab.number(&id, "epoch"), epoch);
        assert_eq!(lab.events(&id, "run_starting").len() as u32, epoch);
    }
}

#[test]
fn b4_a_child_that_inherited_everything_does_not_hold_the_lease_of_a_dead_keeper() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    let pidfile = format!("pidfile:{}", pids.display());
    let id = lab.start(&["child", "[", "ignore:HUP,TERM", &pidfile, "hang", "]", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let children = written_down(&pids, 1);
    assert_eq!(children.len(), 1);
    lab.kill_keeper(&id);
    assert!(matches!(children[0].check(), ProcessLiveness::Alive(_)), "the child is deaf to HUP and lives");
    // Looking changes nothing: the lease is free although the child is there.
    let why = lab.json(["why", "--json", &id]);
    let facts = why["evidence"].to_string();
    assert_eq!(why["state"], "lost");
    assert!(
        facts.contains("free: there is no keeper") && facts.contains("held: a process of the run is alive"),
        "{facts}"
    );
    assert!(matches!(children[0].check(), ProcessLiveness::Alive(_)));
    let resumed = lab.json(["resume", "-d", "--json", &id]);
    assert_eq!((&resumed["epoch"], &resumed["state"]), (&2.into(), &"running".into()));
    assert!(matches!(children[0].check(), ProcessLiveness::Gone), "the next run began beside the last one");
}

#[test]
fn g1_waiting_watching_and_new_work_notice_a_killed_keeper_by_themselves() {
    let lab = lab();
    let id = lab.start_with(&["--name", "g1", "--key", "k"], &["say:ready\n", "hang"]);
    let spawn = |args: &[&str]| {
        let mut command = lab.command(args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("berth starts")
    };
    let waiters = [
        spawn(&["wait", &id]),
        spawn(&["wait", &id, "--for", "output:never"]),
        spawn(&["wait", &id, "--timeout", "1h", "--json"]),
        spawn(&["log", &id, "--follow"]),
        spawn(&["output", &id, "--follow"]),
        spawn(&["stop", &id, "--grace", "1h"]),
    ];
    // The stop is the last to arrive, and the agent does not end by it within the hour.
    let deaf = lab.start(&["ignore:TERM,HUP", "say:ready", "hang"]);
    lab.wait_output(&deaf, "ready");
    let stopper = spawn(&["stop", &deaf, "--grace", "1h"]);
    wait_until("the stop to be on record", || lab.show(&deaf)["state"] == "stopping");
    lab.kill_keeper(&deaf);
    let said = berth_harness::said(stopper.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "it is proven over, which is what was asked: {said:?}");
    assert_eq!(lab.show(&deaf)["state"], "lost");

    let said: Vec<_> = {
        if let Ok(keeper) =
            ProcessIdentity::of(lab.show(&id)["keeper_pid"].as_u64().map_or(0, |pid| pid as u32))
        {
            signal(&keeper, Signal::KILL);
        }
        waiters
            .into_iter()
            .map(|child| berth_harness::said(child.wait_with_output().expect("our own child")))
            .collect()
    };
    for waiter in &said[..3] {
        assert_ne!(waiter.code, 0, "{said:?}");
    }
    assert!(["lost", "stopped"].contains(&lab.show(&id)["state"].as_str().expect("a state")));
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
    let next = lab.start(&["say:more work", "hang"]);
    lab.wait_output(&next, "more work");
    assert_eq!(lab.json(["resume", "-d", "--json", "g1"])["state"], "running");
}

#[test]
fn g1_wait_on_a_killed_keeper_returns_with_the_loss() {
    let lab = lab();
    let id = lab.start(&["say:ready\n", "hang"]);
    lab.wait_output(&id, "ready");
    let mut wait = lab.command(["wait", &id]);
    let wait = wait.stderr(std::process::Stdio::piped()).spawn().expect("berth starts");
    let keeper = lab.process(&id, "keeper_pid");
    signal(&keeper, Signal::KILL);
    let said = berth_harness::said(wait.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("keeper died") && said.err.contains("berth resume"), "{said:?}");
    assert_eq!(lab.show(&id)["state"], "lost");
    assert_eq!(lab.berth(["wait", &id]).code, 1, "and so does every later one");
}

#[test]
fn h5_the_agents_last_word_counts_as_activity_before_and_after_a_crash() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = lab.start(&["say:early\n", &wait, "say:late\n", "hang"]);
    lab.wait_output(&id, "early");
    let activity = || lab.show(&id)["last_activity_at"].as_str().expect("a time").to_owned();
    let before = activity();
    std::fs::write(&go, "").expect("a file");
    lab.wait_output(&id, "late");
    let mut files = std::fs::read_dir(lab.session_dir(&id).join("output")).expect("there is output");
    let file =
        files.find_map(|file| file.ok().filter(|file| file.path().extension() == Some("out".as_ref())));
    let written = file.expect("an output file").metadata().and_then(|data| data.modified()).expect("a time");
    let written = written.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let written = berth_api::Timestamp(u64::try_from(written).expect("it fits")).to_string();
    assert!(written > before, "the words came at {written}, which is not after {before}");
    assert_eq!(activity(), written, "no event has happened since");
    lab.kill_keeper(&id);
    assert!(activity() >= written, "{} is before the last output at {written}", activity());
    assert_eq!(lab.ok(["output", &id]), "early\r\nlate\r");
}

#[test]
fn twenty_sessions_do_not_notice_when_the_keepers_of_others_are_killed() {
    let lab = lab();
    let mut seed = SeededRng::announce("twenty");
    let starters: Vec<_> = (0..20)
        .map(|_| {
            let mut command = lab.command(["run", "-d", "--", &lab.agent(), "raw", "say:ready", "echo"]);
            command.stdout(std::process::Stdio::piped()).spawn().expect("berth starts")
        })
        .collect();
    let ids: Vec<String> = starters
        .into_iter()
        .map(|child| {
            berth_harness::said(child.wait_with_output().expect("our own child")).out.trim().to_owned()
        })
        .collect();
    let before: Vec<_> = ids.iter().map(|id| lab.show(id)).collect();
    let (mut killed, mut alive) = (Vec::new(), Vec::new());
    for (at, id) in ids.iter().enumerate() {
        if seed.below(2) == 0 {
            signal(&lab.process(id, "keeper_pid"), Signal::KILL);
            killed.push(at);
        } else {
            alive.push(at);
        }
    }
    for at in &killed {
        wait_until("the loss", || lab.show(&ids[*at])["state"] == "lost");
    }
    for at in &alive {
        let now = lab.show(&ids[*at]);
        for fact in ["state", "pid", "keeper_pid", "epoch"] {
            assert_eq!(now[fact], before[*at][fact]);
        }
        lab.ok(["input", &ids[*at], "<alive>"]);
        lab.wait_output(&ids[*at], "<alive>");
    }
    let listed = lab.json(["ls", "--all", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(20));
    let running: Vec<_> =
        listed.as_array().into_iter().flatten().filter(|it| it["state"] == "running").collect();
    assert_eq!(running.len(), alive.len());
    // The keepers and agents of the living sessions, and no other process.
    assert_eq!(lab.processes().len(), 2 * alive.len());
    let mut stop = vec!["stop"];
    stop.extend(ids.iter().map(String::as_str));
    lab.ok(stop);
}
