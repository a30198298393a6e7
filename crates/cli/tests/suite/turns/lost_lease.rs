//! The lease file, or the whole directory, of a session is removed or replaced while its keeper lives: by a cleaner, an
//! atomic rename, a restore over a live directory. Nothing that was accepted is lost, and no key runs twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessLiveness;
use rustix::process::Signal;

use crate::turns::{did, lab, prompts, start, states, wait_unkept};

fn lease(lab: &TestEnvironment, id: &str) -> PathBuf {
    lab.session_dir(id).join("lease")
}

fn remove(lease: &Path) {
    fs::remove_file(lease).expect("the lease");
}

/// Replaces the lease by a copy of it, as an editor or `rsync` does.
fn replace(lease: &Path) {
    let copy = lease.with_extension("new");
    fs::copy(lease, &copy).expect("a copy");
    fs::rename(&copy, lease).expect("the copy takes its place");
}

fn copy_dir(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(status.success());
}

fn assert_names_what_happened(said: &CommandOutput, what: &str) {
    assert_ne!(said.code, 0, "it was not accepted: {said:?}");
    assert!(said.err.contains(what) && said.err.contains("hint:"), "{said:?}");
}

#[test]
fn turn_is_refused_and_its_key_runs_once_after_the_lease_is_removed_or_replaced() {
    for damage in [remove, replace] {
        let lab = lab();
        let id = start(&lab, &["--name", "s"]);
        lab.ok(["send", "--wait", "s", "one"]);
        damage(&lease(&lab, &id));
        // None of these makes a second keeper, or writes to the journal of the first one.
        for look in [&["ls"][..], &["show", "s"], &["why", "s"], &["sweep"], &["doctor"]] {
            lab.berth(look);
        }
        assert_eq!(lab.show("s")["state"], "idle");
        let why = lab.ok(["why", "s"]);
        assert!(why.contains("the lease file was removed or replaced"), "{why}");
        let refused = lab.berth(["send", "s", "two", "--key", "k"]);
        assert_names_what_happened(&refused, "lease file of session `s` was removed or replaced");
        wait_unkept(&lab, &id);
        assert_eq!(states(&lab, &id), ["done"], "a refused prompt is not a turn");
        assert_eq!(lab.events(&id, "run_ended").len(), 1, "the end of its run is recorded");
        assert_eq!(lab.show("s")["state"], "stopped");
        for _ in 0..2 {
            lab.ok(["send", "--wait", "s", "two", "--key", "k"]);
        }
        assert_eq!(states(&lab, &id), ["done", "done"]);
        assert_eq!(prompts(&did(&lab, &id)), ["one", "two"]);
        lab.ok(["stop", "--grace", "0s", "s"]);
    }
}

#[test]
fn session_whose_lease_was_removed_is_stopped_and_purged_like_any_other() {
    let lab = lab();
    let id = start(&lab, &[]);
    lab.ok(["send", "--wait", &id, "one"]);
    remove(&lease(&lab, &id));
    let purged = lab.berth(["purge", "--yes", &id]);
    assert_eq!(purged.code, 4, "a running session is not purged: {purged:?}");
    assert_eq!(lab.berth(["resume", "-d", &id]).code, 4, "it runs");
    lab.ok(["stop", "--grace", "0s", &id]);
    assert_eq!(lab.show(&id)["state"], "stopped");
    lab.ok(["resume", "-d", &id]);
    lab.ok(["send", "--wait", &id, "two"]);
    assert_eq!(states(&lab, &id), ["done", "done"]);
    lab.ok(["stop", "--grace", "0s", &id]);
    lab.ok(["purge", "--yes", &id]);
    assert_eq!(lab.berth(["show", &id]).code, 3);
}

/// The record of a session that runs is moved away, and a copy of it put in its place.
#[test]
fn directory_that_was_replaced_by_a_copy_is_not_written_to_while_its_keeper_lives() {
    let lab = lab();
    let id = start(&lab, &[]);
    lab.ok(["send", "--wait", &id, "one"]);
    let keeper = lab.process(&id, "keeper_pid");
    let (dir, original) = (lab.session_dir(&id), lab.dir().join("original"));
    fs::rename(&dir, &original).expect("the directory moves");
    copy_dir(&original, &dir);
    let segments = |dir: &Path| {
        let files = fs::read_dir(dir.join("journal")).expect("a journal").flatten();
        let mut files: Vec<_> =
            files.map(|file| (file.file_name(), fs::read(file.path()).expect("a segment"))).collect();
        files.sort();
        files
    };
    let before = segments(&dir);
    let pid = format!("pid {}", keeper.pid);
    for args in [
        &["send", &id, "two", "--key", "k"][..],
        &["resume", "-d", &id],
        &["stop", "--grace", "0s", &id],
        &["purge", "--yes", &id],
        &["tag", &id, "x"],
        &["ls"],
        &["sweep"],
    ] {
        let said = lab.berth(args);
        assert_ne!(said.code, 0, "{args:?}: {said:?}");
        assert!(format!("{said:?}").contains(&pid), "{args:?}: {said:?}");
        assert!(matches!(keeper.check(), ProcessLiveness::Alive(_)), "{args:?} ended the keeper: {said:?}");
    }
    assert!(segments(&dir) == before, "nothing was written");
    // The test follows the advice of the message. The keeper finds that its directory was replaced,
    // and exits without writing.
    signal(&keeper, Signal::TERM);
    wait_gone(&keeper);
    wait_until("its run to end", || lab.processes().is_empty());
    assert!(segments(&dir) == before, "nothing was written");
    lab.ok(["send", "--wait", &id, "two", "--key", "k"]);
    assert_eq!(states(&lab, &id), ["done", "done"]);
    assert_eq!(prompts(&did(&lab, &id)), ["one", "two"]);
    lab.ok(["stop", "--grace", "0s", &id]);
}

/// The journal of an older copy does not name the keeper that lives.
#[test]
fn directory_that_was_replaced_by_an_older_copy_is_not_written_to_while_its_keeper_lives() {
    let lab = lab();
    let id = start(&lab, &[]);
    lab.ok(["send", "--wait", &id, "one"]);
    lab.ok(["stop", "--grace", "0s", &id]);
    wait_until("its keeper to leave", || lab.processes().is_empty());
    let (dir, older, newer) = (lab.session_dir(&id), lab.dir().join("older"), lab.dir().join("newer"));
    copy_dir(&dir, &older);
    lab.ok(["send", "--wait", &id, "two"]);
    let keeper = lab.process(&id, "keeper_pid");
    fs::rename(&dir, &newer).expect("the directory moves");
    fs::rename(&older, &dir).expect("the copy takes its place");
    for args in [&["send", &id, "three"][..], &["resume", "-d", &id], &["purge", "--yes", &id], &["sweep"]] {
        let said = lab.berth(args);
        assert!(matches!(keeper.check(), ProcessLiveness::Alive(_)), "{args:?} ended the keeper: {said:?}");
        if args[0] != "sweep" {
            assert_ne!(said.code, 0, "{args:?}: {said:?}");
            assert!(said.err.contains(&format!("pid {}", keeper.pid)), "{args:?}: {said:?}");
        }
    }
    // Nothing is lost once the original is put back.
    fs::rename(&dir, &older).expect("the copy moves");
    fs::rename(&newer, &dir).expect("the original takes its place");
    lab.ok(["send", "--wait", &id, "three"]);
    assert_eq!(states(&lab, &id), ["done", "done", "done"]);
    assert_eq!(prompts(&did(&lab, &id)), ["one", "two", "three"]);
    lab.ok(["stop", "--grace", "0s", &id]);
}
