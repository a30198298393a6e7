//! Records that were added to a conversation since the last look.
//!
//! An agent that keeps a conversation open does not read its file again: it never sees the records of another writer,
//! and its own next record begins a second branch. Claude Code takes no lock, so this happens; Codex takes one, so it
//! cannot.
//! Promise: at most `MAX_BYTES` are read, a line at a time; if that is not everything, or a line is too long, the
//! result says so, unless the rest is news already. Nothing is ever written.
//! Not here: the writer of the records (the caller knows what its own agent said).
//! Start with [`current_position`], then [`TranscriptPosition::news`].

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::claude::ClaudeContent;
use crate::lines::{self, TranscriptLine};
use crate::location::{self, TranscriptKind};
use crate::parse_timestamp_ms;

/// Limit for new records that are read.
const MAX_BYTES: u64 = 64 << 20;
/// Limit for the ids of answers.
const MOST_ANSWERS: usize = 1000;
/// Limit for the id of an answer.
const MAX_ID_BYTES: usize = 128;
/// Beginning of the agent's own note on an interruption.
const INTERRUPTED: &str = "[Request interrupted";
/// The agent's model name for answers that no model gave.
const SYNTHETIC: &str = "<synthetic>";

/// State of a conversation's file at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranscriptPosition {
    path: PathBuf,
    place: (u64, u64),
    bytes: u64,
}

/// Change of a conversation's file since a [`TranscriptPosition`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TranscriptUpdate {
    /// No prompt and no answer: the file is unchanged, or has new bookkeeping.
    Nothing,
    /// The file was replaced, or truncated.
    Replaced,
    /// New prompts or answers.
    Said {
        /** Ids of the answers, as the agent's output has them. */
        answers: Vec<String>,
        /** Number of prompts. */
        prompts: usize,
        /** Time of the last prompt with an answer, by the clock of its writer. */
        answered_prompt_at_ms: Option<u64>,
    },
    /// The change cannot be determined.
    CannotTell {
        /** Reason, in words. */
        why: String,
    },
}

/// Marks the current state of a conversation's file; `None` if there is not exactly one, or if its agent locks it.
pub fn current_position(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Option<TranscriptPosition> {
    match TranscriptKind::of(kind)? {
        TranscriptKind::Claude => {}
        TranscriptKind::Codex => return None,
    }
    let mut files = location::files(TranscriptKind::Claude, conversation_id, env).ok()?;
    let found = files.pop().filter(|_| files.is_empty())?;
    let file = fs::metadata(&found.path).ok()?;
    Some(TranscriptPosition { path: found.path, place: place_of(&file), bytes: file.len() })
}

fn place_of(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl TranscriptPosition {
    /// The current state of the file.
    pub fn again(&self) -> Option<Self> {
        let file = fs::metadata(&self.path).ok()?;
        Some(Self { path: self.path.clone(), place: place_of(&file), bytes: file.len() })
    }

    /// The change since this mark.
    pub fn news(&self) -> TranscriptUpdate {
        let cannot_tell = |why: String| TranscriptUpdate::CannotTell { why };
        let mut is_all;
        // The cheap check first: mostly the file did not change.
        match fs::metadata(&self.path) {
            Ok(file) if place_of(&file) != self.place || file.len() < self.bytes => {
                return TranscriptUpdate::Replaced;
            }
            Ok(file) if file.len() == self.bytes => return TranscriptUpdate::Nothing,
            Ok(file) => is_all = file.len() - self.bytes <= MAX_BYTES,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return TranscriptUpdate::Replaced,
            Err(error) => return cannot_tell(format!("cannot examine {}: {error}", self.path.display())),
        }
        let mut file: File = match location::open_transcript(&self.path) {
            Ok(file) => file,
            Err(why) => return cannot_tell(why),
        };
        let (mut answers, mut prompts) = (Vec::new(), 0);
        let (mut prompt_at_ms, mut answered_prompt_at_ms) = (None, None);
        let read = file.seek(SeekFrom::Start(self.bytes)).and_then(|_| {
            lines::each(file.take(MAX_BYTES), |line| {
                match line {
                    TranscriptLine::Whole(line) => match said(line) {
                        Some(MessageRecord::Answer(id)) => {
                            answered_prompt_at_ms = prompt_at_ms.or(answered_prompt_at_ms);
                            if answers.len() < MOST_ANSWERS {
                                answers.push(id);
                            }
                        }
                        Some(MessageRecord::Prompt { at_ms }) => {
                            prompts += 1;
                            prompt_at_ms = at_ms;
                        }
                        None => {}
                    },
                    TranscriptLine::TooLong => is_all = false,
                }
                ControlFlow::Continue(())
            })
        });
        match read {
            Err(error) => cannot_tell(format!("cannot read {}: {error}", self.path.display())),
            Ok(()) if answers.is_empty() && prompts == 0 && !is_all => {
                cannot_tell(format!("there is more new in {} than can be read", self.path.display()))
            }
            Ok(()) if answers.is_empty() && prompts == 0 => TranscriptUpdate::Nothing,
            Ok(()) => TranscriptUpdate::Said { answers, prompts, answered_prompt_at_ms },
        }
    }
}

enum MessageRecord {
    Answer(String),
    Prompt { at_ms: Option<u64> },
}

/// The prompt or answer of a record of the main conversation.
fn said(line: &[u8]) -> Option<MessageRecord> {
    let record: Value = serde_json::from_slice(line).ok()?;
    if record["isMeta"] == true || record["isSidechain"] == true {
        return None;
    }
    let message = &record["message"];
    match record["type"].as_str()? {
        "assistant" => {
            let id = record["uuid"]
                .as_str()
                .filter(|id| message["model"] != SYNTHETIC && id.len() <= MAX_ID_BYTES);
            id.map(|id| MessageRecord::Answer(id.to_owned()))
        }
        "user" => {
            let at_ms = record["timestamp"].as_str().and_then(parse_timestamp_ms);
            let text = ClaudeContent(&message["content"]).first_text();
            text.filter(|text| !text.starts_with(INTERRUPTED)).map(|_| MessageRecord::Prompt { at_ms })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use berth_test_dir::TestDir;

    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn prompts_and_answers_of_another_writer_are_news_and_bookkeeping_is_not() {
        let dir = TestDir::new();
        let path = dir.join(format!("projects/-w/{ID}.jsonl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, "{}\n").expect("a file");
        let marked = || current_position("claude", ID, |_| Some(dir.to_path_buf().into())).expect("one file");
        let add = |line: &str| {
            let mut file = File::options().append(true).open(&path).expect("the file");
            writeln!(file, "{line}").expect("a line");
        };
        let then = marked();
        assert_eq!(then.news(), TranscriptUpdate::Nothing);
        for books in [
            r#"{"type":"last-prompt","lastPrompt":"x"}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"x"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#,
            r#"{"type":"assistant","uuid":"a","message":{"model":"<synthetic>","content":[]}}"#,
            r#"{"type":"assistant","uuid":"a","isSidechain":true,"message":{"model":"m","content":[]}}"#,
            "{torn",
        ] {
            add(books);
            assert_eq!(then.news(), TranscriptUpdate::Nothing, "{books}");
        }
        let then = marked();
        add(r#"{"type":"user","uuid":"p","isMeta":null,"message":{"role":"user","content":"hello"}}"#);
        add(r#"{"type":"assistant","uuid":"a","message":{"model":"m","content":[]}}"#);
        let said = |answer: &str, prompts, answered_prompt_at_ms| TranscriptUpdate::Said {
            answers: vec![answer.to_owned()],
            prompts,
            answered_prompt_at_ms,
        };
        assert_eq!(then.news(), said("a", 1, None));
        assert_eq!(then.again().expect("it is there").news(), TranscriptUpdate::Nothing);
        let then = marked();
        let asked = |second: u8| {
            add(&format!(
                r#"{{"type":"user","timestamp":"1970-01-01T00:00:0{second}.000Z","message":{{"content":"x"}}}}"#
            ));
        };
        asked(1);
        add(r#"{"type":"assistant","uuid":"c","message":{"model":"m","content":[]}}"#);
        asked(2);
        assert_eq!(then.news(), said("c", 2, Some(1000)), "the second prompt has no answer");
        // A line or a file beyond the limits cannot be judged; a prompt found before that counts.
        let then = marked();
        File::options().append(true).open(&path).and_then(|file| file.set_len(40 << 20)).expect("zeroes");
        add("");
        assert!(matches!(then.news(), TranscriptUpdate::CannotTell { .. }), "{:?}", then.news());
        add(r#"{"type":"assistant","uuid":"b","message":{"model":"m","content":[]}}"#);
        assert_eq!(then.news(), said("b", 0, None));
        let then = marked();
        File::options().append(true).open(&path).and_then(|file| file.set_len(120 << 20)).expect("zeroes");
        assert!(matches!(then.news(), TranscriptUpdate::CannotTell { .. }), "{:?}", then.news());
        fs::write(&path, "{}\n").expect("a shorter file");
        assert_eq!(then.news(), TranscriptUpdate::Replaced);
        fs::remove_file(&path).expect("our own file");
        assert_eq!(then.news(), TranscriptUpdate::Replaced);
        assert_eq!(current_position("claude", ID, |_| Some(dir.to_path_buf().into())), None);
    }
}
