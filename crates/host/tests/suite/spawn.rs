//! The surroundings of a started program, and the errors when it cannot start.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use berth_host::spawn::{ChildStdio, SpawnError, SpawnOptions, spawn, spawn_beside};
use berth_host::{cgroup, process_tree, signals};
use berth_test_dir::TestDir;

use crate::common::{ScriptShell, alone, finish, pipe, spawn_quietly};

#[test]
fn a_program_gets_its_arguments_environment_and_directory() {
    let scratch = TestDir::new();
    let output = File::create_new(scratch.join("out")).unwrap();
    let args = ["my-sh", "-c", "echo $0 $1; echo $MARK $HOME; pwd", "zero", "one"].map(Into::into);
    let child = spawn(&SpawnOptions {
        program: Path::new("/bin/sh"),
        args: &args,
        env: &[("MARK".into(), "a=b".into())],
        cwd: &scratch,
        stdio: ChildStdio::Files { stdin: output.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
        keep: &[],
        cgroup: None,
        joins: &[],
    });
    assert_eq!(finish(&child.unwrap().pidfd), 0);
    let text = fs::read_to_string(scratch.join("out")).unwrap();
    assert_eq!(text, format!("zero one\na=b\n{}\n", scratch.display()));
}

#[test]
fn a_failed_start_reports_the_reason_and_leaves_nothing() {
    let _turn = alone();
    let scratch = TestDir::new();
    let file = |name: &str, text: &str, mode| {
        let path = scratch.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let plain = file("plain", "", 0o600);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o700);
    let missing = scratch.join("missing");
    let told = |program: &Path, cwd: &Path| spawn_quietly(program, cwd).unwrap_err().to_string();

    let at = |path: &Path| path.display().to_string();
    assert_eq!(
        told(&missing, Path::new("/")),
        format!("cannot run {}: no such file or directory", at(&missing))
    );
    assert_eq!(told(&plain, Path::new("/")), format!("cannot run {}: permission denied", at(&plain)));
    assert_eq!(
        told(&orphan, Path::new("/")),
        format!("cannot run {}: the interpreter or loader it asks for does not exist", at(&orphan))
    );
    assert_eq!(
        told(Path::new("/bin/true"), &missing),
        format!("cannot enter the directory {}: no such file or directory", at(&missing))
    );
    assert_eq!(
        told(Path::new("/bin/t\0rue"), Path::new("/")),
        "cannot run /bin/t\0rue: its path contains a zero byte"
    );
    let reaped = process_tree::reap_children().unwrap();
    assert!(reaped.no_children && reaped.exits.is_empty(), "a failed start must leave no zombie: {reaped:?}");
}

#[test]
fn a_process_started_beside_us_is_a_child_of_our_parent_and_not_ours() {
    let _turn = alone();
    let scratch = TestDir::new();
    let output = File::create_new(scratch.join("out")).unwrap();
    let args = ["sh", "-c", "echo $PPID"].map(Into::into);
    let child = spawn_beside(&spec_of(&output, &args)).unwrap();
    crate::common::await_exit(&child.pidfd);
    let parent = fs::read_to_string(scratch.join("out")).unwrap();
    assert_eq!(parent.trim(), std::os::unix::process::parent_id().to_string());
    assert!(process_tree::reap_children().unwrap().no_children);
    let missing = SpawnOptions { program: Path::new("/no/such"), ..spec_of(&output, &args) };
    assert!(spawn_beside(&missing).is_err());
}

fn spec_of<'a>(output: &'a File, args: &'a [std::ffi::OsString]) -> SpawnOptions<'a> {
    SpawnOptions {
        program: Path::new("/bin/sh"),
        args,
        env: &[],
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: output.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
        keep: &[],
        cgroup: None,
        joins: &[],
    }
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let scratch = TestDir::new();
    let script = scratch.join("script");
    fs::write(&script, "exit 42\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(finish(&spawn_quietly(&script, Path::new("/")).unwrap().pidfd), 42);
}

#[test]
fn a_program_starts_with_default_signals_and_none_blocked() {
    let _turn = alone();
    // Raw calls, because the library refuses to touch signals 32 and 33, which it uses itself.
    for signal in (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        let (ignore, none) = ([libc::SIG_IGN as u64, 0, 0, 0], std::ptr::null_mut::<u64>());
        // SAFETY: the layout is the kernel's: handler, flags, restorer, mask.
        let answer = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, ignore.as_ptr(), none, 8) };
        assert_eq!(answer, 0);
    }
    let _blocked = signals::SignalFd::new(&[libc::SIGUSR1, libc::SIGTERM, libc::SIGCHLD]).unwrap();
    let mut shell = ScriptShell::run("exec cat /proc/self/status");
    let status = shell.rest();
    assert_eq!(shell.finish(), 0);
    for mask in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = status.lines().find(|line| line.starts_with(mask)).unwrap();
        assert_eq!(line, format!("{mask}:\t0000000000000000"));
    }
}

#[test]
fn a_program_has_the_descriptors_it_was_given_and_no_others() {
    let _turn = alone();
    let scratch = TestDir::new();
    let kept = File::create(scratch.join("kept")).unwrap();
    // A careless library opens something without close-on-exec.
    // SAFETY: takes no memory.
    let careless = unsafe { libc::dup(kept.as_raw_fd()) };
    // SAFETY: the descriptor was just made, and no other code owns it.
    let careless = unsafe { OwnedFd::from_raw_fd(careless) };

    let mut shell = ScriptShell::run_with("echo up; read x", &[], &[kept.as_fd()]);
    // The loader has the files of the program open for a moment.
    assert_eq!(shell.line(), "up");
    let open: BTreeSet<i32> = fs::read_dir(format!("/proc/{}/fd", shell.child.pid))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(open, BTreeSet::from([0, 1, 2, kept.as_raw_fd()]));
    let target = fs::read_link(format!("/proc/{}/fd/{}", shell.child.pid, kept.as_raw_fd()));
    assert_eq!(target.unwrap(), scratch.join("kept"));
    assert!(rustix::io::fcntl_getfd(&kept).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    drop(careless);
}

#[test]
fn descriptors_that_are_in_each_others_place_are_not_mixed_up() {
    let _turn = alone();
    let scratch = TestDir::new();
    fs::write(scratch.join("in"), "text").unwrap();
    let input = File::open(scratch.join("in")).unwrap();
    let mut output =
        File::options().read(true).write(true).create_new(true).open(scratch.join("out")).unwrap();
    // SAFETY: nothing here reads our standard input, and 0 stays open as long as the process.
    let (zero, two) = unsafe { (BorrowedFd::borrow_raw(0), BorrowedFd::borrow_raw(2)) };
    // SAFETY: takes no memory.
    assert_eq!(unsafe { libc::dup2(output.as_raw_fd(), 0) }, 0);
    let args = ["cat".into()];
    // The output is 0, which the input of the child overwrites first.
    let child = spawn(&SpawnOptions {
        program: Path::new("/bin/cat"),
        args: &args,
        env: &[],
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: input.as_fd(), stdout: zero, stderr: two },
        keep: &[],
        cgroup: None,
        joins: &[],
    });
    assert_eq!(finish(&child.unwrap().pidfd), 0);
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn a_kept_descriptor_in_the_place_of_a_standard_one_is_refused() {
    let (input, output) = pipe();
    // SAFETY: 1 stays open as long as the process.
    let one = unsafe { BorrowedFd::borrow_raw(1) };
    let refused = spawn(&SpawnOptions {
        program: Path::new("/bin/true"),
        args: &["true".into()],
        env: &[],
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: input.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
        keep: &[one],
        cgroup: None,
        joins: &[],
    });
    assert!(matches!(refused, Err(SpawnError::KeepIsStdio(1))), "{refused:?}");
}

#[test]
fn a_program_is_born_in_the_cgroup_it_was_given() {
    let place = match cgroup::keeper_place() {
        Ok(place) => place,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let (input, output) = pipe();
    let child = spawn(&SpawnOptions {
        program: Path::new("/bin/cat"),
        args: &["cat".into()],
        env: &[],
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: input.as_fd(), stdout: output.as_fd(), stderr: output.as_fd() },
        keep: &[],
        cgroup: Some(place.as_fd()),
        joins: &[],
    })
    .unwrap();
    let members = fs::read_to_string(place.path().join("cgroup.procs")).unwrap();
    child.pidfd.signal(libc::SIGKILL).unwrap();
    finish(&child.pidfd);
    assert!(members.lines().any(|pid| pid == child.pid.to_string()), "{members}");
}
