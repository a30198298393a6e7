//! Events that are sent as notifications, and events that are not.

use std::fs;

use berth_harness::wait_until;

use crate::notify::{
    WebhookReply, WebhookServer, lab_with, notifiers, pair, send, settled, start, told, webhook,
};

#[test]
fn a_command_that_ends_by_itself_is_told_and_one_that_is_stopped_is_not() {
    let (lab, server) = told();
    lab.start_with(&["--name", "good"], &["exit:0"]);
    server.wait(1);
    lab.start_with(&["--name", "bad"], &["exit:3"]);
    let heard = server.wait(2);
    lab.start_with(&["--name", "stopped"], &["hang"]);
    lab.ok(["stop", "stopped", "--grace", "0s"]);
    settled(&lab);
    assert_eq!(server.about(), [pair("finished", "good"), pair("failed", "bad")]);
    let told = heard[1].json();
    assert_eq!(told["type"], "session.failed");
    let data = &told["data"];
    assert_eq!(data["title"], "bad failed");
    assert_eq!(data["text"], "the run ended with exit code 3");
    assert_eq!(data["next"], "berth output bad");
    assert_eq!(data["cwd"], lab.show("bad")["cwd"]);
    assert_eq!(data["session"], lab.show("bad")["id"]);
}

#[test]
fn a_question_is_sent_with_the_next_step_and_without_its_secrets() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:curl -H 'Authorization: Bearer tkabcdef0123456789' x"]);
    let told = server.wait(1)[0].json();
    assert_eq!((&told["type"], &told["data"]["what"]), (&"session.needs_you".into(), &"needs-you".into()));
    let text = told["data"]["text"].as_str().expect("a text");
    assert!(text.starts_with("Bash: curl") && !text.contains("tkabcdef"), "{text}");
    assert_eq!(told["data"]["next"], "berth answer s allow --request 1:0");
    assert_eq!((&told["data"]["request"], &told["data"]["epoch"]), (&"0".into(), &1.into()));
    lab.ok(["answer", "s", "allow", "--yes"]);
    // The answer ends the turn, and no client looked at that.
    server.wait(2);
    assert_eq!(server.about(), [pair("needs-you", "s"), pair("finished", "s")]);
}

#[test]
fn ten_turns_in_a_row_are_told_once_when_the_last_is_done_and_a_failure_at_once() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    let gate = lab.dir().join("go");
    lab.ok(["send", "s", &format!("wait-file:{}", gate.display())]);
    for turn in 2..=10 {
        let text = if turn == 5 { "fail:7:no_credit".to_owned() } else { format!("say:answer_{turn}") };
        lab.ok(["send", "s", &text]);
    }
    fs::write(&gate, "").expect("a file");
    server.wait(2);
    wait_until("the last turn", || lab.json(["turn", "s.10", "--json"])["state"] == "done");
    settled(&lab);
    // Each event is sent once. The order of the two notifiers is not promised.
    let mut about = server.about();
    about.sort();
    assert_eq!(about, [pair("failed", "s"), pair("finished", "s")]);
    let all = server.heard().into_iter().map(|heard| heard.json());
    let last = all.max_by_key(|told| told["data"]["event"].as_u64()).expect("two");
    assert_eq!(last["data"]["what"], "finished", "the failure came first: {last}");
    assert!(last["data"]["text"].as_str().is_some_and(|text| text.starts_with("answer_10")), "{last}");
    assert_eq!(last["data"]["next"], "berth result s.10");
    assert_eq!(last["data"]["turn"], format!("{}.10", lab.show("s")["id"].as_str().expect("an id")));
}

#[test]
fn a_cancelled_turn_is_not_sent() {
    let (lab, server) = told();
    start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", &format!("wait-file:{}", lab.dir().join("never").display())]);
    wait_until("it to work", || lab.show("s")["state"] == "working");
    lab.ok(["cancel", "s.1"]);
    wait_until("the end", || lab.json(["turn", "s.1", "--json"])["state"] == "cancelled");
    settled(&lab);
    assert_eq!(server.about(), []);
}

#[test]
fn a_lost_run_is_sent_by_the_command_that_finds_it() {
    let (lab, server) = told();
    let id = lab.start_with(&["--name", "s"], &["hang"]);
    lab.kill_keeper(&id);
    settled(&lab);
    assert_eq!(server.about(), [], "the loss has not been found yet");
    lab.ok(["show", "s"]);
    let told = server.wait(1)[0].json();
    assert_eq!(told["data"]["text"], "the keeper died, and the run with it");
    assert_eq!(told["data"]["next"], "berth resume s");
    lab.ok(["show", "s"]);
    settled(&lab);
    assert_eq!(server.about(), [pair("failed", "s")]);
}

#[test]
fn a_turn_that_was_lost_is_told_once_although_it_failed_and_holds_the_queue() {
    let (lab, server) = told();
    let id = start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", &format!("wait-file:{}", lab.dir().join("never").display())]);
    lab.ok(["send", "s", "next"]);
    wait_until("it to work", || lab.show("s")["state"] == "working");
    lab.kill_keeper(&id);
    lab.ok(["show", "s"]);
    server.wait(1);
    settled(&lab);
    assert_eq!(server.about().len(), 1, "{:?}", server.about());
}

#[test]
fn a_session_may_want_to_be_told_of_other_things_than_the_rest() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let lab = lab_with(&format!("[notify]\non = [\"failed\"]\n{}", webhook(&server)));
    start(&lab, &["--name", "usual"]);
    start(&lab, &["--name", "more", "--notify", "finished,needs-you"]);
    start(&lab, &["--name", "none", "--notify", "none"]);
    for session in ["usual", "more", "none"] {
        send(&lab, session, "say:done");
        send(&lab, session, "fail:7:broken");
    }
    settled(&lab);
    let mut about = server.about();
    about.sort();
    assert_eq!(about, [pair("failed", "usual"), pair("finished", "more")]);
    assert_eq!(lab.show("more")["policy"]["notify"], serde_json::json!(["needs-you", "finished"]));
    let odd = lab.berth(["run", "-d", "--notify", "sometimes", "--", "true"]);
    assert_eq!(odd.code, 2, "{odd:?}");
    assert!(odd.err.contains("needs-you, finished, failed"), "{odd:?}");
}

#[test]
fn nothing_is_sent_or_started_unless_it_is_configured() {
    let lab = lab_with("");
    start(&lab, &["--name", "s"]);
    send(&lab, "s", "fail:7:broken");
    assert!(notifiers(&lab).is_empty());
    lab.ok(["stop", "s"]);
    assert!(!lab.home().join("notify").exists());
    // A channel that is added while the session runs counts from then on.
    start(&lab, &["--name", "t"]);
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let known = fs::read_to_string(lab.config()).expect("a config file");
    fs::write(lab.config(), known + &webhook(&server)).expect("a config file");
    send(&lab, "t", "say:done");
    server.wait(1);
}
