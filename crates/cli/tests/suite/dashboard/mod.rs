//! The dashboard in a real terminal, with real sessions: what a person sees and does.
//!
//! Not here: what each key does in each case (`src/dashboard/model/tests.rs`), how it looks (`view/tests.rs`).

mod acting;
mod leaving;
mod showing;
mod trouble;

use berth_harness::{Lab, Terminal};

use crate::common::contains;

/// A lab whose config file has the agent `fake`, which takes turns.
fn lab() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// Starts the agent that takes turns, under a name; the session's id.
fn agent(lab: &Lab, name: &str) -> String {
    lab.ok(["run", "-d", "--agent", "fake", "--name", name])
}

/// `berth` alone, on a terminal of 80×24.
fn open(lab: &Lab) -> Terminal {
    lab.terminal::<&str>([])
}

/// The lines at the bottom.
fn footer(terminal: &mut Terminal) -> String {
    let text = terminal.text();
    text.lines().last().unwrap_or_default().to_owned()
}
