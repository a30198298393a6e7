//! Keepers and agents that are killed in the middle of a turn (F2, F11, C10, G1), and the next send after that.
//!
//! The result is always this: the turn has an outcome that is true, the tool and the agent of the dead run are gone
//! before the next begins, the conversation goes on without a fork, no call is left without a result, and
//! no prompt is said twice.

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{ParsedTranscript, SeededRng, signal, wait_gone, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{AgentKindFixture, CommandTrust, RealAgentKind, ended, for_kinds, turn_of};

/// After a crash: the session goes on, in one line, and the model was never asked the same twice.
fn goes_on(world: &AgentKindFixture, id: &str) {
    world.echoed(id, "after the crash");
    is_one_line(world, &world.one_transcript(id));
}

fn is_one_line(world: &AgentKindFixture, transcript: &ParsedTranscript) {
    let mut prompts = world.prompts();
    prompts.sort();
    let all = prompts.len();
    prompts.dedup();
    assert_eq!(prompts.len(), all, "a prompt was said twice: {:?}", world.prompts());
    let turns = world.agents.model().turns();
    let last = turns.last().expect("something was asked");
    for call in &last.calls {
        let results = last.results.iter().filter(|result| result.call == *call).count();
        assert_eq!(
            results,
            1,
            "the model sees {results} results of {call}, in {}",
            transcript.path.display()
        );
    }
}

for_kinds!(a_keeper_killed_in_the_text);

fn a_keeper_killed_in_the_text(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    world.echoed(&id, "before the crash");
    let turn = world.begin(&id, "HOLD text");
    world.agents.model().arrived("text");
    let agent = world.lab.process(&id, "pid");
    world.lab.kill_keeper(&id);
    goes_on(&world, &id);
    wait_gone(&agent);
    assert_eq!(world.turn(&turn)["state"], "interrupted", "{}", world.turn(&turn));
    assert_eq!(world.states(&id), ["done", "interrupted", "done"]);
}

for_kinds!(a_keeper_killed_in_a_tool);

fn a_keeper_killed_in_a_tool(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let tool = world.endless();
    let turn = world.begin(&id, &format!("TOOL {}", tool.command));
    let process = tool.process(1);
    world.lab.kill_keeper(&id);
    goes_on(&world, &id);
    process.iter().for_each(wait_gone);
    assert_eq!(world.turn(&turn)["state"], "interrupted", "{}", world.turn(&turn));
}

for_kinds!(a_keeper_killed_while_its_agent_asks: Claude, Codex, ClaudeAcp);

/// The question cannot be answered any more: the command does not run. (Claude Code may go on with a no, and so be
/// done.)
fn a_keeper_killed_while_its_agent_asks(kind: RealAgentKind) {
    let world = AgentKindFixture::with(kind, CommandTrust::Nothing);
    let id = world.run(&[]);
    let turn = world.begin(&id, &crate::agents::turns::asking(kind, "asked"));
    world.ok(&["wait", &id, "--for", "needs-you", "--timeout", "60s"]);
    world.lab.kill_keeper(&id);
    assert_ne!(world.berth(&["answer", &id, "allow"]).code, 0);
    goes_on(&world, &id);
    let state = world.turn(&turn)["state"].clone();
    assert!(
        state == "interrupted" || (kind == RealAgentKind::Claude && state == "done"),
        "{}",
        world.turn(&turn)
    );
    assert_eq!(world.show(&id)["turns"]["asks"], json!([]));
    assert!(!world.agents.work().join("asked").exists());
}

for_kinds!(an_agent_killed_in_a_tool);

fn an_agent_killed_in_a_tool(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let tool = world.endless();
    let turn = world.begin(&id, &format!("TOOL {}", tool.command));
    let process = tool.process(1);
    signal(&world.lab.process(&id, "pid"), Signal::KILL);
    assert_eq!(world.wait(&turn), 9, "{}", world.turn(&turn));
    process.iter().for_each(wait_gone);
    goes_on(&world, &id);
    assert_eq!(world.states(&id), ["interrupted", "done"]);
}

for_kinds!(an_agent_killed_in_the_text: Claude, Codex);

/// The turn that waits behind it begins the next run by itself.
fn an_agent_killed_in_the_text(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let turn = world.begin(&id, "HOLD text");
    world.agents.model().arrived("text");
    let next = world.begin(&id, "what waits");
    signal(&world.lab.process(&id, "pid"), Signal::KILL);
    assert_eq!((world.wait(&turn), world.wait(&next)), (9, 0));
    assert_eq!(world.turn(&next)["answer"], "ECHO: what waits");
    goes_on(&world, &id);
}

for_kinds!(a_keeper_that_dies_with_the_answer: Claude, Codex, ClaudeAcp, CodexAcp);

/// The keeper heard the answer and recorded nothing of it: the answer is found, and given to the waiting client.
fn a_keeper_that_dies_with_the_answer(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = dying_at(&world, "answered");
    let waiting = world.spawn(&["send", &id, "--wait", "--json", "the question"]);
    let told = ended(waiting);
    let turn = turn_of(&told);
    assert_eq!(
        (told.code, &turn["state"], &turn["answer"]),
        (0, &json!("done"), &json!("ECHO: the question")),
        "{told:?}"
    );
    assert_eq!(world.show(&id)["epoch"], 1, "nothing was started for what is known");
    goes_on(&world, &id);
    assert_eq!(world.states(&id), ["done", "done"]);
}

for_kinds!(a_keeper_that_dies_after_its_first_word: Claude, Codex);

/// The agent's record decides whether the agent had the prompt: the turn is done, or it is not, and never a guess.
fn a_keeper_that_dies_after_its_first_word(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = dying_at(&world, "said");
    let told = ended(world.spawn(&["send", &id, "--wait", "--json", "the question"]));
    let turn = turn_of(&told);
    let state = turn["state"].as_str().unwrap_or_default();
    assert!(matches!((state, told.code), ("done", 0) | ("interrupted", 9)), "{told:?}");
    goes_on(&world, &id);
}

/// A session whose first keeper dies at this point.
fn dying_at(world: &AgentKindFixture, point: &str) -> String {
    let mut command = world.command(&["run", "-d", "--agent", world.kind.name()]);
    let said =
        berth_harness::said(command.env("BERTH_KILLPOINT", point).output().expect("berth can be started"));
    assert_eq!(said.code, 0, "{said:?}");
    said.out.trim().to_owned()
}

/// Claude Code goes on without its keeper (AGENTS.md, fact 4), and its later answer is found in its record.
#[test]
fn claude_that_finished_alone_is_done() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    let turn = world.begin(&id, "HOLD text");
    world.agents.model().arrived("text");
    world.lab.kill_keeper(&id);
    world.agents.model().release("text");
    let answered = |all: &[ParsedTranscript]| {
        all.iter().any(|one| one.answers().iter().any(|answer| answer.contains("ECHO: HOLD text")))
    };
    wait_until("the answer to be written down", || answered(&world.transcripts()));
    goes_on(&world, &id);
    let turn = world.turn(&turn);
    assert_eq!((&turn["state"], &turn["answer"]), (&json!("done"), &json!("held ECHO: HOLD text")), "{turn}");
    assert_eq!(world.states(&id), ["done", "done"]);
}

/// A Claude Code that is left behind writes no more once the next run begins.
#[test]
fn claude_that_is_left_behind_is_ended_before_the_next_run() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    world.begin(&id, "HOLD text");
    world.agents.model().arrived("text");
    let left = world.lab.process(&id, "pid");
    world.lab.kill_keeper(&id);
    let next = world.begin(&id, "HOLD next");
    world.agents.model().arrived("next");
    wait_gone(&left);
    world.agents.model().release("text");
    world.agents.model().release("next");
    assert_eq!(world.wait(&next), 0);
    assert_eq!(world.states(&id), ["interrupted", "done"]);
    is_one_line(&world, &world.one_transcript(&id));
}

for_kinds!(a_keeper_killed_at_any_time: Claude, Codex);

/// Killed at a random moment of a turn with text and a tool, again and again in one conversation.
fn a_keeper_killed_at_any_time(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let mut seed = SeededRng::announce(&format!("a keeper killed at any time, {}", kind.name()));
    let id = world.run(&[]);
    for round in 0..5 {
        let turn = world.begin(&id, &format!("SLOW 2 TOOL echo round {round}\nSLOW 1"));
        seed.dawdle(1_200_000);
        world.lab.kill_keeper(&id);
        world.echoed(&id, &format!("after round {round}"));
        let turn: Value = world.turn(&turn);
        assert!(matches!(turn["state"].as_str(), Some("done" | "interrupted")), "{turn}");
    }
    is_one_line(&world, &world.one_transcript(&id));
}

for_kinds!(a_keeper_that_is_replaced_in_the_middle_of_a_turn);

/// The next image hears the text that the agent said meanwhile, and says nothing twice (E11): in the text,
/// and behind a tool.
fn a_keeper_that_is_replaced_in_the_middle_of_a_turn(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let agent = world.lab.process(&id, "pid");
    let turn = world.begin(&id, "HOLD before TOOL echo hi\nHOLD after");
    for (count, hold) in ["before", "after"].into_iter().enumerate() {
        world.agents.model().arrived(hold);
        let dir = world.lab.session_dir(&id);
        let mut keeper = KeeperConnection::open(&dir, "a test".into()).expect("the keeper listens");
        keeper.ask(KeeperRequest::Restart).expect("it replaces itself");
        wait_until("the next image", || world.lab.events(&id, "keeper_restarted").len() == count + 1);
        world.agents.model().release(hold);
    }
    assert_eq!(world.wait(&turn), 0, "{}", world.turn(&turn));
    let answer = world.turn(&turn)["answer"].as_str().unwrap_or_default().to_owned();
    assert!(answer.ends_with("held TOOLDONE hi"), "{answer}");
    assert_eq!(world.lab.process(&id, "pid"), agent, "it is the same agent");
    world.echoed(&id, "after that");
    is_one_line(&world, &world.one_transcript(&id));
}
