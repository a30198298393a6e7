//! Helpers: processes that sessions share, with an owner set (scenarios D, and E4).
//!
//! Wherever something is killed an innocent bystander stands beside it: the same program with the same
//! arguments, in the same directory, of the same user. `BERTH_SEED=N` repeats a run.

mod bad_input;
mod ending;
mod places;
mod races;
mod ready;
mod records;
mod restart;
mod sharing;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_core::SessionId;
use berth_harness::{CommandOutput, ProcessKillGuard, TestEnvironment, said};
use berth_host::identity::ProcessIdentity;
use berth_store::StateDir;
use serde_json::Value;

use crate::common::is_alive;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A session that does nothing but own helpers.
fn owner(lab: &TestEnvironment) -> String {
    lab.start(&["hang"])
}

/// A directory in the lab.
fn dir(lab: &TestEnvironment, name: &str) -> PathBuf {
    let dir = lab.dir().join(name);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir.canonicalize().expect("it is there")
}

/// `berth helper ensure` in a directory, not yet started.
fn ensuring(
    lab: &TestEnvironment,
    dir: &Path,
    name: &str,
    owner: &str,
    options: &[&str],
    script: &[&str],
) -> Command {
    let agent = lab.agent();
    let mut args = vec!["helper", "ensure", name, "--owner", owner];
    args.extend(options);
    args.extend(["--", &agent]);
    args.extend(script);
    let mut command = lab.command(args);
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs [`ensuring`] to its end.
fn ensure(
    lab: &TestEnvironment,
    dir: &Path,
    name: &str,
    owner: &str,
    options: &[&str],
    script: &[&str],
) -> CommandOutput {
    said(ensuring(lab, dir, name, owner, options, script).output().expect("berth can be started"))
}

/// Runs [`ensure`], which must succeed; returns the status of the helper.
fn ensured(
    lab: &TestEnvironment,
    dir: &Path,
    name: &str,
    owner: &str,
    options: &[&str],
    script: &[&str],
) -> Value {
    let options = [options, &["--json"]].concat();
    let said = ensure(lab, dir, name, owner, &options, script);
    assert_eq!(said.code, 0, "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("not JSON ({error}): {said:?}"))
}

/// The status that `helper show --json` prints.
fn shown(lab: &TestEnvironment, helper: &str) -> Value {
    lab.json(["helper", "show", helper, "--json"])
}

fn text(status: &Value, field: &str) -> String {
    status[field].as_str().unwrap_or_else(|| panic!("no {field} in {status}")).to_owned()
}

/// A process a status names: `pid` or `keeper_pid`.
fn process(status: &Value, field: &str) -> ProcessIdentity {
    let pid = status[field].as_u64().unwrap_or_else(|| panic!("no {field} in {status}"));
    ProcessIdentity::of(u32::try_from(pid).expect("a pid"))
        .unwrap_or_else(|error| panic!("{field} {pid}: {error}"))
}

/// The ids of the sessions that own the helper.
fn owners(status: &Value) -> Vec<String> {
    let owners = status["helper"]["owners"].as_array().unwrap_or_else(|| panic!("no owners in {status}"));
    owners.iter().map(|owner| text(owner, "session")).collect()
}

/// The events of a helper's journal, read from its files without the keeper.
fn events(lab: &TestEnvironment, id: &str, kind: &str) -> Vec<Value> {
    let home = StateDir::open(lab.home()).and_then(|home| home.helpers()).expect("the lab's own directory");
    let id = SessionId::parse(id).expect("an id");
    let all = home.session(&id).read(1).expect("a journal");
    let entries = all.iter().map(|event| serde_json::to_value(event.get().entry()).expect("plain data"));
    entries.filter(|event| event["event"] == kind).collect()
}

/// A process that is not ours and looks just like a helper. Still there when the test is over.
struct HelperLookalike(ProcessKillGuard);

impl HelperLookalike {
    fn new(lab: &TestEnvironment, dir: &Path, script: &[&str]) -> Self {
        let mut command = Command::new(lab.agent());
        command.args(script).current_dir(dir).env("BERTH_HOME", lab.home());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(ProcessKillGuard::new(command.spawn().expect("the fake agent starts")))
    }
}

impl Drop for HelperLookalike {
    fn drop(&mut self) {
        let ended = self.0.try_wait().expect("our own child");
        if !std::thread::panicking() {
            assert_eq!(ended, None, "a bystander was hurt");
        }
    }
}
