//! How a session is named: names, keys, ids, prefixes, and the pointers behind them.

use std::process::Stdio;

use berth_harness::{TestEnvironment, said, wait_until};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// The files in a directory of the lab's home.
fn files(lab: &TestEnvironment, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(lab.home().join(dir)).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_name_in_use_is_refused_and_names_its_session() {
    let lab = lab();
    let id = lab.start_with(&["--name", "mine"], &["hang"]);
    let other = lab.start(&["hang"]);
    let refused = lab.berth(["run", "-d", "--name", "mine", "--", "true"]);
    let renamed = lab.berth(["rename", &other, "mine"]);
    for said in [refused, renamed] {
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(
            said.err.contains("`mine`") && said.err.contains(&id) && said.err.contains("hint:"),
            "{said:?}"
        );
    }
    assert_eq!(files(&lab, "sessions").len(), 2, "no half-made session");
    assert_eq!(lab.show("mine")["id"], id.as_str());
    assert_ne!(lab.show(&other)["name"], "mine");
    lab.ok(["stop", &id]);
    assert_eq!(lab.berth(["rename", &other, "mine"]).code, 1, "a stopped session keeps its name");
}

#[test]
fn a_name_that_cannot_be_one_is_a_usage_error() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let too_long = "n".repeat(65);
    for bad in ["", ".", "..", "a/b", "../up", "-x", "two words", "naïve", "tab\t", &too_long] {
        for args in [vec!["run", "-d", "--name", bad, "--", "true"], vec!["rename", "--", &id, bad]] {
            let said = lab.berth(&args);
            assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
        }
    }
    assert_eq!(files(&lab, "sessions").len(), 1);
    assert_eq!(files(&lab, "names").len(), 1, "only the name that berth chose");
    lab.ok(["rename", &id, &"n".repeat(64)]);
}

#[test]
fn a_session_is_renamed_while_it_runs_and_after() {
    let lab = lab();
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    lab.ok(["rename", "one", "two"]);
    assert_eq!(lab.show("two")["id"], id.as_str());
    assert_eq!(lab.berth(["show", "one"]).code, 3, "the old name is gone");
    lab.ok(["stop", "two"]);
    lab.ok(["rename", "two", "three"]);
    lab.ok(["rename", "three", "three"]);
    assert_eq!(lab.show("three")["id"], id.as_str());
    assert_eq!(lab.json(["ls", "--json"])[0]["name"], "three");
    assert_eq!(files(&lab, "names"), ["three"]);
    assert!(lab.ok(["log", &id]).contains("renamed to `three`"));
    lab.ok(["resume", "-d", "three"]);
    assert_eq!(lab.show("three")["state"], "running");
    let reuse = lab.start_with(&["--name", "one"], &["hang"]);
    assert_eq!(lab.show("one")["id"], reuse.as_str(), "a name that was given up is free");
}

#[test]
fn a_session_whose_keeper_died_can_be_renamed() {
    let lab = lab();
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    let keeper = lab.process(&id, "keeper_pid");
    berth_harness::signal(&keeper, rustix::process::Signal::KILL);
    berth_harness::wait_gone(&keeper);
    lab.ok(["rename", "one", "two"]);
    assert_eq!(
        (lab.show("two")["id"].as_str(), lab.show("two")["state"].as_str()),
        (Some(&*id), Some("lost"))
    );
}

#[test]
fn a_stale_pointer_is_not_a_name() {
    let lab = lab();
    let id = lab.start_with(&["--name", "real"], &["hang"]);
    // Pointers that a crash between the two steps of claiming a name could leave, and damaged ones
    // that berth never writes.
    for (name, content) in
        [("other", id.as_str()), ("gone", "000000000000"), ("empty", ""), ("odd", "\u{0}\u{7f}")]
    {
        std::fs::write(lab.home().join("names").join(name), content).expect("a file");
        assert_eq!(lab.berth(["show", name]).code, 3, "{name}");
        let new = lab.start_with(&["--name", name], &["hang"]);
        assert_eq!(lab.show(name)["id"], new.as_str(), "{name} was free");
    }
    assert_eq!(lab.show("real")["id"], id.as_str());
}

#[test]
fn a_unique_beginning_is_enough_and_an_ambiguous_one_lists_the_candidates() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    assert_eq!(lab.show(&id[..3])["id"], id.as_str());
    // Ids are random; a second one with the same beginning is made by hand.
    let flip = |c: char| if c == 'a' { 'b' } else { 'a' };
    let twin: String = id[..11].chars().chain([flip(id.chars().last().expect("an id"))]).collect();
    std::fs::create_dir(lab.session_dir(&twin)).expect("a directory");
    let said = lab.berth(["show", &id[..6]]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains(&id) && said.err.contains(&twin) && said.err.contains("type more"), "{said:?}");
    assert_eq!(lab.berth(["stop", &id[..6]]).code, 3);
    assert_eq!(lab.show(&id)["state"], "running", "an ambiguous stop stops nothing");
}

#[test]
fn a_whole_id_means_its_session_whatever_others_are_called() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let other = lab.start(&["hang"]);
    lab.ok(["rename", &other, &id]);
    assert_eq!(lab.show(&id)["id"], id.as_str());
    lab.ok(["rename", &other, &id[..4]]);
    assert_eq!(lab.show(&id[..4])["id"], other.as_str(), "a name is meant before the beginning of an id");
}

#[test]
fn a_repeated_run_with_a_key_is_the_same_session_whatever_became_of_it() {
    let lab = lab();
    let agent = lab.agent();
    let run = |options: &[&str]| {
        let mut args = vec!["run", "--key", "pr/42: \u{fc}"];
        args.extend(options);
        args.extend(["--", &agent, "say:done", "expect:go", "exit:5"]);
        lab.berth(args)
    };
    let first = run(&["-d"]).out;
    assert_eq!(run(&["-d"]).out, first);
    lab.ok(["input", first.trim(), "--enter", "go"]);
    let followed = run(&[]);
    assert_eq!(followed.code, 5, "{followed:?}");
    assert!(followed.out.starts_with("done"), "{followed:?}");
    assert_eq!(run(&["-d"]).out, first, "also when it is over: the work was done");
    assert_eq!(files(&lab, "sessions").len(), 1);
    let other = lab.berth(["run", "-d", "--key", "pr/42: \u{fc}", "--", &agent, "hang"]);
    assert_eq!((other.code, other.out.as_str()), (1, ""), "{other:?}");
    assert!(other.err.contains("runs something else"), "{other:?}");
}

#[test]
fn twenty_runs_with_one_key_at_once_are_one_session() {
    let lab = lab();
    let agent = lab.agent();
    let args = ["run", "-d", "--key", "same", "--", &agent, "hang"];
    let started: Vec<_> =
        (0..20).map(|_| lab.command(args).stdout(Stdio::piped()).spawn().expect("berth")).collect();
    let said: Vec<_> =
        started.into_iter().map(|child| said(child.wait_with_output().expect("it ends"))).collect();
    assert!(said.iter().all(|one| one.code == 0 && one.out == said[0].out), "{said:?}");
    assert_eq!(files(&lab, "sessions"), [said[0].out.trim()]);
}

#[test]
fn of_twenty_runs_with_one_name_at_once_one_wins_and_the_others_are_told_which() {
    let lab = lab();
    let agent = lab.agent();
    // The pointer left by a command that was killed between pointer and session.
    lab.ok(["ls"]);
    std::fs::write(lab.home().join("names").join("same"), "000000000000").expect("a stale pointer");
    let args = ["run", "-d", "--name", "same", "--", &agent, "hang"];
    let command = || lab.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let started: Vec<_> = (0..20).map(|_| command().expect("berth")).collect();
    let said: Vec<_> =
        started.into_iter().map(|child| said(child.wait_with_output().expect("it ends"))).collect();
    let won: Vec<&str> = said.iter().filter(|one| one.code == 0).map(|one| one.out.trim()).collect();
    let [winner] = won[..] else { panic!("{said:?}") };
    let refusal = format!("the name `same` is in use by session {winner}");
    for lost in said.iter().filter(|one| one.code != 0) {
        assert!(lost.code == 1 && lost.out.is_empty() && lost.err.contains(&refusal), "{lost:?}");
    }
    assert_eq!(files(&lab, "sessions"), [winner]);
    assert_eq!(files(&lab, "names"), ["same"]);
}

#[test]
fn a_rename_and_runs_that_want_both_names_at_once_leave_each_name_with_one_session() {
    let lab = lab();
    let agent = lab.agent();
    for seed in 0..6 {
        let (old, new) = (format!("old-{seed}"), format!("new-{seed}"));
        let id = lab.start_with(&["--name", &old], &["hang"]);
        let run = |name| vec!["run", "-d", "--name", name, "--", &agent, "hang"];
        let mut all = [vec!["rename", &id, &new], run(&*old), run(&*new)];
        all.rotate_left(seed % 3);
        let commands: Vec<_> = all
            .iter()
            .map(|args| {
                lab.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth")
            })
            .collect();
        let mut said: Vec<_> =
            commands.into_iter().map(|child| said(child.wait_with_output().expect("it ends"))).collect();
        said.rotate_right(seed % 3);
        let [renamed, took_old, took_new] = &said[..] else { panic!("three commands") };
        let taken = |said: &berth_harness::CommandOutput| said.out.trim().to_owned();
        assert!((renamed.code == 0) != (took_new.code == 0), "seed {seed}: {said:?}");
        assert!(renamed.code == 0 || took_old.code != 0, "seed {seed}: {said:?}");
        let has_new = if renamed.code == 0 { id.clone() } else { taken(took_new) };
        assert_eq!(lab.show(&new)["id"], has_new.as_str(), "seed {seed}: {said:?}");
        let has_old = match (renamed.code, took_old.code) {
            (0, 0) => Some(taken(took_old)),
            (0, _) => None,
            (_, _) => Some(id.clone()),
        };
        match has_old {
            Some(id) => assert_eq!(lab.show(&old)["id"], id.as_str(), "seed {seed}: {said:?}"),
            None => assert_eq!(lab.berth(["show", &old]).code, 3, "seed {seed}: {said:?}"),
        }
    }
}

#[test]
fn a7_a_name_read_while_it_is_moved_is_wholly_old_or_wholly_new() {
    let lab = lab();
    let id = lab.start_with(&["--name", "left"], &["hang"]);
    let pointers = ["left", "right"].map(|name| lab.home().join("names").join(name));
    let mover = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            for _ in 0..15 {
                lab.ok(["rename", &id, "right"]);
                lab.ok(["rename", &id, "left"]);
            }
        });
        while !moving.is_finished() {
            for pointer in &pointers {
                let read = std::fs::read_to_string(pointer);
                assert!(read.as_ref().is_err() || read.as_deref().ok() == Some(&id), "{read:?}");
            }
            // The reader gets the session or "no such name", never another answer.
            let said = lab.berth(["show", "left", "--json"]);
            assert!(matches!(said.code, 0 | 3), "{said:?}");
        }
        moving.join()
    });
    mover.expect("every rename succeeded");
    assert_eq!(files(&lab, "names"), ["left"]);
}

#[test]
fn a_keeper_that_dies_on_its_way_leaves_no_name_without_an_owner() {
    let lab = lab();
    let agent = lab.agent();
    for point in ["claimed", "starting", "spawned", "started"] {
        let mut run = lab.command(["run", "-d", "--name", "n", "--key", "k", "--", &agent, "hang"]);
        let failed = said(run.env("BERTH_KILLPOINT", point).output().expect("berth"));
        assert_eq!((failed.code != 0, failed.out.as_str()), (true, ""), "{point}: {failed:?}");
        // Either there is a session of that name, or the name is free. Never two sessions of one name.
        let again = lab.berth(["run", "-d", "--name", "n", "--", &agent, "hang"]);
        let all = lab.json(["ls", "--all", "--json"]);
        let named = all.as_array().expect("an array").iter().filter(|status| status["name"] == "n").count();
        assert_eq!(named, 1, "{point}: {again:?}\n{all}");
        let keyed = lab.berth(["run", "-d", "--key", "k", "--", &agent, "hang"]);
        // A repeated `run` reports a failure for a session that was lost before its command was seen to run.
        let was_lost = matches!(point, "starting" | "spawned");
        assert_eq!((keyed.code, keyed.out.is_empty()), (i32::from(was_lost), was_lost), "{point}: {keyed:?}");
        assert_eq!(keyed.err.contains("before its command was seen to run"), was_lost, "{point}: {keyed:?}");
        let all = lab.json(["ls", "--all", "--json"]);
        let keyed = all.as_array().expect("an array").iter().filter(|status| status["key"] == "k").count();
        assert_eq!(keyed, 1, "{point}: {all}");
        for status in all.as_array().expect("an array") {
            lab.ok(["stop", status["id"].as_str().expect("an id")]);
        }
        wait_until("the end of all", || lab.processes().is_empty());
        std::fs::remove_dir_all(lab.home()).expect("the state directory");
    }
}

#[test]
fn a_session_without_a_name_is_named_after_its_directory_with_a_number_if_that_is_in_use() {
    let lab = lab();
    let dir = lab.dir().join("My Project");
    std::fs::create_dir(&dir).expect("a directory");
    let cwd = dir.to_str().expect("UTF-8");
    let ids: Vec<String> = (0..3).map(|_| lab.start_with(&["--cwd", cwd], &["hang"])).collect();
    let names: Vec<_> = ids.iter().map(|id| lab.show(id)["name"].clone()).collect();
    assert_eq!(names, ["my-project", "my-project-2", "my-project-3"]);
    assert_eq!(lab.show("my-project-2")["id"], ids[1].as_str(), "the name finds it");
    let refused = lab.berth(["run", "-d", "--name", "my-project", "--", "true"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    lab.ok(["rename", "my-project-2", "other"]);
    let next = lab.start_with(&["--cwd", cwd], &["hang"]);
    let name = lab.show(&next)["name"].clone();
    assert!(name == "my-project-2" || name == "my-project-4", "a free one: {name}");
    let failed = lab.berth(["run", "-d", "--cwd", cwd, "--", "/no/such/program"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert_eq!(files(&lab, "names").len(), 4, "a session that did not start has no name");
}

#[test]
fn forty_sessions_that_start_at_once_without_names_get_forty_names() {
    let lab = lab();
    let started: Vec<_> = (0..40)
        .map(|_| lab.command(["run", "-d", "--", "true"]).stdout(Stdio::piped()).spawn().expect("berth"))
        .collect();
    for child in started {
        let said = said(child.wait_with_output().expect("it ends"));
        assert_eq!(said.code, 0, "{said:?}");
    }
    let all = lab.json(["ls", "--all", "--json"]);
    let mut names: Vec<_> = all
        .as_array()
        .expect("an array")
        .iter()
        .map(|status| status["name"].as_str().expect("a name"))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 40);
    assert_eq!(files(&lab, "names").len(), 40);
}

#[test]
fn a_prompt_names_its_session_and_a_fork_is_named_after_it() {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let id = lab.ok(["run", "-d", "--agent", "fake", "--prompt", "Fix the login test, please"]);
    assert_eq!(lab.show(&id)["name"], "fix-the-login-test-please");
    lab.ok(["wait", &id, "--for", "idle", "--timeout", "60s"]);
    let again = lab.ok(["run", "-d", "--agent", "fake", "--prompt", "Fix the login test, please"]);
    assert_eq!(lab.show(&again)["name"], "fix-the-login-test-please-2");
    let forks = ["fix-the-login-test-please-fork", "fix-the-login-test-please-fork-2"];
    for name in forks {
        lab.ok(["fork", &id]);
        assert!(lab.show(name)["name"] == name);
    }
    let status = lab.show(&id);
    assert_eq!(status["last_prompt"], "Fix the login test, please");
    assert!(status["last_answer"].is_string(), "{status}");
    assert_eq!(
        status["policy"]["idle_ms"],
        30 * 60 * 1000,
        "an agent that takes turns does not stay for ever"
    );
    let never = lab.ok(["run", "-d", "--agent", "fake", "--idle", "never"]);
    assert!(lab.show(&never)["policy"]["idle_ms"].is_null());
    let command = lab.ok(["run", "-d", "--", "sleep", "1000"]);
    assert!(lab.show(&command)["policy"]["idle_ms"].is_null(), "a command takes no turns");
}

#[test]
fn a_mistyped_session_names_the_one_that_is_spelled_alike() {
    let lab = lab();
    let id = lab.start_with(&["--name", "fix-login"], &["hang"]);
    for args in [vec!["show", "fix-lgoin"], vec!["stop", "fix-logn"], vec!["result", "fixlogin"]] {
        let said = lab.berth(&args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("did you mean `fix-login`?"), "{said:?}");
    }
    let said = lab.berth(["show", "something-else"]);
    assert!(said.code == 3 && !said.err.contains("did you mean"), "{said:?}");
    let said = lab.berth(["result", "fix-login"]);
    assert!(said.err.contains("`fix-login`") && !said.err.contains(&id), "the name that was typed: {said:?}");
}

#[test]
fn stop_archive_tag_restore_and_purge_take_the_conditions_of_ls() {
    let lab = lab();
    for name in ["job-1", "job-2", "other"] {
        lab.start_with(&["--name", name], &["hang"]);
    }
    let state = |name: &str| lab.show(name)["state"].as_str().expect("a state").to_owned();
    for verb in ["stop", "archive", "restore", "purge"] {
        let said =
            lab.berth([verb, "--name", "jbo*", "--yes"][..if verb == "restore" { 3 } else { 4 }].to_vec());
        assert_eq!((said.code, said.out.as_str()), (3, ""), "{verb}: {said:?}");
        assert!(said.err.contains("no session matches"), "{said:?}");
    }
    assert_eq!(lab.berth(["tag", "--name", "jbo*", "x"]).code, 3);
    lab.ok(["tag", "--name", "job*", "nightly"]);
    assert_eq!(lab.ok(["tag", "job-2"]), "nightly");
    assert_eq!(lab.ok(["tag", "other"]), "");
    let unasked = lab.berth(["stop", "--tag", "nightly"]);
    assert_eq!(unasked.code, 7, "the sessions were not named: {unasked:?}");
    assert_eq!(state("job-1"), "running");
    let said = lab.berth(["stop", "--tag", "nightly", "--yes"]);
    assert!(said.code == 0 && said.err.contains("job-1: stopped by you"), "{said:?}");
    assert_eq!([state("job-1"), state("job-2"), state("other")], ["stopped", "stopped", "running"]);
    assert_eq!(lab.berth(["stop", "--tag", "nightly", "--yes"]).code, 0, "nothing of them runs");
    assert_eq!(lab.berth(["archive", "--name", "*", "--yes"]).code, 4, "one of them runs");
    assert_eq!([state("job-1"), state("job-2"), state("other")], ["archived", "archived", "running"]);
    lab.ok(["restore", "--tag", "nightly"]);
    assert_eq!(state("job-2"), "stopped");
    lab.ok(["purge", "--name", "job-?", "--yes"]);
    assert_eq!(lab.berth(["show", "job-1"]).code, 3);
    assert_eq!(lab.berth(["stop", "other", "--name", "x"]).code, 2, "named or matched");
}

#[test]
fn a_session_stands_for_its_current_or_latest_turn() {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "fix"]);
    let none = lab.berth(["result", "fix"]);
    assert!(none.code == 3 && none.err.contains("`fix` has no turns"), "{none:?}");
    lab.ok(["send", "fix", "say:first", "--wait"]);
    lab.ok(["send", "fix", "say:second", "--wait"]);
    let result = lab.json(["result", "fix", "--json"]);
    assert_eq!(result["number"], 2);
    assert_eq!(lab.json(["turn", "fix", "--json"])["turn"], format!("{id}.2"));
    let gate = lab.dir().join("gate");
    lab.ok(["send", "fix", &format!("wait-file:{}", gate.display())]);
    lab.ok(["send", "fix", "say:behind"]);
    wait_until("the agent has it", || lab.show("fix")["turns"]["current"] == format!("{id}.3").as_str());
    assert_eq!(lab.json(["turn", "fix", "--json"])["number"], 3, "the current one, not the latest");
    let cancelled = lab.berth(["cancel", "fix"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert!(cancelled.err.contains("turn fix.3 ") && !cancelled.err.contains(&id), "{cancelled:?}");
    let said = lab.berth(["cancel", "nothing-like-it"]);
    assert_eq!(said.code, 3, "{said:?}");
}

#[test]
fn a_session_named_before_conditions_is_not_taken_for_a_tag() {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let fix = lab.start_with(&["--name", "fix"], &["hang"]);
    let other = lab.start_with(&["--name", "other", "--tag", "bug"], &["hang"]);
    let said = lab.berth(["tag", "fix", "--tag", "bug"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("to tag `fix`: `berth tag fix bug`"), "{said:?}");
    assert_eq!(lab.show(&other)["tags"], serde_json::json!(["bug"]));
    assert_eq!(lab.show(&fix)["tags"], serde_json::json!([]));
    lab.ok(["tag", "urgent", "--tag", "bug"]);
    assert_eq!(lab.show(&other)["tags"], serde_json::json!(["bug", "urgent"]));
}
