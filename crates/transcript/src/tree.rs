//! The turns of a conversation and how they hang together.
//!
//! Promise: every turn is there once, under the one it followed, with the path that a resume takes marked; of more than
//! [`MAX_TURNS`] the number is said.
//! Not here: drawing it. Start with [`tree`].

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Kind;
use crate::place;
use crate::shape::Shape;
use crate::survey::{self, Survey, bit};
use crate::words;

/// How many turns are told.
pub const MAX_TURNS: usize = 50_000;

/// What a turn begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begins {
    /// Something that was asked.
    Prompt,
    /// An answer that is on another branch than what follows its prompt.
    Answer,
    /// The conversation was compacted.
    Compaction,
    /// Something else, at the beginning of a file.
    Other,
}

/// A turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Turn {
    /// Where its first record is.
    pub line: u64,
    /// Where the last one is that was written.
    pub last_line: u64,
    /// The turn it follows: its place in the list, from 0.
    pub follows: Option<usize>,
    /// What it begins with.
    pub begins: Begins,
    /// When, in milliseconds since 1970.
    pub at_ms: Option<u64>,
    /// How it begins.
    pub said: String,
    /// The id of its first record.
    pub uuid: Option<String>,
    /// How many records it has.
    pub records: u64,
    /// Whether a resume has it.
    pub resumed: bool,
    /// Whether a resume goes on behind it.
    pub is_end: bool,
}

/// A conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Tree {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub agent: &'static str,
    /// Its turns, in the order in which they were begun.
    pub turns: Vec<Turn>,
    /// How many more there are.
    pub more_turns: u64,
}

/// No turn.
const NONE: u32 = u32::MAX;

/// Reads a conversation. The error says why there is none.
pub fn tree(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Tree, String> {
    let mut survey = survey::survey(path, progress)?;
    let kind =
        survey.kind.ok_or_else(|| format!("{} has no record of Claude Code's or Codex's", path.display()))?;
    let shape = match kind {
        Kind::Claude => Shape::of(&mut survey),
        Kind::Codex => {
            // One after the other, and all of it is taken up.
            for record in 0..survey.len() {
                survey.parents[record as usize] = record.checked_sub(1).unwrap_or(survey::NONE);
                survey.bits[record as usize] |= bit::PATH;
            }
            Shape { leaf: survey.len().checked_sub(1), ..Shape::default() }
        }
    };
    let file = place::open(path)?;
    let wrong = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let begins: Vec<u32> = (0..survey.len()).filter(|at| may_begin(&survey, *at)).collect();
    let more_turns = begins.len().saturating_sub(MAX_TURNS) as u64;
    let begins = &begins[..begins.len().min(MAX_TURNS)];
    let lines = survey.lines_of(begins);
    let words = words::fetch(&file, &survey, lines.iter().copied()).map_err(wrong)?;
    let mut turns: Vec<Turn> = Vec::new();
    let mut turn_of = vec![NONE; survey.len() as usize];
    let mut next = begins.iter().copied().zip(lines).peekable();
    for record in 0..survey.len() {
        let parent = survey.parent(record).map_or(NONE, |parent| turn_of[parent as usize]);
        let mut turn = parent;
        if let Some((_, line)) = next.next_if(|(at, _)| *at == record) {
            let found = &words[&line];
            let begins = if survey.is(record, bit::BOUNDARY) {
                Begins::Compaction
            } else if survey.is(record, bit::PROMPT) && found.is_persons() {
                Begins::Prompt
            } else if survey.is(record, bit::ASSISTANT) {
                Begins::Answer
            } else {
                Begins::Other
            };
            // What an agent put into the mouth of a user is part of the turn it is in.
            if begins != Begins::Other || parent == NONE && kind == Kind::Claude {
                turn = turns.len() as u32;
                turns.push(Turn {
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
    // Until now the last record of each; now its line.
    let mut lasts: Vec<u32> = turns.iter().map(|turn| turn.last_line as u32).collect();
    lasts.sort_unstable();
    lasts.dedup();
    let lines = survey.lines_of(&lasts);
    for turn in &mut turns {
        let at = lasts.binary_search(&(turn.last_line as u32)).expect("it was put there");
        turn.last_line = lines[at];
    }
    Ok(Tree { path: path.to_owned(), agent: kind.word(), turns, more_turns })
}

/// Whether a turn may begin with a record.
fn may_begin(survey: &Survey, record: u32) -> bool {
    if survey.is(record, bit::SIDE) {
        return false;
    }
    let parent = survey.parent(record);
    let is_branch = parent.is_some_and(|parent| survey.is(parent, bit::FORK))
        && survey.is(record, bit::CARRIES)
        && survey.is(record, bit::ASSISTANT)
        && !survey.is(record, bit::SYNTHETIC);
    let is_first = parent.is_none() && survey.is(record, bit::CARRIES);
    survey.is(record, bit::PROMPT | bit::BOUNDARY) || is_branch || is_first
}
