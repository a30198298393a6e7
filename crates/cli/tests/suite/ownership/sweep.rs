//! F7, F13 and F14: files and processes that a sweep may clear up, and cases in which it must not touch anything.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ownership::namespace::{can_unshare, changed};
use crate::ownership::refused::OrdinaryUserFixture;
use crate::ownership::{AgentLookalike, StrayKillGuard, done, has_groups, is_alive, is_gone, lab};

/// Makes a file look as if it had not been touched for long.
pub(crate) fn set_back(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    File::open(path).and_then(|file| file.set_modified(long_ago)).expect("our own file");
}

/// A session directory in the middle of its creation.
fn half_made(lab: &TestEnvironment, id: &str) -> std::path::PathBuf {
    let dir = lab.session_dir(id);
    fs::create_dir_all(dir.join("journal")).expect("a directory");
    for dir in [&dir, &dir.join("journal")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("a mode");
    }
    dir
}

/// A file that an unfinished write leaves in a directory.
fn temporary(dir: &Path) -> std::path::PathBuf {
    let file = dir.join(".status.json.4711.0.tmp");
    fs::write(&file, "half").expect("a file");
    file
}

#[test]
fn f13_when_a_source_of_knowledge_fails_nothing_is_cleared_up_and_the_exit_says_so() {
    if !can_unshare() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let id = lab.start(&["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    let old = [half_made(&lab, "aaaaaaaaaaaa"), temporary(&lab.home())];
    old.iter().for_each(|path| set_back(path));
    // /proc shows no process: neither those that live, nor this very one. A command that acts may not even begin
    // without it; one that only looks sees why nothing would be done.
    let refused = done(changed(&lab, "mount -t tmpfs none /proc", &["sweep"]));
    assert_eq!(refused.code, 11, "{refused:?}");
    assert!(refused.err.contains("/proc"), "{refused:?}");
    let said = done(changed(&lab, "mount -t tmpfs none /proc", &["sweep", "--dry-run", "--json"]));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("nothing was cleaned up") && said.err.contains("/proc"), "{said:?}");
    let swept: Value = serde_json::from_str(&said.out).expect("a report");
    assert_eq!(swept["failed"].as_array().map(Vec::len), Some(1), "{swept}");
    for cleared in swept["left_over"].as_array().into_iter().chain(swept["no_process"].as_array()).flatten() {
        assert_eq!(cleared["done"], "kept", "{swept}");
    }
    assert!(is_alive(&agent) && old.iter().all(|path| path.exists()), "{swept}");
    assert!(lab.events(&id, "run_ended").is_empty());
    // With all of /proc in sight the sweep does all of it.
    let swept = lab.json(["sweep", "--json"]);
    assert!(is_gone(&agent) && old.iter().all(|path| !path.exists()), "{swept}");
    assert_eq!(lab.show(&id)["state"], "lost");
    innocent.assert_untouched();
}

#[test]
fn f13_a_group_that_cannot_be_looked_for_is_not_taken_for_gone() {
    if !can_unshare() || !has_groups() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let pids = lab.dir().join("pids");
    let pidfile = format!("pidfile:{}", pids.display());
    let bare =
        ["child", "[", &pidfile, "setsid", "close-all", "orphan", "env-i", "ignore:HUP,TERM", "hang", "]"];
    let mut script = bare.to_vec();
    script.extend(["say:ready", "hang"]);
    let id = lab.start(&script);
    lab.wait_output(&id, "ready");
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    // Only the group still knows this one.
    let bare =
        StrayKillGuard(crate::ownership::written_down(&pids, 2).into_iter().filter(is_alive).collect());
    assert_eq!(bare.len(), 1);
    for args in [&["show", &id][..], &["sweep"], &["resume", "-d", &id]] {
        let said = done(changed(&lab, crate::ownership::namespace::WITHOUT_GROUPS, args));
        assert_ne!(said.code, 0, "{args:?}: {said:?}");
        assert!(format!("{said:?}").contains("control group"), "{args:?}: {said:?}");
        assert!(lab.events(&id, "run_ended").is_empty(), "{args:?} recorded an end that is none");
    }
    assert!(is_alive(&bare[0]));
    lab.ok(["sweep"]);
    assert!(is_gone(&bare[0]));
    innocent.assert_untouched();
}

#[test]
fn f13_sessions_that_cannot_be_listed_keep_everything() {
    let Some(ordinary) = OrdinaryUserFixture::new() else { return };
    let home = ordinary.lab.home();
    assert_eq!(ordinary.berth(&["ls"]).code, 0);
    let file = temporary(&home);
    set_back(&file);
    for dir in ["sessions", "names", "keys"] {
        let mode =
            |mode| fs::set_permissions(home.join(dir), fs::Permissions::from_mode(mode)).expect("a mode");
        mode(0o000);
        let said = ordinary.berth(&["sweep"]);
        mode(0o700);
        assert_eq!(said.code, 1, "{dir}: {said:?}");
        assert!(
            said.err.contains("nothing was cleaned up: cannot list") && said.err.contains(dir),
            "{said:?}"
        );
        assert!(file.exists(), "{dir}");
    }
    let said = ordinary.berth(&["sweep"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!file.exists());
}

#[test]
fn f13_a_session_that_cannot_be_read_is_kept_with_all_that_is_its_own() {
    let lab = lab();
    let id = lab.start(&["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    lab.ok(["stop", &id]);
    wait_until("the keeper's last act", || lab.processes().is_empty());
    let dir = lab.session_dir(&id);
    let journal =
        fs::read_dir(dir.join("journal")).expect("a journal").next().expect("a file").expect("a file");
    let whole = fs::read(journal.path()).expect("a file");
    let mut broken = whole.clone();
    broken[60] ^= 1;
    fs::write(journal.path(), broken).expect("a file");
    fs::remove_file(dir.join("status.json")).expect("a status cache");
    let file = temporary(&dir);
    for path in [&file, &dir] {
        set_back(path);
    }
    let swept = lab.json(["sweep", "--json"]);
    assert_eq!(swept["damaged"].as_array().map(Vec::len), Some(1), "{swept}");
    assert!(file.exists() && journal.path().exists(), "{swept}");
    fs::write(journal.path(), whole).expect("a file");
    lab.json(["sweep", "--json"]);
    assert!(!file.exists(), "now that it is known to be over");
}

#[test]
fn f14_files_in_the_making_are_kept_and_abandoned_ones_are_cleared() {
    let lab = lab();
    let stopped = lab.start(&["say:ready", "hang"]);
    let running = lab.start(&["say:ready", "hang"]);
    lab.wait_output(&running, "ready");
    lab.ok(["stop", &stopped]);
    let home = lab.home();
    let desk = home.join("notify");
    fs::create_dir_all(desk.join("claims")).expect("a directory");
    let dirs = [
        home.clone(),
        home.join("names"),
        home.join("keys"),
        desk.clone(),
        desk.join("claims"),
        lab.session_dir(&stopped),
    ];
    let files: Vec<_> = dirs.iter().map(|dir| temporary(dir)).collect();
    let made = half_made(&lab, "aaaaaaaaaaaa");
    // A directory that its keeper claimed, and one that has not even a journal.
    let claimed = half_made(&lab, "bbbbbbbbbbbb");
    fs::write(claimed.join("lease"), "").expect("a file");
    let bare = lab.session_dir("cccccccccccc");
    fs::create_dir(&bare).expect("a directory");
    let of_the_living = temporary(&lab.session_dir(&running));
    set_back(&of_the_living);
    for args in [&["sweep", "--json"][..], &["sweep", "--dry-run", "--json"]] {
        let swept = lab.json(args);
        assert_eq!(swept["no_process"], json!([]), "{swept}");
        assert!(files.iter().chain([&made, &claimed, &bare]).all(|path| path.exists()), "{swept}");
    }
    files.iter().chain([&made, &claimed, &bare]).for_each(|path| set_back(path));
    let would = lab.json(["sweep", "--dry-run", "--json"]);
    assert_eq!(would["no_process"].as_array().map(Vec::len), Some(files.len() + 3), "{would}");
    assert!(
        files.iter().chain([&made, &claimed, &bare]).all(|path| path.exists()),
        "a dry run clears nothing"
    );
    let swept = lab.json(["sweep", "--json"]);
    assert!(files.iter().chain([&made, &claimed, &bare]).all(|path| !path.exists()), "{swept}");
    assert!(of_the_living.exists(), "a file that a living keeper writes is kept");
    assert_eq!(lab.show(&stopped)["state"], "stopped");
    assert_eq!(lab.show(&running)["state"], "running");
}

#[test]
fn f14_the_group_of_a_run_that_is_about_to_begin_is_kept_and_those_of_ended_runs_go() {
    if !has_groups() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let id = lab.start(&["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let group = crate::ownership::group_of(&lab, &id).expect("a group");
    let of_run = |epoch: u32| group.with_file_name(format!("{id}.{epoch}"));
    let next = of_run(2);
    fs::create_dir(&next).expect("a group");
    lab.ok(["sweep"]);
    assert!(group.exists() && next.exists(), "one runs, and the other is not made yet");
    lab.ok(["stop", &id]);
    assert!(!group.exists(), "the group of a run that is over");
    // A group as left behind by a keeper that was killed in its last moment, with a process in it.
    fs::create_dir(&group).expect("a group");
    let mut left = Command::new(lab.agent());
    let mut left = left.args(["ignore:HUP,TERM", "hang"]).stdin(Stdio::null()).spawn().expect("it starts");
    let process = berth_host::identity::ProcessIdentity::of(left.id()).expect("it runs");
    fs::write(group.join("cgroup.procs"), left.id().to_string()).expect("root may move it");
    let swept = lab.json(["sweep", "--json"]);
    let kept = next.exists();
    let ended = is_gone(&process);
    let _ = left.kill();
    left.wait().expect("our own child");
    fs::remove_dir(&next).expect("it is empty");
    assert!(ended && !group.exists(), "{swept}");
    assert!(swept["left_over"].to_string().contains(&format!("pid {}", process.pid)), "{swept}");
    assert!(kept, "the group of a run that is about to begin was taken away");
    innocent.assert_untouched();
}

#[test]
fn f14_a_session_whose_journal_was_moved_away_is_not_taken_for_one_that_was_never_made() {
    let lab = lab();
    let id = lab.start(&["say:precious", "hang"]);
    lab.wait_output(&id, "precious");
    lab.kill_keeper(&id);
    let dir = lab.session_dir(&id);
    // As a user does who restores a damaged journal.
    fs::rename(dir.join("journal"), dir.join("journal.bak")).expect("our own");
    fs::create_dir(dir.join("journal")).expect("a directory");
    set_back(&dir);
    let said = lab.berth(["sweep", "--json"]);
    assert!(said.out.contains("has no journal"), "{said:?}");
    assert!(dir.join("output").exists() && dir.join("journal.bak").exists(), "{said:?}");
    fs::remove_dir(dir.join("journal")).expect("it is empty");
    fs::rename(dir.join("journal.bak"), dir.join("journal")).expect("our own");
    assert_eq!(lab.show(&id)["state"], "lost");
}

#[test]
fn f7_unknown_files_in_the_directory_of_sessions_are_never_deleted() {
    let lab = lab();
    lab.ok(["ls"]);
    let sessions = lab.home().join("sessions");
    let (file, dir) = (sessions.join("notes.txt"), sessions.join("backup-2026"));
    fs::write(&file, "mine").expect("a file");
    fs::create_dir_all(dir.join("journal")).expect("a directory");
    fs::write(dir.join("journal").join("x"), "mine").expect("a file");
    // The directory looks like a session that was never made, but for the file in it.
    let odd = half_made(&lab, "aaaaaaaaaaaa");
    fs::write(odd.join("journal").join("notes"), "mine").expect("a file");
    let link = sessions.join("bbbbbbbbbbbb");
    let target = lab.dir().join("target");
    fs::create_dir(&target).expect("a directory");
    fs::write(target.join("precious"), "mine").expect("a file");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    for path in [&file, &dir, &odd, &target] {
        set_back(path);
    }
    for _ in 0..2 {
        let said = lab.berth(["sweep"]);
        for path in [
            &file,
            &dir.join("journal").join("x"),
            &odd.join("journal").join("notes"),
            &target.join("precious"),
        ] {
            assert_eq!(
                fs::read_to_string(path).ok().as_deref(),
                Some("mine"),
                "{}: {said:?}",
                path.display()
            );
        }
    }
    for path in [&odd, &dir] {
        fs::remove_dir_all(path).expect("our own");
    }
    fs::remove_file(&link).expect("our own");
}

#[test]
fn f7_the_memory_of_a_sweep_is_bounded_and_living_strangers_are_never_forgotten() {
    /// More than a sweep remembers.
    const MANY: usize = 5000;
    let me = berth_host::identity::ProcessIdentity::me().expect("this test");
    let (host, _) = me.boot.split_once('/').expect("host and boot");
    let earlier = format!("{host}/another");
    let gone = json!({"pid": 4_000_000, "start_ticks": 1, "boot": earlier});
    // These processes live, and so they count; but they are not strangers.
    let alive = json!({"pid": me.pid, "start_ticks": me.start_ticks, "boot": me.boot});
    for remembered in [gone, alive] {
        let lab = lab();
        lab.ok(["ls"]);
        let memory = lab.home().join("sweep.json");
        let before = json!({"swept_at_ms": 0, "told": vec![remembered.clone(); MANY]});
        fs::write(&memory, before.to_string()).expect("a file");
        let mut stranger = Command::new(lab.agent());
        stranger.arg("hang").env("BERTH_RUN", "zzzzzzzzzzzz:1").env_remove("BERTH_HOME").stdin(Stdio::null());
        let mut stranger = stranger.spawn().expect("it starts");
        let is_new = || {
            let swept = lab.json(["sweep", "--json"]);
            let told = swept["no_record"].as_array().expect("a list").clone();
            told.iter().find(|told| told["pid"] == stranger.id()).map(|told| told["is_new"].clone())
        };
        let news = [is_new(), is_new(), is_new()];
        let kept: Value = serde_json::from_slice(&fs::read(&memory).expect("a file")).expect("an object");
        // Damage costs a repetition, never the sweep.
        fs::write(&memory, "{damaged").expect("a file");
        let after_damage = is_new();
        stranger.kill().expect("our own child");
        stranger.wait().expect("our own child");
        assert_eq!(news, [Some(json!(true)), Some(json!(false)), Some(json!(false))], "{remembered}");
        assert_eq!(after_damage, Some(json!(true)));
        let kept = kept["told"].as_array().expect("a list");
        assert!(kept.len() <= 1000 && kept.iter().any(|told| told["pid"] == stranger.id()), "{}", kept.len());
        assert!(kept.iter().all(|told| told["boot"] != earlier), "no process of another boot lives");
    }
}
