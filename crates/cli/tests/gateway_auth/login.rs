//! Browsers: a link that works once, a form, a cookie, and the way out.

use std::sync::Barrier;

use berth_harness::{exchange, request};
use berth_verbs::tokens::MOST_BROWSERS;
use serde_json::json;

use crate::{ask, bearer, cookie_of, lab, origin, post_form, serve, token};

/// What presses the button by itself.
const PRESSES: &str = "requestSubmit";

fn link(lab: &berth_harness::Lab, more: &[&str]) -> String {
    let url = lab.ok([&["link"], more].concat());
    url.trim().split_once("?link=").unwrap_or_else(|| panic!("{url}")).1.to_owned()
}

#[test]
fn a_link_is_not_used_up_by_looking_and_lets_one_browser_in_once() {
    let lab = lab();
    let mut gateway = serve(&lab);
    let url = lab.ok(["link"]);
    assert!(url.starts_with(&format!("{}/login?link=berthlink_", origin(&gateway))), "{url}");
    let secret = url.trim().split_once("?link=").expect("a link").1.to_owned();
    for _ in 0..3 {
        let page = gateway.ask_tcp("GET", &format!("/login?link={secret}"), &[], None);
        assert_eq!((page.status, page.header("set-cookie")), (200, None));
        assert!(page.text().contains(&secret) && !page.text().contains(PRESSES), "nobody presses the button");
    }
    // The browser of whoever opened it themselves presses the button.
    let path = format!("/login?link={secret}");
    let opened = gateway.ask_tcp("GET", &path, &[("Sec-Fetch-Site", "none")], None);
    assert!(opened.text().contains(PRESSES));
    let ahead =
        gateway.ask_tcp("GET", &path, &[("Sec-Fetch-Site", "none"), ("Sec-Purpose", "prefetch")], None);
    assert!(!ahead.text().contains(PRESSES));
    let form = format!("link={secret}");
    let own = origin(&gateway);
    let entered = post_form(&gateway, "/login", &[("Origin", &own)], &form);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let set = entered.header("set-cookie").expect("a cookie").to_owned();
    let attributes: Vec<&str> = set.split("; ").skip(1).collect();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(attributes.contains(&word), "{set}");
    }
    // A week, less what it took.
    let seconds = attributes.iter().find_map(|it| it.strip_prefix("Max-Age=")?.parse::<u32>().ok());
    assert!(seconds.is_some_and(|it| (604_000..=604_800).contains(&it)), "{set}");
    let replayed = post_form(&gateway, "/login", &[("Origin", &own)], &form);
    let problem = replayed.problem(410, "refused");
    assert!(problem["title"].as_str().is_some_and(|it| it.contains("used already")), "{problem}");
    assert_eq!(replayed.header("set-cookie"), None);
    let as_page = post_form(&gateway, "/login", &[("Origin", &own), ("Accept", "text/html")], &form);
    assert_eq!(as_page.status, 410);
    assert!(as_page.text().contains("used already") && as_page.text().contains("<form"));
    let cookie = cookie_of(&entered);
    let whoami = gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).ok();
    assert_eq!((&whoami["scope"], &whoami["kind"]), (&json!("admin"), &json!("cookie")));
    // The gateway holds nothing: the next one knows the browser. The port is another, and so is the cookie's name.
    gateway.kill();
    let gateway = serve(&lab);
    let port = gateway.address.as_ref().and_then(|it| it.rsplit_once(':')).expect("a port").1;
    let cookie = format!("berth-{port}={}", cookie.split_once('=').expect("a pair").1);
    let after = gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).ok();
    assert_eq!(after["name"], whoami["name"]);
    lab.ok(["token", "revoke", whoami["name"].as_str().expect("a name")]);
    gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).problem(401, "not-allowed");
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
        let won: Vec<_> = replies.iter().filter(|reply| reply.status == 303).collect();
        assert_eq!(won.len(), 1, "{replies:?}");
        replies
            .iter()
            .filter(|reply| reply.status != 303)
            .for_each(|reply| drop(reply.problem(410, "refused")));
        let cookie = cookie_of(won[0]);
        assert_eq!(gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).ok()["scope"], "read");
    }
}

#[test]
fn a_cookie_changes_nothing_without_a_word_that_it_is_our_own_page() {
    let lab = lab();
    let gateway = serve(&lab);
    let own = origin(&gateway);
    let cookie = cookie_of(&post_form(&gateway, "/login", &[], &format!("link={}", link(&lab, &[]))));
    let post = |headers: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], headers].concat();
        gateway.ask_tcp("POST", "/v1/tokens", &headers, Some(&json!({"name": "x", "scope": "read"})))
    };
    post(&[]).problem(403, "not-allowed");
    post(&[("Sec-Fetch-Site", "none")]).problem(403, "not-allowed");
    post(&[("Origin", "http://localhost:3000")]).problem(403, "not-allowed");
    post(&[("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]).problem(403, "not-allowed");
    assert!(!lab.json(["token", "ls", "--json"]).to_string().contains("\"x\""));
    let upgrade = [("Cookie", cookie.as_str()), ("Connection", "upgrade"), ("Upgrade", "websocket")];
    gateway.ask_tcp("GET", "/v1/sessions/one/terminal", &upgrade, None).problem(403, "not-allowed");
    assert_eq!(post(&[("Origin", &own)]).status, 201);
    assert_eq!(post(&[("Sec-Fetch-Site", "same-origin")]).status, 409, "it comes as far as the name");
    // Nor is a cookie a token, or a token a cookie.
    let value = cookie.split_once('=').expect("a pair").1;
    ask(&gateway, "GET", "/v1/whoami", value, None).problem(401, "not-allowed");
    let secret = token(&lab, "admin", "bot", &[]);
    let name = cookie.split_once('=').expect("a pair").0;
    gateway
        .ask_tcp("GET", "/v1/whoami", &[("Cookie", &format!("{name}={secret}"))], None)
        .problem(401, "not-allowed");
    gateway.post("/logout", &json!({}));
    // Somebody else's page cannot log this browser out.
    post_form(&gateway, "/logout", &[("Cookie", &cookie), ("Origin", "https://evil.example")], "")
        .problem(403, "not-allowed");
    post_form(&gateway, "/logout", &[("Cookie", &cookie)], "").problem(403, "not-allowed");
    assert_eq!(gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).status, 200);
    let out = post_form(&gateway, "/logout", &[("Cookie", &cookie), ("Origin", &own)], "");
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").is_some_and(|it| it.contains("Max-Age=0")));
    gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).problem(401, "not-allowed");
}

#[test]
fn a_browser_that_logged_in_with_a_token_goes_no_further_and_no_longer_than_it() {
    let lab = lab();
    let gateway = serve(&lab);
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    let secret = token(&lab, "send", "bot", &["--session", "one", "--expires", "1h"]);
    let entered = post_form(&gateway, "/login", &[], &format!("token=%20{secret}%0A"));
    assert_eq!(entered.status, 303, "{entered:?}");
    let set = entered.header("set-cookie").expect("a cookie");
    let life: u64 =
        set.split("Max-Age=").nth(1).and_then(|it| it.split(';').next()?.parse().ok()).expect("a life");
    assert!(life <= 3600, "{set}");
    let cookie = cookie_of(&entered);
    let whoami = gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).ok();
    assert_eq!((&whoami["scope"], &whoami["sessions"]), (&json!("send"), &json!([id])));
    lab.ok(["token", "revoke", "bot"]);
    gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).problem(401, "not-allowed");
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
fn one_token_logs_in_so_many_browsers_and_keeps_nobody_else_out() {
    let lab = lab();
    let gateway = serve(&lab);
    let form = format!("token={}", token(&lab, "read", "reader", &[]));
    let is_in =
        |cookie: &str| gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", cookie)], None).status == 200;
    let enter = || cookie_of(&post_form(&gateway, "/login", &[], &form));
    let cookies: Vec<String> = (0..MOST_BROWSERS + 5).map(|_| enter()).collect();
    let inside: Vec<bool> = cookies.iter().map(|cookie| is_in(cookie)).collect();
    assert_eq!(inside.iter().filter(|it| **it).count(), MOST_BROWSERS, "{inside:?}");
    assert!(!inside[0] && inside[MOST_BROWSERS + 4], "who came first makes room: {inside:?}");
    let listed = lab.json(["token", "ls", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(MOST_BROWSERS + 1), "{listed}");
    let other = cookie_of(&post_form(&gateway, "/login", &[], &format!("link={}", link(&lab, &[]))));
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
    assert!(page.status == 200 && !page.text().contains("alert"), "{page:?}");
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
    assert_eq!(post_form(&gateway, "/login", &[], &format!("link={secret}")).status, 303);
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
fn a_link_that_lets_nobody_in_any_more_takes_a_browser_that_is_in_to_the_page_and_tells_another_what_to_do() {
    let lab = lab();
    let gateway = serve(&lab);
    let own = origin(&gateway);
    let used = link(&lab, &[]);
    let cookie = cookie_of(&post_form(&gateway, "/login", &[], &format!("link={used}")));
    let inside = [("Cookie", cookie.as_str()), ("Origin", own.as_str()), ("Accept", "text/html")];
    let gone = link(&lab, &["--scope", "read"]);
    let id = lab
        .json(["token", "ls", "--json"])
        .as_array()
        .expect("a list")
        .iter()
        .find_map(|it| (it["kind"] == "link").then(|| it["id"].as_str().expect("an id").to_owned()));
    lab.ok(["token", "revoke", &id.expect("the link")]);
    for secret in [used.as_str(), gone.as_str(), "nonsense"] {
        let path = format!("/login?link={secret}");
        let opened = gateway.ask_tcp("GET", &path, &inside[..1], None);
        assert_eq!((opened.status, opened.header("location")), (303, Some("/")), "{secret}");
    }
    let pressed = post_form(&gateway, "/login", &inside, &format!("link={used}"));
    assert_eq!((pressed.status, pressed.header("location")), (303, Some("/")));
    assert_eq!(pressed.header("set-cookie"), None, "it stays who it was");
    assert_eq!(
        gateway.ask_tcp("GET", "/login", &inside[..1], None).status,
        303,
        "there is nothing to log in to"
    );
    // A good link is another login, also for who is in.
    let good = link(&lab, &["--scope", "read"]);
    let opened = gateway.ask_tcp("GET", &format!("/login?link={good}"), &inside[..1], None);
    assert_eq!(opened.status, 200);
    let entered = cookie_of(&post_form(&gateway, "/login", &inside, &format!("link={good}")));
    assert_eq!(gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &entered)], None).ok()["scope"], "read");
    // Somebody who is not in hears what to do, and finds the form of a token.
    let stranger = post_form(&gateway, "/login", &inside[1..], &format!("link={used}"));
    assert_eq!(stranger.status, 410);
    for words in ["used already", "<code>berth link</code> makes another", "id=\"token\""] {
        assert!(stranger.text().contains(words), "{words}: {}", stranger.text());
    }
    assert!(!stranger.text().contains(&used), "nothing of the link is shown");
}

#[test]
fn a_browser_is_called_something_that_its_person_recognises() {
    let lab = lab();
    let gateway = serve(&lab);
    let phone = ("User-Agent", "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0");
    let enter = |form: String| {
        let cookie = cookie_of(&post_form(&gateway, "/login", &[phone], &form));
        gateway.ask_tcp("GET", "/v1/whoami", &[("Cookie", &cookie)], None).ok()
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
