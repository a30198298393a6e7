//! Transcripts made for a test, and the dialogue that a resume would have.

use std::collections::HashMap;

use serde_json::{Value, json};

pub(crate) const SESSION: &str = "aaaaaaaa-2222-4333-8444-555555555555";

/// The id of a record that is called by a number.
pub(crate) fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// A record of Claude Code's tree.
pub(crate) fn record(number: u32, parent: u32, kind: &str, message: Value) -> Value {
    json!({
        "parentUuid": (parent > 0).then(|| id(parent)), "isSidechain": false, "type": kind, "message": message,
        "uuid": id(number), "timestamp": format!("2026-11-16T09:00:{:02}.000Z", number % 60), "sessionId": SESSION,
        "entrypoint": "cli", "version": "2.1.325", "cwd": "/home/me",
    })
}

pub(crate) fn prompt(number: u32, parent: u32, text: &str) -> Value {
    record(number, parent, "user", json!({"role": "user", "content": text}))
}

pub(crate) fn answer(number: u32, parent: u32, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    let message =
        json!({"id": format!("msg_{number}"), "role": "assistant", "model": "m", "content": content});
    record(number, parent, "assistant", message)
}

pub(crate) fn made_up(number: u32, parent: u32) -> Value {
    let content = json!([{"type": "text", "text": "No response requested."}]);
    let message = json!({"id": "x", "role": "assistant", "model": "<synthetic>", "content": content});
    record(number, parent, "assistant", message)
}

pub(crate) fn call(number: u32, parent: u32, tool: &str, message: &str) -> Value {
    let content = json!([{"type": "tool_use", "id": tool, "name": "Bash", "input": {"command": "ls"}}]);
    record(
        number,
        parent,
        "assistant",
        json!({"id": message, "role": "assistant", "model": "m", "content": content}),
    )
}

pub(crate) fn result(number: u32, parent: u32, tool: &str, text: &str) -> Value {
    let content = json!([{"tool_use_id": tool, "type": "tool_result", "content": text}]);
    record(number, parent, "user", json!({"role": "user", "content": content}))
}

pub(crate) fn interrupted(number: u32, parent: u32, tool: &str) -> Value {
    let mut record = result(number, parent, tool, "[Tool call interrupted: the session ended …]");
    record["toolDenialKind"] = json!("interrupted");
    record
}

pub(crate) fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

/// The dialogue that Claude Code gives its model after a resume, by the measured rule: from the noted leaf if it has no
/// children, else from the record that was written last, along the parents. Independent of the code of the crate.
pub(crate) fn resumed(bytes: &[u8]) -> Vec<String> {
    let records: Vec<Value> =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let is_tree = |record: &&Value| record["uuid"].is_string() && record["isSidechain"] != true;
    let tree: Vec<&Value> = records.iter().filter(is_tree).collect();
    let by_id: HashMap<&str, &Value> =
        tree.iter().map(|record| (record["uuid"].as_str().unwrap(), *record)).collect();
    let has_child = |id: &str| tree.iter().any(|record| record["parentUuid"] == id);
    let noted = records.iter().rfind(|record| record["type"] == "last-prompt");
    let noted = noted.and_then(|record| record["leafUuid"].as_str()).filter(|id| !has_child(id));
    let mut at = noted.and_then(|id| by_id.get(id).copied()).or(tree.last().copied());
    let mut said = Vec::new();
    for _ in 0..=tree.len() {
        let Some(record) = at else { break };
        let content = &record["message"]["content"];
        let text = content
            .as_str()
            .or_else(|| content[0]["text"].as_str())
            .or_else(|| content[0]["content"].as_str());
        let tool = content[0]["name"].as_str();
        said.extend(text.or(tool).map(str::to_owned));
        let parent = record["parentUuid"].as_str().or(record["logicalParentUuid"].as_str());
        at = parent.and_then(|id| by_id.get(id).copied());
    }
    said.reverse();
    said
}
