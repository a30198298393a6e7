//! What was found, for programs: a line of `berth grep --json`.

use berth_api::Timestamp;
use berth_api::turn::turn_id;
use schemars::JsonSchema;
use serde::Serialize;

use super::session::{Hit, Part, Subject};

/// A line of `berth grep --json`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FoundLine")]
pub struct Line {
    /// The session's id.
    pub session: String,
    /// What people call it.
    pub name: Option<String>,
    /// Where: `prompt`, `answer`, `late`, `ask`, `work`, `output` or `conversation`.
    pub part: &'static str,
    /// The turn it belongs to, by id.
    pub turn: Option<String>,
    /// Where in the output, or in `file`, the line begins.
    pub offset: Option<u64>,
    /// The agent's own file, if it was there.
    pub file: Option<String>,
    /// When it was said or written, if that is known.
    pub at: Option<Timestamp>,
    /// The line, without controls and escapes.
    pub line: String,
    /// The line is longer.
    pub cut: bool,
    /// Empty for a line that only stands around a match.
    pub matches: Vec<Span>,
}

/// A match in a line.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Span {
    /// Its first byte in `line`.
    pub start: usize,
    /// The byte behind its last.
    pub end: usize,
    /// It.
    pub text: String,
}

impl Line {
    /// What was found, for programs.
    pub fn of(subject: &Subject, hit: &Hit) -> Self {
        let (mut line, mut matches, mut at) = (String::new(), Vec::new(), 0);
        for (begin, end) in &hit.found.spans {
            line.push_str(&String::from_utf8_lossy(&hit.found.text[at..*begin]));
            let text = String::from_utf8_lossy(&hit.found.text[*begin..*end]).into_owned();
            matches.push(Span { start: line.len(), end: line.len() + text.len(), text: text.clone() });
            line.push_str(&text);
            at = *end;
        }
        line.push_str(&String::from_utf8_lossy(&hit.found.text[at..]));
        let is_in_file = match hit.part {
            Part::Work | Part::Output | Part::Conversation => true,
            Part::Turns | Part::Prompt | Part::Answer | Part::Late | Part::Ask => false,
        };
        Self {
            session: subject.id.to_string(),
            name: subject.status.name.clone(),
            part: hit.part.word(),
            turn: hit.turn.map(|turn| turn_id(subject.id.as_str(), turn)),
            offset: is_in_file.then_some(hit.found.offset),
            file: hit.file.as_ref().map(|file| file.display().to_string()),
            at: hit.at,
            line,
            cut: hit.found.cut.0 || hit.found.cut.1,
            matches,
        }
    }
}
