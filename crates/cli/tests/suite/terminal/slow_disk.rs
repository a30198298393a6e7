//! A disk that takes long to sync does not slow down the terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use berth_harness::{TestEnvironment, said, wait_child, wait_until};

use crate::terminal::lab;

/// A session that repeats every key, and a file: while that exists, no sync ends.
fn start_echo(lab: &TestEnvironment) -> (String, PathBuf) {
    let hold = lab.dir().join("hold");
    let agent = lab.agent();
    let mut command = lab.command(["run", "-d", "--", &agent, "raw", "say:ready", "echo"]);
    let told =
        said(command.env("BERTH_HOLD", format!("sync:{}", hold.display())).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{told:?}");
    let id = told.out.trim().to_owned();
    lab.wait_output(&id, "ready");
    (id, hold)
}

/// Makes the disk slow, and records a tag on it. The write is on its way when this returns.
fn tag_slowly(lab: &TestEnvironment, id: &str, hold: &Path) -> Child {
    fs::write(hold, "").expect("a file");
    let tag = tag(lab, id, "slow");
    wait_until("the sync to begin", || held(hold).exists());
    tag
}

fn tag(lab: &TestEnvironment, id: &str, tag: &str) -> Child {
    lab.command(["tag", id, tag]).stdout(Stdio::null()).spawn().expect("berth starts")
}

fn held(hold: &Path) -> PathBuf {
    hold.with_extension("held")
}

#[test]
fn keys_output_and_observers_go_on_during_a_slow_sync_and_nothing_is_answered_before_it_ends() {
    let lab = lab();
    let (id, hold) = start_echo(&lab);
    let mut writer = lab.terminal(["attach", &id]);
    writer.wait_for("ready");
    let mut slow = tag_slowly(&lab, &id, &hold);
    writer.type_keys("<one>");
    writer.wait_for("<one>");
    // An observer that attaches now sees all of the text, and what follows.
    let mut observer = lab.terminal(["attach", "--observe", &id]);
    observer.wait_for("<one>");
    writer.type_keys("<two>");
    observer.wait_for("<two>");
    assert!(lab.ok(["screen", &id]).contains("<one><two>"));
    assert_eq!(lab.show(&id)["clients"], 2);
    assert!(lab.events(&id, "tags_changed").is_empty(), "it is not on disk");
    assert_eq!(slow.try_wait().expect("our own child"), None, "it is answered when it is on disk");
    fs::remove_file(&hold).expect("our own file");
    assert_eq!(wait_child(slow), 0);
    assert_eq!(lab.events(&id, "tags_changed").len(), 1);
    writer.type_keys("<three>");
    observer.wait_for("<three>");
}

#[test]
fn requests_that_arrive_during_a_slow_sync_are_answered_after_it_in_their_order() {
    let lab = lab();
    let (id, hold) = start_echo(&lab);
    let slow = tag_slowly(&lab, &id, &hold);
    let more = ["a", "b", "c", "d"].map(|name| tag(&lab, &id, name));
    let mut writer = lab.terminal(["attach", &id]);
    fs::remove_file(&hold).expect("our own file");
    assert_eq!(wait_child(slow), 0);
    assert_eq!(more.map(wait_child), [0; 4]);
    writer.wait_for("ready");
    writer.type_keys("<typed>");
    writer.wait_for("<typed>");
    assert_eq!(lab.events(&id, "tags_changed").len(), 5);
}

#[test]
fn keeper_that_is_killed_during_a_slow_sync_has_recorded_and_answered_nothing() {
    let lab = lab();
    let (id, hold) = start_echo(&lab);
    fs::write(&hold, "").expect("a file");
    let typed = lab.command(["input", &id, "LOST"]).stderr(Stdio::null()).spawn().expect("berth starts");
    wait_until("the sync to begin", || held(&hold).exists());
    lab.kill_keeper(&id);
    assert_eq!(wait_child(typed), 5, "its command says that it does not know");
    assert!(lab.events(&id, "typed").is_empty());
    assert!(lab.output(&id).ends_with(b"ready"), "nothing was typed");
}

#[test]
fn client_that_leaves_during_a_slow_sync_gives_up_its_right_to_type_afterwards() {
    let lab = lab();
    let (id, hold) = start_echo(&lab);
    let mut writer = lab.terminal(["attach", &id]);
    writer.wait_for("ready");
    let slow = tag_slowly(&lab, &id, &hold);
    writer.close();
    writer.wait_exit();
    fs::remove_file(&hold).expect("our own file");
    assert_eq!(wait_child(slow), 0);
    wait_until("the right to be free", || lab.show(&id)["writer"].is_null());
    let mut next = lab.terminal(["attach", &id]);
    next.wait_for("ready");
    next.type_keys("<next>");
    next.wait_for("<next>");
}
