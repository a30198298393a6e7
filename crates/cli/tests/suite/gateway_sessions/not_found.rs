//! Sessions that do not exist, and a store that does not.

use berth_harness::wait_until;
use serde_json::json;

use crate::gateway_sessions::{GatewayApiFixture, text};

/// Names that look like a session, or like a path to somewhere else.
const TRICKS: [&str; 14] = [
    "nothere",
    "0123456789ab",
    "..",
    "%2e%2e",
    "..%2f..%2fetc",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a%00b",
    "%ff%fe",
    "-",
    "@",
    "*",
    "%20",
    "a%0d%0aX-Odd:%201",
    "lease",
];

#[test]
fn a_session_that_is_not_there_is_404_for_every_verb_and_whatever_it_is_called() {
    let api = GatewayApiFixture::new();
    let kept = api.terminal(&["hang"]);
    let mut asked = 0;
    for route in berth_gateway::routes::all_routes() {
        if !route.path.contains("{session}") {
            continue;
        }
        for trick in TRICKS {
            let path = route.path.replace("{session}", trick).replace("{turn}", "1");
            let body = (route.method != "GET").then(|| json!({}));
            let reply = api.gateway.ask(route.method.as_str(), &path, &[], body.as_ref());
            let is_no_text = trick == "%ff%fe";
            let is_other_path = matches!(trick, ".." | "%2e%2e");
            assert!(
                reply.status == 404
                    || (is_no_text && reply.status == 400)
                    || (is_other_path && reply.status < 500),
                "{} {path}: {} {}",
                route.method,
                reply.status,
                reply.text()
            );
            assert!(reply.header("x-odd").is_none(), "{path}");
            if reply.status == 404 {
                let problem = reply.problem(404, "not-found");
                assert!(!problem.to_string().contains(&kept), "{problem}");
            }
            asked += 1;
        }
    }
    assert!(asked >= 14 * 10, "{asked}");
    assert_eq!(api.session(&kept)["state"], "running");
    // A session that exists and is not the token's gets the same words: see the tokens.
    let one = api.gateway.get("/v1/sessions/nothere").problem(404, "not-found");
    let two = api.gateway.get("/v1/sessions/nowhere").problem(404, "not-found");
    assert_eq!(text(&one, "title").replace("nothere", "nowhere"), text(&two, "title"));
}

#[test]
fn a_store_that_cannot_be_read_is_503_and_nothing_is_started() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    api.session(&id);
    let sessions = api.lab.home().join("sessions");
    let away = api.lab.home().join("away");
    std::fs::rename(&sessions, &away).expect("our own directory");
    std::fs::write(&sessions, "in the way").expect("our own directory");
    let replies = [
        api.gateway.get("/v1/sessions"),
        api.gateway.get(&format!("/v1/sessions/{id}")),
        api.gateway.get("/v1/sessions/some-name"),
        api.gateway.get("/v1/grep?pattern=x"),
        api.post(&format!("/v1/sessions/{id}/turns"), json!({"text": "hello"})),
        api.post("/v1/sessions/some-name/turns", json!({"text": "hello"})),
        api.post("/v1/sessions", json!({"command": ["sleep", "1"], "cwd": "/"})),
        api.post("/v1/sessions", json!({"command": ["sleep", "1"], "cwd": "/", "name": "n", "key": "k"})),
    ];
    std::fs::remove_file(&sessions).expect("our own file");
    std::fs::rename(&away, &sessions).expect("our own directory");
    for reply in replies {
        let problem = reply.problem(503, "unreachable");
        assert!(text(&problem, "detail").contains("nothing was started"), "{problem}");
    }
    wait_until("the session to be back", || api.gateway.get(&format!("/v1/sessions/{id}")).status == 200);
    assert_eq!(api.get("/v1/sessions")["sessions"].as_array().map(Vec::len), Some(1));
}
