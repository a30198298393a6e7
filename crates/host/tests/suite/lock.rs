//! Locks between processes.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use berth_host::lock::{LockFile, LockState, lock_state};
use berth_host::process_tree;
use berth_test_dir::TestDir;

use crate::common::ScriptShell;

#[test]
fn a_held_lock_cannot_be_taken_by_another_process() {
    let scratch = TestDir::new();
    let path = scratch.join("lock");
    assert_eq!(lock_state(&path).unwrap(), None);
    let first = LockFile::open_or_create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(lock_state(&path).unwrap(), Some(LockState::Free));
    assert!(first.try_exclusive().unwrap());
    assert_eq!(lock_state(&path).unwrap(), Some(LockState::Held));

    let second = LockFile::open_or_create(&path).unwrap();
    assert!(!second.try_exclusive().unwrap());
    assert!(!second.acquire(Duration::from_millis(5)).unwrap());
    drop(first);
    assert!(second.acquire(Duration::ZERO).unwrap());
}

#[test]
fn a_symbolic_link_is_not_a_lock_file() {
    let scratch = TestDir::new();
    symlink(scratch.join("target"), scratch.join("lock")).unwrap();
    let error = LockFile::open_or_create(&scratch.join("lock")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn an_inherited_lock_is_held_until_its_last_holder_dies() {
    let scratch = TestDir::new();
    let path = scratch.join("lock");
    let lock = LockFile::open_or_create(&path).unwrap();
    assert!(lock.try_exclusive().unwrap());
    let mut holder = ScriptShell::run_with("sleep 1000 & echo; read x", &[], &[lock.as_fd()]);
    holder.line();
    let mut reader = ScriptShell::run(&format!("exec 3<{0} 4>>{0}; echo; read x", path.display()));
    reader.line();
    assert_eq!(process_tree::processes_with_open_lock(&path).unwrap().processes.len(), 2, "never ourselves");

    drop(lock);
    assert_eq!(lock_state(&path).unwrap(), Some(LockState::Held));
    let found = process_tree::processes_with_open_lock(&path).unwrap().processes;
    let pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
    let mut expected = process_tree::descendants(holder.child.pid).unwrap();
    expected.push(holder.child.pid);
    expected.sort_unstable();
    assert_eq!(pids, expected, "the shell and its sleep, but not the one that only reads");

    // The shell alone is not the last one.
    process_tree::signal_descendants(holder.child.pid, |_| vec![libc::SIGKILL]).unwrap();
    assert_eq!(lock_state(&path).unwrap(), Some(LockState::Held));
    holder.child.pidfd.signal(libc::SIGKILL).unwrap();
    let lock = LockFile::open_or_create(&path).unwrap();
    assert!(lock.acquire(Duration::from_secs(30)).unwrap());
    assert!(process_tree::processes_with_open_lock(&path).unwrap().processes.is_empty());
}

#[test]
fn a_text_is_read_as_it_was_written() {
    let scratch = TestDir::new();
    let lock = LockFile::open_or_create(&scratch.join("lock")).unwrap();
    assert_eq!(lock.read_text().unwrap(), "");
    for text in ["a longer one, ü", "short", "", &"x".repeat(496)] {
        lock.write_text(text).unwrap();
        assert_eq!(lock.read_text().unwrap(), text);
    }
    assert!(lock.write_text(&"x".repeat(497)).is_err());
    assert!(lock.write_text("a\0b").is_err());
    for damaged in ["by hand".to_owned(), "x".repeat(512)] {
        fs::write(scratch.join("lock"), damaged).unwrap();
        assert_eq!(lock.read_text().unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    }
}

#[test]
fn a_reader_sees_the_old_text_or_the_new_one() {
    let scratch = TestDir::new();
    let path = scratch.join("lock");
    let texts = ["a".repeat(490), "b".repeat(30)];
    let lock = LockFile::open_or_create(&path).unwrap();
    lock.write_text(&texts[0]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..40_000).for_each(|turn| lock.write_text(&texts[turn % 2]).unwrap()));
        let reader = LockFile::open_or_create(&path).unwrap();
        while !writer.is_finished() {
            let text = reader.read_text().unwrap();
            assert!(texts.contains(&text), "{text}");
        }
    });
}
