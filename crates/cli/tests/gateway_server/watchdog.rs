//! E11: a gateway that stands still.

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::Instant;

use berth_harness::{Gateway, Lab, exchange, request};
use rustix::process::Signal;

use crate::lab;

/// A gateway that stands still at its first client, and is found out soon.
fn stalling(lab: &Lab, args: &[&str]) -> Gateway {
    let mut command = lab.command(["serve"].iter().chain(args));
    command
        .env("BERTH_KILLPOINT", "stall:gateway-accept")
        .env("BERTH_STUCK_MS", "800")
        .stderr(Stdio::piped());
    lab.serve_from(command, args)
}

#[test]
fn e11_a_gateway_whose_loop_is_blocked_starts_again_in_place_and_agents_survive() {
    let lab = lab();
    let id = lab.start_with(&["--name", "kept"], &["hang"]);
    let before = lab.show(&id);
    let mut gateway = stalling(&lab, &["--listen", "127.0.0.1:0"]);
    let mut told = gateway.stderr().expect("piped");
    let pid = gateway.pid();

    // The loop stands still with the first client; those that come meanwhile are let in by the new image.
    let mut lost = gateway.connect();
    lost.write_all(&request("GET", "/healthz", &[], None)).expect("connected");
    let waiting: Vec<_> = (0..5).map(|_| gateway.connect()).collect();
    for stream in waiting {
        assert_eq!(exchange(stream, &request("GET", "/v1/sessions/kept", &[], None)).ok()["id"], id.as_str());
    }
    // Neither the process, nor its lock, nor its address on the network is another one.
    assert_eq!(gateway.pid(), pid);
    assert_eq!(lab.berth(["serve"]).code, 4);
    assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).ok()["status"], "ok");
    let metrics = gateway.get("/metrics").text();
    assert!(metrics.contains("\nberth_gateway_restarts_total 1\n"), "{metrics}");
    let mut line = String::new();
    told.read_line(&mut line).expect("a line");
    assert!(line.contains("stands still") && line.contains("gateway.sock"), "{line}");
    let after = lab.show(&id);
    assert_eq!(
        (&before["pid"], &before["keeper_pid"], "running"),
        (&after["pid"], &after["keeper_pid"], after["state"].as_str().expect("a word"))
    );
    // It prints its addresses once, and ends like any other.
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait(), 0);
}

#[test]
fn e11_a_gateway_that_stands_still_can_be_told_to_end() {
    let lab = lab();
    let mut gateway = stalling(&lab, &[]);
    let _lost = gateway.connect();
    gateway.signal(Signal::TERM);
    let told = Instant::now();
    assert_eq!(gateway.wait(), 0);
    assert!(told.elapsed().as_secs() < 10, "{:?}", told.elapsed());
}

#[test]
fn a_gateway_that_was_suspended_is_not_taken_for_one_that_stands_still() {
    let lab = lab();
    let mut command = lab.command(["serve"]);
    command.env("BERTH_STUCK_MS", "800");
    let gateway = lab.serve_from(command, &[]);
    assert_eq!(gateway.get("/healthz").status, 200);
    gateway.signal(Signal::STOP);
    // Longer than it may stand still.
    std::thread::sleep(std::time::Duration::from_millis(2000));
    gateway.signal(Signal::CONT);
    assert_eq!(gateway.get("/healthz").status, 200);
    assert!(gateway.get("/metrics").text().contains("\nberth_gateway_restarts_total 0\n"));
}
