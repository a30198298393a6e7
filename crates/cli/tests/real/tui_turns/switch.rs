//! One session, two interfaces: the chat and the agent's own terminal take turns with one conversation.

use std::process::{Child, Stdio};

use super::*;

/// A choice that waits for the turn that runs, or for the next agent.
fn switching(world: &RealActivityFixture, args: &[&str]) -> Child {
    let mut command = world.lab.command(args);
    let command = world.agents.around(&mut command).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

fn interfaces(world: &RealActivityFixture) -> Vec<Value> {
    let turns: Value = serde_json::from_str(&world.ok(&["turns", "s", "--json"])).expect("JSON");
    let turns = turns.as_array().expect("a list").clone();
    turns.iter().map(|turn| turn["interface"].clone()).collect()
}

/// From the chat to the terminal in the middle of a turn, and back.
fn both_interfaces_go_on_with_one_conversation(world: &RealActivityFixture) {
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    let status = world.show();
    assert_eq!((&status["interface"], &status["other_interfaces"]), (&json!("chat"), &json!(["terminal"])));
    let before = status["context"]["used_tokens"].as_u64().expect("a context");
    let id = status["conversation_id"].clone();
    world.ok(&["send", "s", "HOLD middle"]);
    world.agents.model().arrived("middle");
    world.ok(&["send", "s", "third"]);
    let choice = switching(world, &["resume", "s", "--tui", "--detach"]);
    wait_until("the choice", || world.show()["next_interface"] == "terminal");
    assert_eq!(world.show()["interface"], "chat");
    world.agents.model().release("middle");
    let chosen = ended(choice);
    assert_eq!(chosen.code, 0, "{chosen:?}");
    let status = world.show();
    assert_eq!((&status["interface"], &status["epoch"]), (&json!("terminal"), &json!(2)), "{status}");
    assert!(status["context"].is_null(), "a terminal does not tell it: {status}");
    // Turns that waited are typed into the terminal.
    world.wait_turn(3, "done");
    assert_eq!(
        (world.turn(2)["state"].as_str(), world.turn(3)["answer"].as_str()),
        (Some("done"), Some("ECHO: third"))
    );
    assert_eq!(world.ok(&["send", "s", "--wait", "fourth"]), "ECHO: fourth");
    world.ok(&["resume", "s", "--chat", "--detach"]);
    // Codex tells it as soon as it has opened the conversation.
    let context = world.show()["context"]["used_tokens"].as_u64();
    assert!(context.is_none_or(|used| used > before), "{context:?} is from before the terminal: {before}");
    assert_eq!(world.ok(&["send", "s", "--wait", "fifth"]), "ECHO: fifth");
    let status = world.show();
    assert!(status["context"]["used_tokens"].is_u64(), "{status}");
    assert_eq!((&status["interface"], &status["conversation_id"]), (&json!("chat"), &id), "{status}");
    assert_eq!(interfaces(world), ["chat", "chat", "terminal", "terminal", "chat"]);
    let transcripts = world.agents.transcripts();
    assert_eq!((transcripts.len(), transcripts[0].no_fork()), (1, Ok(())));
    assert_eq!(transcripts[0].prompts().len(), 5, "each once: {:?}", transcripts[0].prompts());
}

#[test]
fn claude_goes_on_in_its_own_interface_and_back_in_one_conversation() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    both_interfaces_go_on_with_one_conversation(&world);
}

#[test]
fn codex_goes_on_in_its_own_interface_and_back_in_one_conversation() {
    let world = RealActivityFixture::new();
    world.codex_trusted();
    world.ok(&["stop", "s"]);
    world.ok(&["rename", "s", "other"]);
    world.ok(&["run", "--detach", "--agent", "codex", "--name", "s"]);
    both_interfaces_go_on_with_one_conversation(&world);
}

#[test]
fn a_turn_is_cancelled_for_another_interface_that_is_wanted_now() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    world.ok(&["send", "s", "HOLD never"]);
    world.agents.model().arrived("never");
    world.ok(&["resume", "s", "--tui", "--now", "--detach"]);
    assert_eq!(world.turn(2)["state"], "cancelled");
    assert_eq!(world.ok(&["send", "s", "--wait", "after"]), "ECHO: after");
    assert_eq!(world.show()["interface"], "terminal");
}

#[test]
fn a_choice_counts_after_the_keeper_was_killed_before_the_turn_was_over() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    let id = world.show()["conversation_id"].clone();
    world.ok(&["send", "s", "HOLD never"]);
    world.agents.model().arrived("never");
    let choice = switching(&world, &["resume", "s", "--tui", "--detach"]);
    wait_until("the choice", || world.show()["next_interface"] == "terminal");
    world.lab.kill_keeper("s");
    let told = ended(choice);
    assert_ne!(told.code, 0, "{told:?}");
    world.ok(&["resume", "s", "--detach"]);
    let status = world.show();
    assert_eq!((&status["interface"], &status["conversation_id"]), (&json!("terminal"), &id), "{status}");
    assert!(world.turn(2)["in_progress"] == false);
}

#[test]
fn a_stopped_session_is_resumed_with_the_other_interface_and_an_empty_one_is_refused() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    let refused = world.berth(&["resume", "s", "--tui", "--detach"]);
    assert!(refused.code == 1 && refused.err.contains("session `s` has no conversation yet"), "{refused:?}");
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    world.ok(&["stop", "s"]);
    world.ok(&["resume", "s", "--tui", "--detach"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "second"]), "ECHO: second");
    world.ok(&["stop", "s"]);
    world.ok(&["archive", "s"]);
    let refused = world.berth(&["resume", "s", "--chat", "--detach"]);
    assert!(refused.code == 1 && refused.err.contains("archived"), "{refused:?}");
}

#[test]
fn another_writer_of_the_conversation_does_not_end_the_run() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    let id = world.show()["conversation_id"].as_str().expect("a conversation").to_owned();
    let mut other = world.agents.terminal("claude", ["--resume", &id]);
    other.wait_for("first");
    let list = world.agents.home().join(".claude/sessions");
    wait_until("both are in the list of Claude Code", || {
        let entries = fs::read_dir(&list).expect("its list").flatten();
        entries.filter(|entry| fs::read_to_string(entry.path()).unwrap_or_default().contains(&id)).count()
            == 2
    });
    let refused = world.berth(&["resume", "s", "--tui", "--detach"]);
    assert!(refused.code == 4 && refused.err.contains("is being written by"), "{refused:?}");
    assert_eq!((&world.show()["interface"], &world.show()["epoch"]), (&json!("chat"), &json!(1)));
    other.close();
    other.wait_exit();
}

#[test]
fn attach_goes_on_in_the_agents_own_interface_and_leads_back_to_the_chat() {
    let world = RealActivityFixture::new();
    world.ok(&["run", "--detach", "--agent", "claude", "--name", "s"]);
    assert_eq!(world.ok(&["send", "s", "--wait", "first"]), "ECHO: first");
    let args = ["attach", "s", "--tui"];
    let mut terminal = world.lab.terminal_running(std::path::Path::new(env!("CARGO_BIN_EXE_berth")), args);
    terminal.wait_for("ECHO: first");
    world.ok(&["resume", "s", "--chat", "--detach"]);
    terminal.wait_for("goes on as a chat");
    terminal.wait_exit();
    assert_eq!(world.show()["interface"], "chat");
}
