//! Tests of identity against real processes, and a real pid that is reused.

use std::fs;
use std::process::Command;

use berth_host::identity::{Pidfd, ProcessIdentity, ProcessLiveness, ignores_signal, process_stat};
use berth_test_dir::TestDir;

use crate::common::{ScriptShell, await_exit, finish, spawn_quietly};

/// An id that no boot has.
const EARLIER_BOOT: &str = "00000000-0000-0000-0000-000000000000";

#[test]
fn a_living_process_is_alive_and_its_descriptor_reaches_it() {
    let shell = ScriptShell::run("read x");
    let ProcessLiveness::Alive(pidfd) = ProcessIdentity::of(shell.child.pid).unwrap().check() else {
        panic!("it waits for input and must be alive");
    };
    pidfd.signal(libc::SIGKILL).unwrap();
    assert_eq!(shell.finish(), -libc::SIGKILL);
    // Now it is gone, and that is fine.
    pidfd.signal(libc::SIGKILL).unwrap();
}

#[test]
fn another_start_time_or_boot_is_another_process() {
    let me = ProcessIdentity::me().unwrap();
    assert!(matches!(me.check(), ProcessLiveness::Alive(_)));
    let earlier = ProcessIdentity { start_ticks: me.start_ticks - 1, ..me.clone() };
    assert!(matches!(earlier.check(), ProcessLiveness::Gone));
    let (host, boot) = me.boot.split_once('/').expect("host and boot");
    let before_reboot = ProcessIdentity { boot: format!("{host}/{EARLIER_BOOT}"), ..me.clone() };
    assert!(matches!(before_reboot.check(), ProcessLiveness::Gone));
    // Two containers of one kernel may have machine ids of their own.
    let beside = ProcessIdentity { boot: format!("0123456789abcdef/{boot}"), ..me.clone() };
    assert!(matches!(beside.check(), ProcessLiveness::Alive(_)));
}

#[test]
fn a_process_of_another_host_is_neither_alive_nor_gone() {
    let me = ProcessIdentity::me().unwrap();
    for (number, pid) in [("one of ours", me.pid), ("none here", i32::MAX.cast_unsigned())] {
        let there = ProcessIdentity { pid, boot: format!("0123456789abcdef/{EARLIER_BOOT}"), ..me.clone() };
        assert!(there.is_of_another_boot().unwrap());
        let ProcessLiveness::CannotTell(why) = there.check() else { panic!("{number}") };
        assert!(why.contains("another host (0123456789abcdef)"), "{why}");
    }
    assert_eq!(me.on_another_host(), None);
}

#[test]
fn numbers_that_are_no_process_are_gone() {
    let me = ProcessIdentity::me().unwrap();
    for pid in [0, u32::MAX, i32::MAX.cast_unsigned()] {
        assert!(matches!(ProcessIdentity { pid, ..me.clone() }.check(), ProcessLiveness::Gone), "{pid}");
    }
    // A thread has a number of its own, and files in /proc, but is not a process.
    let thread = std::thread::spawn(|| {
        // SAFETY: takes no memory.
        let thread = unsafe { libc::gettid() }.cast_unsigned();
        ProcessIdentity::of(thread).unwrap().check()
    });
    assert!(matches!(thread.join().unwrap(), ProcessLiveness::Gone));
}

#[test]
fn a_zombie_is_gone() {
    let shell = ScriptShell::run("read x");
    let identity = ProcessIdentity::of(shell.child.pid).unwrap();
    shell.child.pidfd.signal(libc::SIGKILL).unwrap();
    await_exit(&shell.child.pidfd);
    assert!(process_stat(shell.child.pid).unwrap().is_zombie());
    assert!(matches!(identity.check(), ProcessLiveness::Gone));
}

#[test]
fn a_process_with_a_reused_pid_is_not_taken_for_the_first_one() {
    const INSIDE: &str = "BERTH_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return reuse_a_pid();
    }
    // In a pid namespace of its own no other process takes pids, and the next one can be chosen.
    let name = "identity::a_process_with_a_reused_pid_is_not_taken_for_the_first_one";
    let can = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: not allowed to make a pid namespace");
        return;
    }
    let status = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .status();
    assert!(status.unwrap().success());
}

fn reuse_a_pid() {
    let first = ScriptShell::run("read x");
    let identity = ProcessIdentity::of(first.child.pid).unwrap();
    let stale = Pidfd::open(first.child.pid).unwrap();
    first.finish();
    // Start times count in hundredths of a second; let the next one begin.
    while berth_host::clock::boot_ms() / 10 <= identity.start_ticks {
        std::hint::spin_loop();
    }
    fs::write("/proc/sys/kernel/ns_last_pid", (identity.pid - 1).to_string()).unwrap();
    let second = ScriptShell::run("read x");
    assert_eq!(second.child.pid, identity.pid, "the pid must have been given out again");
    assert!(matches!(identity.check(), ProcessLiveness::Gone));
    assert!(stale.has_exited());
    stale.signal(libc::SIGKILL).unwrap();
    assert_eq!(second.finish(), 1, "the second one saw the end of its input, and no signal");
}

#[test]
fn a_name_with_parentheses_and_spaces_is_read_whole() {
    let scratch = TestDir::new();
    let program = scratch.join("a) R 1 (b");
    fs::copy("/bin/sleep", &program).unwrap();
    let child = spawn_quietly(&program, &scratch).unwrap();
    // Without an argument `sleep` complains and exits: the name stays until it is reaped.
    await_exit(&child.pidfd);
    let stat = process_stat(child.pid).unwrap();
    assert_eq!((stat.comm.as_str(), stat.ppid), ("a) R 1 (b", std::process::id()));
    assert_eq!((stat.pid, stat.pgrp, stat.session), (child.pid, child.pid, child.pid));
    finish(&child.pidfd);
}

#[test]
fn an_ignored_signal_is_seen_from_outside() {
    let mut shell = ScriptShell::run("trap '' HUP; echo ready; read x");
    assert_eq!(shell.line(), "ready");
    assert!(ignores_signal(shell.child.pid, libc::SIGHUP).unwrap());
    assert!(!ignores_signal(shell.child.pid, libc::SIGTERM).unwrap());
    assert!(!ignores_signal(shell.child.pid, 0).unwrap());
}
