//! The record of the current session belongs to one terminal, and never to a nested agent.

use berth_harness::wait_until;

use crate::current::{TerminalShell, lab, records};

#[test]
fn run_attach_and_resume_from_a_terminal_make_their_session_current() {
    let lab = lab();
    let mut shell = TerminalShell::new(&lab);
    let agent = lab.agent();
    let first = shell.ok(&format!("berth run -d -- {agent} hang"));
    assert_eq!(shell.current(""), first);
    // Others come and go, without a terminal and at other ones.
    let second = lab.start(&["say:here", "hang"]);
    let third = TerminalShell::new(&lab).ok(&format!("berth run -d -- {agent} hang"));
    assert_eq!(shell.current(""), first);
    let attached = shell.begin(&format!("berth attach {second}"));
    shell.terminal.wait_for("here");
    shell.terminal.type_keys("\x1c");
    assert_eq!(shell.finish(&attached), 0);
    assert_eq!(shell.current(""), second);
    lab.ok(["stop", &first]);
    shell.ok(&format!("berth resume -d {first}"));
    assert_eq!(shell.current(""), first);
    // A command that failed changes nothing.
    assert_ne!(shell.run(&format!("berth resume -d {third}")).code, 0, "it runs");
    assert_ne!(shell.run("berth run -d -- /no/such/program").code, 0);
    assert_ne!(shell.run("berth attach no-such").code, 0);
    assert_eq!(shell.current(""), first);
}

#[test]
fn two_terminals_have_two_current_sessions_and_a_closed_one_leaves_no_record() {
    let lab = lab();
    let [one, two] = [lab.start(&["hang"]), lab.start(&["hang"])];
    let (mut left, mut right) = (TerminalShell::new(&lab), TerminalShell::new(&lab));
    left.ok(&format!("berth use {one}"));
    assert_eq!(right.run("berth use").code, 2);
    right.ok(&format!("berth use {two}"));
    assert_eq!((left.current(""), right.current("")), (one, two));
    assert_eq!(records(&lab).len(), 2);
    lab.ok(["sweep"]);
    assert_eq!(records(&lab).len(), 2, "both terminals are there");
    let shell = right.terminal.identity();
    right.terminal.close();
    berth_harness::wait_gone(&shell);
    let swept = lab.ok(["sweep", "--dry-run"]);
    assert!(swept.contains("a terminal that is gone; would be cleared up"), "{swept}");
    assert_eq!(records(&lab).len(), 2);
    lab.ok(["sweep"]);
    assert_eq!(records(&lab).len(), 1);
    left.ok("berth use");
}

/// A shell in a shell, `su` and `script` aside, is at the same terminal; another terminal in it is another one.
#[test]
fn a_record_is_of_the_terminals_session_and_not_of_one_shell_in_it() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let mut shell = TerminalShell::new(&lab);
    shell.ok(&format!("sh -c '{} use {id}'", env!("CARGO_BIN_EXE_berth")));
    assert_eq!(shell.current(""), id);
    // Another pane, and another connection, are other terminals, even if the device has the same name.
    for other in
        ["TMUX=/tmp/t,1,0 TMUX_PANE=%7", "ZELLIJ_SESSION_NAME=a ZELLIJ_PANE_ID=1", "SSH_CONNECTION=a"]
    {
        assert_eq!(shell.run(&format!("{other} berth use")).code, 2, "{other}");
    }
    // Without a controlling terminal there is none, even if standard input is one.
    let said = shell.run(&format!("setsid -w {} use", env!("CARGO_BIN_EXE_berth")));
    assert_eq!(said.code, 2, "{said:?}");
}

#[test]
fn a_job_in_the_background_does_not_change_the_current_session() {
    let lab = lab();
    let agent = lab.agent();
    let mut shell = TerminalShell::new(&lab);
    let front = shell.ok(&format!("berth run -d -- {agent} hang"));
    let back = shell.ok(&format!("set -m; berth run -d -- {agent} hang & wait; set +m"));
    assert_eq!(lab.show(back.lines().last().expect("an id"))["state"], "running");
    assert_eq!(shell.current(""), front);
}

#[test]
fn a_nested_agent_does_not_use_the_current_session_of_its_supervisor() {
    let lab = lab();
    let berth = env!("CARGO_BIN_EXE_berth");
    let home = lab.home().display().to_string();
    let mut shell = TerminalShell::new(&lab);
    // Inside a session with a terminal of its own: with the variables of the session, and without any.
    let script = format!(
        "{berth} run -d --name inner -- sleep 1000; {berth} use; {berth} use inner; \
         env -i BERTH_HOME={home} {berth} run -d --name bare -- sleep 1000; \
         env -i BERTH_HOME={home} {berth} use bare; echo code=$?; echo the end; sleep 1000"
    );
    let outer = shell.ok(&format!("berth run -d --name outer -- sh -c '{script}'"));
    lab.wait_output(&outer, "the end");
    let said = lab.ok(["output", "outer"]);
    assert!(said.contains("outer\r\nfrom BERTH_SESSION"), "inside, the current one is its own: {said}");
    assert!(said.contains("BERTH_SESSION is set"), "{said}");
    assert!(said.contains("code=2"), "{said}");
    assert_eq!(records(&lab).len(), 1, "only the person's terminal has one");
    assert_eq!(shell.ok("berth use"), "outer");
    for nested in ["inner", "bare"] {
        assert_eq!(lab.show(nested)["state"], "running");
    }
}

/// A tool that an agent started outside of its tree, and that kept its variables.
#[test]
fn a_process_with_a_variable_of_a_run_has_no_terminal() {
    let lab = lab();
    let agent = lab.agent();
    let mut shell = TerminalShell::new(&lab);
    let mine = shell.ok(&format!("berth run -d -- {agent} hang"));
    let other = lab.start(&["hang"]);
    for variable in
        [format!("BERTH_RUN={other}:1"), "BERTH_HELPER=web".to_owned(), format!("BERTH_SESSION={other}")]
    {
        // An agent starts sessions only where a session is.
        let cwd = env!("CARGO_MANIFEST_DIR");
        shell.ok(&format!("{variable} berth run -d --cwd {cwd} -- {agent} exit:0"));
        let said = shell.run(&format!("{variable} berth use {other}"));
        assert_eq!(said.code, 2, "{variable}: {said:?}");
        assert_eq!(shell.run(&format!("{variable} berth use --none")).code, 2, "{variable}");
        assert_eq!(shell.current(""), mine, "{variable}");
    }
    assert_eq!(shell.run(&format!("BERTH_RUN={other}:1 berth use")).code, 2);
}

#[test]
fn an_attachment_that_is_refused_changes_nothing() {
    let lab = lab();
    let mut shell = TerminalShell::new(&lab);
    let mine = shell.ok(&format!("berth run -d -- {} hang", lab.agent()));
    let other = lab.start(&["say:here", "hang"]);
    let mut rival = lab.terminal(["attach", &other]);
    rival.wait_for("here");
    assert_eq!(shell.seen(&format!("berth attach {other}")), 4);
    assert_eq!(shell.current(""), mine);
    rival.type_keys("\x1c");
    assert_eq!(rival.wait_exit(), 0);
}

#[test]
fn resume_last_begins_with_the_current_session_of_the_terminal() {
    let lab = lab();
    let mut shell = TerminalShell::new(&lab);
    let agent = lab.agent();
    let mine = shell.ok(&format!("berth run -d -- {agent} hang"));
    let lost = lab.start(&["hang"]);
    lab.kill_keeper(&lost);
    // This session runs, so `--last` does not mean it.
    assert_eq!(shell.ok("berth resume --last -d"), lost);
    assert_eq!(shell.current(""), lost);
    lab.kill_keeper(&lost);
    lab.ok(["stop", &mine]);
    shell.ok(&format!("berth use {mine}"));
    assert_eq!(shell.ok("berth resume --last -d"), mine, "though the other one was lost");
    // Without a terminal, or without a current session, `--last` resumes the session that was lost.
    wait_until("the loss to be seen", || lab.show(&lost)["state"] == "lost");
    assert_eq!(lab.ok(["resume", "--last", "-d"]), lost);
}
