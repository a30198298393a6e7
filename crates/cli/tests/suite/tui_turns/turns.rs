//! Turns that berth types into an agent's interface, and the hooks by which the agent reports them.

use berth_harness::{signal, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use super::{idle, idle_with, lab, release, state, text, turn, turn_state, wait_state, wait_turn};

#[test]
fn a_turn_is_pasted_once_confirmed_and_answered() {
    let lab = lab();
    idle(&lab);
    assert_eq!(lab.ok(["send", "s", "--wait", "hello\nthere"]), "ECHO: hello\nthere");
    assert_eq!(turn_state(&lab, 1), "done");
    assert_eq!(state(&lab), "idle");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert_eq!(shown.matches("ECHO: hello").count(), 1, "{shown}");
    let why = lab.ok(["why", "s"]);
    assert!(why.contains("Stop hook"), "{why}");
}

#[test]
fn after_a_death_the_next_turn_waits_until_the_next_agent_reads_its_terminal() {
    let lab = lab();
    let config = std::fs::read_to_string(lab.config()).expect("a config file");
    std::fs::write(lab.config(), config.replace("\"tui\"", "\"tui\", \"--late\", \"paint\""))
        .expect("a config file");
    release(&lab, "paint");
    idle(&lab);
    lab.ok(["send", "s", "HOLD never"]);
    wait_turn(&lab, 1, "working");
    std::fs::remove_file(lab.dir().join("paint")).expect("our own file");
    lab.ok(["send", "s", "second"]);
    let pid = u32::try_from(lab.show("s")["pid"].as_u64().expect("an agent")).expect("pids fit");
    signal(&ProcessIdentity::of(pid).expect("it runs"), Signal::KILL);
    wait_turn(&lab, 1, "interrupted");
    // The agent has told that it is there. Terminal settings of the last run say nothing about this one's.
    wait_until("the next one", || {
        let status = lab.show("s");
        status["epoch"] == 2 && status["turns"]["last_report"]["how"] == "SessionStart hook"
    });
    assert_eq!(turn_state(&lab, 2), "queued");
    release(&lab, "paint");
    wait_turn(&lab, 2, "done");
    assert_eq!(text(&turn(&lab, 2), "answer"), "ECHO: second");
}

#[test]
fn turns_wait_for_each_other_and_for_prompts_typed_by_hand() {
    let lab = lab();
    idle(&lab);
    lab.ok(["input", "s", "--enter", "HOLD go by hand"]);
    wait_state(&lab, "working");
    lab.ok(["send", "s", "first"]);
    lab.ok(["send", "s", "second"]);
    assert_eq!([turn_state(&lab, 1), turn_state(&lab, 2)], ["queued", "queued"]);
    assert_eq!(lab.show("s")["turns"]["total"], 2, "a prompt typed by hand is not a turn of ours");
    release(&lab, "go");
    wait_turn(&lab, 2, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: first");
    assert_eq!(text(&turn(&lab, 2), "answer"), "ECHO: second");
}

#[test]
fn a_question_on_the_screen_needs_the_user_and_is_answered_there() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "ASK touch x"]);
    lab.ok(["wait", "s", "--for", "needs-you", "--timeout", "30s"]);
    let status = lab.show("s");
    assert_eq!(status["turns"]["asks"][0]["tool"], "Bash", "{status}");
    assert_eq!(status["turns"]["asks"][0]["detail"], "touch x", "{status}");
    let refused = lab.berth(["answer", "s", "allow", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("only its terminal can answer") && refused.err.contains("berth attach s"),
        "{refused:?}"
    );
    lab.ok(["input", "s", "1"]);
    wait_turn(&lab, 1, "done");
    assert_eq!(state(&lab), "idle");
}

#[test]
fn an_answered_question_needs_no_user_while_its_tool_runs() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "ASK touch x UNTIL go"]);
    wait_state(&lab, "needs-you");
    lab.wait_output("s", "1. Yes");
    lab.ok(["input", "s", "1"]);
    wait_state(&lab, "working");
    assert_eq!(turn_state(&lab, 1), "working");
    release(&lab, "go");
    wait_turn(&lab, 1, "done");
    assert_eq!(state(&lab), "idle");
}

#[test]
fn a_turn_that_is_cancelled_is_broken_off_with_the_agents_own_key() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "HOLD never"]);
    wait_turn(&lab, 1, "working");
    lab.ok(["cancel", "s.1"]);
    wait_turn(&lab, 1, "cancelled");
    wait_state(&lab, "idle");
    assert_eq!(lab.ok(["send", "s", "--wait", "and on"]), "ECHO: and on");
}

#[test]
fn a_turn_interrupted_at_the_terminal_is_noticed_although_no_hook_tells() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "HOLD never"]);
    wait_turn(&lab, 1, "working");
    lab.ok(["input", "s", "\u{1b}"]);
    wait_until("its end", || super::is_over(&turn_state(&lab, 1)));
    assert!(super::UNFINISHED.contains(&turn_state(&lab, 1).as_str()), "{}", turn(&lab, 1));
    wait_until("quiet", || {
        lab.show("s")["turns"]["last_report"]["how"] == "the agent's own list of sessions"
    });
}

#[test]
fn a_turn_the_agent_never_confirms_is_unknown_and_not_typed_again() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_CONFIRM_MS", "3000")]);
    lab.ok(["send", "s", "MUTE me"]);
    lab.ok(["send", "s", "behind it"]);
    wait_turn(&lab, 1, "unknown");
    assert_eq!(turn_state(&lab, 2), "queued", "the waiting turn may build on it");
    assert_eq!(state(&lab), "needs-you");
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert_eq!(shown.matches("MUTE me").count(), 1, "{shown}");
    lab.ok(["queue", "s", "resume"]);
    wait_turn(&lab, 2, "done");
}

#[test]
fn g8_the_conversation_is_followed_and_its_lock_with_it() {
    let lab = lab();
    let id = idle(&lab);
    let first = text(&lab.show("s"), "conversation_id");
    lab.ok(["input", "s", "--enter", "/clear"]);
    wait_until("another conversation", || text(&lab.show("s"), "conversation_id") == format!("{first}-1"));
    let lock = lab.home().join("conversations/claude").join(format!("{first}-1"));
    assert!(std::fs::read_to_string(lock).expect("a lock").starts_with(&id));
    assert_eq!(lab.ok(["send", "s", "--wait", "after that"]), "ECHO: after that");
}

#[test]
fn g8_a_hook_of_the_conversation_before_that_comes_late_does_not_lead_back_to_it() {
    let lab = lab();
    idle(&lab);
    let first = text(&lab.show("s"), "conversation_id");
    lab.ok(["input", "s", "--enter", "/clear late"]);
    lab.wait_output("s", "cleared");
    assert_eq!(lab.ok(["send", "s", "--wait", "after that"]), "ECHO: after that");
    let entered: Vec<String> =
        lab.events("s", "conversation_entered").iter().map(|event| text(event, "id")).collect();
    assert_eq!(entered, [first.clone(), format!("{first}-1")]);
}

#[test]
fn g8_an_agent_inside_of_the_agent_does_not_speak_for_it() {
    let lab = lab();
    idle(&lab);
    let first = text(&lab.show("s"), "conversation_id");
    assert_eq!(lab.ok(["send", "s", "--wait", "NEST"]), "ECHO: NEST");
    assert_eq!(text(&lab.show("s"), "conversation_id"), first);
    let entered: Vec<String> =
        lab.events("s", "conversation_entered").iter().map(|event| text(event, "id")).collect();
    assert_eq!(entered, [first]);
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: NEST");
}

#[test]
fn g8_two_sessions_that_come_to_one_conversation_are_told() {
    let lab = lab();
    idle(&lab);
    let first = text(&lab.show("s"), "conversation_id");
    let run = ["run", "--detach", "--agent", "fake", "--tui", "--name", "t"];
    assert!(super::command(&lab, &run).output().expect("berth can be started").status.success());
    wait_until("the other is idle", || text(&lab.show("t"), "state") == "idle");
    lab.ok(["input", "t", "--enter", &format!("/resume {first}")]);
    wait_until("a conflict", || text(&lab.show("t"), "state") == "needs-you");
    let held = text(&lab.show("t")["turns"], "held");
    assert!(held.contains("another program writes this conversation"), "{held}");
    assert_eq!(state(&lab), "idle", "the first agent goes on");
}

#[test]
fn text_that_would_press_keys_is_refused() {
    let lab = lab();
    idle(&lab);
    let refused = lab.berth(["send", "s", "a\u{1b}[201~\rb"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("control characters"), "{refused:?}");
    assert_eq!(lab.show("s")["turns"]["total"], 0);
}

#[test]
fn a_reminder_that_comes_late_does_not_end_the_turn_the_agent_has_by_now() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "REMIND HOLD go"]);
    // The agent paints this when its hook was heard.
    lab.wait_output("s", "held");
    assert_eq!(turn_state(&lab, 1), "working");
    release(&lab, "go");
    wait_turn(&lab, 1, "done");
}
