//! Reader of the transcripts that agents keep themselves.
//!
//! After a crash the end of a turn may be unknown. Claude Code and Codex record their dialogue; [`turn_fate`] looks there.
//! Verified with the versions of docs/agents.md: an agent reports the end of a turn only after writing it to its
//! transcript, so if the transcript lacks the end, no client was told of one.
//! Promise: [`TurnFate::Done`], [`TurnFate::Failed`], [`TurnFate::Rejected`] and [`TurnFate::Unfinished`] rest on records; a torn,
//! missing or ambiguous record gives [`TurnFate::CannotTell`]. However large a transcript is, at most one record and one
//! answer of it are in memory, and both have limits.
//!
//! A transcript may also be damaged: [`check`] finds the damage, [`tree`] shows the turns, [`repair`] makes a repaired
//! copy. All three use a `survey` of the file. An original is never opened for writing.
//! Not here: proof that the agent's process is gone (the caller has it before it asks).
//! Start with [`turn_fate`], and with [`check::check`].

#![forbid(unsafe_code)]

pub mod check;
mod claude;
mod codex;
pub mod conversation_catalog;
mod conversation_graph;
mod json;
mod lines;
mod location;
pub mod new_messages;
pub mod read_budget;
mod record_excerpts;
mod record_scanner;
mod record_summary;
pub mod repair;
mod transcript_index;
pub mod tree;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

pub use location::{
    AllTranscripts, TranscriptKind, TranscriptPath, agents_own_path, config_dir, every_file, is_plain_id,
    open_transcript,
};
pub use transcript_index::kind_in;

/// Limit for an answer; the rest is cut.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Limit for the part of a transcript that is read for the fate of a turn.
const MAX_FATE_BYTES: u64 = 64 << 20;
/// How far a record's clock may be behind ours: both read the same one, not at the same moment.
const CLOCK_SLACK_MS: u64 = 100;

/// Fate of a turn, by the agent's transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TurnFate {
    /// The turn ended with this answer.
    Done {
        /** Last text of the agent. */
        answer: String,
        /** True if the answer is cut to its beginning. */
        cut: bool,
    },
    /// The turn ended without an answer.
    Failed {
        /** The agent's own words. */
        why: String,
    },
    /// The turn ended because the model could not be asked.
    Rejected {
        /** The error that the agent wrote down. */
        why: String,
    },
    /// The turn did not end. Actions of the agent before that have happened.
    Unfinished {
        /** State of the turn, in words. */
        why: String,
        /** Last step of the turn that is in the record. */
        progress: RecordedProgress,
    },
    /// The record does not show the fate.
    CannotTell {
        /** Reason, in words. */
        why: String,
    },
}

/// Last step of an unfinished turn that is in the agent's transcript.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedProgress {
    /// The record does not have the prompt.
    NoPrompt,
    /// The record has the prompt, and no end.
    Open,
    /// The record says that the turn was interrupted.
    BrokenOff,
}

/// A prompt that was given to an agent: always the last one of its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenPrompt<'a> {
    /// Text of the prompt.
    pub text: &'a str,
    /// Id that berth gave the prompt and the agent recorded: the `uuid` of a message to Claude Code, the
    /// `clientUserMessageId` of one to Codex. Without it only the words identify the prompt, and words repeat.
    pub id: Option<&'a str>,
    /// Time of the prompt, in milliseconds since 1970. It distinguishes the prompt from earlier ones with equal words.
    pub given_at_ms: Option<u64>,
    /// True if the conversation began with this prompt. An agent that dies early leaves no transcript at all then, and
    /// that counts as proof: set it to false for an agent that was told to keep none (`--no-session-persistence`).
    pub first: bool,
    /// True if the machine was not rebooted since. Agents do not sync their transcripts, so after a power cut the end
    /// of a finished turn may be missing.
    pub same_boot: bool,
    /// True if the prompt was typed into a terminal, which changes spaces and line ends: then only the words are
    /// compared.
    pub typed: bool,
    /// Size of the record when the prompt was given, in bytes: the part before is not read.
    pub from_bytes: u64,
}

impl<'a> GivenPrompt<'a> {
    /// A prompt of which only the words are known, on a machine that was not rebooted.
    pub fn new(text: &'a str) -> Self {
        Self { text, id: None, given_at_ms: None, first: false, same_boot: true, typed: false, from_bytes: 0 }
    }

    /// True if this is the text of the prompt.
    fn is_text(&self, text: &str) -> bool {
        text == self.text || (self.typed && text.split_whitespace().eq(self.text.split_whitespace()))
    }

    /// True if a record with this time belongs to an earlier prompt.
    fn is_before(&self, record_ms: Option<u64>) -> bool {
        matches!((self.given_at_ms, record_ms), (Some(given), Some(record)) if record + CLOCK_SLACK_MS < given)
    }
}

/// The fate of the last turn of a conversation, after the agent's process is proven to be gone. `env` is the agent's
/// environment, which says where the transcripts are. At most `MAX_FATE_BYTES` are read: a keeper answers no client
/// meanwhile, and the agent can make its record as large as it likes.
pub fn turn_fate(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    asked: &GivenPrompt<'_>,
) -> TurnFate {
    let cannot_tell = |why: String| TurnFate::CannotTell { why };
    let Some(kind) = TranscriptKind::of(kind) else {
        return cannot_tell(format!("berth cannot read the conversations of agent `{kind}`"));
    };
    let mut files = match location::files(kind, conversation_id, &env) {
        Ok(files) => files,
        Err(why) => return cannot_tell(why),
    };
    let Some(found) = files.pop() else {
        let why = format!("{} kept no record of conversation {conversation_id}", kind.word());
        let unfinished = |why| TurnFate::Unfinished { why, progress: RecordedProgress::NoPrompt };
        return if asked.first && asked.same_boot { unfinished(why) } else { cannot_tell(why) };
    };
    if let Some(other) = files.pop() {
        let (one, other) = (found.path.display(), other.path.display());
        return cannot_tell(format!(
            "there are two records of conversation {conversation_id}: {one} and {other}"
        ));
    }
    let mut file = match location::open_transcript(&found.path) {
        Ok(file) => file,
        Err(why) => return cannot_tell(why),
    };
    if found.is_compressed {
        return cannot_tell(format!("{} is compressed", found.path.display()));
    }
    let read = skip_to_tail(&mut file, asked.from_bytes).and_then(|is_all| {
        // The file may grow meanwhile.
        let tail = (&file).take(MAX_FATE_BYTES);
        let fate = match kind {
            TranscriptKind::Claude => claude::fate(tail, asked)?,
            TranscriptKind::Codex => codex::fate(tail, asked)?,
        };
        Ok(match fate {
            TurnFate::Unfinished { progress: RecordedProgress::NoPrompt, .. } if !is_all => {
                cannot_tell(format!("only the last {} MiB of the record are read", MAX_FATE_BYTES >> 20))
            }
            fate => fate,
        })
    });
    read.unwrap_or_else(|error| cannot_tell(format!("cannot read {}: {error}", found.path.display())))
}

/// Seeks to the records since the prompt, unless the file was replaced, and at most [`MAX_FATE_BYTES`] before the end.
/// False if that skips records since the prompt.
fn skip_to_tail(file: &mut File, from_bytes: u64) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    let from_bytes = if from_bytes > bytes { 0 } else { from_bytes };
    let tail = bytes.saturating_sub(MAX_FATE_BYTES);
    if tail <= from_bytes {
        file.seek(SeekFrom::Start(from_bytes))?;
        return Ok(true);
    }
    file.seek(SeekFrom::Start(tail))?;
    lines::skip_rest(file)?;
    Ok(false)
}

/// True if the agent can resume a conversation with this id; `None` if unknown. False for an existing file without
/// dialogue: Claude Code neither resumes it nor starts anew under its id.
pub fn transcript_exists(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Option<bool> {
    let kind = TranscriptKind::of(kind)?;
    let files = location::files(kind, conversation_id, &env).ok()?;
    let mut any = false;
    for found in files.iter().filter(|found| !found.is_archived) {
        let file: File = location::open_transcript(&found.path).ok()?;
        any |= match kind {
            TranscriptKind::Claude => claude::has_words(&file).ok()?,
            TranscriptKind::Codex => found.is_compressed || codex::has_words(&file).ok()?,
        };
    }
    Some(any)
}

/// The readable files of a conversation: compressed ones are left out.
pub fn transcript_files(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<PathBuf>, String> {
    let Some(kind) = TranscriptKind::of(kind) else { return Ok(Vec::new()) };
    let found =
        location::files(kind, conversation_id, &env)?.into_iter().filter(|found| !found.is_compressed);
    Ok(found.map(|found| found.path).filter(|path| location::open_transcript(path).is_ok()).collect())
}

/// Cuts an answer to the limit, at the end of a character.
fn keep(mut answer: String) -> TurnFate {
    let cut = answer.len() > MAX_ANSWER_BYTES;
    answer.truncate(answer.floor_char_boundary(MAX_ANSWER_BYTES));
    TurnFate::Done { answer, cut }
}

/// Evidence by which a prompt was recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PromptMatch {
    /// Equal words.
    Words,
    /// The id that berth gave the prompt.
    Id,
}

/// Raw result of reading a transcript.
#[derive(Debug)]
enum TurnScan {
    /// The prompt is missing; `bad` records could not be read.
    Missing { bad: usize },
    Found {
        by: PromptMatch,
        at_ms: Option<u64>,
        /// Records after the prompt that could not be read.
        bad: usize,
        end: ScannedEnd,
    },
}

/// Last step of a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ScannedEnd {
    /// The end is missing, for this reason.
    Open(String),
    /// The record itself says that the turn was interrupted.
    BrokenOff(String),
    Done(String),
    Failed(String),
    Rejected(String),
    /// The turn has an answer, but the record does not say whether it is complete.
    Unclear(String),
}

/// Turns the raw result into a fate, with all reasons for doubt.
fn decide_fate(scan: TurnScan, asked: &GivenPrompt<'_>) -> TurnFate {
    let cannot_tell = |why: &str| TurnFate::CannotTell { why: why.to_owned() };
    let missing = |bad: usize| {
        if bad > 0 {
            cannot_tell("the prompt is not in the agent's transcript, and parts of it cannot be read")
        } else if !asked.same_boot {
            cannot_tell(
                "the prompt is not in the agent's transcript, which may have lost its end with the machine",
            )
        } else {
            let why = "the agent's transcript does not have the prompt".to_owned();
            TurnFate::Unfinished { why, progress: RecordedProgress::NoPrompt }
        }
    };
    let (by, at_ms, bad, end) = match scan {
        TurnScan::Missing { bad } => return missing(bad),
        TurnScan::Found { by, at_ms, bad, end } => (by, at_ms, bad, end),
    };
    match (by, asked.id) {
        (PromptMatch::Id, _) | (PromptMatch::Words, None) => {}
        // Two facts prove that this is another prompt with equal words: its id and its time.
        (PromptMatch::Words, Some(_)) if asked.is_before(at_ms) => return missing(bad),
        (PromptMatch::Words, Some(_)) => {
            return cannot_tell("the agent's transcript has the text of the prompt under another id");
        }
    }
    if by == PromptMatch::Words && asked.is_before(at_ms) {
        return cannot_tell("the agent's transcript has this text only from before the prompt was sent");
    }
    match end {
        ScannedEnd::Done(answer) => keep(answer),
        ScannedEnd::Failed(why) => TurnFate::Failed { why },
        ScannedEnd::Rejected(why) => TurnFate::Rejected { why },
        ScannedEnd::BrokenOff(why) => TurnFate::Unfinished { why, progress: RecordedProgress::BrokenOff },
        ScannedEnd::Unclear(why) => TurnFate::CannotTell { why },
        ScannedEnd::Open(_) if bad > 0 => cannot_tell(
            "the end of the turn is not in the agent's transcript, and parts of it cannot be read",
        ),
        ScannedEnd::Open(_) if !asked.same_boot => cannot_tell(
            "the end of the turn is not in the agent's transcript, which may have lost its end with the machine",
        ),
        ScannedEnd::Open(why) => TurnFate::Unfinished { why, progress: RecordedProgress::Open },
    }
}

/// Parses a time as agents write it, `2026-11-16T08:57:35.614Z`, to milliseconds since 1970.
pub fn parse_timestamp_ms(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()).ok()
}
