//! C7, C14: other requests for a session while a turn runs; a conversation that is gone.

use berth_harness::wait_until;
use serde_json::json;

use crate::gateway_turns::{
    at, did, gate, lab, mark, open, prompts, seen, seen_states, send_keyed, start, text, told, transcripts,
    wait_mark,
};

/// C14: typed, no silent fresh start; a client makes the choice, it is visible, and the dead id is not tried again.
#[test]
fn c14_a_conversation_that_is_gone_is_told_with_the_receipt_and_is_not_a_success() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &["--name", "s"]);
    told(&gateway, "s", "remember this");
    lab.ok(["stop", "--grace", "0s", "s"]);
    let old = text(&lab.show("s"), "conversation_id");
    std::fs::remove_file(lab.store().join(format!("{old}.jsonl"))).expect("the transcript");
    let body = json!({"text": "what was it?", "wait": true});
    for round in 0..2 {
        let reply = send_keyed(&gateway, "s", "k", &body);
        // The turn is accepted, so that the client does not send it again, and has no result. The key names one turn.
        assert_eq!(reply.status, 202, "{}", reply.text());
        assert_eq!(reply.header("retry-after"), None);
        let gone = reply.json();
        assert_eq!((&gone["number"], &gone["repeated"]), (&json!(2), &json!(round > 0)), "{gone}");
        let told = text(&gone, "held");
        assert!(told.contains(&old) && told.contains("--fresh"), "it says which, and the choice: {gone}");
        assert_eq!(reply.header("location"), Some(at(&id, "turns/2").as_str()));
    }
    assert_eq!(seen_states(&gateway, "s"), ["done", "queued"]);
    assert_eq!(seen(&gateway, "s", 2)["in_progress"], true);
    assert!(transcripts(&lab).is_empty(), "there was no answer");
    wait_until("nothing of it to be left", || {
        lab.processes().iter().all(|process| process.pid == gateway.pid())
    });
    lab.ok(["resume", "-d", "--fresh", "s"]);
    assert_ne!(text(&lab.show("s"), "conversation_id"), old);
    assert_eq!(text(&told(&gateway, "s", "new"), "answer"), "ECHO: new");
    assert_eq!(lab.events(&id, "conversation_left").len(), 1, "one fresh start, and it can be seen");
    lab.ok(["stop", "--grace", "0s", "s"]);
    assert_eq!(text(&told(&gateway, "s", "and on"), "answer"), "ECHO: and on");
    assert_eq!(prompts(&did(&lab, &id)), ["what was it?", "new", "and on"]);
    assert!(!lab.store().join(format!("{old}.jsonl")).exists());
}

/// C7: other requests for a session while a posted turn runs are refused or wait; the transcript stays.
#[test]
fn c7_other_commands_on_a_session_do_not_touch_a_posted_turn_that_runs() {
    let lab = lab();
    let gateway = lab.serve();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &["--name", "s"]);
    let body = json!({"text": format!("{touch} {wait} x"), "wait": true});
    let waiting = gateway.begin("POST", &at(&id, "turns"), &[], Some(&body));
    wait_mark(&begun);
    let transcript = transcripts(&lab);
    for args in [
        &["resume", "-d", "s"][..],
        &["resume", "-d", "--fresh", "s"],
        &["archive", "s"],
        &["purge", "--yes", "s"],
    ] {
        let refused = lab.berth(args);
        assert_ne!(refused.code, 0, "{args:?}: {refused:?}");
        assert_eq!(seen(&gateway, "s", 1)["in_progress"], true, "{args:?}");
        assert_eq!(transcripts(&lab), transcript, "{args:?}");
    }
    lab.ok(["rename", "s", "t"]);
    open(&go);
    assert_eq!(text(&waiting.reply().ok(), "answer"), "ECHO: x");
    assert_eq!(did(&lab, "t").len(), 1);
}

/// Stopped stays stopped: a waiting client is told that the turn waits, and the turn runs when the session is resumed.
#[test]
fn c7_a_turn_that_is_stopped_is_interrupted_and_the_turn_behind_it_waits() {
    let lab = lab();
    let gateway = lab.serve();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let post = |prompt: &str| {
        gateway.begin("POST", &at(&id, "turns"), &[], Some(&json!({"text": prompt, "wait": true})))
    };
    let first = post(&format!("{touch} {wait} x"));
    wait_mark(&begun);
    let second = post("second");
    crate::gateway_turns::wait_accepted(&gateway, &id, 2);
    lab.ok(["stop", "--grace", "50ms", &id]);
    assert_eq!(text(&first.reply().ok(), "state"), "interrupted");
    let second = second.reply();
    assert_eq!(second.status, 202, "{}", second.text());
    let held = second.json();
    assert!(text(&held, "held").contains("stopped"), "{held}");
    assert_eq!(second.header("location"), Some(at(&id, "turns/2").as_str()));
    assert_eq!(lab.show(&id)["state"], "stopped");
    assert_eq!(seen(&gateway, &id, 2)["in_progress"], true);
    lab.ok(["resume", "-d", &id]);
    let done = gateway.post(&at(&id, "wait"), &json!({"for": "done", "timeout_ms": 60_000})).ok();
    assert_eq!(text(&done["turn"], "answer"), "ECHO: second");
}

/// C2: an accepted turn is never answered as a failure, even if the wait fails: the client would send it again.
#[test]
fn c2_a_client_that_waits_for_an_accepted_turn_gets_a_receipt_when_the_journal_cannot_be_read() {
    let lab = lab();
    let gateway = lab.serve();
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let body = json!({"text": format!("{touch} {wait} x"), "wait": true});
    let waiting = gateway.begin("POST", &at(&id, "turns"), &[], Some(&body));
    wait_mark(&begun);
    let (journal, away) = (lab.session_dir(&id).join("journal"), lab.session_dir(&id).join("journal.away"));
    std::fs::rename(&journal, &away).expect("a directory");
    std::fs::write(&journal, b"").expect("a file");
    lab.kill_keeper(&id);
    let reply = waiting.reply();
    assert_eq!(reply.status, 202, "{}", reply.text());
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.header("location"), Some(at(&id, "turns/1").as_str()));
    let receipt = reply.json();
    assert_eq!(receipt["number"], 1, "{receipt}");
    assert!(!text(&receipt, "held").is_empty(), "{receipt}");
    std::fs::remove_file(&journal).expect("a file");
    std::fs::rename(&away, &journal).expect("a directory");
    assert_eq!(seen_states(&gateway, &id).len(), 1);
}
