//! Keepers that are stuck or killed, and sessions that are damaged.

use berth_harness::signal;
use rustix::process::Signal;

use crate::dashboard::{lab, open};

#[test]
fn a_keeper_that_is_suspended_is_said_to_be_and_freezes_nothing() {
    let lab = lab();
    let stuck = lab.start_with(&["--name", "stuck"], &["say:screen of the stuck one", "hang"]);
    let fine = lab.start_with(&["--name", "fine"], &["say:screen of the other one", "hang"]);
    lab.wait_output(&stuck, "screen");
    lab.wait_output(&fine, "screen");
    let keeper = lab.process(&stuck, "keeper_pid");
    signal(&keeper, Signal::STOP);
    let mut terminal = open(&lab);
    terminal.wait_for("unreachable");
    terminal.type_keys("/stuck");
    terminal.wait_for("› unreachable stuck");
    // Data from disk is shown, and marked as such.
    terminal.wait_for("does not answer");
    terminal.wait_for("screen of the stuck one");
    // A request to the stuck session gets no answer, and everything else goes on.
    terminal.type_keys("\rmhello\r");
    terminal.wait_for("typing into stuck");
    terminal.type_keys("\x1b");
    terminal.wait_for("running     fine");
    terminal.type_keys("G");
    terminal.wait_for("› running     fine");
    terminal.wait_for("screen of the other one");
    signal(&keeper, Signal::CONT);
    terminal.wait_for("2 running");
    terminal.wait_for("typed into stuck");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_keeper_that_is_killed_is_noticed_at_once_and_can_be_resumed() {
    let lab = lab();
    let id = lab.start_with(&["--name", "victim"], &["say:ready", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("ready");
    lab.kill_keeper(&id);
    terminal.wait_for("› lost        victim");
    terminal.wait_for("1 in trouble");
    // Processes that the keeper left behind are ended, as by a list.
    terminal.wait_until("the loss to be recorded", |_| lab.events(&id, "run_ended").len() == 1);
    terminal.type_keys("r");
    terminal.wait_for("› running     victim");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_damaged_session_is_shown_with_a_hint_beside_the_others() {
    let lab = lab();
    let id = lab.start_with(&["--name", "broken"], &["exit:0"]);
    lab.berth(["wait", &id, "--for", "exit", "--timeout", "60s"]);
    berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
    lab.start_with(&["--name", "fine"], &["say:ready", "hang"]);
    let dir = lab.session_dir(&id);
    std::fs::remove_file(dir.join("status.json")).expect("there is a status cache");
    let journal =
        std::fs::read_dir(dir.join("journal")).expect("a journal").flatten().next().expect("a file").path();
    let mut bytes = std::fs::read(&journal).expect("a journal");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&journal, bytes).expect("our own file");
    let mut terminal = open(&lab);
    terminal.wait_for("damaged");
    terminal.wait_for("running     fine");
    terminal.wait_for("docs/recovery.md");
    // No key does harm to the damaged session.
    terminal.type_keys("x");
    terminal.wait_for("is not running");
    terminal.type_keys("m");
    terminal.wait_for("takes no message");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}
