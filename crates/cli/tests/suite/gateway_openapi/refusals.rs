//! Every route, asked in every way that it refuses, answers with a problem that is described.

use berth_harness::{GatewayProcess, HttpResponse, OpenApiDescription, exchange};
use serde_json::{Value, json};

use crate::gateway_openapi::lab;

/// The largest body, as `gateway` has it.
const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// A path with a value for every placeholder.
pub(crate) fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{session}" | "{helper}" | "{token}" | "{host}" | "{path}" => "nobody",
        "{agent}" => "claude",
        "{conversation}" => "nobody",
        "{turn}" | "{port}" => "1",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A body of any bytes.
fn ask_bytes(gateway: &GatewayProcess, method: &str, path: &str, kind: &str, body: &[u8]) -> HttpResponse {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(gateway.connect(), &[head.as_bytes(), body].concat())
}

#[test]
fn every_route_refuses_strangers_and_nonsense_with_a_problem_that_is_described() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    let mut description = OpenApiDescription::of(&gateway);
    let reader = lab.ok(["token", "new", "--scope", "read", "--name", "reader"]);
    let bearer = format!("Bearer {reader}");
    let mut count = 0;
    for (method, path, operation) in description.operations() {
        let name = operation["operationId"].as_str().expect("a name");
        let mut holds = |reply: HttpResponse, status: u16| {
            assert_eq!(reply.status, status, "{name}: {}", reply.text());
            description.holds(name, &reply);
            count += 1;
        };
        let at = filled(&path);
        let is_open = operation["security"].is_array();
        // A request for another host name, and one from another page.
        holds(gateway.ask_tcp(&method, &at, &[("Host", "evil.example")], None), 421);
        if method != "GET" {
            holds(gateway.ask_tcp(&method, &at, &[("Origin", "http://evil.example")], None), 403);
        }
        if !is_open {
            holds(gateway.ask_tcp(&method, &at, &[], None), 401);
            if operation["x-scope"] != "read" {
                holds(gateway.ask_tcp(&method, &at, &[("Authorization", &bearer)], None), 403);
            }
        }
        let needs_body = operation["requestBody"]["required"] == true;
        if path.contains("{session}") && !needs_body {
            holds(gateway.ask(&method, &at, &[], None), 404);
        }
        let taken = &operation["requestBody"]["content"];
        // The subject of the request is looked up before the body is read, so it has to exist.
        if !taken["application/json"].is_object() || path.contains('{') {
            continue;
        }
        holds(ask_bytes(&gateway, &method, &at, "application/json", b"{"), 400);
        holds(ask_bytes(&gateway, &method, &at, "application/json", br#"{"no_such_field": 1}"#), 400);
        holds(ask_bytes(&gateway, &method, &at, "text/plain", b"{}"), 415);
        let large = vec![b' '; MAX_BODY_BYTES + 1];
        holds(ask_bytes(&gateway, &method, &at, "application/json", &large), 413);
    }
    assert!(count > 150, "there are more routes than that: {count}");
}

#[test]
fn every_query_refuses_unknown_parameters_and_invalid_numbers() {
    let lab = lab();
    let gateway = lab.serve();
    lab.start_with(&["--name", "nobody"], &["hang"]);
    let mut description = OpenApiDescription::of(&gateway);
    let mut count = 0;
    for (method, path, operation) in description.operations() {
        let name = operation["operationId"].as_str().expect("a name");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let in_query: Vec<&Value> = parameters.iter().filter(|it| it["in"] == "query").collect();
        // The login page is shown to every client, with any query.
        if in_query.is_empty() || name == "login_page" {
            continue;
        }
        let needed: String = in_query
            .iter()
            .filter(|it| it["required"] == true)
            .map(|it| format!("&{}=1", it["name"].as_str().expect("a name")))
            .collect();
        let mut refused = |odd: &str| {
            let reply = gateway.ask(&method, &format!("{}?{odd}{needed}", filled(&path)), &[], None);
            // A helper of that name does not exist, which is found out first or last.
            let is_helper = path.contains("{helper}") && reply.status == 404;
            assert!(reply.status == 400 || is_helper, "{name}?{odd}: {} {}", reply.status, reply.text());
            description.holds(name, &reply);
            count += 1;
        };
        refused("no_such_field=1");
        for parameter in in_query {
            let (known, kind) = (parameter["name"].as_str().expect("a name"), &parameter["schema"]["type"]);
            if kind == "integer" {
                for odd in ["", "x", "-1", "1.5", "NaN", "1e3", "99999999999999999999"] {
                    refused(&format!("{known}={odd}"));
                }
            } else if kind == "boolean" {
                refused(&format!("{known}=maybe"));
            }
            refused(&format!("{known}=1&{known}=2"));
        }
    }
    assert!(count > 80, "there are more parameters than that: {count}");
}

#[test]
fn a_body_that_does_not_come_and_too_many_wrong_tokens_are_described_for_every_route() {
    let lab = lab();
    lab.start_with(&["--name", "nobody"], &["hang"]);
    let gateway = lab.serve_in(&["--listen", "127.0.0.1:0"], &[("BERTH_CLIENT_MS", "300")]);
    let mut description = OpenApiDescription::of(&gateway);
    let (mut slow, mut many) = (0, 0);
    for (method, path, operation) in description.operations() {
        let name = operation["operationId"].as_str().expect("a name");
        // Of the placeholders in a path only the session exists; others are refused as not found first.
        let is_there = !path.replace("{session}", "").contains('{');
        if is_there && operation["requestBody"]["content"]["application/json"].is_object() {
            let head = format!(
                "{method} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: 9\r\n\r\n",
                filled(&path)
            );
            let reply = exchange(gateway.connect(), head.as_bytes());
            assert_eq!(reply.status, 408, "{name}: {}", reply.text());
            description.holds(name, &reply);
            slow += 1;
        }
        if operation["security"].is_array() {
            continue;
        }
        let guess = || gateway.ask_tcp(&method, &filled(&path), &[("Authorization", "Bearer wrong")], None);
        let reply = std::iter::repeat_with(guess).take(99).find(|reply| reply.status != 401).expect("an end");
        assert_eq!(reply.status, 429, "{name}: {}", reply.text());
        assert!(reply.header("retry-after").is_some(), "{name}");
        description.holds(name, &reply);
        many += 1;
    }
    assert!(slow > 15 && many > 60, "there are more routes than that: {slow} {many}");
}

#[test]
fn a_mistake_of_the_gateways_own_is_described_wherever_something_is_done() {
    let lab = lab();
    lab.start_with(&["--name", "nobody"], &["hang"]);
    let gateway = lab.serve_in(&[], &[("BERTH_KILLPOINT", "panic:gateway-verb:every")]);
    let mut description = OpenApiDescription::of(&gateway);
    let mut count = 0;
    for (method, path, operation) in description.operations() {
        let name = operation["operationId"].as_str().expect("a name");
        // These begin to answer, or to wait, before anything is done.
        let streams = operation["responses"]["200"]["content"]["text/event-stream"].is_object();
        if streams || name == "wait" {
            continue;
        }
        let needs_body = operation["requestBody"]["required"] == true;
        let reply = gateway.ask(&method, &filled(&path), &[], needs_body.then(|| json!({})).as_ref());
        if reply.status == 500 {
            description.holds(name, &reply);
            count += 1;
        }
    }
    assert!(count > 30, "more than that do something: {count}");
}

/// Refusals that need a session that exists.
#[test]
fn refusals_of_a_session_are_described() {
    let lab = lab();
    let gateway = lab.serve();
    let mut description = OpenApiDescription::of(&gateway);
    lab.start_with(&["--name", "shell"], &["hang"]);
    lab.ok(["run", "-d", "--agent", "fake", "--name", "talk"]);
    let at = |rest: &str| format!("/v1/sessions/{rest}");
    for (name, status, method, path, body) in [
        (
            "create_session",
            409,
            "POST",
            "/v1/sessions".to_owned(),
            Some(json!({"name": "shell", "agent": "fake"})),
        ),
        (
            "create_session",
            400,
            "POST",
            "/v1/sessions".to_owned(),
            Some(json!({"name": "a b", "agent": "fake"})),
        ),
        ("create_session", 400, "POST", "/v1/sessions".to_owned(), Some(json!({}))),
        ("change_session", 409, "PATCH", at("talk"), Some(json!({"name": "shell"}))),
        ("send_turn", 409, "POST", at("shell/turns"), Some(json!({"text": "x"}))),
        ("send_turn", 409, "POST", at("talk/turns"), Some(json!({"text": "x", "expected_session": "other"}))),
        ("get_turn", 404, "GET", at("talk/turns/7"), None),
        ("get_result", 404, "GET", at("talk/turns/7/result"), None),
        ("cancel_turn", 404, "POST", at("talk/turns/7/cancel"), None),
        ("get_queue", 409, "GET", at("shell/queue"), None),
        ("drop_turn", 404, "DELETE", at("talk/queue/7"), None),
        ("change_turn", 400, "PATCH", at("talk/queue/7"), Some(json!({}))),
        (
            "answer",
            404,
            "POST",
            at("talk/answers"),
            Some(json!({"answer": "allow", "request": "0", "epoch": 1})),
        ),
        ("answer", 400, "POST", at("talk/answers"), Some(json!({"answer": "option"}))),
        ("wait", 409, "POST", at("shell/wait"), Some(json!({"for": "idle"}))),
        ("wait", 504, "POST", at("shell/wait"), Some(json!({"for": "exit", "timeout_ms": 1}))),
        ("wait", 400, "POST", at("shell/wait"), Some(json!({"for": {"output": "("}}))),
        ("list_events", 400, "GET", at("talk/events?limit=0"), None),
        ("type_input", 409, "POST", at("talk/input"), Some(json!({"text": "x"}))),
        ("archive_session", 409, "POST", at("shell/archive"), Some(json!({}))),
        ("resume_session", 409, "POST", at("shell/resume"), Some(json!({}))),
        ("fork_session", 409, "POST", at("shell/fork"), Some(json!({}))),
        ("switch_interface", 409, "POST", at("shell/interface"), Some(json!({"interface": "chat"}))),
        ("switch_interface", 400, "POST", at("shell/interface"), Some(json!({"interface": "paper"}))),
        ("delete_session", 428, "DELETE", at("shell"), None),
        ("export_session", 400, "GET", at("shell/export?format=paper"), None),
        ("why_process", 404, "GET", "/v1/why?pid=4194303".to_owned(), None),
        ("port", 400, "GET", "/v1/ports/0".to_owned(), None),
        ("grep", 400, "GET", "/v1/grep?pattern=(".to_owned(), None),
        ("get_helper", 404, "GET", "/v1/helpers/nobody".to_owned(), None),
        ("revoke_token", 404, "DELETE", "/v1/tokens/nobody".to_owned(), None),
        ("get_at_host", 404, "GET", "/v1/hosts/nobody/sessions".to_owned(), None),
        ("page_file", 404, "GET", "/assets/nothing".to_owned(), None),
    ] {
        let reply = gateway.ask(method, &path, &[], body.as_ref());
        assert_eq!(reply.status, status, "{name}: {method} {path}: {}", reply.text());
        description.holds(name, &reply);
    }
}
