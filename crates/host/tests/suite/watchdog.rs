//! A stuck process is replaced in place. The test binary runs itself as that process: the first image
//! takes a lock, starts a child and gets stuck; the second finds both.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use berth_host::identity::{Pidfd, ProcessIdentity, process_stat};
use berth_host::lock::{LockFile, LockState, lock_state};
use berth_host::process_tree::{self, WaitStatus};
use berth_host::watchdog::{Watchdog, inherited_descriptor};
use berth_host::{random_bytes, signals};
use berth_test_dir::TestDir;

use crate::common::{ScriptShell, alone, await_exit, kill_orphans};

/// The task of the image: `stuck`, `restart`, or after the exec `again`.
const ROLE: &str = "BERTH_TEST_ROLE";
/// The lock file's path, its descriptor, the pid, and the child's pid, for the second image.
const LOCK: &str = "BERTH_TEST_LOCK";
const NOTE: &str = "BERTH_TEST_NOTE";

#[test]
fn a_stuck_process_is_replaced_and_keeps_its_pid_child_and_lock() {
    run("watchdog::a_stuck_process_is_replaced_and_keeps_its_pid_child_and_lock", "stuck");
}

#[test]
fn a_deliberate_restart_is_not_killed_by_an_alarm_that_was_armed() {
    run("watchdog::a_deliberate_restart_is_not_killed_by_an_alarm_that_was_armed", "restart");
}

/// Runs this test again in a process of its own, which plays `role`.
fn run(name: &str, role: &str) {
    match env::var(ROLE).as_deref() {
        Ok("again") => return second_image(),
        Ok(role) => first_image(name, role),
        Err(_) => {}
    }
    let _turn = alone();
    let _orphans = kill_orphans();
    let scratch = TestDir::new();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ROLE, role)
        .env(LOCK, scratch.join("lock"))
        .status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read_to_string(scratch.join("lock.done")).unwrap(), "again");
    assert_eq!(lock_state(&scratch.join("lock")).unwrap(), Some(LockState::Free));
}

fn first_image(name: &str, role: &str) -> ! {
    let lock = LockFile::open_or_create(&PathBuf::from(env::var_os(LOCK).unwrap())).unwrap();
    assert!(lock.try_exclusive().unwrap());
    let shell = ScriptShell::run("exec sleep 1000");
    let me = ProcessIdentity::me().unwrap();
    let note = format!("{} {} {} {}", lock.fd().as_raw_fd(), me.pid, me.start_ticks, shell.child.pid);
    // SAFETY: no other thread of this process uses the environment.
    unsafe {
        env::set_var(ROLE, "again");
        env::set_var(NOTE, note);
    }
    let exe = env::current_exe().unwrap().into_os_string();
    let args: Vec<OsString> = [exe, "--exact".into(), name.into(), "--nocapture".into()].into();
    let watchdog = Watchdog::install(&args, &[lock.fd().as_raw_fd()]).unwrap();
    if role == "restart" {
        watchdog.arm(Duration::from_millis(1));
        panic!("cannot start again: {}", watchdog.restart_now());
    }
    watchdog.arm(Duration::from_millis(1));
    loop {
        std::hint::spin_loop();
    }
}

fn second_image() {
    signals::unblock_all_signals().unwrap();
    let note: Vec<u64> = env::var(NOTE).unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    let [fd, pid, start_ticks, child] = note[..] else { panic!("{note:?}") };
    let (fd, child) = (i32::try_from(fd).unwrap(), u32::try_from(child).unwrap());
    let me = ProcessIdentity::me().unwrap();
    assert_eq!((u64::from(me.pid), me.start_ticks), (pid, start_ticks));

    let path = PathBuf::from(env::var_os(LOCK).unwrap());
    assert_eq!(lock_state(&path).unwrap(), Some(LockState::Held));
    let lock = LockFile::from_fd(inherited_descriptor(fd).unwrap());
    assert!(inherited_descriptor(fd).is_err(), "a descriptor is taken once");
    assert!(lock.try_exclusive().unwrap());
    let others: Vec<u32> =
        process_tree::processes_with_open_lock(&path).unwrap().processes.iter().map(|p| p.pid).collect();
    assert!(others.is_empty(), "the lock was not for the child: {others:?}");

    assert_eq!(process_stat(child).unwrap().ppid, me.pid);
    let pidfd = Pidfd::open(child).unwrap();
    process_tree::signal_descendants(me.pid, |_| vec![libc::SIGKILL]).unwrap();
    await_exit(&pidfd);
    let reaped = process_tree::reap_children().unwrap();
    assert_eq!(reaped.exits, [(child, WaitStatus::Signal(libc::SIGKILL))]);
    assert!(reaped.no_children);
    fs::write(path.with_extension("done"), "again").unwrap();
}

#[test]
fn a_disarmed_watchdog_has_no_timer_left() {
    let _turn = alone();
    let left = || {
        let nothing = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let mut timer = libc::itimerval { it_interval: nothing, it_value: nothing };
        // SAFETY: `timer` is writable.
        assert_eq!(unsafe { libc::getitimer(libc::ITIMER_REAL, &mut timer) }, 0);
        (timer.it_value.tv_sec, timer.it_value.tv_usec)
    };
    let watchdog = Watchdog::install(&[], &[]).unwrap();
    assert_eq!(left(), (0, 0));
    watchdog.arm(Duration::from_secs(3600));
    assert_ne!(left(), (0, 0));
    watchdog.disarm();
    assert_eq!(left(), (0, 0));
}

#[test]
fn only_a_descriptor_that_came_through_exec_is_taken() {
    let scratch = TestDir::new();
    let lock = LockFile::open_or_create(&scratch.join("lock")).unwrap();
    assert!(inherited_descriptor(lock.fd().as_raw_fd()).is_err(), "it closes on exec, so it is ours");
    assert!(inherited_descriptor(1).is_err());
    let mut bytes = [0; 2];
    random_bytes(&mut bytes).unwrap();
    let closed = 100_000 + i32::from(u16::from_ne_bytes(bytes));
    assert_eq!(inherited_descriptor(closed).unwrap_err().raw_os_error(), Some(libc::EBADF));
}
