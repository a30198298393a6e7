//! Tree of a conversation's turns.
//!
//! Promise: every turn is there once, under the one that it follows, with the path of a resume marked; turns beyond
//! [`MAX_TURNS`] are counted.
//! Not here: drawing it. Start with [`tree`].

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::TranscriptKind;
use crate::conversation_graph::ConversationGraph;
use crate::location;
use crate::record_excerpts;
use crate::transcript_index::{self, TranscriptIndex, bit};

/// Limit for turns.
pub const MAX_TURNS: usize = 50_000;

/// First record of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOpening {
    /// Text that a user or program sent to the agent.
    Prompt,
    /// An answer on another branch than the one that follows its prompt.
    Answer,
    /// A compaction of the conversation.
    Compaction,
    /// Another record, at the beginning of a file.
    Other,
}

/// A turn: a prompt, and the records up to the next one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TreeTurn {
    /// Line of the first record.
    pub line: u64,
    /// Line of the last record.
    pub last_line: u64,
    /// Turn before this one: its place in the list, from 0.
    pub follows: Option<usize>,
    /// Kind of the first record.
    pub begins: TurnOpening,
    /// Time of the first record, in milliseconds since 1970.
    pub at_ms: Option<u64>,
    /// Beginning of its text.
    pub said: String,
    /// Id of the first record.
    pub uuid: Option<String>,
    /// Number of records.
    pub records: u64,
    /// True if a resume has the turn.
    pub resumed: bool,
    /// True if a resume goes on after the turn.
    pub is_end: bool,
}

/// A conversation as a tree of turns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ConversationTree {
    /// Path of the transcript.
    pub path: PathBuf,
    /// Agent that wrote it.
    pub agent: &'static str,
    /// Turns, in the order in which they began.
    pub turns: Vec<TreeTurn>,
    /// Number of further turns.
    pub more_turns: u64,
}

/// Marks the absence of a turn.
const NONE: u32 = u32::MAX;

/// Reads a conversation. The error says why the file has none.
pub fn tree(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<ConversationTree, String> {
    let mut survey = transcript_index::build_index(path, progress)?;
    let kind =
        survey.kind.ok_or_else(|| format!("{} has no record of Claude Code's or Codex's", path.display()))?;
    let shape = match kind {
        TranscriptKind::Claude => ConversationGraph::of(&mut survey),
        TranscriptKind::Codex => {
            // Codex: the turns follow each other, and a resume has all of them.
            for record in 0..survey.len() {
                survey.parents[record as usize] = record.checked_sub(1).unwrap_or(transcript_index::NONE);
                survey.bits[record as usize] |= bit::PATH;
            }
            ConversationGraph { leaf: survey.len().checked_sub(1), ..ConversationGraph::default() }
        }
    };
    let file = location::open_transcript(path)?;
    let wrong = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let begins: Vec<u32> = (0..survey.len()).filter(|at| can_start_turn(&survey, *at)).collect();
    let more_turns = begins.len().saturating_sub(MAX_TURNS) as u64;
    let begins = &begins[..begins.len().min(MAX_TURNS)];
    let lines = survey.lines_of(begins);
    let words = record_excerpts::fetch_excerpts(&file, &survey, lines.iter().copied()).map_err(wrong)?;
    let mut turns: Vec<TreeTurn> = Vec::new();
    let mut turn_of = vec![NONE; survey.len() as usize];
    let mut next = begins.iter().copied().zip(lines).peekable();
    for record in 0..survey.len() {
        let parent = survey.parent(record).map_or(NONE, |parent| turn_of[parent as usize]);
        let mut turn = parent;
        if let Some((_, line)) = next.next_if(|(at, _)| *at == record) {
            let found = &words[&line];
            let begins = if survey.is(record, bit::BOUNDARY) {
                TurnOpening::Compaction
            } else if survey.is(record, bit::PROMPT) && found.is_persons() {
                TurnOpening::Prompt
            } else if survey.is(record, bit::ASSISTANT) {
                TurnOpening::Answer
            } else {
                TurnOpening::Other
            };
            // Text that an agent wrote in the user's place is part of the surrounding turn.
            if begins != TurnOpening::Other || parent == NONE && kind == TranscriptKind::Claude {
                turn = turns.len() as u32;
                turns.push(TreeTurn {
                    line,
                    last_line: line,
                    follows: (parent != NONE).then_some(parent as usize),
                    begins,
                    at_ms: found.at_ms,
                    said: found.said.clone().unwrap_or_default(),
                    uuid: found.uuid.clone(),
                    records: 0,
                    resumed: survey.is(record, bit::PATH),
                    is_end: false,
                });
            }
        }
        turn_of[record as usize] = turn;
        if let Some(turn) = turns.get_mut(turn as usize) {
            turn.records += 1;
            turn.last_line = u64::from(record);
            turn.is_end |= shape.leaf == Some(record);
        }
    }
    // `last_line` has the last record of each turn until now; from here on its line.
    let mut lasts: Vec<u32> = turns.iter().map(|turn| turn.last_line as u32).collect();
    lasts.sort_unstable();
    lasts.dedup();
    let lines = survey.lines_of(&lasts);
    for turn in &mut turns {
        let at = lasts.binary_search(&(turn.last_line as u32)).expect("it was put there");
        turn.last_line = lines[at];
    }
    Ok(ConversationTree { path: path.to_owned(), agent: kind.word(), turns, more_turns })
}

/// True if a turn may begin with this record.
fn can_start_turn(survey: &TranscriptIndex, record: u32) -> bool {
    if survey.is(record, bit::SIDE) {
        return false;
    }
    let parent = survey.parent(record);
    let is_branch = parent.is_some_and(|parent| survey.is(parent, bit::FORK))
        && survey.is(record, bit::HAS_CONTENT)
        && survey.is(record, bit::ASSISTANT)
        && !survey.is(record, bit::SYNTHETIC);
    let is_first = parent.is_none() && survey.is(record, bit::HAS_CONTENT);
    survey.is(record, bit::PROMPT | bit::BOUNDARY) || is_branch || is_first
}
