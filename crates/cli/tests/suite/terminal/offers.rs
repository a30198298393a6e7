//! Offers that a terminal shows instead of an error, and that never appear off one.

use berth_harness::{TestEnvironment, wait_until};

use crate::common::screen_settings;
use crate::terminal::lab;

fn stopped(lab: &TestEnvironment, name: &str) -> String {
    let id = lab.start_with(&["--name", name], &["say:is up", "hang"]);
    lab.wait_output(&id, "is up");
    lab.ok(["stop", &id]);
    id
}

#[test]
fn attaching_to_a_stopped_session_offers_to_resume_it_and_only_a_yes_does() {
    let lab = lab();
    let id = stopped(&lab, "old");
    let mut no = lab.terminal(["attach", "old"]);
    no.wait_for("it would be resumed");
    no.type_keys("n\r");
    assert_eq!(no.wait_exit(), 1);
    assert!(no.text().contains("nothing was done"), "{}", no.text());
    assert_eq!(lab.show(&id)["state"], "stopped");
    let mut yes = lab.terminal(["attach", "old", "--leave-key", "ctrl-b"]);
    yes.wait_for("[y/N]");
    yes.type_keys("y\r");
    yes.wait_for("is up");
    assert_eq!(lab.show(&id)["state"], "running");
    yes.type_keys("\x02");
    assert_eq!(yes.wait_exit(), 0);
    // Off a terminal there is no question.
    lab.ok(["stop", &id]);
    let said = lab.berth(["attach", "old"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_eq!(lab.show(&id)["state"], "stopped");
}

#[test]
fn a_taken_name_offers_to_resume_or_replace_its_session() {
    let lab = lab();
    let agent = lab.agent();
    let old = stopped(&lab, "fix");
    let run = ["run", "--name", "fix", "--", &agent, "say:successor", "hang"];
    let mut neither = lab.terminal(run);
    neither.wait_for("Session `fix` exists already");
    neither.wait_for("Which?");
    screen_settings().bind(|| insta::assert_snapshot!("taken-name", neither.text()));
    neither.type_keys("\r");
    assert_eq!(neither.wait_exit(), 1);
    assert_eq!(lab.json(["ls", "--all", "--json"]).as_array().map(Vec::len), Some(1));

    let mut resumed = lab.terminal(run);
    resumed.wait_for("r  resume it");
    resumed.type_keys("r\r");
    resumed.wait_for("is up");
    assert_eq!(lab.show(&old)["state"], "running");
    resumed.type_keys("\x1c");
    assert_eq!(resumed.wait_exit(), 0);

    let mut attached = lab.terminal(run);
    attached.wait_for("a  attach to it");
    attached.type_keys("a\r");
    attached.wait_for("is up");
    attached.type_keys("\x1c");
    assert_eq!(attached.wait_exit(), 0);

    let mut replaced = lab.terminal(run);
    replaced.wait_for("p  replace it");
    replaced.type_keys("p\r");
    replaced.wait_for("successor");
    wait_until("the old one to end", || lab.show(&old)["state"] == "stopped");
    wait_until("the name to be handed on", || lab.show("fix")["id"] != old.as_str());
    replaced.type_keys("\x1c");
    assert_eq!(replaced.wait_exit(), 0);

    let said = lab.berth(["run", "--name", "fix", "--", &agent, "hang"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("fix") && !said.err.contains("Which?"), "{said:?}");
}

#[test]
fn a_run_of_nothing_lists_the_agents_to_choose_from_at_a_terminal_and_names_them_off_one() {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let said = lab.berth(["run"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.err.contains("no agent and no command is given") && said.err.contains("claude, codex"),
        "{said:?}"
    );
    let mut none = lab.terminal(["run"]);
    none.wait_for("Which one?");
    none.type_keys("\r");
    assert_eq!(none.wait_exit(), 1);
    let mut odd = lab.terminal(["run"]);
    odd.wait_for("Which one?");
    odd.type_keys("99\r");
    assert_eq!(odd.wait_exit(), 2);
    assert!(odd.text().contains("`99` is not one of the agents above"), "{}", odd.text());
    assert_eq!(lab.json(["ls", "--all", "--json"]).as_array().map(Vec::len), Some(0));
    // A script that reads the output is not asked: `$(berth run)` must not wait for an answer.
    for args in [&["run", "-d"][..], &["run", "--json", "-d"]] {
        let mut quiet = lab.terminal(args);
        assert_eq!(quiet.wait_exit(), 2, "{}", quiet.text());
        assert!(!quiet.text().contains("Which one?"), "{}", quiet.text());
    }
    let script = format!("x=$({} run); echo it ended with $?", env!("CARGO_BIN_EXE_berth"));
    let mut captured = lab.terminal_running("/bin/sh".as_ref(), ["-c", &script]);
    captured.wait_for("it ended with 2");
    assert_eq!(captured.wait_exit(), 0);
    let mut chosen = lab.terminal(["run", "--name", "chosen"]);
    chosen.wait_for("fake");
    chosen.wait_for("Which one?");
    chosen.type_keys("fake\r");
    chosen.wait_for("Ctrl-D leaves it running");
    chosen.type_keys("\x04");
    assert_eq!(chosen.wait_exit(), 0);
    assert_eq!(lab.show("chosen")["agent"], "fake");
}
