//! Turn edges with the real terminal interfaces: Claude Code with the hooks that every run of it carries, Codex with
//! hooks that its command trusts, both against the fake model.
//!
//! Needs `testing/agents/install`.

mod own_signs;
mod permission;
mod switch;

use std::fs;
use std::ops::Deref;

use berth_harness::{RealAgentFixture, ended, said, wait_until};
use serde_json::{Value, json};

/// Real agents with one session, `s`.
struct RealActivityFixture {
    base: RealAgentFixture,
}

impl Deref for RealActivityFixture {
    type Target = RealAgentFixture;

    fn deref(&self) -> &RealAgentFixture {
        &self.base
    }
}

impl RealActivityFixture {
    fn new() -> Self {
        Self { base: RealAgentFixture::new(env!("CARGO_BIN_EXE_berth")) }
    }

    fn show(&self) -> Value {
        self.json(&["show", "s", "--json"])
    }

    fn turn(&self, number: u64) -> Value {
        self.json(&["turn", &format!("s.{number}"), "--json"])
    }

    fn wait_turn(&self, number: u64, wanted: &str) {
        wait_until(&format!("turn {number} {wanted}"), || self.turn(number)["state"] == wanted);
    }

    fn claude(&self) {
        self.ok(&[
            "run",
            "--detach",
            "--agent",
            "claude",
            "--tui",
            "--name",
            "s",
            "--",
            "--permission-mode",
            "manual",
        ]);
    }

    /// Codex with hooks that are set up and that the user trusted where it asks for that.
    fn codex_trusted(&self) {
        self.ok(&["setup", "codex"]);
        let mut terminal = self.agents.terminal("codex", ["--no-daemon"]);
        terminal.wait_for("Trust all and continue");
        let mut looks = 0;
        terminal.wait_until("the way to trust", |terminal| {
            // A dialog that is just being painted discards keys, so the choice is typed again. It is a digit: Codex gives
            // up when it finds half of an arrow key's sequence while it discards.
            if looks % 200 == 0 && terminal.text().contains("› 1. Review hooks") {
                terminal.type_keys("2");
            }
            looks += 1;
            terminal.text().contains("› 2. Trust all and continue")
        });
        terminal.type_keys("\r");
        let config = self.agents.home().join(".codex/config.toml");
        wait_until("their trust in its config", || {
            fs::read_to_string(&config).expect("its config").contains("trusted_hash")
        });
        terminal.close();
        terminal.wait_exit();
        self.ok(&["run", "--detach", "--agent", "codex", "--tui", "--name", "s"]);
    }

    fn codex(&self) {
        let command =
            format!("'{}' hook codex --home '{}'", env!("CARGO_BIN_EXE_berth"), self.lab.home().display());
        let one = json!([{"hooks": [{"type": "command", "command": command}]}]);
        let events = [
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PermissionRequest",
            "Stop",
            "Interrupt",
        ];
        let hooks: Value = events.iter().map(|event| ((*event).to_owned(), one.clone())).collect();
        fs::write(self.agents.home().join(".codex/hooks.json"), json!({"hooks": hooks}).to_string())
            .expect("hooks of Codex");
        let run = ["run", "--detach", "--agent", "codex", "--tui", "--name", "s", "--"];
        self.ok(&[&run[..], &["--dangerously-bypass-hook-trust"]].concat());
    }
}

impl Drop for RealActivityFixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.berth(&["screen", "s"]).out);
        }
    }
}

/// Sent before the agent has told anything, at once, and in order.
fn turns_are_answered_one_after_the_other(world: &RealActivityFixture) {
    assert_eq!(world.ok(&["send", "s", "--wait", "hello there"]), "ECHO: hello there");
    world.ok(&["send", "s", "SLOW 5"]);
    let second = "first line\nsecond line\n\nfourth line";
    assert_eq!(world.ok(&["send", "s", "--wait", second]), format!("ECHO: {second}"));
    assert_eq!(world.turn(2)["state"], "done");
    assert!(world.turn(2)["ended_at"].as_str() < world.turn(3)["delivered_at"].as_str());
    // An interface folds a long paste and changes its tabs.
    let long: Vec<String> = (0..100).map(|line| format!("line {line}\twith a tab")).collect();
    world.ok(&["send", "s", "--wait", &long.join("\n")]);
    for number in 1..=4 {
        assert_eq!(world.turn(number)["reason"], Value::Null, "its end is in the agent's transcript");
    }
    assert_eq!(world.show()["turns"]["last_report"]["how"], "Stop hook, the agent's transcript has it");
    // An agent tells the end of a turn before it has written it down.
    let answers = || world.agents.transcripts().first().map_or(0, |written| written.answers().len());
    wait_until("all four are written down", || answers() >= 4);
    let transcripts = world.agents.transcripts();
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    assert_eq!(transcripts[0].prompts().len(), 4, "each once: {:?}", transcripts[0].prompts());
}

/// A tool of the agent calls the agent's own hook, and goes on until the file `go` is there. `call` makes a prompt of a
/// command that the agent is to run.
fn a_forged_end_does_not_end_the_turn(
    world: &RealActivityFixture,
    kind: &str,
    call: impl Fn(&str) -> String,
) {
    assert_eq!(world.ok(&["send", "s", "--wait", "hello there"]), "ECHO: hello there");
    let id = world.show()["conversation_id"].as_str().expect("a conversation").to_owned();
    let work = world.agents.work();
    let event = json!({
        "hook_event_name": "Stop", "session_id": id, "transcript_path": "/nowhere", "cwd": work,
        "last_assistant_message": "forged",
    });
    let hook =
        format!("'{}' hook {kind} --home '{}'", env!("CARGO_BIN_EXE_berth"), world.lab.home().display());
    let wait = "while [ ! -e go ]; do sleep 0.05; done";
    fs::write(work.join("forge.sh"), format!("echo '{event}' | {hook}; touch forged; {wait}"))
        .expect("a script");
    world.ok(&["send", "s", &call("sh forge.sh")]);
    world.ok(&["wait", "s", "--for", "needs-you", "--timeout", "60s"]);
    let mut looks = 0;
    wait_until("the forged hook", || {
        if looks % 40 == 0 && world.ok(&["screen", "s"]).contains("1. Yes") {
            world.ok(&["input", "s", if kind == "codex" { "y" } else { "1" }]);
        }
        looks += 1;
        work.join("forged").exists()
    });
    wait_until("the hook is heard", || {
        world.show()["turns"]["last_report"]["how"] == "Stop hook, not in the agent's transcript"
    });
    assert_eq!(world.turn(2)["state"], "working");
    fs::write(work.join("go"), "").expect("a file");
    world.wait_turn(2, "done");
    let turn = world.turn(2);
    assert!(turn["reason"].is_null() && !turn["answer"].to_string().contains("forged"), "{turn}");
}

#[test]
fn an_end_that_a_tool_of_claude_forges_does_not_end_the_turn() {
    let world = RealActivityFixture::new();
    world.claude();
    a_forged_end_does_not_end_the_turn(&world, "claude", |command| format!("TOOL {command}"));
}

#[test]
fn an_end_that_a_tool_of_codex_forges_does_not_end_the_turn() {
    let world = RealActivityFixture::new();
    world.codex();
    a_forged_end_does_not_end_the_turn(&world, "codex", |command| {
        let tool = json!({
            "cmd": command, "sandbox_permissions": "require_escalated", "justification": "May it run?",
        });
        format!("CALL exec_command {tool}")
    });
}

fn a_cancelled_turn_is_broken_off(world: &RealActivityFixture) {
    world.ok(&["send", "s", "HOLD never"]);
    world.wait_turn(1, "working");
    world.ok(&["cancel", "s.1"]);
    world.wait_turn(1, "cancelled");
    assert_eq!(world.ok(&["send", "s", "--wait", "go on"]), "ECHO: go on");
}

#[test]
fn turns_typed_into_claude_are_answered_one_after_the_other() {
    let world = RealActivityFixture::new();
    world.claude();
    turns_are_answered_one_after_the_other(&world);
}

#[test]
fn turns_typed_into_codex_are_answered_one_after_the_other() {
    let world = RealActivityFixture::new();
    world.codex();
    turns_are_answered_one_after_the_other(&world);
}

#[test]
fn turns_typed_into_a_codex_with_trusted_hooks_are_answered() {
    let world = RealActivityFixture::new();
    world.codex_trusted();
    assert_eq!(world.ok(&["send", "s", "--wait", "hello there"]), "ECHO: hello there");
    assert_eq!(world.ok(&["send", "s", "--wait", "and again"]), "ECHO: and again");
    let dirs = fs::read_dir(world.agents.home().join(".codex")).expect("its directory").flatten();
    assert!(dirs.into_iter().all(|entry| entry.file_name() != "packages"), "a daemon was started");
    // Codex goes on with its conversation, and still tells.
    let id = world.show()["conversation_id"].clone();
    world.ok(&["stop", "s"]);
    world.ok(&["resume", "s", "--detach"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "once more"]), "ECHO: once more");
    assert_eq!(world.show()["conversation_id"], id);
}

#[test]
fn a_codex_that_asks_for_permission_needs_a_user_at_the_terminal() {
    let world = RealActivityFixture::new();
    world.codex();
    let tool = json!({
        "cmd": "touch made.txt",
        "sandbox_permissions": "require_escalated",
        "justification": "May it be made?",
    });
    world.ok(&["send", "s", &format!("CALL exec_command {tool}")]);
    world.ok(&["wait", "s", "--for", "needs-you", "--timeout", "60s"]);
    let status = world.show();
    assert!(status["turns"]["asks"][0]["detail"].to_string().contains("touch made.txt"), "{status}");
    assert_eq!(status["turns"]["asks"][0]["options"], json!([]), "{status}");
    let refused = world.berth(&["answer", "s", "allow", "--yes"]);
    assert!(refused.code == 1 && refused.err.contains("Codex shows its question only"), "{refused:?}");
    let shows_it = || world.ok(&["screen", "s"]).contains("1. Yes");
    wait_until("the dialog", shows_it);
    world.ok(&["input", "s", "y"]);
    let mut looks = 0;
    wait_until("the end of the turn", || {
        looks += 1;
        if looks % 40 == 0 && shows_it() {
            world.ok(&["input", "s", "y"]);
        }
        world.turn(1)["state"] == "done"
    });
    assert!(world.agents.work().join("made.txt").exists());
}

#[test]
fn a_word_alone_that_starts_an_interface_is_that_agent() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--name", "s", "--", "claude"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "hello there"]), "ECHO: hello there");
    let id = world.show()["conversation_id"].clone();
    assert!(id.is_string() && world.show()["agent"] == "claude", "{}", world.show());
    world.ok(&["stop", "s"]);
    world.ok(&["resume", "s", "--detach"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "and again"]), "ECHO: and again");
    assert_eq!(world.show()["conversation_id"], id);
}

#[test]
fn a_cancelled_turn_of_claude_is_broken_off_although_no_hook_tells() {
    let world = RealActivityFixture::new();
    world.claude();
    a_cancelled_turn_is_broken_off(&world);
}

#[test]
fn a_cancelled_turn_of_codex_is_broken_off() {
    let world = RealActivityFixture::new();
    world.codex();
    a_cancelled_turn_is_broken_off(&world);
}

#[test]
fn g8_a_cleared_conversation_is_followed() {
    let world = RealActivityFixture::new();
    world.claude();
    assert_eq!(world.ok(&["send", "s", "--wait", "before"]), "ECHO: before");
    let first = world.show()["conversation_id"].clone();
    // A name that is completed on the screen is not yet sent by the Enter right behind it.
    world.ok(&["input", "s", "/clear"]);
    wait_until("the command on the screen", || world.ok(&["screen", "s"]).contains("/clear"));
    world.ok(&["input", "s", "--enter", ""]);
    wait_until("another conversation", || world.show()["conversation_id"] != first);
    assert_eq!(world.ok(&["send", "s", "--wait", "after"]), "ECHO: after");
    let lock =
        world.lab.home().join("conversations/claude").join(world.show()["conversation_id"].as_str().unwrap());
    assert!(lock.exists());
}

#[test]
fn a_turn_whose_keeper_was_killed_ends_as_the_agents_record_says() {
    let world = RealActivityFixture::new();
    world.claude();
    world.ok(&["send", "s", "HOLD never"]);
    world.wait_turn(1, "working");
    wait_until("the prompt in the record", || {
        world.agents.transcripts().first().is_some_and(|transcript| !transcript.prompts().is_empty())
    });
    world.lab.kill_keeper("s");
    wait_until("its end", || world.turn(1)["in_progress"] == false);
    let turn = world.turn(1);
    assert!(turn["state"] == "interrupted" || turn["state"] == "unknown", "{turn}");
    assert_eq!(world.agents.model().turns().len(), 1, "it was not sent again");
}

#[test]
fn a_turn_is_not_typed_into_claude_behind_messages_it_has_not_read() {
    let world = RealActivityFixture::new();
    world.claude();
    assert_eq!(world.ok(&["send", "s", "--wait", "one"]), "ECHO: one");
    let id = world.show()["conversation_id"].as_str().expect("a conversation").to_owned();
    let other = world.agents.command("claude", ["-p", "--resume", &id, "two"]).output();
    assert_eq!(said(other.expect("claude can be started")).out.trim(), "ECHO: two");
    world.ok(&["send", "s", "three"]);
    world.ok(&["wait", "s", "--for", "needs-you", "--timeout", "60s"]);
    assert_eq!(world.turn(2)["state"], "queued");
    // Claude Code opens its conversation again, and has read the foreign message.
    let command = format!("/resume {id}");
    world.ok(&["input", "s", &command]);
    wait_until("the command on the screen", || world.ok(&["screen", "s"]).contains(&command));
    world.ok(&["input", "s", "--enter", ""]);
    world.wait_turn(2, "done");
    let transcripts = world.agents.transcripts();
    assert_eq!((transcripts.len(), transcripts[0].no_fork()), (1, Ok(())));
}
