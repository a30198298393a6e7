//! The fake agent as an ACP agent, run for real: its answers, its memory, its misbehaviour.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use berth_harness::{ProcessKillGuard, TestDir};
use serde_json::{Value, json};

/// The records of a session's transcript in this directory.
fn records(store: &TestDir, session: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(store.join(format!("{session}.jsonl"))).expect("a transcript");
    text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// An agent and the client's end of it. Nothing is left of the agent, however the test ends.
struct AcpAgentProcess {
    child: ProcessKillGuard,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: String,
}

impl AcpAgentProcess {
    fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.arg("acp").args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("spawn fake-agent");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            input: child.stdin.take(),
            child: ProcessKillGuard::new(child),
            output,
            session: String::new(),
        }
    }

    fn with_session(flags: &[&str]) -> Self {
        let mut agent = Self::start(flags);
        let created = agent.call("session/new", json!({"cwd": "/", "mcpServers": []}));
        agent.session = created["result"]["sessionId"].as_str().expect("an id").to_owned();
        agent
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("write to the agent");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read from the agent");
        line
    }

    fn hear(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: `{line}`"))
    }

    /// The messages until the answer to `id`, and the answer.
    fn until(&mut self, id: &str) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["id"] == id {
                return (before, message);
            }
            before.push(message);
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": "call", "method": method, "params": params}));
        self.until("call").1
    }

    fn begin(&mut self, id: &str, prompt: &str) {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": prompt}]});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}));
    }

    /// A whole turn: the text of the agent, and the answer to the prompt.
    fn turn(&mut self, prompt: &str) -> (String, Value) {
        self.begin("turn", prompt);
        let (updates, answer) = self.until("turn");
        (said(&updates), answer)
    }

    fn cancel(&mut self) {
        let params = json!({"sessionId": self.session});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
    }
}

fn said(messages: &[Value]) -> String {
    let is_said = |message: &&Value| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk";
    let texts =
        messages.iter().filter(is_said).map(|message| &message["params"]["update"]["content"]["text"]);
    texts.map(|text| text.as_str().expect("a text")).collect()
}

fn wait_for(path: &str) {
    while !Path::new(path).exists() {
        std::thread::yield_now();
    }
}

#[test]
fn a_prompt_is_echoed_and_remembered_with_its_turn() {
    let store = TestDir::new();
    let mut agent = AcpAgentProcess::with_session(&["--store", &store.text("")]);
    for (turn, prompt) in ["hello", "say:a b\nthink:hm\nsay:c", "two\nlines"].iter().enumerate() {
        let (said, answer) = agent.turn(prompt);
        assert_eq!(said, ["ECHO: hello", "a bc", "ECHO: two\nlines"][turn]);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
    }
    let records = records(&store, &agent.session);
    let short = |record: &Value| (record["n"].clone(), record["turn"].clone(), record["kind"].clone());
    let expected =
        [(1, 1, "begin"), (2, 1, "end"), (3, 2, "begin"), (4, 2, "end"), (5, 3, "begin"), (6, 3, "end")];
    let expected = expected.map(|(n, turn, kind)| (json!(n), json!(turn), json!(kind)));
    assert_eq!(records.iter().map(short).collect::<Vec<_>>(), expected);
    assert!(records.iter().all(|record| record["pid"] == agent.child.id()));
    assert!(records.windows(2).all(|pair| pair[0]["at"].as_u64() < pair[1]["at"].as_u64()));
    assert_eq!(records[1]["prompt"], "hello");
    assert_eq!(records[1]["answer"], "ECHO: hello");
}

#[test]
fn a_session_is_loaded_with_its_history_resumed_without_and_forked_into_another() {
    let store = TestDir::new();
    let flags = ["--store", &store.text("")];
    let mut first = AcpAgentProcess::with_session(&flags);
    let session = first.session.clone();
    let at = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let mut second = AcpAgentProcess::start(&flags);
    assert_eq!(
        second.call("session/load", at.clone())["error"]["code"],
        -32002,
        "nothing was said in it yet"
    );
    first.turn("hello");
    drop(first);

    second.send(&json!({"jsonrpc": "2.0", "id": "load", "method": "session/load", "params": at}));
    let (history, loaded) = second.until("load");
    assert_eq!(loaded["result"], json!({}));
    assert_eq!(history[0]["params"]["update"]["content"]["text"], "hello");
    assert_eq!(said(&history), "ECHO: hello");
    second.send(&json!({"jsonrpc": "2.0", "id": "resume", "method": "session/resume", "params": at}));
    assert!(second.until("resume").0.is_empty());
    second.session = session.clone();
    second.turn("again");
    let forked = second.call("session/fork", at)["result"]["sessionId"].as_str().expect("an id").to_owned();
    second.session = forked.clone();
    second.turn("elsewhere");

    let turns =
        |id: &str| records(&store, id).iter().map(|record| record["turn"].clone()).collect::<Vec<_>>();
    assert_eq!(turns(&session), [1, 1, 2, 2]);
    assert_eq!(turns(&forked), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn methods_that_are_not_offered_are_not_known() {
    let flags = ["--no-load", "--no-resume", "--no-fork", "--no-close", "--no-steer"];
    let mut agent = AcpAgentProcess::start(&flags);
    let offered = agent.call("initialize", json!({"protocolVersion": 1}));
    let capabilities = json!({"loadSession": false, "sessionCapabilities": {}});
    assert_eq!(offered["result"]["agentCapabilities"], capabilities);
    for method in
        ["session/load", "session/resume", "session/fork", "session/close", "_session/steering", "fs/dance"]
    {
        assert_eq!(agent.call(method, json!({"sessionId": "x"}))["error"]["code"], -32601, "{method}");
    }
    let mut agent = AcpAgentProcess::start(&[]);
    let offered = agent.call("initialize", json!({"protocolVersion": 7}));
    assert_eq!(offered["result"]["protocolVersion"], 1);
    let capabilities =
        json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "fork": {}, "close": {}}});
    assert_eq!(offered["result"]["agentCapabilities"], capabilities);
    let mut agent = AcpAgentProcess::start(&["--not-logged-in"]);
    assert_eq!(agent.call("session/new", json!({}))["error"]["code"], -32000);
    let mut agent = AcpAgentProcess::start(&["--refuse-load"]);
    assert_eq!(agent.call("session/load", json!({"sessionId": "x"}))["error"]["code"], -32603);
}

#[test]
fn permissions_are_asked_for_together_and_their_answers_are_said() {
    let scratch = TestDir::new();
    let mut agent = AcpAgentProcess::with_session(&[]);
    let go = scratch.text("go");
    agent.begin(
        "turn",
        &format!("ask:Bash:rm -rf: x\nask:Edit:/a/b\nask:Other:y\nwait-file:{go}\nunask\nsay:over"),
    );
    let mut requests = Vec::new();
    while requests.len() < 3 {
        let message = agent.hear();
        if message["method"] == "session/request_permission" {
            requests.push(message);
        }
    }
    assert_eq!(requests[0]["params"]["toolCall"]["rawInput"]["command"], "rm -rf: x");
    assert_eq!(requests[1]["params"]["toolCall"]["content"][0]["newText"], "new line\n");
    let selected = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    agent.send(&json!({"jsonrpc": "2.0", "id": requests[1]["id"], "result": selected}));
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    agent.send(&json!({"jsonrpc": "2.0", "id": requests[0]["id"], "result": cancelled}));
    std::fs::write(&go, "").expect("write a file");
    let (updates, _) = agent.until("turn");
    assert_eq!(said(&updates), "Bash: cancelled\nEdit: allow-once\nover");
    let withdrawn: Vec<_> =
        updates.iter().filter(|message| message["method"] == "$/cancel_request").collect();
    assert_eq!(withdrawn.len(), 1);
    assert_eq!(withdrawn[0]["params"]["requestId"], requests[2]["id"]);
}

#[test]
fn a_cancel_ends_whatever_a_turn_waits_for_and_leaves_a_cut_record() {
    let store = TestDir::new();
    let pid = store.text("pid");
    let command = format!("sh:echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60");
    let prompts = ["silent", "wait-file:/nowhere/at/all", "ask:Bash:x", &command, "sleep:100000"];
    let mut agent = AcpAgentProcess::with_session(&["--store", &store.text("")]);
    for prompt in prompts {
        agent.begin("turn", &format!("say:begun\n{prompt}"));
        while !agent.line().contains("begun") {}
        if prompt == command {
            wait_for(&pid);
        }
        agent.cancel();
        assert_eq!(agent.until("turn").1["result"]["stopReason"], "cancelled", "{prompt}");
    }
    let kinds: Vec<_> = records(&store, &agent.session).iter().map(|record| record["kind"].clone()).collect();
    assert_eq!(kinds, ["begin", "cut"].repeat(prompts.len()));
    let pid = std::fs::read_to_string(pid).expect("a pid");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command outlived its cancel");
}

#[test]
fn a_deaf_agent_does_not_hear_a_cancel() {
    let scratch = TestDir::new();
    let go = scratch.text("go");
    let mut agent = AcpAgentProcess::with_session(&[]);
    agent.begin("turn", &format!("deaf say:begun\nwait-file:{go}"));
    while !agent.line().contains("begun") {}
    agent.cancel();
    // The agent answers a message that comes after the cancel, so it has read the cancel by then.
    agent.send(&json!({"jsonrpc": "2.0", "id": "x", "method": "session/prompt", "params": {}}));
    assert_eq!(agent.until("x").1["error"]["message"], "a prompt is running");
    std::fs::write(&go, "").expect("write a file");
    assert_eq!(agent.until("turn").1["result"]["stopReason"], "end_turn");
}

#[test]
fn text_for_a_running_turn_is_said_and_for_none_it_is_given_back() {
    let scratch = TestDir::new();
    let go = scratch.text("go");
    let mut agent = AcpAgentProcess::with_session(&[]);
    let params = json!({"sessionId": agent.session, "prompt": [{"type": "text", "text": "left"}]});
    assert_eq!(agent.call("_session/steering", params.clone())["result"]["outcome"], "promptRequired");
    agent.begin("turn", &format!("wait-file:{go}\nhello"));
    agent.send(&json!({"jsonrpc": "2.0", "id": "steer", "method": "_session/steering", "params": params}));
    assert_eq!(agent.until("steer").1["result"]["outcome"], "injected");
    std::fs::write(&go, "").expect("write a file");
    assert_eq!(said(&agent.until("turn").0), "STEERED: left\nECHO: hello");
}

#[test]
fn a_command_runs_in_a_session_of_its_own_and_its_leftovers_hold_nothing_up() {
    let mut agent = AcpAgentProcess::with_session(&[]);
    let (said, _) = agent.turn("sh:sleep 60 & echo $! $(cut -d' ' -f6 /proc/$$/stat) $$; exit 3");
    let words: Vec<_> = said.split_whitespace().collect();
    let [left, session, pid, "exit", "3"] = words[..] else { panic!("{said}") };
    let left = rustix::process::Pid::from_raw(left.parse().expect("a pid")).expect("a pid");
    rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("it is still there");
    assert_eq!(session, pid);
}

#[test]
fn ends_and_troubles_are_as_asked_for() {
    let mut agent = AcpAgentProcess::with_session(&[]);
    assert_eq!(agent.turn("stop:whatever").1["result"]["stopReason"], "whatever");
    let failed = agent.turn("say:half\nfail:-32000:log in first").1;
    assert_eq!(failed["error"], json!({"code": -32000, "message": "log in first"}));
    assert_eq!(agent.turn("exit:300").1["error"]["code"], -32602);
    let (said, _) = agent.turn("flood:100K");
    assert_eq!(said.len(), 100 << 10);
    agent.begin("turn", "garbage garbage:70000");
    assert_eq!(agent.line(), "this is { not JSON\n");
    assert_eq!(agent.line().len(), 70001);
    agent.until("turn");
    let (said, _) = agent.turn("report:HOME");
    let report: Value = serde_json::from_str(&said).expect("a report");
    assert_eq!(report["pid"], agent.child.id());
    agent.begin("turn", "die:KILL");
    assert_eq!(agent.line(), "");
    let mut agent = AcpAgentProcess::with_session(&[]);
    agent.begin("turn", "exit:7");
    assert_eq!(agent.child.wait().expect("wait").code(), Some(7));
    let mut agent = AcpAgentProcess::with_session(&[]);
    agent.begin("turn", "close");
    assert_eq!(agent.line(), "", "its output is closed");
    assert!(agent.child.try_wait().expect("look").is_none(), "it lives on");
}

#[test]
fn a_new_conversation_has_a_transcript_of_its_own() {
    let store = TestDir::new();
    let mut agent = AcpAgentProcess::with_session(&["--store", &store.text("")]);
    agent.turn("one");
    agent.begin("turn", "new-id\nmoved");
    let (updates, _) = agent.until("turn");
    let new =
        updates[0]["params"]["update"]["_meta"]["berth"]["sessionId"].as_str().expect("an id").to_owned();
    assert_eq!(updates[0]["params"]["sessionId"], *agent.session);
    agent.turn("two");
    let records = |id: &str| {
        let short =
            |record: &Value| format!("{} {}", record["turn"], record["kind"].as_str().expect("a kind"));
        records(&store, id).iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(records(&agent.session), ["1 begin", "1 end", "2 begin", "2 cut"]);
    assert_eq!(records(&new), ["1 begin", "1 end", "2 begin", "2 end"]);
}

#[test]
fn the_end_of_the_input_has_the_effect_of_the_flag() {
    let store = TestDir::new();
    let (go, at) = (store.text("go"), store.text(""));
    for (how, kinds) in [("exit", vec!["begin"]), ("finish", vec!["begin", "end"])] {
        let _ = std::fs::remove_file(&go);
        let mut agent = AcpAgentProcess::with_session(&["--store", &at, "--at-eof", how]);
        agent.begin("turn", &format!("say:begun\nwait-file:{go}"));
        while !agent.line().contains("begun") {}
        agent.input = None;
        if how == "finish" {
            std::fs::write(&go, "").expect("write a file");
        }
        assert_eq!(agent.child.wait().expect("wait").code(), Some(0));
        let found: Vec<_> =
            records(&store, &agent.session).iter().map(|record| record["kind"].clone()).collect();
        assert_eq!(found, kinds, "{how}");
    }
}

#[test]
fn children_and_first_steps_are_those_of_the_other_language() {
    let scratch = TestDir::new();
    let pids = scratch.text("pids");
    let mut agent = AcpAgentProcess::with_session(&["--do", &format!("pidfile:{pids} ignore:TERM")]);
    agent.turn("child [ setsid hang ]");
    let text = std::fs::read_to_string(&pids).expect("pids");
    let found: Vec<i32> = text.lines().map(|line| line.parse().expect("a pid")).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].cast_unsigned(), agent.child.id());
    let child = rustix::process::Pid::from_raw(found[1]).expect("a pid");
    rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("it hangs");
}
