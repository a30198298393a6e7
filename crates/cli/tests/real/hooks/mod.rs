//! Hooks and the guard with the real agents, opened by hand and by berth.
//!
//! Promise: everything goes through the binaries; transcripts of the agents are read by the harness.
//! Start with [`RealHookFixture`].

use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_harness::{
    CommandOutput, ParsedTranscript, RealAgentFixture, TestTerminal, TranscriptAgent, said, wait_until,
};
use serde_json::Value;

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Real agents, and one conversation of Claude Code's.
struct RealHookFixture {
    base: RealAgentFixture,
}

impl Deref for RealHookFixture {
    type Target = RealAgentFixture;

    fn deref(&self) -> &RealAgentFixture {
        &self.base
    }
}

impl RealHookFixture {
    /// With hooks that are set up for both agents.
    fn set_up() -> Self {
        let world = Self::bare();
        world.ok(&["setup", "claude"]);
        world.ok(&["setup", "codex"]);
        world
    }

    fn bare() -> Self {
        Self { base: RealAgentFixture::new(env!("CARGO_BIN_EXE_berth")) }
    }

    fn claude(&self, args: &[&str]) -> CommandOutput {
        let mut command: Command = self.agents.command("claude", [&["-p"], args].concat());
        said(command.output().expect("claude can be started"))
    }

    /// A conversation with one turn in it.
    fn conversation(&self) -> PathBuf {
        let first = self.claude(&["--session-id", ID, "first"]);
        assert_eq!(first.out.trim(), "ECHO: first", "{first:?}");
        let dir = self.agents.home().join(".claude/projects");
        let projects = std::fs::read_dir(dir).unwrap().flatten();
        let mut files = projects.map(|project| project.path().join(format!("{ID}.jsonl")));
        files.find(|file| file.exists()).expect("a transcript")
    }

    /// The interface of Claude Code, in which that conversation is open.
    fn interface(&self) -> TestTerminal {
        let args = ["--permission-mode", "manual", "--resume", ID];
        let mut terminal = self.agents.terminal("claude", args);
        terminal.wait_for("ECHO: first");
        terminal
    }

    fn records(&self) -> Vec<Value> {
        let dir = self.lab.home().join("holders");
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let records = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        // A record that is being replaced is there in a moment.
        records.filter_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok()).collect()
    }

    fn record_of(&self, pid: u32) -> Option<Value> {
        self.records().into_iter().find(|record| record["pid"] == pid)
    }

    fn wait_open(&self, terminal: &TestTerminal) {
        let pid = terminal.identity().pid;
        wait_until("its record", || {
            self.record_of(pid).is_some_and(|record| record["conversation_id"] == ID)
        });
    }
}

/// Types a prompt until it is in the box, then sends it.
fn type_prompt(terminal: &mut TestTerminal, text: &str) {
    let mut typed = 0;
    terminal.wait_until("the prompt in the box", |terminal| {
        // Text that is typed before the agent listens is lost.
        if !terminal.text().contains(text) && typed < 20 {
            // Clears the text of the last try.
            terminal.type_keys(&format!("\x15\x1b[200~{text}\x1b[201~"));
            typed += 1;
        }
        terminal.text().contains(text)
    });
    terminal.type_keys("\r");
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a transcript")
}

/// The records that were added, by their types.
fn added(path: &Path, before: &[u8]) -> Vec<String> {
    let now = bytes(path);
    assert!(now.starts_with(before), "the transcript was rewritten");
    let lines = now[before.len()..].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            serde_json::from_slice::<Value>(line).expect("JSON")["type"].as_str().unwrap_or("").to_owned()
        })
        .collect()
}

#[test]
fn two_claude_resumes_by_hand_the_second_is_told_and_no_turn_of_it_is_anywhere() {
    let world = RealHookFixture::set_up();
    let transcript = world.conversation();
    let mut first = world.interface();
    world.wait_open(&first);
    let pid = first.identity().pid;
    let before = bytes(&transcript);
    let second = world.claude(&["--resume", ID, "second"]);
    for words in
        [format!("claude, pid {pid}, since "), format!("berth adopt {ID} --take"), "not sent".to_owned()]
    {
        assert!(second.out.contains(&words), "{words}: {second:?}");
    }
    assert_eq!(second.out.matches("the prompt was not sent").count(), 1, "told twice: {second:?}");
    // Notes of Claude Code about a prompt that was held up are its own; the prompt is not there, and the
    // model was not asked.
    let new = added(&transcript, &before);
    assert!(!new.iter().any(|kind| kind == "user" || kind == "assistant"), "{new:?}");
    assert!(!world.agents.model().prompts().iter().any(|prompt| prompt.contains("second")));
    // The first agent goes on.
    type_prompt(&mut first, "third");
    first.wait_for("ECHO: third");
    world
        .agents
        .model()
        .wait("the third prompt", |asked| asked.iter().any(|asked| asked.prompt().contains("third")));
    wait_until("its turn in the transcript", || {
        let prompts = ParsedTranscript::read(TranscriptAgent::Claude, &transcript).prompts();
        prompts.len() == 2 && prompts[1].contains("third")
    });
    first.close();
    first.wait_exit();
    // Free, once the other agent is gone: and no message is lost.
    let fourth = world.claude(&["--resume", ID, "fourth"]);
    assert_eq!(fourth.out.trim(), "ECHO: fourth", "{fourth:?}");
}

#[test]
fn in_an_interface_the_second_is_told_when_it_opens_and_writes_nothing_if_it_leaves() {
    let world = RealHookFixture::set_up();
    let transcript = world.conversation();
    let mut first = world.interface();
    world.wait_open(&first);
    let before = bytes(&transcript);
    let mut second = world.interface();
    second.wait_for("open elsewhere already");
    assert!(second.text().contains(&format!("pid {}", first.identity().pid)), "{}", second.text());
    assert_eq!(bytes(&transcript), before, "the second one wrote something");
    second.close();
    second.wait_exit();
    // An agent that leaves notes its mode and its costs, hooks or not. None of that is in the conversation.
    let added_to_it = |before: &[u8]| {
        let now = bytes(&transcript);
        let new = String::from_utf8_lossy(&now[before.len()..]).into_owned();
        new.lines().filter(|line| line.contains("\"uuid\"")).count()
    };
    assert_eq!(added_to_it(&before), 0, "the second one wrote something");
    let before = bytes(&transcript);
    // A user who does not heed the warning.
    let mut third = world.interface();
    third.wait_for("open elsewhere already");
    type_prompt(&mut third, "let me in");
    third.wait_for("the prompt was not sent");
    let new = added(&transcript, &before);
    assert!(!new.iter().any(|kind| kind == "user" || kind == "assistant"), "{new:?}");
    assert!(!world.agents.model().prompts().iter().any(|prompt| prompt.contains("let me in")));
    third.close();
    third.wait_exit();
    first.close();
    first.wait_exit();
}

#[test]
fn a_run_of_berth_carries_its_hooks_and_is_told_by_its_name() {
    let world = RealHookFixture::bare();
    let transcript = world.conversation();
    let run = ["run", "-d", "--name", "mine", "--agent", "claude", "--tui", "--resume", ID];
    let id = world.ok(&run);
    wait_until("its record", || {
        world
            .records()
            .iter()
            .any(|record| record["conversation_id"] == ID && record["session"] == id.as_str())
    });
    assert_eq!(world.records().len(), 1);
    assert!(!world.agents.home().join(".claude/skills").exists(), "something was installed");
    // Hooks that are installed as well: the agent is told once, and is not in its own way.
    world.ok(&["setup", "claude"]);
    let before = bytes(&transcript);
    let second = world.claude(&["--resume", ID, "second"]);
    assert!(second.out.contains("berth session `mine` writes this conversation already"), "{second:?}");
    assert!(second.out.contains("berth attach mine"), "{second:?}");
    assert!(!added(&transcript, &before).iter().any(|kind| kind == "user"));
    // A copy is another conversation.
    let copy = world.claude(&["--resume", ID, "--fork-session", "copied"]);
    assert_eq!(copy.out.trim(), "ECHO: copied", "{copy:?}");
    world.ok(&["stop", "mine"]);
    let pid = world.records().iter().find(|record| record["session"] == id.as_str()).unwrap()["pid"].as_u64();
    assert!(pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    let after = world.claude(&["--resume", ID, "after"]);
    assert_eq!(after.out.trim(), "ECHO: after", "{after:?}");
}

#[test]
fn b6_an_agent_that_takes_turns_carries_its_hooks_and_is_never_in_its_own_way() {
    let world = RealHookFixture::set_up();
    let said = world.ok(&["run", "--name", "s", "--agent", "claude", "--prompt", "one"]);
    assert!(said.contains("ECHO: one"), "{said}");
    assert!(world.ok(&["send", "s", "--wait", "two"]).contains("ECHO: two"));
    world.ok(&["stop", "s"]);
    assert!(world.ok(&["send", "s", "--wait", "three"]).contains("ECHO: three"));
    let records = world.records();
    assert_eq!(records.len(), 2, "one for each process: {records:?}");
    let ids: Vec<&Value> = records.iter().map(|record| &record["conversation_id"]).collect();
    assert_eq!(ids[0], ids[1]);
    world.ok(&["stop", "s"]);
}

#[test]
fn an_agent_goes_on_at_once_when_the_session_in_its_way_is_ended() {
    let world = RealHookFixture::set_up();
    let said = world.ok(&["run", "--name", "s", "--agent", "claude", "--prompt", "one"]);
    assert!(said.contains("ECHO: one"), "{said}");
    let status: Value = serde_json::from_str(&world.ok(&["show", "s", "--json"])).unwrap();
    let id = status["conversation_id"].as_str().expect("a conversation");
    wait_until("the end of its turn", || world.records()[0]["doing"]["state"] == "idle");
    let mut second = world.agents.terminal("claude", ["--permission-mode", "manual", "--resume", id]);
    second.wait_for("berth stop s");
    world.ok(&["stop", "s"]);
    // Nothing was said since the second agent opened the conversation: the session had nothing to do.
    type_prompt(&mut second, "two");
    second.wait_for("ECHO: two");
    second.close();
    second.wait_exit();
}

#[test]
fn a_note_behind_a_later_turn_of_the_first_is_found_as_a_fork() {
    let world = RealHookFixture::set_up();
    let transcript = world.conversation();
    let mut first = world.interface();
    world.wait_open(&first);
    let mut second = world.interface();
    second.wait_for("open elsewhere already");
    type_prompt(&mut first, "third");
    first.wait_for("ECHO: third");
    let path = transcript.display().to_string();
    let check = || world.berth(&["transcript", "check", &path]);
    wait_until("the turn in the transcript", || {
        ParsedTranscript::read(TranscriptAgent::Claude, &transcript)
            .answers()
            .iter()
            .any(|answer| answer.contains("third"))
    });
    let whole = check();
    assert_eq!(whole.code, 0, "{whole:?}");
    first.close();
    first.wait_exit();
    // The second has not read that, and hangs its note off what it has read.
    type_prompt(&mut second, "let me in");
    second.wait_for("the prompt was not sent");
    second.close();
    second.wait_exit();
    let forked = check();
    assert!(forked.code != 0 && forked.out.contains("two writers wrote at once"), "{forked:?}");
    assert!(forked.out.contains("prompt: third"), "{forked:?}");
    // A resume follows the note: this is what the user who was told to read it again is kept from.
    world.claude(&["--resume", ID, "fifth"]);
    let turns = world.agents.model().turns();
    let read = turns.last().expect("a request").user_texts();
    assert!(read.iter().any(|text| text.contains("fifth")), "{read:?}");
    assert!(!read.iter().any(|text| text.contains("third")), "{read:?}");
}

#[test]
fn codex_holds_a_prompt_back_when_it_is_told_to() {
    let world = RealHookFixture::set_up();
    let exec = |args: &[&str]| {
        let all = [&["exec"], args].concat();
        said(world.agents.command("codex", all).output().expect("codex can be started"))
    };
    let always = ["--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"];
    let first = exec(&[&always[..], &["first"]].concat());
    assert!(first.out.contains("ECHO: first"), "{first:?}");
    let thread = world.records()[0]["conversation_id"].as_str().expect("a thread").to_owned();
    // Another process, which the conversation's own lock does not keep out.
    let event = world.agents.home().join("event");
    let opened =
        serde_json::json!({"session_id": thread, "hook_event_name": "SessionStart", "source": "resume"});
    std::fs::write(&event, opened.to_string()).unwrap();
    let program = world.agents.home().join("codex");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let script = format!(
        "{} hook codex --home {} <{}; echo ready; read end",
        env!("CARGO_BIN_EXE_berth"),
        world.lab.home().display(),
        event.display()
    );
    let mut other = Command::new(&program);
    let mut other = other.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    other.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let second = exec(&[&["resume"], &always[..], &[&thread, "second"]].concat());
    assert!(!second.out.contains("ECHO: second"), "{second:?}");
    assert!(!world.agents.model().prompts().iter().any(|prompt| prompt.contains("second")), "{second:?}");
    drop(other.stdin.take());
    other.wait().unwrap();
    let third = exec(&[&["resume"], &always[..], &[&thread, "third"]].concat());
    assert!(third.out.contains("ECHO: third"), "{third:?}");
}

#[test]
fn g8_clear_in_the_interface_is_followed() {
    let world = RealHookFixture::set_up();
    world.conversation();
    let mut terminal = world.interface();
    world.wait_open(&terminal);
    // Text that is typed before the agent listens is lost, or comes all at once and counts as pasted.
    // So something else first.
    let mut typed = 0;
    terminal.wait_until("something in the box", |terminal| {
        if !terminal.text().contains("anybody") && typed < 20 {
            terminal.type_keys("\x1b[200~anybody\x1b[201~");
            typed += 1;
        }
        terminal.text().contains("anybody")
    });
    terminal.wait_until("an empty box", |terminal| {
        if terminal.text().contains("anybody") {
            terminal.type_keys("\x15");
        }
        !terminal.text().contains("anybody")
    });
    terminal.type_keys("/clear");
    terminal.wait_for("Start a new session");
    terminal.type_keys("\r");
    let pid = terminal.identity().pid;
    wait_until("the new conversation", || {
        world
            .record_of(pid)
            .is_some_and(|record| record["conversation_id"] != ID && record.get("ended").is_none())
    });
    // The conversation that the agent left is free.
    let second = world.claude(&["--resume", ID, "second"]);
    assert_eq!(second.out.trim(), "ECHO: second", "{second:?}");
    terminal.close();
    terminal.wait_exit();
}

#[test]
fn codex_tells_of_its_conversation_once_its_hooks_are_trusted() {
    let world = RealHookFixture::set_up();
    let args = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "hello"];
    let ran = said(world.agents.command("codex", args).output().expect("codex can be started"));
    assert!(ran.out.contains("ECHO: hello"), "{ran:?}");
    let records = world.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let rollout = records[0]["transcript"].as_str().expect("a rollout").to_owned();
    assert_eq!((&records[0]["kind"], Path::new(&rollout).exists()), (&Value::from("codex"), true));
    assert!(ran.out.contains(records[0]["conversation_id"].as_str().unwrap()), "{ran:?}");
}
