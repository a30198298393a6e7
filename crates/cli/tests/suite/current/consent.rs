//! Ending a session that was not named needs a yes: typed at a terminal, or given beforehand as an option.

use berth_harness::TestEnvironment;

use crate::current::{TerminalShell, lab};

fn states(lab: &TestEnvironment, ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| lab.show(id)["state"].as_str().expect("a state").to_owned()).collect()
}

#[test]
fn a4_stop_without_a_name_is_refused_without_a_terminal_to_ask_at() {
    let lab = lab();
    let id = lab.start_with(&["--name", "fix"], &["hang"]);
    let mut owner = TerminalShell::new(&lab);
    owner.ok("berth use fix");
    // Off a terminal, at another terminal, and at the same one with its input elsewhere: there is no pointer.
    assert_eq!(lab.berth(["stop"]).code, 2);
    assert_eq!(lab.berth(["stop", "--yes"]).code, 2);
    assert_eq!(TerminalShell::new(&lab).run("berth stop --yes").code, 2);
    assert_eq!(owner.run("berth stop --yes </dev/null").code, 2);
    // There is a current session, and no way to ask: standard error is not the terminal, or standard input is not.
    let said = owner.run("berth stop");
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains("`fix`") && said.err.contains("--yes"), "{said:?}");
    assert_eq!(owner.run("echo y | BERTH_SESSION=fix berth stop").code, 7);
    assert_eq!(owner.run("echo y | BERTH_SESSION=fix berth stop @").code, 7);
    assert_eq!(lab.show(&id)["state"], "running");
    assert!(lab.events(&id, "stop_requested").is_empty());
    // A name is consent, however it is said.
    lab.ok(["stop", "--session", "fix"]);
    assert_eq!(lab.show(&id)["state"], "stopped");
}

#[test]
fn a_person_is_asked_and_only_a_typed_yes_is_a_yes() {
    let lab = lab();
    let id = lab.start_with(&["--name", "fix"], &["hang"]);
    let mut shell = TerminalShell::new(&lab);
    shell.ok("berth use fix");
    for (answer, code) in [("n\n", 1), ("\n", 1), ("yep\n", 1), ("\x04", 7)] {
        let mark = shell.begin("clear; berth stop");
        shell.terminal.wait_for("[y/N]");
        assert!(shell.terminal.text().contains("session `fix`, the current one of this terminal"));
        shell.terminal.type_keys(answer);
        assert_eq!(shell.finish(&mark), code, "{answer:?}");
        assert_eq!(lab.show(&id)["state"], "running", "{answer:?}");
    }
    let mark = shell.begin("clear; berth stop");
    shell.terminal.wait_for("[y/N]");
    shell.terminal.type_keys("yes\n");
    assert_eq!(shell.finish(&mark), 0);
    assert_eq!(lab.show(&id)["state"], "stopped");
    // Named on the command line: there is no question, even at a terminal.
    lab.ok(["resume", "-d", "fix"]);
    assert_eq!(shell.seen("clear; berth stop fix"), 0);
    assert!(!shell.terminal.text().contains("[y/N]"));
}

#[test]
fn stop_all_needs_a_yes_and_stops_all_sessions_of_this_state_directory() {
    let (lab, other) = (lab(), crate::current::lab());
    let ids = [lab.start(&["hang"]), lab.start(&["hang"]), lab.start(&["ignore:TERM", "hang"])];
    let neighbour = other.start(&["hang"]);
    lab.ok(["stop", &ids[1]]);
    let stopped_before = lab.events(&ids[1], "stop_requested").len();
    let said = lab.berth(["stop", "--all"]);
    assert_eq!(said.code, 7, "{said:?}");
    let name = |id: &str| lab.show(id)["name"].as_str().expect("a name").to_owned();
    let named = |id: &str| said.err.contains(&name(id));
    assert!(said.err.contains("2 sessions") && named(&ids[0]) && named(&ids[2]), "{said:?}");
    assert_eq!(states(&lab, &ids), ["running", "stopped", "running"]);
    assert_eq!(lab.berth(["stop", "--all", &ids[0]]).code, 2);
    lab.ok(["stop", "--all", "--yes", "--grace", "100ms"]);
    assert_eq!(states(&lab, &ids), ["stopped"; 3]);
    assert_eq!(lab.events(&ids[1], "stop_requested").len(), stopped_before);
    assert_eq!(other.show(&neighbour)["state"], "running");
    // Nothing is left to stop, so there is no question.
    let none = lab.berth(["stop", "--all"]);
    assert_eq!((none.code, none.err.as_str()), (0, "no session runs\n"));
    assert_eq!(lab.ok(["stop", "--all", "--json"]), "[]");
}

#[test]
fn stop_all_clears_up_after_a_keeper_that_died() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    lab.ok(["stop", "--all", "-y"]);
    berth_harness::wait_gone(&agent);
    assert_eq!(lab.show(&id)["state"], "lost");
}
