//! Matches for programs: the lines of `berth grep --json`.

use berth_api::Timestamp;
use berth_api::turn::turn_id;
use schemars::JsonSchema;
use serde::Serialize;

use super::session::{MatchPlace, SearchHit, SearchSubject};

/// A line of `berth grep --json`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FoundLine")]
pub struct FoundLine {
    /// Id of the session.
    pub session: String,
    /// Name of the session.
    pub name: Option<String>,
    /// Part of the session: `prompt`, `answer`, `late`, `ask`, `work`, `output` or `conversation`.
    pub part: &'static str,
    /// Id of the turn that the line belongs to.
    pub turn: Option<String>,
    /// Offset of the line in the output, or in `file`, in bytes.
    pub offset: Option<u64>,
    /// Path of the agent's own transcript, if the line is from there.
    pub file: Option<String>,
    /// Time at which the line was said or written, if known.
    pub at: Option<Timestamp>,
    /// Text of the line, without controls and escapes.
    pub line: String,
    /// True if the line is longer than the text here.
    pub cut: bool,
    /// Matches in `line`; empty for a line of context.
    pub matches: Vec<MatchSpan>,
}

/// A match in a line.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct MatchSpan {
    /// Offset of the match in `line`, in bytes.
    pub start: usize,
    /// Offset of the byte after the match.
    pub end: usize,
    /// Text of the match.
    pub text: String,
}

impl FoundLine {
    /// Makes a line for programs from a match.
    pub fn of(subject: &SearchSubject, hit: &SearchHit) -> Self {
        let (mut line, mut matches, mut at) = (String::new(), Vec::new(), 0);
        for (begin, end) in &hit.found.spans {
            line.push_str(&String::from_utf8_lossy(&hit.found.text[at..*begin]));
            let text = String::from_utf8_lossy(&hit.found.text[*begin..*end]).into_owned();
            matches.push(MatchSpan { start: line.len(), end: line.len() + text.len(), text: text.clone() });
            line.push_str(&text);
            at = *end;
        }
        line.push_str(&String::from_utf8_lossy(&hit.found.text[at..]));
        let is_in_file = match hit.part {
            MatchPlace::Work | MatchPlace::Output | MatchPlace::Conversation => true,
            MatchPlace::Turns
            | MatchPlace::Prompt
            | MatchPlace::Answer
            | MatchPlace::Late
            | MatchPlace::Ask => false,
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
