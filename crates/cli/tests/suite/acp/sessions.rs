//! Opening, listing and closing sessions, and input that is not valid.

use berth_harness::RpcClient;
use serde_json::{Value, json};

use crate::acp::{AcpEditor, lab};
use crate::turns::common::damaged_at_the_first_turn;

#[test]
fn an_editor_is_told_the_capabilities_that_exist_and_no_others() {
    let lab = lab();
    let mut editor = AcpEditor::silent(&lab, &[]);
    let early = editor.refused("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(early["code"], -32600, "{early}");
    let said = editor.ok("initialize", json!({"protocolVersion": 7, "clientCapabilities": {}}));
    assert_eq!(said["protocolVersion"], 1, "the version we speak: {said}");
    let able = &said["agentCapabilities"];
    assert_eq!(able["loadSession"], true);
    assert_eq!(
        (&able["promptCapabilities"]["image"], &able["promptCapabilities"]["embeddedContext"]),
        (&false.into(), &true.into())
    );
    for offered in ["list", "resume"] {
        assert!(able["sessionCapabilities"][offered].is_object(), "{offered}: {able}");
    }
    assert!(able["sessionCapabilities"]["close"].is_null(), "it would have to end what goes on: {able}");
    assert_eq!(said["agentInfo"]["name"], "berth");
    assert_eq!(editor.refused("session/set_mode", json!({}))["code"], -32601);
}

#[test]
fn invalid_input_is_refused_with_the_name_of_the_mistake_and_the_next_line_is_read() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    editor.rpc.talk.say(&Value::String("no message".into()));
    let odd = editor.rpc.talk.wait("a complaint", |said| said["error"]["code"] == -32700);
    assert!(odd["id"].is_null(), "{odd}");
    let prompt = |content: Value| json!({"sessionId": session, "prompt": content});
    let cases = [
        (
            "session/prompt",
            prompt(json!([{"type": "image", "data": "", "mimeType": "image/png"}])),
            -32602,
            "an image",
        ),
        ("session/prompt", prompt(json!([])), -32602, "empty"),
        (
            "session/prompt",
            prompt(json!([{"type": "text", "text": "x".repeat((1 << 20) + 1)}])),
            -32602,
            "longest",
        ),
        ("session/prompt", prompt(json!({})), -32602, "array"),
        ("session/prompt", json!({"sessionId": "other", "prompt": []}), -32002, "not open"),
        ("session/load", json!({"sessionId": "../../etc", "cwd": "/"}), -32002, "etc"),
        ("session/load", json!({"sessionId": 7, "cwd": "/"}), -32002, ""),
        ("session/resume", json!({"sessionId": "other", "cwd": "/"}), -32002, "other"),
        ("session/close", json!({"sessionId": "other"}), -32002, "other"),
        ("session/new", json!({"cwd": "here", "mcpServers": []}), -32602, "absolute"),
        ("session/new", json!({"cwd": "/no/such/place", "mcpServers": []}), -32603, "/no/such/place"),
        ("session/list", json!({"cursor": "x"}), -32602, "cursor"),
    ];
    for (method, params, code, named) in cases {
        let error = editor.refused(method, params);
        assert_eq!(error["code"], code, "{method}: {error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(named)), "{method}: {error}");
    }
    assert_eq!(lab.json(["turns", &session, "--json"]), json!([]), "nothing was sent");
    let last = editor.prompt(&session, "still here");
    assert_eq!(editor.rpc.answer(last)["result"]["stopReason"], "end_turn");
}

#[test]
fn links_and_files_in_a_prompt_reach_the_agent_as_text() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let content = json!([
        {"type": "text", "text": "look at "},
        {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
        {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
    ]);
    editor.ok("session/prompt", json!({"sessionId": session, "prompt": content}));
    let expected = "look at [@a.rs](file:///a.rs)\n<context ref=\"file:///b.rs\">\nfn b() {}\n</context>";
    assert_eq!(lab.json(["turn", &format!("{session}.1"), "--json"])["prompt"], expected);
}

#[test]
fn sessions_are_listed_loaded_by_name_resumed_without_their_past_and_closed_without_an_end() {
    let lab = lab();
    let here = lab.dir().join("here");
    std::fs::create_dir(&here).expect("a directory");
    let dir = here.display().to_string();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "fix", "--cwd", &dir]);
    lab.ok(["send", "fix", "--wait", "hello"]);
    lab.start_with(&["--name", "terminal"], &["hang"]);
    let mut editor = AcpEditor::start(&lab, &[]);
    let all = editor.ok("session/list", json!({}));
    let sessions = all["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 1, "a terminal takes no turns: {all}");
    assert_eq!((&sessions[0]["sessionId"], &sessions[0]["title"]), (&id.as_str().into(), &"fix".into()));
    assert_eq!(sessions[0]["cwd"], std::fs::canonicalize(&here).expect("it is there").display().to_string());
    let elsewhere = editor.ok("session/list", json!({"cwd": "/"}));
    assert_eq!(elsewhere["sessions"], json!([]));
    assert_eq!(editor.ok("session/list", json!({"cwd": dir}))["sessions"].as_array().map(Vec::len), Some(1));
    let terminal = editor.refused("session/load", json!({"sessionId": "terminal", "cwd": "/"}));
    assert!(terminal["message"].as_str().is_some_and(|said| said.contains("takes no turns")), "{terminal}");
    editor.ok("session/resume", json!({"sessionId": "fix", "cwd": "/", "mcpServers": []}));
    assert!(editor.told().is_empty(), "{:?}", editor.told());
    editor.load("fix");
    assert_eq!(editor.told(), ["user_message_chunk: hello", "agent_message_chunk: ECHO: hello"]);
    editor.ok("session/close", json!({"sessionId": "fix"}));
    assert_eq!(lab.show("fix")["state"], "idle");
    assert_eq!(editor.refused("session/prompt", json!({"sessionId": "fix", "prompt": []}))["code"], -32002);
    // The editor is not told of turns that happen now.
    lab.ok(["send", "fix", "--wait", "unheard"]);
    editor.ok("session/list", json!({}));
    assert!(!editor.said().contains("unheard"), "{:?}", editor.told());
}

#[test]
fn a_session_is_resumed_without_a_read_of_its_first_turns_and_loaded_only_with_them() {
    let lab = lab();
    let id = damaged_at_the_first_turn(&lab);
    let mut editor = AcpEditor::start(&lab, &[&id]);
    let params = json!({"sessionId": id, "cwd": lab.dir(), "mcpServers": []});
    editor.ok("session/resume", params.clone());
    assert_eq!(editor.new_session(lab.dir()), id);
    let refused = editor.refused("session/load", params);
    assert!(refused["message"].as_str().is_some_and(|said| said.contains("is damaged")), "{refused}");
    let prompt = editor.prompt(&id, "prompt");
    let answer = editor.rpc.answer(prompt);
    assert_eq!(answer["error"]["code"], -32002, "a session that cannot be loaded is not open: {answer}");
}

#[test]
fn a_session_that_was_stopped_goes_on_with_a_prompt_and_its_past_is_told_once() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let session = editor.new_session(lab.dir());
    let first = editor.prompt(&session, "tool:Read:x\nsay:first");
    editor.rpc.answer(first);
    lab.ok(["stop", &session]);
    let second = editor.prompt(&session, "second");
    let said = editor.rpc.answer(second);
    assert_eq!(said["result"]["stopReason"], "end_turn", "{said}");
    let mut other = AcpEditor::start(&lab, &[]);
    other.load(&session);
    let told = other.told();
    assert_eq!(told.iter().filter(|line| line.starts_with("tool_call: ")).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("user_message_chunk")).count(), 2, "{told:?}");
}

#[test]
fn an_editor_with_one_session_gets_no_other() {
    let lab = lab();
    let one = lab.ok(["run", "-d", "--agent", "fake", "--name", "one"]);
    lab.ok(["run", "-d", "--agent", "fake", "--name", "two"]);
    let mut editor = AcpEditor::start(&lab, &["one"]);
    assert_eq!(editor.new_session(lab.dir()), one);
    assert_eq!(editor.ok("session/list", json!({}))["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(editor.refused("session/load", json!({"sessionId": "two", "cwd": "/"}))["code"], -32002);
    let none = lab.berth(["acp", "three"]);
    assert_eq!((none.code, none.out.as_str()), (3, ""), "{none:?}");
    lab.start_with(&["--name", "terminal"], &["hang"]);
    let terminal = lab.berth(["acp", "terminal"]);
    assert_eq!((terminal.code, terminal.out.as_str()), (1, ""), "{terminal:?}");
}

#[test]
fn mcp_servers_of_the_editor_are_not_passed_on_and_that_is_said() {
    let lab = lab();
    let mut editor = AcpEditor::silent(&lab, &[]);
    let capabilities = json!({"session": {"notices": {}}});
    editor.ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let server = json!({"name": "files", "command": "/bin/false", "args": [], "env": []});
    let said = editor.ok("session/new", json!({"cwd": lab.dir(), "mcpServers": [server]}));
    assert_eq!(said["_meta"]["berth"]["mcpServersPassedOn"], 0, "{said}");
    editor.hears("notice", "not passed on");
}

#[test]
fn debug_logs_go_to_stderr_and_contain_no_prompt_text() {
    let lab = lab();
    let command = &mut lab.command(["acp", "--agent", "fake"]);
    let mut editor = AcpEditor { rpc: RpcClient::start(command.env("BERTH_LOG", "trace")) };
    editor.ok("initialize", json!({"protocolVersion": 1}));
    let session = editor.new_session(lab.dir());
    let prompt = editor.prompt(&session, "between-us");
    editor.rpc.answer(prompt);
    assert!(editor.rpc.talk.heard.iter().all(|said| said["jsonrpc"] == "2.0"), "{:?}", editor.rpc.talk.heard);
    let (code, log) = editor.rpc.talk.end();
    assert_eq!(code, 0);
    assert!(log.contains("asked the keeper"), "{log}");
    assert!(!log.contains("between-us"), "{log}");
}

#[test]
fn a_session_that_is_purged_under_the_editor_is_told_and_ends_nothing_else() {
    let lab = lab();
    let mut editor = AcpEditor::start(&lab, &[]);
    let (one, two) = (editor.new_session(lab.dir()), editor.new_session(lab.dir()));
    lab.ok(["stop", &one]);
    lab.ok(["purge", &one, "--yes"]);
    editor.hears("agent_message_chunk", "purged");
    let gone = editor.prompt(&one, "is this closed?");
    assert_eq!(editor.rpc.answer(gone)["error"]["code"], -32002);
    let there = editor.prompt(&two, "still here");
    assert_eq!(editor.rpc.answer(there)["result"]["stopReason"], "end_turn");
}

#[test]
fn an_agent_that_there_is_not_or_that_takes_no_turns_is_refused_before_a_word_is_said() {
    let lab = lab();
    let said = lab.berth(["acp", "--agent", "nope"]);
    assert!(said.code == 3 && said.err.contains("no agent is called `nope`"), "{said:?}");
    assert_eq!(said.out, "");
    let text = std::fs::read_to_string(lab.config()).expect("the config");
    std::fs::write(lab.config(), text + "[agents.shell]\ndriver = \"pty\"\ncommand = [\"sh\"]\n")
        .expect("a file");
    let said = lab.berth(["acp", "--agent", "shell"]);
    assert!(said.code == 2 && said.err.contains("takes no turns"), "{said:?}");
    // One session that was named needs no agent for others.
    let session = lab.ok(["run", "-d", "--agent", "fake"]);
    assert_eq!(lab.berth(["acp", &session, "--agent", "nope"]).code, 0);
}
