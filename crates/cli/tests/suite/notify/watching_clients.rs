//! A user who looks at the session gets no notification.

use berth_harness::{said, wait_until};

use crate::notify::{pair, send, settled, spawned, start, told};

#[test]
fn nothing_is_sent_while_a_client_is_attached_and_events_are_sent_after_it_left() {
    let (lab, server) = told();
    let id = lab.start_with(&["--name", "s"], &["raw", "say:ready", "expect:x", "exit:4"]);
    let mut terminal = lab.terminal(["attach", "s"]);
    terminal.wait_for("ready");
    terminal.type_keys("x");
    assert_eq!(terminal.wait_exit(), 4);
    settled(&lab);
    assert_eq!(server.about(), []);
    lab.ok(["resume", "-d", &id]);
    let mut terminal = lab.terminal(["attach", "s"]);
    terminal.wait_for("ready");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    lab.ok(["input", "s", "x"]);
    server.wait(1);
    assert_eq!(server.about(), [pair("failed", "s")]);
}

#[test]
fn a_turn_that_a_client_waits_for_is_not_sent_and_the_next_one_is() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    assert_eq!(lab.berth(["send", "--wait", "s", "fail:7:broken"]).code, 1);
    assert_eq!(lab.ok(["send", "--wait", "s", "say:one"]), "one");
    settled(&lab);
    assert_eq!(server.about(), []);
    send(&lab, "s", "say:two");
    server.wait(1);
    assert_eq!(server.about(), [pair("finished", "s")]);
}

#[test]
fn a_client_that_watches_a_session_counts_as_looking() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    let mut watcher = lab.command(["log", "-f", "s"]);
    let mut watcher = spawned(&mut watcher);
    let mut first = [0];
    // The command prints earlier events only once it watches.
    std::io::Read::read_exact(watcher.stdout.as_mut().expect("a pipe"), &mut first).expect("a line");
    wait_until("it to watch", || {
        lab.ok(["send", "s", "say:one"]);
        wait_until("idle", || lab.show("s")["state"] == "idle");
        let before = server.heard().len();
        lab.ok(["send", "s", "fail:7:broken"]);
        wait_until("idle", || lab.show("s")["state"] == "idle");
        settled(&lab);
        server.heard().len() == before
    });
    watcher.kill().expect("our own child");
    watcher.wait().expect("our own child");
    let before = server.heard().len();
    send(&lab, "s", "say:two");
    server.wait(before + 1);
}

#[test]
fn a_script_that_waits_cannot_answer_so_a_question_is_told_all_the_same() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    let waiting = spawned(&mut lab.command(["send", "--wait", "s", "ask:Bash:rm x"]));
    server.wait(1);
    lab.ok(["answer", "s", "allow", "--yes"]);
    let said = said(waiting.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "{said:?}");
    settled(&lab);
    assert_eq!(server.about(), [pair("needs-you", "s")], "the end of the turn was waited for");
}

#[test]
fn a_question_to_a_user_at_a_terminal_is_not_sent() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    let mut terminal = lab.terminal(["send", "--wait", "s", "ask:Bash:rm x"]);
    terminal.wait_for("answer (");
    terminal.type_keys("allow-once\r");
    assert_eq!(terminal.wait_exit(), 0);
    settled(&lab);
    assert_eq!(server.about(), []);
}
