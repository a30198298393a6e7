//! What an agent does, from what it wrote, in the words of ACP: tool calls, their results, plans.
//!
//! Promise: nothing is made up; any bytes are read without a panic; of a text no more than [`MAX_KEPT_BYTES`] is passed on,
//! and a line longer than [`MAX_LINE_BYTES`] is passed over.
//! Not here: what it says (the keeper tells that), where the bytes come from (see `watch`).
//! Start with [`Tools::feed`].

use std::collections::HashMap;

use agent_client_protocol_schema::v1::{
    Diff, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate, ToolCall, ToolCallContent,
    ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use memchr::{memchr, memmem};
use serde_json::Value;

/// The longest line that is understood, as for keepers.
const MAX_LINE_BYTES: usize = 16 << 20;
/// How much of one text is passed on.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// How many questions are remembered, to find the tool they are about.
const MOST_ASKS: usize = 64;
/// How long a title may be.
const MAX_TITLE_BYTES: usize = 200;

/// Reads the output of one turn.
#[derive(Debug, Default)]
pub(super) struct Tools {
    line: Vec<u8>,
    is_too_long: bool,
    /// Calls whose content is a change of files, which a result must not replace.
    edits: HashMap<String, ()>,
    /// Which tool a question is about.
    asks: HashMap<String, ToolCallUpdate>,
}

impl Tools {
    /// Takes more output; gives what it tells.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        while let Some(end) = memchr(b'\n', bytes) {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if !std::mem::take(&mut self.is_too_long) && line.len() <= MAX_LINE_BYTES {
                self.hear(&line, &mut updates);
            }
        }
        self.is_too_long |= self.line.len() + bytes.len() > MAX_LINE_BYTES;
        if self.is_too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
        updates
    }

    /// The tool that a question is about, if the agent said so.
    pub(super) fn asked_about(&self, request: &str) -> Option<&ToolCallUpdate> {
        self.asks.get(request)
    }

    fn hear(&mut self, line: &[u8], updates: &mut Vec<SessionUpdate>) {
        // Most lines are pieces of an answer, and need not be taken apart.
        let has = |word: &str| memmem::find(line, word.as_bytes()).is_some();
        let is_of_interest =
            ["\"tool_", "\"plan\"", "\"item/", "\"turn/plan", "request_permission", "can_use_tool"];
        if !is_of_interest.iter().any(|word| has(word)) {
            return;
        }
        let Ok(said) = serde_json::from_slice::<Value>(line) else { return };
        match word(&said, "type") {
            "assistant" => self.claude_calls(&said, updates),
            "user" => self.claude_results(&said, updates),
            "control_request" => self.claude_asks(&said),
            _ => match word(&said, "method") {
                "session/update" => acp(&said["params"]["update"], updates),
                "session/request_permission" => self.acp_asks(&said),
                "item/started" => self.codex_item(&said["params"]["item"], false, updates),
                "item/completed" => self.codex_item(&said["params"]["item"], true, updates),
                "turn/plan/updated" => updates.extend(plan(&said["params"]["plan"], "step")),
                "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
                    let item = word(&said["params"], "itemId").to_owned();
                    self.ask(said["id"].to_string(), ToolCallUpdate::new(item, ToolCallUpdateFields::new()));
                }
                _ => {}
            },
        }
    }

    fn ask(&mut self, request: String, tool: ToolCallUpdate) {
        if self.asks.len() < MOST_ASKS {
            self.asks.insert(request, tool);
        }
    }

    fn acp_asks(&mut self, said: &Value) {
        let request = said["id"].as_str().map_or_else(|| said["id"].to_string(), str::to_owned);
        if let Ok(tool) = serde_json::from_value(cut(said["params"]["toolCall"].clone())) {
            self.ask(request, tool);
        }
    }

    fn claude_asks(&mut self, said: &Value) {
        let tool = word(&said["request"], "tool_use_id");
        if !tool.is_empty() {
            let tool = ToolCallUpdate::new(tool.to_owned(), ToolCallUpdateFields::new());
            self.ask(word(said, "request_id").to_owned(), tool);
        }
    }

    fn claude_calls(&mut self, said: &Value, updates: &mut Vec<SessionUpdate>) {
        for block in said["message"]["content"].as_array().into_iter().flatten() {
            if word(block, "type") != "tool_use" {
                continue;
            }
            let (id, name, input) = (word(block, "id"), word(block, "name"), &block["input"]);
            if name == "TodoWrite" {
                updates.extend(plan(&input["todos"], "content"));
                continue;
            }
            let diffs = claude_diffs(name, input);
            if !diffs.is_empty() {
                self.edits.insert(id.to_owned(), ());
            }
            let path = ["file_path", "notebook_path", "path"].iter().find_map(|field| input[field].as_str());
            let call = ToolCall::new(id.to_owned(), title(name, input))
                .kind(kind(name))
                .status(ToolCallStatus::InProgress)
                .content(diffs)
                .locations(path.map(ToolCallLocation::new).into_iter().collect())
                .raw_input(cut(input.clone()));
            updates.push(SessionUpdate::ToolCall(call));
        }
    }

    fn claude_results(&mut self, said: &Value, updates: &mut Vec<SessionUpdate>) {
        for block in said["message"]["content"].as_array().into_iter().flatten() {
            if word(block, "type") != "tool_result" {
                continue;
            }
            let id = word(block, "tool_use_id");
            let failed = block["is_error"] == true;
            let text = texts(&block["content"]);
            let keeps_its_diff = self.edits.remove(id).is_some() && !failed;
            let content = (!keeps_its_diff && !text.is_empty()).then(|| vec![kept(text).into()]);
            let mut update = over(id, failed, content);
            update.fields.locations = patched(&said["tool_use_result"]).map(|place| vec![place]);
            updates.push(SessionUpdate::ToolCallUpdate(update));
        }
    }

    fn codex_item(&mut self, item: &Value, is_over: bool, updates: &mut Vec<SessionUpdate>) {
        let (name, title, output) = match word(item, "type") {
            "commandExecution" => ("shell", word(item, "command"), texts(&item["aggregatedOutput"])),
            "fileChange" => ("edit", "edit files", texts(&item["changes"])),
            "mcpToolCall" => (word(item, "tool"), word(item, "tool"), texts(&item["result"])),
            "dynamicToolCall" => (word(item, "tool"), word(item, "tool"), texts(&item["contentItems"])),
            "webSearch" => ("web search", word(item, "query"), String::new()),
            _ => return,
        };
        let id = word(item, "id");
        if !is_over {
            let call = ToolCall::new(id.to_owned(), short(title)).kind(kind(name));
            let call = call.status(ToolCallStatus::InProgress).raw_input(cut(item.clone()));
            updates.push(SessionUpdate::ToolCall(call));
            return;
        }
        let failed = matches!(word(item, "status"), "failed" | "declined");
        let content = (!output.is_empty()).then(|| vec![kept(output).into()]);
        updates.push(SessionUpdate::ToolCallUpdate(over(id, failed, content)));
    }
}

/// What an agent that speaks ACP itself says is passed on, if it is understood.
fn acp(update: &Value, updates: &mut Vec<SessionUpdate>) {
    if !matches!(word(update, "sessionUpdate"), "tool_call" | "tool_call_update" | "plan") {
        return;
    }
    updates.extend(serde_json::from_value::<SessionUpdate>(cut(update.clone())).ok());
}

fn over(id: &str, failed: bool, content: Option<Vec<ToolCallContent>>) -> ToolCallUpdate {
    let status = if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
    let fields = ToolCallUpdateFields::new().status(status).content(content);
    ToolCallUpdate::new(id.to_owned(), fields)
}

/// Where in a file a tool of Claude Code changed something: the first line that is new or gone.
fn patched(result: &Value) -> Option<ToolCallLocation> {
    let hunk = result["structuredPatch"].as_array()?.first()?;
    let lines = hunk["lines"].as_array()?.iter().filter_map(Value::as_str);
    let same = lines.take_while(|line| line.starts_with(' ')).count();
    let line = hunk["newStart"].as_u64()?.checked_add(same as u64)?;
    Some(ToolCallLocation::new(result["filePath"].as_str()?).line(u32::try_from(line).ok()?))
}

fn plan(entries: &Value, content: &str) -> Option<SessionUpdate> {
    let entry = |entry: &Value| {
        let status = match word(entry, "status") {
            "completed" => PlanEntryStatus::Completed,
            "in_progress" | "inProgress" => PlanEntryStatus::InProgress,
            _ => PlanEntryStatus::Pending,
        };
        PlanEntry::new(short(word(entry, content)), PlanEntryPriority::Medium, status)
    };
    let entries: Vec<_> = entries.as_array()?.iter().map(entry).collect();
    Some(SessionUpdate::Plan(Plan::new(entries)))
}

fn claude_diffs(name: &str, input: &Value) -> Vec<ToolCallContent> {
    let Some(path) = input["file_path"].as_str() else { return Vec::new() };
    let diff = |edit: &Value| {
        let new = kept(edit["new_string"].as_str()?.to_owned());
        let old = edit["old_string"].as_str().map(|old| kept(old.to_owned()));
        Some(ToolCallContent::from(Diff::new(path, new).old_text(old)))
    };
    match name {
        "Edit" => diff(input).into_iter().collect(),
        "MultiEdit" => input["edits"].as_array().into_iter().flatten().filter_map(diff).collect(),
        "Write" => {
            let new = input["content"].as_str().map(|new| Diff::new(path, kept(new.to_owned())));
            new.map(ToolCallContent::from).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What a tool does, by what agents call it.
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

fn title(name: &str, input: &Value) -> String {
    let given = ["command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path"];
    match given.iter().find_map(|field| input[field].as_str()) {
        Some(detail) => short(&format!("{name}: {detail}")),
        None => short(name),
    }
}

/// The first line, and not too much of it.
pub(super) fn short(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(MAX_TITLE_BYTES)].to_owned()
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// All texts in a value. Ids and kinds are no texts.
fn texts(value: &Value) -> String {
    const TEXTS: [&str; 8] = ["text", "content", "path", "diff", "newText", "output", "stdout", "stderr"];
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            values.iter().map(texts).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => {
            let parts = fields.iter().filter(|(name, _)| TEXTS.contains(&name.as_str()));
            parts
                .map(|(_, value)| texts(value))
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("\n")
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

/// The same value with every text in it kept within its limit.
fn cut(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(kept(text)),
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
        let mut tools = Tools::default();
        // In pieces, as it comes.
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (one, two) = text.as_bytes().split_at(text.len() / 2);
        let mut updates = tools.feed(one);
        updates.extend(tools.feed(two));
        updates.iter().map(|update| serde_json::to_value(update).expect("plain data")).collect()
    }

    #[test]
    fn what_claude_code_does_is_told_in_the_words_of_acp() {
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
    fn what_codex_does_is_told_in_the_words_of_acp() {
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
    fn what_an_acp_agent_says_is_passed_on_and_what_is_too_long_is_cut() {
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
        let mut tools = Tools::default();
        tools.feed(b"{\"type\":\"control_request\",\"request_id\":\"r\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_use_id\":\"t\"}}\n");
        tools.feed(b"{\"id\":7,\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"toolCallId\":\"u\",\"title\":\"rm\"}}}\n");
        let about = |request: &str| tools.asked_about(request).map(|tool| tool.tool_call_id.to_string());
        assert_eq!((about("r"), about("7"), about("8")), (Some("t".into()), Some("u".into()), None));
    }
}
