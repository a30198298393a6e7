//! Other hosts through the gateway.

use berth_harness::{Gateway, wait_until};
use serde_json::json;

use crate::Hosts;

fn served(hosts: &Hosts) -> Gateway {
    std::fs::write(hosts.here.config(), format!("[hosts]\nssh = {:?}\n", hosts.ssh)).expect("the config");
    hosts.here.serve()
}

#[test]
fn what_can_be_asked_here_can_be_asked_there() {
    let hosts = Hosts::added();
    let id = hosts.there.start_with(&["--name", "fix"], &["hang"]);
    let gateway = served(&hosts);
    let known = gateway.get("/v1/hosts").ok();
    assert_eq!(known["hosts"][0]["name"], "box");
    assert_eq!(known["hosts"][0]["sessions"][0]["id"], id);
    assert_eq!(gateway.get("/v1/hosts/box/sessions/fix").ok()["id"], id);
    gateway.get("/v1/hosts/box/sessions/nobody").problem(404, "not-found");
    gateway.get("/v1/hosts/other/sessions").problem(404, "not-found");
    gateway.get("/v1/hosts/box/hosts").problem(400, "usage");
    // Many at a time, on few connections.
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
    let hosts = Hosts::added();
    let gateway = served(&hosts);
    let config = hosts.here.dir().join("ssh/ssh_config");
    let cut = std::fs::read_to_string(&config).expect("a file").replace("/usr/sbin/sshd -i", "false");
    std::fs::write(&config, cut).expect("a file of the lab");
    let told = gateway.get("/v1/hosts/box/sessions").problem(503, "unreachable");
    assert!(told["title"].as_str().is_some_and(|title| title.contains("box")), "{told}");
    let known = gateway.get("/v1/hosts").ok();
    assert!(known["hosts"][0]["away"].is_string(), "{known}");
    assert_eq!(gateway.get("/healthz").ok()["status"], "ok");
}

/// Asks the gateway from inside of a session on this host, which was started with these options: status and body.
fn from_inside(hosts: &Hosts, options: &[&str], method: &str, path: &str) -> String {
    let told = hosts.here.dir().join("told");
    let _ = std::fs::remove_file(&told);
    let script = format!(
        "curl -sS -X {method} -H 'content-type: application/json' -d '{{}}' -w ' %{{http_code}}' \
         --unix-socket $BERTH_HOME/gateway.sock http://localhost/v1{path} >{0}.part 2>&1; mv {0}.part {0}",
        told.display()
    );
    hosts.ok(&[&["run", "-d"], options, &["--", "sh", "-c", &script]].concat());
    wait_until("it to have asked", || told.exists());
    std::fs::read_to_string(&told).expect("what it was told")
}

#[test]
fn an_agent_may_on_another_host_what_its_grant_says_and_no_more() {
    let hosts = Hosts::added();
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
fn what_lets_somebody_in_is_made_on_the_host_itself() {
    let hosts = Hosts::added();
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
        assert!(told["title"].as_str().is_some_and(|it| it.contains("on that host itself")), "{told}");
    }
    assert_eq!(hosts.there.json(["token", "ls", "--json"]).as_array().map(Vec::len), Some(0));
}
