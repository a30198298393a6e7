//! What was written into a conversation since somebody last looked.
//!
//! An agent that keeps a conversation open does not read its file again: what another one wrote there it never sees,
//! and what it says next is a second branch. Claude Code takes no lock, so this happens; Codex does, so it cannot.
//! Promise: at most `MAX_BYTES` are read, a line at a time; if that is not all, or a line is too long to be read, that is
//! said, unless the rest is news already. Nothing is ever written.
//! Not here: who wrote it (the caller knows what its own agent said).
//! Start with [`mark`], then [`Mark::news`].

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::claude::Content;
use crate::lines::{self, Line};
use crate::moment;
use crate::place::{self, Kind};

/// How much of what is new is read.
const MAX_BYTES: u64 = 64 << 20;
/// The most answers that are named.
const MOST_ANSWERS: usize = 1000;
/// The longest id of an answer.
const MAX_ID_BYTES: usize = 128;
/// What the agent itself calls somebody who breaks off.
const INTERRUPTED: &str = "[Request interrupted";
/// What the agent calls answers that no model gave.
const SYNTHETIC: &str = "<synthetic>";

/// A conversation's file as it was at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    path: PathBuf,
    place: (u64, u64),
    bytes: u64,
}

/// What is new in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// Nothing that was said: it is as it was, or the agent kept its books.
    Nothing,
    /// Another file is in its place, or some of it is gone.
    Replaced,
    /// Something was said.
    Said {
        /** The ids of the answers, as they are in what the agent prints, too. */
        answers: Vec<String>,
        /** How many prompts. */
        prompts: usize,
        /** When the last of these prompts that has an answer was given, by the clock of its writer. */
        answered_prompt_at_ms: Option<u64>,
    },
    /// It does not show.
    CannotTell {
        /** Why not. */
        why: String,
    },
}

/// The file of a conversation as it is now; `None` if there is not exactly one, or if its agent locks it.
pub fn mark(kind: &str, conversation_id: &str, env: impl Fn(&str) -> Option<OsString>) -> Option<Mark> {
    match Kind::of(kind)? {
        Kind::Claude => {}
        Kind::Codex => return None,
    }
    let mut files = place::files(Kind::Claude, conversation_id, env).ok()?;
    let found = files.pop().filter(|_| files.is_empty())?;
    let file = fs::metadata(&found.path).ok()?;
    Some(Mark { path: found.path, place: place_of(&file), bytes: file.len() })
}

fn place_of(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Mark {
    /// The same file as it is now.
    pub fn again(&self) -> Option<Self> {
        let file = fs::metadata(&self.path).ok()?;
        Some(Self { path: self.path.clone(), place: place_of(&file), bytes: file.len() })
    }

    /// What was written since.
    pub fn news(&self) -> News {
        let cannot_tell = |why: String| News::CannotTell { why };
        let mut is_all;
        // The cheap question first: mostly nobody wrote anything.
        match fs::metadata(&self.path) {
            Ok(file) if place_of(&file) != self.place || file.len() < self.bytes => return News::Replaced,
            Ok(file) if file.len() == self.bytes => return News::Nothing,
            Ok(file) => is_all = file.len() - self.bytes <= MAX_BYTES,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return News::Replaced,
            Err(error) => return cannot_tell(format!("cannot look at {}: {error}", self.path.display())),
        }
        let mut file: File = match place::open(&self.path) {
            Ok(file) => file,
            Err(why) => return cannot_tell(why),
        };
        let (mut answers, mut prompts) = (Vec::new(), 0);
        let (mut prompt_at_ms, mut answered_prompt_at_ms) = (None, None);
        let read = file.seek(SeekFrom::Start(self.bytes)).and_then(|_| {
            lines::each(file.take(MAX_BYTES), |line| {
                match line {
                    Line::Whole(line) => match said(line) {
                        Some(Said::Answer(id)) => {
                            answered_prompt_at_ms = prompt_at_ms.or(answered_prompt_at_ms);
                            if answers.len() < MOST_ANSWERS {
                                answers.push(id);
                            }
                        }
                        Some(Said::Prompt { at_ms }) => {
                            prompts += 1;
                            prompt_at_ms = at_ms;
                        }
                        None => {}
                    },
                    Line::TooLong => is_all = false,
                }
                ControlFlow::Continue(())
            })
        });
        match read {
            Err(error) => cannot_tell(format!("cannot read {}: {error}", self.path.display())),
            Ok(()) if answers.is_empty() && prompts == 0 && !is_all => {
                cannot_tell(format!("there is more new in {} than can be read", self.path.display()))
            }
            Ok(()) if answers.is_empty() && prompts == 0 => News::Nothing,
            Ok(()) => News::Said { answers, prompts, answered_prompt_at_ms },
        }
    }
}

enum Said {
    Answer(String),
    Prompt { at_ms: Option<u64> },
}

/// What a record says, if it is of the conversation itself.
fn said(line: &[u8]) -> Option<Said> {
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
            id.map(|id| Said::Answer(id.to_owned()))
        }
        "user" => {
            let at_ms = record["timestamp"].as_str().and_then(moment);
            let text = Content(&message["content"]).first_text();
            text.filter(|text| !text.starts_with(INTERRUPTED)).map(|_| Said::Prompt { at_ms })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn what_others_say_is_news_and_what_the_agent_notes_is_not() {
        let dir = std::env::temp_dir().join(format!("berth-since-{}", std::process::id()));
        let path = dir.join(format!("projects/-w/{ID}.jsonl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, "{}\n").expect("a file");
        let marked = || mark("claude", ID, |_| Some(dir.clone().into())).expect("one file");
        let add = |line: &str| {
            let mut file = File::options().append(true).open(&path).expect("the file");
            writeln!(file, "{line}").expect("a line");
        };
        let then = marked();
        assert_eq!(then.news(), News::Nothing);
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
            assert_eq!(then.news(), News::Nothing, "{books}");
        }
        let then = marked();
        add(r#"{"type":"user","uuid":"p","isMeta":null,"message":{"role":"user","content":"hello"}}"#);
        add(r#"{"type":"assistant","uuid":"a","message":{"model":"m","content":[]}}"#);
        let said = |answer: &str, prompts, answered_prompt_at_ms| News::Said {
            answers: vec![answer.to_owned()],
            prompts,
            answered_prompt_at_ms,
        };
        assert_eq!(then.news(), said("a", 1, None));
        assert_eq!(then.again().expect("it is there").news(), News::Nothing);
        let then = marked();
        let asked = |second: u8| {
            add(&format!(
                r#"{{"type":"user","timestamp":"1970-01-01T00:00:0{second}.000Z","message":{{"content":"x"}}}}"#
            ));
        };
        asked(1);
        add(r#"{"type":"assistant","uuid":"c","message":{"model":"m","content":[]}}"#);
        asked(2);
        assert_eq!(then.news(), said("c", 2, Some(1000)), "nobody answered the second one");
        // What is too long, and what is behind all that is read, cannot be told; what is told counts.
        let then = marked();
        File::options().append(true).open(&path).and_then(|file| file.set_len(40 << 20)).expect("zeroes");
        add("");
        assert!(matches!(then.news(), News::CannotTell { .. }), "{:?}", then.news());
        add(r#"{"type":"assistant","uuid":"b","message":{"model":"m","content":[]}}"#);
        assert_eq!(then.news(), said("b", 0, None));
        let then = marked();
        File::options().append(true).open(&path).and_then(|file| file.set_len(120 << 20)).expect("zeroes");
        assert!(matches!(then.news(), News::CannotTell { .. }), "{:?}", then.news());
        fs::write(&path, "{}\n").expect("a shorter file");
        assert_eq!(then.news(), News::Replaced);
        fs::remove_file(&path).expect("our own file");
        assert_eq!(then.news(), News::Replaced);
        assert_eq!(mark("claude", ID, |_| Some(dir.clone().into())), None);
        fs::remove_dir_all(&dir).expect("our own directory");
    }
}
