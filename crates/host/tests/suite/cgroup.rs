//! Tests with real groups of version 2. They need root and the hierarchy; elsewhere they say so and do nothing.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use berth_host::cgroup::{CgroupV2, keeper_place, place_for_runs};
use berth_host::identity::ProcessIdentity;
use berth_host::spawn::{ChildProcess, ChildStdio, SpawnOptions, spawn};
use berth_test_dir::TestDir;

use crate::common::{alone, await_exit, finish};

/// A parent for the groups of one test. On drop it is removed, and the processes in it are killed.
struct TestCgroupParent(PathBuf);

impl TestCgroupParent {
    fn new() -> Option<Self> {
        let keepers = rustix::process::geteuid().is_root().then(keeper_place).and_then(Result::ok);
        let Some(keepers) = keepers else {
            eprintln!("SKIPPED: this needs root and a cgroup hierarchy of version 2");
            return None;
        };
        let mut bytes = [0; 8];
        berth_host::random_bytes(&mut bytes).unwrap();
        let name = format!("test-{:016x}", u64::from_ne_bytes(bytes));
        let path = keepers.path().parent().unwrap().join(name);
        fs::create_dir(&path).unwrap();
        Some(Self(path))
    }

    fn group(&self, name: &str) -> CgroupV2 {
        CgroupV2::make(&self.0, name).unwrap()
    }
}

impl Drop for TestCgroupParent {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        wait_until(|| empty(&self.0));
        remove(&self.0);
    }
}

/// Removes a group and those inside it.
fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}

fn empty(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.events")).is_ok_and(|events| events.contains("populated 0"))
}

/// Waits for a change that the kernel makes asynchronously.
fn wait_until(mut happened: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !happened() {
        assert!(std::time::Instant::now() < until, "waited in vain");
        std::thread::yield_now();
    }
}

/// A shell script, born in a group.
fn born_in(group: &CgroupV2, script: &str) -> ChildProcess {
    let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    let args = ["sh".into(), "-c".into(), script.into()];
    spawn(&SpawnOptions {
        program: Path::new("/bin/sh"),
        args: &args,
        env: &[],
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: null.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
        keep: &[],
        cgroup: Some(group.as_fd()),
        joins: &[],
    })
    .unwrap()
}

#[test]
fn a_group_lists_the_processes_born_in_it_and_in_groups_inside_it() {
    let _turn = alone();
    let Some(place) = TestCgroupParent::new() else { return };
    let group = place.group("a.1");
    assert_eq!(group.path(), place.0.join("a.1"));
    assert!(group.members().unwrap().pids.is_empty() && !group.is_populated().unwrap());
    let inner = CgroupV2::make(group.path(), "inner").unwrap();
    let deep = CgroupV2::make(inner.path(), "deep").unwrap();
    let children = [&group, &inner, &deep].map(|group| born_in(group, "exec sleep 1000"));
    let mut born = children.each_ref().map(|child| child.pid);
    born.sort_unstable();
    let members = group.members().unwrap();
    assert_eq!((members.pids.as_slice(), members.unseen), (&born[..], 0));
    assert_eq!(deep.members().unwrap().pids, [children[2].pid]);
    assert!(group.is_populated().unwrap());
    let by_name = |pid| berth_host::cgroup::group_of_process(pid).unwrap();
    assert_eq!(by_name(children[0].pid).as_deref(), Some("a.1"));
    group.kill().unwrap();
    for child in &children {
        assert_eq!(finish(&child.pidfd), -libc::SIGKILL, "also in the groups inside");
    }
    wait_until(|| !group.is_populated().unwrap());
}

#[test]
fn killing_a_group_ends_a_storm_of_forks_and_no_process_beside_it() {
    let _turn = alone();
    let Some(place) = TestCgroupParent::new() else { return };
    let _orphans = crate::common::kill_orphans();
    let (group, beside) = (place.group("a.1"), place.group("a.2"));
    let neighbour = born_in(&beside, "exec sleep 1000");
    // Two more at any time and from each, none of which lives for long.
    let storm = "trap '' TERM HUP; while :; do sh -c 'exit 0' & sh -c 'exit 0' & wait; done";
    let children: Vec<ChildProcess> = (0..4).map(|_| born_in(&group, storm)).collect();
    wait_until(|| group.members().unwrap().pids.len() > children.len());
    group.kill().unwrap();
    for child in &children {
        await_exit(&child.pidfd);
    }
    wait_until(|| {
        let _ = berth_host::process_tree::reap_children();
        !group.is_populated().unwrap()
    });
    assert!(group.remove().unwrap());
    assert!(!group.path().exists());
    assert!(!neighbour.pidfd.has_exited(), "another group is not hit");
    group.kill().expect("killing what is gone is fine");
    assert!(group.members().unwrap().pids.is_empty() && !group.is_populated().unwrap());
    assert!(group.remove().unwrap(), "and so is removing it");
}

#[test]
fn a_group_with_a_process_in_it_is_not_removed() {
    let _turn = alone();
    let Some(place) = TestCgroupParent::new() else { return };
    let group = place.group("a.1");
    let inner = CgroupV2::make(group.path(), "inner").unwrap();
    let child = born_in(&inner, "exec sleep 1000");
    let process = ProcessIdentity::of(child.pid).unwrap();
    assert!(!group.remove().unwrap());
    assert!(group.path().is_dir() && inner.path().is_dir());
    assert_eq!(ProcessIdentity::of(child.pid).unwrap(), process, "and no process was ended for it");
    child.pidfd.signal(libc::SIGKILL).unwrap();
    finish(&child.pidfd);
    wait_until(|| group.remove().unwrap());
    assert!(!group.path().exists());
}

#[test]
fn an_existing_group_is_taken_over_only_if_it_is_empty() {
    let _turn = alone();
    let Some(place) = TestCgroupParent::new() else { return };
    drop(place.group("a.1"));
    let group = place.group("a.1");
    let child = born_in(&group, "exec sleep 1000");
    let refused = CgroupV2::make(&place.0, "a.1").unwrap_err();
    assert!(refused.contains("no record explains") && refused.contains("a.1"), "{refused}");
    assert!(!child.pidfd.has_exited());
    // One in a group inside counts as well.
    let outer = place.group("b.1");
    let inner = CgroupV2::make(outer.path(), "inner").unwrap();
    let other = born_in(&inner, "exec sleep 1000");
    assert!(CgroupV2::make(&place.0, "b.1").is_err());
    for child in [child, other] {
        child.pidfd.signal(libc::SIGKILL).unwrap();
        finish(&child.pidfd);
    }
    wait_until(|| CgroupV2::make(&place.0, "a.1").is_ok() && CgroupV2::make(&place.0, "b.1").is_ok());
}

#[test]
fn only_a_group_of_that_name_is_opened() {
    let _turn = alone();
    let Some(place) = TestCgroupParent::new() else { return };
    let group = place.group("a.1");
    let open = |path: &Path, name: &str| CgroupV2::open(path, name).map(|group| group.is_some());
    assert!(open(group.path(), "a.1").unwrap());
    for other in ["a.2", "a", "", "..", "b/a.1"] {
        assert!(!open(group.path(), other).unwrap(), "{other}");
    }
    assert!(!open(&place.0.join("a.1/.."), "a.1").unwrap(), "a way around");
    assert!(!open(place.0.parent().unwrap(), "a.1").unwrap(), "what is above it");
    assert!(!open(&place.0.join("a.9"), "a.9").unwrap(), "one that is gone");
    assert!(!open(&place.0.join("gone/as/well/a.9"), "a.9").unwrap());
}

#[test]
fn a_group_that_cannot_be_in_sight_is_not_taken_for_gone() {
    let scratch = TestDir::new();
    fs::create_dir(scratch.join("a.1")).unwrap();
    for name in ["a.1", "a.2"] {
        let error = CgroupV2::open(&scratch.join(name), name).unwrap_err();
        assert!(error.to_string().contains("in sight"), "{error}");
    }
    assert!(CgroupV2::make(&scratch, "a.1").is_err(), "nothing is born in a plain directory");
}

#[test]
fn a_process_outside_of_our_groups_is_told_why_it_gets_none() {
    // The test itself was started from outside, in an unknown group.
    let told = place_for_runs();
    assert!(told.is_err_and(|why| why.contains("cgroup")), "a test is no keeper");
}
