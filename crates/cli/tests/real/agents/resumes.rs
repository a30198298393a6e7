//! One conversation, wanted twice: by two sessions of ours, and by a foreign process (B11).
//!
//! The result is always this: one writes, the other is told which process does; the transcript has no fork.

use std::time::{Duration, Instant};

use berth_harness::{CommandOutput, JsonLineProcess, SeededRng, TestTerminal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use serde_json::json;

use crate::agents::{AgentKindFixture, RealAgentKind, ended, for_kinds};

/// A conversation with one answer in it and no writer.
fn conversation(world: &AgentKindFixture) -> String {
    let id = world.run(&[]);
    world.echoed(&id, "the beginning");
    let native = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    world.ok(&["stop", &id]);
    native
}

/// Asserts that the command was refused, and that the error names the writer.
fn refused(said: &CommandOutput, who: &str) {
    assert_eq!(said.code, 4, "{said:?}");
    assert!(
        said.err.contains("is being written by") && said.err.contains(who),
        "{who} is not named: {said:?}"
    );
}

for_kinds!(two_resumes_of_one_conversation: Claude, Codex);

/// Ten times, by the agent itself and by its adapter, which meet in one conversation.
fn two_resumes_of_one_conversation(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let native = conversation(&world);
    let mut seed = SeededRng::announce(&format!("two resumes, {}", kind.name()));
    let adapter = if kind.is_claude() { RealAgentKind::ClaudeAcp } else { RealAgentKind::CodexAcp };
    for round in 0..10 {
        let second = if seed.below(5) == 0 { adapter } else { kind };
        let children = [kind, second].map(|kind| {
            seed.dawdle(30_000);
            world.spawn(&["run", "-d", "--agent", kind.name(), "--resume", &native])
        });
        let mut all: Vec<CommandOutput> = children.into_iter().map(ended).collect();
        all.sort_by_key(|said| said.code);
        assert_eq!(all[0].code, 0, "{all:?}");
        let winner = all[0].out.trim();
        refused(&all[1], &format!("session {winner}"));
        let text = format!("round {round}");
        world.echoed(winner, &text);
        world.ok(&["stop", winner]);
        let one = world.one_transcript(winner);
        assert_eq!(one.prompts().last(), Some(&text));
    }
    assert_eq!(world.prompts().len(), 11);
}

/// A foreign Claude Code, in the middle of an answer.
fn stranger(world: &AgentKindFixture, native: &str) -> JsonLineProcess {
    let args = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--resume",
        native,
    ];
    let mut stranger = JsonLineProcess::start(&mut world.agents.command("claude", args));
    stranger.say(&json!({"type": "user", "message": {"role": "user", "content": "HOLD stranger"}}));
    world.agents.model().arrived("stranger");
    stranger
}

#[test]
fn a_foreign_claude_is_named_and_not_raced() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let native = conversation(&world);
    let stranger = stranger(&world, &native);
    let pid = stranger.pid();
    let identity = ProcessIdentity::of(pid).expect("it runs");
    let said = world.berth(&["run", "-d", "--agent", "claude", "--resume", &native]);
    refused(&said, &format!("pid {pid}, since "));
    assert!(said.err.contains(&format!("in {}", world.agents.work().display())), "{said:?}");
    // The adapter writes files of one kind with Claude Code, and is refused alike.
    refused(
        &world.berth(&["run", "-d", "--agent", "claude-acp", "--resume", &native]),
        &format!("pid {pid}"),
    );
    assert!(
        world.berth(&["ls"]).code == 0
            && matches!(identity.check(), berth_host::identity::ProcessLiveness::Alive(_))
    );
    let id = world.ok(&["run", "-d", "--agent", "claude", "--resume", &native, "--take"]);
    wait_gone(&identity);
    world.echoed(&id, "taken over");
    assert_eq!(world.prompts(), ["the beginning", "HOLD stranger", "taken over"]);
    world.one_transcript(&id);
    drop(stranger);
}

/// The foreign process came while ours was released: the next turn is refused, at once.
#[test]
fn a_foreign_claude_that_came_meanwhile_is_not_raced() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&["--idle", "100ms"]);
    world.echoed(&id, "the beginning");
    let native = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    world.released(&id);
    let stranger = stranger(&world, &native);
    let asked_at = Instant::now();
    let said = world.berth(&["send", &id, "--wait", "not now"]);
    refused(&said, &format!("pid {}", stranger.pid()));
    assert!(asked_at.elapsed() < Duration::from_secs(20), "not told before everything else was tried");
    assert_eq!(world.states(&id), ["done"], "a refused turn is not kept");
    world.agents.model().release("stranger");
    assert_eq!(stranger.end().0, 0);
    world.echoed(&id, "now");
    assert_eq!(world.prompts(), ["the beginning", "HOLD stranger", "now"]);
    world.one_transcript(&id);
}

/// The foreign process came while ours had nothing to do: the next turn waits, and goes on from
/// the messages said there.
#[test]
fn a_foreign_claude_that_came_beside_ours_holds_the_queue() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    world.echoed(&id, "the beginning");
    let native = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    let stranger = stranger(&world, &native);
    let said = world.berth(&["send", &id, "--wait", "not now"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(&format!("pid {}", stranger.pid())), "{said:?}");
    world.agents.model().release("stranger");
    assert_eq!(stranger.end().0, 0);
    world.ok(&["queue", &id, "resume"]);
    assert_eq!(world.wait(&format!("{id}.2")), 0);
    assert_eq!(world.prompts(), ["the beginning", "HOLD stranger", "not now"]);
    let turns = world.agents.model().turns();
    assert_eq!(turns.last().expect("asked").user_texts(), ["the beginning", "HOLD stranger", "not now"]);
    world.one_transcript(&id);
}

#[test]
fn a_foreign_codex_is_named_and_not_raced() {
    let world = AgentKindFixture::new(RealAgentKind::Codex);
    let native = conversation(&world);
    let mut stranger = JsonLineProcess::start(&mut world.agents.command("codex", ["app-server"]));
    stranger.say(
        &json!({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x", "version": "1"}}}),
    );
    stranger.wait("an answer", |line| line["id"] == 1);
    stranger.say(&json!({"method": "initialized"}));
    stranger.say(
        &json!({"id": 2, "method": "thread/resume", "params": {"threadId": native, "excludeTurns": true}}),
    );
    stranger.wait("the thread", |line| line["id"] == 2);
    let pid = stranger.pid();
    let identity = ProcessIdentity::of(pid).expect("it runs");
    let said = world.berth(&["run", "-d", "--agent", "codex", "--resume", &native]);
    refused(&said, "pid ");
    assert!(said.err.contains(&format!("in {}", world.agents.work().display())), "{said:?}");
    refused(&world.berth(&["run", "-d", "--agent", "codex-acp", "--resume", &native]), "pid ");
    let id = world.ok(&["run", "-d", "--agent", "codex", "--resume", &native, "--take"]);
    wait_gone(&identity);
    world.echoed(&id, "taken over");
    world.one_transcript(&id);
    drop(stranger);
}

/// Claude Code's own interface in a terminal outside of berth.
#[test]
fn a_claude_in_a_terminal_is_named_with_the_terminal() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let native = conversation(&world);
    let mut terminal = world.agents.terminal("claude", ["--resume", &native]);
    terminal.wait_for("the beginning");
    let said = world.berth(&["run", "-d", "--agent", "claude", "--resume", &native]);
    refused(&said, "on /dev/pts/");
    let id = world.ok(&["run", "-d", "--agent", "claude", "--resume", &native, "--take"]);
    terminal.wait_exit();
    world.echoed(&id, "taken over");
    world.one_transcript(&id);
}

/// Claude Code's own interface inside of berth: the id is ours, and so is the conversation while it runs.
#[test]
fn a_conversation_in_a_terminal_of_ours_is_refused_elsewhere() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let mut terminal = berth_in_terminal(
        &world,
        &["run", "--agent", "claude", "--tui", "--name", "tui", "--", "--permission-mode", "manual"],
    );
    terminal.wait_for("shortcuts");
    let native = world.show("tui")["conversation_id"].as_str().expect("an id of ours").to_owned();
    // Text that is typed before the agent listens is lost, and there is no event for that.
    let mut pasted = 0;
    terminal.wait_until("the prompt on the screen", |terminal| {
        if !terminal.text().contains("hello there") && pasted < 20 {
            terminal.type_keys("\x1b[200~hello there\x1b[201~");
            pasted += 1;
        }
        terminal.text().contains("hello there")
    });
    let mut pressed = 0;
    terminal.wait_until("the answer", |terminal| {
        if world.prompts().is_empty() && pressed < 100 {
            terminal.type_keys("\r");
            pressed += 1;
        }
        terminal.text().contains("ECHO: hello there")
    });
    // The agent writes its transcript later than it shows the answer.
    wait_until("the answer to be written down", || {
        world.transcripts().first().is_some_and(|one| !one.answers().is_empty())
    });
    let id = world.show("tui")["id"].as_str().expect("an id").to_owned();
    refused(&world.berth(&["run", "-d", "--agent", "claude", "--resume", &native]), &format!("session {id}"));
    assert_eq!(world.transcripts().iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [&native]);
    world.ok(&["stop", "tui"]);
    terminal.wait_exit();
    let id = world.ok(&["run", "-d", "--agent", "claude", "--resume", &native]);
    world.echoed(&id, "without a terminal");
    let one = world.one_transcript(&id);
    assert!(one.prompts()[0].starts_with("hello there"), "{:?}", one.prompts());
}

/// berth in a terminal, with the agents' environment and no other.
fn berth_in_terminal(world: &AgentKindFixture, words: &[&str]) -> TestTerminal {
    berth_in_terminal_of_size(world, words, 24, 80)
}

pub(crate) fn berth_in_terminal_of_size(
    world: &AgentKindFixture,
    words: &[&str],
    rows: u16,
    cols: u16,
) -> TestTerminal {
    let mut args = vec!["-i".to_owned(), format!("--chdir={}", world.agents.work().display())];
    for (name, value) in world.agents.env() {
        args.push(format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
    }
    args.push(format!("BERTH_CONFIG={}", world.lab.config().display()));
    args.push(format!("BERTH_HOME={}", world.lab.home().display()));
    args.push(env!("CARGO_BIN_EXE_berth").to_owned());
    args.extend(words.iter().map(|word| (*word).to_owned()));
    world.lab.terminal_running_of_size(std::path::Path::new("/usr/bin/env"), args, rows, cols)
}
