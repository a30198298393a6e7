//! The doors on standard input and output: `berth mcp` and `berth acp`, started as a tool of an agent.

use berth_harness::TestEnvironment;
use serde_json::{Value, json};

use crate::grants::{agent, file, inside, lab};

/// Says these lines to a command inside of the session `outer`, each when the one before it is answered,
/// and hears its answers.
pub(crate) fn said(lab: &TestEnvironment, command: &str, lines: &[Value]) -> Vec<Value> {
    let heard = file(lab, "heard");
    std::fs::write(&heard, "").expect("a file");
    let heard = heard.display();
    let mut script = String::new();
    for (at, line) in lines.iter().enumerate() {
        let said = file(lab, &format!("line.{at}"));
        std::fs::write(&said, format!("{line}\n")).expect("a file");
        script.push_str(&format!("cat {}; ", said.display()));
        if line["id"].is_u64() {
            let answered = format!("'\"id\":{}[,}}]'", line["id"]);
            script.push_str(&format!("until grep -q {answered} {heard}; do sleep 0.02; done; "));
        }
    }
    let text = inside(lab, "outer", &format!("{{ {script}}} | {command} >{heard}; cat {heard}")).ok();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn answer(heard: &[Value], id: u64) -> &Value {
    heard.iter().find(|said| said["id"] == id).unwrap_or_else(|| panic!("no answer {id}: {heard:?}"))
}

#[test]
fn an_agent_that_uses_mcp_has_the_rights_of_its_grant() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let info = json!({"name": "test", "version": "1"});
    let tool = |id, name: &str, arguments: Value| {
        call(id, "tools/call", &json!({"name": name, "arguments": arguments}))
    };
    let heard = said(
        &lab,
        "berth mcp",
        &[
            call(
                1,
                "initialize",
                &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
            ),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}),
            tool(2, "send", json!({"session": "other", "text": "do this"})),
            tool(3, "status", json!({"session": "other"})),
        ],
    );
    let refused = answer(&heard, 2);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let text = refused["result"]["content"][0]["text"].as_str().expect("words");
    assert!(text.contains("inside of session `outer` may not "), "{text}");
    assert_eq!(answer(&heard, 3)["result"]["isError"], false, "to look is free: {heard:?}");
    assert_eq!(lab.show("other")["turns"]["total"], 0);
}

#[test]
fn an_agent_that_is_an_editor_has_the_rights_of_its_grant() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let other = agent(&lab, "other", &[]);
    let prompt = json!([{"type": "text", "text": "do this"}]);
    let heard = said(
        &lab,
        "berth acp --agent fake",
        &[
            call(1, "initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}})),
            call(2, "session/load", &json!({"sessionId": other, "cwd": "/", "mcpServers": []})),
            call(3, "session/prompt", &json!({"sessionId": other, "prompt": prompt})),
        ],
    );
    let refused = answer(&heard, 3);
    assert!(refused["error"].to_string().contains("inside of session `outer` may not "), "{heard:?}");
    assert_eq!(lab.show("other")["turns"]["total"], 0);
}
