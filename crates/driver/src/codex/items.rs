//! Items: what Codex says it is doing, as words for people.
//!
//! Promise: any JSON gives some words or none; they have limits.
//! Not here: whose turn an item is of (see the parent), questions about it (see `asks`).
//! Start with [`activity`].

use std::collections::VecDeque;

use berth_core::Failure;
use serde_json::Value;

use crate::common::failure_of_status;

/// How much of what Codex said is passed on in a reason, a remark or a line about what it does.
const MAX_LINE_BYTES: usize = 2 << 10;
/// How much of a change is shown, or of anything else that somebody has to decide on.
pub(super) const MAX_DETAIL_BYTES: usize = 64 << 10;
/// Of how many changes the text is kept, for a question about them.
const MOST_CHANGES: usize = 8;

/// A member that is text; empty if it is not there.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// As much as fits, and a sign that there was more.
pub(super) fn within(text: &str, bytes: usize) -> String {
    let fits = text.floor_char_boundary(bytes);
    if fits == text.len() { text.to_owned() } else { format!("{}…", &text[..fits]) }
}

/// The first line that has something in it.
pub(super) fn line(text: &str) -> String {
    within(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default(), MAX_LINE_BYTES)
}

/// What goes on while this item does, as its name and its object: `shell`, `cargo test`.
pub(super) fn activity(item: &Value) -> Option<(String, String)> {
    let said = |what: &str, detail: &str| Some((what.to_owned(), line(detail)));
    match text(item, "type") {
        "agentMessage" => said("writing", ""),
        "reasoning" => said("thinking", ""),
        "plan" => said("planning", ""),
        "commandExecution" => said("shell", command(item)),
        "fileChange" => {
            let paths = changed(item).map(|change| text(change, "path"));
            said("edit", &paths.collect::<Vec<_>>().join(", "))
        }
        "mcpToolCall" => {
            let tool = format!("{}.{}", text(item, "server"), text(item, "tool"));
            said(&line(&tool), &plain(item.get("arguments")))
        }
        "dynamicToolCall" => said(&line(text(item, "tool")), &plain(item.get("arguments"))),
        "collabAgentToolCall" => said("agent", text(item, "prompt")),
        "webSearch" => said("web search", text(item, "query")),
        "imageView" => said("view image", text(item, "path")),
        "sleep" => said("sleep", ""),
        "contextCompaction" => said("compacting", ""),
        // What people said themselves, and what ends as it begins.
        _ => None,
    }
}

/// The command as it was meant: Codex wraps it into a call of the shell.
fn command(item: &Value) -> &str {
    match item.get("commandActions").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) if !text(only, "command").is_empty() => text(only, "command"),
        Some(_) | None => text(item, "command"),
    }
}

fn plain(value: Option<&Value>) -> String {
    value.filter(|value| !value.is_null()).map(Value::to_string).unwrap_or_default()
}

fn changed(item: &Value) -> impl Iterator<Item = &Value> {
    item.get("changes").and_then(Value::as_array).into_iter().flatten()
}

/// The text of the latest changes of files: Codex asks about them by their ids only.
#[derive(Debug, Default)]
pub(super) struct Changes(VecDeque<(String, String)>);

impl Changes {
    /// Remembers the change `id` if `item` is one.
    pub(super) fn note(&mut self, id: &str, item: &Value) {
        if item.get("changes").is_none() || id.len() > MAX_LINE_BYTES {
            return;
        }
        self.0.retain(|(known, _)| known != id);
        if self.0.len() == MOST_CHANGES {
            self.0.pop_front();
        }
        let mut all = String::new();
        for change in changed(item) {
            if all.len() > MAX_DETAIL_BYTES {
                break;
            }
            let kind = change.get("kind").map_or("", |kind| text(kind, "type"));
            let moved = change.get("kind").map_or("", |kind| text(kind, "move_path"));
            let arrow = if moved.is_empty() { "" } else { " -> " };
            let diff = text(change, "diff").trim_end();
            let room = if all.is_empty() { "" } else { "\n\n" };
            all.push_str(&format!("{room}{kind} {}{arrow}{moved}\n{diff}", text(change, "path")));
        }
        self.0.push_back((id.to_owned(), within(&all, MAX_DETAIL_BYTES)));
    }

    /// The text of a change.
    pub(super) fn of(&self, id: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, text)| text.as_str())
    }
}

/// Why something went wrong, for people.
pub(super) fn reason(error: &Value) -> String {
    let message = text(error, "message");
    // An answer of the model's server may come as it was sent.
    let inner: Option<Value> = serde_json::from_str(message).ok();
    let inner = inner.as_ref().and_then(|inner| inner.get("error")).map(|inner| text(inner, "message"));
    let message = inner.filter(|inner| !inner.is_empty()).unwrap_or(message);
    let details = text(error, "additionalDetails");
    let mut said = match (message.is_empty(), details.is_empty() || message.contains(details)) {
        (true, true) => "codex did not say why".to_owned(),
        (true, false) => details.to_owned(),
        (false, true) => message.to_owned(),
        (false, false) => format!("{message}: {details}"),
    };
    if failure(error) == Failure::Login {
        said = format!("not logged in or wrong key: {said}");
    }
    within(said.trim(), MAX_LINE_BYTES)
}

/// What failed, in the words of the protocol, or of the error where it has none.
pub(super) fn failure(error: &Value) -> Failure {
    let known = match error.get("codexErrorInfo") {
        Some(Value::String(info)) => match info.as_str() {
            "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => Failure::Limit,
            "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => Failure::Overloaded,
            "unauthorized" => Failure::Login,
            _ => Failure::Other,
        },
        Some(Value::Object(info)) => {
            let status = info.values().find_map(|info| info.get("httpStatusCode")?.as_u64());
            status.map_or(Failure::Other, failure_of_status)
        }
        Some(_) | None => Failure::Other,
    };
    match known {
        Failure::Other if text(error, "message").contains("401 Unauthorized") => Failure::Login,
        Failure::Other if text(error, "message").contains("429 Too Many Requests") => Failure::Limit,
        known => known,
    }
}
