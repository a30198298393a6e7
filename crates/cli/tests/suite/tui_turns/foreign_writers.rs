//! Other processes that write the same conversation, now or since the agent last read it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{TestEnvironment, wait_until};
use berth_host::lock::{LockState, lock_state};

use super::{command, idle, lab, release, replace, state, text, turn, turn_state, wait_state, wait_turn};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A conversation that the agent has on disk.
fn transcript(lab: &TestEnvironment) -> PathBuf {
    let dir = lab.dir().join("claude/projects/-w");
    fs::create_dir_all(&dir).expect("a directory");
    let file = dir.join(format!("{ID}.jsonl"));
    fs::write(&file, "").expect("a file");
    say(&file, "first");
    file
}

/// A prompt and its answer, as Claude Code writes them.
fn say(file: &Path, what: &str) {
    let mut file = File::options().append(true).open(file).expect("the transcript");
    let now = Command::new("date").args(["-u", "+%FT%T.%3NZ"]).output().expect("date can be started").stdout;
    let now = String::from_utf8(now).expect("a moment");
    let now = now.trim_end();
    let lines = [
        format!(
            r#"{{"type":"user","uuid":"p-{what}","timestamp":"{now}","message":{{"role":"user","content":"{what}"}}}}"#
        ),
        format!(r#"{{"type":"assistant","uuid":"a-{what}","message":{{"model":"m","content":[]}}}}"#),
    ];
    file.write_all(format!("{}\n{}\n", lines[0], lines[1]).as_bytes()).expect("two lines");
}

/// A session `s` that goes on with that conversation, and is idle.
fn resumed(lab: &TestEnvironment) {
    let run = ["run", "--detach", "--agent", "fake", "--tui", "--name", "s", "--resume", ID];
    let ran = command(lab, &run).output().expect("berth can be started");
    assert!(ran.status.success(), "{ran:?}");
    wait_state(lab, "idle");
}

#[test]
fn a_turn_is_not_typed_behind_messages_that_the_agent_has_not_read() {
    let lab = lab();
    let file = transcript(&lab);
    resumed(&lab);
    say(&file, "theirs");
    lab.ok(["send", "s", "mine"]);
    wait_state(&lab, "needs-you");
    let held = text(&lab.show("s")["turns"], "held");
    assert!(held.contains(&format!("/resume {ID}")), "{held}");
    assert_eq!(turn_state(&lab, 1), "queued");
    lab.ok(["input", "s", "--enter", &format!("/resume {ID}")]);
    wait_turn(&lab, 1, "done");
    assert_eq!(text(&turn(&lab, 1), "answer"), "ECHO: mine");
}

#[test]
fn a_turn_is_not_typed_behind_foreign_messages_right_after_the_last_one() {
    let lab = lab();
    let file = transcript(&lab);
    resumed(&lab);
    assert_eq!(lab.ok(["send", "s", "--wait", "one"]), "ECHO: one");
    say(&file, "theirs");
    lab.ok(["send", "s", "mine"]);
    wait_until("the turn is held or typed", || state(&lab) == "needs-you" || turn_state(&lab, 2) != "queued");
    assert_eq!((state(&lab), turn_state(&lab, 2)), ("needs-you".to_owned(), "queued".to_owned()));
    lab.ok(["input", "s", "--enter", &format!("/resume {ID}")]);
    wait_turn(&lab, 2, "done");
}

#[test]
fn a_persons_word_lets_a_turn_go_to_an_agent_that_has_not_read_everything() {
    let lab = lab();
    let file = transcript(&lab);
    resumed(&lab);
    fs::remove_file(&file).expect("the agent's own clean-up");
    lab.ok(["send", "s", "mine"]);
    wait_state(&lab, "needs-you");
    let held = text(&lab.show("s")["turns"], "held");
    assert!(held.contains("berth queue s resume"), "{held}");
    lab.ok(["queue", "s", "resume"]);
    wait_turn(&lab, 1, "done");
}

#[test]
fn prompts_typed_by_hand_are_not_turns_of_ours_and_hold_up_no_turn() {
    let lab = lab();
    let file = transcript(&lab);
    resumed(&lab);
    lab.ok(["input", "s", "--enter", "HOLD go by hand"]);
    wait_state(&lab, "working");
    say(&file, "by-hand");
    release(&lab, "go");
    wait_state(&lab, "idle");
    // A command of the interface is in the record as well, and has no answer.
    let command = r#"{"type":"user","uuid":"c","message":{"role":"user","content":"<command-name>/model</command-name>"}}"#;
    let mut record = File::options().append(true).open(&file).expect("the transcript");
    writeln!(record, "{command}").expect("a line");
    assert_eq!(lab.ok(["send", "s", "--wait", "mine"]), "ECHO: mine");
}

#[test]
fn g8_an_agent_that_leaves_the_conversation_of_another_session_is_back_in_its_own() {
    let lab = lab();
    let id = idle(&lab);
    let own = text(&lab.show("s"), "conversation_id");
    let run = ["run", "--detach", "--agent", "fake", "--tui", "--name", "t"];
    assert!(command(&lab, &run).output().expect("berth can be started").status.success());
    wait_until("the other is idle", || text(&lab.show("t"), "state") == "idle");
    let theirs = text(&lab.show("t"), "conversation_id");
    let is_locked = |id: &str| {
        let lock = lab.home().join("conversations/claude").join(id);
        matches!(lock_state(&lock), Ok(Some(LockState::Held)))
    };
    lab.ok(["input", "s", "--enter", &format!("/resume {theirs}")]);
    wait_state(&lab, "needs-you");
    lab.ok(["input", "s", "--enter", &format!("/resume {own}")]);
    wait_state(&lab, "idle");
    assert_eq!(lab.ok(["send", "s", "--wait", "at home"]), "ECHO: at home");
    // A new image does not take its right to one conversation for a right to the open one.
    lab.ok(["input", "s", "--enter", &format!("/resume {theirs}")]);
    wait_state(&lab, "needs-you");
    replace(&lab, &id);
    wait_until("the other right given back", || !is_locked(&own));
    lab.ok(["stop", "t"]);
    lab.ok(["queue", "s", "resume"]);
    assert_eq!(lab.ok(["send", "s", "--wait", "moved"]), "ECHO: moved");
    assert!(is_locked(&theirs), "it writes that without the right to");
    assert_eq!(state(&lab), "idle");
}
