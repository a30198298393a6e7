//! Messages of each protocol as items: Claude Code's stream of JSON, Codex' app-server, the Agent Client Protocol.

use serde_json::Value;

use super::{
    AgentPlan, FileChange, OutputItem, OutputReader, PlanStep, ProtocolMessage, StepStatus, ToolEnd,
    ToolStatus, ToolUse,
};

/// Marks around the output of a command that Claude Code runs itself.
const LOCAL_OUTPUT: [(&str, &str); 2] = [
    ("<local-command-stdout>", "</local-command-stdout>"),
    ("<local-command-stderr>", "</local-command-stderr>"),
];
/// The tool by which Claude Code keeps its plan.
const PLAN_TOOL: &str = "TodoWrite";

impl OutputReader {
    pub(super) fn items(&mut self, mut said: Value) -> Vec<OutputItem> {
        match word(&said, "type") {
            "assistant" => return self.claude_message(&said),
            "user" => return self.claude_results(&said),
            "system" => {
                self.is_compacted |= word(&said, "subtype") == "compact_boundary";
                return Vec::new();
            }
            "control_request" => {
                let (request, tool) = (word(&said, "request_id"), word(&said["request"], "tool_use_id"));
                return question(request.to_owned(), tool, None).into_iter().collect();
            }
            _ => {}
        }
        let params = take_field(&mut said, "params");
        let item = match word(&said, "method") {
            "session/update" => acp(params),
            "session/request_permission" => {
                let request = said["id"].as_str().map_or_else(|| said["id"].to_string(), str::to_owned);
                let tool = &params["toolCall"];
                question(request, word(tool, "toolCallId"), Some(tool.clone()))
            }
            "item/started" => codex_item(params, false),
            "item/completed" => codex_item(params, true),
            "turn/plan/updated" => steps(&params["plan"], "step").map(|steps| {
                OutputItem::Plan(AgentPlan { steps, message: ProtocolMessage::Other(Value::Null) })
            }),
            "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
                question(said["id"].to_string(), word(&params, "itemId"), None)
            }
            _ => None,
        };
        item.into_iter().collect()
    }

    fn claude_message(&mut self, said: &Value) -> Vec<OutputItem> {
        if self.is_compacted && said.get("local_command_source").is_some() {
            return Vec::new();
        }
        let within = said["parent_tool_use_id"].as_str();
        let item = |block: &Value| match word(block, "type") {
            // The messages of a sub-agent are for the agent.
            "text" if within.is_none() => text(word(block, "text"), false),
            "thinking" if within.is_none() => thought(word(block, "thinking"), false),
            "tool_use" => Some(OutputItem::ToolBegan(claude_tool(block, within))),
            _ => None,
        };
        said["message"]["content"].as_array().into_iter().flatten().filter_map(item).collect()
    }

    fn claude_results(&mut self, said: &Value) -> Vec<OutputItem> {
        // The output and the transcript of Claude Code use different names for this field.
        let told = [&said["tool_use_result"], &said["toolUseResult"]];
        let (patch, patched_line) = told.into_iter().find_map(claude_patch).unzip();
        let end = |block: &Value| {
            OutputItem::ToolEnded(ToolEnd {
                id: word(block, "tool_use_id").to_owned(),
                output: texts_in_json(&block["content"]),
                failed: block["is_error"] == true,
                patch: patch.clone(),
                patched_line: patched_line.flatten(),
            })
        };
        let content = said["message"]["content"].as_array().into_iter().flatten();
        let ends = content.filter(|block| word(block, "type") == "tool_result").map(end);
        let local = claude_local_output(said).filter(|_| said["isReplay"] == true && !self.has_text);
        ends.chain(local.and_then(|output| text(output, false))).collect()
    }
}

/// The output of a command that Claude Code ran itself, if this message is an echo of it.
pub(crate) fn claude_local_output(said: &Value) -> Option<&str> {
    let content = word(&said["message"], "content").trim();
    let within = |(begin, end): &(&str, &str)| content.strip_prefix(begin)?.strip_suffix(end);
    LOCAL_OUTPUT.iter().find_map(within).map(str::trim)
}

fn claude_tool(block: &Value, within: Option<&str>) -> ToolUse {
    let (name, input) = (word(block, "name"), &block["input"]);
    let given = |fields: &[&str]| fields.iter().find_map(|field| input[*field].as_str());
    let detail = ["command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path"];
    let title = given(&detail).map_or_else(|| name.to_owned(), |detail| format!("{name}: {detail}"));
    let steps = (name == PLAN_TOOL).then(|| steps(&input["todos"], "content")).flatten();
    ToolUse {
        id: word(block, "id").to_owned(),
        name: Some(name.to_owned()),
        title: Some(title),
        path: given(&["file_path", "notebook_path", "path"]).map(str::to_owned),
        changes: Some(claude_changes(input)),
        within: within.map(str::to_owned),
        plan: steps.map(|steps| AgentPlan { steps, ..AgentPlan::default() }),
        status: Some(ToolStatus::Running),
        input: Some(input.clone()),
        ..ToolUse::default()
    }
}

/// The changes that a tool of Claude Code makes, by its input.
fn claude_changes(input: &Value) -> Vec<FileChange> {
    let Some(path) = input["file_path"].as_str().or(input["notebook_path"].as_str()) else {
        return Vec::new();
    };
    let edit = |edit: &Value| {
        let new = edit["new_string"].as_str().or(edit["new_source"].as_str());
        new.map(|new| partial_change(path, edit["old_string"].as_str(), Some(new)))
    };
    if let Some(edits) = input["edits"].as_array() {
        return edits.iter().filter_map(edit).collect();
    }
    let whole = || input["content"].as_str().map(|content| whole(path, None, Some(content)));
    edit(input).or_else(whole).into_iter().collect()
}

/// The change that a tool of Claude Code made, with line numbers of the file, and the first line that differs.
fn claude_patch(result: &Value) -> Option<(FileChange, Option<u32>)> {
    let hunks = result["structuredPatch"].as_array().filter(|hunks| !hunks.is_empty())?;
    let (mut text, mut first) = (String::new(), None);
    for hunk in hunks {
        let number = |field: &str| hunk[field].as_u64();
        let (old, new) = (number("oldStart")?, number("newStart")?);
        let (old_lines, new_lines) = (number("oldLines")?, number("newLines")?);
        text.push_str(&format!("@@ -{old},{old_lines} +{new},{new_lines} @@\n"));
        let lines = hunk["lines"].as_array()?.iter().filter_map(Value::as_str);
        let same = lines.clone().take_while(|line| line.starts_with(' ')).count();
        first = first.or_else(|| new.checked_add(same as u64));
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    let line = first.and_then(|line| u32::try_from(line).ok());
    Some((unified(result["filePath"].as_str()?, &text), line))
}

fn acp(mut params: Value) -> Option<OutputItem> {
    let update = take_field(&mut params, "update");
    match word(&update, "sessionUpdate") {
        "agent_message_chunk" => text(word(&update["content"], "text"), true),
        "agent_thought_chunk" => thought(word(&update["content"], "text"), true),
        "tool_call" | "tool_call_update" => Some(OutputItem::ToolChanged(acp_tool(update))),
        "plan" => Some(OutputItem::Plan(AgentPlan {
            steps: steps(&update["entries"], "content").unwrap_or_default(),
            message: ProtocolMessage::Acp(update),
        })),
        _ => None,
    }
}

fn acp_tool(update: Value) -> ToolUse {
    let content = update["content"].as_array().into_iter().flatten();
    let (changes, rest): (Vec<&Value>, Vec<&Value>) = content.partition(|part| word(part, "type") == "diff");
    let change = |told: &&Value| {
        partial_change(word(told, "path"), told["oldText"].as_str(), told["newText"].as_str())
    };
    let told: Vec<String> = rest.into_iter().map(texts_in_json).filter(|text| !text.is_empty()).collect();
    let output =
        [told.join("\n"), texts_in_json(&update["rawOutput"])].into_iter().find(|output| !output.is_empty());
    let title = Some(word(&update, "title")).filter(|title| !title.is_empty()).map(str::to_owned);
    ToolUse {
        id: word(&update, "toolCallId").to_owned(),
        name: title.clone(),
        title,
        input: Some(&update["rawInput"]).filter(|input| !input.is_null()).cloned(),
        output,
        changes: Some(changes.iter().map(change).collect()).filter(|changes: &Vec<_>| !changes.is_empty()),
        status: match word(&update, "status") {
            "pending" | "in_progress" => Some(ToolStatus::Running),
            "completed" => Some(ToolStatus::Done),
            "failed" => Some(ToolStatus::Failed),
            _ => None,
        },
        message: ProtocolMessage::Acp(update),
        ..ToolUse::default()
    }
}

fn codex_item(mut params: Value, is_over: bool) -> Option<OutputItem> {
    let item = take_field(&mut params, "item");
    let (name, title, input, output) = match word(&item, "type") {
        "agentMessage" if is_over => {
            return Some(OutputItem::Text { text: word(&item, "text").to_owned(), continues: false });
        }
        "reasoning" if is_over => {
            let thoughts = [texts_in_json(&item["summary"]), texts_in_json(&item["content"])];
            return thought(thoughts.iter().find(|text| !text.is_empty())?, false);
        }
        "commandExecution" => {
            let command = word(&item, "command");
            ("shell", command, Value::from(command), texts_in_json(&item["aggregatedOutput"]))
        }
        "fileChange" => ("edit", "edit files", Value::from(paths(&item["changes"])), String::new()),
        "mcpToolCall" => (
            word(&item, "tool"),
            word(&item, "tool"),
            item["arguments"].clone(),
            texts_in_json(&item["result"]),
        ),
        "dynamicToolCall" => (
            word(&item, "tool"),
            word(&item, "tool"),
            item["arguments"].clone(),
            texts_in_json(&item["contentItems"]),
        ),
        "webSearch" => ("web search", word(&item, "query"), Value::from(word(&item, "query")), String::new()),
        _ => return None,
    };
    let status = match word(&item, "status") {
        _ if !is_over => ToolStatus::Running,
        "failed" => ToolStatus::Failed,
        "declined" => ToolStatus::Declined,
        _ => ToolStatus::Done,
    };
    let changes = item["changes"].as_array().into_iter().flatten().map(codex_change).collect();
    Some(OutputItem::ToolChanged(ToolUse {
        id: word(&item, "id").to_owned(),
        name: Some(name.to_owned()),
        title: Some(title.to_owned()),
        input: Some(input),
        output: Some(output).filter(|output| !output.is_empty()),
        changes: Some(changes),
        status: Some(status),
        message: ProtocolMessage::Other(item),
        ..ToolUse::default()
    }))
}

/// A change of a file as Codex reports it: for a new or deleted file its whole text.
fn codex_change(change: &Value) -> FileChange {
    let (path, text) = (word(change, "path"), word(change, "diff"));
    let has_hunks = text.starts_with("@@ ") || text.contains("\n@@ ");
    match change["kind"]["type"].as_str().or(change["kind"].as_str()) {
        Some("add") if !has_hunks => whole(path, None, Some(text)),
        Some("delete") if !has_hunks => whole(path, Some(text), None),
        Some(_) | None => unified(path, text),
    }
}

fn text(text: &str, continues: bool) -> Option<OutputItem> {
    (!text.is_empty()).then(|| OutputItem::Text { text: text.to_owned(), continues })
}

fn thought(text: &str, continues: bool) -> Option<OutputItem> {
    (!text.is_empty()).then(|| OutputItem::Thought { text: text.to_owned(), continues })
}

fn question(request: String, tool: &str, acp: Option<Value>) -> Option<OutputItem> {
    (!tool.is_empty()).then(|| OutputItem::Question { request, tool: tool.to_owned(), acp })
}

/// The steps of a plan, whose texts are in this field.
fn steps(plan: &Value, field: &str) -> Option<Vec<PlanStep>> {
    let step = |step: &Value| {
        let status = match word(step, "status") {
            "completed" => StepStatus::Done,
            "in_progress" | "inProgress" => StepStatus::Running,
            _ => StepStatus::Pending,
        };
        PlanStep { text: word(step, field).to_owned(), status }
    };
    Some(plan.as_array()?.iter().map(step).collect())
}

/// A change of a part of a file.
fn partial_change(path: &str, old: Option<&str>, new: Option<&str>) -> FileChange {
    let [old, new] = [old, new].map(|text| text.map(str::to_owned));
    FileChange { path: path.to_owned(), old, new, unified: None, whole: false }
}

/// A change of all of a file.
fn whole(path: &str, old: Option<&str>, new: Option<&str>) -> FileChange {
    FileChange { whole: true, ..partial_change(path, old, new) }
}

/// A difference as the agent reported it.
fn unified(path: &str, text: &str) -> FileChange {
    FileChange { unified: Some(text.to_owned()), ..partial_change(path, None, None) }
}

/// The paths of the changed files, one in each line.
fn paths(changes: &Value) -> String {
    let paths = changes.as_array().into_iter().flatten().map(|change| word(change, "path"));
    paths.collect::<Vec<_>>().join("\n")
}

/// Removes a field from a message and returns it.
fn take_field(value: &mut Value, field: &str) -> Value {
    value.get_mut(field).map(Value::take).unwrap_or_default()
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// All texts in a value, each in one line or more. Ids and kinds are left out.
pub fn texts_in_json(value: &Value) -> String {
    const TEXTS: [&str; 8] = ["text", "content", "path", "diff", "newText", "output", "stdout", "stderr"];
    let join = |parts: &mut dyn Iterator<Item = &Value>| {
        parts.map(texts_in_json).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => join(&mut values.iter()),
        Value::Object(fields) => {
            let parts = fields.iter().filter(|(name, _)| TEXTS.contains(&name.as_str()));
            join(&mut parts.map(|(_, value)| value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}
