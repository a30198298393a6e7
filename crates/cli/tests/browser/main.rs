//! The page in a real browser (headless Chromium), against a real gateway and agents that do what they are told.
//!
//! What is done in the browser is in `testing/browser/<scenario>.mjs`; it asks us for what is not in a browser.
//! `BERTH_SHOTS=DIR` keeps pictures. Start with [`play`].

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_harness::{Gateway, Lab};
use serde_json::{Value, json};

/// A lab with an agent that takes turns, two sessions of it, and a terminal that writes back what is typed.
fn lab() -> Lab {
    let lab = Lab::new(env!("CARGO_BIN_EXE_berth"));
    let store = lab.dir().join("store");
    std::fs::create_dir(&store).expect("a directory for transcripts");
    let command = [&lab.agent(), "acp", "--store", &store.display().to_string()];
    let config = format!("[agents.fake]\ndriver = \"acp\"\nconversation = \"fake\"\ncommand = {command:?}\n");
    std::fs::write(lab.config(), config).expect("a config file");
    let cwd = lab.dir().display().to_string();
    for name in ["talk", "asks"] {
        lab.ok(["run", "-d", "--agent", "fake", "--name", name, "--cwd", &cwd]);
    }
    lab.start_with(&["--name", "echo"], &["say:ready\\r\\n", "echo"]);
    lab
}

/// Plays a scenario, and fails with what it says.
fn play(scenario: &str) {
    let lab = lab();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/browser");
    let installed = Command::new(scripts.join("install")).arg("--check").output().expect("bash");
    assert!(installed.status.success(), "run testing/browser/install first: {installed:?}");
    let token = lab.ok(["token", "new", "--scope", "admin", "--name", "browser"]);
    let mut stage = Stage { gateway: lab.serve_with(&["--listen", "127.0.0.1:0"]), lab };
    let address = stage.gateway.address.clone().expect("it listens");
    let mut node = Command::new("node");
    node.arg(scripts.join("run.mjs")).arg(scenario).env("BERTH_URL", format!("http://{address}"));
    node.env("BERTH_TOKEN", token).env("BERTH_LAB", stage.lab.dir());
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node");
    let mut answers = child.stdin.take().expect("piped");
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        let asked: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{scenario}: {error}: {line}"));
        let answer = stage.act(&asked, &address);
        // It may have failed meanwhile; its exit code says so.
        let _ = writeln!(answers, "{answer}");
    }
    let status = child.wait().expect("our own child");
    assert!(status.success(), "{scenario}: {status}");
}

struct Stage {
    gateway: Gateway,
    lab: Lab,
}

impl Stage {
    fn act(&mut self, asked: &Value, address: &str) -> Value {
        if let Some(args) = asked["berth"].as_array() {
            let said = self.lab.berth(args.iter().map(|arg| arg.as_str().expect("a word")));
            return json!({"code": said.code, "out": said.out, "err": said.err});
        }
        if let Some(file) = asked["touch"].as_str() {
            let path: PathBuf = self.lab.dir().join(file);
            std::fs::write(&path, "").expect("a file");
        } else if asked["kill"] == true {
            self.gateway.kill();
        } else if asked["serve"] == true {
            self.gateway = self.lab.serve_with(&["--listen", address]);
        } else {
            panic!("asked for {asked}");
        }
        json!({})
    }
}

#[test]
fn a_double_click_is_one_turn() {
    play("double_click");
}

#[test]
fn two_tabs_that_send_at_the_same_moment_have_one_turn_each_and_the_same_draft_is_one() {
    play("two_tabs");
}

#[test]
fn a_reload_in_mid_turn_loses_no_answer_and_no_draft_and_sends_nothing_twice() {
    play("reload");
}

#[test]
fn a_gateway_killed_with_sigkill_comes_back_to_a_page_that_said_so_and_lost_nothing() {
    play("killed_gateway");
}

#[test]
fn a_question_is_shown_in_full_and_answered_once() {
    play("approve");
}

#[test]
fn a_queue_is_seen_edited_reordered_dropped_and_paused() {
    play("queue");
}

#[test]
fn a_terminal_is_watched_typed_into_and_taken_over() {
    play("terminal");
}

#[test]
fn a_guest_is_offered_only_what_the_login_may_do_and_told_when_it_is_over() {
    play("guests");
}

#[test]
fn sessions_of_other_hosts_are_in_the_list_and_everything_about_them_is_asked_there() {
    play("hosts");
}

#[test]
fn every_view_fits_a_phone_and_can_be_read_in_light_and_dark_and_read_out() {
    play("looks");
}

#[test]
fn sessions_are_started_found_renamed_stopped_resumed_and_archived() {
    play("find_and_life");
}
