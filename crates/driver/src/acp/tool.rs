//! What an agent wants to do, in words for people: tool calls and permission requests.
//!
//! Promise: what is shown to somebody who has to decide is the whole command, or the file and the change,
//! up to [`MAX_DETAIL_BYTES`]; it says so where that is not all. Any JSON is read without a panic.
//! Not here: who decides, and when (see the driver).
//! Start with [`Call::hear`].

use berth_core::{Ask, AskKind, AskOption};
use serde_json::Value;

/// How much of a command or a change is shown.
pub(super) const MAX_DETAIL_BYTES: usize = 64 << 10;
/// The longest name of a tool.
const MAX_NAME_BYTES: usize = 64;
/// The longest id, or name of an option, that is taken for one.
pub(super) const MAX_ID_BYTES: usize = 256;
/// How many options of one question are read.
const MOST_OPTIONS: usize = 16;
/// How many tool calls that are not over are remembered; the oldest is forgotten.
const MOST_CALLS: usize = 16;

/// What is known of a tool call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Call {
    id: String,
    name: Option<String>,
    title: Option<String>,
    detail: Option<String>,
}

impl Call {
    /// Takes in what a message says of it.
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

    /// The tool, short.
    pub(super) fn tool(&self) -> String {
        let name = self.name.as_deref().or(self.title.as_deref()).unwrap_or("tool");
        short(name, MAX_NAME_BYTES)
    }

    /// What it does, in full.
    pub(super) fn detail(&self) -> &str {
        self.detail.as_deref().or(self.title.as_deref()).unwrap_or_default()
    }
}

/// The tool calls that are not over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Calls(Vec<Call>);

impl Calls {
    /// Takes in what an update says of a call; what is known of it by now.
    pub(super) fn hear(&mut self, said: &Value) -> Option<Call> {
        let id = said["toolCallId"].as_str().filter(|id| id.len() <= MAX_ID_BYTES)?;
        let at = self.0.iter().position(|call| call.id == id);
        let mut call = match at {
            Some(at) => self.0.remove(at),
            None => Call { id: id.to_owned(), ..Call::default() },
        };
        call.hear(said);
        let is_over = matches!(said["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        if !is_over {
            self.0.push(call.clone());
            if self.0.len() > MOST_CALLS {
                self.0.remove(0);
            }
        }
        // What is over, and was not known to have begun, is nothing that is being done.
        (!is_over).then_some(call)
    }

    /// What it asks for.
    pub(super) fn ask(&self, request: String, params: &Value) -> Ask {
        let said = &params["toolCall"];
        let known = self.0.iter().find(|call| said["toolCallId"].as_str() == Some(&call.id));
        let mut call = known.cloned().unwrap_or_default();
        call.hear(said);
        let options = params["options"].as_array().into_iter().flatten();
        let options = options.filter_map(option).take(MOST_OPTIONS).collect();
        Ask { request, tool: call.tool(), detail: call.detail().to_owned(), options, ..Ask::default() }
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// One line, for a display that has one.
pub(super) fn line(text: &str, most_bytes: usize) -> String {
    short(text.trim_start().lines().next().unwrap_or_default(), most_bytes)
}

fn option(said: &Value) -> Option<AskOption> {
    let id = said["optionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)?;
    let kind = match said["kind"].as_str() {
        Some("allow_once") => AskKind::AllowOnce,
        Some("allow_always") => AskKind::AllowAlways,
        Some("reject_once") => AskKind::RejectOnce,
        Some("reject_always") => AskKind::RejectAlways,
        Some(_) | None => AskKind::Other,
    };
    let name = short(text(&said["name"]).unwrap_or(id), MAX_ID_BYTES);
    Some(AskOption { id: id.to_owned(), name, kind })
}

/// The command, or the files and their changes, or whatever the tool is given.
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

/// A file, and the lines that differ: without those that both begin and end with.
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
