//! Conversations that were had without berth, with the real agents: killed in the middle of a tool, opened by hand
//! between two turns, closed by hand, taken over (B11, B14).

use berth_harness::{JsonLineProcess, signal, wait_gone, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;
use serde_json::json;

use crate::agents::{AgentKindFixture, RealAgentKind, for_kinds};

const ID: &str = "aaaaaaaa-1111-4111-8111-111111111111";

/// A Claude Code that a user started by hand, and that is in the middle of this prompt.
fn by_hand(world: &AgentKindFixture, words: &[&str], prompt: &str) -> JsonLineProcess {
    let args = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        .iter()
        .chain(words);
    let mut talk = JsonLineProcess::start(&mut world.agents.command("claude", args));
    talk.say(&json!({"type": "user", "message": {"role": "user", "content": prompt}}));
    talk
}

#[test]
fn b11_a_claude_killed_in_mid_tool_is_adopted_after_its_tool_is_ended() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let endless = world.endless();
    let talk = by_hand(&world, &["--session-id", ID], &format!("TOOL {}", endless.command));
    let tool = endless.process(1).expect("a tool outside of any sandbox");
    // The agent writes its record a moment after it acts.
    wait_until("the prompt in the record", || {
        world.agents.transcripts().first().is_some_and(|transcript| !transcript.prompts().is_empty())
    });
    let agent = ProcessIdentity::of(talk.pid()).expect("it runs");
    let refused = world.berth(&["adopt", ID, "--detach"]);
    assert!(refused.code == 4 && refused.err.contains(&format!("pid {}", agent.pid)), "{refused:?}");
    signal(&agent, Signal::KILL);
    let _ = talk.end();
    wait_gone(&agent);
    assert!(
        matches!(tool.check(), ProcessLiveness::Alive(_)),
        "it went with its agent; there is nothing to test"
    );
    let listed = world.json(&["ls", "--foreign", "--json"]);
    assert_eq!((&listed[0]["conversation_id"], &listed[0]["held_by"]), (&ID.into(), &json!([])), "{listed}");
    let session = world.ok(&["adopt", ID, "--detach", "--name", "saved"]);
    assert!(matches!(tool.check(), ProcessLiveness::Gone), "the tool is still at work");
    let log = world.ok(&["log", "saved"]);
    let ended = log.find("ended processes that a killed agent left running").expect(&log);
    assert!(ended < log.find("run 1 starting").expect(&log), "{log}");
    world.echoed(&session, "go on");
    world.one_transcript(&session);
}

#[test]
fn b11_messages_said_by_hand_between_two_turns_are_read_before_the_next() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    world.echoed(&id, "ours, first");
    world.echoed(&id, "ours, second");
    let agent = world.show(&id)["pid"].clone();
    let native = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    let mut stranger = by_hand(&world, &["--resume", &native], "theirs, between");
    stranger.wait("its answer", |said| said["type"] == "result");
    assert_eq!(stranger.end().0, 0);
    world.echoed(&id, "ours, third");
    assert_ne!(world.show(&id)["pid"], agent, "the agent was not started again");
    let log = world.ok(&["log", &id]);
    assert!(log.contains("another program wrote its conversation since its last turn"), "{log}");
    let one = world.one_transcript(&id);
    assert_eq!(one.prompts(), ["ours, first", "ours, second", "theirs, between", "ours, third"]);
    // No process wrote since, and the agent is not started again for nothing.
    let agent = world.show(&id)["pid"].clone();
    world.echoed(&id, "ours, fourth");
    world.echoed(&id, "ours, fifth");
    assert_eq!(world.show(&id)["pid"], agent);
}

/// A record that our own agent writes after a turn, of its own accord, is not that of another writer.
#[test]
fn an_agent_that_was_interrupted_is_not_taken_for_another_writer() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    world.echoed(&id, "the beginning");
    let agent = world.show(&id)["pid"].clone();
    let turn = world.begin(&id, "HOLD never");
    world.agents.model().arrived("never");
    world.ok(&["cancel", &turn]);
    assert_eq!(world.wait(&turn), 8);
    world.agents.model().release("never");
    world.echoed(&id, "TOOL echo hi\nafter".split('\n').next_back().expect("a word"));
    assert_eq!(world.show(&id)["pid"], agent, "{}", world.ok(&["log", &id]));
    world.one_transcript(&id);
}

#[test]
fn b14_a_claude_that_is_open_by_hand_is_taken_over_or_waited_for() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let mut stranger = by_hand(&world, &["--session-id", ID], "by hand");
    stranger.wait("its answer", |said| said["type"] == "result");
    let waiting = world.spawn(&["adopt", ID, "--detach", "--wait"]);
    let pid = waiting.id();
    wait_until("it to wait", || {
        std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("poll"))
    });
    assert_eq!(stranger.end().0, 0);
    let said = crate::agents::ended(waiting);
    assert_eq!(said.code, 0, "{said:?}");
    let session = said.out.trim().to_owned();
    world.echoed(&session, "adopted");
    world.ok(&["stop", &session]);
    let stranger = by_hand(&world, &["--resume", ID], "HOLD stranger");
    world.agents.model().arrived("stranger");
    let identity = ProcessIdentity::of(stranger.pid()).expect("it runs");
    let refused = world.berth(&["adopt", ID, "--detach"]);
    assert!(refused.code == 4 && refused.err.contains(&format!("pid {}", identity.pid)), "{refused:?}");
    assert_eq!(world.ok(&["adopt", ID, "--detach", "--take"]), session);
    wait_gone(&identity);
    world.echoed(&session, "taken");
    world.one_transcript(&session);
    drop(stranger);
}

for_kinds!(an_imported_conversation_goes_on_with_the_real_agent: Claude, Codex);

fn an_imported_conversation_goes_on_with_the_real_agent(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let (program, args): (_, &[&str]) = match kind {
        RealAgentKind::Claude | RealAgentKind::ClaudeAcp => ("claude", &["-p", "by hand"]),
        RealAgentKind::Codex | RealAgentKind::CodexAcp => {
            ("codex", &["exec", "--skip-git-repo-check", "by hand"])
        }
    };
    let by_hand = world.agents.command(program, args).output().expect("the agent");
    assert!(by_hand.status.success(), "{by_hand:?}");
    let done = world.json(&["import", "--all", "--json"]);
    assert_eq!((&done[0]["outcome"], &done[0]["name"]), (&"imported".into(), &"by-hand".into()), "{done}");
    let found = world.ok(&["grep", "ECHO: by hand"]);
    assert!(found.starts_with("by-hand:"), "{found}");
    let session = world.ok(&["resume", "by-hand", "--detach"]);
    world.echoed(&session, "and on");
    let one = world.one_transcript(&session);
    assert_eq!(one.prompts(), ["by hand", "and on"]);
    // Earlier messages are found only once, and the message sent here is a turn.
    assert!(world.ok(&["grep", "ECHO: by hand"]).starts_with("by-hand:"));
    let here = world.ok(&["grep", "ECHO: and on"]);
    assert_eq!(here.lines().count(), 1, "{here}");
}
