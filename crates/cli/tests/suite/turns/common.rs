//! Shared by the tests of turns over commands and over HTTP: an agent that writes down what it did.
//!
//! Start with [`PromptRecord`], the record of one prompt in the agent's own transcript.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};
use serde_json::Value;

/// A lab whose config file has the agent `fake`, with a store for its transcripts.
pub(crate) fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// Starts the agent in a session of its own; the session's id.
pub(crate) fn start(lab: &TestEnvironment, options: &[&str]) -> String {
    lab.ok([&["run", "-d", "--agent", "fake"], options].concat())
}

/// Sends a prompt of this many bytes.
pub(crate) fn send_long(lab: &TestEnvironment, id: &str, bytes: usize) {
    let path = lab.dir().join("long-prompt");
    std::fs::write(&path, "long ".repeat(bytes / 5)).expect("a file");
    let prompt = std::fs::File::open(&path).expect("the file");
    let sent = lab.command(["send", id, "-"]).stdin(prompt).output().expect("berth starts");
    assert!(sent.status.success(), "{sent:?}");
}

/// A stopped session with the turns 1 to 20, whose journal is damaged at the first turn: only a reader of the later
/// turns alone can read it.
pub(crate) fn damaged_at_the_first_turn(lab: &TestEnvironment) -> String {
    let id = start(lab, &["--prompt", "prompt 1"]);
    // A short journal is read as a whole.
    send_long(lab, &id, 900_000);
    (3..=20).for_each(|turn| drop(lab.ok(["send", &id, &format!("prompt {turn}")])));
    lab.ok(["wait", &id, "--timeout", "60s"]);
    lab.ok(["stop", &id]);
    damage_prompt(lab, &id, "prompt 1");
    id
}

/// Damages the journal of a stopped session where it has this prompt.
pub(crate) fn damage_prompt(lab: &TestEnvironment, id: &str, prompt: &str) {
    wait_until("the keeper's end", || lab.processes().is_empty());
    let files = std::fs::read_dir(lab.session_dir(id).join("journal")).expect("a journal");
    let damaged = files.map(|entry| entry.expect("an entry").path()).filter(|path| {
        let mut bytes = std::fs::read(path).expect("a file of the journal");
        let place = bytes.windows(prompt.len()).position(|text| text == prompt.as_bytes());
        place.is_some_and(|place| {
            bytes[place] ^= 1;
            std::fs::write(path, bytes).expect("a file of the journal");
            true
        })
    });
    assert_eq!(damaged.count(), 1, "one file of the journal has the prompt `{prompt}`");
}

/// How often a race is run: `usually`, or the number in `BERTH_TURN_ROUNDS`.
pub(crate) fn rounds(usually: u64) -> u64 {
    std::env::var("BERTH_TURN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// A file that a prompt waits for: `wait-file:` in the prompt, and [`open`] to let it go on.
pub(crate) fn gate(lab: &TestEnvironment, name: &str) -> (PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("wait-file:{}", path.display());
    (path, step)
}

pub(crate) fn open(gate: &Path) {
    std::fs::write(gate, "").expect("a file");
}

/// A file that a prompt makes when it has come that far, and the step that does.
pub(crate) fn mark(lab: &TestEnvironment, name: &str) -> (PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("touch:{}", path.display());
    (path, step)
}

pub(crate) fn wait_mark(mark: &Path) {
    wait_until(&format!("{} to be made", mark.display()), || mark.exists());
}

/// Starts a command without waiting for it.
pub(crate) fn spawn<A: AsRef<std::ffi::OsStr>>(
    lab: &TestEnvironment,
    args: impl IntoIterator<Item = A>,
) -> Child {
    spawned(&mut lab.command(args))
}

pub(crate) fn spawned(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

/// Waits for what was started with [`spawn`].
pub(crate) fn finish(child: Child) -> CommandOutput {
    said(child.wait_with_output().expect("our own child"))
}

/// The view of a turn that `turn --json` prints.
pub(crate) fn turn(lab: &TestEnvironment, id: &str, number: u64) -> Value {
    lab.json(["turn", &format!("{id}.{number}"), "--json"])
}

pub(crate) fn state(lab: &TestEnvironment, id: &str, number: u64) -> String {
    text(&turn(lab, id, number), "state")
}

/// Waits until the agent's first word about a turn is recorded: its mark may be there a moment earlier.
pub(crate) fn wait_working(lab: &TestEnvironment, id: &str, number: u64) {
    wait_until(&format!("turn {number} to be worked on"), || state(lab, id, number) == "working");
}

/// The states of all turns, in the order they were accepted.
pub(crate) fn states(lab: &TestEnvironment, id: &str) -> Vec<String> {
    turns(lab, id).iter().map(|turn| text(turn, "state")).collect()
}

pub(crate) fn turns(lab: &TestEnvironment, id: &str) -> Vec<Value> {
    lab.json(["turns", id, "--json"]).as_array().expect("an array").clone()
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Waits until a session has no keeper: the way to see an agent released.
pub(crate) fn wait_unkept(lab: &TestEnvironment, id: &str) {
    wait_until("its keeper to leave", || lab.show(id)["keeper_pid"].is_null());
}

/// The record of one prompt in an agent's transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PromptRecord {
    pub(crate) prompt: String,
    pub(crate) pid: u64,
    /// `end` or `cut`, and the answer; nothing if the agent was ended on the way.
    pub(crate) over: Option<(String, String)>,
}

impl PromptRecord {
    pub(crate) fn is_done(&self) -> bool {
        self.over.as_ref().is_some_and(|(kind, _)| kind == "end")
    }
}

/// The records of a transcript, once it is proven that it has one writer at a time: the records are numbered without a
/// gap or a repetition, each turn was ended by the process that began it, and no other process wrote in between.
pub(crate) fn transcript(path: &Path) -> Vec<PromptRecord> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut all: Vec<PromptRecord> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let record: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}: a broken record ({error}): {line}", path.display()));
        assert_eq!(record["n"], at as u64 + 1, "{}: two wrote it at once:\n{text}", path.display());
        let (prompt, pid) = (self::text(&record, "prompt"), record["pid"].as_u64().expect("a pid"));
        match self::text(&record, "kind").as_str() {
            "begin" => {
                if let Some(last) = all.last() {
                    let is_cut_off = last.over.is_none() && last.pid == pid;
                    assert!(!is_cut_off, "{}: a turn began within another:\n{text}", path.display());
                }
                all.push(PromptRecord { prompt, pid, over: None });
            }
            kind => {
                let last = all.last_mut().unwrap_or_else(|| panic!("an end without a beginning:\n{text}"));
                assert_eq!((&last.prompt, last.pid), (&prompt, pid), "{}:\n{text}", path.display());
                assert_eq!(last.over, None, "a turn ended twice:\n{text}");
                last.over = Some((kind.to_owned(), record["answer"].as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    all
}

/// The transcript a session's agent writes.
pub(crate) fn did(lab: &TestEnvironment, id: &str) -> Vec<PromptRecord> {
    let native = text(&lab.show(id), "conversation_id");
    transcript(&lab.store().join(format!("{native}.jsonl")))
}

/// The transcript there is, if there is only one.
pub(crate) fn only_did(lab: &TestEnvironment) -> Vec<PromptRecord> {
    let files = transcripts(lab);
    assert_eq!(files.len(), 1, "one conversation: {files:?}");
    transcript(&files[0])
}

pub(crate) fn transcripts(lab: &TestEnvironment) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.store()).expect("the store");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

pub(crate) fn prompts(did: &[PromptRecord]) -> Vec<&str> {
    did.iter().map(|did| did.prompt.as_str()).collect()
}
