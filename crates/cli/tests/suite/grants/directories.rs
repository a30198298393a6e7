//! Where an agent may start sessions: in its own directory and below it, where a session is, and where the config says.

use std::fs;

use serde_json::json;

use crate::grants::stdio::{answer, call, said};
use crate::grants::{agent, inside, lab};

#[test]
fn an_agent_below_control_starts_sessions_only_in_directories_that_the_owner_chose() {
    let lab = lab();
    let dir = |name: &str| {
        let dir = lab.dir().canonicalize().expect("the lab").join(name);
        fs::create_dir_all(&dir).expect("a directory");
        dir.display().to_string()
    };
    let (own, below, owners, other) = (dir("own"), dir("own/below"), dir("owners"), dir("other"));
    for (name, grant) in [("outer", "none"), ("sender", "send"), ("decider", "control")] {
        let grant: &[&str] = if grant == "none" { &[] } else { &["--grant", grant] };
        agent(&lab, name, &[&["--cwd", own.as_str()], grant].concat());
    }
    agent(&lab, "owners", &["--cwd", &owners]);
    let run = |dir: &str| format!("berth run -d --agent fake --cwd {dir}");
    for weak in ["outer", "sender"] {
        for good in [&own, &below, &owners] {
            inside(&lab, weak, &run(good)).ok();
        }
        let heard = inside(&lab, weak, &run(&other));
        assert_eq!(heard.code, 11, "{heard:?}");
        assert!(heard.text.contains("[send]") && heard.text.contains("--grant control"), "{heard:?}");
        assert_eq!(inside(&lab, weak, &format!("cd {other}; berth run -d -- true")).code, 11);
    }
    inside(&lab, "decider", &run(&other)).ok();
    // There is a session in that directory now, so an agent may start one there.
    inside(&lab, "outer", &run(&other)).ok();
}

#[test]
fn the_mcp_and_acp_adapters_of_an_agent_start_no_session_in_a_directory_that_the_owner_did_not_choose() {
    let lab = lab();
    let lab_dir = lab.dir().canonicalize().expect("the lab");
    let other = lab_dir.join("other");
    fs::create_dir_all(&other).expect("a directory");
    agent(&lab, "outer", &[]);
    let info = json!({"name": "test", "version": "1"});
    let start = json!({"name": "start_session", "arguments": {"agent": "fake", "cwd": other}});
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
            call(2, "tools/call", &start),
        ],
    );
    let refused = answer(&heard, 2);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused.to_string().contains("[send]"), "{refused}");
    let heard = said(
        &lab,
        "berth acp --agent fake",
        &[
            call(1, "initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}})),
            call(2, "session/new", &json!({"cwd": other, "mcpServers": []})),
        ],
    );
    let refused = answer(&heard, 2);
    assert!(refused["error"].to_string().contains("[send]"), "{heard:?}");
    assert_eq!(lab.ok(["ls", "--all", "--ids"]).lines().count(), 1, "only `outer`");
}
