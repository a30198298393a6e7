//! Every route answers a successful request as it is described.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};

use berth_gateway::routes;
use berth_harness::{
    GatewayProcess, HttpResponse, OpenApiDescription, TestEnvironment, exchange, wait_until,
};
use serde_json::{Value, json};

use crate::gateway_openapi::lab;
use crate::gateway_openapi::refusals::filled;

/// Operations that are not asked here with success, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("get_at_host", "needs another host: tests/suite/hosts"),
    ("post_at_host", "needs another host: tests/suite/hosts"),
    ("patch_at_host", "needs another host: tests/suite/hosts"),
    ("delete_at_host", "needs another host: tests/suite/hosts"),
];

/// The statuses that routes refuse with for reasons of their own. The others come from checks that all requests pass,
/// and are checked against the description of every route in `refusals`, or are the gateway's fault (500).
const OWN: [u16; 5] = [404, 409, 410, 428, 504];

/// Reason: needs a machine on which `/proc` or the control groups cannot be read.
const NO_PROC: &str = "where processes cannot be looked at";
/// Reason: needs a file of the agent, or of a session, that is broken or cannot be read.
const BROKEN: &str = "a file that is broken or cannot be read: for commands in tests/suite/damage.rs";
const HELPERS: &str = "a helper that cannot be had, told of or ended: for commands in tests/suite/helpers";

/// Refusals that a route may give and that are not provoked here, and where they are or why not.
const NOT_PROVOKED: &[(&str, u16, &str)] = &[
    ("processes", 409, NO_PROC),
    ("session_processes", 409, NO_PROC),
    ("session_changes", 409, BROKEN),
    ("list_directories", 409, BROKEN),
    ("port", 409, NO_PROC),
    ("why_process", 409, NO_PROC),
    ("why_session", 409, NO_PROC),
    ("check_foreign", 409, BROKEN),
    ("check_transcript", 409, BROKEN),
    ("foreign_tree", 409, BROKEN),
    ("transcript_tree", 409, BROKEN),
    ("get_foreign", 409, BROKEN),
    ("get_history", 409, BROKEN),
    ("grep", 409, BROKEN),
    ("import_foreign", 409, BROKEN),
    ("export_session", 409, BROKEN),
    ("ensure_helper", 409, "another command of the same name: tests/suite/gateway_sessions/helpers.rs"),
    ("helper_log", 409, HELPERS),
    ("helper_output", 409, HELPERS),
    ("list_helpers", 409, HELPERS),
    ("release_helper", 409, HELPERS),
    ("stop_helper", 409, HELPERS),
    ("agents", 409, "the berth that is asked for versions cannot be started"),
    ("answer", 409, "an answer that is not offered: tests/suite/gateway_turns/answers.rs"),
    ("restore_session", 409, "another client restores the session at this very moment"),
    ("stop_session", 409, "a run that cannot be ended: for commands in tests/suite/crash"),
    ("login", 410, "a link that was used: tests/suite/gateway_auth/login.rs"),
    ("adopt_foreign", 504, "a process has it open for longer than one waits: tests/suite/foreign/api.rs"),
    ("cancel_turn", 504, "an agent that does nothing in its half minute"),
    ("send_turn", 504, "an agent that does nothing in its half minute"),
    ("create_session", 504, "an agent that does not take turns in its half minute"),
    ("ensure_helper", 504, "a helper that is not ready in time: for commands in tests/suite/helpers"),
];

/// A client that asks everything, and checks every answer against the description.
struct OpenApiChecker<'a> {
    gateway: &'a GatewayProcess,
    description: OpenApiDescription,
}

impl OpenApiChecker<'_> {
    /// Asks, checks the status and the answer.
    fn ask(
        &mut self,
        name: &str,
        status: u16,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> HttpResponse {
        self.ask_with(name, status, method, path, &[], body)
    }

    fn ask_with(
        &mut self,
        name: &str,
        status: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> HttpResponse {
        let reply = self.gateway.ask(method, path, headers, body);
        assert_eq!(reply.status, status, "{name}: {method} {path}: {}", reply.text());
        self.description.holds(name, &reply);
        reply
    }

    fn get(&mut self, name: &str, path: &str) -> HttpResponse {
        self.ask(name, 200, "GET", path, None)
    }

    fn post(&mut self, name: &str, status: u16, path: &str, body: &Value) -> HttpResponse {
        self.ask(name, status, "POST", path, Some(body))
    }

    /// Asks for a stream that does not end, and checks only its beginning.
    fn begins(&mut self, name: &str, status: u16, path: &str, headers: &[(&str, &str)]) {
        let mut stream = self.gateway.connect();
        stream.write_all(&berth_harness::request("GET", path, headers, None)).expect("it listens");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let first = lines.next().expect("an answer");
        assert_eq!(first.split(' ').nth(1), Some(status.to_string().as_str()), "{name}: {first}");
        let pair = |line: String| line.split_once(':').map(|(n, v)| (n.to_lowercase(), v.trim().to_owned()));
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(pair).collect();
        self.description.holds(name, &HttpResponse { status, headers, body: vec![] });
    }
}

fn sessions(asker: &mut OpenApiChecker<'_>, lab: &TestEnvironment) {
    asker.get("list_sessions", "/v1/sessions");
    let new = json!({"name": "talk", "agent": "fake", "cwd": lab.dir(), "tags": ["a"], "env": {"A": "b"}});
    let key = [("Idempotency-Key", "make")];
    asker.ask_with("create_session", 201, "POST", "/v1/sessions", &key, Some(&new));
    asker.ask_with("create_session", 200, "POST", "/v1/sessions", &key, Some(&new));
    let shell = json!({"name": "shell", "command": [lab.agent(), "say:ready\\r\\n", "echo"], "limits": {}});
    asker.post("create_session", 201, "/v1/sessions", &shell);
    asker.get("list_sessions", "/v1/sessions?all=true&sort=name&limit=1");
    asker.get("get_session", "/v1/sessions/talk");
    let change = json!({"note": "a note", "add_tags": ["b"], "policy": {"idle_ms": 3_600_000}});
    asker.ask("change_session", 200, "PATCH", "/v1/sessions/talk", Some(&change));
}

/// A conversation that was had without berth.
fn foreign(asker: &mut OpenApiChecker<'_>, lab: &TestEnvironment) {
    let id = "aaaaaaaa-1111-4111-8111-111111111111";
    let dir = lab.dir().join("account/projects/-x");
    std::fs::create_dir_all(&dir).expect("a directory");
    let message = json!({"role": "user", "content": "mend the login"});
    let time = "2026-11-16T08:00:00.000Z";
    let record = json!({
        "type": "user", "uuid": "u", "parentUuid": null, "sessionId": id, "cwd": lab.dir(), "timestamp": time,
        "message": message,
    });
    std::fs::write(dir.join(format!("{id}.jsonl")), format!("{record}\n")).expect("a file");
    let config = std::fs::read_to_string(lab.config()).expect("a config");
    let tui = lab.agent();
    let agent = format!("[agents.claude]\ntui = [{tui:?}]\nresume_tui = [\"say:{{id}}\", \"echo\"]\n");
    std::fs::write(lab.config(), format!("{config}\n{agent}")).expect("a config");
    asker.get("list_foreign", "/v1/foreign");
    asker.get("get_foreign", &format!("/v1/foreign/claude/{id}"));
    asker.get("check_foreign", &format!("/v1/foreign/claude/{id}/check"));
    asker.get("foreign_tree", &format!("/v1/foreign/claude/{id}/tree"));
    asker.post("import_foreign", 200, "/v1/foreign/import", &json!({"all": true, "dry_run": true}));
    let adopt = format!("/v1/foreign/claude/{id}/adopt");
    asker.post("adopt_foreign", 201, &adopt, &json!({"tui": true, "name": "login"}));
    asker.post("adopt_foreign", 409, &adopt, &json!({}));
    asker.post("stop_session", 200, "/v1/sessions/login/stop", &json!({"grace_ms": 0}));
    asker.post("import_foreign", 200, "/v1/foreign/import", &json!({"conversations": [id]}));
    history(asker, &dir.join(format!("{id}.jsonl")));
}

/// The history that is kept of the conversation that was adopted and ended.
fn history(asker: &mut OpenApiChecker<'_>, file: &std::path::Path) {
    let checked = asker.get("check_transcript", "/v1/sessions/login/transcript/check").json();
    assert_eq!(checked["files"][0]["path"], file.display().to_string(), "{checked}");
    asker.get("transcript_tree", "/v1/sessions/login/transcript/tree");
    let at = "/v1/sessions/login/history";
    let told = asker.get("get_history", at).json();
    assert_eq!(told["points"].as_array().map(Vec::len), Some(1), "a run that ended was copied: {told}");
    asker.post("restore_history", 409, &format!("{at}/restore"), &json!({}));
    let had = std::fs::read(file).expect("the transcript of the agent");
    std::fs::remove_file(file).expect("the agent's file");
    asker.post("restore_history", 200, &format!("{at}/restore"), &json!({"at": 1}));
    assert!(std::fs::read(file).expect("it is back") == had);
}

fn turns(asker: &mut OpenApiChecker<'_>, lab: &TestEnvironment) {
    let (at, gate) = ("/v1/sessions/talk", lab.dir().join("gate"));
    asker.post("send_turn", 200, &format!("{at}/turns"), &json!({"text": "hello", "wait": true}));
    asker.get("list_turns", &format!("{at}/turns"));
    asker.get("get_turn", &format!("{at}/turns/1"));
    asker.get("get_result", &format!("{at}/turns/1/result"));
    let slow = json!({"text": format!("wait-file:{} slow", gate.display())});
    asker.post("send_turn", 202, &format!("{at}/turns"), &slow);
    asker.ask("get_result", 202, "GET", &format!("{at}/turns/2/result"), None);
    asker.ask("change_queue", 200, "PATCH", &format!("{at}/queue"), Some(&json!({"paused": true})));
    for text in ["third", "fourth"] {
        asker.post("send_turn", 202, &format!("{at}/turns"), &json!({"text": text}));
    }
    asker.get("get_queue", &format!("{at}/queue"));
    let change = json!({"text": "other", "position": 1});
    asker.ask("change_turn", 200, "PATCH", &format!("{at}/queue/3"), Some(&change));
    asker.ask("drop_turn", 200, "DELETE", &format!("{at}/queue/3"), None);
    asker.ask("cancel_turn", 200, "POST", &format!("{at}/turns/4/cancel"), None);
    asker.ask("cancel_turn", 409, "POST", &format!("{at}/turns/4/cancel"), None);
    std::fs::write(&gate, "").expect("a file");
    asker.ask("change_queue", 200, "PATCH", &format!("{at}/queue"), Some(&json!({"paused": false})));
    asker.post("wait", 200, &format!("{at}/wait"), &json!({"for": "idle", "timeout_ms": 60_000}));
    asker.post("wait", 200, &format!("{at}/wait"), &json!({"for": "done"}));
    asker.post("wait", 504, &format!("{at}/wait"), &json!({"for": "exit", "timeout_ms": 1}));
    asker.post("send_turn", 202, &format!("{at}/turns"), &json!({"text": "ask:Bash:rm -rf x"}));
    let gateway = asker.gateway;
    wait_until("it to ask", || {
        gateway.get(at).ok()["turns"]["asks"].as_array().is_some_and(|it| it.len() == 1)
    });
    asker.get("get_session", at);
    asker.post(
        "answer",
        200,
        &format!("{at}/answers"),
        &json!({"answer": "allow", "request": "0", "epoch": 1}),
    );
    asker.post("wait", 200, &format!("{at}/wait"), &json!({"for": "idle"}));
    let key = [("Idempotency-Key", "k")];
    asker.ask_with("send_turn", 202, "POST", &format!("{at}/turns"), &key, Some(&json!({"text": "a"})));
    asker.ask_with("send_turn", 409, "POST", &format!("{at}/turns"), &key, Some(&json!({"text": "b"})));
    asker.post("wait", 200, &format!("{at}/wait"), &json!({"for": "idle"}));
}

fn live(asker: &mut OpenApiChecker<'_>) {
    asker.post("wait", 200, "/v1/sessions/shell/wait", &json!({"for": {"output": "ready"}}));
    asker.get("list_events", "/v1/sessions/talk/events?after=0&limit=1000");
    asker.get("list_events", "/v1/sessions/shell/events");
    let stream = [("Accept", "text/event-stream"), ("Last-Event-ID", "1")];
    asker.begins("list_events", 200, "/v1/sessions/talk/events", &stream);
    asker.begins("watch_sessions", 200, "/v1/events?all=true", &[]);
    asker.get("get_output", "/v1/sessions/shell/output?from=0&limit=10");
    asker.get("get_screen", "/v1/sessions/shell/screen?format=ansi");
    asker.post("type_input", 200, "/v1/sessions/shell/input", &json!({"text": "hi", "enter": true}));
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "berth.terminal.v1"),
    ];
    let mut stream = asker.gateway.connect();
    let head: String = upgrade.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET /v1/sessions/shell/terminal HTTP/1.1\r\nHost: localhost\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).expect("an answer");
    assert!(first.starts_with("HTTP/1.1 101"), "{first}");
    asker.description.holds("attach_terminal", &HttpResponse { status: 101, headers: vec![], body: vec![] });
    asker.ask("attach_terminal", 400, "GET", "/v1/sessions/shell/terminal", None);
}

fn evidence(asker: &mut OpenApiChecker<'_>) {
    let pid = asker.gateway.get("/v1/sessions/shell").ok()["pid"].to_string();
    asker.get("transcript", "/v1/sessions/talk/transcript");
    for (session, format) in [("talk", "markdown"), ("talk", "events"), ("talk", "json"), ("shell", "cast")] {
        asker.get("export_session", &format!("/v1/sessions/{session}/export?format={format}"));
    }
    asker.get("why_session", "/v1/sessions/talk/why");
    asker.get("why_process", &format!("/v1/why?pid={pid}"));
    asker.get("session_processes", "/v1/sessions/shell/processes");
    asker.get("session_changes", "/v1/sessions/shell/changes");
    asker.get("list_directories", "/v1/directories");
    asker.get("processes", "/v1/processes");
    let address = asker.gateway.address.clone().expect("it listens");
    let port = address.rsplit(':').next().expect("a port").to_owned();
    asker.get("port", &format!("/v1/ports/{port}"));
    asker.get("agents", "/v1/agents");
    asker.get("doctor", "/v1/doctor");
    asker.get("grep", "/v1/grep?pattern=hello&context=1");
    asker.post("sweep", 200, "/v1/sweep", &json!({"dry_run": true}));
    asker.post("sweep", 200, "/v1/sweep", &json!({}));
}

fn helpers(asker: &mut OpenApiChecker<'_>, lab: &TestEnvironment) {
    let command = [lab.agent(), "say:up\\n".to_owned(), "hang".to_owned()];
    let new =
        json!({"name": "server", "owner": "shell", "ready": "line:up", "cwd": lab.dir(), "command": command});
    asker.post("ensure_helper", 200, "/v1/helpers", &new);
    asker.get("list_helpers", "/v1/helpers?all=true");
    asker.get("get_helper", "/v1/helpers/server");
    asker.get("helper_log", "/v1/helpers/server/log");
    asker.get("helper_output", "/v1/helpers/server/output");
    asker.get("session_processes", "/v1/sessions/shell/processes");
    asker.post("release_helper", 200, "/v1/helpers/server/release", &json!({"owner": "shell"}));
    asker.post("stop_helper", 200, "/v1/helpers/server/stop", &json!({"grace_ms": 0}));
}

fn gateway_itself(asker: &mut OpenApiChecker<'_>) {
    for (name, path) in [
        ("list_hosts", "/v1/hosts?names=true"),
        ("health", "/healthz"),
        ("ready", "/readyz"),
        ("metrics", "/metrics"),
        ("openapi", "/openapi.json"),
        ("whoami", "/v1/whoami"),
        ("page", "/"),
        ("list_tokens", "/v1/tokens"),
    ] {
        asker.get(name, path);
    }
    // A client at the socket is logged in already.
    asker.ask("login_page", 303, "GET", "/login", None);
    let page = asker.gateway.get("/").text();
    let file =
        page.split('"').find(|text| text.starts_with("/assets/")).expect("a file of the page").to_owned();
    asker.begins("page_file", 200, &file, &[]);
    let new = json!({"name": "ci", "scope": "read", "expires_in_ms": 60_000});
    let secret = asker.post("create_token", 201, "/v1/tokens", &new).json()["secret"].clone();
    asker.get("list_tokens", "/v1/tokens");
    // A client that needs no login is sent to the page, except with a good link.
    asker.ask("login_page", 303, "GET", "/login", None);
    let link = asker.post("create_link", 201, "/v1/links", &json!({"scope": "read"})).json()["url"].clone();
    let (_, link) = link.as_str().and_then(|url| url.split_once("/login")).expect("a link to the login");
    asker.get("login_page", &format!("/login{link}"));
    let form = format!("token={}", secret.as_str().expect("a secret"));
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let entered = exchange(asker.gateway.connect(), request.as_bytes());
    assert_eq!(entered.status, 200, "{}", entered.text());
    asker.description.holds("login", &entered);
    asker.ask("logout", 204, "POST", "/logout", None);
    asker.ask("revoke_token", 200, "DELETE", "/v1/tokens/ci", None);
}

fn life(asker: &mut OpenApiChecker<'_>) {
    asker.post("stop_session", 200, "/v1/sessions/talk/stop", &json!({"grace_ms": 0}));
    asker.post("fork_session", 201, "/v1/sessions/talk/fork", &json!({"name": "copy"}));
    asker.post("archive_session", 200, "/v1/sessions/talk/archive", &json!({}));
    asker.get("list_sessions", "/v1/sessions?archived=true");
    asker.post("restore_session", 200, "/v1/sessions/talk/restore", &json!({}));
    asker.post("resume_session", 200, "/v1/sessions/talk/resume", &json!({}));
    asker.post("switch_interface", 200, "/v1/sessions/talk/interface", &json!({"interface": "chat"}));
    asker.post("stop_session", 200, "/v1/sessions/talk/stop", &json!({"grace_ms": 0}));
    let id = asker.get("get_session", "/v1/sessions/talk").json()["id"].as_str().expect("an id").to_owned();
    asker.ask("delete_session", 428, "DELETE", &format!("/v1/sessions/{id}"), None);
    asker.ask("delete_session", 200, "DELETE", &format!("/v1/sessions/{id}?confirm={id}"), None);
    asker.ask("get_session", 404, "GET", &format!("/v1/sessions/{id}"), None);
    asker.post("stop_session", 200, "/v1/sessions/copy/stop", &json!({"grace_ms": 0}));
    asker.post("stop_session", 200, "/v1/sessions/shell/stop", &json!({"grace_ms": 0}));
}

/// Asks for conflicts with the present state: `talk` takes turns and runs, and `shell` is a terminal that runs.
fn conflicts(asker: &mut OpenApiChecker<'_>) {
    let id = |name: &str| asker.gateway.get(&format!("/v1/sessions/{name}")).ok()["id"].clone();
    let shell = id("shell").as_str().expect("an id").to_owned();
    let token = json!({"name": "taken", "scope": "read"});
    asker.post("create_token", 201, "/v1/tokens", &token);
    asker.post("create_token", 409, "/v1/tokens", &token);
    let void = json!({"name": "y", "scope": "admin", "sessions": [shell]});
    asker.post("create_token", 428, "/v1/tokens", &void);
    asker.post("create_link", 428, "/v1/links", &json!({"scope": "admin", "sessions": [shell]}));
    let of_nobody = json!({"name": "x", "scope": "read", "sessions": ["nobody"]});
    asker.post("create_token", 404, "/v1/tokens", &of_nobody);
    asker.post("create_link", 404, "/v1/links", &json!({"scope": "read", "sessions": ["nobody"]}));
    asker.ask("drop_turn", 409, "DELETE", "/v1/sessions/talk/queue/1", None);
    asker.ask("change_turn", 409, "PATCH", "/v1/sessions/talk/queue/1", Some(&json!({"text": "x"})));
    let key = [("Idempotency-Key", "make")];
    let other = json!({"name": "another", "agent": "fake"});
    asker.ask_with("create_session", 409, "POST", "/v1/sessions", &key, Some(&other));
    asker.post("create_session", 404, "/v1/sessions", &json!({"agent": "nobody"}));
    asker.ask("change_session", 409, "PATCH", "/v1/sessions/talk", Some(&json!({"name": "shell"})));
    asker.ask("delete_session", 409, "DELETE", &format!("/v1/sessions/{shell}?confirm={shell}"), None);
    asker.post("archive_session", 409, "/v1/sessions/shell/archive", &json!({}));
    asker.post("resume_session", 409, "/v1/sessions/shell/resume", &json!({}));
    asker.post("fork_session", 409, "/v1/sessions/shell/fork", &json!({}));
    for (session, interface) in [("talk", "terminal"), ("shell", "chat")] {
        let path = format!("/v1/sessions/{session}/interface");
        asker.post("switch_interface", 409, &path, &json!({"interface": interface}));
    }
    asker.post("type_input", 409, "/v1/sessions/talk/input", &json!({"text": "x"}));
    asker.post("wait", 409, "/v1/sessions/shell/wait", &json!({"for": "idle"}));
    asker.ask("transcript", 409, "GET", "/v1/sessions/shell/transcript", None);
    asker.ask("get_queue", 409, "GET", "/v1/sessions/shell/queue", None);
    asker.ask("change_queue", 409, "PATCH", "/v1/sessions/shell/queue", Some(&json!({"paused": true})));
    asker.ask("grep", 404, "GET", "/v1/grep?pattern=x&session=nobody", None);
    asker.ask("why_process", 404, "GET", "/v1/why?pid=4194303", None);
    asker.post("import_foreign", 404, "/v1/foreign/import", &json!({"conversations": ["nobody"]}));
    let helper = json!({"name": "x", "owner": "nobody", "command": ["true"]});
    asker.post("ensure_helper", 404, "/v1/helpers", &helper);
    asker.post("release_helper", 404, "/v1/helpers/nobody/release", &json!({"owner": "talk"}));
}

/// Asks for things that do not exist, and checks every refusal so far against the description.
fn refusals(asker: &mut OpenApiChecker<'_>) {
    for (method, path, operation) in asker.description.operations() {
        if operation["responses"]["404"].is_object() && path.contains('{') {
            let name = operation["operationId"].as_str().expect("a name").to_owned();
            let body = operation["requestBody"].is_object().then(|| json!({}));
            let reply = asker.gateway.ask(&method, &filled(&path), &[], body.as_ref());
            asker.description.holds(&name, &reply);
        }
    }
    let described = asker.description.operations().into_iter().flat_map(|(_, _, operation)| {
        let name = operation["operationId"].as_str().expect("a name").to_owned();
        let statuses: Vec<u16> = operation["responses"]
            .as_object()
            .expect("answers")
            .keys()
            .filter_map(|it| it.parse().ok())
            .collect();
        statuses.into_iter().map(move |status| (name.clone(), status))
    });
    let own: BTreeSet<(String, u16)> = described.filter(|(_, status)| OWN.contains(status)).collect();
    let never: BTreeSet<(String, u16)> = own.difference(&asker.description.seen).cloned().collect();
    let known: BTreeSet<(String, u16)> =
        NOT_PROVOKED.iter().map(|(name, status, _)| ((*name).to_owned(), *status)).collect();
    assert_eq!(never, known, "the described refusals that were not seen differ from the known ones");
}

#[test]
fn every_route_works_and_answers_as_it_is_described() {
    let lab = lab();
    let account = lab.dir().join("account").display().to_string();
    let places = [("CLAUDE_CONFIG_DIR", account.as_str()), ("CODEX_HOME", account.as_str())];
    let gateway = lab.serve_in(&["--listen", "127.0.0.1:0"], &places);
    let mut asker = OpenApiChecker { gateway: &gateway, description: OpenApiDescription::of(&gateway) };
    foreign(&mut asker, &lab);
    sessions(&mut asker, &lab);
    turns(&mut asker, &lab);
    live(&mut asker);
    evidence(&mut asker);
    helpers(&mut asker, &lab);
    gateway_itself(&mut asker);
    conflicts(&mut asker);
    life(&mut asker);
    let did: BTreeSet<&str> = asker
        .description
        .seen
        .iter()
        .filter(|(_, status)| *status < 400)
        .map(|(name, _)| name.as_str())
        .collect();
    let table = routes::all_routes();
    for route in &table {
        let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == route.name);
        assert_ne!(did.contains(route.name), is_elsewhere, "{} {}: {}", route.method, route.path, route.name);
    }
    refusals(&mut asker);
}

#[test]
fn the_binary_prints_the_description_its_gateway_gives() {
    let lab = lab();
    let gateway = lab.serve();
    assert_eq!(&lab.json(["openapi"]), OpenApiDescription::of(&gateway).whole());
}
