//! Tool calls and permission requests, described for people.
//!
//! Promise: a person who decides sees the whole command, or the file and the change, up to [`MAX_DETAIL_BYTES`]; text
//! that was cut says so. Any JSON is read without a panic.
//! Not here: the decision itself (see the driver).
//! Start with [`AcpToolCall::hear`].

use berth_core::{AgentQuestion, QuestionOption, QuestionOptionKind};
use serde_json::Value;

/// Size limit of a command or a change that is shown.
pub(super) const MAX_DETAIL_BYTES: usize = 64 << 10;
/// Longest name of a tool.
const MAX_NAME_BYTES: usize = 64;
/// Longest valid id, or name of an option.
pub(super) const MAX_ID_BYTES: usize = 256;
/// Number of options of one question that are read.
const MOST_OPTIONS: usize = 16;
/// Number of running tool calls that are remembered; the oldest is forgotten first.
const MOST_CALLS: usize = 16;

/// A tool call, as far as the agent described it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AcpToolCall {
    id: String,
    name: Option<String>,
    title: Option<String>,
    detail: Option<String>,
}

impl AcpToolCall {
    /// Takes the description in a message.
    fn hear(&mut self, said: &Value) {
        let name = text(&said["name"]).or_else(|| text(&said["_meta"]["claudeCode"]["toolName"]));
        let name = name.or_else(|| self.name.is_none().then(|| text(&said["kind"])).flatten());
        if let Some(name) = name {
            self.name = Some(short(name, MAX_NAME_BYTES));
        }
        if let Some(title) = text(&said["title"]) {
            self.title = Some(cut(title.to_owned()));
        }
        if let Some(detail) = detail(said) {
            self.detail = Some(cut(detail));
        }
    }

    /// Short name of the tool.
    pub(super) fn tool(&self) -> String {
        let name = self.name.as_deref().or(self.title.as_deref()).unwrap_or("tool");
        short(name, MAX_NAME_BYTES)
    }

    /// Full description of the call.
    pub(super) fn detail(&self) -> &str {
        self.detail.as_deref().or(self.title.as_deref()).unwrap_or_default()
    }
}

/// The running tool calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct OpenToolCalls(Vec<AcpToolCall>);

impl OpenToolCalls {
    /// Takes an update of a call. Returns the call as described so far.
    pub(super) fn hear(&mut self, said: &Value) -> Option<AcpToolCall> {
        let id = said["toolCallId"].as_str().filter(|id| id.len() <= MAX_ID_BYTES)?;
        let at = self.0.iter().position(|call| call.id == id);
        let mut call = match at {
            Some(at) => self.0.remove(at),
            None => AcpToolCall { id: id.to_owned(), ..AcpToolCall::default() },
        };
        call.hear(said);
        let is_over = matches!(said["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        if !is_over {
            self.0.push(call.clone());
            if self.0.len() > MOST_CALLS {
                self.0.remove(0);
            }
        }
        // A finished call whose start is unknown is not a current activity.
        (!is_over).then_some(call)
    }

    /// The question in a permission request.
    pub(super) fn ask(&self, request: String, params: &Value) -> AgentQuestion {
        let said = &params["toolCall"];
        let known = self.0.iter().find(|call| said["toolCallId"].as_str() == Some(&call.id));
        let mut call = known.cloned().unwrap_or_default();
        call.hear(said);
        let options = params["options"].as_array().into_iter().flatten();
        let options = options.filter_map(option).take(MOST_OPTIONS).collect();
        AgentQuestion {
            request,
            tool: call.tool(),
            detail: call.detail().to_owned(),
            options,
            ..AgentQuestion::default()
        }
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The first line of a text, for a display of one line.
pub(super) fn line(text: &str, most_bytes: usize) -> String {
    short(text.trim_start().lines().next().unwrap_or_default(), most_bytes)
}

fn option(said: &Value) -> Option<QuestionOption> {
    let id = said["optionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)?;
    let kind = match said["kind"].as_str() {
        Some("allow_once") => QuestionOptionKind::AllowOnce,
        Some("allow_always") => QuestionOptionKind::AllowAlways,
        Some("reject_once") => QuestionOptionKind::RejectOnce,
        Some("reject_always") => QuestionOptionKind::RejectAlways,
        Some(_) | None => QuestionOptionKind::Other,
    };
    let name = short(text(&said["name"]).unwrap_or(id), MAX_ID_BYTES);
    Some(QuestionOption { id: id.to_owned(), name, kind })
}

/// The command, or the files and their changes, or else the input of the tool.
fn detail(said: &Value) -> Option<String> {
    let input = &said["rawInput"];
    let command = match &input["command"] {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    if let Some(command) = command.filter(|command| !command.is_empty()) {
        return Some(command);
    }
    let mut changes = String::new();
    for content in said["content"].as_array().into_iter().flatten().filter(|it| it["type"] == "diff") {
        change(content, &mut changes);
        if changes.len() > MAX_DETAIL_BYTES {
            break;
        }
    }
    if !changes.is_empty() {
        return Some(changes);
    }
    let is_given = input.as_object().is_some_and(|input| !input.is_empty()) || text(input).is_some();
    is_given.then(|| serde_json::to_string_pretty(input).unwrap_or_default())
}

/// A file, and the lines that differ, without the common lines at both ends.
fn change(said: &Value, into: &mut String) {
    let old: Vec<&str> = said["oldText"].as_str().unwrap_or_default().lines().collect();
    let new: Vec<&str> = said["newText"].as_str().unwrap_or_default().lines().collect();
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let separator = if into.is_empty() { "" } else { "\n" };
    into.push_str(separator);
    into.push_str(said["path"].as_str().unwrap_or("(a file)"));
    let lines = |sign: char, lines: &[&str], into: &mut String| {
        for line in &lines[..lines.len() - after] {
            into.extend(['\n', sign]);
            into.push_str(line);
        }
    };
    lines('-', old, into);
    lines('+', new, into);
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn short(text: &str, most_bytes: usize) -> String {
    text[..text.floor_char_boundary(most_bytes)].to_owned()
}

fn cut(mut text: String) -> String {
    const MORE: &str = "\n… (the rest is in the output)";
    if text.len() > MAX_DETAIL_BYTES {
        text.truncate(text.floor_char_boundary(MAX_DETAIL_BYTES - MORE.len()));
        text.push_str(MORE);
    }
    text
}
