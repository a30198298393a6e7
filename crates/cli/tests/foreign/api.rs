//! The same over HTTP: what the command line can do, a program can.

use serde_json::json;

use crate::{World, id, ids};

#[test]
fn everything_about_foreign_conversations_can_be_asked_over_http() {
    let world = World::new();
    world.claude(&id('a'), "mend the login page", 1);
    world.claude(&id('b'), "write a poem", 2);
    let open = world.open(&id('b'));
    let variables = world.env();
    let variables: Vec<(&str, String)> =
        variables.iter().map(|(name, value)| (*name, value.display().to_string())).collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = world.lab.serve_in(&[], &variables);
    let list = gateway.get("/v1/foreign").ok();
    assert_eq!(ids(&list["conversations"]), [id('b'), id('a')]);
    assert_eq!(list["conversations"][0]["held_by"][0]["pid"], open.pid());
    assert_eq!(ids(&gateway.get("/v1/foreign?agent=codex").ok()["conversations"]), [""; 0]);
    gateway.get("/v1/foreign?agent=emacs").problem(400, "usage");
    gateway.get("/v1/foreign?cwd=relative").problem(400, "usage");
    let one = gateway.get("/v1/foreign/claude/aaaa").ok();
    assert_eq!(one["said"]["exchanges"][0]["prompt"], "mend the login page");
    gateway.get("/v1/foreign/claude/ffff").problem(404, "not-found");
    let path = format!("/v1/foreign/claude/{}/adopt", id('b'));
    gateway.post(&path, &json!({"tui": true})).problem(409, "in-use");
    gateway.post(&path, &json!({"tui": true, "take": true, "wait_ms": 5})).problem(400, "usage");
    gateway.post(&path, &json!({"take": true, "take_only": [1]})).problem(400, "usage");
    gateway.post(&path, &json!({"tui": true, "take_only": [open.pid() + 1]})).problem(409, "in-use");
    gateway.post(&path, &json!({"wait_ms": 1})).problem(504, "timed-out");
    gateway.post("/v1/foreign/import", &json!({})).problem(400, "usage");
    let dry = gateway.post("/v1/foreign/import", &json!({"all": true, "dry_run": true})).ok();
    assert_eq!(dry["conversations"].as_array().map(Vec::len), Some(2), "{dry}");
    assert!(world.sessions().is_empty());
    let done = gateway.post("/v1/foreign/import", &json!({"conversations": [id('a')], "name": "login"})).ok();
    assert_eq!(done["conversations"][0]["outcome"], "imported");
    let again = gateway.post("/v1/foreign/import", &json!({"all": true})).ok();
    assert_eq!(
        again["conversations"].as_array().map(Vec::len),
        Some(1),
        "only the one that is open: {again}"
    );
    let taken = gateway.post(&path, &json!({"tui": true, "take_only": [open.pid()], "name": "poem"}));
    assert_eq!((taken.status, &taken.json()["state"]), (201, &"running".into()), "{}", taken.text());
    let sessions = gateway.get("/v1/sessions?all").ok();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2), "{sessions}");
}

#[test]
fn a_send_token_adopts_and_imports_only_conversations_of_directories_that_the_owner_chose() {
    let world = World::new();
    world.claude(&id('a'), "mend the login page", 1);
    let variables = world.env();
    let variables: Vec<(&str, String)> =
        variables.iter().map(|(name, value)| (*name, value.display().to_string())).collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = world.lab.serve_in(&["--listen=127.0.0.1:0"], &variables);
    let secret = world.ok(&["token", "new", "--scope", "send", "--name", "sends"]);
    let bearer = format!("Bearer {}", secret.trim());
    let post = |path: &str, body: &serde_json::Value| {
        gateway.ask_tcp("POST", path, &[("Authorization", &bearer)], Some(body))
    };
    let adopt = format!("/v1/foreign/claude/{}/adopt", id('a'));
    let problem = post(&adopt, &json!({"tui": true})).problem(403, "not-allowed");
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("[send]")), "{problem}");
    for dry_run in [true, false] {
        let body = json!({"conversations": [id('a')], "dry_run": dry_run});
        let done = post("/v1/foreign/import", &body).ok();
        assert_eq!(done["conversations"][0]["outcome"], "refused", "{done}");
    }
    assert!(world.sessions().is_empty());
    world.ok(&["run", "-d", "--", &world.lab.agent(), "hang"]);
    let adopted = post(&adopt, &json!({"tui": true}));
    assert_eq!(adopted.status, 201, "{}", adopted.text());
}
