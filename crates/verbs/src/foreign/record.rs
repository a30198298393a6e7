//! Which records of an agent's own transcript are of the conversation, and which are its bookkeeping.
//!
//! Claude Code 2.1.325 repeats each prompt in `queue-operation`, `last-prompt` and `api-request-blob`, and keeps system
//! prompts in attachments (`prompt_snapshot`, …) and `api-request-shape`. Codex 0.166.0 repeats each text in an
//! `event_msg`, and gives the model instructions as messages of the roles `developer` and `user`.
//! Promise: what was said, done and answered is told once; everything else is left out.
//! Start with [`parts`], for searching, and with [`claude_user`] and [`codex_prompt`].

use berth_transcript::Kind;
use serde_json::Value;

/// How texts begin that Claude Code itself puts into the mouth of its user.
const CLAUDE_OWN: [&str; 4] =
    ["<system-reminder>", "<task-notification>", "<local-command-caveat>", "Caveat: The messages below were"];
/// How Claude Code notes that a turn was interrupted.
const INTERRUPTED: &str = "[Request interrupted by user";
/// How texts begin that Codex itself puts into the mouth of its user, where the record does not say who wrote them.
const CODEX_OWN: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
];

/// What a record of a user says that is not the result of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ClaudeUser {
    /// A user said this to the agent.
    Prompt(String),
    /// The agent told this without its model: what a command of its own printed, or that it was interrupted.
    Told(String),
}

/// True for a record of the dialogue: what a person or the model said, and what tools did.
pub(crate) fn is_claude_talk(record: &Value) -> bool {
    let is_talk = matches!(record["type"].as_str(), Some("user" | "assistant"));
    // What a compaction made of the talk so far is the talk so far, again.
    is_talk && record["isMeta"] != true && record["isCompactSummary"] != true
}

/// What a record of Claude Code says in the place of its user; `None` if it says nothing of that kind.
pub(crate) fn claude_user(record: &Value) -> Option<ClaudeUser> {
    let text = match record["type"].as_str()? {
        "user" if is_claude_talk(record) => text_in(&record["message"]["content"])?,
        // A prompt that was taken into a running turn.
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
        return Some(ClaudeUser::Told(text));
    }
    for tag in ["local-command-stdout", "local-command-stderr", "bash-stdout"] {
        if begin.starts_with(&format!("<{tag}>")) {
            let told = [element(begin, tag), element(begin, "bash-stderr")].into_iter().flatten();
            let told = told.filter(|told| !told.trim().is_empty()).collect::<Vec<_>>().join("\n");
            return (!told.is_empty()).then_some(ClaudeUser::Told(told));
        }
    }
    if let Some(command) = element(begin, "bash-input") {
        return Some(ClaudeUser::Prompt(format!("!{command}")));
    }
    if let Some(name) = element(begin, "command-name") {
        let more = element(begin, "command-args").unwrap_or_default();
        return Some(ClaudeUser::Prompt(format!("{name} {more}").trim().to_owned()));
    }
    Some(ClaudeUser::Prompt(text))
}

/// What stands between the tags of an element.
fn element<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// What a person said in a message of the role `user`; `None` for what Codex puts there itself.
pub(crate) fn codex_prompt(payload: &Value) -> Option<String> {
    let parts: Vec<&str> = codex_said(payload).filter_map(Value::as_str).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The texts of such a message that a person wrote.
fn codex_said(payload: &Value) -> impl Iterator<Item = &Value> {
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

/// The text of a message, if it has one: results of tools are not text.
pub(crate) fn text_in(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = content.as_array()?.iter().filter_map(|part| part["text"].as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// What a record says, as the values that have the words: prompts, answers, thoughts, what tools were given and what came
/// of them. Nothing for bookkeeping.
pub(crate) fn parts(kind: Kind, record: &Value) -> Vec<&Value> {
    match kind {
        Kind::Claude => claude_parts(record),
        Kind::Codex if record["type"] == "response_item" => codex_parts(&record["payload"]),
        Kind::Codex => Vec::new(),
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
    if !is_claude_talk(record) {
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
        ("message", "user") => codex_said(payload).collect(),
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

    fn claude(text: &str) -> Option<ClaudeUser> {
        claude_user(&json!({"type": "user", "message": {"content": text}}))
    }

    #[test]
    fn commands_to_claude_code_are_told_as_they_were_typed() {
        let prompt = |text: &str| Some(ClaudeUser::Prompt(text.to_owned()));
        let told = |text: &str| Some(ClaudeUser::Told(text.to_owned()));
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
