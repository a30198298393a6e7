//! Lists of sessions: their rows, their order, their tree of parents, and updates while a list is watched.
//!
//! Not here: how fast that is (see `bench`), status caches that are damaged (see `damage`), and how lines fit (see the
//! tests beside `listing::table`).

mod filters;
mod status_caches;
mod terminal;
mod tree;
mod watch;

use std::path::PathBuf;

use berth_harness::TestEnvironment;
use serde_json::{Value, json};

/// A lab whose config file has the agent `fake`.
fn lab() -> TestEnvironment {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let command = json!([lab.agent(), "acp"]);
    let config = format!("[agents.fake]\ndriver = \"acp\"\ncommand = {command}\n");
    std::fs::write(lab.config(), config).expect("a config file");
    lab
}

/// Gives the agent a turn that is not over before the file is there.
fn keep_busy(lab: &TestEnvironment, id: &str, before: &str) -> PathBuf {
    let gate = lab.dir().join(format!("gate-{id}"));
    lab.ok(["send", id, &format!("{before}\nwait-file:{}", gate.display())]);
    gate
}

/// A session that ran and is over; its id.
fn ended(lab: &TestEnvironment, name: &str) -> String {
    let id = lab.ok(["run", "-d", "--name", name, "--", "true"]);
    lab.berth(["wait", &id, "--timeout", "60s"]);
    // The keeper's last act follows the end of the run.
    berth_harness::wait_until("the keeper to leave", || !lab.session_dir(&id).join("sock").exists());
    id
}

/// Changes the contents of the status cache of a session that is over.
fn rewrite(lab: &TestEnvironment, id: &str, change: impl Fn(&mut Value)) {
    let path = lab.session_dir(id).join("status.json");
    let mut status: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a status cache")).expect("JSON");
    change(&mut status);
    std::fs::write(&path, status.to_string()).expect("our own directory");
}

/// The names `ls --json` lists with these arguments, in their order.
fn names(lab: &TestEnvironment, args: &[&str]) -> Vec<String> {
    let listed = lab.json([&["ls", "--json"], args].concat());
    let name = |status: &Value| status["name"].as_str().unwrap_or("-").to_owned();
    listed.as_array().expect("an array").iter().map(name).collect()
}
