//! Ends of turns that a hook tells, with and without the agent's transcript of them.

use serde_json::Value;

use super::{idle, idle_with, lab, lab_with, release, state, text, turn, turn_state, wait_state, wait_turn};

/// The reason of an end that is not in the agent's transcript.
const TOLD_BY_HOOK: &str = "reported only by a hook; the agent's transcript does not show it";

fn last_told(lab: &berth_harness::TestEnvironment) -> String {
    text(&lab.show("s")["turns"]["last_report"], "how")
}

/// `agent → sh → a program` calls the hook as the agent does.
#[test]
fn an_end_that_a_tool_of_the_agent_forges_does_not_end_the_turn() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "FORGE go"]);
    lab.ok(["send", "s", "second"]);
    // The agent paints this when its hook was heard.
    lab.wait_output("s", "forged");
    berth_harness::wait_until("the hook", || last_told(&lab).starts_with("Stop hook"));
    assert_eq!(last_told(&lab), "Stop hook, not in the agent's transcript");
    assert_eq!((turn_state(&lab, 1), turn_state(&lab, 2)), ("working".to_owned(), "queued".to_owned()));
    assert_eq!(turn(&lab, 1)["answer"], Value::Null);
    release(&lab, "go");
    wait_turn(&lab, 2, "done");
    assert_eq!(
        (turn_state(&lab, 1), text(&turn(&lab, 1), "answer")),
        ("done".into(), "ECHO: FORGE go".into())
    );
    assert_eq!(turn(&lab, 1)["reason"], Value::Null, "its end is proven");
    assert_eq!(last_told(&lab), "Stop hook, the agent's transcript has it");
}

#[test]
fn a_turn_whose_end_is_written_after_the_hook_told_it_is_done_when_it_is_written() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_PROOF_MS", "600000")]);
    lab.ok(["send", "s", "LATE go"]);
    berth_harness::wait_until("the hook", || last_told(&lab).starts_with("Stop hook"));
    assert_eq!(turn_state(&lab, 1), "working");
    release(&lab, "go");
    wait_turn(&lab, 1, "done");
    assert_eq!((text(&turn(&lab, 1), "answer"), state(&lab)), ("ECHO: LATE go".into(), "idle".into()));
    assert_eq!(turn(&lab, 1)["reason"], Value::Null);
}

#[test]
fn a_turn_of_an_idle_agent_whose_record_has_no_end_is_unknown_and_says_that_a_hook_told_it() {
    let lab = lab();
    idle_with(&lab, &[("BERTH_PROOF_MS", "500")]);
    lab.ok(["send", "s", "UNWRITTEN"]);
    lab.ok(["send", "s", "second"]);
    wait_turn(&lab, 1, "unknown");
    let first = turn(&lab, 1);
    assert_eq!((text(&first, "reason"), text(&first, "answer")), (TOLD_BY_HOOK.into(), String::new()));
    wait_state(&lab, "needs-you");
    assert_eq!(turn_state(&lab, 2), "queued", "the waiting turn may build on it");
    lab.ok(["queue", "s", "resume"]);
    wait_turn(&lab, 2, "done");
}

#[test]
fn a_turn_of_an_agent_without_a_record_is_done_and_says_that_a_hook_told_it() {
    let lab = lab_with(true, false);
    idle_with(&lab, &[("BERTH_PROOF_MS", "100")]);
    assert_eq!(lab.ok(["send", "s", "--wait", "hello"]), "ECHO: hello");
    let turn = turn(&lab, 1);
    assert_eq!((text(&turn, "state"), text(&turn, "reason")), ("done".into(), TOLD_BY_HOOK.into()));
}

/// The agent can make its record as large as it likes; reading it must not keep its keeper from serving clients.
#[test]
fn a_session_is_stopped_although_its_agent_tells_an_end_and_makes_its_record_huge() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "FORGE go"]);
    lab.wait_output("s", "forged");
    let projects = lab.dir().join("claude/projects/-w");
    let record = std::fs::read_dir(projects).expect("the agent's files").flatten().next().expect("a record");
    let record = std::fs::File::options().write(true).open(record.path()).expect("a record");
    record.set_len(20 << 30).expect("a file with holes");
    berth_harness::wait_until("the hook", || last_told(&lab).starts_with("Stop hook"));
    lab.ok(["stop", "s"]);
}
