//! `berth mcp`, as another agent uses it: JSON-RPC lines on its standard input and output.
//!
//! Promise: everything goes over the wire; other berth commands show the effect.
//! Start with [`McpClient`].

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{KeeperConnection, ProblemCode};
use berth_harness::{RpcClient, TestEnvironment, wait_until};
use serde_json::{Value, json};

/// A lab with the agent `fake`, which takes turns and does what its prompts say.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// A client of `berth mcp`.
struct McpClient {
    rpc: RpcClient,
}

impl McpClient {
    /// Starts it, and introduces itself.
    fn start(lab: &TestEnvironment) -> Self {
        Self::over(&mut lab.command(["mcp"]))
    }

    fn over(command: &mut std::process::Command) -> Self {
        let mut client = Self { rpc: RpcClient::start(command) };
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        let id = client.rpc.ask("initialize", params);
        let said = client.rpc.answer(id);
        assert_eq!(said["result"]["serverInfo"]["name"], "berth", "{said}");
        client.rpc.notify("notifications/initialized", json!({}));
        client
    }

    /// Calls a tool and does not wait.
    fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.rpc.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that must succeed; returns its result.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        let said = self.rpc.answer(id);
        assert_eq!(said["result"]["isError"], false, "{tool}: {said}");
        assert!(said["result"]["content"][0]["text"].is_string(), "{tool}: {said}");
        said["result"]["structuredContent"].clone()
    }

    /// Calls a tool that must fail; returns the text of its error.
    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin(tool, arguments);
        let said = self.rpc.answer(id);
        assert_eq!(said["result"]["isError"], true, "{tool}: {said}");
        said["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn every_tool_describes_its_input_and_output() {
    let lab = lab();
    let mut client = McpClient::start(&lab);
    let id = client.rpc.ask("tools/list", json!({}));
    let said = client.rpc.answer(id);
    let tools = said["result"]["tools"].as_array().expect("tools");
    let mut names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["list_sessions", "result", "screen", "send", "start_session", "status", "wait"]);
    for tool in tools {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{schema}: {tool}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "unknown fields are refused: {tool}");
        let fields = tool["inputSchema"]["properties"].as_object().expect("fields");
        assert!(fields.values().all(|field| field["description"].is_string()), "each is explained: {tool}");
        assert!(tool["description"].is_string(), "{tool}");
        // Waiting for a turn may resume its session.
        let only_looks = !["send", "start_session", "wait"].contains(&tool["name"].as_str().expect("a name"));
        assert_eq!(tool["annotations"]["readOnlyHint"] == true, only_looks, "{tool}");
    }
}

#[test]
fn a_session_is_started_asked_waited_for_and_listed() {
    let lab = lab();
    let mut client = McpClient::start(&lab);
    let dir = lab.dir().display().to_string();
    let start = json!({"agent": "fake", "cwd": dir, "name": "fix", "prompt": "first", "key": "k"});
    let started = client.call("start_session", start.clone());
    let id = started["session"]["id"].as_str().expect("an id").to_owned();
    assert_eq!((&started["repeated"], &started["turn"]["turn"]), (&false.into(), &format!("{id}.1").into()));
    let again = client.call("start_session", start);
    assert_eq!((&again["repeated"], &again["session"]["id"]), (&true.into(), &id.as_str().into()));
    assert_eq!(again["turn"]["turn"], format!("{id}.1"), "the first turn is sent once");
    // The key means this session at the other doors as well.
    let same = ["run", "-d", "--agent", "fake", "--cwd", &dir, "--name", "fix", "--key", "k", "--prompt"];
    assert_eq!(lab.ok([&same[..], &["first"]].concat()), id);
    assert_eq!(lab.json(["turns", "fix", "--json"]).as_array().map(Vec::len), Some(1));
    // A first turn that is refused does not hide the session it was for.
    let other = json!({"agent": "fake", "cwd": dir, "name": "fix", "prompt": "other", "key": "k"});
    let refused = client.refused("start_session", other);
    assert!(refused.contains(&id) && refused.contains("first turn"), "{refused}");
    let waited = client.call("wait", json!({"turn": format!("{id}.1")}));
    assert_eq!((&waited["reached"], &waited["turn"]["answer"]), (&true.into(), &"ECHO: first".into()));
    let send = json!({"session": "fix", "text": "second", "wait": true, "key": "two"});
    let sent = client.call("send", send.clone());
    assert_eq!((&sent["state"], &sent["answer"]), (&"done".into(), &"ECHO: second".into()));
    assert_eq!(client.call("send", send)["turn"], sent["turn"], "a key sends nothing twice");
    let result = client.call("result", json!({"turn": "fix.2"}));
    assert_eq!((&result["answer"], &result["in_progress"]), (&"ECHO: second".into(), &false.into()));
    let calm = client.call("wait", json!({"session": "fix"}));
    assert_eq!((&calm["reached"], &calm["session"]["state"]), (&true.into(), &"idle".into()));
    assert_eq!(client.call("status", json!({"session": id}))["name"], "fix");
    let all = client.call("list_sessions", json!({}));
    assert_eq!((all["sessions"].as_array().map(Vec::len), &all["more"]), (Some(1), &0.into()), "{all}");
    let none = client.call("list_sessions", json!({"states": ["working"]}));
    assert_eq!(none["sessions"], json!([]));
    assert_eq!(lab.json(["turns", "fix", "--json"]).as_array().map(Vec::len), Some(2));
    let by = lab.json(["turn", "fix.2", "--json"])["by"]["place"].clone();
    assert!(by.as_str().is_some_and(|by| by.starts_with("a script (MCP)")), "{by}");
}

#[test]
fn a_wait_that_takes_too_long_says_so_and_the_turn_goes_on() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let mut client = McpClient::start(&lab);
    let go = lab.dir().join("go");
    let text = format!("wait-file:{} late", go.display());
    let sent = client.call("send", json!({"session": "s", "text": text, "wait": true, "timeout_ms": 100}));
    assert_eq!(sent["in_progress"], true, "{sent}");
    let waited = client.call("wait", json!({"session": "s", "timeout_ms": 100}));
    assert_eq!((&waited["reached"], &waited["session"]["state"]), (&false.into(), &"working".into()));
    // While one call waits, others are answered.
    let waiting = client.begin("wait", json!({"turn": sent["turn"]}));
    assert_eq!(client.call("status", json!({"session": "s"}))["state"], "working");
    std::fs::write(&go, "").expect("a file");
    let said = client.rpc.answer(waiting);
    assert_eq!(said["result"]["structuredContent"]["turn"]["answer"], "ECHO: late", "{said}");
}

#[test]
fn a_wait_goes_on_though_the_keeper_has_as_many_listeners_as_it_can() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let go = lab.dir().join("go");
    lab.ok(["send", "s", &format!("wait-file:{} late", go.display())]);
    let mut listeners = Vec::new();
    loop {
        let mut one =
            KeeperConnection::open(&lab.session_dir(&id), "a test".to_owned()).expect("the keeper listens");
        match one.ask(KeeperRequest::Watch) {
            Ok(KeeperAnswer::Done { .. }) => listeners.push(one),
            Err(full) if full.code == ProblemCode::Full => break,
            other => panic!("an odd answer: {other:?}"),
        }
    }
    let mut client = McpClient::start(&lab);
    let waiting = client.begin("wait", json!({"session": "s"}));
    assert_eq!(client.call("status", json!({"session": "s"}))["state"], "working");
    std::fs::write(&go, "").expect("a file");
    let said = client.rpc.answer(waiting);
    assert_eq!(said["result"]["structuredContent"]["reached"], true, "{said}");
}

#[test]
fn a_wait_ends_when_the_session_needs_a_person() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let mut client = McpClient::start(&lab);
    client.call("send", json!({"session": "s", "text": "ask:Bash:rm -rf x"}));
    let waited = client.call("wait", json!({"session": "s"}));
    assert_eq!((&waited["reached"], &waited["session"]["state"]), (&false.into(), &"needs-you".into()));
    assert_eq!(waited["session"]["asks"], json!(["Bash: rm -rf x"]));
    assert_eq!(client.call("wait", json!({"session": "s", "for": "needs-you"}))["reached"], true);
    lab.ok(["answer", "s", "deny"]);
    assert_eq!(client.call("wait", json!({"session": "s"}))["reached"], true);
}

#[test]
fn a_turn_that_does_not_begin_within_max_wait_is_withdrawn_and_told_so() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let go = lab.dir().join("go");
    lab.ok(["send", "s", &format!("wait-file:{} long", go.display())]);
    let mut client = McpClient::start(&lab);
    let late = client.call("send", json!({"session": "s", "text": "late", "max_wait_ms": 100}));
    assert_eq!((&late["state"], &late["in_progress"]), (&"cancelled".into(), &false.into()), "{late}");
    std::fs::write(&go, "").expect("a file");
    let begun = client.call("send", json!({"session": "s", "text": "soon", "max_wait_ms": 60_000}));
    assert!(begun["state"] != "queued" && begun["state"] != "cancelled", "{begun}");
}

#[test]
fn an_invalid_call_is_a_tool_error_with_the_next_step() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    lab.start_with(&["--name", "terminal"], &["print:hello", "hang"]);
    let mut client = McpClient::start(&lab);
    let cases = [
        ("status", json!({"session": "none"}), "no session `none`"),
        ("status", json!({"session": "../../etc"}), "etc"),
        ("status", json!({"session": "s", "more": 1}), "unknown field `more`"),
        ("status", json!({}), "session"),
        ("send", json!({"session": "s", "text": ""}), "empty"),
        ("send", json!({"session": "s", "text": "x".repeat((1 << 20) + 1)}), "longest"),
        ("send", json!({"session": "terminal", "text": "x"}), "takes no turns"),
        ("send", json!({"session": "s", "text": "x", "manner": "shout"}), "shout"),
        ("send", json!({"session": "s", "text": "x", "timeout_ms": -1}), "-1"),
        ("send", json!({"session": "s", "text": "x", "timeout_ms": 3_600_001}), "timeout_ms"),
        ("send", json!({"session": "s", "text": "x", "more": 1}), "unknown field `more`"),
        ("send", json!({"text": "x"}), "session"),
        ("send", json!({"session": "s"}), "text"),
        ("send", json!({"session": "s", "text": "x", "expected_session": "other"}), "other"),
        ("list_sessions", json!({"states": ["dreaming"]}), "`dreaming` is not a valid state"),
        ("wait", json!({}), "one of"),
        ("wait", json!({"session": "terminal"}), "takes no turns"),
        ("wait", json!({"turn": "s.99"}), "no turn"),
        ("result", json!({"turn": "nonsense"}), "no session"),
        ("screen", json!({"session": "s"}), "no screen"),
        ("start_session", json!({"agent": "nobody"}), "nobody"),
        ("start_session", json!({"agent": "fake", "cwd": "/no/such/place"}), "/no/such/place"),
        ("start_session", json!({"agent": "fake", "name": "s"}), "s"),
    ];
    for (tool, arguments, named) in cases {
        let said = client.refused(tool, arguments);
        assert!(said.contains(named), "{tool}: {said}");
    }
    assert_eq!(lab.json(["turns", "s", "--json"]), json!([]), "nothing was sent");
    wait_until("it to write", || lab.ok(["screen", "terminal"]).contains("hello"));
    let screen = client.call("screen", json!({"session": "terminal"}));
    assert!(screen["text"].as_str().is_some_and(|text| text.contains("hello")), "{screen}");
    let id = client.begin("no_such_tool", json!({}));
    let said = client.rpc.answer(id);
    assert!(said["error"].is_object() || said["result"]["isError"] == true, "{said}");
    let (code, complaints) = client.rpc.talk.end();
    assert_eq!((code, complaints.as_str()), (0, ""));
}

#[test]
fn a_client_that_goes_away_ends_nothing_and_is_not_waited_for() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let go = lab.dir().join("go");
    let mut client = McpClient::start(&lab);
    let text = format!("wait-file:{} done", go.display());
    client.begin("send", json!({"session": "s", "text": text, "wait": true, "timeout_ms": 3_600_000}));
    wait_until("it to work", || lab.show("s")["state"] == "working");
    let closed = std::time::Instant::now();
    let (code, _) = client.rpc.talk.end();
    assert_eq!(code, 0);
    assert!(closed.elapsed().as_secs() < 20, "it stayed for {:?}", closed.elapsed());
    assert_eq!(lab.show("s")["state"], "working");
    let mut other = McpClient::start(&lab);
    other.begin("wait", json!({"turn": "s.1"}));
    // Dropping the client kills it with SIGKILL.
    drop(other);
    std::fs::write(&go, "").expect("a file");
    assert_eq!(lab.berth(["wait", "s.1", "--timeout", "60s"]).code, 0);
}

#[test]
fn debug_logs_go_to_stderr_and_contain_no_prompt_text() {
    let lab = lab();
    lab.ok(["run", "-d", "--agent", "fake", "--name", "s"]);
    let mut client = McpClient::over(lab.command(["mcp"]).env("BERTH_LOG", "trace"));
    client.call("send", json!({"session": "s", "text": "between-us", "wait": true}));
    assert!(client.rpc.talk.heard.iter().all(|said| said["jsonrpc"] == "2.0"), "{:?}", client.rpc.talk.heard);
    let (code, log) = client.rpc.talk.end();
    assert_eq!(code, 0);
    assert!(log.contains("asked the keeper"), "{log}");
    assert!(!log.contains("between-us"), "{log}");
}
