//! What the tests of turns share, whether they type commands or ask over HTTP: an agent that writes down what it did.
//!
//! Start with [`Did`], what the agent's own transcript says about a prompt.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_harness::{Lab, Said, said, wait_until};
use serde_json::Value;

/// A lab whose config file has the agent `fake`, with a store for its transcripts.
pub(crate) fn lab() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// Starts the agent in a session of its own; the session's id.
pub(crate) fn start(lab: &Lab, options: &[&str]) -> String {
    lab.ok([&["run", "-d", "--agent", "fake"], options].concat())
}

/// How often a race is run: this often, or as often as somebody wants it.
pub(crate) fn rounds(usually: u64) -> u64 {
    std::env::var("BERTH_TURN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// A file that a prompt waits for: `wait-file:` in the prompt, and [`open`] to let it go on.
pub(crate) fn gate(lab: &Lab, name: &str) -> (PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("wait-file:{}", path.display());
    (path, step)
}

pub(crate) fn open(gate: &Path) {
    std::fs::write(gate, "").expect("a file");
}

/// A file that a prompt makes when it has come that far, and the step that does.
pub(crate) fn mark(lab: &Lab, name: &str) -> (PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("touch:{}", path.display());
    (path, step)
}

pub(crate) fn wait_mark(mark: &Path) {
    wait_until(&format!("{} to be made", mark.display()), || mark.exists());
}

/// Starts a command without waiting for it.
pub(crate) fn spawn<A: AsRef<std::ffi::OsStr>>(lab: &Lab, args: impl IntoIterator<Item = A>) -> Child {
    spawned(&mut lab.command(args))
}

pub(crate) fn spawned(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

/// Waits for what was started with [`spawn`].
pub(crate) fn finish(child: Child) -> Said {
    said(child.wait_with_output().expect("our own child"))
}

/// What `turn --json` says.
pub(crate) fn turn(lab: &Lab, id: &str, number: u64) -> Value {
    lab.json(["turn", &format!("{id}.{number}"), "--json"])
}

pub(crate) fn state(lab: &Lab, id: &str, number: u64) -> String {
    text(&turn(lab, id, number), "state")
}

/// The states of all turns, in the order they were accepted.
pub(crate) fn states(lab: &Lab, id: &str) -> Vec<String> {
    turns(lab, id).iter().map(|turn| text(turn, "state")).collect()
}

pub(crate) fn turns(lab: &Lab, id: &str) -> Vec<Value> {
    lab.json(["turns", id, "--json"]).as_array().expect("an array").clone()
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Waits until nobody keeps a session: the way to see an agent released.
pub(crate) fn wait_unkept(lab: &Lab, id: &str) {
    wait_until("its keeper to leave", || lab.show(id)["keeper_pid"].is_null());
}

/// What an agent wrote down about one prompt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Did {
    pub(crate) prompt: String,
    pub(crate) pid: u64,
    /// `end` or `cut`, and the answer; nothing if the agent was ended on the way.
    pub(crate) over: Option<(String, String)>,
}

impl Did {
    pub(crate) fn is_done(&self) -> bool {
        self.over.as_ref().is_some_and(|(kind, _)| kind == "end")
    }
}

/// What a transcript says, once it is proven that it has one writer at a time: its records are numbered without a
/// gap or a repetition, what began was ended by the same process, and nobody else wrote in between.
pub(crate) fn transcript(path: &Path) -> Vec<Did> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut all: Vec<Did> = Vec::new();
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
                all.push(Did { prompt, pid, over: None });
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
pub(crate) fn did(lab: &Lab, id: &str) -> Vec<Did> {
    let native = text(&lab.show(id), "conversation_id");
    transcript(&lab.store().join(format!("{native}.jsonl")))
}

/// The transcript there is, if there is only one.
pub(crate) fn only_did(lab: &Lab) -> Vec<Did> {
    let files = transcripts(lab);
    assert_eq!(files.len(), 1, "one conversation: {files:?}");
    transcript(&files[0])
}

pub(crate) fn transcripts(lab: &Lab) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.store()).expect("the store");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

pub(crate) fn prompts(did: &[Did]) -> Vec<&str> {
    did.iter().map(|did| did.prompt.as_str()).collect()
}
