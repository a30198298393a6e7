//! How the session that is meant is found: argument, flag, variable, terminal.

use berth_harness::wait_gone;

use crate::current::{TerminalShell, agent, lab, records};

fn sleeping(lab: &berth_harness::TestEnvironment, name: &str) -> String {
    lab.start_with(&["--name", name], &["hang"])
}

#[test]
fn the_session_is_the_arguments_then_the_flags_then_the_variables_then_the_terminals() {
    let lab = lab();
    let [argument, flag, variable, terminal] =
        ["arg", "flag", "var", "term"].map(|name| sleeping(&lab, name));
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use term");
    let mut meant = |line: &str| {
        let shown: serde_json::Value = serde_json::from_str(&shell.ok(line)).expect("JSON");
        shown["id"].as_str().expect("an id").to_owned()
    };
    assert_eq!(meant("BERTH_SESSION=var berth show arg --session flag --json"), argument);
    assert_eq!(meant("BERTH_SESSION=var berth show --session flag --json"), flag);
    assert_eq!(meant("BERTH_SESSION=var berth --session flag show --json"), flag);
    assert_eq!(meant("BERTH_SESSION=var berth show --json"), variable);
    assert_eq!(meant("BERTH_SESSION=var berth show @ --json"), variable);
    assert_eq!(meant("BERTH_SESSION= berth show --json"), terminal);
    assert_eq!(meant("berth show --json"), terminal);
    assert_eq!(meant("berth show @ --json"), terminal);
    assert_eq!(meant("berth show --session @ --json"), terminal);
    // Without a terminal, the variable still names the session.
    let said = lab.command(["show", "--json"]).env("BERTH_SESSION", "var").output().expect("berth runs");
    assert!(String::from_utf8_lossy(&said.stdout).contains(&variable));
}

#[test]
fn every_command_that_is_about_one_session_means_the_current_one_when_it_names_none() {
    let lab = lab();
    let id = lab.start_with(&["--name", "fix"], &["say:hello", "hang"]);
    lab.wait_output(&id, "hello");
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use fix");
    assert!(shell.ok("berth show").contains(&id));
    assert!(shell.ok("berth why").contains("fix is running"));
    assert!(shell.ok("berth screen").contains("hello"));
    assert!(shell.ok("berth output").contains("hello"));
    assert!(shell.ok("berth log").contains("created as `fix`"));
    assert_eq!(shell.run("berth wait --timeout 10ms").code, 6);
    shell.ok("berth wait --for output:hello");
    shell.ok("berth input @ --enter text");
    shell.ok("berth input --session fix more text");
    shell.ok("berth rename @ better");
    assert_eq!(shell.ok("berth use"), "better", "the record has the id, and no name that could be stale");
    shell.ok("berth rename --session better best");
    assert_eq!(shell.run("berth resume").code, 4, "it runs");
    shell.ok("berth stop best");
    assert_eq!(shell.ok("berth resume -d"), id);
}

#[test]
fn a_turn_of_the_current_session_is_an_at_sign_and_its_number() {
    let lab = lab();
    let store = lab.dir().display().to_string();
    agent(&lab, "fake", &["--store", &store]);
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "bot"]);
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use bot");
    assert_eq!(shell.ok("berth send @ hello"), format!("{id}.1"));
    assert_eq!(shell.run("berth wait @.1 --timeout 60s").code, 0);
    assert_eq!(shell.ok("berth result @.1"), "ECHO: hello");
    assert_eq!(shell.ok("berth result --session bot 1"), "ECHO: hello");
    assert_eq!(shell.ok("berth result bot.1"), "ECHO: hello");
    assert_eq!(lab.ok(["send", "--session", "bot", "--wait", "more", "words"]), "ECHO: more words");
    assert!(shell.ok("berth turn @.2").contains("more words"));
    assert_eq!(shell.run("berth turn 2").code, 2, "a number alone is not a turn");
    assert_eq!(shell.run("berth turn other.2 --session bot").code, 3);
    assert!(shell.ok("berth turns").contains("hello"));
    shell.ok("berth queue pause");
    shell.ok("berth send @ later");
    assert!(shell.ok("berth queue").contains("later"));
    shell.ok("berth queue drop 3");
    shell.ok("berth send @ never");
    shell.ok("berth cancel @.4");
    assert_eq!(shell.run("berth result @.4").code, 8);
    shell.ok("berth queue resume");
    shell.ok("berth wait --timeout 60s");
    let fork = shell.ok("berth fork");
    assert_ne!(fork, id);
    assert_eq!(shell.ok("berth use"), "bot", "a copied session becomes the current one");
}

#[test]
fn words_behind_the_session_are_not_taken_for_it() {
    let lab = lab();
    let id = sleeping(&lab, "fix");
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use fix");
    for (line, missing) in [
        ("berth input hello", "the text to type"),
        ("berth send hello", "the prompt"),
        ("berth rename hello", "the new name"),
        ("berth answer allow", "allow, deny or an option"),
    ] {
        let said = shell.run(line);
        assert_eq!(said.code, 2, "{line}: {said:?}");
        assert!(said.err.contains(missing) && said.err.contains("`@`"), "{line}: {said:?}");
    }
    let both = shell.run("berth input --session fix @ hello");
    assert_eq!(both.code, 2, "{both:?}");
    let two = shell.run("berth rename --session fix one two");
    assert_eq!(two.code, 2, "{two:?}");
    assert!(lab.events(&id, "typed").is_empty() && lab.events(&id, "renamed").is_empty());
}

#[test]
fn without_a_current_session_a_command_that_names_none_is_refused_with_a_hint() {
    let lab = lab();
    sleeping(&lab, "only");
    let mut shell = TerminalShell::new(&lab);
    // There is only one session, and it is still not guessed.
    for (line, code) in [("berth show", 2), ("berth stop", 2), ("berth attach", 2), ("berth show @", 2)] {
        let said = shell.run(&format!("{line} 2>&1"));
        assert_eq!(said.code, code, "{line}: {said:?}");
        let has_hint = said.out.contains("berth use S") || line == "berth attach";
        assert!(has_hint && said.out.contains("hint: "), "{line}: {said:?}");
    }
    assert_eq!(shell.run("berth use").code, 2);
    for (args, code) in [(&["show"][..], 2), (&["show", "@"], 2), (&["use"], 2), (&["use", "only"], 2)] {
        let said = lab.berth(args);
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(said.err.contains("--session S"), "{args:?}: {said:?}");
    }
    assert!(records(&lab).is_empty());
}

#[test]
fn a_pointer_to_a_session_that_is_gone_is_exit_3_and_never_another_session() {
    let lab = lab();
    let id = sleeping(&lab, "gone");
    sleeping(&lab, "other");
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use gone");
    let keeper = lab.process("gone", "keeper_pid");
    lab.ok(["stop", "gone"]);
    // A keeper's last act follows its last answer.
    wait_gone(&keeper);
    std::fs::remove_dir_all(lab.session_dir(&id)).expect("the directory has no keeper");
    for line in ["berth show", "berth show @", "berth stop --yes", "berth use", "berth send @ hi"] {
        let said = shell.run(line);
        assert_eq!(said.code, 3, "{line}: {said:?}");
        assert!(said.err.contains(&id) && said.err.contains("berth use S"), "{line}: {said:?}");
    }
    shell.ok("berth ls");
    shell.ok("berth use other");
    assert_eq!(shell.ok("berth use"), "other");
    let unset = shell.run("BERTH_SESSION=gone berth show");
    assert_eq!(unset.code, 3, "{unset:?}");
    assert!(unset.err.contains("BERTH_SESSION"), "{unset:?}");
}

#[test]
fn a_damaged_record_names_no_session_until_berth_use_writes_a_new_one() {
    let lab = lab();
    sleeping(&lab, "fix");
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use fix");
    let path = records(&lab).pop().expect("a record");
    let whole = std::fs::read(&path).expect("a record");
    for bad in [&whole[..whole.len() - 9], b"", b"{}"] {
        std::fs::write(&path, bad).expect("damage");
        let said = shell.run("berth show");
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("no current session") && said.err.contains("berth use S"), "{said:?}");
        shell.ok("berth ls");
        let swept = shell.ok("berth sweep");
        assert!(swept.contains(&path.display().to_string()), "{swept}");
        assert!(path.exists(), "damage is kept");
    }
    shell.ok("berth use fix");
    assert!(shell.ok("berth show").contains("fix"));
    std::fs::write(&path, b"{").expect("damage");
    shell.ok("berth use --none");
    assert!(records(&lab).is_empty());
}

#[test]
fn a_session_flag_that_would_mean_nothing_is_refused() {
    let lab = lab();
    sleeping(&lab, "fix");
    for args in [
        &["--session", "fix"][..],
        &["--session", "fix", "ls"],
        &["doctor", "--session", "fix"],
        &["agents", "--session", "fix"],
        &["sweep", "--session", "fix"],
        &["--session", "fix", "run", "-d", "--", "true"],
        &["helper", "ls", "--session", "fix"],
        &["why", "--pid", "1", "--session", "fix"],
        &["resume", "--last", "--session", "fix"],
        &["use", "--none", "--session", "fix"],
        &["stop", "--all", "--yes", "--session", "fix"],
        &["--session", "fix", "stop", "--all", "--yes"],
        &["archive", "--older-than", "0s", "--yes", "--session", "fix"],
        &["purge", "--archived", "--yes", "--session", "fix"],
        &["ps", "--port", "1", "--session", "fix"],
    ] {
        let said = lab.berth(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains("--session"), "{args:?}: {said:?}");
    }
    assert_eq!(lab.json(["ls", "--json"]).as_array().map(Vec::len), Some(1));
    // A command's own flag is the command's.
    let own = lab.berth(["run", "--", "echo", "--session", "fix"]);
    assert_eq!((own.code, own.out.as_str()), (0, "--session fix\n"));
}

#[test]
fn berth_use_shows_the_current_session_and_where_it_comes_from() {
    let lab = lab();
    let id = sleeping(&lab, "fix");
    let mut shell = TerminalShell::new(&lab);
    assert_eq!(shell.ok("berth use --json | tr -d ' \\n'"), r#"{"session":null,"handle":null,"from":null}"#);
    shell.ok("berth use fix");
    assert_eq!(shell.ok("berth use"), "fix");
    let expected = format!(r#"{{"session":"{id}","handle":"fix","from":"terminal"}}"#);
    assert_eq!(shell.ok("berth use --json | tr -d ' \\n'"), expected);
    assert_eq!(
        shell.ok(&format!("BERTH_SESSION={id} berth use --json | tr -d ' \\n'")),
        expected.replace("terminal", "BERTH_SESSION")
    );
    assert!(shell.ok("berth show").contains("current "));
    shell.ok("berth use --none");
    assert_eq!(shell.run("berth use").code, 2);
    assert!(!shell.ok("berth show fix").contains("current "));
}
