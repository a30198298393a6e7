//! Items: Codex's descriptions of its work, in words for people.
//!
//! Promise: any JSON gives some text within a limit, or none.
//! Not here: the turn that an item belongs to (see the parent), questions about it (see `asks`).
//! Start with [`activity`].

use std::collections::VecDeque;

use berth_core::TurnFailure;
use serde_json::Value;

use crate::common::failure_of_status;

/// Size limit of Codex's text in a reason, a remark or an activity.
const MAX_LINE_BYTES: usize = 2 << 10;
/// Size limit of a change, or of other details that a person has to decide on.
pub(super) const MAX_DETAIL_BYTES: usize = 64 << 10;
/// Number of changes whose text is kept, for a question about them.
const MOST_CHANGES: usize = 8;

/// The text of a member; empty if absent.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The beginning of a text, with a sign if it was cut.
pub(super) fn within(text: &str, bytes: usize) -> String {
    let fits = text.floor_char_boundary(bytes);
    if fits == text.len() { text.to_owned() } else { format!("{}…", &text[..fits]) }
}

/// The first line that is not blank.
pub(super) fn line(text: &str) -> String {
    within(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default(), MAX_LINE_BYTES)
}

/// The activity while this item is under way, as its name and its object: `shell`, `cargo test`.
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
        // Prompts of the user, and items that end at once.
        _ => None,
    }
}

/// The command itself: Codex wraps it into a call of the shell.
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

/// Texts of the latest changes of files: questions about them have only their ids.
#[derive(Debug, Default)]
pub(super) struct RecentFileChanges(VecDeque<(String, String)>);

impl RecentFileChanges {
    /// Remembers the change `id`, if the item is one.
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

/// The reason of an error, for people.
pub(super) fn reason(error: &Value) -> String {
    let message = text(error, "message");
    // The message may be the raw answer of the model's server.
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
    if failure(error) == TurnFailure::Login {
        said = format!("not logged in or wrong key: {said}");
    }
    within(said.trim(), MAX_LINE_BYTES)
}

/// The cause of a failure, by the protocol's own code, or else by the text of the error.
pub(super) fn failure(error: &Value) -> TurnFailure {
    let known = match error.get("codexErrorInfo") {
        Some(Value::String(info)) => match info.as_str() {
            "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => TurnFailure::Limit,
            "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => TurnFailure::Overloaded,
            "unauthorized" => TurnFailure::Login,
            _ => TurnFailure::Other,
        },
        Some(Value::Object(info)) => {
            let status = info.values().find_map(|info| info.get("httpStatusCode")?.as_u64());
            status.map_or(TurnFailure::Other, failure_of_status)
        }
        Some(_) | None => TurnFailure::Other,
    };
    match known {
        TurnFailure::Other if text(error, "message").contains("401 Unauthorized") => TurnFailure::Login,
        TurnFailure::Other if text(error, "message").contains("429 Too Many Requests") => TurnFailure::Limit,
        known => known,
    }
}
