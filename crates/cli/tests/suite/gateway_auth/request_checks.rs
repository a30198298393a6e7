//! The door: names that are not ours, pages that are not ours, headers said twice, and clients that fail too often.

use berth_harness::wait_until;
use berth_harness::{exchange, request};
use serde_json::json;

use crate::gateway_auth::{ask, bearer, lab, origin, post_form, serve, token};

#[test]
fn a_name_that_is_not_ours_reaches_nothing_even_with_a_good_token() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen=127.0.0.1:0", "--allow-host", "berth.example.com"]);
    let good = bearer(&token(&lab, "admin", "bot", &[]));
    let with_host = |host: &str, path: &str| {
        gateway.ask_tcp("GET", path, &[("Host", host), ("Authorization", &good)], None)
    };
    for path in ["/v1/sessions", "/healthz", "/login", "/openapi.json", "/nothing"] {
        with_host("rebound.evil.example", path).problem(421, "not-allowed");
        with_host("localhost.evil.example:7070", path).problem(421, "not-allowed");
    }
    for ours in
        ["localhost", "localhost:9999", "127.0.0.1", "[::1]:1", "berth.localhost", "Berth.Example.Com"]
    {
        assert_eq!(with_host(ours, "/v1/whoami").status, 200, "{ours}");
    }
    for odd in ["", "a b", "user@localhost", "localhost:0x1"] {
        with_host(odd, "/v1/whoami").problem(400, "usage");
    }
    gateway.ask("GET", "/v1/whoami", &[("Host", "rebound.evil.example")], None).problem(421, "not-allowed");
    let refused = lab.berth(["serve", "--allow-host", "*.example.com"]);
    assert_eq!(refused.code, 2, "{refused:?}");
}

#[test]
fn two_hosts_two_tokens_and_two_origins_are_refused_and_not_chosen_from() {
    let lab = lab();
    let gateway = serve(&lab);
    let (read, admin) = (bearer(&token(&lab, "read", "r", &[])), bearer(&token(&lab, "admin", "a", &[])));
    let send = |head: &str| {
        exchange(gateway.connect_tcp(), format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
    };
    let host = gateway.address.clone().expect("it listens on TCP");
    send(&format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nAuthorization: {read}\r\nAuthorization: {admin}"
    ))
    .problem(400, "usage");
    send(&format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nAuthorization: {read}\r\naUTHORIZATION: {read}"
    ))
    .problem(400, "usage");
    send(&format!("GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nAuthorization: {read}, {admin}"))
        .problem(401, "not-allowed");
    send(&format!("GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nAuthorization: {read}"))
        .problem(400, "usage");
    send(&format!("GET http://evil.example/v1/whoami HTTP/1.1\r\nHost: {host}\r\nAuthorization: {read}"))
        .problem(400, "usage");
    send(&format!("GET /v1/whoami HTTP/1.1\r\nAuthorization: {read}")).problem(400, "usage");
    let own = origin(&gateway);
    send(&format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nOrigin: {own}\r\nOrigin: {own}\r\nAuthorization: {read}"
    ))
    .problem(400, "usage");
    assert_eq!(
        send(&format!("GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nAuthorization: {read}")).ok()["scope"],
        "read"
    );
}

#[test]
fn a_page_of_another_origin_reaches_nothing_and_is_told_nothing_by_cors() {
    let lab = lab();
    let gateway = serve(&lab);
    let good = bearer(&token(&lab, "admin", "bot", &[]));
    let from = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let reply =
            gateway.ask_tcp(method, path, &[&[("Authorization", good.as_str())], headers].concat(), None);
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{reply:?}");
        reply
    };
    let own = origin(&gateway);
    for foreign in
        ["https://evil.example", "http://127.0.0.1:3000", "http://localhost:3000", "null", "http://127.0.0.1"]
    {
        from("GET", "/v1/sessions", &[("Origin", foreign)]).problem(403, "not-allowed");
        from("POST", "/v1/tokens", &[("Origin", foreign)]).problem(403, "not-allowed");
        from("OPTIONS", "/v1/tokens", &[("Origin", foreign), ("Access-Control-Request-Method", "POST")])
            .problem(403, "not-allowed");
        let upgrade = [("Origin", foreign), ("Connection", "upgrade"), ("Upgrade", "websocket")];
        from("GET", "/v1/sessions/one/terminal", &upgrade).problem(403, "not-allowed");
        from("GET", "/v1/events", &[("Origin", foreign), ("Accept", "text/event-stream")])
            .problem(403, "not-allowed");
        gateway.ask("GET", "/v1/sessions", &[("Origin", foreign)], None).problem(403, "not-allowed");
    }
    for site in ["cross-site", "same-site", "other"] {
        from("GET", "/v1/sessions", &[("Sec-Fetch-Site", site)]).problem(403, "not-allowed");
    }
    assert_eq!(from("GET", "/v1/sessions", &[("Origin", &own)]).status, 200);
    assert_eq!(from("GET", "/v1/sessions", &[("Sec-Fetch-Site", "same-origin")]).status, 200);
}

#[test]
fn every_answer_tells_the_browser_not_to_cache_and_not_to_trust_other_origins() {
    let lab = lab();
    let gateway = serve(&lab);
    let good = token(&lab, "read", "bot", &[]);
    let replies = [
        ask(&gateway, "GET", "/v1/sessions", &good, None),
        ask(&gateway, "GET", "/v1/nothing", &good, None),
        gateway.ask_tcp("GET", "/v1/sessions", &[], None),
        gateway.ask_tcp("GET", "/v1/sessions", &[("Host", "evil.example")], None),
        gateway.ask_tcp("GET", "/login", &[], None),
        gateway.get("/v1/sessions"),
    ];
    for reply in replies {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{reply:?}");
        }
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("strict-transport-security"), None, "there is no TLS here");
    }
}

#[test]
fn a_client_that_fails_too_often_is_told_when_to_retry_and_no_other_client_is_kept_out() {
    let lab = lab();
    let gateway = serve(&lab);
    let good = token(&lab, "read", "bot", &[]);
    let wrong = || ask(&gateway, "GET", "/v1/whoami", "berth_wrong", None);
    let mut limited = wrong();
    wait_until("the limit", || {
        limited = wrong();
        limited.status == 429
    });
    limited.problem(429, "full");
    let seconds: u64 =
        limited.header("retry-after").and_then(|it| it.parse().ok()).expect("when to come back");
    assert!((1..=3).contains(&seconds), "{seconds}");
    // A client at the same address: on one machine all clients share it.
    ask(&gateway, "GET", "/v1/whoami", &good, None).ok();
    gateway.ask_tcp("GET", "/v1/whoami", &[], None).problem(401, "not-allowed");
    // One failed try is forgiven after a while.
    wait_until("the limit", || {
        limited = post_form(&gateway, "/login", &[], "token=wrong");
        limited.status == 429
    });
    assert_eq!(limited.problem(429, "full")["exit_code"], json!(1));
    assert_eq!(post_form(&gateway, "/login", &[], &format!("token={good}")).status, 200);
    let bytes = request("GET", "/v1/whoami", &[("Authorization", "Bearer x")], None);
    exchange(gateway.connect(), &bytes).problem(401, "not-allowed");
}
