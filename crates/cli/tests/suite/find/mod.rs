//! Finding text again, and taking it away: `berth grep` and `berth export` from the outside.

mod cast;
mod export;
mod grep;

use std::path::PathBuf;

use berth_harness::{TestEnvironment, wait_until};

/// A lab whose config file has the agent `fake`, which takes turns.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// A session that has said this on its terminal, and ended.
fn said(lab: &TestEnvironment, name: &str, script: &[&str]) -> String {
    let id = lab.start_with(&["--name", name], &[script, &["exit:0"]].concat());
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    wait_until("the keeper's end", || lab.show(&id)["keeper_pid"].is_null());
    id
}

/// A session with an agent that takes turns, and these prompts answered.
fn talked(lab: &TestEnvironment, name: &str, prompts: &[&str]) -> String {
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", name]);
    for prompt in prompts {
        lab.ok(["send", "--wait", &id, prompt]);
    }
    id
}

/// A running session `tui` with an agent's own terminal interface, which says this, and with the agent's transcript.
fn with_record(lab: &TestEnvironment, agent: &str, record: &str, says: &str) {
    let native = "0b6e5c1e-6f0f-4b43-9c0e-2f6f0c3c9d10";
    let home = lab.dir().join(agent);
    let (variable, file) = match agent {
        "claude" => ("CLAUDE_CONFIG_DIR", format!("projects/-work/{native}.jsonl")),
        _ => ("CODEX_HOME", format!("sessions/2026/11/18/rollout-2026-11-18T12-05-20-{native}.jsonl")),
    };
    let file = home.join(file);
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
    std::fs::write(&file, record).expect("a record");
    let program = lab.agent();
    let config = format!(
        "[agents.tui]\ndriver = \"pty\"\nconversation_kind = {agent:?}\ncommand = [{program:?}, \"hang\"]\n\
         tui = [{program:?}, {says:?}]\nresume_tui = [\"say:{{id}}\", \"hang\"]\n"
    );
    std::fs::write(lab.config(), config).expect("a config file");
    let env = format!("{variable}={}", home.display());
    lab.ok(["run", "-d", "--agent", "tui", "--resume", native, "--env", &env, "--name", "tui"]);
}

/// Damages the journal of a session behind its first events.
fn hurt(lab: &TestEnvironment, id: &str) -> PathBuf {
    let segment = lab.session_dir(id).join("journal").join("00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("the segment");
    let at = bytes.len() * 3 / 4;
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).expect("the segment");
    let _ = std::fs::remove_file(lab.session_dir(id).join("status.json"));
    segment
}
