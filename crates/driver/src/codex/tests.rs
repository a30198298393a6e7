//! The driver against lines that codex 0.166.0 really wrote (`*.jsonl`, shortened), and against anything else.

mod fuzz;
mod questions;
mod replay;

use berth_core::{FinalState, TurnEnd};
use serde_json::{Value, json};

use super::CodexDriver;
use crate::{AgentFailure, AgentUpdate, ContextUsage, ConversationStart, Driver, DriverOutput};
use replay::{CodexReplay, DriverCall, ReplayTrigger, lines};

const NEW: ConversationStart = ConversationStart::New { id: None };

fn ends(updates: &[AgentUpdate]) -> Vec<(u64, TurnEnd)> {
    let ended = |update: &AgentUpdate| match update {
        AgentUpdate::Ended { turn, end } => Some((*turn, end.clone())),
        AgentUpdate::Ready
        | AgentUpdate::Conversation { .. }
        | AgentUpdate::Model { .. }
        | AgentUpdate::Context { .. }
        | AgentUpdate::Began { .. }
        | AgentUpdate::Said { .. }
        | AgentUpdate::Doing { .. }
        | AgentUpdate::Asks { .. }
        | AgentUpdate::QuestionWithdrawn { .. }
        | AgentUpdate::Late { .. }
        | AgentUpdate::Remark { .. }
        | AgentUpdate::Broken { .. } => None,
    };
    updates.iter().filter_map(ended).collect()
}

fn contexts(updates: &[AgentUpdate]) -> Vec<ContextUsage> {
    let context = |update: &AgentUpdate| match update {
        AgentUpdate::Context { context } => Some(*context),
        _ => None,
    };
    updates.iter().filter_map(context).collect()
}

fn one_end(play: &CodexReplay) -> TurnEnd {
    match ends(&play.updates).as_slice() {
        [(_, end)] => end.clone(),
        other => panic!("one turn was to end, not {other:?}"),
    }
}

fn said(updates: &[AgentUpdate]) -> String {
    let texts = updates
        .iter()
        .filter_map(|update| if let AgentUpdate::Said { text } = update { Some(text) } else { None });
    texts.map(String::as_str).collect()
}

fn tools(updates: &[AgentUpdate]) -> Vec<String> {
    let doing = updates.iter().filter_map(|update| {
        if let AgentUpdate::Doing { activity } = update { Some(activity) } else { None }
    });
    let mut tools: Vec<String> =
        doing.map(|doing| format!("{} {}", doing.what, doing.detail).trim().to_owned()).collect();
    tools.dedup();
    tools
}

/// A driver whose conversation `T` is open.
fn opened() -> (CodexDriver, DriverOutput) {
    let (mut driver, mut out) = (CodexDriver::new(), DriverOutput::default());
    driver.begin(&NEW, "/home/me/project", &mut out);
    hear(&mut driver, json!({ "id": "berth-init", "result": {} }), &mut out);
    hear(&mut driver, json!({ "id": "berth-open", "result": { "thread": { "id": "T" } } }), &mut out);
    (driver, DriverOutput::default())
}

fn hear(driver: &mut CodexDriver, line: Value, out: &mut DriverOutput) {
    driver.hear(line.to_string().as_bytes(), out);
}

fn sent(out: &mut DriverOutput) -> Vec<Value> {
    let bytes = std::mem::take(&mut out.bytes);
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("what a driver writes is JSON"))
        .collect()
}

fn turn_started(id: &str) -> Value {
    json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": id } } })
}

fn turn_completed(id: &str, status: &str) -> Value {
    json!({ "method": "turn/completed", "params": { "threadId": "T", "turn": { "id": id, "status": status } } })
}

#[test]
fn a_driver_opens_a_conversation_and_gives_prompts_one_after_the_other() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "hello")),
        (ReplayTrigger::Ended(1), DriverCall::Prompt(2, "THINK TOOL echo hi")),
        (ReplayTrigger::Ended(2), DriverCall::Prompt(3, "ERROR 401")),
    ];
    let play = CodexReplay::run(lines("turns"), NEW, &script);
    let methods: Vec<&str> = play.sent.iter().map(|line| line["method"].as_str().unwrap_or("")).collect();
    assert_eq!(
        methods,
        ["initialize", "initialized", "thread/start", "turn/start", "turn/start", "turn/start"]
    );
    assert_eq!(play.sent[2]["params"], json!({ "cwd": "/home/me/project" }));
    assert_eq!(play.sent[3]["params"]["input"], json!([{ "type": "text", "text": "hello" }]));
    assert_eq!(play.sent[3]["id"], "turn-1");

    let begins = [
        AgentUpdate::Conversation { id: "01a1e3a9-0000-7000-8000-000000000001".into() },
        AgentUpdate::Model { model: "m".into() },
        AgentUpdate::Ready,
    ];
    let after_warnings = play.updates.iter().filter(|update| !matches!(update, AgentUpdate::Remark { .. }));
    assert_eq!(after_warnings.take(3).cloned().collect::<Vec<_>>(), begins);
    assert_eq!(tools(&play.updates)[..4], ["thinking", "writing", "thinking", "shell echo hi"]);

    let ends = ends(&play.updates);
    let told: Vec<_> = ends.iter().map(|(turn, end)| (*turn, end.state, end.answer.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, FinalState::Done, "ECHO: hello"),
            (2, FinalState::Done, "TOOLDONE hi"),
            (3, FinalState::Failed, "")
        ]
    );
    assert_eq!(
        (ends[1].1.input_tokens, ends[1].1.output_tokens),
        (Some(21_773), Some(12)),
        "of both requests"
    );
    let reason = ends[2].1.reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("not logged in or wrong key: unexpected status 401"), "{reason}");
}

#[test]
fn a_conversation_that_is_gone_held_or_locked_is_told_apart() {
    let resume = ConversationStart::Resume { id: "R".into() };
    let fork = ConversationStart::Fork { of: "R".into(), id: None };
    for (begin, message, trouble) in [
        (&resume, "no rollout found for thread id R", AgentFailure::NoConversation { id: "R".into() }),
        (&fork, "no rollout found for thread id R", AgentFailure::NoConversation { id: "R".into() }),
        (&resume, "invalid session id: invalid character", AgentFailure::NoConversation { id: "R".into() }),
        (
            &resume,
            "thread R already has an active writer",
            AgentFailure::InUse { said: "thread R already has an active writer".into() },
        ),
        (&NEW, "not logged in", AgentFailure::NotLoggedIn { said: "not logged in".into() }),
        (
            &NEW,
            "no such model",
            AgentFailure::Protocol { said: "codex could not open the conversation: no such model".into() },
        ),
    ] {
        let (mut driver, mut out) = (CodexDriver::new(), DriverOutput::default());
        driver.begin(begin, "/home/me/project", &mut out);
        hear(&mut driver, json!({ "id": "berth-init", "result": {} }), &mut out);
        let error = json!({ "code": -32600, "message": message });
        hear(&mut driver, json!({ "id": "berth-open", "error": error }), &mut out);
        assert_eq!(out.updates, [AgentUpdate::Broken { trouble }]);
        let open = &sent(&mut out)[2];
        match begin {
            ConversationStart::New { .. } => assert_eq!(open["method"], "thread/start"),
            ConversationStart::Resume { .. } => assert_eq!(open["method"], "thread/resume"),
            ConversationStart::Fork { .. } => assert_eq!(open["method"], "thread/fork"),
        }
    }
}

#[test]
fn a_turn_is_broken_off_with_what_it_has_said() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "HOLD a")),
        (ReplayTrigger::Said, DriverCall::Interrupt(1)),
        (ReplayTrigger::Ended(1), DriverCall::Prompt(2, "after")),
    ];
    let play = CodexReplay::run(lines("interrupt"), NEW, &script);
    let interrupt = play.sent.iter().find(|line| line["id"] == "interrupt-1").expect("it was asked to");
    assert_eq!(interrupt["params"]["turnId"], "01a1e3a9-0000-7000-8000-000000000002");
    let told: Vec<_> =
        ends(&play.updates).into_iter().map(|(turn, end)| (turn, end.state, end.answer)).collect();
    assert_eq!(
        told,
        [(1, FinalState::Interrupted, "held ".into()), (2, FinalState::Done, "ECHO: after".into())]
    );
}

#[test]
fn an_interrupt_waits_until_the_turn_runs_and_is_repeated_if_refused() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    driver.interrupt(1, &mut out);
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    assert_eq!(sent(&mut out).len(), 1, "codex would refuse it and forget it");
    hear(&mut driver, turn_started("N"), &mut out);
    let interrupts = sent(&mut out);
    assert_eq!(interrupts.len(), 1);
    assert_eq!(interrupts[0]["params"], json!({ "threadId": "T", "turnId": "N" }));
    let error = json!({ "code": -32600, "message": "no active turn to interrupt" });
    hear(&mut driver, json!({ "id": "interrupt-1", "error": error }), &mut out);
    let item = json!({ "type": "reasoning", "id": "r" });
    let params = json!({ "item": item, "threadId": "T", "turnId": "N" });
    hear(&mut driver, json!({ "method": "item/started", "params": params }), &mut out);
    assert_eq!(sent(&mut out), interrupts);
}

#[test]
fn text_is_steered_into_a_turn() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "SLOW 3")),
        (ReplayTrigger::Said, DriverCall::Steer(2, "more")),
    ];
    let play = CodexReplay::run(lines("steer"), NEW, &script);
    let steer = play.sent.last().expect("it was sent");
    assert_eq!(steer["params"]["expectedTurnId"], "01a1e3a9-0000-7000-8000-000000000002");
    assert!(play.updates.contains(&AgentUpdate::Began { turn: 2 }));
    let end = one_end(&play);
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Done, "tick 1 \n\nECHO: more"));
    assert_eq!(said(&play.updates), end.answer);
}

#[test]
fn a_steer_that_crosses_the_end_of_its_turn_is_not_taken_for_delivered() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    driver.steer(2, "more", &mut out);
    assert_eq!(sent(&mut out).len(), 1, "the turn has no name yet");
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    assert_eq!(sent(&mut out)[0]["id"], "steer-2");
    out = DriverOutput::default();
    hear(&mut driver, turn_completed("N", "completed"), &mut out);
    assert_eq!(out.updates, [], "whether 2 arrived is not known yet");
    let error = json!({ "code": -32600, "message": "no active turn to steer" });
    hear(&mut driver, json!({ "id": "steer-2", "error": error }), &mut out);
    let told: Vec<_> = ends(&out.updates).into_iter().map(|(turn, end)| (turn, end.state)).collect();
    assert_eq!(told, [(2, FinalState::Failed), (1, FinalState::Done)]);
}

#[test]
fn text_for_a_turn_that_never_began_fails_with_it() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    driver.steer(2, "more", &mut out);
    let error = json!({ "code": -32600, "message": "thread not found: T" });
    hear(&mut driver, json!({ "id": "turn-1", "error": error }), &mut out);
    let ends = ends(&out.updates);
    let told: Vec<_> = ends.iter().map(|(turn, end)| (*turn, end.state)).collect();
    assert_eq!(told, [(2, FinalState::Failed), (1, FinalState::Failed)]);
    assert_eq!(ends[1].1.reason.as_deref(), Some("codex did not take the prompt: thread not found: T"));
    driver.steer(3, "more", &mut out);
    assert!(matches!(out.updates.last(), Some(AgentUpdate::Ended { turn: 3, .. })));
}

#[test]
fn an_answer_that_is_written_anew_counts_once() {
    let play = CodexReplay::run(lines("retry"), NEW, &[(ReplayTrigger::Ready, DriverCall::Prompt(1, "CUT"))]);
    let end = one_end(&play);
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Failed, "half of it, and "));
    assert!(end.reason.is_some_and(|reason| reason.starts_with("stream disconnected")));
    assert!(
        tools(&play.updates).iter().any(|doing| doing.starts_with("retrying Reconnecting... 1/1: stream"))
    );
}

#[test]
fn compaction_is_part_of_its_turn() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(1, "first")),
        (ReplayTrigger::Ended(1), DriverCall::Prompt(2, "TOOL echo hi")),
        (ReplayTrigger::Ended(2), DriverCall::Prompt(3, "third")),
    ];
    let play = CodexReplay::run(lines("compaction"), NEW, &script);
    let states: Vec<_> = ends(&play.updates).into_iter().map(|(turn, end)| (turn, end.state)).collect();
    assert_eq!(states, [(1, FinalState::Done), (2, FinalState::Done), (3, FinalState::Done)]);
    // The first usage of a turn may repeat the last one of the turn before.
    let third = &ends(&play.updates)[2].1;
    assert_eq!((third.input_tokens, third.output_tokens), (Some(17_825), Some(4)));
    assert!(tools(&play.updates).contains(&"compacting".to_owned()));
    let used: Vec<_> = contexts(&play.updates).into_iter().filter_map(|context| context.used).collect();
    assert_eq!(used[..5], [10_740, 10_740, 6_625, 6_906, 10_908], "it falls with a compaction");
    assert!(!play.updates.iter().any(|update| matches!(update, AgentUpdate::Late { .. })));
}

#[test]
fn a_sub_agent_neither_speaks_for_the_turn_nor_ends_it() {
    let play =
        CodexReplay::run(lines("spawn"), NEW, &[(ReplayTrigger::Ready, DriverCall::Prompt(1, "spawn"))]);
    let conversations =
        play.updates.iter().filter(|update| matches!(update, AgentUpdate::Conversation { .. }));
    assert_eq!(conversations.count(), 1);
    let doing = tools(&play.updates);
    assert!(
        doing.contains(&"shell sleep 0.6".to_owned()) && !doing.contains(&"shell sleep 0.3".to_owned()),
        "{doing:?}"
    );
    let end = one_end(&play);
    assert!(end.answer.starts_with("ECHO <subagent_notification>"), "{}", end.answer);
    assert_eq!(
        (end.input_tokens, end.output_tokens),
        (Some(30), Some(9)),
        "without those of the other agent"
    );
    assert_eq!(contexts(&play.updates).len(), 3, "without those of the other agent");
}

#[test]
fn the_context_is_what_the_last_request_took_of_the_window() {
    let (mut driver, mut out) = opened();
    let usage = |thread: &str, last: u64, window: Value| {
        let tokens = |total: u64| json!({ "totalTokens": total, "inputTokens": total, "outputTokens": 0 });
        let usage = json!({ "total": tokens(90_000), "last": tokens(last), "modelContextWindow": window });
        json!({ "method": "thread/tokenUsage/updated",
            "params": { "threadId": thread, "turnId": "N", "tokenUsage": usage } })
    };
    hear(&mut driver, usage("T", 9830, json!(258_400)), &mut out);
    hear(&mut driver, usage("of a sub-agent", 1, json!(258_400)), &mut out);
    hear(&mut driver, usage("T", 9831, Value::Null), &mut out);
    hear(&mut driver, usage("T", 0, json!(258_400)), &mut out);
    let told: Vec<_> =
        contexts(&out.updates).into_iter().map(|context| (context.used, context.window)).collect();
    assert_eq!(told, [(Some(9830), Some(258_400)), (Some(9831), None), (None, Some(258_400))]);
}

#[test]
fn work_of_codex_by_itself_is_reported_as_late() {
    let play = CodexReplay::run(
        lines("goal"),
        NEW,
        &[(ReplayTrigger::Ready, DriverCall::Prompt(5, "create a goal"))],
    );
    assert_eq!(one_end(&play).state, FinalState::Done);
    let late: Vec<_> = play
        .updates
        .iter()
        .filter_map(
            |update| if let AgentUpdate::Late { turn, end } = update { Some((*turn, end)) } else { None },
        )
        .collect();
    assert_eq!(late.len(), 3);
    for (turn, end) in late {
        assert_eq!((turn, end.state), (5, FinalState::Done));
        assert!(end.answer.starts_with("ECHO <codex_internal_context"), "{}", end.answer);
    }
}

#[test]
fn a_prompt_may_join_a_turn_that_codex_began() {
    let script = [
        (ReplayTrigger::Ready, DriverCall::Prompt(13, "create a goal")),
        (ReplayTrigger::Ended(13), DriverCall::Prompt(14, "in the middle")),
    ];
    let play = CodexReplay::run(lines("goal_joined"), NEW, &script);
    let told: Vec<_> =
        ends(&play.updates).into_iter().map(|(turn, end)| (turn, end.state, end.answer)).collect();
    assert_eq!(told[1], (14, FinalState::Done, "ECHO in the middle".into()));
    assert!(!play.updates.iter().any(|update| matches!(update, AgentUpdate::Late { .. })));
}

#[test]
fn text_before_a_prompt_joined_a_turn_is_not_its_answer() {
    let (mut driver, mut out) = opened();
    let message = |id: &str, text: &str| {
        let item = json!({ "type": "agentMessage", "id": id, "text": text });
        json!({ "method": "item/completed", "params": { "item": item, "threadId": "T", "turnId": "N" } })
    };
    hear(&mut driver, turn_started("N"), &mut out);
    driver.prompt(1, "go", &mut out);
    hear(&mut driver, message("a", "not this"), &mut out);
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    hear(&mut driver, message("b", "nor this"), &mut out);
    let item = json!({ "type": "userMessage", "id": "u", "clientId": "turn-1" });
    let params = json!({ "item": item, "threadId": "T", "turnId": "N" });
    hear(&mut driver, json!({ "method": "item/started", "params": params }), &mut out);
    hear(&mut driver, message("c", "this"), &mut out);
    hear(&mut driver, turn_completed("N", "completed"), &mut out);
    assert_eq!(ends(&out.updates)[0].1.answer, "this");
}

#[test]
fn a_conversation_that_codex_gives_up_ends_the_run_once() {
    let (mut driver, mut out) = opened();
    let closed = |thread: &str| json!({ "method": "thread/closed", "params": { "threadId": thread } });
    hear(&mut driver, closed("S"), &mut out);
    assert_eq!(out.updates, []);
    hear(&mut driver, closed("T"), &mut out);
    hear(&mut driver, closed("T"), &mut out);
    assert!(matches!(
        out.updates.as_slice(),
        [AgentUpdate::Broken { trouble: AgentFailure::Protocol { .. } }]
    ));
}
