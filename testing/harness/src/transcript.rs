//! A transcript that an agent wrote, and a check that it is one line from its beginning to its end.
//!
//! Promise: only reads. A record that hangs in two places, a call with two results, a line that cannot be read: each is
//! found and named.
//! Not here: reading transcripts for berth itself; this is the tests' second opinion, and shares no code with it.
//! Start with [`ParsedTranscript::no_fork`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The agent that wrote a transcript.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TranscriptAgent {
    /// Claude Code: records with parents.
    Claude,
    /// Codex: a rollout, one item after the other.
    Codex,
}

/// A transcript, read.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedTranscript {
    /// The agent that wrote it.
    pub kind: TranscriptAgent,
    /// The agent's own id of the conversation.
    pub id: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The records, in the order of the file.
    pub records: Vec<Value>,
    /// The numbers of the lines that are not JSON, from 1.
    pub unreadable: Vec<usize>,
}

impl ParsedTranscript {
    /// Reads a transcript from a file.
    pub fn read(kind: TranscriptAgent, path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        Self::parse(kind, path, &String::from_utf8_lossy(&bytes))
    }

    fn parse(kind: TranscriptAgent, path: &Path, text: &str) -> Self {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(record) => records.push(record),
                Err(_) => unreadable.push(number + 1),
            }
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // rollout-2026-11-16T08-47-41-<id>, the id with its four hyphens.
        let id = match kind {
            TranscriptAgent::Claude => stem,
            TranscriptAgent::Codex => {
                stem.len().checked_sub(36).and_then(|at| stem.get(at..)).unwrap_or(stem)
            }
        };
        Self { kind, id: id.to_owned(), path: path.to_owned(), records, unreadable }
    }

    /// Checks that the transcript is one line: no fork, no second root, each tool call with its one result, every line
    /// readable. The error says what is wrong and where.
    pub fn no_fork(&self) -> Result<(), String> {
        let found = if self.unreadable.is_empty() {
            match self.kind {
                TranscriptAgent::Claude => self.claude_is_one_line(),
                TranscriptAgent::Codex => self.codex_is_one_line(),
            }
        } else {
            Err(format!("lines {:?} are not JSON", self.unreadable))
        };
        found.map_err(|what| format!("{}: {what}", self.path.display()))
    }

    /// The prompts of users, in the order they were written: no tool results and nothing the agent added.
    pub fn prompts(&self) -> Vec<String> {
        match self.kind {
            TranscriptAgent::Claude => self.tree().filter_map(claude_prompt).collect(),
            TranscriptAgent::Codex => {
                let items =
                    self.records.iter().filter(|record| record["payload"]["type"] == "item_completed");
                let said = items
                    .map(|record| &record["payload"]["item"])
                    .filter(|item| item["type"] == "UserMessage");
                said.map(|item| joined(&item["content"])).collect()
            }
        }
    }

    /// The answers of the agent, in the order they were written.
    pub fn answers(&self) -> Vec<String> {
        match self.kind {
            TranscriptAgent::Claude => {
                let said = self.tree().filter(|record| record["type"] == "assistant");
                said.map(|record| joined(&record["message"]["content"]))
                    .filter(|text| !text.is_empty())
                    .collect()
            }
            TranscriptAgent::Codex => {
                let items = self.records.iter().filter(|record| record["type"] == "response_item");
                let said = items.map(|record| &record["payload"]).filter(|item| item["role"] == "assistant");
                said.map(|item| joined(&item["content"])).collect()
            }
        }
    }

    /// Claude Code's records that have a parent, or could have; those of sub-agents left out.
    fn tree(&self) -> impl Iterator<Item = &Value> {
        // A title may have a uuid, and hangs nowhere.
        let is_kind = |record: &Value| {
            matches!(record["type"].as_str(), Some("user" | "assistant" | "attachment" | "system"))
        };
        let is_in = move |record: &&Value| {
            is_kind(record) && record["uuid"].is_string() && record["isSidechain"] != true
        };
        self.records.iter().filter(is_in)
    }

    fn claude_is_one_line(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        let mut children: BTreeMap<&str, &str> = BTreeMap::new();
        let mut root: Option<&str> = None;
        for record in self.tree() {
            let uuid = record["uuid"].as_str().expect("filtered for it");
            match record["parentUuid"].as_str() {
                None => {
                    if let Some(first) = root.replace(uuid) {
                        return Err(format!("two roots, {first} and {uuid}"));
                    }
                }
                Some(parent) if !known.contains(parent) => {
                    return Err(format!("{uuid} hangs off {parent}, which is not there before it"));
                }
                Some(parent) => {
                    if let Some(first) = children.insert(parent, uuid) {
                        return Err(format!("a fork: {first} and {uuid} both hang off {parent}"));
                    }
                }
            }
            if !known.insert(uuid) {
                return Err(format!("{uuid} is there twice"));
            }
        }
        let blocks = || {
            let contents = self.tree().filter_map(|record| record["message"]["content"].as_array());
            contents.flatten()
        };
        let ids = |kind: &'static str, name: &'static str| {
            let of_kind = blocks().filter(move |block| block["type"] == kind);
            of_kind.filter_map(move |block| block[name].as_str()).collect::<Vec<_>>()
        };
        let (calls, results) = (ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
        paired(&calls, &results)?;
        match calls.iter().find(|call| !results.contains(call)) {
            Some(call) => Err(format!("the call {call} has no result")),
            None => Ok(()),
        }
    }

    fn codex_is_one_line(&self) -> Result<(), String> {
        let mut open: Option<&str> = None;
        let mut ended = BTreeSet::new();
        let (mut calls, mut results, mut call_turns) = (Vec::new(), Vec::new(), BTreeMap::new());
        for record in &self.records {
            let payload = &record["payload"];
            let turn = payload["turn_id"].as_str();
            match payload["type"].as_str() {
                Some("task_started") => {
                    if turn.is_some_and(|turn| ended.contains(turn)) {
                        return Err(format!("turn {turn:?} begins again"));
                    }
                    open = turn;
                }
                Some("task_complete" | "turn_aborted") => {
                    if turn != open {
                        return Err(format!("turn {turn:?} ends while {open:?} is open"));
                    }
                    ended.extend(open.take());
                }
                Some("function_call" | "custom_tool_call") => {
                    let call = payload["call_id"].as_str().unwrap_or_default();
                    calls.push(call);
                    call_turns.extend(open.map(|turn| (call, turn)));
                }
                Some("function_call_output" | "custom_tool_call_output") => {
                    results.push(payload["call_id"].as_str().unwrap_or_default());
                }
                _ => {}
            }
        }
        paired(&calls, &results)?;
        // A killed Codex writes no result, and neither does the one that resumes.
        let is_over = |call: &&&str| call_turns.get(**call).is_some_and(|turn| ended.contains(turn));
        match calls.iter().filter(is_over).find(|call| !results.contains(call)) {
            Some(call) => Err(format!("the call {call} has no result, and its turn is over")),
            None => Ok(()),
        }
    }
}

/// No call twice, no result twice, no result without a call.
fn paired(calls: &[&str], results: &[&str]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    if let Some(call) = calls.iter().find(|call| !seen.insert(**call)) {
        return Err(format!("the call {call} is there twice"));
    }
    let mut seen = BTreeSet::new();
    if let Some(call) = results.iter().find(|call| !seen.insert(**call)) {
        return Err(format!("the call {call} has two results"));
    }
    match results.iter().find(|call| !calls.contains(call)) {
        Some(call) => Err(format!("there is a result for {call}, and no call")),
        None => Ok(()),
    }
}

/// The text of a user's record, if it is a prompt of a user.
fn claude_prompt(record: &Value) -> Option<String> {
    if record["type"] == "attachment" && record["attachment"]["type"] == "queued_command" {
        return record["attachment"]["prompt"].as_str().map(str::to_owned);
    }
    // The agent's messages to itself about background tasks are records of a user as well.
    if record["type"] != "user" || record["isMeta"] == true || record["promptSource"] == "system" {
        return None;
    }
    let text = joined(&record["message"]["content"]);
    (!text.is_empty() && !text.starts_with("[Request interrupted by user")).then_some(text)
}

/// The texts of a content: a string, or blocks.
fn joined(content: &Value) -> String {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    content.as_str().map_or_else(|| texts.join("\n"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: TranscriptAgent, records: &[Value]) -> ParsedTranscript {
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        ParsedTranscript::parse(kind, Path::new("x.jsonl"), &text)
    }

    fn record(kind: &str, uuid: &str, parent: Option<&str>, content: Value) -> Value {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": {"content": content}})
    }

    fn call(id: &str) -> Value {
        json!([{"type": "tool_use", "id": id}])
    }

    fn result(id: &str) -> Value {
        json!([{"type": "tool_result", "tool_use_id": id, "content": "hi"}])
    }

    #[test]
    fn a_line_with_attachments_and_a_tool_is_one_line() {
        let good = of(
            TranscriptAgent::Claude,
            &[
                json!({"type": "queue-operation"}),
                json!({"type": "custom-title", "uuid": "0", "parentUuid": null}),
                record("user", "1", None, json!("first")),
                json!({"type": "attachment", "uuid": "2", "parentUuid": "1"}),
                record("assistant", "3", Some("2"), call("t")),
                record("user", "4", Some("3"), result("t")),
                record("assistant", "5", Some("4"), json!([{"type": "text", "text": "done"}])),
            ],
        );
        assert_eq!(good.no_fork(), Ok(()));
        assert_eq!((good.prompts(), good.answers()), (vec!["first".into()], vec!["done".into()]));
    }

    #[test]
    fn each_fault_of_a_tree_is_named() {
        let first = || record("user", "1", None, json!("first"));
        let called = || record("assistant", "2", Some("1"), call("t"));
        let faults = [
            (vec![first(), record("user", "2", None, json!("x"))], "two roots"),
            (vec![first(), called(), record("user", "3", Some("1"), json!("x"))], "a fork: 2 and 3"),
            (vec![first(), record("user", "2", Some("9"), json!("x"))], "is not there before it"),
            (vec![first(), called()], "has no result"),
            (vec![first(), record("user", "2", Some("1"), result("t"))], "and no call"),
            (
                vec![
                    first(),
                    called(),
                    record("user", "3", Some("2"), result("t")),
                    record("user", "4", Some("3"), result("t")),
                ],
                "two results",
            ),
        ];
        for (records, fault) in faults {
            let found = of(TranscriptAgent::Claude, &records).no_fork().expect_err(fault);
            assert!(found.contains(fault), "{found} is not about {fault}");
        }
        let torn = ParsedTranscript::parse(TranscriptAgent::Claude, Path::new("x.jsonl"), "{}\n{\"type\":\n");
        assert!(torn.no_fork().expect_err("a torn line").contains("lines [2]"));
    }

    #[test]
    fn each_fault_of_a_rollout_is_named() {
        let item = |kind: &str, field: &str, value: &str| json!({"payload": {"type": kind, field: value}});
        let (began, ended) = (item("task_started", "turn_id", "a"), item("task_complete", "turn_id", "a"));
        let (called, gave) =
            (item("function_call", "call_id", "c"), item("function_call_output", "call_id", "c"));
        let good = [began.clone(), called.clone(), gave.clone(), ended.clone()];
        assert_eq!(of(TranscriptAgent::Codex, &good).no_fork(), Ok(()));
        let faults = [
            (vec![began.clone(), item("task_started", "turn_id", "b"), ended.clone()], "is open"),
            (vec![began.clone(), ended.clone(), began.clone()], "begins again"),
            (vec![began.clone(), called.clone(), ended.clone()], "has no result"),
            (vec![began.clone(), called, gave.clone(), gave.clone(), ended], "two results"),
            (vec![began, gave], "and no call"),
        ];
        for (records, fault) in faults {
            let found = of(TranscriptAgent::Codex, &records).no_fork().expect_err(fault);
            assert!(found.contains(fault), "{found} is not about {fault}");
        }
    }
}
