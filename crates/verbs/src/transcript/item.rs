//! Items of a transcript: texts, thoughts and uses of tools.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::format;

/// Limit for a text.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Limit for the arguments of a tool, and for its result.
const MAX_KEPT_BYTES: usize = 16 * 1024;
/// Limit for a file in a diff, before and after the change.
const MAX_DIFF_BYTES: usize = 64 * 1024;
/// Limit for the summary of a tool's arguments.
const SUMMARY_CHARS: usize = 200;

/// One item of a turn.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "TranscriptItem")]
pub enum TranscriptItem {
    /// Text of the agent.
    Text {
        /// The text, as Markdown.
        text: String,
        /// True if the text is longer.
        cut: bool,
    },
    /// Thought of the agent.
    Thought {
        /// The text of the thought.
        text: String,
        /// True if the text is longer.
        cut: bool,
    },
    /// Use of a tool.
    Tool(Box<TranscriptToolUse>),
}

/// One use of a tool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ToolUse")]
pub struct TranscriptToolUse {
    /// Id that the agent gave the use.
    pub id: String,
    /// The name of the tool; empty if unknown.
    pub name: String,
    /// Beginning of the arguments, on one line.
    pub summary: String,
    /// Arguments, in a readable form.
    pub given: String,
    /// Arguments as JSON; null if they are too large.
    pub input: Value,
    /// Result of the tool; null if unknown.
    pub output: Option<String>,
    /// True if the result is longer.
    pub output_cut: bool,
    /// True if the tool failed.
    pub is_error: bool,
    /// True if the tool has finished.
    pub is_over: bool,
    /// Changes of files.
    pub diffs: Vec<FileDiff>,
    /// Id of the use that this one is part of, for the tools of a sub-agent.
    pub within: Option<String>,
}

/// A change of a file: the text before and after it, or a diff.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct FileDiff {
    /// Path of the file.
    pub path: String,
    /// Text before the change; null for a new file.
    pub old: Option<String>,
    /// Text after the change.
    pub new: Option<String>,
    /// The change as a unified diff. Line numbers in its hunk headers are those of the file, if it has headers.
    pub unified: Option<String>,
    /// True if `old` and `new` are the whole file, so that their line numbers are those of the file; false for a part
    /// of the file at an unknown place.
    pub whole: bool,
    /// True if the change is longer.
    pub cut: bool,
}

impl TranscriptItem {
    /// A text of the agent.
    pub(super) fn text(text: &str) -> Self {
        let (text, cut) = kept(text, MAX_TEXT_BYTES);
        Self::Text { text, cut }
    }

    /// A thought of the agent.
    pub(super) fn thought(text: &str) -> Self {
        let (text, cut) = kept(text, MAX_TEXT_BYTES);
        Self::Thought { text, cut }
    }

    /// Appends more text of the same kind; false if this item is of another kind.
    pub(super) fn add(&mut self, is_thought: bool, more: &str) -> bool {
        let (text, cut) = match (self, is_thought) {
            (Self::Text { text, cut }, false) | (Self::Thought { text, cut }, true) => (text, cut),
            (Self::Text { .. } | Self::Thought { .. } | Self::Tool(_), _) => return false,
        };
        let room = MAX_TEXT_BYTES.saturating_sub(text.len());
        let (more, is_cut) = kept(more, room);
        text.push_str(&more);
        *cut |= is_cut;
        true
    }

    /// Approximate size of the item in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } | Self::Thought { text, .. } => text.len(),
            Self::Tool(tool) => tool.bytes(),
        }
    }
}

impl TranscriptToolUse {
    /// Sets the arguments.
    pub(super) fn give(&mut self, input: &Value) {
        (self.given, _) = kept_saying(&given(input));
        self.summary = format::first_words(&self.given, SUMMARY_CHARS);
        let length = serde_json::to_string(input).map_or(usize::MAX, |json| json.len());
        self.input = if length <= MAX_DIFF_BYTES { input.clone() } else { Value::Null };
    }

    /// Sets the result.
    pub(super) fn result(&mut self, output: &str) {
        let (output, cut) = kept_saying(output);
        (self.output, self.output_cut) = (Some(output), cut);
    }

    /// Approximate size in memory, in bytes.
    fn bytes(&self) -> usize {
        let diff = |diff: &FileDiff| {
            [&diff.old, &diff.new, &diff.unified].into_iter().flatten().map(String::len).sum::<usize>()
        };
        let input = if self.input.is_null() { 0 } else { 2 * self.given.len() };
        let output = self.output.as_ref().map_or(0, String::len);
        self.given.len() + input + output + self.diffs.iter().map(diff).sum::<usize>()
    }
}

impl FileDiff {
    /// A change of a part of a file.
    pub(super) fn of(path: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let part = |text: Option<&str>| text.map(|text| kept(text, MAX_DIFF_BYTES)).unzip();
        let ((old, old_cut), (new, new_cut)) = (part(old), part(new));
        let cut = old_cut.unwrap_or(false) || new_cut.unwrap_or(false);
        Self { path: path.to_owned(), old, new, unified: None, whole: false, cut }
    }

    /// A change of a whole file.
    pub(super) fn whole(path: &str, old: Option<&str>, new: Option<&str>) -> Self {
        Self { whole: true, ..Self::of(path, old, new) }
    }

    /// A change in the form of a diff that the agent made.
    pub(super) fn unified(path: &str, text: &str) -> Self {
        let (text, cut) = kept(text, MAX_DIFF_BYTES);
        Self { path: path.to_owned(), unified: Some(text), cut, ..Self::default() }
    }
}

/// The arguments of a tool in a readable form.
fn given(input: &Value) -> String {
    let only = input.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    match (input, only, input["command"].as_str()) {
        (Value::String(text), ..) => text.clone(),
        (_, _, Some(command)) => command.to_owned(),
        (_, Some(Value::String(text)), _) => text.clone(),
        (Value::Null, ..) => String::new(),
        _ => serde_json::to_string_pretty(input).unwrap_or_default(),
    }
}

fn kept(text: &str, most: usize) -> (String, bool) {
    match text.len() > most {
        true => (text[..text.floor_char_boundary(most)].to_owned(), true),
        false => (text.to_owned(), false),
    }
}

/// The beginning of a text, with a note on how much is missing.
fn kept_saying(text: &str) -> (String, bool) {
    let (mut begin, cut) = kept(text, MAX_KEPT_BYTES);
    if cut {
        begin.push_str(&format!("\n… ({} bytes more)", text.len() - MAX_KEPT_BYTES));
    }
    (begin, cut)
}
