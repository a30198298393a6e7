//! The ACP adapters of Claude Code and Codex against the fake model: properties that the `acp` driver relies on.
//!
//! Promise: each fact of `docs/agents.md` that berth builds on has a test here that fails when it stops being true.
//! Not here: berth, and the crate it speaks ACP with: these are the bare lines. Needs `testing/agents/install`.

use berth_harness::model::{AnswerState, one_line};
use berth_harness::{JsonLineProcess, RealAgents};
use serde_json::{Value, json};

const CLAUDE: &str = "claude-agent-acp";
const CODEX: &str = "codex-acp";

/// An adapter that has been greeted.
struct AcpAdapterClient {
    talk: JsonLineProcess,
    calls: u32,
    session: String,
}

impl AcpAdapterClient {
    fn start(agents: &RealAgents, program: &str) -> Self {
        let talk = JsonLineProcess::start(&mut agents.command(program, [] as [&str; 0]));
        let mut adapter = Self { talk, calls: 0, session: String::new() };
        let capabilities = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let answer =
            adapter.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        assert_eq!(answer["result"]["protocolVersion"], 1);
        let can = &answer["result"]["agentCapabilities"];
        assert_eq!(can["loadSession"], true);
        assert!(can["sessionCapabilities"]["resume"].is_object(), "{can}");
        adapter
    }

    fn fresh(agents: &RealAgents, program: &str) -> Self {
        let mut adapter = Self::start(agents, program);
        let answer = adapter.call("session/new", &json!({"cwd": agents.work(), "mcpServers": []}));
        adapter.session =
            answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        adapter
    }

    /// Another process with the same session, by `session/load` or `session/resume`; its answer.
    fn again(agents: &RealAgents, program: &str, method: &str, session: &str) -> (Self, Value) {
        let mut adapter = Self::start(agents, program);
        adapter.session = session.to_owned();
        let params = json!({"sessionId": session, "cwd": agents.work(), "mcpServers": []});
        let answer = adapter.call(method, &params);
        (adapter, answer)
    }

    fn begin(&mut self, method: &str, params: &Value) -> String {
        self.calls += 1;
        let id = format!("b-{}", self.calls);
        self.talk.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn answer(&mut self, id: &str) -> Value {
        self.talk.wait("an answer", |line| line["id"] == id && line["method"].is_null())
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(&id)
    }

    fn begin_prompt(&mut self, text: &str) -> String {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.begin("session/prompt", &params)
    }

    /// Asks, and waits for the end; the end's answer and the text that came, that of messages only.
    fn prompt(&mut self, text: &str) -> (Value, String) {
        let before = self.talk.heard.len();
        let id = self.begin_prompt(text);
        let answer = self.answer(&id);
        (answer, self.said_since(before))
    }

    fn said_since(&self, before: usize) -> String {
        let updates = self.talk.heard[before..].iter().map(|line| &line["params"]["update"]);
        let chunks = updates.filter(|update| {
            update["sessionUpdate"] == "agent_message_chunk" && update["messageId"].is_string()
        });
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    fn cancel(&mut self) {
        let params = json!({"sessionId": self.session});
        self.talk.say(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
    }
}

/// A whole life: prompts, a cancel, an end, and the same conversation in two more processes.
fn a_life_is_one_line(program: &str) {
    let agents = RealAgents::alone();
    let mut adapter = AcpAdapterClient::fresh(&agents, program);
    let session = adapter.session.clone();
    let (end, said) = adapter.prompt("first");
    assert_eq!((&end["result"]["stopReason"], said.as_str()), (&json!("end_turn"), "ECHO: first"));
    let held = adapter.begin_prompt("HOLD a");
    agents.model().arrived("a");
    adapter.cancel();
    assert_eq!(adapter.answer(&held)["result"]["stopReason"], "cancelled");
    agents.model().wait("that it hung up", |all| {
        all.iter().any(|asked| asked.prompt() == "HOLD a" && asked.answer == AnswerState::Cut)
    });
    // A prompt while one runs waits, and has an end of its own.
    let before = adapter.talk.heard.len();
    let held = adapter.begin_prompt("HOLD b");
    agents.model().arrived("b");
    let behind = adapter.begin_prompt("behind");
    agents.model().release("b");
    assert_eq!(adapter.answer(&held)["result"]["stopReason"], "end_turn");
    assert_eq!(adapter.answer(&behind)["result"]["stopReason"], "end_turn");
    assert_eq!(adapter.said_since(before), "held ECHO: HOLD bECHO: behind");
    assert_eq!(adapter.talk.end().0, 0);

    let (mut adapter, answer) = AcpAdapterClient::again(&agents, program, "session/load", &session);
    assert!(answer["result"].is_object(), "{answer}");
    assert!(adapter.said_since(0).contains("ECHO: first"), "history is told before the answer");
    assert_eq!(adapter.prompt("loaded").1, "ECHO: loaded");
    assert_eq!(adapter.talk.end().0, 0);
    let (mut adapter, answer) = AcpAdapterClient::again(&agents, program, "session/resume", &session);
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(adapter.said_since(0), "");
    assert_eq!(adapter.prompt("resumed").1, "ECHO: resumed");
    assert_eq!(adapter.talk.end().0, 0);

    let prompts = ["first", "HOLD a", "HOLD b", "behind", "loaded", "resumed"];
    assert_eq!(agents.model().prompts(), prompts);
    assert_eq!(one_line(&agents.model().turns()), Ok(()));
    let transcripts: Vec<_> =
        agents.transcripts().into_iter().filter(|one| !one.prompts().is_empty()).collect();
    assert_eq!(transcripts.len(), 1, "{transcripts:#?}");
    assert_eq!(transcripts[0].id, session);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    assert_eq!(transcripts[0].prompts(), prompts);
}

#[test]
fn a_life_with_claude_is_one_line() {
    a_life_is_one_line(CLAUDE);
}

#[test]
fn a_life_with_codex_is_one_line() {
    a_life_is_one_line(CODEX);
}

/// The client is asked, in this mode, and both kinds of answer count.
fn permissions_are_asked(program: &str, mode: &str, tool: impl Fn(&str) -> String) {
    let agents = RealAgents::alone();
    let mut adapter = AcpAdapterClient::fresh(&agents, program);
    let params = json!({"sessionId": adapter.session, "modeId": mode});
    let answer = adapter.call("session/set_mode", &params);
    assert!(answer["result"].is_object(), "{answer}");
    for (kind, runs) in [("allow_once", true), ("reject_once", false)] {
        let id = adapter.begin_prompt(&tool(kind));
        let asked = adapter.talk.wait("the question or an end", |line| {
            line["method"] == "session/request_permission" || line["id"] == id
        });
        let options = asked["params"]["options"].as_array().unwrap_or_else(|| panic!("not asked: {asked}"));
        let option =
            options.iter().find(|option| option["kind"] == kind).unwrap_or_else(|| panic!("{options:?}"));
        let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
        adapter.talk.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}}));
        let end = adapter.answer(&id);
        assert!(end["result"]["stopReason"].is_string(), "{end}");
        assert_eq!(agents.work().join(kind).exists(), runs, "{kind}");
    }
    assert_eq!(adapter.talk.end().0, 0);
}

#[test]
fn claude_asks_for_permission() {
    permissions_are_asked(CLAUDE, "default", |file| format!("TOOL touch {file}; echo ran"));
}

#[test]
fn codex_asks_for_permission_when_it_may_not_decide_itself() {
    permissions_are_asked(CODEX, "read-only", |file| {
        let input = json!({"cmd": format!("touch {file}; echo ran"), "sandbox_permissions": "require_escalated",
            "justification": "may I"});
        format!("CALL exec_command {input}")
    });
}

#[test]
fn claude_tells_errors_as_errors() {
    let agents = RealAgents::alone();
    let mut adapter = AcpAdapterClient::fresh(&agents, CLAUDE);
    assert_eq!(adapter.prompt("ERROR 401").0["error"]["code"], -32000);
    let (end, _) = adapter.prompt("ERROR 500");
    assert_eq!(
        (&end["error"]["code"], &end["error"]["data"]["errorKind"]),
        (&json!(-32603), &json!("server_error"))
    );
    assert_eq!(adapter.prompt("after").1, "ECHO: after");
    assert_eq!(adapter.talk.end().0, 0);
    let (adapter, answer) =
        AcpAdapterClient::again(&agents, CLAUDE, "session/load", "5e551014-0000-4000-8000-00000000dead");
    assert_eq!(answer["error"]["code"], -32002);
    assert_eq!(adapter.talk.end().0, 0);
}

#[test]
fn codex_calls_a_server_error_an_end_and_only_its_status_tells() {
    let agents = RealAgents::alone();
    let mut adapter = AcpAdapterClient::fresh(&agents, CODEX);
    assert_eq!(adapter.prompt("ERROR 401").0["error"]["code"], -32000);
    let before = adapter.talk.heard.len();
    let (end, said) = adapter.prompt("ERROR 500");
    assert_eq!((&end["result"]["stopReason"], said.as_str()), (&json!("end_turn"), ""));
    let is_trace =
        |line: &Value| line["params"]["update"]["_meta"]["codex"]["threadStatus"]["type"] == "systemError";
    assert!(adapter.talk.heard[before..].iter().any(is_trace), "the only trace of it");
    assert_eq!(adapter.prompt("after").1, "ECHO: after");
    assert_eq!(adapter.talk.end().0, 0);
    let (adapter, answer) =
        AcpAdapterClient::again(&agents, CODEX, "session/load", "01a1e158-0000-7000-8000-000000000000");
    assert_eq!(answer["error"]["code"], -32603);
    assert!(
        answer["error"]["data"]["details"].as_str().is_some_and(|text| text.contains("no rollout found"))
    );
    assert_eq!(adapter.talk.end().0, 0);
}
