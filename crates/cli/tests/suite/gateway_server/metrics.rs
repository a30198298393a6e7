//! The metrics of the gateway, and its readiness.

use berth_harness::{GatewayProcess, ServerEvent, TestEnvironment};

use crate::gateway_server::lab;

/// A session of an agent that takes turns.
pub(crate) fn agent(lab: &TestEnvironment) -> String {
    lab.add_agent("fake", &[]);
    lab.ok(["run", "-d", "--agent", "fake", "--name", "fake"])
}

fn sample(gateway: &GatewayProcess, line: &str) -> f64 {
    let text = gateway.get("/metrics").text();
    let value = text.lines().find_map(|known| known.strip_prefix(&format!("{line} ")));
    value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().expect("a number")
}

#[test]
fn counts_about_sessions_are_unchanged_after_the_gateway_was_killed() {
    let lab = lab();
    agent(&lab);
    lab.start(&["hang"]);
    let mut gateway = lab.serve();
    lab.ok(["send", "fake", "--wait", "one"]);
    lab.ok(["send", "fake", "--wait", "two"]);
    lab.ok(["sweep"]);
    let known = |gateway: &GatewayProcess| {
        [
            "berth_sessions{state=\"running\"}",
            "berth_sessions{state=\"idle\"}",
            "berth_sessions{state=\"lost\"}",
            "berth_turns_accepted_total",
            "berth_turns_total{outcome=\"done\"}",
            "berth_turns_total{outcome=\"failed\"}",
            "berth_turn_wait_seconds_count",
            "berth_turn_duration_seconds_count",
            "berth_turns_queued",
            "berth_sweeps_total",
            "berth_leftovers_found_total",
        ]
        .map(|line| sample(gateway, line))
    };
    let before = known(&gateway);
    let sweeps = before[9];
    assert_eq!(before, [1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0, 0.0, sweeps, 0.0]);
    assert!(sweeps >= 1.0);
    assert!(sample(&gateway, "berth_sessions_memory_bytes") > 1e6);
    // New data is added to the known counts, and nothing is counted twice, even after a file was away for a moment.
    for file in ["sessions", "sweep.json"] {
        let (there, away) = (lab.home().join(file), lab.home().join("away"));
        std::fs::rename(&there, &away).expect("our own file");
        sample(&gateway, "berth_turns_accepted_total");
        std::fs::rename(&away, &there).expect("our own file");
        assert_eq!(known(&gateway)[3..], before[3..], "{file}");
    }
    lab.ok(["send", "fake", "--wait", "three"]);
    assert_eq!(sample(&gateway, "berth_turns_total{outcome=\"done\"}"), 3.0);
    assert_eq!(sample(&gateway, "berth_turns_total{outcome=\"done\"}"), 3.0);
    gateway.kill();
    let gateway = lab.serve();
    assert_eq!(known(&gateway)[..9], [1.0, 1.0, 0.0, 3.0, 3.0, 0.0, 3.0, 3.0, 0.0]);
    // Requests are counted by each gateway anew.
    gateway.get("/v1/sessions/fake").ok();
    let line = "berth_http_requests_total{route=\"/v1/sessions/{session}\",method=\"GET\",status=\"200\"}";
    assert_eq!(sample(&gateway, line), 1.0);
    let bucket = "berth_http_request_seconds_count{route=\"/v1/sessions/{session}\"}";
    assert_eq!(sample(&gateway, bucket), 1.0);
}

#[test]
fn events_are_counted_however_many_are_sent_together() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    for note in ["one", "two", "three", "four"] {
        lab.ok(["note", &id, note]);
    }
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events?after=0"), &[]);
    let mut heard = 0.0;
    let is_last = |event: &ServerEvent| event.event == "event" && event.data.contains("four");
    while !is_last(&stream.next().inspect(|_| heard += 1.0).expect("more")) {}
    let counted = sample(&gateway, "berth_events_sent_total");
    assert!(counted >= heard, "{counted} of {heard}");
}

#[test]
fn leftovers_of_a_killed_keeper_are_counted() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let before = sample(&gateway, "berth_leftovers_found_total");
    lab.kill_keeper(&id);
    lab.ok(["sweep"]);
    assert_eq!(sample(&gateway, "berth_leftovers_found_total"), before + 1.0);
    assert_eq!(sample(&gateway, "berth_sessions{state=\"lost\"}"), 1.0);
}

#[test]
fn metrics_need_a_token_with_scope_read_unless_they_are_opened() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    gateway.ask_tcp("GET", "/metrics", &[], None).problem(401, "not-allowed");
    assert_eq!(gateway.get("/metrics").status, 200);
    drop(gateway);
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0", "--open-metrics"]);
    let reply = gateway.ask_tcp("GET", "/metrics", &[], None);
    assert_eq!(reply.status, 200);
    assert!(
        reply.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    assert!(reply.text().ends_with("# EOF\n"));
    gateway.ask_tcp("GET", "/v1/sessions", &[], None).problem(401, "not-allowed");
}

#[test]
fn a_gateway_that_cannot_work_says_why_and_is_alive_all_the_same() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    assert_eq!(gateway.ask_tcp("GET", "/readyz", &[], None).ok()["status"], "ready");
    // A client that comes while another one is being answered gets the answer of the other.
    for _ in 0..20 {
        let asked: Vec<_> = (0..16).map(|_| gateway.begin("GET", "/readyz", &[], None)).collect();
        asked.into_iter().for_each(|asked| assert_eq!(asked.reply().ok()["status"], "ready"));
    }
    let (sessions, away) = (lab.home().join("sessions"), lab.home().join("away"));
    std::fs::rename(&sessions, &away).expect("our own");
    std::fs::write(&sessions, "not a directory").expect("a file");
    let problem = gateway.ask_tcp("GET", "/readyz", &[], None).problem(503, "unreachable");
    assert!(
        problem["title"].as_str().is_some_and(|title| title.contains("the sessions cannot be listed")),
        "{problem}"
    );
    // Every client may ask, and the answer does not tell where the directory is.
    assert!(!problem.to_string().contains(&lab.home().display().to_string()), "{problem}");
    assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).ok()["status"], "ok");
    std::fs::remove_file(&sessions).and_then(|()| std::fs::rename(&away, &sessions)).expect("our own");
    assert_eq!(gateway.ask_tcp("GET", "/readyz", &[], None).status, 200);
}
