//! A session's life besides running: archive, restore, tags, notes, policies, purge.
//!
//! `BERTH_LIFE_ROUNDS=500` runs the races that often, `BERTH_SEED=N` repeats a run.

mod archive;
mod labels;
mod purge;
mod races;
mod sweeping;

use std::process::{Child, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, said};
use serde_json::Value;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Like [`lab`], with an agent `fake` that takes turns.
fn lab_with_agent() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// A session that stopped.
fn stopped(lab: &TestEnvironment, name: &str) -> String {
    let id = lab.start_with(&["--name", name], &["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    lab.ok(["stop", "--grace", "0s", &id]);
    id
}

/// A session that was archived.
fn archived(lab: &TestEnvironment, name: &str) -> String {
    let id = stopped(lab, name);
    lab.ok(["archive", &id]);
    id
}

fn state(lab: &TestEnvironment, session: &str) -> String {
    text(&lab.show(session), "state")
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// The status cache of a session, which lists believe.
fn status_cache(lab: &TestEnvironment, id: &str) -> Value {
    let json = std::fs::read(lab.session_dir(id).join("status.json")).expect("a status cache");
    serde_json::from_slice(&json).expect("JSON")
}

/// How often a race is run: `usually`, or the number in `BERTH_LIFE_ROUNDS`.
fn rounds(usually: u64) -> u64 {
    std::env::var("BERTH_LIFE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// Starts a command without waiting for it.
fn spawn<A: AsRef<std::ffi::OsStr>>(lab: &TestEnvironment, args: impl IntoIterator<Item = A>) -> Child {
    let mut command = lab.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

/// Waits for what was started with [`spawn`].
fn finish(child: Child) -> CommandOutput {
    said(child.wait_with_output().expect("our own child"))
}
