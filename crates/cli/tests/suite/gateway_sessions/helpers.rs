//! Helpers through the gateway.

use berth_harness::{HttpResponse, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use serde_json::{Value, json};

use crate::gateway_sessions::{GatewayApiFixture, at_once, text};

fn ensure(api: &GatewayApiFixture, name: &str, owner: &str, more: Value) -> HttpResponse {
    let mut body = json!({"name": name, "owner": owner, "command": [api.lab.agent(), "hang"]});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    api.post("/v1/helpers", body)
}

fn process(status: &Value) -> ProcessIdentity {
    let pid = status["pid"].as_u64().unwrap_or_else(|| panic!("no pid in {status}"));
    ProcessIdentity::of(u32::try_from(pid).expect("a pid")).expect("it runs")
}

#[test]
fn d12_two_first_uses_at_the_same_moment_give_one_helper_and_leak_no_process() {
    let api = GatewayApiFixture::new();
    let owners: Vec<String> = (0..3).map(|_| api.terminal(&["hang"])).collect();
    for round in 0..5 {
        let name = format!("broker-{round}");
        let works = owners.iter().map(|owner| {
            let (api, name) = (&api, &name);
            Box::new(move || ensure(api, name, owner, json!({})))
                as Box<dyn FnOnce() -> HttpResponse + Send + '_>
        });
        let replies: Vec<Value> = at_once(works.collect()).iter().map(HttpResponse::ok).collect();
        let pids: Vec<_> = replies.iter().map(|reply| reply["pid"].clone()).collect();
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
        let id = text(&replies[0], "id");
        let helper = api.get(&format!("/v1/helpers/{id}"));
        assert_eq!(helper["helper"]["owners"].as_array().map(Vec::len), Some(3), "{helper}");
        let processes = api.get("/v1/processes");
        let blocks = processes["sessions"].as_array().expect("a list");
        let block = blocks.iter().find(|block| block["session"] == id.as_str()).expect("the helper runs");
        assert_eq!(block["processes"].as_array().map(Vec::len), Some(2), "keeper and helper: {block}");
        let running = process(&helper);
        for owner in &owners {
            let released = api.post(&format!("/v1/helpers/{id}/release"), json!({"owner": owner}));
            released.ok();
        }
        wait_gone(&running);
        wait_until("the end to be recorded", || api.get(&format!("/v1/helpers/{id}"))["state"] == "stopped");
        assert_eq!(api.get(&format!("/v1/helpers/{id}"))["epoch"], 1);
    }
}

#[test]
fn a_helper_is_listed_read_and_stopped() {
    let api = GatewayApiFixture::new();
    let owner = api.terminal(&["hang"]);
    api.lab.ok(["rename", &owner, "fix"]);
    let command = json!([api.lab.agent(), "say:listening on it", "hang"]);
    let made =
        ensure(&api, "web", "fix", json!({"command": command, "ready": "line:listening", "scope": "user"}));
    let made = made.ok();
    assert_eq!((&made["helper"]["ready"], &made["helper"]["scope"]), (&json!(true), &json!("user")));
    assert_eq!(made["helper"]["owners"][0]["name"], "fix");
    let listed = api.get("/v1/helpers");
    assert_eq!(listed["helpers"], api.lab.json(["helper", "ls", "--json"]));
    assert_eq!(api.get("/v1/helpers/web")["id"], made["id"]);
    let log = api.get("/v1/helpers/web/log");
    let kinds: Vec<_> =
        log["events"].as_array().expect("a list").iter().map(|it| it["event"].clone()).collect();
    assert!(kinds.contains(&json!("became_ready")), "{log}");
    assert_eq!(log["next_after"], json!(null), "that was all: {log}");
    let part = api.get("/v1/helpers/web/log?after=1&limit=1");
    assert_eq!((&part["events"][0]["seq"], &part["next_after"]), (&json!(2), &json!(2)));
    let output = api.gateway.get("/v1/helpers/web/output");
    assert!(output.text().contains("listening on it"), "{}", output.text());
    let end: u64 = output.header("x-output-end").and_then(|end| end.parse().ok()).expect("a number");
    assert_eq!(end, output.body.len() as u64);
    assert_eq!(api.gateway.get(&format!("/v1/helpers/web/output?from={}&limit=2", end - 1)).body.len(), 1);
    assert_eq!(api.post("/v1/helpers/web/stop", json!({})).ok()["state"], "stopped");
    assert_eq!(api.get("/v1/helpers")["helpers"], json!([]));
    assert_eq!(api.get("/v1/helpers?all=true")["helpers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_invalid_helper_is_refused_with_the_reason() {
    let api = GatewayApiFixture::new();
    let owner = api.terminal(&["hang"]);
    for (more, status, code) in [
        (json!({"owner": "nobody"}), 404, "not-found"),
        (json!({"command": []}), 400, "usage"),
        (json!({"cwd": "relative"}), 400, "usage"),
        (json!({"cwd": "/not/there"}), 409, "refused"),
        (json!({"ready": "odd"}), 400, "usage"),
        (json!({"ready": "line:("}), 400, "usage"),
        (json!({"scope": "odd"}), 400, "usage"),
        (json!({"name": "a/b"}), 400, "usage"),
        (json!({"odd": 1}), 400, "usage"),
    ] {
        let reply = ensure(&api, "web", &owner, more.clone());
        assert_eq!(reply.status, status, "{more}: {}", reply.text());
        reply.problem(status, code);
    }
    for path in ["", "/log", "/output"] {
        api.gateway.get(&format!("/v1/helpers/nothing{path}")).problem(404, "not-found");
    }
    for (path, body) in [("stop", json!({})), ("release", json!({"owner": owner}))] {
        api.post(&format!("/v1/helpers/nothing/{path}"), body).problem(404, "not-found");
    }
    assert_eq!(api.get("/v1/helpers?all=true")["helpers"], json!([]));
    // A helper of this name runs another command.
    ensure(&api, "web", &owner, json!({})).ok();
    ensure(&api, "web", &owner, json!({"command": ["sleep", "1"]})).problem(409, "refused");
}
