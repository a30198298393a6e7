//! Translates an agent's output to ACP updates: tool calls, their results, plans.
//!
//! Promise: nothing is made up, and at most [`MAX_KEPT_BYTES`] of one text are passed on.
//! Not here: parsing the output (`berth_driver::output`), the agent's answer (the keeper reports it), where the bytes
//! come from (see `editor_feed`).
//! Start with [`ToolCallReader::feed`].

use std::collections::{HashMap, HashSet};

use agent_client_protocol_schema::v1::{
    Diff, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate, ToolCall, ToolCallContent,
    ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use berth_driver::output::{
    FileChange, OutputItem, OutputLines, OutputReader, PlanStep, ProtocolMessage, StepStatus, ToolEnd,
    ToolStatus, ToolUse,
};
use serde_json::Value;

/// How much of one text is passed on.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// How many questions are remembered, to find the tool that each is about.
const MOST_ASKS: usize = 64;
/// How long a title may be.
const MAX_TITLE_BYTES: usize = 200;
/// Tools whose file changes are shown before the tool ends.
const EDITORS: [&str; 3] = ["Edit", "MultiEdit", "Write"];

/// Reads the output of one turn.
#[derive(Debug, Default)]
pub(super) struct ToolCallReader {
    lines: OutputLines,
    reader: OutputReader,
    /// Ids of calls that show a diff, which the result must not replace.
    edits: HashSet<String>,
    /// The tool that each question is about, by the id of the question.
    asks: HashMap<String, ToolCallUpdate>,
}

impl ToolCallReader {
    /// Takes more output and gives the updates in it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<SessionUpdate> {
        let mut items = Vec::new();
        let Self { lines, reader, .. } = self;
        lines.feed(bytes, |line| items.extend(line.map(|line| reader.read(line)).unwrap_or_default()));
        items.into_iter().filter_map(|item| self.update(item)).collect()
    }

    /// The tool that a question is about, if the agent named it.
    pub(super) fn tool_of_question(&self, request: &str) -> Option<&ToolCallUpdate> {
        self.asks.get(request)
    }

    fn update(&mut self, item: OutputItem) -> Option<SessionUpdate> {
        match item {
            OutputItem::ToolBegan(tool) => Some(self.began(tool)),
            OutputItem::ToolChanged(tool) => changed(tool),
            OutputItem::ToolEnded(end) => Some(SessionUpdate::ToolCallUpdate(self.ended(end))),
            OutputItem::Plan(plan) => match plan.message {
                ProtocolMessage::Acp(update) => passed_on(update),
                ProtocolMessage::Other(_) => Some(self::plan(&plan.steps)),
            },
            OutputItem::Question { request, tool, acp } => {
                self.ask(request, tool, acp);
                None
            }
            // The keeper reports text and thoughts.
            OutputItem::Text { .. } | OutputItem::Thought { .. } => None,
        }
    }

    fn ask(&mut self, request: String, tool: String, acp: Option<Value>) {
        let tool = match acp {
            Some(tool) => serde_json::from_value(cut(tool)).ok(),
            None => Some(ToolCallUpdate::new(tool, ToolCallUpdateFields::new())),
        };
        if let Some(tool) = tool.filter(|_| self.asks.len() < MOST_ASKS) {
            self.asks.insert(request, tool);
        }
    }

    fn began(&mut self, tool: ToolUse) -> SessionUpdate {
        if let Some(plan) = &tool.plan {
            return self::plan(&plan.steps);
        }
        let name = tool.name.unwrap_or_default();
        let changes = tool.changes.unwrap_or_default();
        let diffs: Vec<ToolCallContent> = match EDITORS.contains(&name.as_str()) {
            true => changes.into_iter().filter_map(diff).collect(),
            false => Vec::new(),
        };
        if !diffs.is_empty() {
            self.edits.insert(tool.id.clone());
        }
        let call = ToolCall::new(tool.id, short(&tool.title.unwrap_or_default()))
            .kind(kind(&name))
            .status(ToolCallStatus::InProgress)
            .content(diffs)
            .locations(tool.path.map(ToolCallLocation::new).into_iter().collect())
            .raw_input(cut(tool.input.unwrap_or_default()));
        SessionUpdate::ToolCall(call)
    }

    fn ended(&mut self, end: ToolEnd) -> ToolCallUpdate {
        let keeps_its_diff = self.edits.remove(&end.id) && !end.failed;
        let content = (!keeps_its_diff && !end.output.is_empty()).then(|| vec![truncated(end.output).into()]);
        let mut update = finished_call(end.id, end.failed, content);
        let place = end.patch.zip(end.patched_line);
        update.fields.locations =
            place.map(|(patch, line)| vec![ToolCallLocation::new(patch.path).line(line)]);
        update
    }
}

/// A changed tool call. An update of an agent that speaks ACP itself is passed on.
fn changed(tool: ToolUse) -> Option<SessionUpdate> {
    let message = match tool.message {
        ProtocolMessage::Acp(update) => return passed_on(update),
        ProtocolMessage::Other(message) => message,
    };
    let failed = match tool.status {
        Some(ToolStatus::Failed | ToolStatus::Declined) => true,
        Some(ToolStatus::Done) => false,
        Some(ToolStatus::Running) | None => {
            let call = ToolCall::new(tool.id, short(&tool.title.unwrap_or_default()));
            let call = call.kind(kind(&tool.name.unwrap_or_default())).status(ToolCallStatus::InProgress);
            return Some(SessionUpdate::ToolCall(call.raw_input(cut(message))));
        }
    };
    let changes = tool.changes.unwrap_or_default();
    let changes = || changes.iter().map(change_text).collect::<Vec<_>>().join("\n");
    let output = tool.output.unwrap_or_else(changes);
    let content = (!output.is_empty()).then(|| vec![truncated(output).into()]);
    Some(SessionUpdate::ToolCallUpdate(finished_call(tool.id, failed, content)))
}

/// An ACP update of the agent, if it can be parsed.
fn passed_on(update: Value) -> Option<SessionUpdate> {
    serde_json::from_value(cut(update)).ok()
}

fn finished_call(id: String, failed: bool, content: Option<Vec<ToolCallContent>>) -> ToolCallUpdate {
    let status = if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
    let fields = ToolCallUpdateFields::new().status(status).content(content);
    ToolCallUpdate::new(id, fields)
}

fn plan(steps: &[PlanStep]) -> SessionUpdate {
    let entry = |step: &PlanStep| {
        let status = match step.status {
            StepStatus::Done => PlanEntryStatus::Completed,
            StepStatus::Running => PlanEntryStatus::InProgress,
            StepStatus::Pending => PlanEntryStatus::Pending,
        };
        PlanEntry::new(short(&step.text), PlanEntryPriority::Medium, status)
    };
    SessionUpdate::Plan(Plan::new(steps.iter().map(entry).collect()))
}

fn diff(change: FileChange) -> Option<ToolCallContent> {
    let diff = Diff::new(change.path, truncated(change.new?)).old_text(change.old.map(truncated));
    Some(ToolCallContent::from(diff))
}

/// The path of a changed file, and the change.
fn change_text(change: &FileChange) -> String {
    let texts = [&change.unified, &change.new, &change.old];
    let text = texts.into_iter().flatten().next().filter(|text| !text.is_empty());
    text.map_or_else(|| change.path.clone(), |text| format!("{}\n{text}", change.path))
}

/// The ACP kind of a tool, by the name that agents give it.
pub(super) fn kind(name: &str) -> ToolKind {
    match name {
        "Read" | "NotebookRead" | "LS" => ToolKind::Read,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "edit" => ToolKind::Edit,
        "Grep" | "Glob" => ToolKind::Search,
        "Bash" | "shell" => ToolKind::Execute,
        "WebFetch" | "WebSearch" | "web search" => ToolKind::Fetch,
        "Task" | "Agent" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// The first line of a text, shortened to [`MAX_TITLE_BYTES`].
pub(super) fn short(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(MAX_TITLE_BYTES)].to_owned()
}

fn truncated(mut text: String) -> String {
    if text.len() > MAX_KEPT_BYTES {
        let more = text.len() - MAX_KEPT_BYTES;
        text.truncate(text.floor_char_boundary(MAX_KEPT_BYTES));
        text.push_str(&format!("\n… ({more} bytes more)"));
    }
    text
}

/// Shortens every text in a JSON value to [`MAX_KEPT_BYTES`].
fn cut(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(truncated(text)),
        Value::Array(values) => Value::Array(values.into_iter().map(cut).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, cut(value))).collect())
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Vec<Value> {
        let mut tools = ToolCallReader::default();
        // Two pieces, as output arrives.
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (one, two) = text.as_bytes().split_at(text.len() / 2);
        let mut updates = tools.feed(one);
        updates.extend(tools.feed(two));
        updates.iter().map(|update| serde_json::to_value(update).expect("plain data")).collect()
    }

    #[test]
    fn claude_code_output_becomes_acp_updates() {
        let said = heard(&[
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","description":"look"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}]}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Edit","input":{"file_path":"/x","old_string":"a","new_string":"b"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"ok"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t3","name":"TodoWrite","input":{"todos":[{"content":"one","status":"in_progress"}]}}]}}"#,
        ]);
        assert_eq!(said[0]["sessionUpdate"], "tool_call");
        assert_eq!((&said[0]["title"], &said[0]["kind"]), (&"Bash: ls".into(), &"execute".into()));
        assert_eq!(
            (&said[1]["status"], &said[1]["content"][0]["content"]["text"]),
            (&"failed".into(), &"no".into())
        );
        assert_eq!(
            (&said[2]["content"][0]["oldText"], &said[2]["content"][0]["newText"]),
            (&"a".into(), &"b".into())
        );
        assert_eq!(
            (&said[3]["status"], &said[3]["content"]),
            (&"completed".into(), &Value::Null),
            "the diff stays"
        );
        assert_eq!(
            (&said[4]["sessionUpdate"], &said[4]["entries"][0]["status"]),
            (&"plan".into(), &"in_progress".into())
        );
    }

    #[test]
    fn codex_output_becomes_acp_updates() {
        let said = heard(&[
            r#"{"method":"item/started","params":{"item":{"type":"commandExecution","id":"i","command":"make","status":"inProgress"}}}"#,
            r#"{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"i","command":"make","aggregatedOutput":"ok\n","status":"completed"}}}"#,
            r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"j","text":"hello"}}}"#,
        ]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!((&said[0]["toolCallId"], &said[0]["title"]), (&"i".into(), &"make".into()));
        assert_eq!(
            (&said[1]["status"], &said[1]["content"][0]["content"]["text"]),
            (&"completed".into(), &"ok\n".into())
        );
    }

    #[test]
    fn updates_of_an_acp_agent_are_passed_on_and_long_texts_are_cut() {
        let long = "x".repeat(MAX_KEPT_BYTES + 10);
        let said = heard(&[
            &format!(
                r#"{{"method":"session/update","params":{{"update":{{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","rawInput":{{"path":"{long}"}}}}}}}}"#
            ),
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"tool_call\""}}}}"#,
            "garbage \"tool_use\"",
        ]);
        assert_eq!(said.len(), 1, "{said:?}");
        let path = said[0]["rawInput"]["path"].as_str().expect("a text");
        assert!(path.ends_with("(10 bytes more)"), "{}", &path[path.len() - 40..]);
    }

    #[test]
    fn a_question_is_about_the_tool_the_agent_named() {
        let mut tools = ToolCallReader::default();
        tools.feed(b"{\"type\":\"control_request\",\"request_id\":\"r\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_use_id\":\"t\"}}\n");
        tools.feed(b"{\"id\":7,\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"toolCallId\":\"u\",\"title\":\"rm\"}}}\n");
        let about = |request: &str| tools.tool_of_question(request).map(|tool| tool.tool_call_id.to_string());
        assert_eq!((about("r"), about("7"), about("8")), (Some("t".into()), Some("u".into()), None));
    }
}
