//! Codex itself, driven over its app-server against the fake model: properties that the `codex` driver relies on.
//!
//! Promise: each fact of `docs/agents.md` that berth builds on has a test here that fails when it stops being true.
//! Not here: berth. Needs `testing/agents/install`.

use berth_harness::model::{AnswerState, one_line};
use berth_harness::{JsonLineProcess, RealAgents, wait_until};
use serde_json::{Value, json};

use crate::tool::{is_alive, long_tool, tool_pid};

/// An app-server that has been greeted.
struct AppServerClient {
    talk: JsonLineProcess,
    calls: u32,
}

impl AppServerClient {
    fn start(agents: &RealAgents) -> Self {
        let talk = JsonLineProcess::start(&mut agents.command("codex", ["app-server"]));
        let mut server = Self { talk, calls: 0 };
        let client = json!({"clientInfo": {"name": "berth", "title": "berth", "version": "0.1.0"}});
        let answer = server.call("initialize", &client);
        assert!(answer["result"]["userAgent"].is_string(), "{answer}");
        server.talk.say(&json!({"method": "initialized"}));
        server
    }

    /// Asks, with a text as the id, and waits for the answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let id = format!("b-{}", self.calls);
        self.talk.say(&json!({"id": id, "method": method, "params": params}));
        self.talk.wait("an answer", |line| line["id"] == id && line["method"].is_null())
    }

    fn thread(&mut self, agents: &RealAgents, policy: &str) -> String {
        let params = json!({"cwd": agents.work(), "approvalPolicy": policy, "sandbox": "danger-full-access"});
        let answer = self.call("thread/start", &params);
        answer["result"]["thread"]["id"].as_str().unwrap_or_else(|| panic!("no thread: {answer}")).to_owned()
    }

    /// Begins a turn; its id.
    fn begin(&mut self, thread: &str, text: &str) -> String {
        let input = json!([{"type": "text", "text": text}]);
        let answer = self
            .call("turn/start", &json!({"threadId": thread, "input": input, "clientUserMessageId": text}));
        answer["result"]["turn"]["id"].as_str().unwrap_or_else(|| panic!("no turn: {answer}")).to_owned()
    }

    fn completed(&mut self) -> Value {
        let line = self.talk.wait("the end of a turn", |line| line["method"] == "turn/completed");
        line["params"]["turn"].clone()
    }

    fn turn(&mut self, thread: &str, text: &str) -> Value {
        let begun = self.begin(thread, text);
        let ended = self.completed();
        assert_eq!(ended["id"], begun);
        ended
    }

    fn resume(&mut self, thread: &str) -> Value {
        self.call("thread/resume", &json!({"threadId": thread, "excludeTurns": true}))
    }
}

fn answer_of(turn: &Value) -> &str {
    turn["items"].as_array().and_then(|items| items.last()?["text"].as_str()).unwrap_or_default()
}

fn complaint(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    (error["code"].as_i64().unwrap_or_default(), error["message"].as_str().unwrap_or_default())
}

#[test]
fn turns_and_a_tool_make_one_line() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    assert!(agents.transcripts().is_empty(), "no rollout before the first turn");
    for (prompt, answer) in [
        ("first", "ECHO: first"),
        ("TOOL echo hi there", "TOOLDONE hi there"),
        ("THINK third", "ECHO: THINK third"),
    ] {
        let turn = server.turn(&thread, prompt);
        assert_eq!((&turn["status"], answer_of(&turn)), (&json!("completed"), answer));
        let is_ours =
            |line: &Value| line["method"] == "item/completed" && line["params"]["item"]["clientId"] == prompt;
        assert!(server.talk.heard.iter().any(is_ours), "our own id comes back");
    }
    assert_eq!(server.talk.end().0, 0);
    let transcripts = agents.transcripts();
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].id, thread);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    assert_eq!(transcripts[0].prompts(), ["first", "TOOL echo hi there", "THINK third"]);
    assert_eq!(agents.model().prompts(), transcripts[0].prompts());
    assert_eq!(one_line(&agents.model().turns()), Ok(()));
}

#[test]
fn an_approval_is_asked_and_each_answer_counts() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "untrusted");
    for (decision, status, answer) in [
        ("accept", "completed", "TOOLDONE ran"),
        ("decline", "completed", "rejected by user"),
        ("cancel", "interrupted", ""),
    ] {
        server.begin(&thread, &format!("TOOL touch {decision}; echo ran"));
        let asked =
            server.talk.wait("the question", |line| !line["id"].is_null() && line["method"].is_string());
        assert_eq!(asked["method"], "item/commandExecution/requestApproval");
        server.talk.say(&json!({"id": asked["id"], "result": {"decision": decision}}));
        let turn = server.completed();
        assert_eq!(turn["status"], status);
        assert!(answer_of(&turn).contains(answer), "{turn}");
        assert_eq!(agents.work().join(decision).exists(), decision == "accept");
    }
    assert_eq!(server.talk.end().0, 0);
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn an_interrupt_ends_the_turn_and_leaves_the_command_until_the_end() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    let turn = server.begin(&thread, "HOLD one");
    agents.model().arrived("one");
    server
        .talk
        .say(&json!({"id": "i", "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}}));
    assert_eq!(server.completed()["status"], "interrupted");
    agents.model().wait("that it hung up", |asked| asked[0].answer == AnswerState::Cut);
    assert_eq!(server.turn(&thread, "next")["status"], "completed");

    let turn = server.begin(&thread, &long_tool(&agents));
    let tool = tool_pid(&agents);
    // Known to the server, and not only to its shell.
    server.talk.wait("the command's start", |line| {
        line["method"] == "item/started" && line["params"]["item"]["type"] == "commandExecution"
    });
    server
        .talk
        .say(&json!({"id": "j", "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}}));
    assert_eq!(server.completed()["status"], "interrupted");
    assert_eq!(server.turn(&thread, "meanwhile")["status"], "completed");
    assert!(is_alive(tool), "if this fails Codex has become better than we know");
    assert_eq!(server.talk.end().0, 0);
    wait_until("the command's end", || !is_alive(tool));
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn a_turn_started_in_a_turn_is_a_steer_and_ends_with_it() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    let first = server.begin(&thread, "HOLD a");
    agents.model().arrived("a");
    let second = server.begin(&thread, "in disguise");
    assert_eq!(first, second);
    let ended = server.completed();
    assert_eq!((&ended["id"], answer_of(&ended)), (&json!(first), "ECHO: in disguise"));

    let turn = server.begin(&thread, "HOLD b");
    agents.model().arrived("b");
    let steer = |expected: &str| json!({"threadId": thread, "expectedTurnId": expected, "input": [{"type": "text", "text": "steered"}]});
    let (code, message) = (-32600, "expected active turn id");
    let wrong = server.call("turn/steer", &steer("wrong"));
    assert!(complaint(&wrong).0 == code && complaint(&wrong).1.contains(message), "{wrong}");
    assert_eq!(server.call("turn/steer", &steer(&turn))["result"]["turnId"], turn);
    assert_eq!(answer_of(&server.completed()), "ECHO: steered");
    assert_eq!(complaint(&server.call("turn/steer", &steer(&turn))).1, "no active turn to steer");
    let ends = server.talk.heard.iter().filter(|line| line["method"] == "turn/completed").count();
    assert_eq!(ends, 2, "four prompts, two ends");
    assert_eq!(server.talk.end().0, 0);
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let agents = RealAgents::alone();
    let mut first = AppServerClient::start(&agents);
    let thread = first.thread(&agents, "never");
    first.turn(&thread, "first");
    let mut second = AppServerClient::start(&agents);
    let refused = second.resume(&thread);
    assert_eq!(
        complaint(&refused),
        (-32600, format!("thread {thread} already has an active writer").as_str())
    );
    assert!(second.call("thread/read", &json!({"threadId": thread}))["result"].is_object());
    assert_eq!(first.talk.end().0, 0);
    assert_eq!(second.resume(&thread)["result"]["thread"]["id"], thread);
    assert_eq!(answer_of(&second.turn(&thread, "second")), "ECHO: second");
    assert_eq!(second.talk.end().0, 0);
    let transcripts = agents.transcripts();
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    assert_eq!(transcripts[0].prompts(), ["first", "second"]);
    assert_eq!(one_line(&agents.model().turns()), Ok(()));
}

#[test]
fn an_api_error_fails_the_turn_and_the_next_one_runs() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    for prompt in ["ERROR 401", "ERROR 500", "CUT"] {
        let turn = server.turn(&thread, prompt);
        assert_eq!(turn["status"], "failed", "{turn}");
        assert!(turn["error"]["message"].is_string(), "{turn}");
    }
    assert_eq!(server.turn(&thread, "after")["status"], "completed");
    assert_eq!(server.talk.end().0, 0);
    assert_eq!(agents.model().prompts(), ["ERROR 401", "ERROR 500", "CUT", "after"], "nothing is retried");
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn a_closed_input_aborts_the_turn_and_a_kill_is_told_as_interrupted() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    server.begin(&thread, "HOLD a");
    agents.model().arrived("a");
    assert_eq!(server.talk.end().0, 0);
    let last = agents.transcripts()[0].records.last().cloned().unwrap_or_default();
    assert_eq!(last["payload"]["type"], "turn_aborted");

    let mut server = AppServerClient::start(&agents);
    server.resume(&thread);
    let killed = server.begin(&thread, &long_tool(&agents));
    let tool = tool_pid(&agents);
    drop(server.talk);
    wait_until("the command's end", || !is_alive(tool));

    let mut server = AppServerClient::start(&agents);
    assert!(server.resume(&thread)["result"].is_object());
    let turns = server.call("thread/turns/list", &json!({"threadId": thread}));
    let newest = &turns["result"]["data"][0];
    assert_eq!((&newest["id"], &newest["status"]), (&json!(killed), &json!("interrupted")), "{turns}");
    assert_eq!(answer_of(&server.turn(&thread, "after")), "ECHO: after");
    assert_eq!(server.talk.end().0, 0);
    let told = agents.model().turns().last().and_then(|asked| asked.results.last().cloned());
    assert_eq!(
        told.map(|result| result.text),
        Some("aborted".to_owned()),
        "the model hears of the killed call"
    );
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn messages_and_tool_calls_are_in_the_rollout_before_a_client_hears_of_them() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let thread = server.thread(&agents, "never");
    server.turn(&thread, "first");
    drop(server.talk);
    let kinds = |kind: &str| {
        let records = agents.transcripts().remove(0).records;
        records.iter().filter(|record| record["payload"]["type"] == kind).count()
    };
    assert_eq!((agents.transcripts()[0].answers(), kinds("task_complete")), (vec!["ECHO: first".into()], 1));

    let mut server = AppServerClient::start(&agents);
    server.resume(&thread);
    server.begin(&thread, &long_tool(&agents));
    let tool = tool_pid(&agents);
    drop(server.talk);
    assert_eq!((kinds("function_call"), kinds("function_call_output")), (1, 0));
    wait_until("the command's end", || !is_alive(tool));
}

#[test]
fn unknown_threads_and_methods_are_refused_with_one_code() {
    let agents = RealAgents::alone();
    let mut server = AppServerClient::start(&agents);
    let unknown = "01a1e158-0000-7000-8000-000000000000";
    let input = json!([{"type": "text", "text": "x"}]);
    let empty = server.thread(&agents, "never");
    let mut other = AppServerClient::start(&agents);
    let asked = [
        (server.resume(unknown), "no rollout found"),
        (server.resume("nonsense"), "invalid session id"),
        (server.call("turn/start", &json!({"threadId": unknown, "input": input})), "thread not found"),
        (server.call("no/such", &json!({})), "unknown variant"),
        (other.resume(&empty), "no rollout found"),
    ];
    for (answer, message) in asked {
        assert!(complaint(&answer).0 == -32600 && complaint(&answer).1.contains(message), "{answer}");
    }
    assert_eq!((server.talk.end().0, other.talk.end().0), (0, 0));
}
