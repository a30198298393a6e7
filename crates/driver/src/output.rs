//! Reader of an agent's output: lines in, typed items out, for every protocol.
//!
//! Promise: any bytes are read without a panic. No value is invented: a field that an agent did not report is `None`.
//! Memory is bounded by one line. Nothing is shortened here: each caller has limits of its own.
//! Not here: turns, questions and the current activity (see [`crate::Driver`]); the agents' transcripts
//! (`berth_transcript`).
//! Start with [`OutputReader::read`]; [`OutputLines`] splits bytes into lines.

pub(crate) mod items;
#[cfg(test)]
mod tests;

use memchr::{memchr, memmem};
use serde_json::Value;

pub use items::texts_in_json;

/// Longest line that is parsed.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Item of an agent's output.
#[derive(Clone, PartialEq, Debug)]
pub enum OutputItem {
    /// Text of the answer.
    Text {
        /// The text, as Markdown.
        text: String,
        /// True if it continues the last text without a break.
        continues: bool,
    },
    /// Thought of the agent.
    Thought {
        /// The text of the thought.
        text: String,
        /// True if it continues the last thought without a break.
        continues: bool,
    },
    /// Start of a tool's use. An agent may repeat it.
    ToolBegan(ToolUse),
    /// Change of a tool's use, which may be its first message: fields that are set replace earlier ones.
    ToolChanged(ToolUse),
    /// End of a tool's use that began before.
    ToolEnded(ToolEnd),
    /// The agent's whole plan.
    Plan(AgentPlan),
    /// The agent asks for permission to use a tool.
    Question {
        /// Name of the question.
        request: String,
        /// Id of the tool's use.
        tool: String,
        /// The tool's use as the question describes it, if the agent speaks the Agent Client Protocol.
        acp: Option<Value>,
    },
}

/// One use of a tool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ToolUse {
    /// Id of the use, as the agent names it.
    pub id: String,
    /// Name of the tool.
    pub name: Option<String>,
    /// Short title: the name with its object.
    pub title: Option<String>,
    /// Input of the tool.
    pub input: Option<Value>,
    /// Path of the file that the input names.
    pub path: Option<String>,
    /// Output of the tool.
    pub output: Option<String>,
    /// Files that the use changes.
    pub changes: Option<Vec<FileChange>>,
    /// Id of the use that this one is a part of: of a sub-agent.
    pub within: Option<String>,
    /// Plan in the input, for a tool that keeps one.
    pub plan: Option<AgentPlan>,
    /// Progress of the use.
    pub status: Option<ToolStatus>,
    /// The agent's own message about the use.
    pub message: ProtocolMessage,
}

/// Progress of a tool's use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolStatus {
    /// The tool runs.
    Running,
    /// The tool ended without failing.
    Done,
    /// The tool failed.
    Failed,
    /// A user did not permit the use.
    Declined,
}

/// End of a tool's use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ToolEnd {
    /// Id of the use, as the agent names it.
    pub id: String,
    /// Output of the tool.
    pub output: String,
    /// True if the tool failed.
    pub failed: bool,
    /// Change of a file, in the unified format.
    pub patch: Option<FileChange>,
    /// Number of the first line in that file that is new or removed.
    pub patched_line: Option<u32>,
}

/// Change of a file: its old and new text, or the difference between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileChange {
    /// Path of the file.
    pub path: String,
    /// Old text; `None` for a new file.
    pub old: Option<String>,
    /// New text; `None` for a deleted file, or if only the difference is known.
    pub new: Option<String>,
    /// Difference in the unified format.
    pub unified: Option<String>,
    /// True if `old` and `new` are the whole file, not a part of it.
    pub whole: bool,
}

/// Plan of an agent.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AgentPlan {
    /// Steps, in order.
    pub steps: Vec<PlanStep>,
    /// The agent's own message about the plan.
    pub message: ProtocolMessage,
}

/// Step of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanStep {
    /// Text of the step.
    pub text: String,
    /// Progress of the step.
    pub status: StepStatus,
}

/// Progress of a step of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepStatus {
    /// The step was not begun yet.
    Pending,
    /// The step is under way.
    Running,
    /// The step is done.
    Done,
}

/// The agent's own message, as it came.
#[derive(Clone, PartialEq, Debug)]
pub enum ProtocolMessage {
    /// An update of the Agent Client Protocol.
    Acp(Value),
    /// A message of another protocol.
    Other(Value),
}

impl Default for ProtocolMessage {
    fn default() -> Self {
        Self::Other(Value::Null)
    }
}

/// Reader of the output of one turn.
#[derive(Debug, Default)]
pub struct OutputReader {
    /// True once the agent compacted the conversation: it repeats the parts that it keeps.
    is_compacted: bool,
    /// True once the agent said something.
    has_text: bool,
}

impl OutputReader {
    /// The items in a line, in order.
    pub fn read(&mut self, line: &[u8]) -> Vec<OutputItem> {
        // Most lines are pieces that come again as a whole, and need no parsing.
        let has = |word: &str| memmem::find(line, word.as_bytes()).is_some();
        let kinds = [
            "\"message\"",
            "\"update\"",
            "\"item\"",
            "\"compact_boundary\"",
            "\"turn/plan/",
            "request_permission",
            "can_use_tool",
            "requestApproval",
        ];
        if has("\"stream_event\"") || !kinds.iter().any(|kind| has(kind)) {
            return Vec::new();
        }
        let Ok(said) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        let items = self.items(said);
        self.has_text |= items.iter().any(|item| matches!(item, OutputItem::Text { .. }));
        items
    }
}

/// Splits bytes that arrive in pieces into lines.
#[derive(Debug, Default)]
pub struct OutputLines {
    line: Vec<u8>,
    is_too_long: bool,
}

impl OutputLines {
    /// Takes more bytes, and passes on each line that is complete now; `None` for a line longer than
    /// [`MAX_LINE_BYTES`].
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (rest, line) = (&bytes[end + 1..], &bytes[..end]);
            bytes = rest;
            let is_too_long = std::mem::take(&mut self.is_too_long);
            if is_too_long || self.line.len() + line.len() > MAX_LINE_BYTES {
                each(None);
            } else if self.line.is_empty() {
                each(Some(line));
            } else {
                self.line.extend_from_slice(line);
                each(Some(&self.line));
            }
            self.line.clear();
        }
        self.is_too_long |= self.line.len() + bytes.len() > MAX_LINE_BYTES;
        if self.is_too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}
