//! The queue behind a turn that failed because of the model: a limit, an overload, the login.

use crate::turns::{lab, start, states, turn};

/// A queue whose first turn fails, with one turn behind it that must not burn.
fn queue(lab: &berth_harness::TestEnvironment, id: &str, error: &str) {
    lab.ok(["queue", id, "pause"]);
    lab.ok(["send", id, &format!("fail:{error}")]);
    lab.ok(["send", id, "the second"]);
    lab.ok(["queue", id, "resume"]);
    assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 1);
}

#[test]
fn queued_turns_are_held_behind_a_usage_limit_until_a_user_resumes_the_queue() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    queue(&lab, &id, "429 Too Many Requests: limit until 3pm");
    assert_eq!(turn(&lab, &id, 1)["failure"], "limit");
    let why = "turn s.1 failed (usage limit): 429 Too Many Requests: limit until 3pm";
    let shown = lab.show("s");
    assert_eq!(shown["state"], "needs-you", "{shown}");
    assert!(shown["turns"]["held"].as_str().is_some_and(|held| held.contains(why)), "{shown}");
    for args in [&["queue", "s"][..], &["show", "s"], &["why", "s"]] {
        let said = lab.berth(args);
        let all = format!("{}{}", said.out, said.err);
        assert!(said.code == 0 && all.contains("failed (usage limit)"), "{args:?}: {all}");
    }
    let list = lab.ok(["ls"]);
    assert!(list.contains("usage limit"), "{list}");
    let waits = lab.berth(["wait", &format!("{id}.2"), "--timeout", "60s"]);
    assert_eq!(waits.code, 4, "{waits:?}");
    assert_eq!(states(&lab, &id), ["failed", "queued"]);
    lab.ok(["queue", "s", "resume"]);
    lab.ok(["wait", &format!("{id}.2"), "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["failed", "done"]);
}

#[test]
fn other_failures_and_the_policy_continue_let_the_queue_go_on() {
    let lab = lab();
    for (policy, error) in [("hold", "the disk is full"), ("continue", "429 Too Many Requests")] {
        let id = start(&lab, &["--on-failed", policy]);
        queue(&lab, &id, error);
        lab.ok(["wait", &format!("{id}.2"), "--timeout", "60s"]);
        assert_eq!(states(&lab, &id), ["failed", "done"], "{policy}");
    }
}

#[test]
fn a_retry_waits_says_so_and_is_sent_at_once_when_a_user_resumes_the_queue() {
    let lab = lab();
    let id = start(&lab, &["--name", "s", "--on-failed", "retry"]);
    queue(&lab, &id, "overloaded, please come back");
    assert_eq!(states(&lab, &id), ["failed", "queued", "queued"]);
    let again = turn(&lab, &id, 3);
    assert_eq!(again["prompt"], "fail:overloaded, please come back");
    assert_eq!(again["retry"], serde_json::json!({"of": 1, "attempt": 1}));
    assert_eq!(again["position"], 0, "before what waits");
    let held = again["held"].as_str().unwrap_or_default();
    assert!(held.contains("s.1 failed (overloaded model)") && held.contains("retry 1 of 5"), "{held}");
    assert_ne!(lab.show("s")["state"], "needs-you", "no user is needed");
    lab.ok(["queue", "s", "resume"]);
    assert_eq!(lab.berth(["wait", &format!("{id}.3"), "--timeout", "60s"]).code, 1);
    assert_eq!(turn(&lab, &id, 4)["retry"], serde_json::json!({"of": 1, "attempt": 2}));
    lab.ok(["policy", "s", "--on-failed", "continue"]);
    lab.ok(["queue", "s", "resume"]);
    lab.ok(["wait", &format!("{id}.2"), "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["failed", "done", "failed", "failed"]);
}
