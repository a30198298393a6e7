//! Browsers: a link that works once, a form, a key for one origin, and the way out.

use std::sync::Barrier;

use berth_config::tokens::MOST_BROWSERS;
use berth_harness::{exchange, request};
use serde_json::json;

use crate::gateway_auth::{bearer, key_of, lab, origin, post_form, serve, token};

/// Marks a form whose button the page presses by itself.
const PRESSES: &str = "data-opened";

fn link(lab: &berth_harness::TestEnvironment, more: &[&str]) -> String {
    let url = lab.ok([&["link"], more].concat());
    url.trim().split_once("?link=").unwrap_or_else(|| panic!("{url}")).1.to_owned()
}

#[test]
fn a_link_is_not_used_up_by_looking_and_lets_one_browser_in_once() {
    let lab = lab();
    let mut gateway = serve(&lab);
    let url = lab.ok(["link"]);
    let port = origin(&gateway).rsplit_once(':').expect("a port").1.to_owned();
    assert!(url.starts_with(&format!("http://berth.localhost:{port}/login?link=berthlink_")), "{url}");
    let secret = url.trim().split_once("?link=").expect("a link").1.to_owned();
    for _ in 0..3 {
        let page = gateway.ask_tcp("GET", &format!("/login?link={secret}"), &[], None);
        assert_eq!((page.status, page.header("set-cookie")), (200, None));
        assert!(
            page.text().contains(&secret) && !page.text().contains(PRESSES),
            "the button was not pressed"
        );
    }
    // The browser of a user who opened the link directly presses the button.
    let path = format!("/login?link={secret}");
    let opened = gateway.ask_tcp("GET", &path, &[("Sec-Fetch-Site", "none")], None);
    assert!(opened.text().contains(PRESSES));
    let ahead =
        gateway.ask_tcp("GET", &path, &[("Sec-Fetch-Site", "none"), ("Sec-Purpose", "prefetch")], None);
    assert!(!ahead.text().contains(PRESSES));
    let form = format!("link={secret}");
    let own = origin(&gateway);
    let entered = post_form(&gateway, "/login", &[("Origin", &own)], &form);
    assert_eq!((entered.status, entered.header("set-cookie")), (200, None));
    assert_eq!(entered.header("cache-control"), Some("no-store"));
    let replayed = post_form(&gateway, "/login", &[("Origin", &own)], &form);
    let problem = replayed.problem(410, "refused");
    assert!(problem["title"].as_str().is_some_and(|it| it.contains("used already")), "{problem}");
    let key = key_of(&entered);
    let whoami = gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).ok();
    assert_eq!((&whoami["scope"], &whoami["kind"]), (&json!("control"), &json!("login")));
    // The gateway holds nothing: the next one knows the browser.
    gateway.kill();
    let gateway = serve(&lab);
    let after = gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).ok();
    assert_eq!(after["name"], whoami["name"]);
    lab.ok(["token", "revoke", whoami["name"].as_str().expect("a name")]);
    gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).problem(401, "not-allowed");
}

#[test]
fn of_browsers_that_use_one_link_at_the_same_moment_exactly_one_gets_in() {
    let lab = lab();
    let gateway = serve(&lab);
    for _ in 0..5 {
        let form = format!("link={}", link(&lab, &["--scope", "read"]));
        let start = Barrier::new(6);
        let replies: Vec<_> = std::thread::scope(|scope| {
            let enter = || {
                start.wait();
                post_form(&gateway, "/login", &[], &form)
            };
            let all: Vec<_> = (0..6).map(|_| scope.spawn(enter)).collect();
            all.into_iter().map(|it| it.join().expect("an answer")).collect()
        });
        let won: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert_eq!(won.len(), 1, "{replies:?}");
        replies
            .iter()
            .filter(|reply| reply.status != 200)
            .for_each(|reply| drop(reply.problem(410, "refused")));
        let key = key_of(won[0]);
        assert_eq!(
            gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).ok()["scope"],
            "read"
        );
    }
}

#[test]
fn a_login_counts_in_its_header_and_in_a_sub_protocol_and_never_as_a_cookie() {
    let lab = lab();
    let gateway = serve(&lab);
    let own = origin(&gateway);
    let key =
        key_of(&post_form(&gateway, "/login", &[], &format!("link={}", link(&lab, &["--scope", "admin"]))));
    let secret = key.strip_prefix("Bearer ").expect("a key").to_owned();
    let whoami = |headers: &[(&str, &str)]| gateway.ask_tcp("GET", "/v1/whoami", headers, None);
    // A cookie never counts, under any name, even if the request claims to come from the gateway's own page.
    let port = own.rsplit_once(':').expect("a port").1;
    for name in [format!("berth-{port}"), format!("__Host-berth-{port}"), "berth.login".to_owned()] {
        let cookie = format!("{name}={secret}");
        let headers =
            [("Cookie", cookie.as_str()), ("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")];
        whoami(&headers).problem(401, "not-allowed");
    }
    // Requests of another origin are refused, even with the key.
    for foreign in ["http://localhost:3000", "https://evil.example", "null"] {
        whoami(&[("Authorization", &key), ("Origin", foreign)]).problem(403, "not-allowed");
    }
    // A link is not a login, and a token is not one in a sub-protocol.
    let other = format!("Bearer {}", link(&lab, &[]));
    whoami(&[("Authorization", &other)]).problem(401, "not-allowed");
    let protocols = |secret: &str| format!("berth.terminal.v1, berth.login.{secret}");
    let upgrade = |protocols: &str| {
        let headers = [
            ("Connection", "upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", protocols),
            ("Origin", own.as_str()),
        ];
        gateway.ask_tcp("GET", "/v1/sessions/none/terminal", &headers, None)
    };
    upgrade("berth.terminal.v1").problem(401, "not-allowed");
    upgrade(&protocols(&token(&lab, "admin", "bot", &[]))).problem(401, "not-allowed");
    upgrade(&protocols(&secret)).problem(404, "not-found");
    // Logging out needs the login, and ends it.
    post_form(&gateway, "/logout", &[("Authorization", &key), ("Origin", "https://evil.example")], "")
        .problem(403, "not-allowed");
    assert_eq!(post_form(&gateway, "/logout", &[("Origin", &own)], "").status, 204);
    assert_eq!(whoami(&[("Authorization", &key)]).status, 200);
    assert_eq!(post_form(&gateway, "/logout", &[("Authorization", &key), ("Origin", &own)], "").status, 204);
    whoami(&[("Authorization", &key)]).problem(401, "not-allowed");
}

#[test]
fn a_browser_that_logged_in_with_a_token_goes_no_further_and_no_longer_than_it() {
    let lab = lab();
    let gateway = serve(&lab);
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    let secret = token(&lab, "send", "bot", &["--session", "one", "--expires", "1h"]);
    let entered = post_form(&gateway, "/login", &[], &format!("token=%20{secret}%0A"));
    let made = entered.ok();
    let ends = |token: &serde_json::Value| token["expires_at"].as_str().expect("an end").to_owned();
    let listed = lab.json(["token", "ls", "--json"]);
    let bot =
        listed.as_array().and_then(|all| all.iter().find(|it| it["name"] == "bot")).expect("it is listed");
    assert_eq!(ends(&made["token"]), ends(bot), "{made}");
    let key = key_of(&entered);
    let whoami = gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).ok();
    assert_eq!((&whoami["scope"], &whoami["sessions"]), (&json!("send"), &json!([id])));
    lab.ok(["token", "revoke", "bot"]);
    gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).problem(401, "not-allowed");
    lab.ok(["stop", "one", "--grace", "0s"]);
}

#[test]
fn a_form_that_never_ends_is_not_waited_for() {
    let lab = lab();
    let gateway = lab.serve_in(&["--listen=127.0.0.1:0"], &[("BERTH_CLIENT_MS", "700")]);
    let host = gateway.address.clone().expect("it listens on TCP");
    let form = [
        ("Host", host.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", "100"),
    ];
    let half = [request("POST", "/login", &form, None), b"token=".to_vec()].concat();
    exchange(gateway.connect_tcp(), &half).problem(408, "usage");
}

#[test]
fn one_token_logs_in_a_limited_number_of_browsers_and_keeps_no_other_token_out() {
    let lab = lab();
    let gateway = serve(&lab);
    let form = format!("token={}", token(&lab, "read", "reader", &[]));
    let is_in =
        |key: &str| gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", key)], None).status == 200;
    let enter = || key_of(&post_form(&gateway, "/login", &[], &form));
    let keys: Vec<String> = (0..MOST_BROWSERS + 5).map(|_| enter()).collect();
    let inside: Vec<bool> = keys.iter().map(|key| is_in(key)).collect();
    assert_eq!(inside.iter().filter(|it| **it).count(), MOST_BROWSERS, "{inside:?}");
    assert!(!inside[0] && inside[MOST_BROWSERS + 4], "the oldest login makes room: {inside:?}");
    let listed = lab.json(["token", "ls", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(MOST_BROWSERS + 1), "{listed}");
    let other = key_of(&post_form(&gateway, "/login", &[], &format!("link={}", link(&lab, &[]))));
    assert!(is_in(&other));
    enter();
    assert!(is_in(&other), "one of another token is none of its");
}

#[test]
fn a_login_that_makes_no_sense_gets_a_typed_answer() {
    let lab = lab();
    let gateway = serve(&lab);
    let secret = link(&lab, &[]);
    post_form(&gateway, "/login", &[], "").problem(400, "usage");
    post_form(&gateway, "/login", &[], &format!("link={secret}&token=x")).problem(400, "usage");
    post_form(&gateway, "/login", &[], "link=../../x").problem(401, "not-allowed");
    post_form(&gateway, "/login", &[], &format!("token={secret}")).problem(401, "not-allowed");
    post_form(&gateway, "/login", &[], &format!("link={}", "x".repeat(100_000))).problem(413, "usage");
    post_form(&gateway, "/login", &[("Origin", "https://evil.example")], &format!("link={secret}"))
        .problem(403, "not-allowed");
    gateway.ask_tcp("POST", "/login", &[], Some(&json!({"link": secret}))).problem(415, "usage");
    let page = gateway.ask_tcp("GET", "/login?link=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", &[], None);
    assert!(page.status == 200 && !page.text().contains("alert(1)"), "{page:?}");
    let id = lab.json(["token", "ls", "--json"])[0]["id"].as_str().expect("an id").to_owned();
    lab.ok(["token", "revoke", &id]);
    post_form(&gateway, "/login", &[], &format!("link={secret}")).problem(401, "not-allowed");
    // Over the API, with the name by which we were asked.
    let admin = bearer(&token(&lab, "admin", "bot", &[]));
    let made =
        gateway.ask_tcp("POST", "/v1/links", &[("Authorization", &admin)], Some(&json!({"scope": "read"})));
    let url = made.ok()["url"].as_str().expect("an address").to_owned();
    assert!(url.starts_with(&format!("{}/login?link=berthlink_", origin(&gateway))), "{url}");
    let secret = url.split_once("?link=").expect("a link").1.to_owned();
    assert_eq!(post_form(&gateway, "/login", &[], &format!("link={secret}")).status, 200);
}

#[test]
fn a_gateway_on_a_terminal_shows_a_link_and_one_in_a_script_does_not() {
    let lab = lab();
    let mut terminal = lab.terminal(["serve", "--listen=127.0.0.1:0"]);
    terminal.wait_until("the link", |terminal| {
        terminal.text().replace('\n', "").contains("/login?link=berthlink_")
    });
    terminal.signal(rustix::process::Signal::TERM);
    terminal.wait_exit();
    let refused = lab.berth(["link"]);
    assert_eq!(refused.code, 5, "no gateway runs: {refused:?}");
    let gateway = lab.serve();
    assert_eq!(lab.berth(["link"]).code, 1, "it has no address for browsers");
    assert!(
        lab.ok(["link", "--base", "https://berth.example.com/"])
            .starts_with("https://berth.example.com/login?link=")
    );
    drop(gateway);
}

#[test]
fn a_form_that_no_script_sends_gets_no_key_and_uses_no_link_up() {
    let lab = lab();
    let gateway = serve(&lab);
    let own = origin(&gateway);
    let form = format!("link={}", link(&lab, &[]));
    let sent = post_form(&gateway, "/login", &[("Origin", &own), ("Accept", "text/html,*/*")], &form);
    let problem = sent.problem(400, "usage");
    assert!(problem["title"].as_str().is_some_and(|it| it.contains("JavaScript")), "{problem}");
    assert_eq!(post_form(&gateway, "/login", &[("Origin", &own)], &form).status, 200);
}

#[test]
fn a_browser_is_called_something_that_its_person_recognises() {
    let lab = lab();
    let gateway = serve(&lab);
    let phone = ("User-Agent", "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0");
    let enter = |form: String| {
        let key = key_of(&post_form(&gateway, "/login", &[phone], &form));
        gateway.ask_tcp("GET", "/v1/whoami", &[("Authorization", &key)], None).ok()
    };
    let by_link = enter(format!("link={}", link(&lab, &[])));
    assert_eq!(by_link["name"], "firefox-on-android");
    assert_eq!(by_link["place"], "firefox-on-android at 127.0.0.1");
    assert_eq!(enter(format!("link={}", link(&lab, &[])))["name"], "firefox-on-android-2");
    let by_token = enter(format!("token={}", token(&lab, "read", "annas-phone", &[])));
    assert_eq!(by_token["place"], "annas-phone.firefox-on-android at 127.0.0.1");
    assert!(lab.ok(["token", "ls"]).contains("firefox-on-android-2"));
    lab.ok(["token", "revoke", "firefox-on-android-2"]);
}
