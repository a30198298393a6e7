//! Signals of this process. They are process-wide, so the tests take turns.

use std::fs;
use std::os::fd::AsFd;

use berth_host::process_tree::{self, WaitStatus};
use berth_host::signals::{SignalFd, ignore_signals, unblock_all_signals};

use crate::common::{ScriptShell, alone, await_exit, await_readable};

fn mask(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn a_signal_arrives_at_the_descriptor_and_does_nothing_else() {
    let _turn = alone();
    let signals = SignalFd::new(&[libc::SIGUSR1, libc::SIGTERM]).unwrap();
    assert_eq!(signals.read().unwrap(), None);
    // SAFETY: takes no memory. `raise` reaches this thread, whose mask was just set.
    unsafe { libc::raise(libc::SIGTERM) };
    await_readable(signals.as_fd());
    assert_eq!(signals.read().unwrap(), Some(libc::SIGTERM));
    assert_eq!(signals.read().unwrap(), None);
    unblock_all_signals().unwrap();
    assert_eq!(mask("SigBlk:"), 0);
}

#[test]
fn an_ignored_signal_is_ignored() {
    let _turn = alone();
    ignore_signals(&[libc::SIGHUP, libc::SIGUSR2]).unwrap();
    // SAFETY: takes no memory.
    unsafe { libc::raise(libc::SIGHUP) };
    assert_eq!(mask("SigIgn:") >> (libc::SIGUSR2 - 1) & 1, 1);
    assert!(ignore_signals(&[libc::SIGKILL]).is_err());
}

#[test]
fn exits_are_not_lost_if_our_parent_ignored_sigchld() {
    let _turn = alone();
    ignore_signals(&[libc::SIGCHLD]).unwrap();
    let _signals = SignalFd::new(&[libc::SIGCHLD]).unwrap();
    let shell = ScriptShell::run("exit 3");
    await_exit(&shell.child.pidfd);
    assert_eq!(process_tree::reap_children().unwrap().exits, [(shell.child.pid, WaitStatus::Code(3))]);
    shell.forget();
}
