//! Finding something again, and taking it away: `berth grep` and `berth export` from the outside.

mod cast;
mod export;
mod grep;

use std::path::PathBuf;

use berth_harness::{Lab, wait_until};

/// A lab whose config file has the agent `fake`, which takes turns.
fn lab() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// A session that has said this on its terminal, and ended.
fn said(lab: &Lab, name: &str, script: &[&str]) -> String {
    let id = lab.start_with(&["--name", name], &[script, &["exit:0"]].concat());
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    wait_until("the keeper's end", || lab.show(&id)["keeper_pid"].is_null());
    id
}

/// A session with an agent that takes turns, and these prompts answered.
fn talked(lab: &Lab, name: &str, prompts: &[&str]) -> String {
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", name]);
    for prompt in prompts {
        lab.ok(["send", "--wait", &id, prompt]);
    }
    id
}

/// Damages the journal of a session behind its first events.
fn hurt(lab: &Lab, id: &str) -> PathBuf {
    let segment = lab.session_dir(id).join("journal").join("00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("the segment");
    let at = bytes.len() * 3 / 4;
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).expect("the segment");
    let _ = std::fs::remove_file(lab.session_dir(id).join("status.json"));
    segment
}
