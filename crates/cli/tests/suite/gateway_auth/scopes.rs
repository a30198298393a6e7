//! Every route there is, against every token there is.

use berth_api::AccessScope;
use berth_gateway::routes::{Route, all_routes};
use berth_harness::wait_until;
use serde_json::json;

use crate::gateway_auth::{ask, bearer, lab, serve, status, token};

/// Routes that are open without a token, and why.
const OPEN: &[(&str, &str)] = &[
    ("GET /healthz", "says no more than that it is there"),
    ("GET /readyz", "says no more than whether it can work"),
    ("GET /openapi.json", "is the same for every client, and in the source"),
    ("GET /login", "is how one stops being a stranger"),
    ("POST /login", "is how one stops being a stranger"),
    ("POST /logout", "takes away only what is shown"),
    ("GET /", "is the page, which is the same for every client and shows nothing until it is let in"),
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
    let tokens: Vec<(AccessScope, String)> = AccessScope::ALL
        .into_iter()
        .map(|scope| (scope, token(&lab, scope.word(), scope.word(), &[])))
        .collect();
    let mut refused = 0;
    for route in all_routes() {
        let (method, path) = (route.method.as_str(), path_of(&route));
        let Some(needed) = route.scope else {
            let known = format!("{method} {}", route.path);
            assert!(
                OPEN.iter().any(|(open, _)| *open == known),
                "{known} is open without a token, and the table does not say why"
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
        // A route that changes nothing may also be tried with enough scope.
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
fn an_unknown_path_gives_unauthenticated_callers_401() {
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
fn c16_for_a_token_with_a_list_of_sessions_there_are_no_others() {
    let lab = lab();
    let gateway = serve(&lab);
    let one = lab.start_with(&["--name", "one"], &["hang"]);
    let two = lab.start_with(&["--name", "two"], &["hang"]);
    let some = token(&lab, "admin", "some", &["--yes", "--session", "one"]);
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
    // No stream that goes on showing a token its sessions names the other one.
    for route in all_routes().into_iter().filter(|route| route.filtered && route.method == "GET") {
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
    // Routes that are not about one session, and are not described as showing only the token's sessions, are not for
    // such tokens; neither are conversations that belong to no session.
    let is_foreign = |path: &str| path.starts_with("/v1/foreign");
    assert_eq!(all_routes().iter().filter(|route| is_foreign(route.path)).count(), 6);
    for route in all_routes().into_iter().filter(|route| route.scope.is_some()) {
        let path = path_of(&route).replace("/one", "/two");
        let reply = status(&gateway, route.method.as_str(), &path, &[("Authorization", &bearer(&some))]);
        if route.path.contains("{session}") {
            assert_eq!(reply, 404, "{} {path}", route.method);
        } else if !route.filtered || is_foreign(route.path) {
            assert_eq!(reply, 403, "{} {path}", route.method);
        }
    }
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn a_token_with_a_list_of_sessions_hears_of_no_other_by_its_name() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["hang"]);
    let two = lab.start_with(&["--name", "two"], &["hang"]);
    let some = token(&lab, "admin", "some", &["--yes", "--session", "one"]);
    let taken = ask(&gateway, "PATCH", "/v1/sessions/one", &some, Some(&json!({"name": "two"})));
    let problem = taken.problem(409, "refused");
    assert!(!problem.to_string().contains(&two), "{problem}");
    ask(&gateway, "PATCH", "/v1/sessions/one", &some, Some(&json!({"name": "uno"}))).ok();
    // The fork would not be one of its sessions.
    for body in [json!({}), json!({"name": "two"})] {
        let problem = ask(&gateway, "POST", "/v1/sessions/uno/fork", &some, Some(&body));
        let problem = problem.problem(403, "not-allowed");
        assert!(!problem.to_string().contains(&two), "{problem}");
    }
    // A token that may see the other session is told which session has the name.
    let all = token(&lab, "admin", "all", &[]);
    let taken = ask(&gateway, "PATCH", "/v1/sessions/uno", &all, Some(&json!({"name": "two"})));
    assert!(taken.problem(409, "refused").to_string().contains(&two));
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn a_token_with_a_list_of_sessions_hears_of_no_other_by_a_helper_and_ends_none_of_others() {
    let lab = lab();
    let gateway = serve(&lab);
    let one = lab.start_with(&["--name", "one"], &["hang"]);
    let two = lab.start_with(&["--name", "two"], &["hang"]);
    let some = token(&lab, "admin", "some", &["--yes", "--session", "one"]);
    let all = token(&lab, "admin", "all", &[]);
    let ensure = |token: &str, name: &str, owner: &str, script: &str, more: serde_json::Value| {
        let mut body = json!({"name": name, "owner": owner, "command": [lab.agent(), script, "hang"]});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        ask(&gateway, "POST", "/v1/helpers", token, Some(&body))
    };
    let shared = ensure(&all, "shared", "two", "say:x", json!({})).ok();
    let foreign = ensure(&all, "foreign", "two", "say:geheim", json!({})).ok();
    let hidden = |text: String| assert!(!text.contains(&two) && !text.contains("geheim"), "{text}");
    // Only in the scope of the session, and where the session is.
    for more in [json!({"scope": "user"}), json!({"cwd": "/"})] {
        hidden(ensure(&some, "mine", "one", "say:x", more).problem(403, "not-allowed").to_string());
    }
    hidden(ensure(&some, "foreign", "one", "say:other", json!({})).problem(409, "refused").to_string());
    // The token joins a shared helper as an owner, and sees no other owner.
    let joined = ensure(&some, "shared", "one", "say:x", json!({})).ok();
    assert_eq!(joined["id"], shared["id"]);
    hidden(joined.to_string());
    let of = |what: &str| format!("/v1/helpers/{what}");
    for path in ["/v1/helpers".to_owned(), of("shared"), of("shared/log")] {
        let told = ask(&gateway, "GET", &path, &some, None).ok().to_string();
        assert!(path == of("shared") || told.contains(&one), "{path}: {told}");
        hidden(told);
    }
    // Helpers that the token may not see do not exist for it.
    let release = json!({"owner": "one"});
    for name in ["foreign", "nobody"] {
        let post = |what: &str, body: &serde_json::Value| {
            let reply = ask(&gateway, "POST", &of(&format!("{name}/{what}")), &some, Some(body));
            reply.problem(404, "not-found").to_string().replace(name, "it")
        };
        assert_eq!(post("release", &release), post("stop", &json!({})), "the same words");
        hidden(post("release", &release));
    }
    // A helper with other owners goes on for them.
    let left = ask(&gateway, "POST", &of("shared/stop"), &some, Some(&json!({}))).ok();
    hidden(left.to_string());
    let after = ask(&gateway, "GET", &of("shared"), &all, None).ok();
    assert_eq!((&after["state"], &after["pid"]), (&json!("running"), &joined["pid"]), "{after}");
    let owners = after["helper"]["owners"].as_array().expect("a list");
    assert!(owners.len() == 1 && owners[0]["session"] == two.as_str(), "{after}");
    ask(&gateway, "GET", &of("shared"), &some, None).problem(404, "not-found");
    // A helper that only this session owns ends.
    ensure(&some, "mine", "one", "say:x", json!({})).ok();
    assert_eq!(ask(&gateway, "POST", &of("mine/stop"), &some, Some(&json!({}))).ok()["state"], "stopped");
    assert_eq!(ask(&gateway, "GET", &of("foreign"), &all, None).ok()["pid"], foreign["pid"]);
    for name in ["shared", "foreign"] {
        ask(&gateway, "POST", &of(&format!("{name}/stop")), &all, Some(&json!({"grace_ms": 0}))).ok();
    }
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

/// Taking a conversation over ends its writer, which a token with scope `send` may not do.
#[test]
fn a_send_token_may_not_end_the_writer_of_a_conversation_to_resume_it() {
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

#[test]
fn a_token_with_a_list_of_sessions_is_not_told_which_session_its_own_was_started_in() {
    let lab = lab();
    let gateway = serve(&lab);
    let outer = lab.start_with(&["--name", "outer"], &["hang"]);
    let mut inside = lab.command(["run", "-d", "--name", "inner", "--", &lab.agent(), "hang"]);
    inside.env("BERTH_SESSION", &outer).env("BERTH_RUN", format!("{outer}:1"));
    assert!(inside.output().expect("berth").status.success());
    assert_eq!(lab.show("inner")["parent"], outer.as_str());
    let some = token(&lab, "admin", "some", &["--yes", "--session", "inner"]);
    let both = token(&lab, "admin", "both", &["--yes", "--session", "inner", "--session", "outer"]);
    // The second time the answer comes from memory, for a token that may see all of it.
    for path in [
        "/v1/sessions/inner",
        "/v1/sessions/inner",
        "/v1/sessions",
        "/v1/sessions/inner/why",
        "/v1/sessions/inner/events",
        "/v1/sessions/inner/export?format=events",
        "/v1/sessions/inner/export?format=json",
    ] {
        gateway.get(path);
        assert!(ask(&gateway, "GET", path, &both, None).text().contains(&outer), "{path}");
        let told = ask(&gateway, "GET", path, &some, None);
        assert!(told.text().contains("inner") && !told.text().contains(&outer), "{path}: {}", told.text());
    }
    let noted = ask(&gateway, "PATCH", "/v1/sessions/inner", &some, Some(&json!({"note": "mine"}))).ok();
    assert_eq!((&noted["note"], &noted["parent"]), (&json!("mine"), &json!(null)));
    for (path, last) in [("/v1/events", "hello"), ("/v1/sessions/inner/events?after=0", "status")] {
        let heard = |token: &str| {
            let mut stream = gateway.events(path, &[("Authorization", &bearer(token))]);
            let mut heard = String::new();
            loop {
                let event = stream.next().expect("more");
                heard += &event.json().to_string();
                if event.event == last {
                    return heard;
                }
            }
        };
        assert!(heard(&both).contains(&outer), "{path}");
        let told = heard(&some);
        assert!(told.contains("inner") && !told.contains(&outer), "{path}: {told}");
    }
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn a_token_with_a_list_of_sessions_is_told_the_same_of_every_process_that_is_none_of_theirs() {
    let lab = lab();
    let gateway = serve(&lab);
    let one = lab.start_with(&["--name", "one"], &["hang"]);
    let two = lab.start_with(&["--name", "two"], &["hang"]);
    let some = token(&lab, "read", "some", &["--session", "one"]);
    let ask_why = |pid: u32| ask(&gateway, "GET", &format!("/v1/why?pid={pid}"), &some, None);
    assert_eq!(ask_why(lab.number(&one, "pid")).ok()["session"], one.as_str());
    // The end of this process has not been collected yet.
    let mut ended = std::process::Command::new("true").spawn().expect("a child");
    let stat = format!("/proc/{}/stat", ended.id());
    wait_until("its end", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
    let told = |pid: u32| {
        ask_why(pid).problem(404, "not-found").to_string().replace(&format!("process {pid}\""), "process N\"")
    };
    let absent = told(4_194_303);
    for pid in [lab.number(&two, "pid"), gateway.pid(), ended.id()] {
        assert_eq!(told(pid), absent);
    }
    ended.wait().expect("our own child");
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}
