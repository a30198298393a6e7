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
use std::process::{Child, Command, Stdio};

use berth_core::SessionId;
use berth_harness::{Lab, Said, said};
use berth_host::identity::Identity;
use berth_store::Home;
use serde_json::Value;

use crate::common::is_alive;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

/// A session that does nothing but own helpers.
fn owner(lab: &Lab) -> String {
    lab.start(&["hang"])
}

/// A directory in the lab.
fn dir(lab: &Lab, name: &str) -> PathBuf {
    let dir = lab.dir().join(name);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir.canonicalize().expect("it is there")
}

/// `berth helper ensure` in a directory, not yet started.
fn ensuring(lab: &Lab, dir: &Path, name: &str, owner: &str, options: &[&str], script: &[&str]) -> Command {
    let agent = lab.agent();
    let mut args = vec!["helper", "ensure", name, "--owner", owner];
    args.extend(options);
    args.extend(["--", &agent]);
    args.extend(script);
    let mut command = lab.command(args);
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same, to its end.
fn ensure(lab: &Lab, dir: &Path, name: &str, owner: &str, options: &[&str], script: &[&str]) -> Said {
    said(ensuring(lab, dir, name, owner, options, script).output().expect("berth can be started"))
}

/// The same, which must succeed: what it knows about the helper.
fn ensured(lab: &Lab, dir: &Path, name: &str, owner: &str, options: &[&str], script: &[&str]) -> Value {
    let options = [options, &["--json"]].concat();
    let said = ensure(lab, dir, name, owner, &options, script);
    assert_eq!(said.code, 0, "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("not JSON ({error}): {said:?}"))
}

/// What `helper show --json` says.
fn shown(lab: &Lab, helper: &str) -> Value {
    lab.json(["helper", "show", helper, "--json"])
}

fn text(status: &Value, field: &str) -> String {
    status[field].as_str().unwrap_or_else(|| panic!("no {field} in {status}")).to_owned()
}

/// A process a status names: `pid` or `keeper_pid`.
fn process(status: &Value, field: &str) -> Identity {
    let pid = status[field].as_u64().unwrap_or_else(|| panic!("no {field} in {status}"));
    Identity::of(u32::try_from(pid).expect("a pid")).unwrap_or_else(|error| panic!("{field} {pid}: {error}"))
}

/// The ids of those who own it.
fn owners(status: &Value) -> Vec<String> {
    let owners = status["helper"]["owners"].as_array().unwrap_or_else(|| panic!("no owners in {status}"));
    owners.iter().map(|owner| text(owner, "session")).collect()
}

/// The events of a helper's journal, read without asking anybody.
fn events(lab: &Lab, id: &str, kind: &str) -> Vec<Value> {
    let home = Home::open(lab.home()).and_then(|home| home.helpers()).expect("the lab's own directory");
    let id = SessionId::parse(id).expect("an id");
    let all = home.session(&id).read(1).expect("a journal");
    let entries = all.iter().map(|event| serde_json::to_value(event.get().entry()).expect("plain data"));
    entries.filter(|event| event["event"] == kind).collect()
}

/// One that is none of ours and looks just like one. Still there when the test is over.
struct Bystander(Child);

impl Bystander {
    fn new(lab: &Lab, dir: &Path, script: &[&str]) -> Self {
        let mut command = Command::new(lab.agent());
        command.args(script).current_dir(dir).env("BERTH_HOME", lab.home());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the fake agent starts"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let ended = self.0.try_wait().expect("our own child");
        let _ = self.0.kill();
        let _ = self.0.wait();
        if !std::thread::panicking() {
            assert_eq!(ended, None, "a bystander was hurt");
        }
    }
}
