//! Deleting, which only `purge` does: after a yes, whole, and nothing else.

use std::path::PathBuf;
use std::process::Stdio;

use berth_harness::{CommandOutput, SeededRng, TestEnvironment, said};
use serde_json::json;

use crate::life::{archived, finish, lab, lab_with_agent, rounds, spawn, state, stopped};

/// The names in a directory of the lab's home; none if it is not there.
fn files(lab: &TestEnvironment, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(lab.home().join(dir)).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// Everything below a directory, with its length.
fn tree(dir: PathBuf) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let file = entry.metadata().expect("it is there");
        if file.is_dir() { found.extend(tree(entry.path())) } else { found.push((entry.path(), file.len())) }
    }
    found.sort();
    found
}

fn purge_dying_at(lab: &TestEnvironment, point: &str, args: &[&str]) -> CommandOutput {
    let args = [&["purge", "--yes"], args].concat();
    said(lab.command(args).env("BERTH_KILLPOINT", point).output().expect("berth starts"))
}

#[test]
fn a_purged_session_is_gone_with_its_name_and_key_and_nothing_else_is() {
    let lab = lab_with_agent();
    let (work, other) = (lab.dir().join("work"), stopped(&lab, "other"));
    std::fs::create_dir(&work).expect("a directory");
    std::fs::write(work.join("mine.txt"), "mine").expect("a file");
    let cwd = work.display().to_string();
    let run = ["run", "-d", "--agent", "fake", "--name", "bot", "--key", "k", "--cwd", &cwd];
    let id = lab.ok(run);
    assert_eq!(lab.ok(["send", "bot", "--wait", "hello"]), "ECHO: hello");
    lab.ok(["archive", "--stop", "bot"]);
    // A link to somewhere else is deleted, and not what it points to.
    std::os::unix::fs::symlink(&work, lab.session_dir(&id).join("link")).expect("a link");
    let untouched = |lab: &TestEnvironment| {
        let kept = ["store", "work", "home/conversations"].map(|dir| tree(lab.dir().join(dir)));
        (kept, lab.log(&other).len(), files(lab, "helpers"))
    };
    let before = untouched(&lab);
    let dry = lab.json(["purge", "bot", "--dry-run", "--json"]);
    assert_eq!((&dry[0]["id"], &dry[0]["purged"]), (&json!(id), &json!(false)));
    assert!(lab.ok(["purge", "bot", "--dry-run"]).contains("archived"), "it says what would go");
    assert_eq!(state(&lab, "bot"), "archived", "a dry run deletes nothing");
    let purged = lab.json(["purge", "bot", "--yes", "--json"]);
    assert_eq!(
        (&purged[0]["name"], &purged[0]["key"], &purged[0]["purged"]),
        (&json!("bot"), &json!("k"), &json!(true))
    );
    assert!(purged[0]["bytes"].as_u64().expect("a number") > 0);
    assert!(!lab.session_dir(&id).exists());
    assert_eq!(untouched(&lab), before, "nothing else was touched");
    assert_eq!((files(&lab, "names"), files(&lab, "keys")), (vec!["other".to_owned()], vec![]));
    assert_eq!(files(&lab, "purging"), Vec::<String>::new());
    for verb in ["show", "log", "resume", "restore", "archive", "purge"] {
        assert_eq!(lab.berth([verb, &id]).code, 3, "{verb}");
    }
    let again = lab.ok(run);
    assert_ne!(again, id, "the key is free, and so is the name");
}

#[test]
fn without_a_yes_nothing_is_purged_also_if_it_was_named() {
    let lab = lab();
    let id = archived(&lab, "keep");
    let before = tree(lab.session_dir(&id));
    for args in [vec!["purge", "keep"], vec!["purge", "--archived"], vec!["purge", "--archived", "--json"]] {
        // Empty input, the end of it, a yes in a pipe, and a pipe that stays open.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        for stdin in [Stdio::null(), Stdio::from(reader.try_clone().expect("a pipe"))] {
            let said = said(lab.command(&args).stdin(stdin).output().expect("berth starts"));
            assert_eq!((said.code, said.out.as_str()), (7, ""), "{args:?}: {said:?}");
            assert!(said.err.contains("1 session, ") && said.err.contains("--yes"), "{said:?}");
        }
        use std::io::Write;
        (&writer).write_all(b"y\nyes\n").expect("room in a pipe");
        let said = said(lab.command(&args).stdin(Stdio::from(reader)).output().expect("berth starts"));
        assert_eq!(said.code, 7, "a yes in a pipe is not an answer: {said:?}");
    }
    assert_eq!(tree(lab.session_dir(&id)), before);
}

/// Only a typed yes is a yes: neither the end of the input, nor a no, nor half a line.
#[test]
fn at_a_terminal_the_end_of_the_input_is_not_a_yes() {
    let lab = lab();
    let id = archived(&lab, "ask");
    for (keys, code) in [("\x04", 7), ("\r", 1), ("n\r", 1), ("yep\r", 1)] {
        let mut terminal = lab.terminal(["purge", "ask"]);
        terminal.wait_for("Go on? [y/N]");
        assert!(terminal.text().contains("would be deleted for good"), "{}", terminal.text());
        terminal.type_keys(keys);
        assert_eq!(terminal.wait_exit(), code, "{keys:?}");
        assert_eq!(state(&lab, &id), "archived", "{keys:?}");
    }
    let mut terminal = lab.terminal(["purge", "ask"]);
    terminal.wait_for("Go on? [y/N]");
    terminal.close();
    terminal.wait_exit();
    assert_eq!(state(&lab, &id), "archived", "a window that was closed is no yes");
    let mut terminal = lab.terminal(["purge", "ask"]);
    terminal.wait_for("Go on? [y/N]");
    terminal.type_keys("y\r");
    assert_eq!(terminal.wait_exit(), 0);
    assert_eq!(lab.berth(["show", &id]).code, 3);
}

#[test]
fn a_running_session_is_not_purged_and_nothing_named_beside_it_is() {
    let lab = lab();
    let (old, busy) = (archived(&lab, "old"), lab.start_with(&["--name", "busy"], &["hang"]));
    let said = lab.berth(["purge", "--yes", "old", "busy"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("`busy` is running") && said.err.contains("berth stop busy"), "{said:?}");
    assert_eq!((state(&lab, &old).as_str(), state(&lab, &busy).as_str()), ("archived", "running"));
    assert_eq!(lab.berth(["purge", "--yes"]).code, 2, "a session has to be named");
    assert_eq!(lab.berth(["purge", "--yes", "old", "--older-than", "1d"]).code, 2);
    assert_eq!(lab.berth(["purge", "--yes", "old", "nobody"]).code, 3);
    assert_eq!(state(&lab, &old), "archived");
}

#[test]
fn all_that_is_archived_means_that_and_nothing_else() {
    let lab = lab();
    let (one, two) = (archived(&lab, "one"), archived(&lab, "two"));
    let (stopped, busy) = (stopped(&lab, "stopped"), lab.start(&["hang"]));
    let none = lab.berth(["purge", "--archived", "--older-than", "90d", "--yes"]);
    assert_eq!(none.code, 0, "{none:?}");
    assert_eq!((state(&lab, &one).as_str(), state(&lab, &two).as_str()), ("archived", "archived"));
    lab.ok(["purge", "--archived", "--yes"]);
    let mut left = vec![stopped, busy];
    left.sort();
    assert_eq!(files(&lab, "sessions"), left);
}

/// However the purge dies: there is a session, or nothing that looks like one, and the next sweep finishes it.
#[test]
fn a_purge_that_dies_on_the_way_leaves_no_half_session_and_is_finished_by_the_next_sweep() {
    for point in ["purging", "purged-names", "purged-journal"] {
        let lab = lab();
        let other = stopped(&lab, "other");
        let id = lab.start_with(&["--name", "n", "--key", "k"], &["hang"]);
        lab.ok(["archive", "--stop", "--grace", "0s", "n"]);
        let died = purge_dying_at(&lab, point, &["n"]);
        assert_eq!(died.code, 137, "{point}: {died:?}");
        let listed = lab.json(["ls", "--all", "--json"]);
        let listed: Vec<_> = listed.as_array().expect("an array").iter().map(|it| it["id"].clone()).collect();
        assert_eq!(listed, [other.as_str()], "{point}");
        assert_eq!(lab.berth(["show", "n"]).code, 3, "{point}");
        assert_eq!(lab.berth(["resume", &id]).code, 3, "{point}");
        // The name and the key are free at once.
        let again = lab.start_with(&["--name", "n", "--key", "k"], &["hang"]);
        assert_ne!(again, id, "{point}");
        assert_eq!(files(&lab, "purging"), [id.as_str()], "{point}: else there is nothing to finish");
        let told = lab.ok(["sweep", "--dry-run"]);
        assert!(told.contains(&id) && told.contains("would be cleared up"), "{point}: {told}");
        let told = lab.ok(["sweep"]);
        assert!(told.contains(&format!("session {id}, whose purge was interrupted; cleared up")), "{told}");
        assert_eq!(files(&lab, "purging"), Vec::<String>::new(), "{point}");
        assert_eq!(lab.show("n")["id"], again.as_str(), "{point}: the new one keeps its name");
    }
}

/// Names that no session claimed since are dropped with the rest.
#[test]
fn a_sweep_that_finishes_a_purge_drops_the_names_that_are_left() {
    let lab = lab();
    lab.start_with(&["--name", "n", "--key", "k"], &["hang"]);
    lab.ok(["archive", "--stop", "--grace", "0s", "n"]);
    assert_eq!(purge_dying_at(&lab, "purging", &["n"]).code, 137);
    assert_eq!(files(&lab, "names"), ["n"], "else this proves nothing");
    lab.ok(["sweep"]);
    assert_eq!((files(&lab, "names"), files(&lab, "keys")), (vec![], vec![]));
}

#[test]
fn a_session_that_cannot_be_told_to_be_at_rest_is_not_purged() {
    let lab = lab();
    let id = stopped(&lab, "odd");
    // A lock that cannot be examined.
    let run = lab.session_dir(&id).join("run");
    std::fs::remove_file(&run).expect("our own directory");
    std::os::unix::fs::symlink("run", &run).expect("a link to itself");
    let said = lab.berth(["purge", "--yes", "odd"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("cannot tell whether"), "{said:?}");
    assert!(lab.session_dir(&id).exists());
}

#[test]
fn a_yes_is_for_the_sessions_that_were_shown_and_not_for_changed_ones() {
    let lab = lab();
    let id = archived(&lab, "ask");
    for (purge, word) in [(vec!["purge", "ask"], "one"), (vec!["purge", "--archived"], "two")] {
        let mut terminal = lab.terminal(purge);
        terminal.wait_for("Go on? [y/N]");
        // Archived once more, so its age is not the one that was shown, and it has a note now.
        lab.ok(["restore", "ask"]);
        lab.ok(["note", "ask", word]);
        lab.ok(["archive", "ask"]);
        terminal.type_keys("y\r");
        assert_eq!(terminal.wait_exit(), 4, "{}", terminal.text());
        assert!(terminal.text().contains("has new events"), "{}", terminal.text());
        assert_eq!(state(&lab, &id), "archived");
    }
}

#[test]
fn a_command_that_meets_a_purge_finds_no_session_and_never_reports_damage() {
    let mut seed = SeededRng::announce("purge and look");
    let lab = lab();
    for round in 0..rounds(30) {
        let id = archived(&lab, "torn");
        let purge = spawn(&lab, ["purge", "--yes", "torn"]);
        seed.dawdle(20_000);
        for verb in ["show", "log", "why"] {
            let said = lab.berth([verb, &id]);
            assert!(matches!(said.code, 0 | 3), "round {round}: {verb}: {said:?}");
        }
        assert_eq!(finish(purge).code, 0, "round {round}");
    }
}

#[test]
fn a_key_whose_session_is_being_purged_means_that_one_or_a_new_one() {
    let mut seed = SeededRng::announce("purge and key");
    let lab = lab();
    let run = ["run", "-d", "--key", "k", "--", "true"];
    for round in 0..rounds(30) {
        let old = lab.ok(run);
        lab.ok(["wait", &old]);
        let purge = spawn(&lab, ["purge", "--yes", &old]);
        seed.dawdle(20_000);
        let said = finish(spawn(&lab, run));
        assert_eq!(said.code, 0, "round {round}: {said:?}");
        assert_eq!(finish(purge).code, 0, "round {round}");
        for id in files(&lab, "sessions") {
            lab.ok(["wait", &id]);
            lab.ok(["purge", "--yes", &id]);
        }
    }
}

/// One command wins, the other hears a clear error; nothing runs without a record.
#[test]
fn a_purge_races_a_resume_and_one_of_them_wins() {
    let mut seed = SeededRng::announce("purge");
    let lab = lab();
    let (mut purged, mut resumed) = (0, 0);
    for round in 0..rounds(30) {
        let id = archived(&lab, "torn");
        let resume = spawn(&lab, ["resume", "-d", "torn"]);
        seed.dawdle(20_000);
        let purge = spawn(&lab, ["purge", "--yes", "torn"]);
        let (resume, purge) = (finish(resume), finish(purge));
        match (resume.code, purge.code) {
            (0, 4) => {
                resumed += 1;
                assert!(purge.err.contains("deleted") && purge.err.contains("hint:"), "{round}: {purge:?}");
                assert_eq!(state(&lab, &id), "running", "round {round}");
                lab.ok(["stop", "--grace", "0s", "torn"]);
                lab.ok(["purge", "--yes", "torn"]);
            }
            (3, 0) => {
                purged += 1;
                assert!(resume.err.contains("there is no session"), "round {round}: {resume:?}");
            }
            _ => panic!("round {round}: {resume:?} {purge:?}"),
        }
        assert_eq!(files(&lab, "sessions"), Vec::<String>::new(), "round {round}");
        // A keeper that was started in vain leaves after its starter was told.
        berth_harness::wait_until("nothing to run without a record", || lab.processes().is_empty());
    }
    println!("{purged} purged, {resumed} resumed");
}
