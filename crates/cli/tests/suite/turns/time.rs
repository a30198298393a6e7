//! H2, H3: idle release and the end of a session's time, on the boot clock.

use berth_harness::{TestEnvironment, wait_gone};

use crate::turns::{did, gate, lab, mark, open, prompts, start, state, states, text, wait_mark, wait_unkept};

#[test]
fn h2_an_agent_with_nothing_to_do_is_released_and_the_next_turn_brings_it_back() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    // The agent leaves a process behind, which ends with it.
    let leak = format!("child [ ignore:HUP,TERM setsid pidfile:{} hang ]", pids.display());
    // While the agent has something to do it stays, so both can be looked at however slow everything is.
    let (go, wait) = gate(&lab, "go");
    let id = start(&lab, &["--idle", "200ms", "--prompt", &format!("{leak}\n{wait} hello")]);
    berth_harness::wait_until("the process it leaves behind", || {
        std::fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n'))
    });
    let agent = lab.process(&id, "pid");
    let written = std::fs::read_to_string(&pids).expect("pids");
    let of = |line: &str| berth_host::identity::ProcessIdentity::of(line.parse().expect("a pid")).ok();
    let leaked: Vec<_> = written.lines().filter_map(of).collect();
    assert!(!leaked.is_empty(), "{written}");
    open(&go);
    wait_gone(&agent);
    wait_unkept(&lab, &id);
    for leaked in leaked {
        assert!(
            matches!(leaked.check(), berth_host::identity::ProcessLiveness::Gone),
            "it outlived its agent"
        );
    }
    let shown = lab.show(&id);
    assert_eq!((text(&shown, "state"), shown["keeper_pid"].is_null()), ("idle".into(), true), "{shown}");
    assert!(text(&shown, "released").contains("paused to save memory"), "{shown}");
    assert!(
        lab.json(["ls", "--json"]).as_array().expect("an array").iter().any(|session| session["id"] == *id)
    );
    assert_eq!(lab.berth(["wait", &id, "--timeout", "60s"]).code, 0, "idle is idle");
    assert_eq!(lab.ok(["send", "--wait", &id, "again"]), "ECHO: again");
    assert_eq!((did(&lab, &id).len(), lab.number(&id, "epoch")), (2, 2));
}

/// A turn that takes longer than the idle time is not idleness, however quiet the agent is.
#[test]
fn h2_a_silent_turn_is_not_idleness() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--idle", "50ms", "--prompt", &format!("{touch} {wait} long")]);
    wait_mark(&begun);
    let since = std::time::Instant::now();
    berth_harness::wait_until("twice that time", || since.elapsed().as_millis() > 100);
    assert_eq!(state(&lab, &id, 1), "delivered");
    open(&go);
    assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 0);
    wait_unkept(&lab, &id);
    // A queue that is paused is not idleness, nor is a question that has not been answered yet.
    let asks = start(&lab, &["--idle", "50ms", "--prompt", "ask:Bash:x"]);
    assert_eq!(lab.berth(["wait", &asks, "--for", "needs-you", "--timeout", "60s"]).code, 0);
    let since = std::time::Instant::now();
    berth_harness::wait_until("twice that time", || since.elapsed().as_millis() > 100);
    lab.ok(["answer", &asks, "allow", "--yes"]);
    assert_eq!(lab.berth(["wait", &format!("{asks}.1"), "--timeout", "60s"]).code, 0);
    assert_eq!(lab.number(&asks, "epoch"), 1);
}

fn facts(lab: &TestEnvironment, id: &str) -> String {
    lab.ok(["why", id]) + &lab.json(["why", "--json", id]).to_string()
}

#[test]
fn h3_why_shows_when_an_agent_is_released_and_when_its_session_ends() {
    let lab = lab();
    let id = start(&lab, &["--idle", "10m", "--ttl", "2h"]);
    let shown = lab.show(&id);
    let within = |value: &serde_json::Value, most: u64| {
        value.as_u64().is_some_and(|ms| ms <= most && ms > most - 60_000)
    };
    assert!(within(&shown["turns"]["releases_in_ms"], 600_000), "{shown}");
    assert!(within(&shown["expires_in_ms"], 7_200_000), "{shown}");
    let why = facts(&lab, &id);
    assert!(why.contains("will be paused in") && why.contains("time is up in"), "{why}");
    // Both times are of the boot clock: a crash does not begin them anew.
    lab.kill_keeper(&id);
    lab.ok(["resume", "-d", &id]);
    let again = lab.show(&id)["expires_in_ms"].as_u64().expect("a time");
    assert!(again <= shown["expires_in_ms"].as_u64().expect("a time"), "{again}");
}

#[test]
fn h2_a_session_whose_time_is_up_ends_for_good_and_takes_no_turn_any_more() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--ttl", "8s", "--prompt", &format!("{touch} {wait} long")]);
    wait_mark(&begun);
    lab.ok(["send", &id, "waits"]);
    wait_unkept(&lab, &id);
    assert_eq!(states(&lab, &id), ["interrupted", "cancelled"]);
    let shown = lab.show(&id);
    assert!(text(&shown, "released").contains("time was up"), "{shown}");
    assert_eq!(text(&shown, "state"), "stopped", "{shown}");
    for args in [&["send", "--wait", &id, "more"][..], &["resume", "-d", &id]] {
        let refused = lab.berth(args);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        assert!(refused.err.contains("time"), "{args:?}: {refused:?}");
    }
    assert_eq!(prompts(&did(&lab, &id)).len(), 1);
    assert_eq!(states(&lab, &id).len(), 2, "nothing was stored");
}

#[test]
fn a_switch_of_the_interface_does_not_wait_for_ever_for_a_suspended_keeper() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let keeper = lab.process(&id, "keeper_pid");
    berth_harness::signal(&keeper, rustix::process::Signal::STOP);
    let said = lab.berth(["resume", "s", "--tui", "-d"]);
    berth_harness::signal(&keeper, rustix::process::Signal::CONT);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("the switch may still happen"), "{said:?}");
}
