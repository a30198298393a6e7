//! Ownership: what is ours is ended and proven gone, what is not is left alone, and what cannot be told
//! is said. Named after rows of the scenario list.
//!
//! Every test that has something killed plants a [`Bystander`] that looks the same and is nobody's.
//! Hosts are changed with `unshare` (see [`namespace`]), accounts with `setpriv`; both need root.

mod copies;
mod escapes;
mod leaks;
mod limits;
mod namespace;
mod neighbours;
mod refused;
mod reuse;
mod secrets;
mod starting;
mod strangers;
mod sweep;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_harness::{Lab, Said, said, wait_until};
use berth_host::identity::{Identity, Verdict};

use crate::common::{endings, is_alive, written_down};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

fn lab() -> Lab {
    Lab::new(BERTH)
}

/// A process of nobody's that looks like an agent: the same program in the same directory, by the same user
/// and with almost the same arguments. It writes down every signal that reaches it, and lives on.
struct Bystander {
    child: Child,
    identity: Identity,
    heard: PathBuf,
}

impl Bystander {
    fn beside(lab: &Lab) -> Self {
        Self::start(Command::new(lab.agent()), lab, "bystander")
    }

    /// The same with a beginning that the test chose; `name` tells several apart.
    fn start(mut command: Command, lab: &Lab, name: &str) -> Self {
        let heard = lab.dir().join(format!("{name}.heard"));
        let ready = lab.dir().join(format!("{name}.ready"));
        command.args(["ignore:HUP,TERM", "say:ready", &format!("witness:{}", heard.display())]);
        command.args([&format!("touch:{}", ready.display()), "hang"]);
        command.env_remove("BERTH_HOME").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("the bystander starts");
        let identity = Identity::of(child.id()).expect("it runs");
        wait_until("the bystander to listen", || ready.exists());
        Self { child, identity, heard }
    }

    fn assert_untouched(&self) {
        assert!(is_alive(&self.identity), "an innocent process was ended: {:?}", self.identity);
        let heard = fs::read_to_string(&self.heard).expect("its own file");
        assert_eq!(heard, "", "an innocent process was signalled");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that end with the test, also with one that fails: some of them nobody else could find.
#[derive(Debug)]
struct Doomed(Vec<Identity>);

impl std::ops::Deref for Doomed {
    type Target = [Identity];

    fn deref(&self) -> &[Identity] {
        &self.0
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        for process in &self.0 {
            if let Verdict::Alive(pidfd) = process.check() {
                let _ = pidfd.signal(rustix::process::Signal::KILL.as_raw());
            }
        }
    }
}

fn is_gone(process: &Identity) -> bool {
    matches!(process.check(), Verdict::Gone)
}

/// The control group of a session's current or last run, if it has one.
fn group_of(lab: &Lab, id: &str) -> Option<PathBuf> {
    lab.show(id)["boundary"]["cgroup"].as_str().map(PathBuf::from)
}

/// Whether runs get a control group here. Without one some tests have nothing to test.
fn has_groups() -> bool {
    let has = rustix::process::geteuid().is_root() && berth_host::cgroup::keeper_place().is_ok();
    if !has {
        eprintln!("SKIPPED: this needs root and a cgroup hierarchy of version 2");
    }
    has
}

/// Runs a command to its end.
fn done(mut command: Command) -> Said {
    said(command.output().expect("it starts"))
}

/// Every byte berth keeps about sessions: what is searched for secrets.
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
