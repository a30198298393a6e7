//! Codex' events: its hooks have Claude Code's form, `notify` one of its own.
//!
//! Promise: an event of a later version is `None`.

use std::path::PathBuf;

use berth_api::hook::{HookEvent, HookReport};
use serde::Deserialize;

/// The last argument of `notify`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CodexNotice {
    r#type: String,
    thread_id: String,
    cwd: Option<PathBuf>,
    last_assistant_message: Option<String>,
}

pub(super) fn understand(json: &[u8], at_ms: u64) -> Option<HookReport> {
    if let Some(report) = super::claude::understand_as("codex", json, at_ms) {
        return Some(report);
    }
    let notice: CodexNotice = serde_json::from_slice(json).ok()?;
    (notice.r#type == "agent-turn-complete").then_some(())?;
    Some(HookReport {
        kind: "codex".to_owned(),
        conversation_id: notice.thread_id,
        transcript: None,
        cwd: notice.cwd,
        model: None,
        at_ms,
        told: HookEvent::Stopped { answer: notice.last_assistant_message },
        held_up: None,
    })
}
