//! Turns beside a user who types.

use berth_harness::wait_until;

use super::{idle, idle_with, lab, release, state, text, turn, turn_state, wait_state, wait_turn};

#[test]
fn a_half_typed_line_holds_the_queue_until_it_is_sent() {
    let lab = lab();
    idle(&lab);
    lab.ok(["input", "s", "half a"]);
    lab.ok(["send", "s", "mine"]);
    wait_state(&lab, "needs-you");
    assert_eq!(turn_state(&lab, 1), "queued");
    let held = text(&lab.show("s")["turns"], "held");
    assert!(held.contains("typed and not sent"), "{held}");
    lab.ok(["input", "s", "--enter", " line"]);
    wait_turn(&lab, 1, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: mine");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert!(shown.contains("ECHO: half a line"), "{shown}");
}

#[test]
fn the_queue_goes_on_after_the_user_looked_at_the_terminal() {
    let lab = lab();
    idle(&lab);
    // The keys do not show that nothing is left in the box.
    lab.ok(["input", "s", "x\u{1}\u{7f}"]);
    lab.ok(["input", "s", "y"]);
    lab.ok(["send", "s", "mine"]);
    wait_state(&lab, "needs-you");
    lab.ok(["input", "s", "\u{3}"]);
    wait_turn(&lab, 1, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: mine");
}

#[test]
fn text_typed_ahead_and_the_turn_both_stay_whole() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "HOLD go mine"]);
    wait_turn(&lab, 1, "working");
    lab.ok(["input", "s", "--enter", "ahead"]);
    wait_until("the second prompt", || lab.events("s", "activity_reported").len() == 2);
    lab.ok(["send", "s", "behind"]);
    release(&lab, "go");
    wait_turn(&lab, 2, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: HOLD go mine");
    assert_eq!(text(&turn(&lab, 2), "answer"), "ECHO: behind");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert!(shown.contains("ECHO: ahead"), "{shown}");
    assert_eq!(state(&lab), "idle");
}

#[test]
fn a_menu_in_place_of_the_box_never_gets_an_enter() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_ECHO_MS", "4000")]);
    lab.ok(["input", "s", "--enter", "/menu"]);
    lab.wait_output("s", "menu:");
    lab.ok(["send", "s", "mine"]);
    lab.ok(["send", "s", "behind it"]);
    wait_turn(&lab, 1, "unknown");
    assert!(text(&turn(&lab, 1), "reason").contains("was not sent"), "{}", turn(&lab, 1));
    assert_eq!((turn_state(&lab, 2).as_str(), state(&lab).as_str()), ("queued", "needs-you"));
    lab.ok(["input", "s", "\u{1b}"]);
    lab.wait_output("s", "closed");
    lab.ok(["queue", "s", "resume"]);
    wait_turn(&lab, 2, "done");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert!(!shown.contains("picked"), "{shown}");
}

#[test]
fn a_menu_gets_no_enter_although_the_beginning_of_the_prompt_is_on_the_screen_already() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_ECHO_MS", "4000")]);
    let first = "Please review file a.rs and report every problem";
    assert_eq!(lab.ok(["send", "s", "--wait", first]), format!("ECHO: {first}"));
    lab.ok(["input", "s", "--enter", "/menu"]);
    lab.wait_output("s", "menu:");
    lab.ok(["send", "s", "Please review file b.rs and report every problem"]);
    wait_turn(&lab, 2, "unknown");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert!(!shown.contains("picked"), "{shown}");
    lab.ok(["input", "s", "\u{1b}"]);
    lab.wait_output("s", "closed");
    lab.ok(["queue", "s", "resume"]);
    // The text is on the screen already, in a box that makes room for itself.
    let again = format!("{first}\n{first}");
    assert_eq!(lab.ok(["send", "s", "--wait", &again]), format!("ECHO: {again}"));
}

#[test]
fn an_agent_that_began_something_else_behind_the_paste_gets_no_enter() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_ECHO_MS", "4000")]);
    lab.ok(["send", "s", "SURPRISE"]);
    wait_turn(&lab, 1, "unknown");
    assert!(text(&turn(&lab, 1), "reason").contains("was not sent"), "{}", turn(&lab, 1));
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert!(!shown.contains("ECHO"), "{shown}");
}

#[test]
fn a_turn_that_was_typed_is_copied_at_its_end() {
    let lab = lab();
    idle(&lab);
    let project = lab.dir().join("claude/projects/-work");
    std::fs::create_dir_all(&project).expect("a directory");
    let native = text(&lab.show("s"), "conversation_id");
    let file = project.join(format!("{native}.jsonl"));
    std::fs::write(&file, "{\"type\":\"user\",\"sessionId\":\"x\"}\n").expect("a transcript");
    lab.ok(["input", "s", "--enter", "hello"]);
    let points = || lab.json(["history", "s", "--json"])["points"].as_array().expect("an array").clone();
    wait_until("a copy", || points().len() == 1);
    assert_eq!(points()[0]["turn"], serde_json::Value::Null);
    // A turn that berth gives has one copy, with its number.
    std::fs::write(&file, "{\"type\":\"user\",\"sessionId\":\"x\"}\n{}\n").expect("a transcript");
    lab.ok(["send", "s", "mine", "--wait"]);
    wait_until("another", || points().last().is_some_and(|point| point["turn"] == 1));
    assert_eq!(points().len(), 2);
}
