//! The list while a user watches it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use berth_harness::{TestEnvironment, TestTerminal, wait_child};
use rustix::process::Signal;
use serde_json::Value;

use super::{ended, lab};

/// A shell on a terminal in which the list is watched; the shell prints how the list ended.
fn watched(lab: &TestEnvironment, args: &str) -> TestTerminal {
    let script = format!(
        "echo what was there; stty -g > {before}; {berth} ls --watch {args}; echo ended with $?; stty -g > {after}; \
         cmp {before} {after} && echo same terminal; read wait",
        before = lab.dir().join("before").display(),
        after = lab.dir().join("after").display(),
        berth = env!("CARGO_BIN_EXE_berth"),
    );
    lab.terminal_running(std::path::Path::new("/bin/sh"), ["-c", &script])
}

/// Asserts that the shell got its terminal back as it was.
fn is_as_it_was(terminal: &mut TestTerminal, code: i32) {
    terminal.wait_for(&format!("ended with {code}"));
    terminal.wait_for("same terminal");
    let text = terminal.text();
    assert!(text.starts_with("what was there\nended with"), "{text}");
    let restored = String::from_utf8_lossy(&terminal.restore()).into_owned();
    assert!(!restored.contains("\x1b[?25l") && !restored.contains("\x1b[?1049h"), "{restored:?}");
}

#[test]
fn a_change_is_shown_and_q_leaves_the_terminal_as_it_was() {
    let lab = lab();
    let id = lab.start_with(&["--name", "first"], &["hang"]);
    let mut terminal = watched(&lab, "");
    terminal.wait_until("the first list", |it| it.text().contains("first") && it.text().contains("running"));
    assert!(!terminal.text().contains("what was there"), "{}", terminal.text());
    lab.ok(["stop", &id]);
    terminal.wait_for("stopped");
    lab.start_with(&["--name", "second"], &["hang"]);
    terminal.wait_for("second");
    lab.ok(["rename", &id, "another"]);
    terminal.wait_for("another");
    assert!(!terminal.text().contains("first"), "{}", terminal.text());
    terminal.type_keys("q");
    is_as_it_was(&mut terminal, 0);
}

#[test]
fn a_keeper_that_is_killed_says_nothing_and_is_noticed() {
    let lab = lab();
    let id = lab.start_with(&["--name", "victim"], &["hang"]);
    let mut terminal = watched(&lab, "");
    terminal.wait_for("running");
    lab.kill_keeper(&id);
    terminal.wait_for("lost");
    terminal.type_keys("\x03");
    is_as_it_was(&mut terminal, 0);
}

#[test]
fn another_size_is_another_layout() {
    let lab = lab();
    ended(&lab, "narrow");
    let mut terminal = watched(&lab, "");
    terminal.wait_for("ACTIVE");
    terminal.resize(12, 30);
    terminal.wait_until("a narrow list", |it| it.text().contains("STATE") && !it.text().contains("ACTIVE"));
    assert!(terminal.text().lines().count() <= 12);
    terminal.resize(24, 100);
    terminal.wait_for("DIRECTORY");
    terminal.type_keys("q");
    is_as_it_was(&mut terminal, 0);
}

#[test]
fn more_sessions_than_lines_are_counted() {
    let lab = lab();
    (0..5).for_each(|at| drop(ended(&lab, &format!("s{at}"))));
    let mut terminal = watched(&lab, "");
    terminal.wait_for("s0");
    terminal.resize(4, 80);
    terminal.wait_for("3 more than fit");
    terminal.type_keys("q");
    terminal.wait_for("same terminal");
}

#[test]
fn a_signal_ends_ls_watch_and_restores_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let lab = lab();
        lab.start_with(&["--name", "on"], &["hang"]);
        let mut terminal = watched(&lab, "");
        terminal.wait_for("running");
        let list = lab.processes().into_iter().find(|process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            line.ends_with(b"berth\0ls\0--watch\0")
        });
        berth_harness::signal(&list.expect("the list runs"), signal);
        is_as_it_was(&mut terminal, 128 + signal.as_raw());
    }
}

#[test]
fn off_a_terminal_it_is_refused_unless_it_is_for_a_program() {
    let lab = lab();
    let said = lab.berth(["ls", "--watch"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains("berth ls --watch --json"), "{said:?}");
    assert_eq!(lab.berth(["ls", "--watch", "--json", "--tree"]).code, 2);
}

#[test]
fn a_program_gets_a_line_for_each_session_that_changes_until_it_reads_no_more() {
    let lab = lab();
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    let mut command = lab.command(["ls", "--watch", "--json", "--state", "running"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("berth");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("a pipe that can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
    };
    let first = next();
    assert_eq!((&first["id"], &first["state"]), (&id.as_str().into(), &"running".into()), "{first}");
    let other = lab.start_with(&["--name", "two"], &["hang"]);
    while next()["id"] != other.as_str() {}
    lab.ok(["stop", &id]);
    while next() != serde_json::json!({ "gone": id }) {}
    drop(lines);
    // Nothing changes any more, and the list notices nevertheless that its reader is gone.
    assert_eq!(wait_child(child), 0);
}
