//! Other hosts through the gateway.

use berth_harness::Gateway;
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
