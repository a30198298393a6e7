//! Claude Code's events in one neutral form.
//!
//! Promise: an event of a later version, or one without news about the conversation, is `None`.

use std::path::PathBuf;

use berth_api::hook::{HookEvent, HookReport};
use serde::Deserialize;
use serde_json::{Value, json};

/// Tools whose question has more answers than yes and no: they are answered at the terminal.
const ASKS_MORE: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
/// The reason that the agent gets with a no, if there is no other.
const DENIED: &str = "The user denied this action.";

/// Fields that all events have, and fields that some have. Unknown fields are skipped.
#[derive(Deserialize)]
struct ClaudeHookEvent {
    session_id: String,
    transcript_path: Option<PathBuf>,
    cwd: Option<PathBuf>,
    hook_event_name: String,
    source: Option<String>,
    model: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    #[serde(default)]
    is_interrupt: bool,
    message: Option<String>,
    notification_type: Option<String>,
    last_assistant_message: Option<String>,
    reason: Option<String>,
}

/// Fields of a question: only a question needs the arguments of the tool.
#[derive(Deserialize)]
struct ClaudeToolInput {
    tool_input: Option<Value>,
}

pub(super) fn understand(json: &[u8], at_ms: u64) -> Option<HookReport> {
    let event: ClaudeHookEvent = serde_json::from_slice(json).ok()?;
    let told = report_of_event(&event, json)?;
    Some(HookReport {
        kind: "claude".to_owned(),
        conversation_id: event.session_id,
        transcript: event.transcript_path.filter(|path| path.is_absolute()),
        cwd: event.cwd,
        model: event.model,
        at_ms,
        told,
        held_up: None,
    })
}

fn report_of_event(event: &ClaudeHookEvent, json: &[u8]) -> Option<HookEvent> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(match event.hook_event_name.as_str() {
        "SessionStart" => HookEvent::Started { how: text(&event.source) },
        "UserPromptSubmit" => HookEvent::Prompt { text: text(&event.prompt) },
        "PostToolUseFailure" if event.is_interrupt => HookEvent::Interrupted,
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => {
            HookEvent::Tool { name: text(&event.tool_name) }
        }
        "PermissionRequest" => {
            let tool = event.tool_name.as_deref();
            let waits = !tool.is_some_and(|tool| ASKS_MORE.contains(&tool));
            HookEvent::NeedsYou { what: asked(tool, json), waits }
        }
        "Notification" => match event.notification_type.as_deref() {
            // PermissionRequest has reported the question already; older versions report it only here.
            Some("permission_prompt" | "elicitation_dialog") | None => {
                HookEvent::NeedsYou { what: text(&event.message), waits: false }
            }
            // The agent was idle for a while: if it had work, a user interrupted it.
            Some("idle_prompt") => HookEvent::Interrupted,
            Some(_) => return None,
        },
        "Stop" => HookEvent::Stopped { answer: event.last_assistant_message.clone() },
        "Interrupt" => HookEvent::Interrupted,
        "SessionEnd" => HookEvent::Ended { why: text(&event.reason) },
        _ => return None,
    })
}

/// The question for a person: the tool, and its purpose.
fn asked(tool: Option<&str>, json: &[u8]) -> String {
    let tool = tool.unwrap_or("a tool");
    let input = serde_json::from_slice::<ClaudeToolInput>(json).ok().and_then(|asked| asked.tool_input);
    let input = input.unwrap_or_default();
    let what =
        ["command", "file_path", "url", "path", "description"].iter().find_map(|key| input[key].as_str());
    what.map_or_else(|| tool.to_owned(), |what| format!("{tool}: {what}"))
}

/// The answer to a PermissionRequest.
pub(super) fn decision(allows: bool, reason: Option<String>) -> String {
    let decision = match allows {
        true => json!({"behavior": "allow"}),
        false => json!({"behavior": "deny", "message": reason.unwrap_or_else(|| DENIED.to_owned())}),
    };
    json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}).to_string()
}

/// Parses events of another agent that uses the names of Claude Code. That agent does not show its question while its
/// hook waits.
pub(super) fn understand_as(kind: &str, json: &[u8], at_ms: u64) -> Option<HookReport> {
    let mut report = understand(json, at_ms)?;
    if let HookEvent::NeedsYou { waits, .. } = &mut report.told {
        *waits = false;
    }
    Some(HookReport { kind: kind.to_owned(), ..report })
}
