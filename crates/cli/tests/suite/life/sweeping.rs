//! Sessions that are at rest for as long as their policy says are archived by the next sweep.

use crate::life::{lab, lab_with_agent, state, stopped};

#[test]
fn a_sweep_archives_sessions_that_were_at_rest_for_as_long_as_their_policy_says() {
    let lab = lab();
    let busy = lab.start_with(&["--archive-after", "1ms"], &["hang"]);
    let (old, fresh, never) = (stopped(&lab, "old"), stopped(&lab, "fresh"), stopped(&lab, "never"));
    lab.ok(["policy", "old", "--archive-after", "1ms"]);
    lab.ok(["policy", "fresh", "--archive-after", "1h"]);
    let told = lab.ok(["sweep", "--dry-run"]);
    assert!(told.contains("old, at rest for longer than its policy says; would be archived"), "{told}");
    assert_eq!(state(&lab, &old), "stopped");
    let report = lab.json(["sweep", "--json"]);
    let archived = report["archived"].as_array().expect("an array");
    assert_eq!((archived.len(), &archived[0]["session"]), (1, &old.as_str().into()), "{report}");
    assert_eq!(archived[0]["done"], "cleared");
    let states = [&busy, &old, &fresh, &never].map(|id| state(&lab, id));
    assert_eq!(states, ["running", "archived", "stopped", "stopped"]);
    let event = lab.events(&old, "archived").pop().expect("it is in the journal");
    assert_eq!(
        (&event["by"]["place"], &event["by"]["uid"]),
        (&"its policy".into(), &serde_json::Value::Null)
    );
    // Restoring is an event of the session; an hour later it would be archived again.
    lab.ok(["policy", "old", "--archive-after", "1h"]);
    lab.ok(["restore", "old"]);
    lab.ok(["sweep"]);
    assert_eq!(state(&lab, &old), "stopped");
}

#[test]
fn an_agent_that_was_released_and_a_run_that_was_lost_are_at_rest() {
    let lab = lab_with_agent();
    let released = lab.ok(["run", "-d", "--agent", "fake", "--idle", "1ms", "--archive-after", "1ms"]);
    berth_harness::wait_until("its keeper to leave", || lab.show(&released)["keeper_pid"].is_null());
    let lost = lab.start_with(&["--archive-after", "1ms"], &["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&lost, "ready");
    let agent = lab.process(&lost, "pid");
    lab.kill_keeper(&lost);
    // The loss is recorded first: a session whose processes are not proven gone is not archived.
    lab.ok(["sweep"]);
    assert!(matches!(agent.check(), berth_host::identity::ProcessLiveness::Gone));
    lab.ok(["sweep"]);
    assert_eq!((state(&lab, &released).as_str(), state(&lab, &lost).as_str()), ("archived", "archived"));
}

#[test]
fn a_sweep_that_comes_along_with_another_command_archives() {
    let lab = lab();
    let id = stopped(&lab, "old");
    lab.ok(["policy", "old", "--archive-after", "1ms"]);
    // The last sweep looks as if it were long ago.
    std::fs::remove_file(lab.home().join("sweep.lock")).expect("a sweep came along before");
    lab.ok(["ls"]);
    assert_eq!(lab.events(&id, "archived").len(), 1);
}
