//! Transcripts and exports of sessions, in pieces and as files.

use berth_harness::{PendingResponse, wait_until};
use serde_json::{Value, json};

use crate::gateway_sessions::{GatewayApiFixture, text};

fn items(turn: &Value) -> Vec<Value> {
    turn["items"].as_array().unwrap_or_else(|| panic!("no items in {turn}")).clone()
}

#[test]
fn a_transcript_has_texts_thoughts_and_tools_in_order_and_in_pages() {
    let api = GatewayApiFixture::new();
    let prompt = "think:first a thought\nsay:before\ntool:Read:/some/file\nsay:after";
    let id = api.fake(json!({"name": "fix", "prompt": prompt}));
    api.wait_idle(&id);
    for number in 2..=5 {
        api.lab.ok(["send", &id, "--wait", &format!("say:answer {number}")]);
    }
    let page = api.get("/v1/sessions/fix/transcript");
    assert_eq!((page["turns"].as_array().map(Vec::len), &page["next_after"]), (Some(5), &json!(null)));
    let first = &page["turns"][0];
    assert_eq!((&first["prompt"], &first["state"]), (&json!(prompt), &json!("done")));
    let kinds: Vec<String> = items(first).iter().map(|item| text(item, "kind")).collect();
    assert_eq!(kinds, ["thought", "text", "tool", "text"], "{first}");
    let tool = &items(first)[2];
    assert!(tool.to_string().contains("/some/file"), "{tool}");
    assert_eq!(text(&items(&page["turns"][4])[0], "text"), "answer 5");
    // Read in pages.
    let part = api.get("/v1/sessions/fix/transcript?after=1&limit=2");
    let numbers: Vec<_> =
        part["turns"].as_array().expect("a list").iter().map(|it| it["number"].clone()).collect();
    assert_eq!((numbers, &part["next_after"]), (vec![json!(2), json!(3)], &json!(3)));
    let rest = api.get("/v1/sessions/fix/transcript?after=3&limit=2");
    assert_eq!((rest["turns"].as_array().map(Vec::len), &rest["next_after"]), (Some(2), &json!(null)));
    assert_eq!(api.get("/v1/sessions/fix/transcript?after=99")["turns"], json!([]));
    api.gateway.get("/v1/sessions/fix/transcript?after=x").problem(400, "usage");
}

#[test]
fn a_transcript_is_bounded_whatever_the_agent_says() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"prompt": "flood:8M"}));
    api.wait_idle(&id);
    let reply = api.gateway.get(&format!("/v1/sessions/{id}/transcript"));
    assert!(reply.body.len() < 4 << 20, "{}", reply.body.len());
    let page = reply.ok();
    assert_eq!(page["turns"][0]["items_cut"], true);
    assert_eq!(items(&page["turns"][0])[0]["cut"], true);
}

#[test]
fn a_terminal_has_no_transcript_and_says_where_to_look() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    let problem = api.gateway.get(&format!("/v1/sessions/{id}/transcript")).problem(409, "refused");
    assert!(text(&problem, "detail").contains("screen"), "{problem}");
}

#[test]
fn a_file_from_the_api_equals_the_file_of_the_command_line() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix", "prompt": "tool:Read:/x\nsay:done"}));
    api.wait_idle(&id);
    api.post(&format!("/v1/sessions/{id}/stop"), json!({})).ok();
    for (format, of_cli, kind, name) in [
        ("markdown", "md", "text/markdown; charset=utf-8", "fix.md"),
        ("events", "jsonl", "application/x-ndjson", "fix.jsonl"),
        ("json", "json", "application/json", "fix.json"),
    ] {
        let reply = api.gateway.get(&format!("/v1/sessions/fix/export?format={format}"));
        let written = api.lab.berth(["export", "fix", "--format", of_cli, "-o", "-"]);
        assert_eq!(reply.text(), written.out, "{format}");
        assert_eq!(reply.header("content-type"), Some(kind));
        assert!(reply.header("content-disposition").is_some_and(|it| it.contains(name)), "{reply:?}");
    }
    let refused = api.gateway.get("/v1/sessions/fix/export?format=cast");
    refused.problem(400, "usage");
    api.gateway.get("/v1/sessions/fix/export?run=9").problem(404, "not-found");
    api.gateway.get("/v1/sessions/fix/export?format=odd").problem(400, "usage");
    let terminal = api.terminal(&["say:hello", "exit:0"]);
    api.lab.berth(["wait", &terminal]);
    let recording = api.gateway.get(&format!("/v1/sessions/{terminal}/export"));
    assert_eq!(recording.header("content-type"), Some("application/x-asciicast"));
    assert_eq!(recording.text(), api.lab.berth(["export", &terminal, "-o", "-"]).out);
}

/// Each client that reads nothing keeps a thread of the gateway; there are 512 of them.
#[test]
fn clients_that_do_not_read_their_exports_keep_no_other_client_out() {
    const MANY: usize = 600;
    berth_host::open_file_limit::raise_limit(4096).expect("a limit");
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["flood:8M", "exit:0"]);
    wait_until("its end", || api.session(&id)["state"] == "stopped");
    let path = format!("/v1/sessions/{id}/export?format=cast");
    assert!(api.gateway.get(&path).body.len() > 4 << 20, "more than fits on the way");
    let mut deaf: Vec<PendingResponse> =
        (0..MANY).map(|_| api.gateway.begin("GET", &path, &[], None)).collect();
    let last = deaf.pop().expect("many").reply();
    last.problem(429, "full");
    assert!(last.header("retry-after").is_some());
    assert_eq!(api.get("/v1/sessions")["sessions"].as_array().map(Vec::len), Some(1));
    // When they are gone there is room again.
    drop(deaf);
    wait_until("a seat", || api.gateway.get(&path).status == 200);
}

#[test]
fn a_request_cannot_make_a_verb_wait_for_longer_than_an_hour() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    let ages = json!({"grace_ms": 3_600_001});
    api.post(&format!("/v1/sessions/{id}/stop"), ages.clone()).problem(400, "usage");
    let archive = json!({"stop": true, "grace_ms": u64::MAX});
    api.post(&format!("/v1/sessions/{id}/archive"), archive).problem(400, "usage");
    let helper = json!({"name": "x", "owner": id, "command": ["true"], "ready_timeout_ms": u64::MAX});
    api.post("/v1/helpers", helper).problem(400, "usage");
    let made = json!({"name": "x", "owner": id, "command": [api.lab.agent(), "hang"]});
    api.post("/v1/helpers", made).ok();
    api.post("/v1/helpers/x/stop", ages).problem(400, "usage");
    assert_eq!(api.session(&id)["state"], "running");
    api.post("/v1/helpers/x/stop", json!({"grace_ms": 0})).ok();
}
