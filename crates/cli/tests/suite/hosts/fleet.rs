//! Other hosts through the gateway.

use berth_harness::{GatewayProcess, TestHostPair, wait_until};
use serde_json::json;

use crate::hosts::added;

fn served(hosts: &TestHostPair) -> GatewayProcess {
    hosts.configure();
    hosts.here.serve()
}

#[test]
fn requests_of_this_host_work_on_another_host() {
    let hosts = added();
    let id = hosts.there.start_with(&["--name", "fix"], &["hang"]);
    let gateway = served(&hosts);
    let known = gateway.get("/v1/hosts").ok();
    assert_eq!(known["hosts"][0]["name"], "box");
    assert_eq!(known["hosts"][0]["sessions"][0]["id"], id);
    assert_eq!(gateway.get("/v1/hosts/box/sessions/fix").ok()["id"], id);
    gateway.get("/v1/hosts/box/sessions/nobody").problem(404, "not-found");
    gateway.get("/v1/hosts/other/sessions").problem(404, "not-found");
    gateway.get("/v1/hosts/box/hosts").problem(400, "usage");
    // Many requests at a time, on few connections.
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| gateway.get("/v1/hosts/box/sessions/fix").ok()["id"].clone()))
            .collect();
        for asked in asking {
            assert_eq!(asked.join().expect("asked"), json!(id));
        }
    });
}

#[test]
fn a_host_that_is_away_is_503_and_the_gateway_serves_on() {
    let hosts = added();
    let gateway = served(&hosts);
    hosts.cut();
    let told = gateway.get("/v1/hosts/box/sessions").problem(503, "unreachable");
    assert!(told["title"].as_str().is_some_and(|title| title.contains("box")), "{told}");
    let known = gateway.get("/v1/hosts").ok();
    assert!(known["hosts"][0]["away"].is_string(), "{known}");
    assert_eq!(gateway.get("/healthz").ok()["status"], "ok");
}

/// Asks the gateway from inside of a session on this host, which was started with these options: status and body.
fn from_inside(hosts: &TestHostPair, options: &[&str], method: &str, path: &str) -> String {
    let told = hosts.here.dir().join("told");
    let _ = std::fs::remove_file(&told);
    let script = format!(
        "curl -sS -X {method} -H 'content-type: application/json' -d '{{}}' -w ' %{{http_code}}' \
         --unix-socket $BERTH_HOME/gateway.sock http://localhost/v1{path} >{0}.part 2>&1; mv {0}.part {0}",
        told.display()
    );
    hosts.ok(&[&["run", "-d"], options, &["--", "sh", "-c", &script]].concat());
    wait_until("it to have asked", || told.exists());
    std::fs::read_to_string(&told).expect("the answer it got")
}

#[test]
fn an_agent_has_the_rights_of_its_grant_on_another_host_and_no_more() {
    let hosts = added();
    hosts.there.start_with(&["--name", "fix"], &["hang"]);
    let _gateway = served(&hosts);
    let stop = "/hosts/box/sessions/fix/stop";
    for grant in [&[][..], &["--grant", "send"]] {
        let said = from_inside(&hosts, grant, "POST", stop);
        assert!(said.ends_with(" 403") && said.contains("not-allowed"), "{grant:?}: {said}");
        let said = from_inside(&hosts, grant, "GET", "/hosts/box/sessions/fix");
        assert!(said.ends_with(" 200"), "to look is free: {said}");
    }
    assert_eq!(hosts.there.show("fix")["state"], "running");
    let said = from_inside(&hosts, &["--grant", "control"], "POST", stop);
    assert!(said.ends_with(" 200"), "{said}");
    assert_eq!(hosts.there.show("fix")["state"], "stopped");
}

#[test]
fn tokens_and_login_links_are_made_only_on_the_host_itself() {
    let hosts = added();
    let gateway = served(&hosts);
    let asked = [
        ("POST", "tokens", json!({"name": "mine", "scope": "admin"})),
        ("POST", "tokens/", json!({"name": "mine", "scope": "admin"})),
        ("POST", "t%6Fkens", json!({"name": "mine", "scope": "admin"})),
        ("GET", "tokens", json!({})),
        ("DELETE", "tokens/mine", json!({})),
        ("POST", "links", json!({})),
    ];
    for (method, path, body) in asked {
        let told = gateway.ask(method, &format!("/v1/hosts/box/{path}"), &[], Some(&body));
        let told = told.problem(403, "not-allowed");
        assert!(told["title"].as_str().is_some_and(|it| it.contains("on that host")), "{told}");
    }
    assert_eq!(hosts.there.json(["token", "ls", "--json"]).as_array().map(Vec::len), Some(0));
}

#[test]
fn a_terminal_of_another_host_is_typed_into_through_the_gateway() {
    let hosts = added();
    let id = hosts.there.start_with(&["--name", "far"], &["raw", "say:ready", "echo"]);
    let gateway = served(&hosts);
    let path = "/v1/hosts/box/sessions/far/terminal?role=writer&rows=30&cols=100";
    let mut terminal = gateway.socket(path, Some("berth.terminal.v1")).expect("a terminal");
    assert!(terminal.wait_remark("attached")["fence"].is_u64());
    terminal.wait_for("ready");
    terminal.type_keys(b"from afar");
    terminal.wait_for("from afar");
    assert_eq!(hosts.there.show(&id)["cols"], 100);
    terminal.close();
    wait_until("no client types", || hosts.there.show(&id)["writer"].is_null());
    assert_eq!(hosts.there.show(&id)["state"], "running");
}
#[test]
fn a_gateway_that_is_killed_while_it_follows_another_host_leaves_no_process_there() {
    let hosts = added();
    hosts.there.start_with(&["--name", "far"], &["say:ready", "hang"]);
    let mut gateway = served(&hosts);
    let mut events = gateway.events("/v1/hosts/box/sessions/far/events", &[]);
    assert!(events.next().is_some(), "it follows");
    gateway.kill();
    // The lab of the other host fails if a process of it is left; that check comes before the
    // next keep-alive would notice.
}

#[test]
fn a_send_token_starts_on_another_host_no_session_in_a_directory_that_its_owner_did_not_choose() {
    let hosts = added();
    hosts.there.add_agent("fake", &[]);
    hosts.configure();
    let gateway = hosts.here.serve_with(&["--listen=127.0.0.1:0"]);
    let post = |token: &str, body: &serde_json::Value| {
        let bearer = format!("Bearer {}", token.trim());
        gateway.ask_tcp("POST", "/v1/hosts/box/sessions", &[("Authorization", &bearer)], Some(body))
    };
    let sends = hosts.here.ok(["token", "new", "--scope", "send", "--name", "sends"]);
    let controls = hosts.here.ok(["token", "new", "--scope", "control", "--name", "controls"]);
    let body = json!({"agent": "fake", "cwd": hosts.there.dir()});
    let problem = post(&sends, &body).problem(403, "not-allowed");
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("[send]")), "{problem}");
    assert_eq!(post(&controls, &body).status, 201);
}

#[test]
fn the_remembered_list_of_a_host_has_no_secrets_of_its_command_lines() {
    const SECRET: &str = "hunter2-not-to-be-seen";
    let hosts = added();
    let script = format!("exec {} hang", hosts.there.agent());
    let there = &hosts.there;
    there.ok(["run", "-d", "--name", "fix", "--", "sh", "-c", &script, "sh", "--token", SECRET]);
    let listed = hosts.ok(&["ls", "--hosts", "--json"]);
    assert!(listed.contains("fix"), "{listed}");
    let file = hosts.here.home().join("hosts/box.known");
    let remembered = std::fs::read_to_string(&file).expect("the remembered list");
    assert!(remembered.contains("\"***\"") && !remembered.contains(SECRET), "{remembered}");
    let gateway = served(&hosts);
    let secret = hosts.here.ok(["token", "new", "--scope", "read", "--name", "r"]);
    let bearer = format!("Bearer {}", secret.trim());
    for path in ["/v1/hosts", "/v1/hosts/box/sessions/fix"] {
        let reply = gateway.ask("GET", path, &[("Authorization", &bearer)], None);
        let text = reply.text();
        assert!(reply.status == 200 && text.contains("***") && !text.contains(SECRET), "{path}: {text}");
    }
    hosts.there.ok(["stop", "fix", "--grace", "0s"]);
}
