//! The page in a real browser (headless Chromium), against a real gateway and agents that do what they are told.
//!
//! Scenarios are in `testing/browser/<scenario>.mjs`; a scenario asks this test for everything outside of the browser.
//! `BERTH_SHOTS=DIR` keeps pictures. Start with [`play`].

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_harness::{GatewayProcess, TestEnvironment, TestHostPair, said};
use serde_json::{Value, json};

/// A lab with an agent that takes turns, two sessions of it, and a terminal that writes back what is typed. Two more
/// agents have conversations that are Claude Code's as far as berth knows, in an account of the lab's own: `remembers`
/// takes turns, and `claude` has a terminal interface that tells through hooks. `both` has a chat and a terminal interface;
/// `switches` has both as well, and either goes on with a conversation of the other. `silent` has a
/// terminal interface that tells nothing and keeps a record.
fn lab() -> TestEnvironment {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    for (_, dir) in account(&lab) {
        std::fs::create_dir_all(dir).expect("a directory");
    }
    let remembers = [lab.agent(), "acp".into(), "--store".into(), lab.store().display().to_string()];
    let tui = [lab.agent(), "tui".into(), "--hook".into(), format!("'{}' tell", lab.agent())];
    let silent = [lab.agent(), "tui".into(), "--record".into()];
    let known = std::fs::read_to_string(lab.config()).expect("a config file");
    let more = format!(
        "[agents.remembers]\ndriver = \"acp\"\nconversation_kind = \"claude\"\ncommand = {remembers:?}\n\
         [agents.claude]\ntui = {tui:?}\nbegin_tui = [\"--session-id\", \"{{id}}\"]\n\
         resume_tui = [\"--resume\", \"{{id}}\"]\n\
         [agents.both]\ndriver = \"acp\"\nconversation_kind = \"fake\"\ncommand = {remembers:?}\ntui = {tui:?}\n\
         [agents.switches]\ndriver = \"acp\"\nconversation_kind = \"claude\"\ncommand = {remembers:?}\ntui = {tui:?}\n\
         begin_tui = [\"--session-id\", \"{{id}}\"]\nresume_tui = [\"--resume\", \"{{id}}\"]\n\
         [agents.silent]\ndriver = \"claude\"\nconversation_kind = \"claude\"\ncommand = [\"false\"]\ntui = {silent:?}\n\
         begin_tui = [\"--session-id\", \"{{id}}\"]\nresume_tui = [\"--resume\", \"{{id}}\"]\n"
    );
    std::fs::write(lab.config(), known + &more).expect("a config file");
    let cwd = lab.dir().display().to_string();
    for name in ["talk", "asks"] {
        lab.ok(["run", "-d", "--agent", "fake", "--name", name, "--cwd", &cwd]);
    }
    lab.start_with(&["--name", "echo"], &["say:ready\\r\\n", "echo"]);
    lab
}

/// Directories of the lab in which agents keep their own records: no record of the user's is listed.
fn account(lab: &TestEnvironment) -> [(&'static str, PathBuf); 2] {
    [("CLAUDE_CONFIG_DIR", lab.dir().join("account-claude")), ("CODEX_HOME", lab.dir().join("account-codex"))]
}

fn serve(lab: &TestEnvironment, address: &str) -> GatewayProcess {
    let args = ["--listen", address];
    let mut command = lab.command(["serve"].iter().chain(&args));
    command.envs(account(lab));
    lab.serve_from(command, &args)
}

/// Where a scenario is played: on one host, or on two with ssh between them.
enum ScenarioHosts {
    One(TestEnvironment),
    Two(TestHostPair),
}

impl ScenarioHosts {
    fn here(&self) -> &TestEnvironment {
        match self {
            Self::One(lab) => lab,
            Self::Two(hosts) => &hosts.here,
        }
    }

    fn hosts(&self) -> &TestHostPair {
        match self {
            Self::One(_) => panic!("there is no other host"),
            Self::Two(hosts) => hosts,
        }
    }
}

/// Plays a scenario, and fails with what it says.
fn play(scenario: &str) {
    play_at(scenario, ScenarioHosts::One(lab()));
}

/// Plays a scenario with another host that has a terminal called `far` and the agent.
fn play_with_another_host(scenario: &str) {
    let hosts = TestHostPair::new(lab(), TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))).added();
    hosts.configure();
    hosts.there.start_with(&["--name", "far"], &["say:ready over there\\r\\n", "echo"]);
    play_at(scenario, ScenarioHosts::Two(hosts));
}

fn play_at(scenario: &str, place: ScenarioHosts) {
    let lab = place.here();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/browser");
    let installed = Command::new(scripts.join("install")).arg("--check").output().expect("bash");
    assert!(installed.status.success(), "run testing/browser/install first: {installed:?}");
    let token = lab.ok(["token", "new", "--scope", "admin", "--name", "browser"]);
    let mut stage = BrowserScenario { gateway: serve(lab, "127.0.0.1:0"), place };
    let address = stage.gateway.address.clone().expect("it listens");
    let mut node = Command::new("node");
    node.arg(scripts.join("run.mjs")).arg(scenario).env("BERTH_URL", format!("http://{address}"));
    node.env("BERTH_TOKEN", token).env("BERTH_LAB", stage.place.here().dir());
    node.env("BERTH_AGENT", stage.place.here().agent());
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node");
    let mut answers = child.stdin.take().expect("piped");
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        let asked: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{scenario}: {error}: {line}"));
        let answer = stage.act(&asked, &address);
        // The browser may have failed meanwhile; its exit code says so.
        let _ = writeln!(answers, "{answer}");
    }
    let status = child.wait().expect("our own child");
    assert!(status.success(), "{scenario}: {status}");
}

struct BrowserScenario {
    gateway: GatewayProcess,
    place: ScenarioHosts,
}

impl BrowserScenario {
    fn act(&mut self, asked: &Value, address: &str) -> Value {
        let run = |lab: &TestEnvironment, args: &Vec<Value>| {
            let mut command = lab.command(args.iter().map(|arg| arg.as_str().expect("a word")));
            let said = said(command.envs(account(lab)).output().expect("berth can be started"));
            json!({"code": said.code, "out": said.out, "err": said.err})
        };
        if let Some(args) = asked["berth"].as_array() {
            return run(self.place.here(), args);
        }
        if let Some(args) = asked["there"].as_array() {
            return run(&self.place.hosts().there, args);
        }
        if let Some(file) = asked["touch"].as_str() {
            let path: PathBuf = self.place.here().dir().join(file);
            std::fs::write(&path, "").expect("a file");
        } else if asked["kill"] == true {
            self.gateway.kill();
        } else if asked["serve"] == true {
            self.gateway = serve(self.place.here(), address);
        } else if asked["cut"] == true {
            self.place.hosts().cut();
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
fn a_question_takes_several_answers_and_an_answer_in_own_words() {
    play("questions");
}

#[test]
fn a_question_in_a_terminal_interface_is_answered_by_keys_beside_the_screen() {
    play("terminal_question");
}

#[test]
fn a_question_of_the_next_run_is_unread_and_a_reason_for_a_question_that_is_gone_stays_in_the_box() {
    play("next_run");
}

#[test]
fn a_session_switches_to_the_other_interface_and_back_and_keeps_its_conversation() {
    play("switch");
}

#[test]
fn the_record_of_a_terminal_interface_without_turns_is_read_as_a_transcript() {
    play("silent");
}

#[test]
fn rows_say_how_sessions_differ_and_how_they_ended_and_the_last_active_is_first() {
    play("rows");
}

#[test]
fn a_held_key_and_quick_clicks_answer_no_question_that_was_not_in_view_long_enough_to_read() {
    play("unread");
}

#[test]
fn a_server_on_another_port_of_the_same_host_receives_nothing_that_the_gateway_accepts() {
    play("other_port");
}

#[test]
fn hostile_markdown_is_shown_as_text_and_the_page_still_answers() {
    play("hostile_markdown");
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
fn keys_arrive_once_the_page_takes_them_and_are_told_as_not_sent_before() {
    play("late_terminal");
}

#[test]
fn a_guest_is_offered_only_permitted_actions_and_told_when_the_login_is_over() {
    play("guests");
}

#[test]
fn sessions_of_other_hosts_are_in_the_list_and_everything_about_them_is_asked_there() {
    play("hosts");
}

#[test]
fn claims_of_another_host_about_a_session_of_this_host_are_not_believed_and_answer_nothing_here() {
    play("hostile_host");
}

#[test]
fn a_session_of_another_host_is_watched_typed_into_started_and_found_over_a_real_ssh() {
    play_with_another_host("other_host");
}

#[test]
fn a_stream_that_only_has_a_problem_to_tell_is_said_and_asked_again_less_and_less() {
    play("stream_problems");
}

#[test]
fn a_message_that_the_browser_cannot_store_is_sent_all_the_same_and_none_is_lost_without_a_word() {
    play("full_browser");
}

#[test]
fn tools_diffs_processes_ports_memory_helpers_and_attached_clients_are_seen() {
    play("details");
}

#[test]
fn every_key_does_what_the_list_of_keys_says() {
    play("keys");
}

#[test]
fn conversations_not_started_here_are_read_imported_and_adopted_from_processes_that_have_them_open() {
    play("foreign");
}

#[test]
fn a_record_that_is_gone_is_put_back_from_its_copies() {
    play("history");
}

#[test]
fn every_view_fits_a_phone_and_can_be_read_in_light_and_dark_and_read_out() {
    play("looks");
}

#[test]
fn sessions_are_started_found_renamed_stopped_resumed_and_archived() {
    play("find_and_life");
}
