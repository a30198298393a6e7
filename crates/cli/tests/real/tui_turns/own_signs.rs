//! The conversation of an agent's own interface that no hook tells of: Codex with hooks that are not trusted, which is
//! how it usually runs, and Claude Code without hooks. The session learns it from the agent's own signs,
//! and goes on with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use berth_harness::wait_until;
use serde_json::Value;

use crate::tui_turns::RealActivityFixture;

impl RealActivityFixture {
    /// Types a line into the interface and presses Enter until that has come about. An interface that is just being painted
    /// takes no keys, and an Enter right behind a text counts as part of a paste.
    fn type_line(&self, text: &str, came_about: impl Fn() -> bool) {
        let mut looks = 0;
        wait_until(&format!("{text:?} on the screen"), || {
            let is_there = self.ok(&["screen", "s"]).contains(text);
            if !is_there && looks % 40 == 0 {
                // Clears the text of the last try.
                self.ok(&["input", "s", "\x15"]);
                self.ok(&["input", "s", text]);
            }
            looks += 1;
            is_there
        });
        let mut looks = 0;
        wait_until(&format!("the effect of {text:?}"), || {
            if looks % 40 == 0 && !came_about() {
                self.ok(&["input", "s", "--enter", ""]);
            }
            looks += 1;
            came_about()
        });
    }

    /// Prompts the interface and waits for the answer, on its screen and in its record.
    fn ask(&self, text: &str) {
        let answer = format!("ECHO: {text}");
        self.type_line(text, || self.ok(&["screen", "s"]).contains(&answer));
        let is_written =
            || self.agents.transcripts().iter().any(|written| written.answers().contains(&answer));
        wait_until("the answer in its record", is_written);
    }

    fn wait_screen(&self, text: &str) {
        wait_until(&format!("{text:?} on the screen"), || self.ok(&["screen", "s"]).contains(text));
    }

    /// Codex in its own interface, ready for a prompt.
    fn codex_alone(&self) {
        self.ok(&["run", "--detach", "--name", "s", "--", "codex"]);
        self.wait_screen("Ask Codex");
    }

    fn wait_conversation(&self, is_it: impl Fn(&str) -> bool) -> String {
        let known = || self.show()["conversation_id"].as_str().map(str::to_owned).filter(|id| is_it(id));
        wait_until("the session knows its conversation", || known().is_some());
        known().expect("a conversation")
    }

    fn foreign(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.ok(&["ls", "--foreign", "--json"])).expect("JSON");
        listed.as_array().cloned().unwrap_or_default()
    }

    /// After `stop`: the next run has the conversation, which has these prompts and no other.
    fn goes_on(&self, before: &str, prompts: &[&str]) {
        let id = self.show()["conversation_id"].clone();
        assert!(id.is_string(), "{}", self.show());
        let of_others = self.foreign();
        assert!(of_others.iter().all(|row| row["id"] != id), "{of_others:?}");
        self.ok(&["resume", "s", "--detach"]);
        self.wait_screen(&format!("ECHO: {before}"));
        self.ask("once more");
        self.ok(&["stop", "s"]);
        assert_eq!(self.show()["conversation_id"], id);
        let all = self.agents.transcripts();
        let of_this = all.iter().find(|written| id == written.id.as_str()).expect("its record");
        let mut said = of_this.prompts();
        said.retain(|prompt| !prompt.starts_with("<command-name>"));
        assert_eq!(said, [prompts, &["once more"]].concat());
    }
}

#[test]
fn b1_a_codex_without_trusted_hooks_goes_on_with_its_conversation() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.ask("hello there");
    world.ok(&["stop", "s"]);
    world.goes_on("hello there", &["hello there"]);
    assert_eq!(world.agents.transcripts().len(), 1);
    // Codex also notifies of a thread in which it finds a title: that is not the conversation.
    let records =
        fs::read_dir(world.lab.home().join("holders")).expect("records of who has what open").flatten();
    for record in records.filter(|record| record.path().extension().is_some_and(|end| end == "json")) {
        let record: Value =
            serde_json::from_slice(&fs::read(record.path()).expect("a record")).expect("JSON");
        assert_eq!(record["conversation_id"], world.show()["conversation_id"]);
    }
}

#[test]
fn a_codex_that_tells_nothing_at_all_goes_on_with_its_conversation() {
    let world = RealActivityFixture::new();
    let config = world.agents.home().join(".codex/config.toml");
    let text = fs::read_to_string(&config).expect("its config");
    fs::write(&config, format!("notify = [\"true\"]\n{text}")).expect("its config");
    world.codex_alone();
    world.ask("hello there");
    world.ok(&["stop", "s"]);
    world.goes_on("hello there", &["hello there"]);
}

#[test]
fn a_codex_that_was_stopped_in_its_first_turn_goes_on_with_its_conversation() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.type_line("HOLD never", || !world.agents.model().turns().is_empty());
    let id = world.wait_conversation(|_| true);
    world.ok(&["stop", "s"]);
    world.ok(&["resume", "s", "--detach"]);
    world.wait_screen("HOLD never");
    world.ask("hello there");
    assert_eq!((world.show()["conversation_id"].as_str(), world.agents.transcripts().len()), (Some(&*id), 1));
}

#[test]
fn a_codex_that_a_person_quits_goes_on_with_its_conversation() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.ask("hello there");
    world.type_line("/quit", || world.show()["pid"].is_null());
    world.ok(&["wait", "s", "--for", "exit", "--timeout", "60s"]);
    world.goes_on("hello there", &["hello there"]);
}

#[test]
fn a_conversation_of_a_codex_that_tells_nothing_survives_its_keeper() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.ask("hello there");
    let id = world.wait_conversation(|_| true);
    world.lab.kill_keeper("s");
    wait_until("the end of the run", || world.show()["pid"].is_null());
    assert_eq!(world.show()["conversation_id"].as_str(), Some(&*id));
    world.goes_on("hello there", &["hello there"]);
}

#[test]
fn a_conversation_of_a_codex_that_tells_nothing_has_one_writer() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.ask("hello there");
    let id = world.wait_conversation(|_| true);
    let lock = world.lab.home().join("conversations/codex").join(&id);
    assert!(lock.exists());
    let second = world.berth(&["run", "--detach", "--agent", "codex", "--tui", "--resume", &id]);
    assert!(second.code != 0 && second.err.contains("is being written by session"), "{second:?}");
}

#[test]
fn g8_a_new_conversation_in_a_codex_that_tells_nothing_is_followed() {
    let world = RealActivityFixture::new();
    world.codex_alone();
    world.ask("before");
    let first = world.wait_conversation(|_| true);
    world.type_line("/new", || !world.ok(&["screen", "s"]).contains("ECHO: before"));
    world.ask("after");
    let second = world.wait_conversation(|id| id != first);
    let lock = |id: &str| world.lab.home().join("conversations/codex").join(id);
    assert!(lock(&second).exists());
    world.ok(&["stop", "s"]);
    world.goes_on("after", &["after"]);
}

#[test]
fn a_codex_behind_a_wrapper_goes_on_with_its_conversation() {
    let world = RealActivityFixture::new();
    let wrapper = world.agents.home().join("wrapped");
    let codex = world.agents.bin().join("codex");
    fs::write(&wrapper, format!("#!/bin/sh\n'{}' \"$@\"\nexit $?\n", codex.display())).expect("a wrapper");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("a program");
    let config = format!("[agents.codex]\ntui = [{wrapper:?}, \"--no-daemon\"]\n");
    fs::write(world.lab.config(), config).expect("a config");
    world.ok(&["run", "--detach", "--agent", "codex", "--tui", "--name", "s"]);
    world.wait_screen("Ask Codex");
    world.ask("hello there");
    world.ok(&["stop", "s"]);
    world.goes_on("hello there", &["hello there"]);
}

#[test]
fn g8_a_cleared_conversation_of_a_claude_without_hooks_is_followed() {
    let world = RealActivityFixture::new();
    let words =
        ["run", "--detach", "--agent", "claude", "--tui", "--name", "s", "--", "--permission-mode", "manual"];
    let mut run = world.lab.command(words);
    let run = world.agents.around(&mut run).env("BERTH_HOOKS", "off").output().expect("berth can be started");
    assert!(run.status.success(), "{run:?}");
    world.wait_screen("shortcuts");
    world.ask("before");
    let first = world.wait_conversation(|_| true);
    world.type_line("/clear", || world.show()["conversation_id"] != first.as_str());
    let second = world.wait_conversation(|id| id != first);
    world.ask("after");
    world.ok(&["stop", "s"]);
    assert_eq!(world.show()["conversation_id"].as_str(), Some(&*second));
    world.goes_on("after", &["after"]);
}

#[test]
fn a_codex_that_was_started_with_a_conversation_goes_on_with_the_one_it_had_last() {
    let world = RealActivityFixture::new();
    let first = world.agents.command("codex", ["exec", "--skip-git-repo-check", "first"]).output();
    assert!(first.expect("codex can be started").status.success());
    let first = world.agents.transcripts()[0].id.clone();
    world.ok(&["run", "--detach", "--agent", "codex", "--tui", "--resume", &first, "--name", "s"]);
    world.wait_screen("ECHO: first");
    world.type_line("/new", || !world.ok(&["screen", "s"]).contains("ECHO: first"));
    world.ask("after");
    world.wait_conversation(|id| id != first);
    world.ok(&["stop", "s"]);
    world.goes_on("after", &["after"]);
}

#[test]
fn a_claude_that_was_cleared_and_stopped_before_a_prompt_starts_again() {
    let world = RealActivityFixture::new();
    world.claude();
    world.wait_screen("shortcuts");
    world.ask("before");
    let first = world.wait_conversation(|_| true);
    world.type_line("/clear", || world.show()["conversation_id"] != first.as_str());
    world.ok(&["stop", "s"]);
    world.ok(&["resume", "s", "--detach"]);
    world.wait_screen("shortcuts");
    world.ask("after");
    assert_ne!(world.show()["conversation_id"], first.as_str());
}
