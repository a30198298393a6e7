//! Ownership: processes that are ours are ended and proven gone, others are left alone, and doubtful ones are reported.
//! Tests are named after rows of the scenario list.
//!
//! Every test that has a process killed plants a [`AgentLookalike`] that looks the same and belongs to no session.
//! Hosts are changed with `unshare` (see [`namespace`]), accounts with `setpriv`; both need root.

mod copies;
mod escapes;
mod leaks;
mod limits;
mod namespace;
mod other_sessions;
mod refused;
mod reuse;
mod secrets;
mod starting;
mod sweep;
mod unrecorded_processes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_harness::{CommandOutput, ProcessKillGuard, TestEnvironment, said, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};

use crate::common::{endings, is_alive, written_down};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

fn lab() -> TestEnvironment {
    TestEnvironment::new(BERTH)
}

/// A process of no session that looks like an agent: the same program in the same directory, by the same user and with
/// almost the same arguments. It writes down every signal that reaches it, and lives on.
struct AgentLookalike {
    /// Killed with the test.
    _child: ProcessKillGuard,
    identity: ProcessIdentity,
    heard: PathBuf,
}

impl AgentLookalike {
    fn beside(lab: &TestEnvironment) -> Self {
        Self::start(Command::new(lab.agent()), lab, "bystander")
    }

    /// Starts a bystander with a command that the test chose; `name` tells several apart.
    fn start(mut command: Command, lab: &TestEnvironment, name: &str) -> Self {
        let heard = lab.dir().join(format!("{name}.heard"));
        let ready = lab.dir().join(format!("{name}.ready"));
        command.args(["ignore:HUP,TERM", "say:ready", &format!("witness:{}", heard.display())]);
        command.args([&format!("touch:{}", ready.display()), "hang"]);
        command.env_remove("BERTH_HOME").stdin(Stdio::null()).stdout(Stdio::null());
        let child = ProcessKillGuard::new(command.spawn().expect("the bystander starts"));
        let identity = ProcessIdentity::of(child.pid()).expect("it runs");
        wait_until("the bystander to listen", || ready.exists());
        Self { _child: child, identity, heard }
    }

    fn assert_untouched(&self) {
        assert!(is_alive(&self.identity), "an innocent process was ended: {:?}", self.identity);
        let heard = fs::read_to_string(&self.heard).expect("its own file");
        assert_eq!(heard, "", "an innocent process was signalled");
    }
}

/// Processes that are not our children and end with the test, also with one that fails: some of them could not be found
/// otherwise.
#[derive(Debug)]
struct StrayKillGuard(Vec<ProcessIdentity>);

impl std::ops::Deref for StrayKillGuard {
    type Target = [ProcessIdentity];

    fn deref(&self) -> &[ProcessIdentity] {
        &self.0
    }
}

impl Drop for StrayKillGuard {
    fn drop(&mut self) {
        for process in &self.0 {
            if let ProcessLiveness::Alive(pidfd) = process.check() {
                let _ = pidfd.signal(rustix::process::Signal::KILL.as_raw());
            }
        }
    }
}

fn is_gone(process: &ProcessIdentity) -> bool {
    matches!(process.check(), ProcessLiveness::Gone)
}

/// The control group of a session's current or last run, if it has one.
fn group_of(lab: &TestEnvironment, id: &str) -> Option<PathBuf> {
    lab.show(id)["boundary"]["cgroup"].as_str().map(PathBuf::from)
}

/// True if runs get a control group here. Without one some tests have nothing to test.
fn has_groups() -> bool {
    let has = rustix::process::geteuid().is_root() && berth_host::cgroup::keeper_place().is_ok();
    if !has {
        eprintln!("SKIPPED: this needs root and a cgroup hierarchy of version 2");
    }
    has
}

/// Runs a command to its end.
fn done(mut command: Command) -> CommandOutput {
    said(command.output().expect("it starts"))
}

/// Every byte that berth keeps about sessions, to be searched for secrets.
fn everything_kept(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a type").is_dir() {
            files.extend(everything_kept(&entry.path()));
        } else {
            files.extend(fs::read(entry.path()).ok().map(|bytes| (entry.path(), bytes)));
        }
    }
    files
}
