//! Two first sends at once (C1): on a session without an earlier turn, and on one whose agent was released.
//!
//! The result is always this: two turns, each with its own answer, in the order of their receipts; one native id, one
//! transcript without a fork, and the model was asked each once.

use berth_harness::SeededRng;
use berth_harness::model::one_line;

use crate::agents::{AgentKindFixture, RealAgentKind, ended, for_kinds, turn_of};

/// How many rounds. An adapter is two programs, and takes as long as that.
fn rounds(kind: RealAgentKind) -> usize {
    let usual = match kind {
        RealAgentKind::Claude | RealAgentKind::Codex => 10,
        RealAgentKind::ClaudeAcp | RealAgentKind::CodexAcp => 4,
    };
    std::env::var("BERTH_ROUNDS").ok().and_then(|given| given.parse().ok()).unwrap_or(usual)
}

for_kinds!(two_first_sends_are_two_turns_in_order);

fn two_first_sends_are_two_turns_in_order(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let mut seed = SeededRng::announce(&format!("two first sends, {}", kind.name()));
    for round in 0..rounds(kind) {
        let before = world.transcripts().len();
        // The first difference is which of the two gets to begin the run, or finds it beginning.
        let id = world.run(&["--idle", "100ms"]);
        if seed.below(4) == 0 {
            world.released(&id);
        }
        let asked = at_once(&world, &id, &mut seed, &format!("new {round}"));
        let native = world.show(&id)["conversation_id"].clone();
        let all = world.transcripts();
        assert_eq!(
            all.len(),
            before + 1,
            "one transcript each: {:?}",
            all.iter().map(|one| &one.id).collect::<Vec<_>>()
        );
        // Two more sends at once, now that there is a conversation to be taken up.
        world.released(&id);
        let again = at_once(&world, &id, &mut seed, &format!("released {round}"));
        assert_eq!(world.show(&id)["conversation_id"], native);
        let all = world.transcripts();
        assert_eq!(all.len(), before + 1, "no second transcript");
        let ours = all.iter().find(|one| native == one.id.as_str()).expect("the conversation's transcript");
        ours.no_fork().unwrap_or_else(|fault| panic!("{fault}"));
        let prompts = [asked, again].concat();
        assert_eq!(ours.prompts(), prompts);
        let mut turns = world.agents.model().turns();
        turns.retain(|turn| prompts.iter().any(|prompt| prompt == turn.prompt()));
        assert_eq!(turns.iter().map(|turn| turn.prompt()).collect::<Vec<_>>(), prompts, "each once");
        assert_eq!(one_line(&turns), Ok(()));
        world.ok(&["stop", &id]);
    }
}

/// Two sends at once; the prompts in the order they were accepted.
fn at_once(world: &AgentKindFixture, id: &str, seed: &mut SeededRng, what: &str) -> Vec<String> {
    let children: Vec<_> = ["left", "right"]
        .map(|side| {
            let text = format!("{what} {side}");
            seed.dawdle(20_000);
            let child = world.spawn(&["send", id, "--wait", "--json", "--", &text]);
            (text, child)
        })
        .into_iter()
        .collect();
    let mut turns: Vec<(u64, String)> = Vec::new();
    for (text, child) in children {
        let said = ended(child);
        let turn = turn_of(&said);
        assert_eq!(
            (said.code, &turn["prompt"], &turn["answer"]),
            (0, &text.as_str().into(), &format!("ECHO: {text}").into()),
            "{said:?}"
        );
        turns.push((turn["number"].as_u64().expect("a number"), text));
    }
    turns.sort();
    assert_eq!(turns[0].0 + 1, turns[1].0, "{turns:?}");
    turns.into_iter().map(|(_, text)| text).collect()
}
