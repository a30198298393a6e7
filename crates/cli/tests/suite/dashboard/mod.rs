//! The dashboard in a real terminal, with real sessions: pictures and keys of a user.
//!
//! Not here: the effect of each key in each case (`src/dashboard/model/tests.rs`), how it looks (`view/tests.rs`).

mod actions;
mod errors;
mod exit;
mod view;

use berth_harness::{TestEnvironment, TestTerminal};

use crate::common::contains;

/// A lab whose config file has the agent `fake`, which takes turns.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// Starts the agent that takes turns, under a name; the session's id.
fn agent(lab: &TestEnvironment, name: &str) -> String {
    lab.ok(["run", "-d", "--agent", "fake", "--name", name])
}

/// `berth` alone, on a terminal of 80×24.
fn open(lab: &TestEnvironment) -> TestTerminal {
    lab.terminal::<&str>([])
}

/// The lines at the bottom.
fn footer(terminal: &mut TestTerminal) -> String {
    let text = terminal.text();
    text.lines().last().unwrap_or_default().to_owned()
}
