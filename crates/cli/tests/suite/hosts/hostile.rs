//! A host whose berth is a hostile program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use berth_harness::{GatewayProcess, wait_until};
use serde_json::Value;

use crate::hosts::{TestHostPair, strangers};

/// A stand-in for berth on the other host. It answers every request but the first with a page that would like to be one
/// of the gateway's own, and writes down the id of each request. The list of its sessions is in a file.
const STAND_IN: &str = r#"#!/bin/sh
cr=$(printf '\r')
while IFS= read -r line; do
    line=${line%"$cr"}
    case "$line" in
    "GET /healthz "*) answer=health ;;
    "GET /v1/sessions?"*) answer=list ;;
    "GET /v1/whoami "*) answer=no-token ;;
    "GET "*) answer=page ;;
    [Xx]-[Rr]equest-[Ii]d:*) echo "${line#*: }" >>TOLD ;;
    "")
        case $answer in
        health) printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"version":"9.9"}' ;;
        no-token) printf 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n' ;;
        list) printf 'HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n' "$(wc -c <LIST)" && cat LIST ;;
        page)
            printf 'HTTP/1.1 200 OK\r\nContent-Type: KIND\r\nContent-Security-Policy: script-src *\r\n'
            printf 'Set-Cookie: berth=theirs\r\nClear-Site-Data: "*"\r\nAccess-Control-Allow-Origin: *\r\n'
            printf 'Refresh: 0; url=//example.com\r\nLocation: //example.com\r\nService-Worker-Allowed: /\r\n'
            printf 'X-Output-End: 7\r\nX-Frame-Options: ALLOWALL\r\n'
            printf 'Content-Length: 25\r\n\r\n<script>alert(1)</script>'
            ;;
        esac
        ;;
    esac
done
"#;

/// A gateway that knows a host whose program answers with bytes of this type; also the file of request ids.
fn hostile(kind: &str) -> (TestHostPair, GatewayProcess, PathBuf) {
    let hosts = strangers();
    let (program, told) = (hosts.here.dir().join("theirs"), hosts.here.dir().join("told"));
    let text = STAND_IN.replace("KIND", kind).replace("TOLD", &told.display().to_string());
    let text = text.replace("LIST", &list_of(&hosts).display().to_string());
    fs::write(&program, text).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    hosts.ok(&["hosts", "add", "box", "--no-check", "--berth", &program.display().to_string()]);
    hosts.configure();
    let gateway = hosts.here.serve();
    (hosts, gateway, told)
}

#[test]
fn a_hostile_host_gets_no_page_and_no_script_into_the_gateways_origin() {
    for kind in ["text/html", "text/javascript", "image/svg+xml", "TEXT/HTML ; charset=utf-8"] {
        let (_hosts, gateway, _) = hostile(kind);
        let reply = gateway.get("/v1/hosts/box/anything");
        assert_eq!((reply.status, reply.text().as_str()), (200, "<script>alert(1)</script>"));
        assert_eq!(reply.header("content-type"), Some("application/octet-stream"), "{kind}");
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && policy.ends_with("; sandbox"), "{policy}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"));
        for name in [
            "set-cookie",
            "clear-site-data",
            "access-control-allow-origin",
            "refresh",
            "location",
            "service-worker-allowed",
        ] {
            assert_eq!(reply.header(name), None, "{name}");
        }
        assert_eq!(reply.header("x-output-end"), Some("7"), "headers of the API come through");
    }
}

/// The list of sessions that the program of a hostile host sends.
fn list_of(hosts: &TestHostPair) -> PathBuf {
    hosts.here.dir().join("list")
}

#[test]
fn a_host_that_claims_too_many_sessions_fills_neither_memory_nor_disk() {
    let (hosts, gateway, _) = hostile("application/json");
    let known = hosts.here.home().join("hosts/box.known");
    let real = |number: usize| format!("{{\"id\":\"{number:012}\"}}");
    // As small as a session can be written, names that are not valid ids, and then more than are kept.
    let empty = ["{}", r#"{"id":"../../x"}"#].map(str::to_owned).into_iter().cycle().take(200_000);
    let all: Vec<String> = empty.chain((0..2100).map(real)).collect();
    fs::write(list_of(&hosts), format!("{{\"sessions\":[{}]}}", all.join(","))).expect("a list");
    let look = gateway.get("/v1/hosts").ok()["hosts"][0].take();
    assert_eq!((&look["away"], &look["more"]), (&Value::Null, &100.into()), "{}", look["version"]);
    let sessions = look["sessions"].as_array().expect("sessions");
    assert_eq!((sessions.len(), &sessions[0]["id"]), (2000, &"000000000000".into()));
    let size = fs::metadata(&known).expect("it is remembered").len();
    assert!(size < 8 << 20, "{size}");
    assert!(hosts.ok(&["hosts"]).contains("2100 sessions"), "all are counted");

    // The size of each session in the list is limited.
    let long = format!("{{\"sessions\":[{{\"id\":\"000000000000\",\"note\":\"{}\"}}]}}", "x".repeat(9 << 20));
    fs::write(list_of(&hosts), long).expect("a list");
    let said = hosts.ok(&["hosts"]);
    assert!(said.contains("away") && said.contains("at most 8388608 are allowed"), "{said}");
    assert_eq!(fs::metadata(&known).expect("the remembered list").len(), size);
}

#[test]
fn a_state_that_only_a_newer_host_knows_is_shown_as_it_is() {
    let (hosts, gateway, _) = hostile("application/json");
    let list = r#"{"sessions":[{"id":"000000000000","name":"far","state":"dreaming"}]}"#;
    fs::write(list_of(&hosts), list).expect("a list");
    let text = hosts.ok(&["ls", "--hosts"]);
    assert!(text.lines().any(|line| line.contains("box:far") && line.contains("dreaming")), "{text}");
    let rows: Value = serde_json::from_str(&hosts.ok(&["ls", "--hosts", "--json"])).expect("JSON");
    assert_eq!(rows[0]["state"], "dreaming");
    assert_eq!(gateway.get("/v1/hosts").ok()["hosts"][0]["sessions"][0]["state"], "dreaming");
}

#[test]
fn a_host_that_refuses_a_login_ends_none_here() {
    let (_hosts, gateway, _) = hostile("application/json");
    let told = gateway.get("/v1/hosts/box/whoami").problem(503, "unreachable");
    assert!(told["title"].as_str().is_some_and(|title| title.contains("host `box` is away")), "{told}");
}

#[test]
fn a_request_has_one_id_here_and_there() {
    let (_hosts, gateway, told) = hostile("application/json");
    let made = gateway.get("/v1/hosts/box/anything");
    let made = made.header("x-request-id").expect("an id").to_owned();
    gateway.ask("GET", "/v1/hosts/box/anything", &[("X-Request-Id", "mine-1")], None);
    let told: Vec<String> = fs::read_to_string(told).expect("ids").lines().map(str::to_owned).collect();
    assert_eq!(told, [made, "mine-1".to_owned()]);
}

/// ssh leaves a master process behind for the next connection (`ControlPersist`).
#[test]
fn a_process_that_keeps_the_standard_error_of_ssh_open_holds_up_no_request() {
    let hosts = crate::hosts::added();
    let dir = hosts.here.dir();
    let (script, stays) = (dir.join("leaving-ssh"), dir.join("stays"));
    let text = format!(
        "#!/bin/sh\nwhile [ -e {} ]; do sleep 0.02; done </dev/null >/dev/null &\nexec {} \"$@\"\n",
        stays.display(),
        hosts.ssh
    );
    fs::write(&stays, "").expect("a file");
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
    let config = format!("[hosts]\nssh = {:?}\n", script.display().to_string());
    fs::write(hosts.here.config(), config).expect("the config");
    let gateway = hosts.here.serve();
    let known = gateway.begin("GET", "/v1/hosts", &[], None).reply().ok();
    assert!(known["hosts"][0]["away"].is_null() && known["hosts"][0]["version"].is_string(), "{known}");
    assert!(stays.exists(), "it was there all the time");
    // A host that gives no answer counts as away, with the message of ssh, though that stays open.
    hosts.cut();
    wait_until("it to be away", || gateway.get("/v1/hosts").ok()["hosts"][0]["away"].is_string());
    fs::remove_file(&stays).expect("our own file");
}
