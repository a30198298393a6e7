//! Codex's rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`.
//!
//! Lines of `{timestamp, type, payload}` in the order they happened. A prompt is a completed item `UserMessage`
//! (its `client_id` is the one we gave) or, from older versions, an event `user_message`. It names its turn, and
//! so does the end: `task_complete`, with an error if the turn failed, or `turn_aborted`.
//! Promise: what belongs to another turn, earlier or later, decides nothing.
//! Not here: doubts about what was found (see [`judge`]). Start with [`fate`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use crate::lines::{self, Line};
use crate::{Asked, End, Fate, MAX_ANSWER_BYTES, Match, Scan, judge, moment};

pub(crate) fn fate(file: impl Read, asked: &Asked<'_>) -> io::Result<Fate> {
    let mut scan = Scanner { asked: *asked, current: String::new(), turn: None, bad: 0 };
    lines::each(file, |line| {
        scan.line(line);
        ControlFlow::Continue(())
    })?;
    let scan = match scan.turn {
        None => Scan::Missing { bad: scan.bad },
        Some(Turn { by, at_ms, bad, end, .. }) => Scan::Found { by, at_ms, bad, end },
    };
    Ok(judge(scan, asked))
}

/// Whether there is anything to take up.
pub(crate) fn has_words(file: &File) -> io::Result<bool> {
    let mut has = false;
    lines::each(file, |line| {
        if let Line::Whole(line) = line
            && let Ok(line) = serde_json::from_slice::<Type<'_>>(line)
        {
            has = line.kind == "session_meta";
        }
        if has { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(has)
}

struct Scanner<'a> {
    asked: Asked<'a>,
    /// The turn that began last, for records that do not name theirs.
    current: String,
    turn: Option<Turn>,
    bad: usize,
}

struct Turn {
    id: String,
    by: Match,
    at_ms: Option<u64>,
    /// What the agent said in it, message by message.
    said: String,
    end: End,
    bad: usize,
}

impl Scanner<'_> {
    fn line(&mut self, line: Line<'_>) {
        let read = match line {
            Line::Whole(line) => match serde_json::from_slice::<Head<'_>>(line) {
                Ok(head) if head.is_of_interest() => serde_json::from_slice::<Value>(line)
                    .map(|record| self.event(&record["payload"], record["timestamp"].as_str()))
                    .is_ok(),
                Ok(_) => true,
                // Only events have to be of a known shape.
                Err(_) => serde_json::from_slice::<Type<'_>>(line).is_ok_and(|line| line.kind != "event_msg"),
            },
            Line::TooLong => false,
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
                        End::Done(event["last_agent_message"].as_str().unwrap_or_default().to_owned())
                    }
                    Value::Null => End::Done(std::mem::take(&mut turn.said)),
                    error => End::Rejected(match error["message"].as_str() {
                        Some(message) => message.to_owned(),
                        None => error.to_string(),
                    }),
                };
            }
            ("turn_aborted", _) => {
                let reason = event["reason"].as_str().unwrap_or("no reason given");
                let Some(turn) = self.turn_of(&of) else { return };
                turn.end =
                    End::BrokenOff(format!("the agent wrote down that the turn was aborted: {reason}"));
            }
            _ => {}
        }
    }

    fn prompt(&mut self, turn: String, words: &str, client_id: Option<&str>, at: Option<&str>) {
        if !self.asked.is_text(words) {
            return;
        }
        let is_ours = self.asked.id.is_some() && client_id == self.asked.id;
        let by = if is_ours { Match::Id } else { Match::Words };
        // Words never outdo an id.
        if self.turn.as_ref().is_some_and(|turn| by < turn.by) {
            return;
        }
        self.turn = Some(Turn {
            id: turn,
            by,
            at_ms: at.and_then(moment),
            said: String::new(),
            end: End::Open("the agent's record has the prompt and no end of the turn".to_owned()),
            bad: 0,
        });
    }

    /// Our turn, if that is the one, and if it has no end yet.
    fn turn_of(&mut self, id: &str) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| turn.id == id && matches!(turn.end, End::Open(_)))
    }

    fn said(&mut self, of: &str, words: &str) {
        let Some(turn) = self.turn_of(of) else { return };
        // A little more than is kept, so that it shows that it was cut.
        if turn.said.len() <= MAX_ANSWER_BYTES {
            if !turn.said.is_empty() && !words.is_empty() {
                turn.said.push_str("\n\n");
            }
            turn.said.push_str(words);
        }
    }
}

/// All text in a list of parts.
fn words(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// Enough to know whether the rest is of interest.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Type<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
struct Payload<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    item: Item<'a>,
}

#[derive(Deserialize, Default)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
}

impl Head<'_> {
    fn is_of_interest(&self) -> bool {
        let Payload { kind, item } = &self.payload;
        self.kind == "event_msg"
            && match &**kind {
                "item_completed" => matches!(&*item.kind, "UserMessage" | "AgentMessage"),
                "task_started" | "task_complete" | "turn_aborted" | "user_message" | "agent_message" => true,
                _ => false,
            }
    }
}
