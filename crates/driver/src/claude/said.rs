//! What Claude Code says and does while it works.
//!
//! An answer comes in pieces, and each block of it once more as a whole. What helpers of the agent say is for the agent.
//! A command that Claude Code runs itself (`/cost`) is answered with a message that names its output; `/compact` is
//! answered with an echo of its output alone. After a compaction Claude Code repeats the answers to such commands that
//! it kept in the conversation.
//! Promise: text is passed on once, and only what belongs to a turn of ours; all of it is gathered within the limit.
//! Not here: whose round it is (see `claude`). Start with [`Said`].

use serde_json::Value;

use super::{Claude, MAX_ID_BYTES, Round, end, text};
use crate::common::{Gathered, within};
use crate::output::items::claude_local_output;
use crate::{Activity, Out, Update};

/// The longest line of what a tool does.
const MAX_DOING_BYTES: usize = 200;

/// What was said in this round.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Said {
    pub(super) all: Gathered,
    /// The message that comes in pieces: its text is not said again when the whole of it comes.
    pub(super) streamed: String,
    doing: Activity,
    /// The conversation was compacted in this round.
    pub(super) is_compacted: bool,
    /// Of the messages before this one, and of this one.
    tokens: (u64, u64),
}

/// What it says and does.
impl Claude {
    pub(super) fn stream(&mut self, line: &Value, out: &mut Out) {
        let Some(event) = line.get("event").filter(|_| !is_of_helper(line)) else { return };
        match text(event, "type") {
            "message_start" => {
                let Some(message) = event.get("message") else { return };
                let (before, last) = self.said.tokens;
                let tokens = message.get("usage").and_then(end::input_tokens).unwrap_or(0);
                self.said.tokens = (before.saturating_add(last), tokens);
                within(text(message, "id"), MAX_ID_BYTES).clone_into(&mut self.said.streamed);
                self.is_at_work(out);
            }
            "content_block_start" => {
                let Some(block) = event.get("content_block") else { return };
                match text(block, "type") {
                    "text" => {
                        self.pause(out);
                        self.does("writing", "", out);
                    }
                    "thinking" | "redacted_thinking" => self.does("thinking", "", out),
                    "tool_use" => self.does(text(block, "name"), "", out),
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
                let read = event.get("usage").and_then(end::input_tokens);
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

    pub(super) fn assistant(&mut self, line: &Value, out: &mut Out) {
        let Some(message) = line.get("message") else { return };
        let is_error = line.get("is_api_error_message").and_then(Value::as_bool).unwrap_or(false);
        let id = text(message, "id");
        let is_repeated = self.said.is_compacted && line.get("local_command_source").is_some();
        // An error is no answer; what came in pieces was said; what helpers say is for the agent.
        let is_news =
            !is_error && !is_repeated && (id.is_empty() || id != self.said.streamed) && !is_of_helper(line);
        // Of one that came in pieces the last piece has the final numbers. One that no model wrote has none.
        let used = message.get("usage").and_then(end::all_tokens).filter(|_| is_news);
        if used.is_some() {
            self.holds(used, out);
        }
        for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
            match text(block, "type") {
                "text" if is_news => {
                    self.pause(out);
                    self.say(text(block, "text"), out);
                }
                "tool_use" => self.does(text(block, "name"), &tool_line(block.get("input")), out),
                _ => {}
            }
        }
        self.is_at_work(out);
    }

    /// The output of a command that Claude Code ran itself, where no message has it.
    pub(super) fn local_output(&mut self, line: &Value, out: &mut Out) {
        let output = claude_local_output(line);
        if let Some(output) = output.filter(|_| self.said.all.is_empty() && !is_of_helper(line)) {
            self.say(output, out);
        }
    }

    /// A blank line between one message and the next.
    fn pause(&mut self, out: &mut Out) {
        if !self.said.all.is_empty() {
            self.say("\n\n", out);
        }
    }

    fn say(&mut self, piece: &str, out: &mut Out) {
        if piece.is_empty() {
            return;
        }
        self.said.all.add(piece);
        if self.round == Round::Ours {
            out.update(Update::Said { text: piece.to_owned() });
        }
    }

    pub(super) fn does(&mut self, what: &str, detail: &str, out: &mut Out) {
        let (before, last) = self.said.tokens;
        let tokens = Some(before.saturating_add(last)).filter(|tokens| *tokens > 0);
        let what = within(what, MAX_DOING_BYTES).to_owned();
        let doing = Activity { what, detail: detail.to_owned(), tokens };
        if self.round == Round::Ours && self.said.doing != doing {
            self.said.doing = doing.clone();
            out.update(Update::Doing { activity: doing });
        }
    }
}

fn is_of_helper(line: &Value) -> bool {
    line.get("parent_tool_use_id").is_some_and(Value::is_string)
}

/// What a tool does, in a line.
fn tool_line(input: Option<&Value>) -> String {
    let Some(input) = input.and_then(Value::as_object) else { return String::new() };
    let known = ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
    let first = known.iter().find_map(|field| input.get(*field)?.as_str());
    let line = first.and_then(|text| text.lines().next()).unwrap_or_default();
    within(line, MAX_DOING_BYTES).to_owned()
}
