//! Agents that are released, come back, are copied, or have forgotten everything.

use berth_harness::model::one_line;
use berth_harness::wait_gone;
use serde_json::json;

use crate::agents::{AgentKindFixture, RealAgentKind, for_kinds};

for_kinds!(a_released_agent_takes_everything_along_and_comes_back);

/// With `--idle` the agent leaves, and its leaked processes with it; the next send finds it with all it knew.
fn a_released_agent_takes_everything_along_and_comes_back(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&["--idle", "1s"]);
    let tool = world.endless();
    let leak = format!("setsid {} >/dev/null 2>&1 </dev/null & echo leaked", tool.command);
    let (code, turn) = world.send(&id, &format!("TOOL {leak}"));
    assert_eq!(code, 0, "{turn}");
    // In its sandbox Codex ends the leaked process with the command.
    let leaked = if kind == RealAgentKind::CodexAcp { None } else { tool.process(1) };
    world.released(&id);
    leaked.iter().for_each(wait_gone);
    let native = world.show(&id)["conversation_id"].clone();
    world.echoed(&id, "do you remember");
    let shown = world.show(&id);
    assert_eq!((&shown["conversation_id"], &shown["epoch"]), (&native, &json!(2)));
    let turns = world.agents.model().turns();
    assert_eq!(one_line(&turns), Ok(()), "it knows what was said before");
    assert_eq!(turns.last().expect("asked").user_texts().len(), 2);
    world.one_transcript(&id);
}

for_kinds!(a_copy_knows_the_same_and_goes_its_own_way);

fn a_copy_knows_the_same_and_goes_its_own_way(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    world.echoed(&id, "the beginning");
    let copy = world.ok(&["fork", &id, "--name", "copy"]);
    world.echoed("copy", "in the copy");
    world.echoed(&id, "in the first");
    let natives =
        [&id, &copy].map(|id| world.show(id)["conversation_id"].as_str().expect("an id").to_owned());
    assert_ne!(natives[0], natives[1]);
    let turns = world.agents.model().turns();
    let said = |prompt: &str| {
        let asked = turns.iter().find(|turn| turn.prompt() == prompt).expect("it was asked");
        asked.user_texts().iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(said("in the copy"), ["the beginning", "in the copy"]);
    assert_eq!(said("in the first"), ["the beginning", "in the first"]);
    let transcripts = world.transcripts();
    for native in &natives {
        let one = transcripts.iter().find(|one| one.id == *native).expect("a transcript each");
        one.no_fork().unwrap_or_else(|fault| panic!("{fault}"));
    }
}

for_kinds!(a_conversation_that_is_gone_is_an_error_with_a_choice);

/// Nothing is begun anew without a word.
fn a_conversation_that_is_gone_is_an_error_with_a_choice(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&["--idle", "100ms"]);
    world.echoed(&id, "to be forgotten");
    let native = world.show(&id)["conversation_id"].clone();
    world.released(&id);
    let lost = world.agents.home().join("lost");
    for one in world.transcripts() {
        std::fs::rename(&one.path, &lost).expect("it can be moved away");
    }
    for args in [&["send", &id, "--wait", "hello"][..], &["resume", &id, "-d"]] {
        let said = world.berth(args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(
            said.err.contains("--fresh") && said.err.contains(native.as_str().expect("an id")),
            "{said:?}"
        );
    }
    assert!(world.transcripts().is_empty(), "nothing was begun");
    world.ok(&["resume", &id, "-d", "--fresh"]);
    world.echoed(&id, "anew");
    assert_ne!(world.show(&id)["conversation_id"], native);
    let turns = world.agents.model().turns();
    assert_eq!(turns.last().expect("asked").user_texts(), ["anew"]);
    world.one_transcript(&id);
}
