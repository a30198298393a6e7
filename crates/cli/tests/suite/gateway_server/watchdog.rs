//! E11: a gateway that stands still is replaced in place.

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::Instant;

use berth_harness::{
    GatewayProcess, ServerEvent, ServerEventStream, TestEnvironment, exchange, request, wait_until,
};
use rustix::process::Signal;
use serde_json::json;

use crate::gateway_server::lab;

/// A gateway that stands still at this client, counted from 1, and is soon noticed to do so.
fn stalling(lab: &TestEnvironment, client: u32, args: &[&str]) -> GatewayProcess {
    let mut command = lab.command(["serve"].iter().chain(args));
    command
        .env("BERTH_KILLPOINT", format!("stall:gateway-accept:{client}"))
        .env("BERTH_STUCK_MS", "2000")
        .stderr(Stdio::piped());
    lab.serve_from(command, args)
}

/// The numbers of the events of a stream, up to the first that fits or to its end.
fn numbers(stream: &mut ServerEventStream, is_last: impl Fn(&ServerEvent) -> bool) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(event) = stream.next() {
        // A status tells more than the events before it.
        if event.event != "event" {
            continue;
        }
        numbers.push(event.id.parse().expect("a number"));
        if is_last(&event) {
            break;
        }
    }
    numbers
}

#[test]
fn e11_a_gateway_whose_loop_is_blocked_starts_again_in_place_and_agents_survive() {
    let lab = lab();
    let mut gateway = stalling(&lab, 3, &["--listen", "127.0.0.1:0"]);
    let mut told = gateway.stderr().expect("piped");
    let pid = gateway.pid();
    // The keeper is a child of this very process, which will be another program soon; and a client reads the events.
    let wish = json!({"name": "kept", "command": [lab.agent(), "hang"], "cwd": lab.dir()});
    let made = gateway.post("/v1/sessions", &wish).ok();
    let id = made["session"]["id"].as_str().expect("an id").to_owned();
    let mut stream = gateway.events("/v1/sessions/kept/events", &[]);
    let mut read = numbers(&mut stream, |event| event.data.contains("\"event\":\"run_started\""));
    assert!(!read.is_empty());
    let before = lab.show(&id);

    // The loop stands still with the next client; clients that come meanwhile are let in by the new image.
    let mut lost = gateway.connect();
    lost.write_all(&request("GET", "/healthz", &[], None)).expect("connected");
    let waiting: Vec<_> = (0..5).map(|_| gateway.connect()).collect();
    lab.ok(["note", "kept", "while it stands still"]);
    for stream in waiting {
        assert_eq!(exchange(stream, &request("GET", "/v1/sessions/kept", &[], None)).ok()["id"], id.as_str());
    }
    // The process, its lock and its address on the network are unchanged.
    assert_eq!(gateway.pid(), pid);
    assert_eq!(lab.berth(["serve"]).code, 4);
    assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).ok()["status"], "ok");
    let metrics = gateway.get("/metrics").text();
    assert!(metrics.contains("\nberth_gateway_restarts_total 1\n"), "{metrics}");
    let mut line = String::new();
    told.read_line(&mut line).expect("a line");
    // The name of the listener in the message depends on which tasks were behind the one that stands still.
    assert!(line.contains("stands still: ") && line.contains(" accepted no connection for "), "{line}");
    let after = lab.show(&id);
    assert_eq!(
        (&before["pid"], &before["keeper_pid"], "running"),
        (&after["pid"], &after["keeper_pid"], after["state"].as_str().expect("a word"))
    );

    // The reader of the events is disconnected, comes back as a browser does, and has every event once.
    read.extend(numbers(&mut stream, |_| false));
    lab.ok(["note", "kept", "afterwards"]);
    let last = read.last().expect("some").to_string();
    let mut again = gateway.events("/v1/sessions/kept/events", &[("Last-Event-ID", &last)]);
    read.extend(numbers(&mut again, |event| event.data.contains("afterwards")));
    let all: Vec<u64> = lab.log(&id).iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(read, all);

    // The keeper that the first image started is collected by the second: no zombie stays behind.
    let keeper = format!("/proc/{}", after["keeper_pid"]);
    assert!(std::path::Path::new(&keeper).exists());
    lab.ok(["stop", "kept"]);
    wait_until("its exit to be taken", || !std::path::Path::new(&keeper).exists());
    // The gateway prints its addresses once, and ends like any other.
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait(), 0);
}

#[test]
fn e11_a_gateway_that_stands_still_can_be_told_to_end() {
    let lab = lab();
    let mut gateway = stalling(&lab, 1, &[]);
    let _lost = gateway.connect();
    gateway.signal(Signal::TERM);
    let told = Instant::now();
    assert_eq!(gateway.wait(), 0);
    assert!(told.elapsed().as_secs() < 10, "{:?}", told.elapsed());
}

#[test]
fn a_gateway_that_is_told_to_read_its_certificate_again_and_again_is_not_taken_for_one_that_stands_still() {
    let lab = lab();
    let gateway = lab.serve();
    let status = || std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it runs");
    let is_pending = || {
        let status = status();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).expect("a line").trim();
        u64::from_str_radix(pending, 16).expect("a number") & 1 != 0
    };
    for _ in 0..20 {
        gateway.signal(Signal::HUP);
        wait_until("it to be taken", || !is_pending());
    }
    assert!(gateway.get("/metrics").text().contains("\nberth_gateway_restarts_total 0\n"));
}

#[test]
fn a_gateway_that_was_suspended_is_not_taken_for_one_that_stands_still() {
    let (lab, beside) = (lab(), lab());
    let gateway = lab.serve_in(&[], &[("BERTH_STUCK_MS", "2000")]);
    let stuck = stalling(&beside, 1, &[]);
    assert_eq!(gateway.get("/healthz").status, 200);
    gateway.signal(Signal::STOP);
    // As long as it takes until a gateway that stands still is noticed.
    let _lost = stuck.connect();
    assert!(stuck.get("/metrics").text().contains("\nberth_gateway_restarts_total 1\n"));
    gateway.signal(Signal::CONT);
    assert_eq!(gateway.get("/healthz").status, 200);
    assert!(gateway.get("/metrics").text().contains("\nberth_gateway_restarts_total 0\n"));
}
