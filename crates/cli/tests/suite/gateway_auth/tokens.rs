//! Tokens: made, listed, narrowed, taken back.

use berth_harness::wait_until;
use serde_json::json;

use crate::gateway_auth::{ask, bearer, lab, serve, token};

#[test]
fn a_new_token_is_alone_on_standard_output_and_nowhere_on_disk() {
    let lab = lab();
    let said = lab.berth(["token", "new", "--scope", "read", "--name", "bot"]);
    assert_eq!(said.code, 0, "{said:?}");
    let secret = said.out.trim_end_matches('\n');
    assert!(
        secret.starts_with("berth_") && secret.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
        "{said:?}"
    );
    assert_eq!(said.out.lines().count(), 1);
    assert!(said.err.contains("not shown again") && !said.err.contains(secret), "{said:?}");
    for entry in std::fs::read_dir(lab.home().join("tokens")).expect("tokens") {
        let path = entry.expect("ours").path();
        assert!(!std::fs::read_to_string(&path).expect("text").contains(secret), "{path:?}");
    }
    let listed = lab.json(["token", "ls", "--json"]);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["scope"], &listed[0]["kind"]),
        (&json!("bot"), &json!("read"), &json!("token"))
    );
    assert!(!listed.to_string().contains(secret));
    assert_eq!(lab.berth(["token", "new", "--scope", "read", "--name", "bot"]).code, 1, "names are unique");
    assert_eq!(lab.berth(["token", "new", "--scope", "all", "--name", "x"]).code, 2);
    assert_eq!(lab.berth(["token", "new", "--scope", "read", "--name", "x", "--session", "nobody"]).code, 3);
    assert_eq!(lab.berth(["token", "revoke", "nobody"]).code, 3);
}

#[test]
fn on_tcp_a_token_is_needed_even_on_loopback_and_all_wrong_ones_get_one_answer() {
    let lab = lab();
    let gateway = serve(&lab);
    let good = token(&lab, "read", "bot", &[]);
    gateway.ask_tcp("GET", "/v1/sessions", &[], None).problem(401, "not-allowed");
    let whoami = ask(&gateway, "GET", "/v1/whoami", &good, None).ok();
    assert_eq!((&whoami["scope"], &whoami["name"]), (&json!("read"), &json!("bot")));
    assert_eq!(whoami["place"], "token bot at 127.0.0.1");
    let mut never = good.clone().into_bytes();
    never[20] = if never[20] == b'a' { b'b' } else { b'a' };
    let never = String::from_utf8(never).expect("letters");
    let wrong = ask(&gateway, "GET", "/v1/whoami", &never, None);
    assert_eq!(wrong.header("www-authenticate"), Some("Bearer"));
    let revoked = token(&lab, "admin", "gone", &[]);
    lab.ok(["token", "revoke", "gone"]);
    let gone = ask(&gateway, "GET", "/v1/whoami", &revoked, None);
    assert_eq!(wrong.problem(401, "not-allowed"), gone.problem(401, "not-allowed"), "the same words");
    ask(&gateway, "GET", "/v1/whoami", "", None).problem(401, "not-allowed");
    ask(&gateway, "GET", "/v1/whoami", &"berth_".repeat(500), None).problem(401, "not-allowed");
    let last_used = || lab.json(["token", "ls", "--json"])[0]["last_used_at"].is_string();
    wait_until("the use of the token to be known", last_used);
}

#[test]
fn at_the_socket_the_owner_needs_no_token_and_a_token_that_is_shown_limits_the_client() {
    let lab = lab();
    let gateway = serve(&lab);
    assert_eq!(gateway.get("/v1/whoami").ok()["scope"], "admin");
    // Another gateway of the owner passes on the scope of its own client.
    let passed_on =
        gateway.ask("GET", "/v1/whoami", &[("Berth-Scope", "send"), ("Berth-Place", "a phone")], None).ok();
    assert_eq!((&passed_on["scope"], &passed_on["place"]), (&json!("send"), &json!("a phone")));
    gateway.ask("GET", "/v1/tokens", &[("Berth-Scope", "send")], None).problem(403, "not-allowed");
    gateway.ask("GET", "/v1/whoami", &[("Berth-Scope", "root")], None).problem(400, "usage");
    gateway
        .ask("GET", "/v1/whoami", &[("Berth-Scope", "read"), ("Berth-Scope", "admin")], None)
        .problem(400, "usage");
    gateway.ask_tcp("GET", "/v1/whoami", &[("Berth-Scope", "admin")], None).problem(401, "not-allowed");
    let read = bearer(&token(&lab, "read", "bot", &[]));
    assert_eq!(gateway.ask("GET", "/v1/whoami", &[("Authorization", &read)], None).ok()["scope"], "read");
    gateway.ask("GET", "/v1/tokens", &[("Authorization", &read)], None).problem(403, "not-allowed");
    gateway.ask("GET", "/v1/whoami", &[("Authorization", "Bearer x")], None).problem(401, "not-allowed");
}

#[test]
fn a_revoked_token_is_refused_at_once_on_a_connection_that_was_let_in_before() {
    let lab = lab();
    let gateway = serve(&lab);
    let secret = token(&lab, "read", "bot", &[]);
    for _ in 0..3 {
        ask(&gateway, "GET", "/v1/whoami", &secret, None).ok();
    }
    lab.ok(["token", "revoke", "bot"]);
    ask(&gateway, "GET", "/v1/whoami", &secret, None).problem(401, "not-allowed");
    // The name is free again, and the old secret stays what it is.
    let next = token(&lab, "read", "bot", &[]);
    ask(&gateway, "GET", "/v1/whoami", &secret, None).problem(401, "not-allowed");
    ask(&gateway, "GET", "/v1/whoami", &next, None).ok();
}

#[test]
fn h3_a_token_ends_by_the_clock_of_the_gateway_whatever_the_client_believes() {
    let lab = lab();
    let gateway = serve(&lab);
    let admin = token(&lab, "admin", "admin", &[]);
    let body = json!({"name": "short", "scope": "read", "expires_in_ms": 10_000});
    let short = ask(&gateway, "POST", "/v1/tokens", &admin, Some(&body)).ok();
    let secret = short["secret"].as_str().expect("the secret").to_owned();
    // A client whose clock is ten minutes off sends its time, and the gateway ignores it.
    let skewed = [("Authorization", &*bearer(&secret)), ("Date", "Mon, 01 Jan 2024 00:00:00 GMT")];
    assert_eq!(gateway.ask_tcp("GET", "/v1/whoami", &skewed, None).status, 200);
    wait_until("the token to end", || gateway.ask_tcp("GET", "/v1/whoami", &skewed, None).status != 200);
    gateway.ask_tcp("GET", "/v1/whoami", &skewed, None).problem(401, "not-allowed");
    let listed = lab.json(["token", "ls", "--json"]);
    assert!(
        listed.as_array().expect("a list").iter().any(|it| it["name"] == "short" && it["expired"] == true)
    );
}

#[test]
fn the_api_makes_lists_and_revokes_tokens_as_the_command_line_does() {
    let lab = lab();
    let gateway = serve(&lab);
    let admin = token(&lab, "admin", "admin", &[]);
    let body = json!({"name": "bot", "scope": "send"});
    let made = ask(&gateway, "POST", "/v1/tokens", &admin, Some(&body));
    assert_eq!(made.status, 201);
    let secret = made.ok()["secret"].as_str().expect("the secret").to_owned();
    assert_eq!(ask(&gateway, "GET", "/v1/whoami", &secret, None).ok()["scope"], "send");
    ask(&gateway, "POST", "/v1/tokens", &admin, Some(&body)).problem(409, "refused");
    ask(&gateway, "POST", "/v1/tokens", &admin, Some(&json!({"name": "x", "scope": "root"})))
        .problem(400, "usage");
    ask(&gateway, "POST", "/v1/tokens", &admin, Some(&json!({"name": "x", "scope": "read", "al": 1})))
        .problem(400, "usage");
    ask(&gateway, "POST", "/v1/tokens", &admin, Some(&json!({"name": "../x", "scope": "read"})))
        .problem(400, "usage");
    // The time of a token's last use is written down after the answer.
    let all = || ask(&gateway, "GET", "/v1/tokens", &admin, None).ok()["tokens"].clone();
    let used = |token: &serde_json::Value| !token["last_used_at"].is_null();
    wait_until("both to have been used", || all().as_array().is_some_and(|all| all.iter().all(used)));
    assert_eq!(all(), lab.json(["token", "ls", "--json"]));
    for odd in ["..%2f..%2flease", "lock", "%00", "..", "bot%2f", "bot.json"] {
        let reply = ask(&gateway, "DELETE", &format!("/v1/tokens/{odd}"), &admin, None);
        assert!(matches!(reply.status, 400 | 404 | 405), "{odd}: {reply:?}");
    }
    let gone = ask(&gateway, "DELETE", "/v1/tokens/bot", &admin, None).ok();
    assert_eq!(gone["revoked"][0]["name"], "bot");
    ask(&gateway, "GET", "/v1/whoami", &secret, None).problem(401, "not-allowed");
    // Revoking itself also revokes the tokens that it made, and is the last thing a token can do.
    let child =
        ask(&gateway, "POST", "/v1/tokens", &admin, Some(&json!({"name": "child", "scope": "admin"}))).ok();
    let child = child["secret"].as_str().expect("the secret").to_owned();
    assert_eq!(
        ask(&gateway, "DELETE", "/v1/tokens/admin", &admin, None).ok()["revoked"].as_array().map(Vec::len),
        Some(2)
    );
    ask(&gateway, "GET", "/v1/whoami", &child, None).problem(401, "not-allowed");
    assert_eq!(lab.json(["token", "ls", "--json"]), json!([]));
}

#[test]
fn a_token_for_some_sessions_makes_no_token_for_others_and_knows_of_none() {
    let lab = lab();
    let gateway = serve(&lab);
    let (one, two) =
        (lab.start_with(&["--name", "one"], &["hang"]), lab.start_with(&["--name", "two"], &["hang"]));
    let admin = token(&lab, "admin", "some", &["--yes", "--session", "one"]);
    token(&lab, "read", "stranger", &["--session", "two"]);
    let make = |name: &str, more: serde_json::Value| {
        let mut body = json!({"name": name, "scope": "read"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        ask(&gateway, "POST", "/v1/tokens", &admin, Some(&body))
    };
    make("a", json!({})).problem(403, "not-allowed");
    let hidden = make("a", json!({"sessions": [two]})).problem(404, "not-found");
    let absent = make("a", json!({"sessions": ["000000000000"]})).problem(404, "not-found");
    assert_eq!(
        hidden.to_string().replace(&two, "000000000000"),
        absent.to_string(),
        "no hint that it exists"
    );
    let made = make("a", json!({"sessions": ["one"]})).ok();
    assert_eq!(made["token"]["sessions"], json!([one]));
    let names = |reply: serde_json::Value| {
        reply["tokens"].as_array().expect("a list").iter().map(|it| it["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(ask(&gateway, "GET", "/v1/tokens", &admin, None).ok()), ["some", "a"]);
    ask(&gateway, "DELETE", "/v1/tokens/stranger", &admin, None).problem(404, "not-found");
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn a_token_ends_after_90_days_unless_its_maker_says_never_and_then_there_is_a_warning() {
    let lab = lab();
    let gateway = serve(&lab);
    let days = |token: &serde_json::Value| {
        let time = |field: &str| -> jiff::Timestamp {
            token[field].as_str().and_then(|time| time.parse().ok()).unwrap_or_else(|| panic!("{token}"))
        };
        time("expires_at").duration_since(time("created_at")).as_hours() / 24
    };
    let new = |name: &str, more: &[&str]| {
        let said =
            lab.berth([&["token", "new", "--scope", "admin", "--json", "--name", name], more].concat());
        assert_eq!(said.code, 0, "{said:?}");
        (serde_json::from_str::<serde_json::Value>(&said.out).expect("JSON"), said.err)
    };
    let (usual, heard) = new("usual", &[]);
    assert_eq!(days(&usual["token"]), 90);
    assert!(!heard.contains("warning"), "{heard}");
    assert_eq!(days(&new("short", &["--expires", "3d"]).0["token"]), 3);
    let (never, heard) = new("never", &["--expires", "never"]);
    assert!(never["token"]["expires_at"].is_null(), "{never}");
    assert!(heard.contains("warning: token `never` never expires"), "{heard}");
    let post = |body: serde_json::Value| gateway.ask("POST", "/v1/tokens", &[], Some(&body));
    let made = post(json!({"name": "a", "scope": "read"})).ok();
    assert_eq!(days(&made["token"]), 90);
    let made = post(json!({"name": "b", "scope": "read", "never_expires": true})).ok();
    assert!(made["token"]["expires_at"].is_null(), "{made}");
    post(json!({"name": "c", "scope": "read", "never_expires": true, "expires_in_ms": 5}))
        .problem(400, "usage");
}

#[test]
fn a_list_of_sessions_for_a_scope_that_it_does_not_confine_needs_a_yes() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["hang"]);
    for scope in ["control", "admin"] {
        let args = ["token", "new", "--scope", scope, "--name", scope, "--session", "one"];
        let said = lab.berth(args);
        assert_eq!(said.code, 7, "{said:?}");
        assert!(said.err.contains("does not confine") && said.err.contains("--yes"), "{said:?}");
        let said = lab.berth(["link", "--scope", scope, "--session", "one", "--base", "http://x"]);
        assert_eq!(said.code, 7, "{said:?}");
        for path in ["/v1/tokens", "/v1/links"] {
            let mut body = json!({"scope": scope, "sessions": ["one"]});
            if path == "/v1/tokens" {
                body["name"] = json!("x");
            }
            let problem = gateway.ask("POST", path, &[], Some(&body)).problem(428, "needs-yes");
            assert!(problem["title"].as_str().is_some_and(|it| it.contains("does not confine")), "{problem}");
        }
        assert_eq!(lab.json(["token", "ls", "--json"]), json!([]), "nothing was made");
    }
    lab.ok(["token", "new", "--scope", "control", "--name", "a", "--session", "one", "--yes"]);
    lab.ok(["token", "new", "--scope", "send", "--name", "b", "--session", "one"]);
    lab.ok(["link", "--scope", "control", "--session", "one", "--yes", "--base", "http://x"]);
    let body = json!({"name": "c", "scope": "admin", "sessions": ["one"], "yes": true});
    gateway.ask("POST", "/v1/tokens", &[], Some(&body)).ok();
    for help in [["token", "new", "--help"].as_slice(), &["link", "--help"]] {
        let help = lab.ok(help).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("does not limit `control` and `admin`"), "{help}");
    }
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn an_admin_token_of_another_state_directory_opens_nothing_after_it_is_copied() {
    let (here, there) = (lab(), lab());
    let gateway = serve(&here);
    token(&here, "read", "own", &[]);
    let stranger = token(&there, "admin", "stranger", &[]);
    for entry in std::fs::read_dir(there.home().join("tokens")).expect("tokens") {
        let path = entry.expect("ours").path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let to = here.home().join("tokens").join(path.file_name().expect("a name"));
            std::fs::copy(&path, to).expect("our own directory");
        }
    }
    ask(&gateway, "GET", "/v1/whoami", &stranger, None).problem(401, "not-allowed");
    let said = here.berth(["token", "ls"]);
    assert!(said.out.contains("void") && said.err.contains("berth token new"), "{said:?}");
    here.ok(["token", "revoke", "stranger"]);
    assert!(!here.ok(["token", "ls"]).contains("void"));
}
