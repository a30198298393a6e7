//! One thing that was said or done in a turn.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::words;

/// How much of a text is kept.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// How much of what goes into a tool, and of what comes out of it, is kept.
const MAX_KEPT_BYTES: usize = 16 * 1024;
/// How much of a file, before and after a change of it, is kept.
const MAX_DIFF_BYTES: usize = 64 * 1024;
/// How long the summary of what a tool was given is.
const SUMMARY_CHARS: usize = 200;

/// One thing that was said or done.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "TranscriptItem")]
pub enum Item {
    /// The agent said something.
    Text {
        /// What, as Markdown.
        text: String,
        /// It is longer.
        cut: bool,
    },
    /// The agent thought something.
    Thought {
        /// What.
        text: String,
        /// It is longer.
        cut: bool,
    },
    /// The agent used a tool.
    Tool(Box<Tool>),
}

/// One use of a tool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ToolUse")]
pub struct Tool {
    /// The agent's own id of it.
    pub id: String,
    /// The name of the tool; empty if unknown.
    pub name: String,
    /// How what it was given begins, on one line.
    pub summary: String,
    /// What it was given, as people would write it.
    pub given: String,
    /// What it was given, as it is; nothing if that is too much.
    pub input: Value,
    /// The result; nothing if unknown.
    pub output: Option<String>,
    /// What came of it is longer.
    pub output_cut: bool,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether it is over.
    pub is_over: bool,
    /// What it changed in files.
    pub diffs: Vec<Diff>,
    /// The use of a tool that it is a part of, by id: of an agent within the agent.
    pub within: Option<String>,
}

/// A change of a file: what was there and what is, or the difference between the two.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct Diff {
    /// The file.
    pub path: String,
    /// What was there; nothing for a new file.
    pub old: Option<String>,
    /// What is there now.
    pub new: Option<String>,
    /// The difference, in the unified format. The numbers in its hunks are those of the file, where it has hunks.
    pub unified: Option<String>,
    /// True if `old` and `new` are all of the file, so that their lines have the numbers they have in it; false for a
    /// part of the file, whose place in it is unknown.
    pub whole: bool,
    /// There is more of it.
    pub cut: bool,
}

impl Item {
    /// The agent said this.
    pub(super) fn text(text: &str) -> Self {
        let (text, cut) = kept(text, MAX_TEXT_BYTES);
        Self::Text { text, cut }
    }

    /// The agent thought this.
    pub(super) fn thought(text: &str) -> Self {
        let (text, cut) = kept(text, MAX_TEXT_BYTES);
        Self::Thought { text, cut }
    }

    /// More of the same; whether it is.
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

    /// About how much room it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } | Self::Thought { text, .. } => text.len(),
            Self::Tool(tool) => tool.bytes(),
        }
    }
}

impl Tool {
    /// Notes what it was given.
    pub(super) fn give(&mut self, input: &Value) {
        (self.given, _) = kept_saying(&given(input));
        self.summary = words::excerpt(&self.given, SUMMARY_CHARS);
        let length = serde_json::to_string(input).map_or(usize::MAX, |json| json.len());
        self.input = if length <= MAX_DIFF_BYTES { input.clone() } else { Value::Null };
    }

    /// Notes what came of it.
    pub(super) fn result(&mut self, output: &str) {
        let (output, cut) = kept_saying(output);
        (self.output, self.output_cut) = (Some(output), cut);
    }

    /// About how much room it takes.
    fn bytes(&self) -> usize {
        let diff = |diff: &Diff| {
            [&diff.old, &diff.new, &diff.unified].into_iter().flatten().map(String::len).sum::<usize>()
        };
        let input = if self.input.is_null() { 0 } else { 2 * self.given.len() };
        let output = self.output.as_ref().map_or(0, String::len);
        self.given.len() + input + output + self.diffs.iter().map(diff).sum::<usize>()
    }
}

impl Diff {
    /// A change of a part of a file.
    pub(super) fn of(path: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let part = |text: Option<&str>| text.map(|text| kept(text, MAX_DIFF_BYTES)).unzip();
        let ((old, old_cut), (new, new_cut)) = (part(old), part(new));
        let cut = old_cut.unwrap_or(false) || new_cut.unwrap_or(false);
        Self { path: path.to_owned(), old, new, unified: None, whole: false, cut }
    }

    /// A change of all of a file.
    pub(super) fn whole(path: &str, old: Option<&str>, new: Option<&str>) -> Self {
        Self { whole: true, ..Self::of(path, old, new) }
    }

    /// A difference somebody else made.
    pub(super) fn unified(path: &str, text: &str) -> Self {
        let (text, cut) = kept(text, MAX_DIFF_BYTES);
        Self { path: path.to_owned(), unified: Some(text), cut, ..Self::default() }
    }
}

/// What a tool is given, as people would write it.
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

/// The same, and the text itself says how much is missing.
fn kept_saying(text: &str) -> (String, bool) {
    let (mut begin, cut) = kept(text, MAX_KEPT_BYTES);
    if cut {
        begin.push_str(&format!("\n… ({} bytes more)", text.len() - MAX_KEPT_BYTES));
    }
    (begin, cut)
}
