//! Waiting over HTTP for a state of a session.

use serde_json::json;

use crate::gateway_turns::{at, busy, lab, open, start, text, told};

#[test]
fn a_session_is_waited_for_until_it_is_idle_done_ended_or_says_something() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    let ask = |body| gateway.begin("POST", &at(&id, "wait"), &[], Some(&body));
    let (idle, done, exit) =
        (ask(json!({"for": "idle"})), ask(json!({"for": "done"})), ask(json!({"for": "exit"})));
    for what in ["idle", "done", "needs-you", "exit"] {
        let late = ask(json!({"for": what, "timeout_ms": 20})).reply();
        late.problem(504, "timed-out");
    }
    open(&go);
    assert_eq!(idle.reply().ok()["session"]["state"], "idle");
    let done = done.reply().ok();
    assert_eq!(
        (text(&done["turn"], "answer"), &done["session"]["id"]),
        ("ECHO: x".into(), &id.as_str().into())
    );
    lab.ok(["stop", "--grace", "0s", &id]);
    assert_eq!(exit.reply().ok()["session"]["state"], "stopped");
    // A condition that holds already is answered at once, and one that cannot come true is refused.
    assert_eq!(ask(json!({"for": "exit"})).reply().ok()["session"]["state"], "stopped");
    ask(json!({"for": "idle"})).reply().problem(409, "refused");
    ask(json!({"for": "needs-you"})).reply().problem(409, "refused");
}

#[test]
fn a_given_turn_is_waited_for_whatever_comes_after_it() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    let never = lab.dir().join("never");
    lab.ok(["send", &id, &format!("wait-file:{} y", never.display())]);
    let ask = |body| gateway.begin("POST", &at(&id, "wait"), &[], Some(&body));
    let first = ask(json!({"for": {"turn": 1}}));
    ask(json!({"for": {"turn": 1}, "timeout_ms": 20})).reply().problem(504, "timed-out");
    for missing in [0, 3, u64::MAX] {
        ask(json!({"for": {"turn": missing}})).reply().problem(404, "not-found");
    }
    open(&go);
    let told = first.reply().ok();
    assert_eq!((text(&told["turn"], "answer"), &told["turn"]["number"]), ("ECHO: x".into(), &json!(1)));
    // The first turn is over, and stays so; the second one is not.
    assert_eq!(ask(json!({"for": {"turn": 1}})).reply().ok()["turn"]["number"], 1);
    ask(json!({"for": {"turn": 2}, "timeout_ms": 20})).reply().problem(504, "timed-out");
}

#[test]
fn output_is_waited_for_by_a_pattern() {
    let lab = lab();
    let gateway = lab.serve();
    let go = lab.dir().join("go");
    let id = lab.start(&["say:before", &format!("wait-file:{}", go.display()), "say:the end is 42", "hang"]);
    lab.wait_output(&id, "before");
    let ask = |body| gateway.begin("POST", &at(&id, "wait"), &[], Some(&body));
    assert!(ask(json!({"for": {"output": "^before"}})).reply().ok()["session"]["id"].is_string());
    let waiting = ask(json!({"for": {"output": "end is [0-9]+"}}));
    ask(json!({"for": {"output": "never"}, "timeout_ms": 20})).reply().problem(504, "timed-out");
    ask(json!({"for": {"output": "("}})).reply().problem(400, "usage");
    ask(json!({"for": {"output": "\\w{1000}{1000}{1000}"}})).reply().problem(400, "usage");
    open(&go);
    waiting.reply().ok();
    let never = ask(json!({"for": {"output": "never"}}));
    lab.ok(["stop", "--grace", "0s", &id]);
    never.reply().problem(409, "refused");
    for what in ["idle", "needs-you", "done"] {
        ask(json!({"for": what})).reply().problem(409, "refused");
    }
}

#[test]
fn a_client_that_waits_for_an_agent_that_was_released_is_told_that_it_is_idle() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &["--idle", "1ms"]);
    for round in 0..5 {
        assert_eq!(text(&told(&gateway, &id, &format!("{round}")), "answer"), format!("ECHO: {round}"));
        let idle = gateway.post(&at(&id, "wait"), &json!({"for": "idle", "timeout_ms": 60_000})).ok();
        assert_eq!(idle["session"]["state"], "idle");
    }
}
