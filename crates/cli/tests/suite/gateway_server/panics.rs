//! A panic in the gateway's own code.

use berth_harness::GatewayProcess;

use crate::gateway_server::lab;

/// How many panics it says it had.
fn panics(gateway: &GatewayProcess) -> u64 {
    let text = gateway.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix("berth_gateway_panics_total "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no number in {text}"))
}

#[test]
fn a_handler_that_panics_is_a_500_and_takes_no_other_request_along() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let mut gateway = lab.serve_in(&[], &[("BERTH_KILLPOINT", "panic:gateway-handler")]);
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    assert_eq!(panics(&gateway), 0);
    let reply = gateway.get("/v1/whoami");
    let told = reply.problem(500, "bug");
    let request = reply.header("x-request-id").expect("every answer has one");
    assert!(told["detail"].as_str().is_some_and(|detail| detail.contains(request)), "{told}");
    assert!(!reply.text().contains("a test wanted"), "the cause of a panic is for the log: {told}");
    assert_eq!(panics(&gateway), 1);
    // The next request is served, and so is a client that was connected before.
    assert_eq!(gateway.get("/v1/whoami").ok()["scope"], "admin");
    lab.ok(["note", &id, "afterwards"]);
    stream.wait_for("the next event", |event| event.data.contains("afterwards"));
    assert!(gateway.is_running());
}

#[test]
fn a_verb_that_panics_is_a_500() {
    let lab = lab();
    lab.start_with(&["--name", "kept"], &["hang"]);
    let mut gateway = lab.serve_in(&[], &[("BERTH_KILLPOINT", "panic:gateway-verb")]);
    let reply = gateway.get("/v1/sessions");
    reply.problem(500, "bug");
    assert!(!reply.text().contains("a test wanted"), "{}", reply.text());
    gateway.get("/v1/sessions").ok();
    assert_eq!(gateway.get("/v1/sessions/kept").ok()["state"], "running");
    assert!(gateway.is_running());
}
