//! Codex's rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`.
//!
//! Lines of `{timestamp, type, payload}` in the order of events. A prompt is a completed item `UserMessage` (its
//! `client_id` is the one that berth gave) or, from older versions, an event `user_message`. The prompt names its turn,
//! and so does the end: `task_complete`, with an error if the turn failed, or `turn_aborted`.
//! Promise: records of other turns, earlier or later ones, decide nothing.
//! Not here: the decision about doubtful results (see [`decide_fate`]). Start with [`turn_fate`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use crate::lines::{self, TranscriptLine};
use crate::{
    GivenPrompt, MAX_ANSWER_BYTES, PromptMatch, ScannedEnd, TurnFate, TurnScan, decide_fate,
    parse_timestamp_ms,
};

pub(crate) fn fate(file: impl Read, asked: &GivenPrompt<'_>) -> io::Result<TurnFate> {
    let mut scan = CodexScanner { asked: *asked, current: String::new(), turn: None, bad: 0 };
    lines::each(file, |line| {
        scan.line(line);
        ControlFlow::Continue(())
    })?;
    let scan = match scan.turn {
        None => TurnScan::Missing { bad: scan.bad },
        Some(CodexTurnScan { by, at_ms, bad, end, .. }) => TurnScan::Found { by, at_ms, bad, end },
    };
    Ok(decide_fate(scan, asked))
}

/// True if the rollout has anything to resume.
pub(crate) fn has_words(file: &File) -> io::Result<bool> {
    let mut has = false;
    lines::each(file, |line| {
        if let TranscriptLine::Whole(line) = line
            && let Ok(line) = serde_json::from_slice::<TypeField<'_>>(line)
        {
            has = line.kind == "session_meta";
        }
        if has { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(has)
}

struct CodexScanner<'a> {
    asked: GivenPrompt<'a>,
    /// The turn that began last, for records that do not name their turn.
    current: String,
    turn: Option<CodexTurnScan>,
    bad: usize,
}

struct CodexTurnScan {
    id: String,
    by: PromptMatch,
    at_ms: Option<u64>,
    /// Answer of the agent in the turn, message by message.
    said: String,
    end: ScannedEnd,
    bad: usize,
}

impl CodexScanner<'_> {
    fn line(&mut self, line: TranscriptLine<'_>) {
        let read = match line {
            TranscriptLine::Whole(line) => match serde_json::from_slice::<CodexRecordHead<'_>>(line) {
                Ok(head) if head.is_of_interest() => serde_json::from_slice::<Value>(line)
                    .map(|record| self.event(&record["payload"], record["timestamp"].as_str()))
                    .is_ok(),
                Ok(_) => true,
                // Only events must have a known form.
                Err(_) => {
                    serde_json::from_slice::<TypeField<'_>>(line).is_ok_and(|line| line.kind != "event_msg")
                }
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

    fn event(&mut self, event: &Value, at: Option<&str>) {
        let of = event["turn_id"].as_str().unwrap_or(&self.current).to_owned();
        let item = &event["item"];
        match (event["type"].as_str().unwrap_or_default(), item["type"].as_str().unwrap_or_default()) {
            ("task_started", _) => self.current = of,
            ("item_completed", "UserMessage") => {
                self.prompt(of, &words(&item["content"]), item["client_id"].as_str(), at);
            }
            ("user_message", _) => self.prompt(of, event["message"].as_str().unwrap_or_default(), None, at),
            ("item_completed", "AgentMessage") => self.said(&of, &words(&item["content"])),
            ("agent_message", _) => self.said(&of, event["message"].as_str().unwrap_or_default()),
            ("task_complete", _) => {
                let Some(turn) = self.turn_of(&of) else { return };
                turn.end = match &event["error"] {
                    Value::Null if turn.said.is_empty() => {
                        ScannedEnd::Done(event["last_agent_message"].as_str().unwrap_or_default().to_owned())
                    }
                    Value::Null => ScannedEnd::Done(std::mem::take(&mut turn.said)),
                    error => ScannedEnd::Rejected(match error["message"].as_str() {
                        Some(message) => message.to_owned(),
                        None => error.to_string(),
                    }),
                };
            }
            ("turn_aborted", _) => {
                let reason = event["reason"].as_str().unwrap_or("no reason given");
                let Some(turn) = self.turn_of(&of) else { return };
                turn.end = ScannedEnd::BrokenOff(format!(
                    "the agent wrote down that the turn was aborted: {reason}"
                ));
            }
            _ => {}
        }
    }

    fn prompt(&mut self, turn: String, words: &str, client_id: Option<&str>, at: Option<&str>) {
        if !self.asked.is_text(words) {
            return;
        }
        let is_ours = self.asked.id.is_some() && client_id == self.asked.id;
        let by = if is_ours { PromptMatch::Id } else { PromptMatch::Words };
        // An id always outweighs equal words.
        if self.turn.as_ref().is_some_and(|turn| by < turn.by) {
            return;
        }
        self.turn = Some(CodexTurnScan {
            id: turn,
            by,
            at_ms: at.and_then(parse_timestamp_ms),
            said: String::new(),
            end: ScannedEnd::Open("the agent's transcript has the prompt and no end of the turn".to_owned()),
            bad: 0,
        });
    }

    /// Our turn, if it has this id and no end yet.
    fn turn_of(&mut self, id: &str) -> Option<&mut CodexTurnScan> {
        self.turn.as_mut().filter(|turn| turn.id == id && matches!(turn.end, ScannedEnd::Open(_)))
    }

    fn said(&mut self, of: &str, words: &str) {
        let Some(turn) = self.turn_of(of) else { return };
        // A little more than the limit is kept, so that a cut shows.
        if turn.said.len() <= MAX_ANSWER_BYTES {
            if !turn.said.is_empty() && !words.is_empty() {
                turn.said.push_str("\n\n");
            }
            turn.said.push_str(words);
        }
    }
}

/// The whole text of a list of parts.
fn words(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// Fields that tell whether the rest of a record is of interest.
#[derive(Deserialize)]
struct CodexRecordHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    payload: CodexPayload<'a>,
}

#[derive(Deserialize)]
struct TypeField<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
struct CodexPayload<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    item: CodexItem<'a>,
}

#[derive(Deserialize, Default)]
struct CodexItem<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
}

impl CodexRecordHead<'_> {
    fn is_of_interest(&self) -> bool {
        let CodexPayload { kind, item } = &self.payload;
        self.kind == "event_msg"
            && match &**kind {
                "item_completed" => matches!(&*item.kind, "UserMessage" | "AgentMessage"),
                "task_started" | "task_complete" | "turn_aborted" | "user_message" | "agent_message" => true,
                _ => false,
            }
    }
}
