//! Real agents: the writers of a conversation, and the outcome of a turn when its agent was killed.
//!
//! The model is the fake one of the harness: it echoes a prompt, or holds its answer if the prompt says HOLD. Needs
//! `testing/agents/install`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use berth_conversations::foreign_writers::{
    ForeignWriter, WriterEvidence, end_foreign_writer, find_foreign_writers, registered_writers,
};
use berth_harness::{JsonLineProcess, RealAgents, signal, wait_gone};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use berth_transcript::{GivenPrompt, TurnFate, transcript_exists, turn_fate};
use rustix::process::Signal;
use serde_json::json;

const ID: &str = "5e551014-0000-4000-8000-00000000000a";
const GRACE: Duration = Duration::from_secs(20);

/// Real agents without berth. Processes of theirs that are left are ended with the test.
struct IsolatedAgents {
    agents: RealAgents,
}

impl IsolatedAgents {
    fn new() -> Self {
        let agents = RealAgents::alone();
        agents.set_codex_policy("never", "danger-full-access");
        Self { agents }
    }

    fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        let home = self.agents.home().to_owned();
        move |name| (name == "HOME").then(|| home.clone().into_os_string())
    }

    /// Where Claude Code keeps its note of a process.
    fn note_of(&self, claude: &RealAgentProcess) -> PathBuf {
        self.agents.home().join(format!(".claude/sessions/{}.json", claude.talk.pid()))
    }

    fn start(&self, program: &str, args: &[&str]) -> RealAgentProcess {
        RealAgentProcess { talk: JsonLineProcess::start(&mut self.agents.command(program, args)) }
    }

    /// Claude Code for turns of this conversation.
    fn claude(&self, args: &[&str]) -> RealAgentProcess {
        let mut all =
            vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        all.extend(args);
        self.start("claude", &all)
    }

    /// Codex with a conversation that is new, and its id.
    fn codex(&self) -> (RealAgentProcess, String) {
        let mut codex = self.start("codex", &["app-server"]);
        codex.talk.say(&json!({"id": 1, "method": "initialize",
            "params": {"clientInfo": {"name": "berth", "title": "berth", "version": "0"}}}));
        codex.talk.wait("a greeting", |line| line["id"] == 1);
        codex.talk.say(&json!({"method": "initialized"}));
        let id = codex.thread(2);
        (codex, id)
    }

    fn find(&self, kind: &str, id: &str) -> Vec<ForeignWriter> {
        find_foreign_writers(kind, id, self.env(), |_| false).unwrap()
    }

    fn registered(&self, kind: &str, id: &str) -> Vec<ForeignWriter> {
        registered_writers(kind, id, self.env(), |_| false).unwrap()
    }

    fn fate(&self, kind: &str, id: &str, asked: &GivenPrompt<'_>) -> TurnFate {
        turn_fate(kind, id, self.env(), asked)
    }

    /// Waits until the model holds its answer to the prompt with this word.
    fn await_held(&self, word: &str) {
        self.agents.model().arrived(word);
    }
}

impl Drop for IsolatedAgents {
    fn drop(&mut self) {
        for left in self.agents.processes() {
            signal(&left, Signal::KILL);
            wait_gone(&left);
        }
    }
}

/// An agent that is spoken to in lines of JSON.
struct RealAgentProcess {
    talk: JsonLineProcess,
}

impl RealAgentProcess {
    /// A prompt to Claude Code.
    fn prompt(&mut self, uuid: &str, text: &str) {
        self.talk.say(&json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}}));
    }

    /// A new conversation of Codex.
    fn thread(&mut self, request: u32) -> String {
        self.talk.say(&json!({"id": request, "method": "thread/start", "params": {}}));
        let answer = self.talk.wait("an answer", |line| line["id"] == request);
        answer["result"]["thread"]["id"].as_str().expect("an id").to_owned()
    }

    /// A prompt to Codex.
    fn turn(&mut self, thread: &str, id: &str, text: &str) {
        let input = json!([{"type": "text", "text": text}]);
        self.talk.say(&json!({"id": id, "method": "turn/start",
            "params": {"threadId": thread, "clientUserMessageId": id, "input": input}}));
        self.talk.wait("an answer", |line| line["id"] == id);
    }
}

#[track_caller]
fn is_unfinished(fate: &TurnFate) {
    assert!(matches!(fate, TurnFate::Unfinished { .. }), "{fate:?}");
}

/// The fate of a prompt that the model answered.
fn done(prompt: &str) -> TurnFate {
    TurnFate::Done { answer: format!("ECHO: {prompt}"), cut: false }
}

/// A message's id.
fn uuid(number: u32) -> String {
    format!("0be47400-0000-4000-8000-{number:012x}")
}

#[test]
fn claude_in_a_turn_is_found_by_its_own_list_and_not_when_it_was_killed() {
    let agents = IsolatedAgents::new();
    let mut claude = agents.claude(&["--session-id", ID]);
    claude.prompt(&uuid(1), "HOLD it");
    agents.await_held("it");
    let found = agents.registered("claude", ID);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity, ProcessIdentity::of(claude.talk.pid()).unwrap());
    assert_eq!(writer.cwd.as_deref(), Some(&*agents.agents.work()));
    let file = agents.note_of(&claude);
    assert_eq!(writer.evidence, WriterEvidence::Registry { file: file.clone() });
    assert_eq!(agents.find("claude", ID).len(), 1, "one writer is one, however it is looked for");
    assert_eq!(
        registered_writers("claude", ID, agents.env(), |pid| pid == claude.talk.pid()),
        Ok(vec![]),
        "it is ours"
    );
    // Without the list, as with older versions.
    fs::remove_file(&file).unwrap();
    let found = agents.find("claude", ID);
    assert_eq!((found.len(), &found[0].evidence), (1, &WriterEvidence::CommandLine), "{found:?}");

    claude.talk.kill();
    assert_eq!(agents.find("claude", ID), []);
}

#[test]
fn a_note_that_a_killed_claude_left_names_no_writer() {
    let agents = IsolatedAgents::new();
    let mut claude = agents.claude(&["--session-id", ID]);
    claude.prompt(&uuid(1), "HOLD it");
    agents.await_held("it");
    claude.talk.kill();
    let file = agents.note_of(&claude);
    assert!(file.exists(), "it had no time to take it away");
    assert_eq!(agents.find("claude", ID), []);
}

#[test]
fn a_hook_of_claude_tells_of_its_agent_and_both_are_ended() {
    let agents = IsolatedAgents::new();
    let pipe = agents.agents.home().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    // The agent ignores SIGTERM.
    let hook = "trap '' TERM HUP INT; echo $$ > ../pipe; while :; do sleep 0.1; done";
    let settings =
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": hook}]}]}});
    let mut claude = agents.claude(&["--session-id", ID, "--settings", &settings.to_string()]);
    claude.prompt(&uuid(1), "HOLD it");
    let hook = fs::read_to_string(&pipe).unwrap();
    let hook = ProcessIdentity::of(hook.trim().parse().unwrap()).unwrap();
    let _ = fs::remove_file(agents.note_of(&claude));
    let found = agents.find("claude", ID);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity.pid, claude.talk.pid());
    assert!(matches!(writer.evidence, WriterEvidence::Child { .. }), "{:?}", writer.evidence);
    let ended = end_foreign_writer(writer, GRACE, None).unwrap();
    assert!(!ended.killed, "it listens: {ended:?}");
    assert!(matches!(writer.identity.check(), ProcessLiveness::Gone));
    assert!(matches!(hook.check(), ProcessLiveness::Gone), "what it started is gone too");
    claude.talk.end();
}

#[test]
fn turns_that_claude_finished_and_did_not_finish_are_told_apart() {
    let agents = IsolatedAgents::new();
    assert_eq!(transcript_exists("claude", ID, agents.env()), Some(false));
    let mut claude = agents.claude(&["--session-id", ID]);
    let (one, two) = (uuid(1), uuid(2));
    claude.prompt(&one, "say something");
    claude.talk.wait("a result", |line| line["type"] == "result");
    // Killed at once: an agent that reports an end has written it down.
    claude.talk.kill();
    let asked = GivenPrompt { id: Some(&one), ..GivenPrompt::new("say something") };
    assert_eq!(agents.fate("claude", ID, &asked), done("say something"));
    assert_eq!(agents.fate("claude", ID, &GivenPrompt::new("say something")), done("say something"));
    assert_eq!(transcript_exists("claude", ID, agents.env()), Some(true));

    // Killed right after the prompt was given, and again in the middle of the answer.
    let mut claude = agents.claude(&["--resume", ID]);
    claude.prompt(&two, "HOLD it");
    claude.talk.kill();
    is_unfinished(&agents.fate("claude", ID, &GivenPrompt { id: Some(&two), ..GivenPrompt::new("HOLD it") }));
    let mut claude = agents.claude(&["--resume", ID]);
    let three = uuid(3);
    claude.prompt(&three, "HOLD again");
    agents.await_held("again");
    claude.talk.kill();
    is_unfinished(&agents.fate(
        "claude",
        ID,
        &GivenPrompt { id: Some(&three), ..GivenPrompt::new("HOLD again") },
    ));
    assert_eq!(agents.fate("claude", ID, &asked), done("say something"), "what was before stays");
}

#[test]
fn codex_is_found_by_its_lock_and_ended() {
    let agents = IsolatedAgents::new();
    let (mut codex, id) = agents.codex();
    let other = codex.thread(3);
    let found = agents.registered("codex", &id);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity.pid, codex.talk.pid());
    assert!(matches!(writer.evidence, WriterEvidence::Lock { .. }));
    assert_eq!(writer.others, 1, "it has another conversation");
    assert_eq!(agents.find("codex", &id).len(), 1);
    assert_eq!(agents.find("codex", &other).len(), 1);
    end_foreign_writer(writer, GRACE, None).unwrap();
    assert_eq!(agents.find("codex", &id), []);
    codex.talk.end();
}

#[test]
fn turns_that_codex_finished_and_did_not_finish_are_told_apart() {
    let agents = IsolatedAgents::new();
    let (mut codex, id) = agents.codex();
    codex.turn(&id, "turn-1", "say something");
    codex.talk.wait("the end of a turn", |line| line["method"] == "turn/completed");
    codex.talk.kill();
    let asked = GivenPrompt { id: Some("turn-1"), ..GivenPrompt::new("say something") };
    assert_eq!(agents.fate("codex", &id, &asked), done("say something"));
    assert_eq!(transcript_exists("codex", &id, agents.env()), Some(true));
    assert_eq!(agents.find("codex", &id), [], "a lock ends with its holder");

    let (mut codex, id) = agents.codex();
    codex.turn(&id, "turn-1", "HOLD it");
    agents.await_held("it");
    codex.talk.kill();
    is_unfinished(&agents.fate(
        "codex",
        &id,
        &GivenPrompt { id: Some("turn-1"), ..GivenPrompt::new("HOLD it") },
    ));
}
