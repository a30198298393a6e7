//! Turns of every kind of agent: answered, failed, interrupted, asked about, added to; and the session
//! goes on after each.

use berth_harness::wait_gone;
use serde_json::json;

use crate::agents::{AgentKindFixture, CommandTrust, RealAgentKind, ended, for_kinds, turn_of};

for_kinds!(a_life_is_one_conversation);

/// However a turn ends, the next one is answered, in the same conversation.
fn a_life_is_one_conversation(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    world.echoed(&id, "first");
    let native = world.show(&id)["conversation_id"].clone();
    assert!(native.is_string(), "no native id");
    world.echoed(&id, "second");
    // The API fails.
    let (code, turn) = world.send(&id, "ERROR 500");
    assert_eq!((code, &turn["state"]), (1, &json!("failed")), "{turn}");
    assert!(turn["reason"].as_str().is_some_and(|why| !why.is_empty()), "{turn}");
    world.echoed(&id, "after the error");
    // A long answer is whole.
    let (code, turn) = world.send(&id, "LONG 300000");
    let length = turn["answer"].as_str().map(str::len);
    assert_eq!((code, length, &turn["cut"]), (0, Some(300_000), &json!(false)));
    // Interrupted in the middle of the text.
    let waiting = world.spawn(&["send", &id, "--wait", "--json", "HOLD text"]);
    world.agents.model().arrived("text");
    let turn = world.show(&id)["turns"]["current"].as_str().expect("a turn").to_owned();
    world.ok(&["cancel", &turn]);
    let told = ended(waiting);
    assert_eq!((told.code, &turn_of(&told)["state"]), (8, &json!("cancelled")), "{told:?}");
    world.echoed(&id, "after the text");
    // Interrupted in the middle of a tool.
    let tool = world.endless();
    let turn = world.begin(&id, &format!("TOOL {}", tool.command));
    let process = tool.process(1);
    world.ok(&["cancel", &turn]);
    assert_eq!(world.wait(&turn), 8);
    if kind.is_claude() {
        // Codex leaves it running; it ends with the run.
        process.iter().for_each(wait_gone);
    }
    world.echoed(&id, "after the tool");
    let states = ["done", "done", "failed", "done", "done", "cancelled", "done", "cancelled", "done"];
    assert_eq!(world.states(&id), states);
    assert_eq!(world.show(&id)["conversation_id"], native);
    world.one_transcript(&id);
    world.ok(&["stop", &id]);
    process.iter().for_each(wait_gone);
    let prompts = world.prompts();
    let asked = prompts.iter().filter(|prompt| *prompt != "ERROR 500").count();
    assert_eq!(asked, states.len() - 1, "each prompt once: {prompts:?}");
}

for_kinds!(the_context_window_is_known_after_a_turn_and_falls_with_a_compaction);

fn the_context_window_is_known_after_a_turn_and_falls_with_a_compaction(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let context = || {
        let shown = world.show(&id)["context"].clone();
        shown["used_tokens"].as_u64().zip(shown["window_tokens"].as_u64())
    };
    assert_eq!(context(), None, "nothing was asked yet");
    world.echoed(&id, "first");
    let (used, window) = context().expect("a context");
    let tokens = ["input_tokens", "output_tokens"].map(|of| world.turn(&format!("{id}.1"))[of].as_u64());
    assert_eq!(tokens.into_iter().sum::<Option<u64>>(), Some(used), "one request took {tokens:?}");
    assert_eq!(window, if kind.is_claude() { 1_000_000 } else { 258_400 });
    let (code, turn) = world.send(&id, "TOOL echo hi");
    assert_eq!(code, 0, "{turn}");
    let (more, _) = context().expect("a context");
    // Two requests, and only the last one counts.
    assert!((used + 1..used * 3 / 2).contains(&more), "{used}, then {more}");
    let text = world.ok(&["show", &id]);
    assert!(text.contains(" tokens (") && text.contains("context"), "{text}");
    // The next run goes on with it.
    world.ok(&["stop", &id]);
    assert_eq!(context(), Some((more, window)));
    world.ok(&["resume", &id, "-d"]);
    assert_eq!(context(), Some((more, window)));
    if kind.is_claude() {
        let (code, turn) = world.send(&id, "/compact");
        assert_eq!(code, 0, "{turn}");
        let (less, size) = context().expect("a context");
        assert!(less < more && size == window, "{more}, then {less} of {size}");
    }
    world.echoed(&id, "last");
    assert!(context().is_some_and(|(used, size)| used > 1000 && size == window), "{:?}", context());
}

for_kinds!(a_question_waits_for_a_person: Claude, Codex, ClaudeAcp);

/// Allowed runs, denied does not, and a question that is gone takes no answer.
fn a_question_waits_for_a_person(kind: RealAgentKind) {
    let world = AgentKindFixture::with(kind, CommandTrust::Nothing);
    let id = world.run(&[]);
    for (answer, runs) in [("allow", true), ("deny", false)] {
        let turn = world.begin(&id, &asking(kind, answer));
        world.ok(&["wait", &id, "--for", "needs-you", "--timeout", "60s"]);
        let shown = world.show(&id);
        let ask = &shown["turns"]["asks"][0];
        assert_eq!(shown["state"], "needs-you");
        assert!(ask["detail"].as_str().is_some_and(|what| what.contains("touch")), "{ask}");
        let odd = world.berth(&["answer", &id, "perhaps"]);
        assert_ne!(odd.code, 0, "{odd:?}");
        world.ok(&["answer", &id, answer, "--yes"]);
        assert_eq!(world.wait(&turn), 0, "{}", world.turn(&turn));
        assert_eq!(world.agents.work().join(answer).exists(), runs, "{answer}");
        assert_ne!(world.berth(&["answer", &id, "allow"]).code, 0, "nothing is asked any more");
    }
    // Interrupted while it asks.
    let turn = world.begin(&id, &asking(kind, "asked"));
    world.ok(&["wait", &id, "--for", "needs-you", "--timeout", "60s"]);
    world.ok(&["cancel", &turn]);
    assert_eq!(world.show(&id)["turns"]["asks"], json!([]));
    assert!(!world.agents.work().join("asked").exists());
    world.echoed(&id, "after the questions");
    assert_eq!(world.states(&id), ["done", "done", "cancelled", "done"]);
    world.one_transcript(&id);
}

for_kinds!(the_reason_of_a_no_reaches_the_model: Claude, Codex, ClaudeAcp);

/// Said no with a reason: the command does not run, and the next request to the model has the reason.
fn the_reason_of_a_no_reaches_the_model(kind: RealAgentKind) {
    let world = AgentKindFixture::with(kind, CommandTrust::Nothing);
    let id = world.run(&[]);
    let turn = world.begin(&id, &asking(kind, "refused"));
    world.ok(&["wait", &id, "--for", "needs-you", "--timeout", "60s"]);
    world.ok(&["answer", &id, "deny", "use mktemp instead"]);
    world.wait(&turn);
    assert!(!world.agents.work().join("refused").exists());
    let asked = world.agents.model().turns();
    let reached = asked.iter().any(|asked| asked.body.to_string().contains("use mktemp instead"));
    assert!(reached, "the model was not told: {}", world.turn(&turn));
    let answers = &world.turn(&turn)["answers"];
    assert_eq!(answers[0]["text"], "use mktemp instead", "{answers}");
    world.echoed(&id, "after that");
}

/// A prompt for a command that is asked for.
pub(crate) fn asking(kind: RealAgentKind, file: &str) -> String {
    if kind.is_claude() {
        return format!("TOOL touch {file}");
    }
    // Codex asks when the model says that its sandbox is in the way.
    let call = json!({"cmd": format!("touch {file}"), "sandbox_permissions": "require_escalated", "justification": "may I"});
    format!("CALL exec_command {call}")
}

for_kinds!(text_added_to_a_turn_ends_with_the_turn);

/// Steered while a tool runs.
fn text_added_to_a_turn_ends_with_the_turn(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let gate = world.fifo();
    let began = world.agents.work().join("began");
    let turn = world.begin(&id, &format!("TOOL touch {}; cat {gate}", began.display()));
    berth_harness::wait_until("the tool to run", || began.exists());
    let added = world.berth(&["send", &id, "--steer", "--", "more of it"]);
    let open = || std::fs::OpenOptions::new().write(true).open(&gate).expect("the tool reads it");
    assert_eq!(added.code, 0, "{added:?}");
    let added = added.out.trim();
    // Codex says at once that it took the text; a text that it took too late would belong to no turn.
    if !kind.is_claude() {
        berth_harness::wait_until("the text is taken", || !world.turn(added)["began_at"].is_null());
    }
    drop(open());
    assert_eq!((world.wait(&turn), world.wait(added)), (0, 0), "{}", world.turn(added));
    assert_eq!(world.states(&id), ["done", "done"]);
    let heard = |asked: &berth_harness::model::ModelRequest| asked.body.to_string().contains("more of it");
    let turns = world.agents.model().turns();
    assert!(turns.iter().any(heard), "the model did not hear of it: {turns:#?}");
    world.echoed(&id, "after");
    world.one_transcript(&id);
}

for_kinds!(a_turn_is_broken_off_for_another);

fn a_turn_is_broken_off_for_another(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let turn = world.begin(&id, "HOLD text");
    world.agents.model().arrived("text");
    let said = world.berth(&["send", &id, "--interrupt", "--wait", "rather this"]);
    assert_eq!((said.code, said.out.as_str()), (0, "ECHO: rather this\n"), "{said:?}");
    assert_eq!(world.wait(&turn), 9);
    assert_eq!(world.states(&id), ["interrupted", "done"]);
    world.one_transcript(&id);
}

/// Claude Code answers by itself when a command in the background ends; that answer belongs to no turn,
/// and takes no turn's place.
#[test]
fn an_unasked_message_of_claude_is_not_a_turn() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    let gate = world.fifo();
    let input = json!({"command": format!("cat {gate}"), "run_in_background": true});
    let (code, turn) = world.send(&id, &format!("CALL Bash {input}"));
    assert_eq!((code, &turn["state"]), (0, &json!("done")), "{turn}");
    let asked = world.agents.model().turns().len();
    drop(std::fs::OpenOptions::new().write(true).open(&gate).expect("the command reads it"));
    world
        .agents
        .model()
        .wait("its unasked message", |all| all.iter().filter(|asked| !asked.housekeeping).count() > asked);
    world.echoed(&id, "a question");
    world.echoed(&id, "another");
    assert_eq!(world.states(&id), ["done", "done", "done"]);
    world.one_transcript(&id);
}

/// `/clear` begins another conversation in the same process (G8): the right to write moves with it.
#[test]
fn a_conversation_that_claude_leaves_is_free_and_the_one_it_enters_is_not() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&[]);
    world.echoed(&id, "to be forgotten");
    let before = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    let (code, turn) = world.send(&id, "/clear");
    assert_eq!((code, &turn["state"]), (0, &json!("done")), "{turn}");
    world.echoed(&id, "anew");
    let after = world.show(&id)["conversation_id"].as_str().expect("an id").to_owned();
    assert_ne!(before, after);
    let turns = world.agents.model().turns();
    assert!(!turns.last().expect("asked").user_texts().contains(&"to be forgotten"));
    let said = world.berth(&["run", "-d", "--agent", "claude", "--resume", &after]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(&id), "{said:?}");
    let other = world.run(&["--resume", &before]);
    world.echoed(&other, "not forgotten here");
    assert!(world.agents.model().turns().last().expect("asked").user_texts().contains(&"to be forgotten"));
    // The session goes on with the conversation it entered.
    world.ok(&["stop", &id]);
    world.ok(&["resume", &id, "-d"]);
    world.echoed(&id, "still anew");
    assert_eq!(world.show(&id)["conversation_id"], after.as_str());
    for one in world.transcripts() {
        one.no_fork().unwrap_or_else(|fault| panic!("{fault}"));
    }
}

for_kinds!(a_key_that_is_refused_is_told);

fn a_key_that_is_refused_is_told(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    let (code, turn) = world.send(&id, "ERROR 401");
    assert_eq!((code, &turn["state"]), (1, &json!("failed")), "{turn}");
    assert!(turn["reason"].as_str().is_some_and(|why| !why.is_empty()), "{turn}");
    world.echoed(&id, "after that");
    assert_eq!(world.states(&id), ["failed", "done"]);
}

for_kinds!(a_limit_of_the_model_holds_the_queue);

/// B8: the queue does not burn behind a turn that the model's server refused.
fn a_limit_of_the_model_holds_the_queue(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let id = world.run(&[]);
    world.echoed(&id, "before");
    world.ok(&["queue", &id, "pause"]);
    world.ok(&["send", &id, "ERROR 429"]);
    world.ok(&["send", &id, "after that"]);
    world.ok(&["queue", &id, "resume"]);
    let failed = world.berth(&["wait", &format!("{id}.2"), "--timeout", "120s"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let shown = world.show(&id);
    let held = shown["turns"]["held"].as_str().unwrap_or_default();
    assert!(held.contains("usage limit"), "{shown}");
    assert_eq!(world.states(&id), ["done", "failed", "queued"]);
    world.ok(&["queue", &id, "resume"]);
    world.ok(&["wait", &format!("{id}.3"), "--timeout", "120s"]);
    assert_eq!(world.states(&id), ["done", "failed", "done"]);
}
