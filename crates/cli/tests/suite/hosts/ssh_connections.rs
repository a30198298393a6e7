//! How many times ssh is started for requests to the gateway, and how long each of them stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use berth_harness::{GatewayProcess, wait_until};

use crate::hosts::{TestHostPair, added};

/// More than any test takes.
const LONG_MS: &str = "3600000";

/// Two hosts, and an ssh that writes a line for each time it is started, and then waits for a file if one is named.
struct SshCountFixture {
    hosts: TestHostPair,
    starts: PathBuf,
    gate: PathBuf,
}

impl SshCountFixture {
    fn new() -> Self {
        let hosts = added();
        let dir = hosts.here.dir().to_owned();
        let (script, starts, gate) = (dir.join("counted-ssh"), dir.join("starts"), dir.join("closed"));
        let text = format!(
            "#!/bin/sh\necho started >>{}\nwhile [ -e {} ]; do sleep 0.02; done\nexec {} \"$@\"\n",
            starts.display(),
            gate.display(),
            hosts.ssh
        );
        fs::write(&script, text).expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
        let config = format!("[hosts]\nssh = {:?}\n", script.display().to_string());
        fs::write(hosts.here.config(), config).expect("the config");
        Self { hosts, starts, gate }
    }

    fn serve(&self, variables: &[(&str, &str)]) -> GatewayProcess {
        self.hosts.here.serve_in(&[], variables)
    }

    fn starts(&self) -> usize {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }
}

/// The live child processes of a gateway.
fn children(gateway: &GatewayProcess) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("it runs").flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn connections(gateway: &GatewayProcess) -> u64 {
    let text = gateway.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix("berth_http_connections "));
    line.and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn however_many_ask_about_the_hosts_each_host_is_asked_once() {
    let counted = SshCountFixture::new();
    let id = counted.hosts.there.start_with(&["--name", "fix"], &["hang"]);
    let gateway = counted.serve(&[("BERTH_ANSWER_AGE_MS", LONG_MS)]);
    fs::write(&counted.gate, "").expect("a file");
    let first = gateway.begin("GET", "/v1/hosts", &[], None);
    wait_until("the first look", || counted.starts() == 1);
    let mut others: Vec<_> = (0..8).map(|_| gateway.begin("GET", "/v1/hosts", &[], None)).collect();
    wait_until("all of them", || connections(&gateway) >= 10);
    fs::remove_file(&counted.gate).expect("our own file");
    others.push(first);
    for asked in others {
        let told = asked.reply().ok();
        assert_eq!(told["hosts"][0]["sessions"][0]["id"], id, "{told}");
    }
    // A moment later the gateway gives the cached answer, which says how old it is.
    let again = gateway.get("/v1/hosts").ok();
    assert!(again["age_ms"].is_u64() && again["hosts"][0]["age_ms"].is_u64(), "{again}");
    assert!(again["hosts"][0]["age_ms"].as_u64() >= again["age_ms"].as_u64(), "{again}");
    assert_eq!(counted.starts(), 1);
    // A request for the names of the hosts starts nothing.
    assert_eq!(gateway.get("/v1/hosts?names=true").ok()["hosts"][0]["name"], "box");
    assert_eq!(counted.starts(), 1);
    // A host that was removed is gone from the list at once.
    counted.hosts.ok(&["hosts", "rm", "box"]);
    assert_eq!(gateway.get("/v1/hosts").ok()["hosts"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_cached_list_of_a_host_is_asked_for_anew_when_it_is_too_old() {
    let counted = SshCountFixture::new();
    let gateway = counted.serve(&[("BERTH_ANSWER_AGE_MS", "0")]);
    for asked in 1..=3 {
        assert!(gateway.get("/v1/hosts").ok()["hosts"][0]["away"].is_null());
        assert_eq!(counted.starts(), asked);
    }
}

#[test]
fn an_ssh_connection_is_reused_until_it_is_idle() {
    let counted = SshCountFixture::new();
    let gateway = counted.serve(&[("BERTH_IDLE_LINE_MS", LONG_MS)]);
    gateway.get("/v1/hosts/box/sessions").ok();
    // The connection is given back after the answer.
    wait_until("its line to serve another request", || {
        let before = counted.starts();
        gateway.get("/v1/hosts/box/sessions").ok();
        counted.starts() == before
    });
    assert!(!children(&gateway).is_empty());
}

#[test]
fn an_unused_connection_is_closed_without_a_further_request() {
    let counted = SshCountFixture::new();
    let gateway = counted.serve(&[("BERTH_IDLE_LINE_MS", "300")]);
    gateway.get("/v1/hosts/box/sessions").ok();
    assert_eq!(counted.starts(), 1);
    // Neither ssh nor a process it left behind remains, and there was no request meanwhile.
    wait_until("the end of the line", || children(&gateway).is_empty());
    // The connection is closed every time.
    gateway.get("/v1/hosts/box/sessions").ok();
    assert_eq!(counted.starts(), 2);
    wait_until("the end of the next one", || children(&gateway).is_empty());
}
