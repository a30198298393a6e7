//! A shell on a pseudo terminal.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use berth_host::pty::Pty;
use berth_host::spawn::{ChildProcess, ChildStdio, SpawnOptions, spawn};
use berth_test_dir::TestDir;

use crate::common::{await_readable, finish};

fn shell(script: &str) -> (Pty, ChildProcess) {
    let (pty, slave) = Pty::open(24, 80).unwrap();
    let args = ["sh".into(), "-c".into(), script.into()];
    let child = spawn(&SpawnOptions {
        program: Path::new("/bin/sh"),
        args: &args,
        env: &[("PATH".into(), "/bin:/usr/bin".into())],
        cwd: Path::new("/"),
        stdio: ChildStdio::Terminal(slave.as_fd()),
        keep: &[],
        cgroup: None,
        joins: &[],
    });
    (pty, child.unwrap())
}

/// Reads what the terminal shows until it shows `text`.
fn await_text(pty: &Pty, text: &str) -> String {
    let mut shown = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        match rustix::io::read(&pty.master, &mut buffer) {
            Ok(count) => shown.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::AGAIN) => await_readable(pty.master.as_fd()),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&shown)),
        }
        let so_far = String::from_utf8_lossy(&shown);
        if so_far.contains(text) {
            return so_far.into_owned();
        }
    }
}

#[test]
fn a_program_on_a_terminal_is_in_control_of_it() {
    let (pty, child) = shell("exec 3</dev/tty && echo controlling; stty size; stty -a; echo done");
    let shown = await_text(&pty, "done");
    assert!(shown.starts_with("controlling\r\n24 80\r\n"), "{shown}");
    assert!(shown.contains(" iutf8"), "{shown}");
    assert_eq!(finish(&child.pidfd), 0);
}

#[test]
fn a_new_size_is_seen_by_the_program() {
    let (pty, child) = shell("read x; stty size");
    pty.resize(50, 132).unwrap();
    rustix::io::write(&pty.master, b"\n").unwrap();
    await_text(&pty, "50 132");
    assert_eq!(finish(&child.pidfd), 0);
}

#[test]
fn closing_our_end_hangs_up() {
    let scratch = TestDir::new();
    let mark = scratch.join("hangup");
    let (pty, child) = shell(&format!(
        "trap 'echo hup >{}; exit 5' HUP; echo ready; while :; do read x; done",
        mark.display()
    ));
    await_text(&pty, "ready");
    drop(pty);
    assert_eq!(finish(&child.pidfd), 5);
    assert_eq!(fs::read_to_string(mark).unwrap(), "hup\n");
}
