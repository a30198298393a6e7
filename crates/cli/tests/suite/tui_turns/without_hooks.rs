//! Runs that tell nothing, keepers that die or are replaced, and all other clients that ask.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use berth_harness::wait_until;
use serde_json::Value;

use super::{
    command, idle, lab, lab_telling, release, replace, state, text, turn, turn_state, wait_state, wait_turn,
};

#[test]
fn a_terminal_without_hooks_is_as_it_was() {
    let lab = lab_telling(false);
    let run = command(&lab, &["run", "--detach", "--agent", "fake", "--tui", "--name", "s"]).output();
    assert!(run.expect("berth can be started").status.success());
    lab.wait_output("s", "ready");
    assert_eq!(state(&lab), "running");
    let refused = lab.berth(["send", "s", "hello"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("takes no turns") && refused.err.contains("hooks"), "{refused:?}");
    let why = lab.ok(["why", "s"]);
    assert!(why.contains("nothing tells whether"), "{why}");
}

#[test]
fn a_client_whose_turn_is_not_taken_is_told_to_look_at_the_screen_and_then_gets_its_answer() {
    let lab = lab();
    // The agent reports through the plugin of its kind, but shows a dialog first: it starts once the pipe was opened.
    let (pipe, program) = (lab.dir().join("pipe"), lab.dir().join("bin/claude"));
    std::fs::create_dir(lab.dir().join("bin")).expect("a directory");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let script = format!("#!/bin/sh\ncat '{}'\nexec '{}' tui \"$@\"\n", pipe.display(), lab.agent());
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("our own file");
    let config = format!(
        "[agents.fake]\ndriver = \"claude\"\nconversation_kind = \"claude\"\ncommand = [\"false\"]\n\
         tui = [{program:?}, \"--record\"]\nbegin_tui = [\"--session-id\", \"{{id}}\"]\n"
    );
    std::fs::write(lab.config(), config).expect("a config file");
    let run = command(&lab, &["run", "--detach", "--agent", "fake", "--tui", "--name", "s"]).output();
    assert!(run.expect("berth can be started").status.success());
    let mut send = command(&lab, &["send", "s", "--wait", "hello"]);
    send.env("BERTH_NOTE_DELAY_MS", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut send = send.spawn().expect("berth can be started");
    let mut told = String::new();
    let mut lines = BufReader::new(send.stderr.take().expect("piped"));
    while !told.contains("may be asking something on its screen: `berth attach s`") {
        assert!(lines.read_line(&mut told).expect("text") > 0, "{told}");
    }
    assert_eq!(turn_state(&lab, 1), "queued");
    std::fs::write(&pipe, "").expect("the agent reads it");
    let done = send.wait_with_output().expect("our own child");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stdout).trim()), (Some(0), "ECHO: hello"));
}

#[test]
fn a_keeper_that_dies_in_a_turn_leaves_an_end_that_claims_nothing() {
    let lab = lab();
    idle(&lab);
    lab.ok(["send", "s", "HOLD never"]);
    wait_turn(&lab, 1, "working");
    lab.kill_keeper("s");
    wait_until("the end", || super::is_over(&turn_state(&lab, 1)));
    assert!(super::UNFINISHED.contains(&turn_state(&lab, 1).as_str()), "{}", turn(&lab, 1));
    let shown = String::from_utf8_lossy(&lab.output("s")).into_owned();
    assert_eq!(shown.matches("HOLD never").count(), 1, "{shown}");
}

#[test]
fn a_keeper_that_is_replaced_knows_the_events_told_before() {
    let lab = lab();
    let id = idle(&lab);
    lab.ok(["send", "s", "HOLD go"]);
    wait_turn(&lab, 1, "working");
    replace(&lab, &id);
    assert_eq!(state(&lab), "working");
    release(&lab, "go");
    wait_turn(&lab, 1, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: HOLD go");
    wait_state(&lab, "idle");
}

#[test]
fn a_keeper_that_is_replaced_believes_an_end_that_came_before() {
    let lab = lab();
    let id = idle(&lab);
    lab.ok(["send", "s", "HOLD never"]);
    wait_turn(&lab, 1, "working");
    lab.wait_output("s", "held");
    // The agent writes this list about itself when it was interrupted.
    let pid = lab.show("s")["pid"].as_u64().expect("it runs");
    let list = lab.dir().join(format!("claude/sessions/{pid}.json"));
    let mut entry: Value = serde_json::from_slice(&std::fs::read(&list).expect("its entry")).expect("JSON");
    (entry["status"], entry["statusUpdatedAt"]) = ("idle".into(), berth_host::clock::wall_ms().into());
    std::fs::write(&list, entry.to_string()).expect("its entry");
    replace(&lab, &id);
    wait_until("its end", || super::is_over(&turn_state(&lab, 1)));
}

#[test]
fn a_keeper_that_is_replaced_knows_that_its_terminal_takes_pastes_whatever_was_painted_since() {
    let lab = lab();
    let id = idle(&lab);
    assert_eq!(lab.ok(["send", "s", "--wait", "FLOOD"]), "ECHO: FLOOD");
    replace(&lab, &id);
    assert_eq!(lab.ok(["send", "s", "--wait", "and on"]), "ECHO: and on");
}
