//! Claude Code's events in one neutral form.
//!
//! Promise: an event of a later version, and one that says nothing about the conversation, is `None`.

use std::path::PathBuf;

use berth_api::hook::{Report, Told};
use serde::Deserialize;
use serde_json::{Value, json};

/// Tools whose question has other answers than yes and no: they are given at the terminal.
const ASKS_MORE: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
/// What the agent reads of a no without a reason.
const DENIED: &str = "The person who was asked said no.";

/// What all events have in common, and what some have. What is not read is passed over.
#[derive(Deserialize)]
struct Event {
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

/// Of a question alone it matters what the tool was given.
#[derive(Deserialize)]
struct Asked {
    tool_input: Option<Value>,
}

pub(super) fn understand(json: &[u8], at_ms: u64) -> Option<Report> {
    let event: Event = serde_json::from_slice(json).ok()?;
    let told = told(&event, json)?;
    Some(Report {
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

fn told(event: &Event, json: &[u8]) -> Option<Told> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(match event.hook_event_name.as_str() {
        "SessionStart" => Told::Started { how: text(&event.source) },
        "UserPromptSubmit" => Told::Prompt { text: text(&event.prompt) },
        "PostToolUseFailure" if event.is_interrupt => Told::Interrupted,
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => Told::Tool { name: text(&event.tool_name) },
        "PermissionRequest" => {
            let tool = event.tool_name.as_deref();
            let waits = !tool.is_some_and(|tool| ASKS_MORE.contains(&tool));
            Told::NeedsYou { what: asked(tool, json), waits }
        }
        "Notification" => match event.notification_type.as_deref() {
            // It was asked by PermissionRequest; older versions tell it only so.
            Some("permission_prompt" | "elicitation_dialog") | None => {
                Told::NeedsYou { what: text(&event.message), waits: false }
            }
            // It has had nothing to do for a while: if it had, somebody broke it off.
            Some("idle_prompt") => Told::Interrupted,
            Some(_) => return None,
        },
        "Stop" => Told::Stopped { answer: event.last_assistant_message.clone() },
        "Interrupt" => Told::Interrupted,
        "SessionEnd" => Told::Ended { why: text(&event.reason) },
        _ => return None,
    })
}

/// What a person is asked: the tool, and what it is to do.
fn asked(tool: Option<&str>, json: &[u8]) -> String {
    let tool = tool.unwrap_or("a tool");
    let input = serde_json::from_slice::<Asked>(json).ok().and_then(|asked| asked.tool_input);
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

/// The events of another agent that took over these names. It does not show its question while its hook waits.
pub(super) fn understand_as(kind: &str, json: &[u8], at_ms: u64) -> Option<Report> {
    let mut report = understand(json, at_ms)?;
    if let Told::NeedsYou { waits, .. } = &mut report.told {
        *waits = false;
    }
    Some(Report { kind: kind.to_owned(), ..report })
}
