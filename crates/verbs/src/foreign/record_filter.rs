//! Selection of records in an agent's own transcript: dialogue or bookkeeping.
//!
//! Claude Code 2.1.325 repeats each prompt in `queue-operation`, `last-prompt` and `api-request-blob`, and keeps system
//! prompts in attachments (`prompt_snapshot`, …) and `api-request-shape`. Codex 0.166.0 repeats each text in an
//! `event_msg`, and gives the model instructions as messages of the roles `developer` and `user`.
//! Promise: each prompt, action and answer appears once; bookkeeping is left out.
//! Start with [`parts`], for searching, and with [`claude_user`] and [`codex_prompt`].

use berth_transcript::TranscriptKind;
use serde_json::Value;

/// Beginnings of texts that Claude Code itself writes in the place of its user.
const CLAUDE_OWN: [&str; 4] =
    ["<system-reminder>", "<task-notification>", "<local-command-caveat>", "Caveat: The messages below were"];
/// Beginning of Claude Code's note on an interrupted turn.
const INTERRUPTED: &str = "[Request interrupted by user";
/// Beginnings of texts that Codex itself writes in the place of its user, where the record does not name the author.
const CODEX_OWN: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
];

/// A record in the user's place that is not the result of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ClaudeUserRecord {
    /// A prompt that a user gave the agent.
    Prompt(String),
    /// A text that the agent wrote without its model: the output of one of its own commands, or the note on an
    /// interruption.
    Told(String),
}

/// True for a record of the dialogue: words of a user or the model, and actions of tools.
pub(crate) fn is_claude_dialogue(record: &Value) -> bool {
    let is_talk = matches!(record["type"].as_str(), Some("user" | "assistant"));
    // A compaction repeats the dialogue so far.
    is_talk && record["isMeta"] != true && record["isCompactSummary"] != true
}

/// Text of a Claude Code record in the user's place; `None` for any other record.
pub(crate) fn claude_user(record: &Value) -> Option<ClaudeUserRecord> {
    let text = match record["type"].as_str()? {
        "user" if is_claude_dialogue(record) => text_in(&record["message"]["content"])?,
        // A prompt that joined a running turn.
        "attachment" if record["attachment"]["type"] == "queued_command" => {
            text_in(&record["attachment"]["prompt"])?
        }
        "system" if record["subtype"] == "local_command" => text_in(&record["content"])?,
        _ => return None,
    };
    let begin = text.trim_start();
    if CLAUDE_OWN.iter().any(|own| begin.starts_with(own)) {
        return None;
    }
    if begin.starts_with(INTERRUPTED) {
        return Some(ClaudeUserRecord::Told(text));
    }
    for tag in ["local-command-stdout", "local-command-stderr", "bash-stdout"] {
        if begin.starts_with(&format!("<{tag}>")) {
            let told = [element(begin, tag), element(begin, "bash-stderr")].into_iter().flatten();
            let told = told.filter(|told| !told.trim().is_empty()).collect::<Vec<_>>().join("\n");
            return (!told.is_empty()).then_some(ClaudeUserRecord::Told(told));
        }
    }
    if let Some(command) = element(begin, "bash-input") {
        return Some(ClaudeUserRecord::Prompt(format!("!{command}")));
    }
    if let Some(name) = element(begin, "command-name") {
        let more = element(begin, "command-args").unwrap_or_default();
        return Some(ClaudeUserRecord::Prompt(format!("{name} {more}").trim().to_owned()));
    }
    Some(ClaudeUserRecord::Prompt(text))
}

/// The text between the tags of an element.
fn element<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// A user's prompt in a message of the role `user`; `None` for texts that Codex puts there itself.
pub(crate) fn codex_prompt(payload: &Value) -> Option<String> {
    let parts: Vec<&str> = codex_user_texts(payload).filter_map(Value::as_str).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The texts of such a message that a user wrote.
fn codex_user_texts(payload: &Value) -> impl Iterator<Item = &Value> {
    let written_by = &payload["internal_chat_message_metadata_passthrough"]["content_item_metadata"];
    let content = payload["content"].as_array().into_iter().flatten().enumerate();
    content.filter_map(|(number, part)| {
        let text = part["text"].as_str()?;
        let is_own = match written_by[number]["provenance"]["type"].as_str() {
            Some(writer) => writer != "user",
            None => CODEX_OWN.iter().any(|own| text.trim_start().starts_with(own)),
        };
        (!is_own).then_some(&part["text"])
    })
}

/// Text of a message, if it has any: results of tools are not text.
pub(crate) fn text_in(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = content.as_array()?.iter().filter_map(|part| part["text"].as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The values of a record that have its words: prompts, answers, thoughts, arguments and results of tools. Empty for
/// bookkeeping.
pub(crate) fn parts(kind: TranscriptKind, record: &Value) -> Vec<&Value> {
    match kind {
        TranscriptKind::Claude => claude_parts(record),
        TranscriptKind::Codex if record["type"] == "response_item" => codex_parts(&record["payload"]),
        TranscriptKind::Codex => Vec::new(),
    }
}

fn claude_parts(record: &Value) -> Vec<&Value> {
    let is_said = claude_user(record).is_some();
    let content = &record["message"]["content"];
    let mut parts: Vec<&Value> = match record["type"].as_str() {
        Some("attachment") if is_said => return vec![&record["attachment"]["prompt"]],
        Some("system") if is_said => return vec![&record["content"]],
        Some("user") if is_said && content.is_string() => return vec![content],
        Some(_) | None => Vec::new(),
    };
    if !is_claude_dialogue(record) {
        return parts;
    }
    let is_answer = record["type"] == "assistant";
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") if is_said || is_answer => parts.push(&block["text"]),
            Some("thinking") => parts.push(&block["thinking"]),
            Some("tool_use") => parts.extend([&block["name"], &block["input"]]),
            Some("tool_result") => parts.push(&block["content"]),
            Some(_) | None => {}
        }
    }
    parts
}

fn codex_parts(payload: &Value) -> Vec<&Value> {
    match (payload["type"].as_str().unwrap_or_default(), payload["role"].as_str().unwrap_or_default()) {
        ("message", "user") => codex_user_texts(payload).collect(),
        ("message", "assistant") => vec![&payload["content"]],
        ("reasoning", _) => vec![&payload["summary"], &payload["content"]],
        ("function_call", _) => vec![&payload["name"], &payload["arguments"]],
        ("custom_tool_call", _) => vec![&payload["name"], &payload["input"]],
        ("local_shell_call" | "web_search_call", _) => vec![&payload["action"]],
        ("function_call_output" | "custom_tool_call_output", _) => vec![&payload["output"]],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claude(text: &str) -> Option<ClaudeUserRecord> {
        claude_user(&json!({"type": "user", "message": {"content": text}}))
    }

    #[test]
    fn commands_to_claude_code_are_told_as_they_were_typed() {
        let prompt = |text: &str| Some(ClaudeUserRecord::Prompt(text.to_owned()));
        let told = |text: &str| Some(ClaudeUserRecord::Told(text.to_owned()));
        assert_eq!(claude("<div> is broken"), prompt("<div> is broken"));
        assert_eq!(
            claude(
                "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args>opus</command-args>"
            ),
            prompt("/model opus")
        );
        assert_eq!(claude("<local-command-stdout>Set</local-command-stdout>"), told("Set"));
        assert_eq!(claude("<bash-input>ls</bash-input>"), prompt("!ls"));
        assert_eq!(claude("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"), told("a"));
        assert_eq!(claude("[Request interrupted by user]"), told("[Request interrupted by user]"));
        assert_eq!(claude("<system-reminder>\nbe good</system-reminder>"), None);
        let queued =
            json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "and more"}});
        assert_eq!(claude_user(&queued), prompt("and more"));
    }

    #[test]
    fn a_person_may_begin_with_an_angle_bracket_and_codex_own_words_are_not_a_prompt() {
        let message = |text: &str, writer: Option<&str>| {
            let by = writer.map(|writer| json!([{"provenance": {"type": writer}}])).unwrap_or_default();
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}],
                "internal_chat_message_metadata_passthrough": {"content_item_metadata": by}})
        };
        assert_eq!(codex_prompt(&message("<b> is bold", Some("user"))).as_deref(), Some("<b> is bold"));
        assert_eq!(codex_prompt(&message("<b> is bold", None)).as_deref(), Some("<b> is bold"));
        assert_eq!(codex_prompt(&message("be good", Some("harness"))), None);
        assert_eq!(codex_prompt(&message("<environment_context>x", None)), None);
    }
}
