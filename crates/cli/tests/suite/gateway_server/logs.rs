//! Log lines of the gateway about requests, and the ids by which its log and a keeper's are read together.

use std::io::BufRead;
use std::process::Stdio;

use berth_harness::wait_until;
use serde_json::{Value, json};

use crate::gateway_server::lab;

#[test]
fn each_request_is_one_line_that_has_everything_but_secrets() {
    let lab = lab();
    let args = ["--listen", "127.0.0.1:0", "--log-format", "json"];
    let mut command = lab.command(["serve"].iter().chain(&args));
    command.stderr(Stdio::piped());
    let mut gateway = lab.serve_from(command, &args);
    let mut lines = gateway.stderr().expect("piped").lines();
    let mut next = || lines.next().expect("a line").expect("text");
    let secret = &*lab.ok(["token", "new", "--scope", "read", "--name", "reader"]);
    let secret = secret.trim();
    let asked = [
        ("Authorization", &*format!("Bearer {secret}")),
        ("Cookie", &*format!("other={secret}")),
        ("X-Request-Id", "mine-1"),
    ];
    let reply = gateway.ask("GET", &format!("/v1/sessions?link={secret}"), &asked, None);
    assert_eq!(reply.header("x-request-id"), Some("mine-1"));
    let line = next();
    assert!(!line.contains(secret), "{line}");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["method"], &line["route"], &line["status"]),
        (&"GET".into(), &"/v1/sessions".into(), &400.into()),
        "{line}"
    );
    assert_eq!(line["request_id"], "mine-1");
    assert!(
        line["ms"].as_f64().is_some() && line["time"].as_str().is_some_and(|time| time.ends_with('Z')),
        "{line}"
    );
    assert!(line["caller"].as_str().is_some_and(|caller| caller.contains("local socket")), "{line}");
    // An invalid token is as much of a secret, and the route that it was for is known.
    let wrong = format!("{secret}x");
    let asked = [("Authorization", &*format!("Bearer {wrong}")), ("X-Request-Id", "mine-2")];
    gateway.ask("GET", &format!("/v1/sessions?link={wrong}"), &asked, None).problem(401, "not-allowed");
    let line = next();
    assert!(!line.contains(secret), "{line}");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["route"], &line["status"], &line["caller"], &line["request_id"]),
        (&"/v1/sessions".into(), &401.into(), &"-".into(), &"mine-2".into()),
        "{line}"
    );
    // A stranger has no place, and a path that is not a route is not repeated: it may be anything.
    let reply = gateway.ask_tcp("GET", &format!("/{secret}"), &[("X-Request-Id", "no spaces")], None);
    let made = reply.header("x-request-id").expect("an id").to_owned();
    assert_eq!(made.len(), 32, "{made}");
    let line = next();
    assert!(!line.contains(secret), "{line}");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["route"], &line["request_id"], &line["caller"]),
        (&"-".into(), &made.into(), &"-".into()),
        "{line}"
    );
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let reply = gateway.ask("GET", "/healthz", &[("traceparent", parent)], None);
    assert_eq!(reply.header("x-request-id"), Some("0af7651916cd43dd8448eb211c80319c"));
}

#[test]
fn the_id_of_a_request_is_in_the_log_of_the_keeper_it_led_to() {
    let lab = lab();
    let agent = lab.agent();
    let mut run = lab.command(["run", "-d", "--name", "fix", "--", &agent, "hang"]);
    let id =
        run.env("BERTH_LOG", "debug").stderr(Stdio::null()).output().expect("berth can be started").stdout;
    let id = String::from_utf8(id).expect("text").trim().to_owned();
    let gateway = lab.serve();
    let ask = |headers: &[(&str, &str)], note: &str| {
        gateway.ask("PATCH", "/v1/sessions/fix", headers, Some(&json!({"note": note})))
    };
    assert_eq!(ask(&[("X-Request-Id", "trace-of-mine.7")], "first").ok()["id"], id.as_str());
    let log = std::fs::read_to_string(lab.session_dir(&id).join("keeper.log")).expect("a log");
    let line = log.lines().find(|line| line.contains("trace-of-mine.7")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("request=Note") && line.contains("asked"), "{line}");
    // Another request has an id of its own.
    ask(&[], "second").ok();
    let log = std::fs::read_to_string(lab.session_dir(&id).join("keeper.log")).expect("a log");
    let notes: Vec<&str> = log.lines().filter(|line| line.contains("request=Note")).collect();
    assert_eq!(notes.len(), 2, "{log}");
    let second = log.split_once(notes[1]).expect("it is in there").1;
    assert!(!notes[1].contains("trace-of-mine.7") && !second.contains("trace-of-mine.7"), "{log}");
}

#[test]
fn a_log_that_is_not_read_holds_up_no_client() {
    let lab = lab();
    let mut command = lab.command(["serve", "--log-format", "json"]);
    command.stderr(Stdio::piped());
    let mut gateway = lab.serve_from(command, &[]);
    // More than a pipe and the queue hold.
    for _ in 0..3000 {
        assert_eq!(gateway.get("/healthz").status, 200);
    }
    // When the log is read again, a line says how many were dropped.
    let lines = gateway.stderr().expect("piped").lines();
    let (sender, told) = std::sync::mpsc::channel();
    let reading =
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut dropped = None;
    wait_until("the count of dropped lines", || {
        assert_eq!(gateway.get("/healthz").status, 200);
        dropped = told.try_iter().find(|line| line.contains("lines-dropped"));
        dropped.is_some()
    });
    let line: Value = serde_json::from_str(&dropped.expect("it was told")).expect("JSON");
    assert!(line["count"].as_u64().is_some_and(|count| count > 0), "{line}");
    gateway.kill();
    drop(told);
    let _ = reading.join();
}
