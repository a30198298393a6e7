//! Recorded lines of real agents, read again.

use super::*;
use crate::{ContextUsage, InterruptionReason};

#[test]
fn claude_is_talked_to_as_recorded() {
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    let prompts = ["hello", "TOOL touch x.txt; echo one", "THINK two", "ERROR 401"];
    talk.play(CLAUDE, &prompts, &[Some(QuestionOptionKind::AllowOnce)]);
    talk.with(|driver, out| driver.goodbye(out));
    assert_eq!(talk.sent, sent_in(CLAUDE));
    let ends: Vec<_> =
        talk.ends().iter().map(|(turn, end)| (*turn, end.state, end.answer.as_str())).collect();
    let expected = [
        (1, FinalState::Done, "ECHO: hello"),
        (2, FinalState::Done, "TOOLDONE one"),
        (3, FinalState::Done, "ECHO: THINK two"),
        (4, FinalState::Failed, "Failed to authenticate. API Error: 401 the prompt asked for status 401"),
    ];
    assert_eq!(ends, expected);
    assert_eq!(talk.end().reason.as_deref(), Some("not logged in or wrong key: Authentication required"));
    assert!(talk.updates.contains(&AgentUpdate::Conversation { id: SESSION.to_owned() }));
    let ask = talk.updates.iter().find_map(|update| match update {
        AgentUpdate::Asks { ask } => Some((ask.tool.as_str(), ask.detail.as_str())),
        _ => None,
    });
    assert_eq!(ask, Some(("Bash", "touch x.txt; echo one")));
    assert_eq!(talk.contexts().last(), Some(&ContextUsage { used: Some(11_770), window: Some(1_000_000) }));
    let proves = DriverGuarantees { accepted: false, ended: true, resume: true, steer: true };
    assert_eq!(talk.driver.proves(), proves);
}

#[test]
fn codex_is_talked_to_as_recorded_and_its_errors_are_no_answers() {
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    talk.play(CODEX, &["hello", "TOOL echo one", "ERROR 529"], &[]);
    talk.with(|driver, out| driver.goodbye(out));
    assert_eq!(talk.sent, sent_in(CODEX));
    let ends = talk.ends();
    assert_eq!(
        ends.iter().map(|(_, end)| end.state).collect::<Vec<_>>(),
        [FinalState::Done, FinalState::Done, FinalState::Failed]
    );
    // The agent answered the last prompt with `end_turn`, and sent a warning with every turn.
    assert_eq!(ends[0].1.answer, "ECHO: hello");
    assert!(ends[2].1.reason.as_deref().is_some_and(|why| why.starts_with("unexpected status 529")));
    assert_eq!(talk.remarks().len(), 1, "{:?}", talk.remarks());
    assert!(ends[0].1.input_tokens > Some(1000) && ends[0].1.output_tokens == Some(3));
    assert_eq!(talk.contexts()[0], ContextUsage { used: Some(11_000), window: Some(258_400) });
}

#[test]
fn a_refused_permission_and_an_interrupt_are_told_apart() {
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    let answers = [Some(QuestionOptionKind::AllowOnce), Some(QuestionOptionKind::RejectOnce), None];
    talk.play(CODEX_ASKS, &["one", "two", "three"], &answers);
    let ends: Vec<_> = talk.ends().iter().map(|(_, end)| (end.state, end.reason.as_deref())).collect();
    let interrupted = |why: InterruptionReason| (FinalState::Interrupted, Some(why.reason()));
    let expected = [
        (FinalState::Done, None),
        interrupted(InterruptionReason::AfterDenial),
        interrupted(InterruptionReason::Requested),
    ];
    assert_eq!(ends, expected);
    let outcome =
        |at: usize| &talk.sent.iter().filter(|sent| sent.get("result").is_some()).nth(at).unwrap()["result"];
    assert_eq!(outcome(0), &json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}}));
    assert_eq!(outcome(1), &json!({"outcome": {"outcome": "selected", "optionId": "cancel"}}));
    assert_eq!(outcome(2), &json!({"outcome": {"outcome": "cancelled"}}));
    // The cancel goes first: an agent that reads the answer first would go on.
    let at = |is: &dyn Fn(&Value) -> bool| talk.sent.iter().position(is);
    assert!(at(&|sent| sent["method"] == "session/cancel") < at(&|sent| sent["id"] == 2));
    assert!(talk.updates.contains(&AgentUpdate::QuestionWithdrawn { request: "2".to_owned() }));
}

#[test]
fn text_of_a_background_task_is_reported_as_late() {
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    let end = CLAUDE_LATE.find("task-notification").expect("the end of what came late");
    let (before, after) =
        CLAUDE_LATE.split_at(end + CLAUDE_LATE[end..].find('\n').expect("the end of a line"));
    talk.play(before, &["one"], &[]);
    let late = talk.updates.iter().filter_map(|update| match update {
        AgentUpdate::Late { turn, end } => Some((*turn, end.answer.as_str())),
        _ => None,
    });
    let late: Vec<_> = late.collect();
    assert_eq!(late.len(), 1);
    assert!(late[0].0 == 1 && late[0].1.starts_with("TOOLDONE"), "{late:?}");
    talk.prompt(2, "two");
    talk.play(after, &[], &[]);
    assert_eq!(talk.end().answer, "ECHO: hello again");
}

#[test]
fn a_late_driver_finds_the_end_of_its_turn_in_the_whole_run_and_in_a_part_of_it() {
    let lines: Vec<_> = CLAUDE.lines().filter_map(|line| line.strip_prefix("<-- ")).collect();
    let mut live = AcpTestRun::new(&ConversationStart::New { id: None });
    live.play(CLAUDE, &["a", "b", "c", "d"], &[Some(QuestionOptionKind::AllowOnce)]);
    for (turn, end) in live.ends() {
        let of_before = format!("\"id\":\"turn-{}\"", turn - 1);
        let before = lines.iter().position(|line| line.contains(&of_before)).map_or(0, |at| at + 1);
        for lines in [&lines[..], &lines[before..]] {
            let mut late = AcpTestRun::new(&ConversationStart::New { id: None });
            late.prompt(turn, "x");
            lines.iter().for_each(|line| late.hear(line.as_bytes()));
            assert_eq!(late.ends(), [(turn, end)]);
            let told = late.updates.iter().filter(|update| {
                !matches!(
                    update,
                    AgentUpdate::Conversation { .. } | AgentUpdate::Ready | AgentUpdate::Ended { .. }
                )
            });
            assert_eq!(told.count(), 0, "what it did in other turns it did not do in this one");
            let prompts = late.sent.iter().filter(|sent| sent["method"] == "session/prompt").count();
            assert_eq!(prompts, 0, "it gives no prompt a second time");
        }
    }
}

#[test]
fn a_late_driver_does_not_take_history_for_an_answer() {
    let mut talk = AcpTestRun::new(&ConversationStart::Resume { id: SESSION.to_owned() });
    talk.prompt(9, "x");
    let mut introduction = introduction();
    introduction["result"]["agentCapabilities"]["sessionCapabilities"] = json!({});
    talk.hear_json(introduction);
    talk.play(CODEX_LOAD, &[], &[]);
    talk.says(None, "new");
    talk.hear_json(json!({"id": "turn-9", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.end().answer, "new");
    assert!(
        talk.sent.iter().all(|sent| sent["method"] != "session/prompt"),
        "it gives no prompt a second time"
    );
}
