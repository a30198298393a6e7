//! An agent's transcript is gone, as after its own clean-up, and put back from our copies: it goes on with all of it.

use berth_harness::wait_until;

use crate::agents::{AgentKindFixture, RealAgentKind, for_kinds};

for_kinds!(a_transcript_that_is_gone_is_put_back_and_gone_on_with: Claude, Codex);

fn a_transcript_that_is_gone_is_put_back_and_gone_on_with(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    world.echoed(&id, "remember the first");
    world.echoed(&id, "remember the second");
    world.ok(&["stop", &id]);
    wait_until("the keeper to leave", || world.show(&id)["keeper_pid"].is_null());
    let before = world.one_transcript(&id);
    std::fs::remove_file(&before.path).expect("the agent cleans up");
    let resumed = world.berth(&["resume", "-d", &id]);
    assert!(resumed.code != 0 && resumed.err.contains("--history"), "{resumed:?}");
    world.ok(&["restore", &id, "--history"]);
    world.ok(&["resume", "-d", &id]);
    world.echoed(&id, "and the third");
    let after = world.one_transcript(&id);
    assert_eq!(after.path, before.path);
    assert_eq!(after.prompts(), ["remember the first", "remember the second", "and the third"]);
    let last = world.agents.model().turns().pop().expect("a request");
    let heard = last.user_texts();
    for words in ["remember the first", "remember the second"] {
        let is_told = heard.iter().any(|text| text.contains(words));
        assert!(is_told, "the model was not told of `{words}`: {heard:?}");
    }
}
