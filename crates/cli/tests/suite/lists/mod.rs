//! Lists of sessions: what is in them, in which order, under whom, and while one looks.
//!
//! Not here: how fast that is (see `bench`), short cuts that are damaged (see `damage`), and how lines fit (see the
//! tests beside `listing::table`).

mod filters;
mod short_cuts;
mod terminal;
mod tree;
mod watch;

use std::path::PathBuf;

use berth_harness::Lab;
use serde_json::{Value, json};

/// A lab whose config file has the agent `fake`.
fn lab() -> Lab {
    let lab = Lab::new(env!("CARGO_BIN_EXE_berth"));
    let command = json!([lab.agent(), "acp"]);
    let config = format!("[agents.fake]\ndriver = \"acp\"\ncommand = {command}\n");
    std::fs::write(lab.config(), config).expect("a config file");
    lab
}

/// Gives the agent something that is not over before the file is there.
fn keep_busy(lab: &Lab, id: &str, before: &str) -> PathBuf {
    let gate = lab.dir().join(format!("gate-{id}"));
    lab.ok(["send", id, &format!("{before}\nwait-file:{}", gate.display())]);
    gate
}

/// A session that ran and is over; its id.
fn ended(lab: &Lab, name: &str) -> String {
    let id = lab.ok(["run", "-d", "--name", name, "--", "true"]);
    lab.berth(["wait", &id, "--timeout", "60s"]);
    // The keeper's last act follows the end of the run.
    berth_harness::wait_until("the keeper to leave", || !lab.session_dir(&id).join("sock").exists());
    id
}

/// Changes what the short cut of a session that is over says.
fn rewrite(lab: &Lab, id: &str, change: impl Fn(&mut Value)) {
    let path = lab.session_dir(id).join("status.json");
    let mut status: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a short cut")).expect("JSON");
    change(&mut status);
    std::fs::write(&path, status.to_string()).expect("our own directory");
}

/// The names `ls --json` lists with these arguments, in their order.
fn names(lab: &Lab, args: &[&str]) -> Vec<String> {
    let listed = lab.json([&["ls", "--json"], args].concat());
    let name = |status: &Value| status["name"].as_str().unwrap_or("-").to_owned();
    listed.as_array().expect("an array").iter().map(name).collect()
}
