//! An agent's output, understood: lines in, typed items out, whichever protocol the agent speaks.
//!
//! Promise: any bytes are read without a panic; nothing is made up: a field that an agent did not tell is `None`. Memory is
//! bounded by one line. Nothing is shortened here: each caller has limits of its own.
//! Not here: turns, questions and what the agent does at the moment (see [`crate::Driver`]); what agents write into their
//! own records (`berth_transcript`).
//! Start with [`OutputReader::read`]; [`OutputLines`] makes lines of bytes.

pub(crate) mod items;
#[cfg(test)]
mod tests;

use memchr::{memchr, memmem};
use serde_json::Value;

pub use items::texts;

/// The longest line that is understood.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// One thing that an agent's output tells.
#[derive(Clone, PartialEq, Debug)]
pub enum OutputItem {
    /// The agent said something.
    Text {
        /// What, as Markdown.
        text: String,
        /// It goes on where the last text ended.
        continues: bool,
    },
    /// The agent thought something.
    Thought {
        /// What.
        text: String,
        /// It goes on where the last thought ended.
        continues: bool,
    },
    /// A use of a tool begins. An agent may repeat that.
    ToolBegan(ToolUse),
    /// News of a use of a tool, which may be the first: fields that are set replace what was known.
    ToolChanged(ToolUse),
    /// A use of a tool that began is over.
    ToolEnded(ToolEnd),
    /// The agent's plan, as a whole.
    Plan(Plan),
    /// The agent asks for permission to use a tool.
    Question {
        /// The name of the question.
        request: String,
        /// The id of the tool's use.
        tool: String,
        /// The tool's use as the question has it, if the agent speaks the Agent Client Protocol.
        acp: Option<Value>,
    },
}

/// One use of a tool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ToolUse {
    /// The agent's own id of it.
    pub id: String,
    /// The tool's name.
    pub name: Option<String>,
    /// The name with its object, in a few words.
    pub title: Option<String>,
    /// What the tool was given.
    pub input: Option<Value>,
    /// The file that the tool was given.
    pub path: Option<String>,
    /// What came of it.
    pub output: Option<String>,
    /// The files that it changes.
    pub changes: Option<Vec<FileChange>>,
    /// The use of a tool that it is a part of, by id: of an agent within the agent.
    pub within: Option<String>,
    /// The plan that the tool was given, for a tool that keeps one.
    pub plan: Option<Plan>,
    /// How far it is.
    pub status: Option<ToolStatus>,
    /// The agent's own message about it.
    pub message: Message,
}

/// How far a use of a tool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolStatus {
    /// It is under way.
    Running,
    /// It is over, and did not fail.
    Done,
    /// It failed.
    Failed,
    /// A person did not permit it.
    Declined,
}

/// The end of a use of a tool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ToolEnd {
    /// The agent's own id of the use.
    pub id: String,
    /// What came of it.
    pub output: String,
    /// Whether it failed.
    pub failed: bool,
    /// What it changed in a file, in the unified format.
    pub patch: Option<FileChange>,
    /// The number of the first line in that file that is new or gone.
    pub patched_line: Option<u32>,
}

/// A change of a file: what was there and what is, or the difference between the two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// What was there; nothing for a new file.
    pub old: Option<String>,
    /// What is there now.
    pub new: Option<String>,
    /// The difference, in the unified format.
    pub unified: Option<String>,
    /// `old` and `new` are all of the file, not a part of it.
    pub whole: bool,
}

/// An agent's plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Its steps, in order.
    pub steps: Vec<PlanStep>,
    /// The agent's own message about it.
    pub message: Message,
}

/// One step of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: StepStatus,
}

/// How far a step of a plan is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepStatus {
    /// It is still to be done.
    Pending,
    /// It is under way.
    Running,
    /// It is done.
    Done,
}

/// An agent's own message.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// An update of the Agent Client Protocol.
    Acp(Value),
    /// A message of another protocol.
    Other(Value),
}

impl Default for Message {
    fn default() -> Self {
        Self::Other(Value::Null)
    }
}

/// Reads the output of one turn.
#[derive(Debug, Default)]
pub struct OutputReader {
    /// The agent compacted the conversation, and repeats what it keeps of it.
    is_compacted: bool,
    /// Something was said.
    has_text: bool,
}

impl OutputReader {
    /// What a line says, in order.
    pub fn read(&mut self, line: &[u8]) -> Vec<OutputItem> {
        // Most lines are pieces that come again as a whole, and need not be taken apart.
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

/// Makes lines of bytes that come in pieces.
#[derive(Debug, Default)]
pub struct OutputLines {
    line: Vec<u8>,
    is_too_long: bool,
}

impl OutputLines {
    /// Takes more bytes, and passes on each line that is whole now; `None` for a line longer than [`MAX_LINE_BYTES`].
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
