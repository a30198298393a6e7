//! Evidence, processes, agents, doctor, sweep, grep.

use berth_harness::HttpResponse;
use serde_json::{Value, json};

use crate::gateway_sessions::{GatewayApiFixture, at_once, text};

#[test]
fn the_api_tells_of_a_session_and_its_processes_what_the_command_line_tells() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    let why = api.get(&format!("/v1/sessions/{id}/why"));
    let of_cli = api.lab.json(["why", &id, "--json"]);
    assert_eq!((&why["state"], &why["would_change"]), (&of_cli["state"], &of_cli["would_change"]));
    let sources = |why: &Value| -> Vec<Value> {
        why["evidence"].as_array().expect("a list").iter().map(|fact| fact["source"].clone()).collect()
    };
    assert_eq!(sources(&why), sources(&of_cli));
    let processes = api.get(&format!("/v1/sessions/{id}/processes"));
    let pids = |block: &Value| -> Vec<Value> {
        block["processes"].as_array().expect("a list").iter().map(|row| row["pid"].clone()).collect()
    };
    assert_eq!(pids(&processes), pids(&api.lab.json(["ps", &id, "--json"])[0]));
    assert_eq!(pids(&api.get("/v1/processes")["sessions"][0]), pids(&processes));
    let pid = api.session(&id)["pid"].as_u64().expect("a pid");
    let whose = api.get(&format!("/v1/why?pid={pid}"));
    assert_eq!((&whose["session"], &whose["verdict"]), (&json!(id), &json!("ours")));
    assert_eq!(api.get(&format!("/v1/why?pid={}", api.gateway.pid()))["verdict"], "not-ours");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let holders = api.get(&format!("/v1/ports/{port}"));
    assert_eq!(holders["holders"], api.lab.json(["ps", "--port", &port.to_string(), "--json"]));
    assert_eq!(holders["holders"][0]["pid"], std::process::id());
    drop(listener);
    api.gateway.get(&format!("/v1/ports/{port}")).problem(404, "not-found");
    for bad in ["0", "65536", "x", "-1"] {
        api.gateway.get(&format!("/v1/ports/{bad}")).problem(400, "usage");
    }
    api.gateway.get("/v1/why?pid=x").problem(400, "usage");
    api.gateway.get("/v1/why").problem(400, "usage");
    api.gateway.get("/v1/why?pid=4194305").problem(404, "not-found");
}

#[test]
fn agents_doctor_and_sweep_are_those_of_the_command_line_and_harm_no_session() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    let (pid, keeper) = (api.lab.process(&id, "pid"), api.lab.process(&id, "keeper_pid"));
    let agents = api.get("/v1/agents");
    assert_eq!(agents["agents"], api.lab.json(["agents", "--json"]));
    // A session that the gateway started lives through the question about agents.
    assert_eq!(api.session(&id)["state"], "running");
    assert!(agents["agents"].as_array().expect("a list").iter().any(|agent| agent["name"] == "fake"));
    let doctor = api.get("/v1/doctor");
    let names = |report: &Value| -> Vec<Value> {
        report["rows"].as_array().expect("a list").iter().map(|row| row["name"].clone()).collect()
    };
    assert_eq!(names(&doctor), names(&api.lab.json(["doctor", "--json"])));
    let report = api.post("/v1/sweep", json!({"dry_run": true})).ok();
    assert_eq!((&report["dry_run"], &report["alive"][0]["id"]), (&json!(true), &json!(id)));
    api.lab.kill_keeper(&id);
    let report = api.post("/v1/sweep", json!({})).ok();
    let swept = report["left_over"].to_string() + &report["no_process"].to_string();
    assert!(swept.contains(&id), "{report}");
    berth_harness::wait_gone(&pid);
    berth_harness::wait_gone(&keeper);
    api.post("/v1/sweep", json!({"odd": 1})).problem(400, "usage");
}

#[test]
fn words_are_found_where_the_command_line_finds_them() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix", "prompt": "say:the needle is here"}));
    api.wait_idle(&id);
    let other = api.fake(json!({"prompt": "say:another NEEDLE"}));
    api.wait_idle(&other);
    let lines = |query: &str| -> Vec<Value> {
        api.get(&format!("/v1/grep?{query}"))["lines"].as_array().expect("a list").clone()
    };
    let of_cli = |args: &[&str]| -> Vec<Value> {
        let said = api.lab.ok([&["grep", "--json"], args].concat());
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    assert_eq!(lines("pattern=needle"), of_cli(&["needle"]));
    assert_eq!(lines("pattern=needle&ignore_case=true"), of_cli(&["-i", "needle"]));
    assert!(lines("pattern=needle&ignore_case=true").iter().any(|line| text(line, "session") == other));
    assert!(lines(&format!("pattern=NEEDLE&session={id}")).is_empty());
    let cut = api.get("/v1/grep?pattern=needle&ignore_case=true&limit=1");
    assert_eq!((cut["lines"].as_array().map(Vec::len), &cut["more"]), (Some(1), &json!(true)));
    assert!(lines("pattern=no.such&fixed=true").is_empty());
    for bad in ["", "pattern=", "pattern=%28", "pattern=x&odd=1", "pattern=x&limit=-1"] {
        api.gateway.get(&format!("/v1/grep?{bad}")).problem(400, "usage");
    }
    api.gateway.get("/v1/grep?pattern=x&session=nobody").problem(404, "not-found");
}

#[test]
fn a_pattern_takes_little_memory_and_of_many_searches_some_come_again_later() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"prompt": "flood:8M"}));
    api.wait_idle(&id);
    let huge = "pattern=%28a%7B1000%7D%29%7B1000%7D";
    api.gateway.get(&format!("/v1/grep?{huge}")).problem(400, "usage");
    let long = "%5CpL".repeat(5000);
    api.gateway.get(&format!("/v1/grep?pattern={long}")).problem(400, "usage");
    let search = || {
        Box::new(|| api.gateway.get("/v1/grep?pattern=nothing.like.this")) as Box<dyn FnOnce() -> _ + Send>
    };
    let replies: Vec<HttpResponse> = at_once((0..30).map(|_| search()).collect());
    let (found, later): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    assert!(!found.is_empty() && !later.is_empty(), "{} of 30", found.len());
    for reply in later {
        reply.problem(429, "full");
        assert!(reply.header("retry-after").is_some());
    }
    // Finished searches make room.
    assert_eq!(api.get("/v1/grep?pattern=nothing.like.this")["more"], false);
}

#[test]
fn a_search_that_takes_too_long_returns_the_matches_so_far() {
    let mut api = GatewayApiFixture::new();
    let id = api.fake(json!({"prompt": "say:the needle"}));
    api.wait_idle(&id);
    api.gateway.kill();
    api.gateway = api.lab.serve_in(&[], &[("BERTH_SEARCH_MS", "0")]);
    let found = api.get("/v1/grep?pattern=needle");
    assert_eq!((&found["lines"], &found["more"]), (&json!([]), &json!(true)));
}

#[test]
fn every_answer_has_a_schema_with_one_name() {
    let api = GatewayApiFixture::new();
    let description = api.get("/openapi.json");
    let schemas = description["components"]["schemas"].as_object().expect("schemas");
    let doubled: Vec<_> =
        schemas.keys().filter(|name| name.ends_with(|c: char| c.is_ascii_digit())).collect();
    assert!(doubled.is_empty(), "two types of one name: {doubled:?}");
    let expected =
        ["SessionStatus", "TurnReceipt", "Transcript", "SweepReport", "StateExplanation", "CreateSession"];
    for name in expected {
        assert!(schemas.contains_key(name), "no {name} in {:?}", schemas.keys());
    }
    assert_eq!(schemas["SessionStatus"]["properties"]["created_at"]["format"], "date-time");
}

#[test]
fn however_many_ask_about_the_agents_each_is_started_once() {
    let api = GatewayApiFixture::new();
    let (starts, bin) = (api.lab.dir().join("starts"), api.lab.dir().join("bin"));
    std::fs::create_dir(&bin).expect("a directory for programs");
    let text = format!("#!/bin/sh\necho started >>{}\necho 1.2.3\n", starts.display());
    std::fs::write(bin.join("claude"), text).expect("a script");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("claude"), all).expect("our own file");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let count = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let ask = |gateway: &berth_harness::GatewayProcess| {
        let told = gateway.get("/v1/agents").ok();
        let found = told["agents"].as_array().expect("a list").iter().find(|it| it["name"] == "claude");
        assert_eq!(found.expect("the agent")["version"], "1.2.3", "{told}");
        assert!(told["age_ms"].is_u64(), "{told}");
    };
    let GatewayApiFixture { gateway, lab } = api;
    drop(gateway);
    let gateway = lab.serve_in(&[], &[("BERTH_ANSWER_AGE_MS", "3600000"), ("PATH", &path)]);
    let asking = (0..8).map(|_| Box::new(|| ask(&gateway)) as Box<dyn FnOnce() + Send>);
    crate::gateway_sessions::at_once(asking.collect());
    ask(&gateway);
    assert_eq!(count(), 1);
    drop(gateway);
    // A cached answer that is too old is asked for again.
    let gateway = lab.serve_in(&[], &[("BERTH_ANSWER_AGE_MS", "0"), ("PATH", &path)]);
    ask(&gateway);
    ask(&gateway);
    assert_eq!(count(), 3);
}
