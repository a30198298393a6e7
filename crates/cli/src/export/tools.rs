//! The tools an agent used in a turn, from what it wrote.
//!
//! Promise: nothing is made up: what has no name or no end is shown without. Memory is bounded by one line and by what
//! is kept of each call.
//! Not here: how they are shown (see `markdown`). Start with [`calls`].

use std::io;
use std::path::Path;

use berth_api::{Code, Problem};
use berth_keeper::output;
use memchr::{memchr, memmem};
use serde_json::Value;

use crate::progress::Progress;

/// The longest line that is understood, as for keepers.
const MAX_LINE_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 256 * 1024;
/// How much of what goes into a tool, and of what comes out of it, is kept.
const MAX_KEPT_BYTES: usize = 16 * 1024;

/// One use of a tool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Call {
    id: String,
    pub(super) name: String,
    /// What it was given.
    pub(super) input: String,
    /// What came of it; nothing if nobody was told.
    pub(super) output: Option<String>,
    pub(super) failed: bool,
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot read {}: {error}", path.display()))
        .hint("check that you may read it and that the disk is healthy")
}

/// The tools used in the output from `from` to `until`, in order.
pub(super) fn calls(dir: &Path, from: u64, until: u64, progress: &Progress) -> Result<Vec<Call>, Problem> {
    let mut calls = Vec::new();
    let (mut offset, mut line, mut is_too_long) = (from, Vec::new(), false);
    let mut buffer = vec![0; READ_BYTES];
    while offset < until {
        let (count, at) =
            output::read_at(dir, offset, &mut buffer).map_err(|error| unreadable(dir, &error))?;
        let count = count.min(usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        offset = at + count as u64;
        progress.add(count as u64);
        let mut rest = &buffer[..count];
        while let Some(end) = memchr(b'\n', rest) {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if !std::mem::take(&mut is_too_long) {
                hear(&line, &mut calls);
            }
            line.clear();
        }
        is_too_long |= line.len() + rest.len() > MAX_LINE_BYTES;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(rest);
        }
    }
    Ok(calls)
}

/// Takes what a line says about tools.
fn hear(line: &[u8], calls: &mut Vec<Call>) {
    // Most lines are pieces of an answer, and need not be taken apart.
    let has = |word: &str| memmem::find(line, word.as_bytes()).is_some();
    if !has("\"tool_use\"") && !has("\"tool_result\"") && !has("\"tool_call") && !has("\"item/completed\"") {
        return;
    }
    let Ok(said) = serde_json::from_slice::<Value>(line) else { return };
    match word(&said, "type") {
        "assistant" => claude_calls(&said, calls),
        "user" => claude_results(&said, calls),
        _ => match word(&said, "method") {
            "session/update" => acp(&said["params"]["update"], calls),
            "item/completed" => codex(&said["params"]["item"], calls),
            _ => {}
        },
    }
}

fn claude_calls(said: &Value, calls: &mut Vec<Call>) {
    for block in said["message"]["content"].as_array().into_iter().flatten() {
        let id = word(block, "id");
        if word(block, "type") == "tool_use" && !calls.iter().any(|call| call.id == id) {
            let input = given(&block["input"]);
            calls.push(Call {
                id: id.to_owned(),
                name: word(block, "name").to_owned(),
                input,
                ..Call::default()
            });
        }
    }
}

fn claude_results(said: &Value, calls: &mut [Call]) {
    for block in said["message"]["content"].as_array().into_iter().flatten() {
        let id = word(block, "tool_use_id");
        let Some(call) = calls.iter_mut().find(|call| call.id == id) else { continue };
        if word(block, "type") == "tool_result" {
            call.output = Some(kept(texts(&block["content"])));
            call.failed = block["is_error"] == true;
        }
    }
}

fn acp(update: &Value, calls: &mut Vec<Call>) {
    if !word(update, "sessionUpdate").starts_with("tool_call") {
        return;
    }
    let id = word(update, "toolCallId");
    let at = calls.iter().position(|call| call.id == id).unwrap_or_else(|| {
        calls.push(Call { id: id.to_owned(), ..Call::default() });
        calls.len() - 1
    });
    let call = &mut calls[at];
    if !word(update, "title").is_empty() {
        word(update, "title").clone_into(&mut call.name);
    }
    if !update["rawInput"].is_null() {
        call.input = given(&update["rawInput"]);
    }
    let out =
        [texts(&update["content"]), texts(&update["rawOutput"])].into_iter().find(|out| !out.is_empty());
    call.output = out.map(kept).or_else(|| call.output.take());
    call.failed |= word(update, "status") == "failed";
}

fn codex(item: &Value, calls: &mut Vec<Call>) {
    let (name, input, output) = match word(item, "type") {
        "commandExecution" => ("shell", word(item, "command").to_owned(), texts(&item["aggregatedOutput"])),
        "fileChange" => ("edit", texts(&item["changes"]), String::new()),
        "mcpToolCall" => (word(item, "tool"), given(&item["arguments"]), texts(&item["result"])),
        "dynamicToolCall" => (word(item, "tool"), given(&item["arguments"]), texts(&item["contentItems"])),
        "webSearch" => ("web search", word(item, "query").to_owned(), String::new()),
        _ => return,
    };
    calls.push(Call {
        id: word(item, "id").to_owned(),
        name: name.to_owned(),
        input: kept(input),
        output: Some(output).filter(|output| !output.is_empty()).map(kept),
        failed: word(item, "status") == "failed",
    });
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a tool is given, as people would write it.
fn given(input: &Value) -> String {
    let only = input.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    kept(match (input, only, input["command"].as_str()) {
        (Value::String(text), ..) => text.clone(),
        (_, _, Some(command)) => command.to_owned(),
        (_, Some(Value::String(text)), _) => text.clone(),
        (Value::Null, ..) => String::new(),
        _ => serde_json::to_string_pretty(input).unwrap_or_default(),
    })
}

/// All texts in a value, a line or more each. Ids and kinds are no texts.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let parts = values.iter().map(texts).filter(|text| !text.is_empty());
            parts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => {
            let is_text = |name: &str| {
                matches!(
                    name,
                    "text" | "content" | "path" | "diff" | "newText" | "output" | "stdout" | "stderr"
                )
            };
            let parts = fields.iter().filter(|(name, _)| is_text(name)).map(|(_, value)| texts(value));
            parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn kept(mut text: String) -> String {
    if text.len() > MAX_KEPT_BYTES {
        let more = text.len() - MAX_KEPT_BYTES;
        text.truncate(text.floor_char_boundary(MAX_KEPT_BYTES));
        text.push_str(&format!("\n… ({more} bytes more)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Vec<(String, String, Option<String>, bool)> {
        let mut calls = Vec::new();
        lines.iter().for_each(|line| hear(line.as_bytes(), &mut calls));
        calls.into_iter().map(|call| (call.name, call.input, call.output, call.failed)).collect()
    }

    #[test]
    fn the_tools_of_each_protocol_are_understood() {
        let claude = [
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","description":"look"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}]}]}}"#,
        ];
        assert_eq!(heard(&claude), [("Bash".into(), "ls".into(), Some("no".into()), true)]);
        let acp = [
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","rawInput":{"path":"/x"}}}}"#,
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}]}}}"#,
        ];
        assert_eq!(heard(&acp), [("Read".into(), "/x".into(), Some("done".into()), false)]);
        let codex = [
            r#"{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"i","command":"make","aggregatedOutput":"ok\n","status":"completed"}}}"#,
            r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"j","text":"hello"}}}"#,
        ];
        assert_eq!(heard(&codex), [("shell".into(), "make".into(), Some("ok\n".into()), false)]);
        assert_eq!(heard(&["garbage \"tool_use\"", "{}"]), []);
    }
}
