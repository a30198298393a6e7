//! The driver against lines of real agents (recorded: claude-agent-acp 0.99.1, codex-acp 2.6.0), against what
//! they might say, and against nonsense.

use berth_core::Ask;
use proptest::prelude::*;

use super::*;
use crate::MAX_ANSWER_BYTES;

const CLAUDE: &str = include_str!("claude.jsonl");
const CLAUDE_LATE: &str = include_str!("claude-late.jsonl");
const CODEX: &str = include_str!("codex.jsonl");
const CODEX_ASKS: &str = include_str!("codex-asks.jsonl");
const CODEX_LOAD: &str = include_str!("codex-load.jsonl");

const SESSION: &str = "00000001-1111-4111-8111-111111111111";

/// A driver, what it wrote and what it told.
struct Talk {
    driver: Acp,
    sent: Vec<Value>,
    updates: Vec<Update>,
}

impl Talk {
    fn new(begin: &Begin) -> Self {
        let mut talk = Self { driver: Acp::new(), sent: Vec::new(), updates: Vec::new() };
        talk.with(|driver, out| driver.begin(begin, "/project", out));
        talk
    }

    /// With an agent that offers everything, and a conversation.
    fn ready() -> Self {
        let mut talk = Self::new(&Begin::New { id: None });
        talk.hear_json(introduction());
        talk.hear_json(json!({"id": "berth-open", "result": {"sessionId": SESSION}}));
        talk.updates.clear();
        talk.sent.clear();
        talk
    }

    fn with(&mut self, call: impl FnOnce(&mut Acp, &mut Out)) {
        let mut out = Out::default();
        call(&mut self.driver, &mut out);
        self.updates.extend(out.updates);
        for line in out.bytes.split_inclusive(|byte| *byte == b'\n') {
            assert_eq!(line.last(), Some(&b'\n'), "a line has an end");
            self.sent.push(serde_json::from_slice(line).expect("we write JSON"));
        }
    }

    fn hear(&mut self, line: &[u8]) {
        self.with(|driver, out| driver.hear(line, out));
    }

    fn hear_json(&mut self, message: Value) {
        self.hear(message.to_string().as_bytes());
    }

    fn update(&mut self, update: Value) {
        self.hear_json(
            json!({"method": "session/update", "params": {"sessionId": SESSION, "update": update}}),
        );
    }

    fn says(&mut self, message: Option<&str>, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}),
        );
    }

    fn prompt(&mut self, turn: u64, text: &str) {
        self.with(|driver, out| driver.prompt(turn, text, out));
    }

    fn asks(&mut self, id: Value) {
        let options = json!([
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let call = json!({"toolCallId": "c", "name": "Bash", "rawInput": {"command": "rm x"}});
        let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
        self.hear_json(json!({"id": id, "method": "session/request_permission", "params": params}));
    }

    /// Hears the agent's side of a recording, and does what a keeper would: gives the next prompt when
    /// there is room, answers what is asked. `None` for an answer is an interrupt.
    fn play(&mut self, recording: &str, prompts: &[&str], mut answers: &[Option<AskKind>]) {
        let mut prompts = (1..).zip(prompts);
        let mut running = 0;
        let mut seen = self.updates.len();
        for line in recording.lines().filter_map(|line| line.strip_prefix("<-- ")) {
            self.hear(line.as_bytes());
            while seen < self.updates.len() {
                let update = self.updates[seen].clone();
                seen += 1;
                let is_free = match &update {
                    Update::Ready => true,
                    Update::Ended { turn, .. } => *turn == running,
                    Update::Asks { ask } => {
                        let (answer, rest) = answers.split_first().expect("an answer");
                        answers = rest;
                        match answer {
                            Some(kind) => self.choose(ask, *kind),
                            None => self.with(|driver, out| driver.interrupt(running, out)),
                        }
                        false
                    }
                    _ => false,
                };
                if is_free && let Some((turn, prompt)) = prompts.next() {
                    running = turn;
                    self.prompt(turn, prompt);
                }
            }
        }
    }

    fn choose(&mut self, ask: &Ask, kind: AskKind) {
        let option = ask.options.iter().find(|option| option.kind == kind).expect("an option");
        self.with(|driver, out| driver.answer(&ask.request, &option.id, out));
    }

    fn said(&self) -> String {
        let said = self.updates.iter().filter_map(|update| match update {
            Update::Said { text } => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }

    fn ends(&self) -> Vec<(u64, &TurnEnd)> {
        let ends = self.updates.iter().filter_map(|update| match update {
            Update::Ended { turn, end } => Some((*turn, end)),
            _ => None,
        });
        ends.collect()
    }

    fn end(&self) -> &TurnEnd {
        self.ends().last().expect("an end").1
    }

    fn remarks(&self) -> Vec<&str> {
        let remarks = self.updates.iter().filter_map(|update| match update {
            Update::Remark { what } => Some(what.as_str()),
            _ => None,
        });
        remarks.collect()
    }
}

fn introduction() -> Value {
    let session = json!({"resume": {}, "fork": {}, "close": {}});
    let able = json!({"loadSession": true, "sessionCapabilities": session});
    let meta = json!({"steering": {"supported": true}});
    json!({"id": "berth-init", "result": {"protocolVersion": 1, "agentCapabilities": able, "_meta": meta}})
}

fn sent_in(recording: &str) -> Vec<Value> {
    let sent = recording.lines().filter_map(|line| line.strip_prefix("--> "));
    sent.map(|line| serde_json::from_str(line).expect("a recording is JSON")).collect()
}

#[test]
fn claude_is_talked_to_as_recorded() {
    let mut talk = Talk::new(&Begin::New { id: None });
    let prompts = ["hello", "TOOL touch x.txt; echo one", "THINK two", "ERROR 401"];
    talk.play(CLAUDE, &prompts, &[Some(AskKind::AllowOnce)]);
    talk.with(|driver, out| driver.goodbye(out));
    assert_eq!(talk.sent, sent_in(CLAUDE));
    let ends: Vec<_> =
        talk.ends().iter().map(|(turn, end)| (*turn, end.state, end.answer.as_str())).collect();
    let expected = [
        (1, Final::Done, "ECHO: hello"),
        (2, Final::Done, "TOOLDONE one"),
        (3, Final::Done, "ECHO: THINK two"),
        (4, Final::Failed, "Failed to authenticate. API Error: 401 the prompt asked for status 401"),
    ];
    assert_eq!(ends, expected);
    assert_eq!(talk.end().reason.as_deref(), Some("not logged in or wrong key: Authentication required"));
    assert!(talk.updates.contains(&Update::Conversation { id: SESSION.to_owned() }));
    let ask = talk.updates.iter().find_map(|update| match update {
        Update::Asks { ask } => Some((ask.tool.as_str(), ask.detail.as_str())),
        _ => None,
    });
    assert_eq!(ask, Some(("Bash", "touch x.txt; echo one")));
    let proves = Proves { accepted: false, ended: true, resume: true, steer: true };
    assert_eq!(talk.driver.proves(), proves);
}

#[test]
fn codex_is_talked_to_as_recorded_and_its_errors_are_no_answers() {
    let mut talk = Talk::new(&Begin::New { id: None });
    talk.play(CODEX, &["hello", "TOOL echo one", "ERROR 529"], &[]);
    talk.with(|driver, out| driver.goodbye(out));
    assert_eq!(talk.sent, sent_in(CODEX));
    let ends = talk.ends();
    assert_eq!(
        ends.iter().map(|(_, end)| end.state).collect::<Vec<_>>(),
        [Final::Done, Final::Done, Final::Failed]
    );
    // It said `end_turn` to the last, and a warning with every turn.
    assert_eq!(ends[0].1.answer, "ECHO: hello");
    assert!(ends[2].1.reason.as_deref().is_some_and(|why| why.starts_with("unexpected status 529")));
    assert_eq!(talk.remarks().len(), 1, "{:?}", talk.remarks());
    assert!(ends[0].1.input_tokens > Some(1000) && ends[0].1.output_tokens == Some(3));
}

#[test]
fn a_prompt_has_begun_when_the_agent_does_something_for_it() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    // These come whenever they like, and did so behind a prompt.
    talk.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
    talk.update(json!({"sessionUpdate": "session_info_update", "title": "x"}));
    talk.update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}));
    assert_eq!(talk.updates, []);
    talk.update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}));
    assert_eq!(talk.updates[0], Update::Began { turn: 1 });
}

#[test]
fn a_refused_permission_and_an_interrupt_are_told_apart() {
    let mut talk = Talk::new(&Begin::New { id: None });
    let answers = [Some(AskKind::AllowOnce), Some(AskKind::RejectOnce), None];
    talk.play(CODEX_ASKS, &["one", "two", "three"], &answers);
    let ends: Vec<_> = talk.ends().iter().map(|(_, end)| (end.state, end.reason.as_deref())).collect();
    let refused = "the agent broke it off after it was refused a permission";
    let expected =
        [(Final::Done, None), (Final::Interrupted, Some(refused)), (Final::Interrupted, Some("broken off"))];
    assert_eq!(ends, expected);
    let outcome =
        |at: usize| &talk.sent.iter().filter(|sent| sent.get("result").is_some()).nth(at).unwrap()["result"];
    assert_eq!(outcome(0), &json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}}));
    assert_eq!(outcome(1), &json!({"outcome": {"outcome": "selected", "optionId": "cancel"}}));
    assert_eq!(outcome(2), &json!({"outcome": {"outcome": "cancelled"}}));
    // The cancel goes first: an agent that reads the answer first would go on.
    let at = |is: &dyn Fn(&Value) -> bool| talk.sent.iter().position(is);
    assert!(at(&|sent| sent["method"] == "session/cancel") < at(&|sent| sent["id"] == 2));
    assert!(talk.updates.contains(&Update::Unasked { request: "2".to_owned() }));
}

#[test]
fn what_a_background_task_says_comes_late() {
    let mut talk = Talk::new(&Begin::New { id: None });
    let end = CLAUDE_LATE.find("task-notification").expect("the end of what came late");
    let (before, after) =
        CLAUDE_LATE.split_at(end + CLAUDE_LATE[end..].find('\n').expect("the end of a line"));
    talk.play(before, &["one"], &[]);
    let late = talk.updates.iter().filter_map(|update| match update {
        Update::Late { turn, end } => Some((*turn, end.answer.as_str())),
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
fn history_is_not_said_again() {
    let mut talk = Talk::new(&Begin::Resume { id: SESSION.to_owned() });
    let mut introduction = introduction();
    introduction["result"]["agentCapabilities"]["sessionCapabilities"] = json!({});
    talk.hear_json(introduction);
    assert_eq!(talk.sent.last().unwrap()["method"], "session/load");
    talk.play(CODEX_LOAD, &["x"], &[]);
    assert_eq!(talk.updates, [Update::Conversation { id: SESSION.to_owned() }, Update::Ready]);
    talk.says(None, "new");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.said(), "new");
    assert_eq!(talk.end().answer, "new");
}

#[test]
fn a_conversation_is_taken_up_in_the_best_way_there_is() {
    let resume = Begin::Resume { id: "a".to_owned() };
    let fork = Begin::Fork { of: "a".to_owned(), id: None };
    let load = json!({"loadSession": true});
    let all = json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "fork": {}}});
    let none = json!({"sessionCapabilities": {"resume": null}});
    let cases = [
        (Begin::New { id: None }, &none, Some("session/new")),
        (resume.clone(), &all, Some("session/resume")),
        (resume.clone(), &load, Some("session/load")),
        (resume, &none, None),
        (fork.clone(), &all, Some("session/fork")),
        (fork, &load, None),
    ];
    for (begin, able, method) in cases {
        let mut talk = Talk::new(&begin);
        assert_eq!(talk.sent[0]["params"]["clientCapabilities"]["fs"]["readTextFile"], false);
        talk.hear_json(
            json!({"id": "berth-init", "result": {"protocolVersion": 1, "agentCapabilities": able}}),
        );
        match method {
            Some(method) => {
                assert_eq!(talk.sent[1]["method"], method, "{begin:?}");
                assert_eq!(talk.sent[1]["params"]["cwd"], "/project");
                assert_eq!(talk.updates, []);
            }
            None => {
                let [Update::Broken { trouble: Trouble::Protocol { .. } }] = &talk.updates[..] else {
                    panic!("{begin:?}: {:?}", talk.updates);
                };
            }
        }
    }
}

#[test]
fn why_a_conversation_cannot_be_had_is_told_apart() {
    let gone = || Trouble::NoConversation { id: "a".to_owned() };
    let in_use = "Invalid request: This Codex session is in use by another Codex client: thread a already has an active writer";
    let cases = [
        (json!({"code": -32002, "message": "Resource not found", "data": {"sessionId": "a"}}), gone()),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "Session a not found"}}),
            gone(),
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "no rollout found for thread id a"}}),
            gone(),
        ),
        (
            json!({"code": -32600, "message": "Invalid request: This Codex session is in use by another Codex client",
                   "data": {"reason": "thread_active_writer", "details": "thread a already has an active writer"}}),
            Trouble::InUse { said: in_use.to_owned() },
        ),
        (
            json!({"code": -32000, "message": "Authentication required"}),
            Trouble::NotLoggedIn { said: "Authentication required (it offers: API Key)".to_owned() },
        ),
        (json!({"code": -32603, "message": "no disk"}), Trouble::Protocol { said: "no disk".to_owned() }),
        (json!({"code": -1}), Trouble::Protocol { said: "error -1".to_owned() }),
        (json!("nonsense"), Trouble::Protocol { said: "error 0".to_owned() }),
    ];
    for (error, trouble) in cases {
        let mut talk = Talk::new(&Begin::Resume { id: "a".to_owned() });
        let mut introduction = introduction();
        introduction["result"]["authMethods"] = json!([{"id": "key", "name": "API Key"}]);
        talk.hear_json(introduction);
        talk.hear_json(json!({"id": "berth-open", "error": error}));
        assert_eq!(talk.updates, [Update::Broken { trouble }], "{error}");
        talk.hear_json(json!({"id": "berth-open", "result": {"sessionId": "a"}}));
        assert_eq!(talk.updates.len(), 1, "broken is broken");
    }
    // Nor does it begin another one because of that, unless somebody wants it to.
    let mut talk = Talk::new(&Begin::Resume { id: "a".to_owned() });
    assert!(!talk.driver.begin_anew("/", &mut Out::default()), "nothing is gone yet");
    talk.hear_json(introduction());
    talk.hear_json(json!({"id": "berth-open", "error": {"code": -32002, "message": "Resource not found"}}));
    let mut out = Out::default();
    assert!(talk.driver.begin_anew("/", &mut out));
    assert!(String::from_utf8_lossy(&out.bytes).contains("session/new"), "{out:?}");
    talk.hear_json(json!({"id": "berth-anew", "result": {"sessionId": "b"}}));
    assert_eq!(talk.updates[1..], [Update::Conversation { id: "b".to_owned() }, Update::Ready]);
    // Where there is nothing to take up, nothing can be gone.
    let mut talk = Talk::new(&Begin::New { id: None });
    talk.hear_json(introduction());
    talk.hear_json(json!({"id": "berth-open", "error": {"code": -32002, "message": "cwd not found"}}));
    let trouble = Trouble::Protocol { said: "cwd not found".to_owned() };
    assert_eq!(talk.updates, [Update::Broken { trouble }]);
}

#[test]
fn an_agent_of_another_version_or_without_a_session_is_of_no_use() {
    for answers in [
        vec![json!({"id": "berth-init", "result": {"protocolVersion": 2}})],
        vec![json!({"id": "berth-init", "error": {"code": -32601, "message": "what?"}})],
        vec![introduction(), json!({"id": "berth-open", "result": {"sessionId": 7}})],
    ] {
        let mut talk = Talk::new(&Begin::New { id: None });
        answers.into_iter().for_each(|answer| talk.hear_json(answer));
        let [Update::Broken { trouble: Trouble::Protocol { said } }] = &talk.updates[..] else {
            panic!("{:?}", talk.updates);
        };
        assert!(!said.is_empty());
    }
}

#[test]
fn every_stop_reason_has_its_end_and_one_of_next_year_fails_no_turn() {
    let cases = [
        ("end_turn", Final::Done, 0),
        ("max_tokens", Final::Failed, 0),
        ("max_turn_requests", Final::Failed, 0),
        ("refusal", Final::Failed, 0),
        ("cancelled", Final::Interrupted, 0),
        ("enlightenment", Final::Done, 1),
    ];
    for (stop, state, remarks) in cases {
        let mut talk = Talk::ready();
        talk.prompt(7, "x");
        talk.says(Some("m"), "answer");
        talk.hear_json(json!({"id": "turn-7", "result": {"stopReason": stop}}));
        assert_eq!((talk.ends()[0].0, talk.end().state), (7, state), "{stop}");
        assert_eq!(talk.end().answer, "answer");
        assert_eq!(talk.end().reason.is_some(), state != Final::Done, "{stop}");
        assert_eq!(talk.remarks().len(), remarks, "{stop}");
    }
    let mut talk = Talk::ready();
    talk.prompt(7, "x");
    talk.with(|driver, out| driver.interrupt(7, out));
    talk.hear_json(json!({"id": "turn-7", "error": {"code": -32800, "message": "Request cancelled"}}));
    assert_eq!(talk.end().state, Final::Interrupted);
}

#[test]
fn messages_are_kept_apart_and_what_is_said_is_the_answer() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.says(Some("a"), "one, ");
    talk.says(Some("a"), "two");
    talk.says(Some("b"), "three\n");
    talk.says(Some("c"), "four");
    talk.says(None, "five ");
    talk.says(None, "six");
    talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}));
    talk.says(None, "seven");
    talk.hear_json(json!({"method": "session/update", "params": {"sessionId": "another", "update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "of a subagent"}}}}));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.end().answer, "one, two\n\nthree\n\nfour\n\nfive six\n\nseven");
    assert_eq!(talk.said(), talk.end().answer);
}

#[test]
fn an_agent_that_ends_a_turn_twice_spoils_no_other() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    talk.prompt(2, "x");
    talk.says(None, "two");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "refusal"}}));
    talk.hear_json(json!({"id": "turn-2", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.ends().len(), 2);
    assert_eq!(talk.end().answer, "two");
}

#[test]
fn a_reset_that_claude_keeps_to_itself_is_remarked() {
    let mut talk = Talk::new(&Begin::New { id: None });
    talk.play(CLAUDE, &["/clear"], &[None]);
    assert_eq!(talk.remarks().len(), 1);
    assert!(talk.remarks()[0].contains("/clear"));
    let mut talk = Talk::ready();
    talk.prompt(1, "/clear");
    assert_eq!(talk.remarks().len(), 0);
}

#[test]
fn a_long_answer_is_cut_at_a_character_and_says_so() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.says(Some("a"), "x");
    let piece = "é".repeat(MAX_ANSWER_BYTES / 4);
    (0..3).for_each(|_| talk.says(Some("a"), &piece));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert!(talk.end().cut);
    assert_eq!(talk.end().answer.len(), MAX_ANSWER_BYTES - 1);
    assert_eq!(talk.said().len(), 1 + 3 * piece.len(), "all of it was said");
}

#[test]
fn a_question_is_withdrawn_by_the_agent_or_by_the_end_of_its_turn() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.asks(json!(0));
    talk.asks(json!("s"));
    talk.asks(json!(0));
    assert_eq!(talk.sent.last().unwrap()["error"]["code"], -32600, "an id is taken once");
    talk.hear_json(json!({"method": "$/cancel_request", "params": {"requestId": 0}}));
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    assert_eq!(
        (&talk.sent.last().unwrap()["id"], &talk.sent.last().unwrap()["result"]),
        (&json!(0), &cancelled)
    );
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    let unasked: Vec<_> =
        talk.updates.iter().filter(|update| matches!(update, Update::Unasked { .. })).collect();
    let named = |request: &str| Update::Unasked { request: request.to_owned() };
    assert_eq!(unasked, [&named("0"), &named("s")]);
    // An answer to what is gone goes nowhere.
    let sent = talk.sent.len();
    talk.with(|driver, out| driver.answer("0", "yes", out));
    assert_eq!(talk.sent.len(), sent);
}

#[test]
fn an_answer_that_is_no_option_leaves_the_question_open() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.asks(json!(0));
    let sent = talk.sent.len();
    talk.with(|driver, out| driver.answer("0", "maybe", out));
    assert_eq!(talk.sent.len(), sent);
    talk.with(|driver, out| driver.answer("0", "yes", out));
    assert_eq!(talk.sent.last().unwrap()["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn whoever_asks_during_an_interrupt_or_without_options_or_too_often_is_not_passed_on() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    (0..MOST_ASKS as u64 + 1).for_each(|id| talk.asks(json!(id)));
    let asks =
        |talk: &Talk| talk.updates.iter().filter(|update| matches!(update, Update::Asks { .. })).count();
    assert_eq!(asks(&talk), MOST_ASKS);
    talk.with(|driver, out| driver.interrupt(1, out));
    let answered =
        talk.sent.iter().filter(|sent| sent["result"]["outcome"]["outcome"] == "cancelled").count();
    assert_eq!(answered, MOST_ASKS + 1, "every request is answered");
    talk.asks(json!(1000));
    talk.hear_json(json!({"id": 1001, "method": "session/request_permission", "params": {}}));
    assert_eq!(asks(&talk), MOST_ASKS);
    assert_eq!(talk.sent.last().unwrap()["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn what_we_do_not_offer_is_refused_and_remarks_have_an_end() {
    let mut talk = Talk::ready();
    for n in 0..100 {
        talk.hear_json(json!({"id": n, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}));
        assert_eq!(talk.sent.last().unwrap()["error"]["code"], -32601);
        talk.hear(b"this is { not JSON");
    }
    assert_eq!(talk.sent.len(), 100);
    assert_eq!(talk.remarks().len(), MOST_REMARKS as usize + 1);
}

#[test]
fn text_for_a_running_turn_is_taken_or_given_back() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    (2..=4).for_each(|by| talk.with(|driver, out| driver.steer(by, "left", out)));
    assert_eq!(talk.sent[1]["method"], "_session/steering");
    assert_eq!(talk.sent[1]["params"]["_meta"]["steering"]["idleBehavior"], "promptRequired");
    talk.hear_json(json!({"id": "steer-2", "result": {"outcome": "injected"}}));
    assert_eq!(talk.updates, [Update::Began { turn: 2 }]);
    talk.hear_json(json!({"id": "steer-3", "error": {"code": -32600, "message": "no images"}}));
    assert_eq!((talk.ends()[0].0, talk.end().state), (3, Final::Failed));
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    let states: Vec<_> = talk.ends().iter().map(|(turn, end)| (*turn, end.state)).collect();
    assert_eq!(states, [(3, Final::Failed), (4, Final::Unknown), (1, Final::Done)]);
    talk.hear_json(json!({"id": "steer-4", "result": {"outcome": "promptRequired"}}));
    assert_eq!((talk.ends()[3].0, talk.end().state), (4, Final::Failed));
    talk.with(|driver, out| driver.steer(5, "right", out));
    assert_eq!((talk.ends()[4].0, talk.end().state), (5, Final::Failed), "no turn is running");
}

#[test]
fn a_conversation_that_moves_is_followed() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.update(json!({"sessionUpdate": "session_info_update", "_meta": {"berth": {"sessionId": "new"}}}));
    assert_eq!(talk.updates, [Update::Conversation { id: "new".to_owned() }]);
}

#[test]
fn what_is_asked_for_is_shown_in_full() {
    let detail = |call: Value| {
        let ask = Calls::default().ask("r".to_owned(), &json!({"toolCall": call}));
        (ask.tool, ask.detail)
    };
    let words = |tool: &str, detail: &str| (tool.to_owned(), detail.to_owned());
    let command = "one\ntwo && three";
    assert_eq!(
        detail(json!({"name": "Bash", "title": "Run", "rawInput": {"command": command}})),
        words("Bash", command)
    );
    assert_eq!(
        detail(json!({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}})),
        words("execute", "ls -l")
    );
    let diff =
        json!({"type": "diff", "path": "/a/b", "oldText": "1\n2\n3\n4\n", "newText": "1\ntwo\n3\n4\n"});
    let new = json!({"type": "diff", "path": "/c", "oldText": null, "newText": "x\n"});
    let edit = json!({"name": "Edit", "content": [diff, new], "rawInput": {"file_path": "/a/b"}});
    assert_eq!(detail(edit), words("Edit", "/a/b\n-2\n+two\n/c\n+x"));
    assert_eq!(
        detail(json!({"title": "Fetch", "rawInput": {"url": "http://x"}})),
        words("Fetch", "{\n  \"url\": \"http://x\"\n}")
    );
    assert_eq!(detail(json!({"title": "Think hard"})), words("Think hard", "Think hard"));
    assert_eq!(detail(json!(7)), words("tool", ""));
    let long = detail(json!({"name": "Bash", "rawInput": {"command": "é".repeat(tool::MAX_DETAIL_BYTES)}})).1;
    assert!(long.len() <= tool::MAX_DETAIL_BYTES && long.ends_with("(the rest is in the output)"));
}

#[test]
fn a_question_is_completed_with_what_was_told_of_its_call() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "name": "Bash", "title": "Terminal", "rawInput": {}}));
    talk.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": {"command": "make"}}),
    );
    let params = json!({"toolCall": {"toolCallId": "t"}, "options": [{"optionId": "y", "kind": "new_kind"}]});
    talk.hear_json(json!({"id": 5, "method": "session/request_permission", "params": params}));
    let Some(Update::Asks { ask }) = talk.updates.last() else { panic!("{:?}", talk.updates) };
    assert_eq!((ask.request.as_str(), ask.tool.as_str(), ask.detail.as_str()), ("5", "Bash", "make"));
    let option = AskOption { id: "y".to_owned(), name: "y".to_owned(), kind: AskKind::Other };
    assert_eq!(ask.options, [option]);
}

/// Every line that a real agent wrote.
fn real_lines() -> Vec<&'static str> {
    let all = [CLAUDE, CLAUDE_LATE, CODEX, CODEX_ASKS, CODEX_LOAD];
    all.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("<-- ")).collect()
}

#[test]
fn who_listens_late_finds_the_end_of_its_turn_in_the_whole_run_and_in_a_part_of_it() {
    let lines: Vec<_> = CLAUDE.lines().filter_map(|line| line.strip_prefix("<-- ")).collect();
    let mut live = Talk::new(&Begin::New { id: None });
    live.play(CLAUDE, &["a", "b", "c", "d"], &[Some(AskKind::AllowOnce)]);
    for (turn, end) in live.ends() {
        let of_before = format!("\"id\":\"turn-{}\"", turn - 1);
        let before = lines.iter().position(|line| line.contains(&of_before)).map_or(0, |at| at + 1);
        for lines in [&lines[..], &lines[before..]] {
            let mut late = Talk::new(&Begin::New { id: None });
            late.prompt(turn, "x");
            lines.iter().for_each(|line| late.hear(line.as_bytes()));
            assert_eq!(late.ends(), [(turn, end)]);
            let told = late.updates.iter().filter(|update| {
                !matches!(update, Update::Conversation { .. } | Update::Ready | Update::Ended { .. })
            });
            assert_eq!(told.count(), 0, "what it did in other turns it did not do in this one");
            let prompts = late.sent.iter().filter(|sent| sent["method"] == "session/prompt").count();
            assert_eq!(prompts, 0, "it gives no prompt a second time");
        }
    }
}

#[test]
fn who_listens_late_takes_no_history_for_an_answer() {
    let mut talk = Talk::new(&Begin::Resume { id: SESSION.to_owned() });
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

/// What may be done to a driver.
#[derive(Clone, Debug)]
enum Act {
    Hear(Vec<u8>),
    Prompt(u64),
    Steer(u64),
    Interrupt(u64),
    Answer(usize),
    Goodbye,
}

/// A line of a real agent with something in it changed, at the level of bytes or of JSON.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop_oneof![
        Just(Value::Null),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!([])),
        Just(json!({})),
        Just(json!("x".repeat(5000))),
        Just(json!("turn-1")),
        Just(json!({"text": "y", "outcome": 3})),
    ];
    let line = proptest::sample::select(real_lines());
    (line, any::<u16>(), any::<u8>(), proptest::option::of(odd)).prop_map(|(line, at, byte, odd)| match odd {
        Some(odd) => {
            let mut message: Value = serde_json::from_str(line).expect("a recording is JSON");
            let mut at = usize::from(at);
            let spot = nth(&mut message, &mut at);
            if let Some(spot) = spot {
                *spot = odd;
            }
            message.to_string().into_bytes()
        }
        None => {
            let mut line = line.as_bytes().to_vec();
            let at = usize::from(at) % (line.len() + 1);
            if byte < 128 {
                line.truncate(at)
            } else {
                line.insert(at, byte)
            }
            line
        }
    })
}

/// The n-th value in a value, counting from the outside.
fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if n.is_multiple_of(64) {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, n)),
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn act() -> impl Strategy<Value = Act> {
    let real = proptest::sample::select(real_lines()).prop_map(|line| line.as_bytes().to_vec());
    prop_oneof![
        6 => real.prop_map(Act::Hear),
        4 => mutated().prop_map(Act::Hear),
        1 => proptest::collection::vec(any::<u8>(), 0..200).prop_map(Act::Hear),
        2 => (1..4_u64).prop_map(Act::Prompt),
        1 => (1..4_u64).prop_map(Act::Steer),
        1 => (1..4_u64).prop_map(Act::Interrupt),
        1 => any::<usize>().prop_map(Act::Answer),
        1 => Just(Act::Goodbye),
    ]
}

fn perform(acts: &[Act], begin: &Begin) -> (Vec<Value>, Vec<Update>, Acp) {
    let mut talk = Talk::new(begin);
    for act in acts {
        talk.with(|driver, out| match act {
            Act::Hear(line) => driver.hear(line, out),
            Act::Prompt(turn) => driver.prompt(*turn, "text", out),
            Act::Steer(by) => driver.steer(*by, "text", out),
            Act::Interrupt(turn) => driver.interrupt(*turn, out),
            Act::Answer(at) => {
                let asked = driver.asked.get(at % driver.asked.len().max(1));
                if let Some((request, choice)) =
                    asked.map(|it| (it.request.clone(), it.options[0].id.clone()))
                {
                    driver.answer(&request, &choice, out);
                }
            }
            Act::Goodbye => driver.goodbye(out),
        });
    }
    (talk.sent, talk.updates, talk.driver)
}

fn begin() -> impl Strategy<Value = Begin> {
    let id = SESSION.to_owned();
    proptest::sample::select(vec![
        Begin::New { id: None },
        Begin::Resume { id: id.clone() },
        Begin::Fork { of: id, id: None },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_same_comes_out_and_nothing_is_claimed_twice(
        acts in proptest::collection::vec(act(), 0..60),
        begin in begin(),
    ) {
        let (sent, updates, _) = perform(&acts, &begin);
        let (sent_again, updates_again, _) = perform(&acts, &begin);
        prop_assert_eq!(&sent, &sent_again);
        prop_assert_eq!(&updates, &updates_again);
        let prompts = acts.iter().filter(|act| matches!(act, Act::Prompt(_))).count();
        let steers = acts.iter().filter(|act| matches!(act, Act::Steer(_))).count();
        let ends = updates.iter().filter(|update| matches!(update, Update::Ended { .. })).count();
        prop_assert!(ends <= prompts + 2 * steers, "{} ends of {} prompts", ends, prompts);
        let opened = updates.iter().filter(|update| matches!(update, Update::Ready | Update::Broken { .. })).count();
        prop_assert!(opened <= 1);
        // What was asked was either withdrawn, or answered, or waits; and nothing is withdrawn that was not asked.
        let mut open = Vec::new();
        for update in &updates {
            match update {
                Update::Asks { ask } => open.push(&ask.request),
                Update::Unasked { request } => {
                    let at = open.iter().position(|it| *it == request);
                    prop_assert!(at.is_some(), "{} was never asked", request);
                    open.remove(at.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn any_bytes_are_heard(line in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut talk = Talk::ready();
        talk.prompt(1, "x");
        talk.hear(&line);
    }
}

#[test]
fn an_agent_that_floods_takes_no_more_than_it_may() {
    let mut talk = Talk::ready();
    talk.prompt(1, "x");
    let large = "z".repeat(70 << 10);
    for n in 0..80_u64 {
        let odd = if n < 3 { format!("{n}{large}") } else { format!("{n}{}", &large[..1000]) };
        let input = json!({"command": large});
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": n.to_string(), "title": large, "rawInput": input});
        talk.update(call);
        talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": odd, "title": odd}));
        talk.says(Some(&odd), &large);
        talk.update(json!({"sessionUpdate": "notice", "severity": "error", "title": odd}));
        talk.asks(json!(odd));
        let option = json!({"optionId": n.to_string(), "name": odd, "kind": "odd"});
        let params = json!({"toolCall": {"toolCallId": odd, "title": odd}, "options": vec![option; 40]});
        talk.hear_json(json!({"id": n, "method": "session/request_permission", "params": params}));
        talk.hear(odd.as_bytes());
        talk.hear_json(json!({"id": n, "method": odd}));
        talk.with(|driver, out| driver.steer(n + 2, "x", out));
        talk.updates.clear();
        talk.sent.clear();
    }
    let held = format!("{:?}", talk.driver).len();
    assert!(held < 5 << 20, "{held} bytes are held");
}
