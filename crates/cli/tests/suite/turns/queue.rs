//! The queue: dropped, moved, paused and resumed, with and without a keeper.

use berth_harness::TestEnvironment;
use serde_json::Value;

use crate::turns::{did, gate, lab, mark, open, prompts, start, state, states, text, wait_mark};

/// A session with a queue of three behind a turn that runs, and the file that ends that turn.
fn queue_of_three(lab: &TestEnvironment) -> (String, std::path::PathBuf) {
    let (go, wait) = gate(lab, "go");
    let (begun, touch) = mark(lab, "begun");
    let id = start(lab, &["--name", "q", "--prompt", &format!("{touch} {wait} first")]);
    wait_mark(&begun);
    for prompt in ["a", "b", "c"] {
        lab.ok(["send", "q", prompt]);
    }
    (id, go)
}

fn queued(lab: &TestEnvironment) -> Vec<String> {
    let queue: Value = lab.json(["queue", "q", "--json"]);
    queue["queued"].as_array().expect("an array").iter().map(|turn| text(turn, "prompt")).collect()
}

#[test]
fn queued_turns_can_be_dropped_and_moved_and_run_in_the_new_order() {
    let lab = lab();
    let (id, go) = queue_of_three(&lab);
    assert_eq!(queued(&lab), ["a", "b", "c"]);
    lab.ok(["queue", "q", "move", "4"]);
    assert_eq!(queued(&lab), ["c", "a", "b"]);
    lab.ok(["queue", "q", "move", "q.2", "--to", "3"]);
    assert_eq!(queued(&lab), ["c", "b", "a"]);
    lab.ok(["queue", "q", "move", "2", "--to", "99"]);
    assert_eq!(queued(&lab), ["c", "b", "a"], "behind the last is the last");
    lab.ok(["queue", "q", "drop", "q.3"]);
    assert_eq!(queued(&lab), ["c", "a"]);
    // Turns that run, are over or never existed are refused as such.
    for verb in ["drop", "move"] {
        assert_eq!(lab.berth(["queue", "q", verb, "1"]).code, 1, "it runs");
        assert_eq!(lab.berth(["queue", "q", verb, "3"]).code, 1, "it is over");
        assert_eq!(lab.berth(["queue", "q", verb, "9"]).code, 3, "there is none");
        assert_eq!(lab.berth(["queue", "q", verb, "nonsense"]).code, 2);
    }
    open(&go);
    lab.ok(["wait", "q", "--timeout", "60s"]);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["c", "a"]);
    assert_eq!(state(&lab, "q", 3), "cancelled");
}

#[test]
fn a_queued_turn_can_be_changed_until_the_agent_has_it() {
    let lab = lab();
    let (id, go) = queue_of_three(&lab);
    lab.ok(["queue", "q", "edit", "3", "rather", "this"]);
    lab.ok(["queue", "q", "edit", "q.3", "rather this"]);
    assert_eq!(queued(&lab), ["a", "rather this", "c"]);
    assert_eq!(lab.events(&id, "turn_edited").len(), 1, "said twice it is changed once");
    let view = crate::turns::turn(&lab, &id, 3);
    assert!(view["edited_at"].is_string() && view["edited_by"]["place"].is_string(), "{view}");
    for (turn, text, code) in [("1", "x", 1), ("9", "x", 3), ("nonsense", "x", 2), ("3", " ", 2)] {
        let refused = lab.berth(["queue", "q", "edit", turn, text]);
        assert_eq!(refused.code, code, "{turn} {text}: {refused:?}");
    }
    assert_eq!(lab.berth(["queue", "q", "edit", "3"]).code, 2, "nothing to say");
    // Without a keeper the turn can be changed nevertheless, and the next keeper sends the new text.
    lab.kill_keeper(&id);
    lab.ok(["queue", "q", "edit", "4", "last"]);
    assert_eq!(queued(&lab), ["a", "rather this", "last"]);
    open(&go);
    lab.ok(["queue", "q", "resume"]);
    lab.ok(["wait", "q.4", "--timeout", "60s"]);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["a", "rather this", "last"]);
    assert_eq!(lab.berth(["queue", "q", "edit", "4", "too late"]).code, 1, "it is over");
}

#[test]
fn a_paused_queue_lets_the_running_turn_end_and_none_begin() {
    let lab = lab();
    let (id, go) = queue_of_three(&lab);
    lab.ok(["queue", "q", "pause"]);
    lab.ok(["queue", "q", "pause"]);
    open(&go);
    assert_eq!(lab.berth(["wait", "q.1", "--timeout", "60s"]).code, 0);
    assert_eq!(states(&lab, "q"), ["done", "queued", "queued", "queued"]);
    let shown = lab.show("q");
    assert!(text(&shown["turns"], "held").contains("berth queue q resume"), "{shown}");
    // A new turn waits as well, and says so.
    let sent = lab.berth(["send", "q", "d"]);
    assert!(sent.code == 0 && sent.err.contains("paused"), "{sent:?}");
    lab.ok(["queue", "q", "resume"]);
    lab.ok(["wait", "q", "--timeout", "60s"]);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["a", "b", "c", "d"]);
    lab.ok(["queue", "q", "resume"]);
}

#[test]
fn a_queue_without_a_keeper_can_be_changed_and_resumed() {
    let lab = lab();
    let (id, _) = queue_of_three(&lab);
    lab.kill_keeper(&id);
    assert_eq!(queued(&lab), ["a", "b", "c"]);
    lab.ok(["queue", "q", "drop", "2"]);
    lab.ok(["queue", "q", "move", "4"]);
    assert_eq!(queued(&lab), ["c", "b"]);
    assert_eq!(lab.berth(["queue", "q", "drop", "9"]).code, 3);
    lab.ok(["cancel", "q.3"]);
    assert_eq!(queued(&lab), ["c"]);
    lab.ok(["queue", "q", "pause"]);
    assert!(lab.show("q")["keeper_pid"].is_null(), "no keeper was started for that");
    lab.ok(["queue", "q", "resume"]);
    assert_eq!(lab.berth(["wait", "q.4", "--timeout", "60s"]).code, 0);
    assert_eq!(prompts(&did(&lab, &id))[1..], ["c"]);
}

/// A session in a terminal has no queue.
#[test]
fn a_session_that_takes_no_turns_says_so() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    for args in [
        &["send", &id, "hello"][..],
        &["queue", &id],
        &["queue", &id, "pause"],
        &["wait", &id, "--for", "idle"],
        &["fork", &id],
    ] {
        let refused = lab.berth(args);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{args:?}: {refused:?}");
        assert!(refused.err.contains("hint:"), "{args:?}: {refused:?}");
    }
    assert_eq!(lab.ok(["turns", &id, "--json"]), "[]");
    assert_eq!(lab.berth(["answer", &id, "allow"]).code, 3);
}
