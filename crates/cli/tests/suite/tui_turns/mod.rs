//! Turn edges of an agent in a terminal, from the outside: the fake agent calls hooks as Claude Code does, and real
//! keepers believe them or not.

mod foreign_writers;
mod proof;
mod turns;
mod typing;
mod without_hooks;

use std::fs;
use std::process::Command;

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, wait_until};
use serde_json::Value;

/// A lab whose agent `fake` has a terminal interface that tells through hooks, and keeps a transcript.
pub(crate) fn lab() -> TestEnvironment {
    lab_with(true, true)
}

/// Like [`lab`]; the agent reports through hooks only if `tells`.
pub(crate) fn lab_telling(tells: bool) -> TestEnvironment {
    lab_with(tells, true)
}

/// A lab whose agent tells through hooks if `tells`, and keeps a transcript if `records`.
pub(crate) fn lab_with(tells: bool, records: bool) -> TestEnvironment {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let hook = format!("'{}' tell", lab.agent());
    let mut tui = vec![lab.agent(), "tui".to_owned()];
    if tells {
        tui.extend(["--hook".to_owned(), hook]);
    }
    tui.extend(records.then(|| "--record".to_owned()));
    let text = format!(
        "[agents.fake]\ndriver = \"claude\"\nconversation_kind = \"claude\"\ncommand = [\"false\"]\ntui = {tui:?}\n\
         begin_tui = [\"--session-id\", \"{{id}}\"]\nresume_tui = [\"--resume\", \"{{id}}\"]\n"
    );
    fs::create_dir_all(lab.dir().join("claude")).expect("a directory for the agent's own files");
    fs::write(lab.config(), text).expect("a config file");
    lab
}

/// A command with the agent's own files in the lab.
pub(crate) fn command(lab: &TestEnvironment, args: &[&str]) -> Command {
    let mut command = lab.command(args);
    command.env("CLAUDE_CONFIG_DIR", lab.dir().join("claude")).current_dir(lab.dir());
    command
}

/// Starts a session `s` with that agent and waits until it is idle; its id.
pub(crate) fn idle(lab: &TestEnvironment) -> String {
    idle_with(lab, &[])
}

/// Like [`idle`], with further variables for the keeper.
pub(crate) fn idle_with(lab: &TestEnvironment, variables: &[(&str, &str)]) -> String {
    let mut run = command(lab, &["run", "--detach", "--agent", "fake", "--tui", "--name", "s"]);
    let said =
        berth_harness::said(run.envs(variables.iter().copied()).output().expect("berth can be started"));
    assert_eq!(said.code, 0, "{said:?}");
    wait_state(lab, "idle");
    said.out.trim().to_owned()
}

pub(crate) fn state(lab: &TestEnvironment) -> String {
    text(&lab.show("s"), "state")
}

pub(crate) fn wait_state(lab: &TestEnvironment, wanted: &str) {
    wait_until(wanted, || state(lab) == wanted);
}

pub(crate) fn turn(lab: &TestEnvironment, number: u64) -> Value {
    lab.json(["turn", &format!("s.{number}"), "--json"])
}

pub(crate) fn turn_state(lab: &TestEnvironment, number: u64) -> String {
    text(&turn(lab, number), "state")
}

/// States in which a turn ends that no hook reported as done.
pub(crate) const UNFINISHED: [&str; 2] = ["interrupted", "unknown"];

pub(crate) fn is_over(state: &str) -> bool {
    !matches!(state, "queued" | "delivered" | "working")
}

pub(crate) fn wait_turn(lab: &TestEnvironment, number: u64, wanted: &str) {
    wait_until(&format!("turn {number} {wanted}"), || turn_state(lab, number) == wanted);
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Lets an agent that holds go on.
pub(crate) fn release(lab: &TestEnvironment, name: &str) {
    fs::write(lab.dir().join(name), "").expect("a file");
}

/// Has the keeper of session `s` replace itself in place.
pub(crate) fn replace(lab: &TestEnvironment, id: &str) {
    let mut keeper = KeeperConnection::open(&lab.session_dir(id), "a test".into()).expect("a keeper");
    keeper.ask(KeeperRequest::Restart).expect("it does");
    wait_until("another image", || !lab.events("s", "keeper_restarted").is_empty());
}
