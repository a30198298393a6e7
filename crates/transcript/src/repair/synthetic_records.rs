//! Made-up records: the ones that an agent itself would have written.
//!
//! Promise: a second repair makes the same ids. An unreadable record gets no made-up one.
//! Start with [`claude_result`].

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use super::plan::ancestors;
use crate::record_excerpts;
use crate::record_scanner::{LinePosition, ScannedItem, scan_records};
use crate::record_summary::IdHash;
use crate::transcript_index::{RecordNumbering, TranscriptIndex, bit};

/// Claude Code's own result for a call that was interrupted.
const INTERRUPTED: &str = "[Tool call interrupted: the session ended before this call's result was recorded, so \
                           its outcome is unknown. Check whether it took effect before relying on it or running it again.]";
/// Codex' own result for such a call.
const ABORTED: &str = "aborted";

/// A made-up record.
#[derive(Debug, Default)]
pub(super) struct SyntheticRecord {
    pub(super) id: String,
    pub(super) text: String,
}

/// An id in the form of the agent's; the same seed gives the same id.
pub(super) fn synthetic_id(seed: &str) -> String {
    let half = |salt: &str| IdHash::of(format!("{salt}{seed}").as_bytes()).0;
    let (high, low) = (half("high"), half("low"));
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0x0fff);
    let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}

/// Claude Code's note of its place, so that a resume goes on there regardless of the order of the file.
pub(super) fn leaf_note(file: &File, survey: &TranscriptIndex, tip: u32) -> io::Result<String> {
    let prompt = ancestors(survey, tip).find(|at| survey.is(*at, bit::PROMPT));
    let line = prompt.map(|prompt| survey.line_of(prompt));
    let said = record_excerpts::fetch_excerpts(file, survey, line)?
        .into_values()
        .next()
        .and_then(|words| words.said);
    let said = Value::from(said.unwrap_or_default());
    let mut source = file;
    source.seek(SeekFrom::Start(0))?;
    let (mut numbers, mut note) = (RecordNumbering::default(), Ok(None));
    let raw = |at: &std::ops::Range<u64>| {
        let mut bytes = vec![0; (at.end - at.start) as usize];
        file.read_exact_at(&mut bytes, at.start)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    };
    let visit = |_: &LinePosition, seen: ScannedItem<'_>| {
        let ScannedItem::Record(head) = seen else { return };
        if numbers.of(head) != Some(tip) {
            return;
        }
        note = raw(&head.uuid_at).and_then(|id| {
            let session = raw(&head.session_at[0])?;
            let session = if session.is_empty() { session } else { format!(",\"sessionId\":{session}") };
            Ok(Some(format!("{{\"type\":\"last-prompt\",\"lastPrompt\":{said},\"leafUuid\":{id}{session}}}")))
        });
    };
    scan_records(source, survey.walked.bytes, |_, _| {}, visit)?;
    note?.ok_or_else(|| io::Error::other("the file changed meanwhile"))
}

/// Claude Code's result for the calls of a record; `None` for a record that cannot be read.
pub(super) fn claude_result(call: &Value, is_open: impl Fn(&str) -> bool) -> Option<SyntheticRecord> {
    let uuid = call["uuid"].as_str()?;
    let blocks = call["message"]["content"].as_array()?;
    let ids =
        blocks.iter().filter(|block| block["type"] == "tool_use").filter_map(|block| block["id"].as_str());
    let results: Vec<Value> = ids
        .filter(|id| is_open(id))
        .map(|id| json!({"type": "tool_result", "content": INTERRUPTED, "is_error": true, "tool_use_id": id}))
        .collect();
    if results.is_empty() {
        return None;
    }
    let id = synthetic_id(uuid);
    let mut record = json!({
        "parentUuid": uuid,
        "isSidechain": call["isSidechain"],
        "type": "user",
        "message": {"role": "user", "content": results},
        "uuid": id,
        "timestamp": call["timestamp"],
        "toolDenialKind": "interrupted",
    });
    for key in ["userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "agentId"] {
        if !call[key].is_null() {
            record[key] = call[key].clone();
        }
    }
    Some(SyntheticRecord { id, text: record.to_string() })
}

/// Codex' result for a call; `None` for a kind of call whose result is not known.
pub(super) fn codex_result(call: &Value) -> Option<SyntheticRecord> {
    let payload = &call["payload"];
    let kind = match payload["type"].as_str()? {
        "custom_tool_call" => "custom_tool_call_output",
        "function_call" | "local_shell_call" => "function_call_output",
        _ => return None,
    };
    let mut record = json!({
        "timestamp": call["timestamp"],
        "type": "response_item",
        "payload": {"type": kind, "call_id": payload["call_id"].as_str()?, "output": ABORTED},
    });
    if !call["ordinal"].is_null() {
        record["ordinal"] = call["ordinal"].clone();
    }
    Some(SyntheticRecord { id: String::new(), text: record.to_string() })
}
