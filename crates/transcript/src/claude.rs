//! Claude Code's transcripts: `projects/<directory>/<id>.jsonl`.
//!
//! Records with a `uuid` form a tree by `parentUuid`; attachments are part of it, and after a compaction
//! `logicalParentUuid` continues where the tree was cut. The records of a turn descend from its prompt, up to the next
//! prompt. A prompt is a user record (its `uuid` is the one that berth gave), an attachment `queued_command` if it
//! joined a running turn, one line of a user record if several waiting prompts were merged, or a system record
//! `local_command`.
//! Promise: two writers with mixed records are distinguished by the tree; words of a sub-agent are not an answer.
//! Not here: the decision about doubtful results (see [`decide_fate`]). Start with [`turn_fate`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use crate::lines::{self, TranscriptLine};
use crate::record_summary::IdHash;
use crate::{
    GivenPrompt, MAX_ANSWER_BYTES, PromptMatch, ScannedEnd, TurnFate, TurnScan, decide_fate,
    parse_timestamp_ms,
};

/// Beginning of Claude Code's note on an interrupted turn.
const INTERRUPTED: &str = "[Request interrupted by user";
/// Beginning of a hook's request to go on, after an answer that would have ended the turn.
const HOOK_SAID: &str = "Stop hook feedback:";
/// Limit for the blocks of a message.
const MOST_BLOCKS: usize = 10_000;
const STDOUT: (&str, &str) = ("<local-command-stdout>", "</local-command-stdout>");
const STDERR: (&str, &str) = ("<local-command-stderr>", "</local-command-stderr>");

pub(crate) fn fate(file: impl Read, asked: &GivenPrompt<'_>) -> io::Result<TurnFate> {
    let mut scan = ClaudeScanner { asked: *asked, turn: None, is_queued: false, bad: 0 };
    lines::each(file, |line| {
        scan.line(line);
        ControlFlow::Continue(())
    })?;
    let leaves_other_traces = asked.text.trim_start().starts_with('/');
    if scan.turn.is_none() && leaves_other_traces {
        return Ok(TurnFate::CannotTell {
            why: "the prompt is a command to the agent itself, and left no trace that is known".to_owned(),
        });
    }
    Ok(decide_fate(scan.finish(), asked))
}

/// True if the conversation has any prompt or answer.
pub(crate) fn has_words(file: &File) -> io::Result<bool> {
    let mut has = false;
    lines::each(file, |line| {
        if let TranscriptLine::Whole(line) = line
            && let Ok(ClaudeRecordType { kind }) = serde_json::from_slice(line)
        {
            has = matches!(&*kind, "user" | "assistant");
        }
        if has { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(has)
}

struct ClaudeScanner<'a> {
    asked: GivenPrompt<'a>,
    turn: Option<ClaudeTurnScan>,
    /// True if the agent put the prompt into its queue, and no record of the turn has followed yet.
    is_queued: bool,
    /// Number of records that could not be read.
    bad: usize,
}

/// State of the turn while its records are read.
struct ClaudeTurnScan {
    by: PromptMatch,
    at_ms: Option<u64>,
    /// Records of the turn, without the next prompt and its descendants.
    chain: HashSet<IdHash>,
    /// Tool calls without a result.
    tools: HashSet<IdHash>,
    /// Id of the last message of the model, for its text.
    message: IdHash,
    answer: String,
    end: ScannedEnd,
    bad: usize,
}

impl ClaudeScanner<'_> {
    fn line(&mut self, line: TranscriptLine<'_>) {
        let read = match line {
            TranscriptLine::Whole(line) => match serde_json::from_slice::<ClaudeRecordType<'_>>(line) {
                Ok(head) => match &*head.kind {
                    "user" | "assistant" | "attachment" | "system" | "queue-operation" => {
                        let record = serde_json::from_slice::<Value>(line).ok();
                        record.filter(|it| !has_too_many_blocks(it)).map(|it| self.record(&it)).is_some()
                    }
                    _ => true,
                },
                Err(_) => false,
            },
            TranscriptLine::TooLong => false,
        };
        if !read {
            self.bad += 1;
            if let Some(turn) = &mut self.turn {
                turn.bad += 1;
            }
        }
    }

    fn record(&mut self, record: &Value) {
        if record["isSidechain"] == true {
            return;
        }
        if record["type"] == "queue-operation" {
            self.is_queued |=
                record["operation"] == "enqueue" && ClaudeContent(&record["content"]).is(&self.asked);
            return;
        }
        let by = self.is_prompt(record);
        // An id always outweighs equal words.
        let outdoes = |turn: &ClaudeTurnScan| by.is_some_and(|by| by >= turn.by);
        if let Some(by) = by.filter(|_| self.turn.as_ref().is_none_or(outdoes)) {
            self.is_queued = false;
            self.turn = Some(ClaudeTurnScan {
                by,
                at_ms: record["timestamp"].as_str().and_then(parse_timestamp_ms),
                chain: record["uuid"].as_str().map(id).into_iter().collect(),
                tools: HashSet::new(),
                message: IdHash::default(),
                answer: String::new(),
                end: ScannedEnd::Open("the agent's transcript has the prompt and no answer".to_owned()),
                bad: 0,
            });
        } else if let Some(turn) = &mut self.turn {
            turn.follow(record);
        }
    }

    /// Returns how this record was recognised as the prompt; `None` if it is not.
    fn is_prompt(&self, record: &Value) -> Option<PromptMatch> {
        let asked = &self.asked;
        let has_id = |id: &Value| asked.id.is_some_and(|ours| id == ours);
        let (is_id, is_words) = match record["type"].as_str()? {
            "user" => {
                let content = ClaudeContent(&record["message"]["content"]);
                if content.blocks().any(|block| block["tool_use_id"].is_string()) {
                    return None;
                }
                let is_merged = record["mergedSendUuids"].as_array().into_iter().flatten().any(has_id);
                let is_line = self.is_queued && content.has_lines(asked.text);
                let is_words = content.is(asked) && record["isMeta"] != true;
                let is_command = asked.text.trim_start().starts_with('/');
                // An id alone is not enough: another session of berth may have given it to other words.
                let is_id =
                    has_id(&record["uuid"]) && (is_words || is_command || content.has_lines(asked.text));
                (is_id || is_merged, is_words || is_line && !record["promptSource"].is_null())
            }
            "attachment" => {
                let attachment = &record["attachment"];
                if attachment["type"] != "queued_command" {
                    return None;
                }
                let is_words = ClaudeContent(&attachment["prompt"]).is(asked);
                (has_id(&attachment["source_uuid"]) && is_words, is_words)
            }
            "system" if record["subtype"] == "local_command" => {
                let is_words = ClaudeContent(&record["content"]).is(asked);
                (has_id(&record["submitUuid"]) && is_words, is_words)
            }
            _ => return None,
        };
        if is_id { Some(PromptMatch::Id) } else { is_words.then_some(PromptMatch::Words) }
    }

    fn finish(self) -> TurnScan {
        match self.turn {
            None => TurnScan::Missing { bad: self.bad },
            Some(turn) => TurnScan::Found { by: turn.by, at_ms: turn.at_ms, bad: turn.bad, end: turn.end },
        }
    }
}

impl ClaudeTurnScan {
    /// A record after the prompt.
    fn follow(&mut self, record: &Value) {
        let parent = record["parentUuid"].as_str().or(record["logicalParentUuid"].as_str());
        if !parent.is_some_and(|parent| self.chain.contains(&id(parent))) {
            return;
        }
        let goes_on = match record["type"].as_str().unwrap_or_default() {
            "user" => self.user(record),
            "assistant" => {
                self.assistant(record);
                true
            }
            "system" if record["subtype"] == "local_command" => {
                ClaudeContent(&record["content"]).text().is_some_and(|text| self.command_said(text))
            }
            _ => true,
        };
        if goes_on {
            self.chain.extend(record["uuid"].as_str().map(id));
        }
    }

    /// Reads a user record; false if it is the next prompt.
    fn user(&mut self, record: &Value) -> bool {
        if record["message"].is_null() {
            return true;
        }
        let content = ClaudeContent(&record["message"]["content"]);
        let mut is_result = false;
        for tool in content.blocks().filter_map(|block| block["tool_use_id"].as_str()) {
            self.tools.remove(&id(tool));
            is_result = true;
        }
        let text = content.text().unwrap_or_default();
        let is_meta = record["isMeta"] == true;
        if text.starts_with(INTERRUPTED) {
            self.end = ScannedEnd::BrokenOff("the agent wrote down that the turn was interrupted".to_owned());
        } else if text.starts_with(HOOK_SAID) && is_meta {
            self.end =
                ScannedEnd::Open("a hook made the agent go on, and there is no answer after that".to_owned());
        } else {
            return self.command_said(text) || is_result || is_meta || record["isCompactSummary"] == true;
        }
        true
    }

    /// The output of one of the agent's own commands is the answer to that command.
    fn command_said(&mut self, text: &str) -> bool {
        let inside =
            |(begin, end): (&str, &str)| text.strip_prefix(begin)?.strip_suffix(end).map(str::to_owned);
        if let Some(said) = inside(STDOUT) {
            self.end = ScannedEnd::Done(said);
        } else if let Some(said) = inside(STDERR) {
            self.end = ScannedEnd::Failed(said);
        } else {
            return false;
        }
        true
    }

    fn assistant(&mut self, record: &Value) {
        let message = &record["message"];
        if message.is_null() {
            return;
        }
        let content = ClaudeContent(&message["content"]);
        if record["isApiErrorMessage"] == true {
            let why = content.text().unwrap_or("the model could not be asked");
            self.end = ScannedEnd::Rejected(why.to_owned());
            return;
        }
        // Text that the agent makes up itself: "No response requested." where an answer is missing.
        if message["model"] == "<synthetic>" {
            return;
        }
        let id_of_message = id(message["id"].as_str().unwrap_or_default());
        if self.message != id_of_message {
            self.message = id_of_message;
            self.answer.clear();
        }
        for block in content.blocks() {
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => self.tools.extend(block["id"].as_str().map(id)),
                // A little more than the limit is kept, so that a cut shows.
                "text" if self.answer.len() <= MAX_ANSWER_BYTES => {
                    let text = block["text"].as_str().unwrap_or_default();
                    self.answer.push_str(&text[..text.floor_char_boundary(MAX_ANSWER_BYTES + 4)]);
                }
                _ => {}
            }
        }
        if record["isAbortedMidStream"] == true {
            self.end = ScannedEnd::Open("the agent's transcript has the beginning of an answer".to_owned());
            return;
        }
        self.end = match message["stop_reason"].as_str() {
            _ if !self.tools.is_empty() => {
                ScannedEnd::Open("the agent's transcript has a tool call without a result".to_owned())
            }
            Some("end_turn" | "stop_sequence") => ScannedEnd::Done(self.answer.clone()),
            Some("refusal") => ScannedEnd::Failed(match self.answer.as_str() {
                "" => "the model refused to answer".to_owned(),
                said => format!("the model refused to answer: {said}"),
            }),
            Some("tool_use") => ScannedEnd::Open("the agent's transcript ends after a tool call".to_owned()),
            // The agent asks the model to go on after these, so the answer may or may not be complete.
            Some(reason) => {
                ScannedEnd::Unclear(format!("the last answer in the agent's transcript ended with {reason}"))
            }
            None if self.answer.is_empty() => {
                ScannedEnd::Open("the agent's transcript has thoughts and no answer".to_owned())
            }
            None => ScannedEnd::Unclear("the last answer in the agent's transcript has no end".to_owned()),
        };
    }
}

/// A record with so many blocks is not examined.
fn has_too_many_blocks(record: &Value) -> bool {
    record["message"]["content"].as_array().is_some_and(|blocks| blocks.len() > MOST_BLOCKS)
}

/// A shortened id: ids may be of any length, and there are many.
fn id(id: &str) -> IdHash {
    IdHash::of(id.as_bytes())
}

/// Fields that tell whether the rest of a record is of interest.
#[derive(Deserialize)]
struct ClaudeRecordType<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Content of a record or its message: words, a list of blocks, or anything else.
#[derive(Clone, Copy)]
pub(crate) struct ClaudeContent<'a>(pub(crate) &'a Value);

impl<'a> ClaudeContent<'a> {
    fn blocks(self) -> impl Iterator<Item = &'a Value> {
        self.0.as_array().into_iter().flatten()
    }

    fn texts(self) -> impl Iterator<Item = &'a str> {
        self.0.as_str().into_iter().chain(self.blocks().filter_map(|block| block["text"].as_str()))
    }

    /// The first text.
    pub(crate) fn first_text(self) -> Option<&'a str> {
        self.texts().next()
    }

    /// The text, if there is exactly one.
    fn text(self) -> Option<&'a str> {
        self.first_text().filter(|_| self.texts().nth(1).is_none())
    }

    fn is(self, asked: &GivenPrompt<'_>) -> bool {
        self.text().is_some_and(|text| asked.is_text(text))
    }

    /// True if the text is in it as whole lines among others.
    fn has_lines(self, text: &str) -> bool {
        let Some(all) = self.text() else { return false };
        let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| *byte == b'\n');
        let bytes = all.as_bytes();
        let ends = |at: usize| is_edge(bytes.get(at + text.len())) && (at == 0 || is_edge(bytes.get(at - 1)));
        !text.is_empty() && all.match_indices(text).any(|(at, _)| ends(at))
    }
}
