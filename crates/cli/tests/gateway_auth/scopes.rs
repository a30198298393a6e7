//! Every route there is, against every token there is.

use berth_api::Scope;
use berth_gateway::routes::{Route, all};
use serde_json::json;

use crate::{ask, bearer, lab, serve, status, token};

/// What everybody may ask, and why.
const OPEN: &[(&str, &str)] = &[
    ("GET /healthz", "says no more than that it is there"),
    ("GET /readyz", "says no more than whether it can work"),
    ("GET /openapi.json", "is the same for everybody, and in the source"),
    ("GET /login", "is how one stops being a stranger"),
    ("POST /login", "is how one stops being a stranger"),
    ("POST /logout", "takes away only what is shown"),
    ("GET /", "is the page, which is the same for everybody and shows nothing until it is let in"),
    ("GET /assets/{*path}", "are the files of the page"),
];

/// A path of a route with something in every place.
fn path_of(route: &Route) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{session}" => "one",
        part if part.starts_with('{') => "1",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn every_route_refuses_a_stranger_and_a_token_that_does_not_go_so_far() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["hang"]);
    let tokens: Vec<(Scope, String)> =
        Scope::ALL.into_iter().map(|scope| (scope, token(&lab, scope.word(), scope.word(), &[]))).collect();
    let mut refused = 0;
    for route in all() {
        let (method, path) = (route.method.as_str(), path_of(&route));
        let Some(needed) = route.scope else {
            let known = format!("{method} {}", route.path);
            assert!(
                OPEN.iter().any(|(open, _)| *open == known),
                "{known} is open to everybody, and nobody says why"
            );
            continue;
        };
        let stranger = gateway.ask_tcp(method, &path, &[], None);
        stranger.problem(401, "not-allowed");
        for (_, lesser) in tokens.iter().filter(|(scope, _)| *scope < needed) {
            let problem = ask(&gateway, method, &path, lesser, None).problem(403, "not-allowed");
            assert!(
                problem["title"].as_str().is_some_and(|it| it.contains(needed.word())),
                "{path}: {problem}"
            );
            refused += 1;
        }
        // What changes nothing may be tried with enough, too.
        if method == "GET" {
            for (scope, enough) in tokens.iter().filter(|(scope, _)| *scope >= needed) {
                let came = status(&gateway, method, &path, &[("Authorization", &bearer(enough))]);
                assert!(!matches!(came, 401 | 403), "{method} {path} with {scope}: {came}");
            }
        }
    }
    assert!(refused >= 9, "there are more routes than that: {refused}");
    assert_eq!(lab.show("one")["state"], "running", "nothing was done to it");
    lab.ok(["stop", "one", "--grace", "0s"]);
}

#[test]
fn a_path_that_is_none_tells_a_stranger_nothing() {
    let lab = lab();
    let gateway = serve(&lab);
    for path in [
        "/v1/nothing",
        "/v1",
        "/v1/../healthz",
        "//v1/sessions",
        "/V1/sessions",
        "/v1/sessions/",
        "/healthz/x",
        "/%2e%2e/healthz",
        "/healthz%00",
        "/login/../v1/sessions",
        "/v1/sessions;a=b",
    ] {
        let reply = gateway.ask_tcp("GET", path, &[], None);
        assert_eq!(reply.status, 401, "{path}: {}", reply.text());
    }
    for method in ["POST", "DELETE", "PUT", "OPTIONS", "TRACE", "CONNECT"] {
        let reply = gateway.ask_tcp(method, "/v1/sessions", &[], None);
        assert!(matches!(reply.status, 400 | 401), "{method}: {reply:?}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{method}");
    }
}

#[test]
fn for_a_token_with_a_list_of_sessions_there_are_no_others() {
    let lab = lab();
    let gateway = serve(&lab);
    let one = lab.start_with(&["--name", "one"], &["hang"]);
    let two = lab.start_with(&["--name", "two"], &["hang"]);
    let some = token(&lab, "admin", "some", &["--session", "one"]);
    assert_eq!(ask(&gateway, "GET", "/v1/whoami", &some, None).ok()["sessions"], json!([one]));
    let listed = ask(&gateway, "GET", "/v1/sessions", &some, None).ok();
    let ids: Vec<_> =
        listed["sessions"].as_array().expect("a list").iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, [json!(one)]);
    ask(&gateway, "GET", "/v1/sessions/one", &some, None).ok();
    ask(&gateway, "GET", &format!("/v1/sessions/{one}"), &some, None).ok();
    let absent =
        ask(&gateway, "GET", "/v1/sessions/nobody", &some, None).problem(404, "not-found").to_string();
    for hidden in ["two", &two, &two[..6]] {
        let problem =
            ask(&gateway, "GET", &format!("/v1/sessions/{hidden}"), &some, None).problem(404, "not-found");
        assert_eq!(problem.to_string().replace(hidden, "nobody"), absent, "no hint that it exists");
    }
    // Nothing that goes on showing them something names the other one.
    for route in all().into_iter().filter(|route| route.filtered && route.method == "GET") {
        if route.path.contains('{') || route.path == "/v1/events" {
            continue;
        }
        let path = if route.path == "/v1/grep" { "/v1/grep?pattern=." } else { route.path };
        let reply = ask(&gateway, "GET", path, &some, None);
        assert!(matches!(reply.status, 200 | 400), "{path}: {reply:?}");
        assert!(!reply.text().contains(&two), "{path}: {}", reply.text());
    }
    let new_session = json!({"command": ["true"]});
    ask(&gateway, "POST", "/v1/sessions", &some, Some(&new_session)).problem(403, "not-allowed");
    // What is not about one session, and does not say that it shows theirs alone, is not for them.
    for route in all().into_iter().filter(|route| route.scope.is_some()) {
        let path = path_of(&route).replace("/one", "/two");
        let reply = status(&gateway, route.method.as_str(), &path, &[("Authorization", &bearer(&some))]);
        if route.path.contains("{session}") {
            assert_eq!(reply, 404, "{} {path}", route.method);
        } else if !route.filtered {
            assert_eq!(reply, 403, "{} {path}", route.method);
        }
    }
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

/// To take a conversation over ends whoever writes it, and that is nobody's who may only send.
#[test]
fn who_may_only_send_ends_nobody_to_go_on_with_a_conversation() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["say:over"]);
    lab.berth(["wait", "one", "--for", "exit"]);
    let (sends, controls) = (token(&lab, "send", "sends", &[]), token(&lab, "control", "controls", &[]));
    let resume = |token: &str, how| ask(&gateway, "POST", "/v1/sessions/one/resume", token, Some(&how));
    let told = resume(&sends, json!({"take": true})).problem(403, "not-allowed");
    assert!(told["title"].as_str().is_some_and(|it| it.contains("control")), "{told}");
    assert_eq!(lab.show("one")["epoch"], 1, "nothing was started");
    resume(&sends, json!({"take": false})).ok();
    lab.berth(["wait", "one", "--for", "exit"]);
    resume(&controls, json!({"take": true})).ok();
    lab.berth(["wait", "one", "--for", "exit"]);
    assert_eq!(lab.show("one")["epoch"], 3);
}
