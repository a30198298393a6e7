//! Reads the transcripts that agents keep themselves.
//!
//! After a crash nobody heard how a turn ended. Claude Code and Codex write down what was said; [`fate`] looks
//! there. Measured with Claude Code 2.1.325 and Codex 0.166.0: an agent reports the end of a turn only after
//! it is in its transcript, so a transcript without the end is of a turn whose end nobody was told.
//! Promise: [`Fate::Done`], [`Fate::Failed`], [`Fate::Rejected`] and [`Fate::Unfinished`] rest on records; whatever is torn, missing
//! or ambiguous is [`Fate::CannotTell`]. However large a transcript is, no more than one
//! record and one answer of it are in memory, and both have limits.
//!
//! And what they wrote can be broken: [`check`] finds that, [`tree`] shows it, [`repair`] makes a copy that is whole. All
//! three go by a `survey` of the file. An original is never opened for writing.
//! Not here: whether the agent's process is gone (the caller has proven that before it asks).
//! Start with [`fate`], and with [`check::check`].

#![forbid(unsafe_code)]

pub mod allowance;
pub mod check;
mod claude;
mod codex;
mod head;
mod json;
mod lines;
mod place;
pub mod repair;
mod shape;
pub mod shelf;
pub mod since;
mod survey;
pub mod tree;
mod walk;
mod words;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

pub use place::{EveryFile, Kind, Own, config_dir, every_file, is_plain_id, open, own};
pub use survey::kind_in;

/// How much of an answer is kept.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// How much of a transcript is read for the fate of a turn.
const MAX_FATE_BYTES: u64 = 64 << 20;
/// How far a record's clock may be behind ours: both read the same one, not at the same moment.
const CLOCK_SLACK_MS: u64 = 100;

/// What became of a turn, by the agent's own record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It came to its end, and this is what the agent said last.
    Done {
        /** It. */
        answer: String,
        /** Whether that is only the beginning of it. */
        cut: bool,
    },
    /// It came to its end without an answer.
    Failed {
        /** What the agent wrote down. */
        why: String,
    },
    /// It came to its end because the model could not be asked.
    Rejected {
        /** The error that the agent wrote down. */
        why: String,
    },
    /// It did not come to its end. What it did until then is done.
    Unfinished {
        /** What the record shows. */
        why: String,
        /** How far the record follows it. */
        progress: Progress,
    },
    /// The record does not say.
    CannotTell {
        /** Why not. */
        why: String,
    },
}

/// How far the record of an agent follows a turn that has no end in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The prompt is not in it.
    NoPrompt,
    /// The prompt is in it, and no end.
    Open,
    /// It says that the turn was broken off.
    BrokenOff,
}

/// A prompt that was given to an agent: always the last one of its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// What was said.
    pub text: &'a str,
    /// The id we gave it and the agent wrote down: the `uuid` of a message to Claude Code, the
    /// `clientUserMessageId` of one to Codex. Without it the words alone have to do, and words repeat.
    pub id: Option<&'a str>,
    /// When it was given, in milliseconds since 1970. Tells the same words, said before, from these.
    pub given_at_ms: Option<u64>,
    /// Whether the conversation began with it. An agent that dies early leaves no transcript at all then, and
    /// that counts as proof: do not say so of one that was told to keep none (`--no-session-persistence`).
    pub first: bool,
    /// Whether the machine has been up ever since. No agent syncs its transcript, so after a power cut the end
    /// of a turn may be missing that was reached.
    pub same_boot: bool,
    /// Whether it was typed into a terminal, which changes blanks and line ends: then only the words are compared.
    pub typed: bool,
    /// How long the record was when the prompt was given, in bytes: what is before that is not read.
    pub from_bytes: u64,
}

impl<'a> Asked<'a> {
    /// Just the words, somewhere in a conversation, on a machine that stayed up.
    pub fn new(text: &'a str) -> Self {
        Self { text, id: None, given_at_ms: None, first: false, same_boot: true, typed: false, from_bytes: 0 }
    }

    /// Whether this is the text of the prompt.
    fn is_text(&self, text: &str) -> bool {
        text == self.text || (self.typed && text.split_whitespace().eq(self.text.split_whitespace()))
    }

    /// Whether a record with this time is of an earlier prompt.
    fn is_before(&self, record_ms: Option<u64>) -> bool {
        matches!((self.given_at_ms, record_ms), (Some(given), Some(record)) if record + CLOCK_SLACK_MS < given)
    }
}

/// What became of the last turn of a conversation, when the agent's process is proven to be gone. `env` is the
/// environment the agent ran with: it says where the transcripts are. At most `MAX_FATE_BYTES` are read: a keeper
/// answers no client meanwhile, and the agent can make its record as large as it likes.
pub fn fate(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    asked: &Asked<'_>,
) -> Fate {
    let cannot_tell = |why: String| Fate::CannotTell { why };
    let Some(kind) = Kind::of(kind) else {
        return cannot_tell(format!("how {kind} keeps its conversations is not known"));
    };
    let mut files = match place::files(kind, conversation_id, &env) {
        Ok(files) => files,
        Err(why) => return cannot_tell(why),
    };
    let Some(found) = files.pop() else {
        let why = format!("{} kept no record of conversation {conversation_id}", kind.word());
        let unfinished = |why| Fate::Unfinished { why, progress: Progress::NoPrompt };
        return if asked.first && asked.same_boot { unfinished(why) } else { cannot_tell(why) };
    };
    if let Some(other) = files.pop() {
        let (one, other) = (found.path.display(), other.path.display());
        return cannot_tell(format!(
            "there are two records of conversation {conversation_id}: {one} and {other}"
        ));
    }
    let mut file = match place::open(&found.path) {
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
            Kind::Claude => claude::fate(tail, asked)?,
            Kind::Codex => codex::fate(tail, asked)?,
        };
        Ok(match fate {
            Fate::Unfinished { progress: Progress::NoPrompt, .. } if !is_all => {
                cannot_tell(format!("only the last {} MiB of the record are read", MAX_FATE_BYTES >> 20))
            }
            fate => fate,
        })
    });
    read.unwrap_or_else(|error| cannot_tell(format!("cannot read {}: {error}", found.path.display())))
}

/// Moves to what was written since the prompt, unless another file is in the place of that one, and at most
/// [`MAX_FATE_BYTES`] before the end. False if that leaves out records that were written since.
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

/// Whether the agent has anything to take up under this id; `None` if that cannot be told. False for a file
/// that is there and has nothing said in it: Claude Code neither resumes that nor starts anew under its id.
pub fn exists(kind: &str, conversation_id: &str, env: impl Fn(&str) -> Option<OsString>) -> Option<bool> {
    let kind = Kind::of(kind)?;
    let files = place::files(kind, conversation_id, &env).ok()?;
    let mut any = false;
    for found in files.iter().filter(|found| !found.is_archived) {
        let file: File = place::open(&found.path).ok()?;
        any |= match kind {
            Kind::Claude => claude::has_words(&file).ok()?,
            Kind::Codex => found.is_compressed || codex::has_words(&file).ok()?,
        };
    }
    Some(any)
}

/// The files that have a conversation, for whoever wants to read them: those that are compressed are left out.
pub fn files(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<PathBuf>, String> {
    let Some(kind) = Kind::of(kind) else { return Ok(Vec::new()) };
    let found = place::files(kind, conversation_id, &env)?.into_iter().filter(|found| !found.is_compressed);
    Ok(found.map(|found| found.path).filter(|path| place::open(path).is_ok()).collect())
}

/// Cuts an answer to what is kept, at the end of a character.
fn keep(mut answer: String) -> Fate {
    let cut = answer.len() > MAX_ANSWER_BYTES;
    answer.truncate(answer.floor_char_boundary(MAX_ANSWER_BYTES));
    Fate::Done { answer, cut }
}

/// How a prompt was recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Match {
    /// By its words.
    Words,
    /// By the id we gave it.
    Id,
}

/// What a scan of a transcript came to, before the doubts.
#[derive(Debug)]
enum Scan {
    /// The prompt is not there; `bad` records could not be read.
    Missing { bad: usize },
    Found {
        by: Match,
        at_ms: Option<u64>,
        /// Records after the prompt that could not be read.
        bad: usize,
        end: End,
    },
}

/// How far a turn got.
#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    /// Not to its end, because the rest is missing.
    Open(String),
    /// Not to its end, says the record itself.
    BrokenOff(String),
    Done(String),
    Failed(String),
    Rejected(String),
    /// It got somewhere, and whether that is the end is not recorded.
    Unclear(String),
}

/// Weighs what a scan found.
fn judge(scan: Scan, asked: &Asked<'_>) -> Fate {
    let cannot_tell = |why: &str| Fate::CannotTell { why: why.to_owned() };
    let missing = |bad: usize| {
        if bad > 0 {
            cannot_tell("the prompt is not in the agent's record, and parts of that cannot be read")
        } else if !asked.same_boot {
            cannot_tell(
                "the prompt is not in the agent's record, which may have lost its end with the machine",
            )
        } else {
            let why = "the agent's record does not have the prompt".to_owned();
            Fate::Unfinished { why, progress: Progress::NoPrompt }
        }
    };
    let (by, at_ms, bad, end) = match scan {
        Scan::Missing { bad } => return missing(bad),
        Scan::Found { by, at_ms, bad, end } => (by, at_ms, bad, end),
    };
    match (by, asked.id) {
        (Match::Id, _) | (Match::Words, None) => {}
        // Two witnesses say that this is another prompt of the same words: its id and its time.
        (Match::Words, Some(_)) if asked.is_before(at_ms) => return missing(bad),
        (Match::Words, Some(_)) => {
            return cannot_tell("the agent's record has the words of the prompt, and not under its id");
        }
    }
    if by == Match::Words && asked.is_before(at_ms) {
        return cannot_tell("the agent's record has the words of the prompt, and from before it was given");
    }
    match end {
        End::Done(answer) => keep(answer),
        End::Failed(why) => Fate::Failed { why },
        End::Rejected(why) => Fate::Rejected { why },
        End::BrokenOff(why) => Fate::Unfinished { why, progress: Progress::BrokenOff },
        End::Unclear(why) => Fate::CannotTell { why },
        End::Open(_) if bad > 0 => {
            cannot_tell("the end of the turn is not in the agent's record, and parts of that cannot be read")
        }
        End::Open(_) if !asked.same_boot => cannot_tell(
            "the end of the turn is not in the agent's record, which may have lost its end with the machine",
        ),
        End::Open(why) => Fate::Unfinished { why, progress: Progress::Open },
    }
}

/// A time as agents write it, `2026-11-16T08:57:35.614Z`, in milliseconds since 1970.
pub fn moment(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()).ok()
}
