//! Output of Claude Code while it works: text and activity.
//!
//! An answer comes in pieces, and each block of it once more as a whole. Text of sub-agents is for the agent. A command
//! that Claude Code runs itself (`/cost`) is answered with a message that names its output; `/compact` is answered with
//! an echo of its output alone. After a compaction Claude Code repeats the answers to such commands that it kept in the
//! conversation.
//! Promise: text is passed on once, and only if it belongs to a turn of ours; all of it is gathered within the limit.
//! Not here: the owner of a round (see `claude`). Start with [`RoundOutput`].

use serde_json::Value;

use super::{ClaudeDriver, ClaudeRound, MAX_ID_BYTES, text, turn_end};
use crate::common::{AnswerBuffer, truncated};
use crate::output::items::claude_local_output;
use crate::{AgentActivity, AgentUpdate, DriverOutput};

/// Longest line about a tool's action.
const MAX_DOING_BYTES: usize = 200;

/// Output of this round.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct RoundOutput {
    pub(super) all: AnswerBuffer,
    /// Id of the message that comes in pieces: its text is not repeated when the whole message comes.
    pub(super) streamed: String,
    doing: AgentActivity,
    /// True if the conversation was compacted in this round.
    pub(super) is_compacted: bool,
    /// Tokens of the messages before this one, and of this one.
    tokens: (u64, u64),
}

/// Text and activity.
impl ClaudeDriver {
    pub(super) fn stream(&mut self, line: &Value, out: &mut DriverOutput) {
        let Some(event) = line.get("event").filter(|_| !is_of_helper(line)) else { return };
        match text(event, "type") {
            "message_start" => {
                let Some(message) = event.get("message") else { return };
                let (before, last) = self.said.tokens;
                let tokens = message.get("usage").and_then(turn_end::input_tokens).unwrap_or(0);
                self.said.tokens = (before.saturating_add(last), tokens);
                truncated(text(message, "id"), MAX_ID_BYTES).clone_into(&mut self.said.streamed);
                self.is_at_work(out);
            }
            "content_block_start" => {
                let Some(block) = event.get("content_block") else { return };
                match text(block, "type") {
                    "text" => {
                        self.pause(out);
                        self.set_activity("writing", "", out);
                    }
                    "thinking" | "redacted_thinking" => self.set_activity("thinking", "", out),
                    "tool_use" => self.set_activity(text(block, "name"), "", out),
                    _ => {}
                }
            }
            "content_block_delta" => {
                let delta = event.get("delta").filter(|delta| text(delta, "type") == "text_delta");
                if let Some(delta) = delta {
                    self.say(text(delta, "text"), out);
                }
            }
            "message_delta" => {
                let written = event.get("usage").and_then(|usage| usage.get("output_tokens")?.as_u64());
                let read = event.get("usage").and_then(turn_end::input_tokens);
                let (before, last) = self.said.tokens;
                let read = read.filter(|read| *read > 0).unwrap_or(last);
                let used = read.saturating_add(written.unwrap_or(0));
                self.said.tokens = (before, used);
                if read > 0 {
                    self.holds(Some(used), out);
                }
            }
            _ => {}
        }
    }

    pub(super) fn assistant(&mut self, line: &Value, out: &mut DriverOutput) {
        let Some(message) = line.get("message") else { return };
        let is_error = line.get("is_api_error_message").and_then(Value::as_bool).unwrap_or(false);
        let id = text(message, "id");
        let is_repeated = self.said.is_compacted && line.get("local_command_source").is_some();
        // An error is not an answer; pieces were passed on already; text of sub-agents is for the agent.
        let is_news =
            !is_error && !is_repeated && (id.is_empty() || id != self.said.streamed) && !is_of_helper(line);
        // For a message in pieces the last piece has the final numbers. A message without a model has none.
        let used = message.get("usage").and_then(turn_end::all_tokens).filter(|_| is_news);
        if used.is_some() {
            self.holds(used, out);
        }
        for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
            match text(block, "type") {
                "text" if is_news => {
                    self.pause(out);
                    self.say(text(block, "text"), out);
                }
                "tool_use" => self.set_activity(text(block, "name"), &tool_line(block.get("input")), out),
                _ => {}
            }
        }
        self.is_at_work(out);
    }

    /// The output of a command that Claude Code ran itself, where no message has it.
    pub(super) fn local_output(&mut self, line: &Value, out: &mut DriverOutput) {
        let output = claude_local_output(line);
        if let Some(output) = output.filter(|_| self.said.all.is_empty() && !is_of_helper(line)) {
            self.say(output, out);
        }
    }

    /// A blank line between one message and the next.
    fn pause(&mut self, out: &mut DriverOutput) {
        if !self.said.all.is_empty() {
            self.say("\n\n", out);
        }
    }

    fn say(&mut self, piece: &str, out: &mut DriverOutput) {
        if piece.is_empty() {
            return;
        }
        self.said.all.add(piece);
        if self.round == ClaudeRound::Ours {
            out.update(AgentUpdate::Said { text: piece.to_owned() });
        }
    }

    pub(super) fn set_activity(&mut self, what: &str, detail: &str, out: &mut DriverOutput) {
        let (before, last) = self.said.tokens;
        let tokens = Some(before.saturating_add(last)).filter(|tokens| *tokens > 0);
        let what = truncated(what, MAX_DOING_BYTES).to_owned();
        let doing = AgentActivity { what, detail: detail.to_owned(), tokens };
        if self.round == ClaudeRound::Ours && self.said.doing != doing {
            self.said.doing = doing.clone();
            out.update(AgentUpdate::Doing { activity: doing });
        }
    }
}

fn is_of_helper(line: &Value) -> bool {
    line.get("parent_tool_use_id").is_some_and(Value::is_string)
}

/// One line about a tool's action.
fn tool_line(input: Option<&Value>) -> String {
    let Some(input) = input.and_then(Value::as_object) else { return String::new() };
    let known = ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
    let first = known.iter().find_map(|field| input.get(*field)?.as_str());
    let line = first.and_then(|text| text.lines().next()).unwrap_or_default();
    truncated(line, MAX_DOING_BYTES).to_owned()
}
