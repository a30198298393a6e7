//! A session's life besides running: archive, restore, tags, notes, policies, purge.
//!
//! `BERTH_LIFE_ROUNDS=500` runs the races that often, `BERTH_SEED=N` repeats a run.

mod archive;
mod purge;
mod races;
mod sorting;
mod sweeping;

use std::process::{Child, Stdio};

use berth_harness::{Lab, Said, said};
use serde_json::Value;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

/// The same with an agent `fake` that takes turns.
fn lab_with_agent() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// A session that stopped.
fn stopped(lab: &Lab, name: &str) -> String {
    let id = lab.start_with(&["--name", name], &["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    lab.ok(["stop", "--grace", "0s", &id]);
    id
}

/// One that was put away.
fn archived(lab: &Lab, name: &str) -> String {
    let id = stopped(lab, name);
    lab.ok(["archive", &id]);
    id
}

fn state(lab: &Lab, session: &str) -> String {
    text(&lab.show(session), "state")
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// What the short cut says that lists believe.
fn short_cut(lab: &Lab, id: &str) -> Value {
    let json = std::fs::read(lab.session_dir(id).join("status.json")).expect("a short cut");
    serde_json::from_slice(&json).expect("JSON")
}

/// How often a race is run: this often, or as often as somebody wants it.
fn rounds(usually: u64) -> u64 {
    std::env::var("BERTH_LIFE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// Starts a command without waiting for it.
fn spawn<A: AsRef<std::ffi::OsStr>>(lab: &Lab, args: impl IntoIterator<Item = A>) -> Child {
    let mut command = lab.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

/// Waits for what was started with [`spawn`].
fn finish(child: Child) -> Said {
    said(child.wait_with_output().expect("our own child"))
}
