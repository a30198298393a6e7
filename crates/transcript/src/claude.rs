//! Claude Code's transcripts: `projects/<directory>/<id>.jsonl`.
//!
//! Records with a `uuid` form a tree by `parentUuid`; attachments are part of it, and after a compaction
//! `logicalParentUuid` goes on where the tree was cut. What belongs to a turn descends from its prompt, up to
//! the next prompt. A prompt is a user record (its `uuid` is the one we gave), an attachment `queued_command`
//! if it was taken into a running turn, one line of a user record if several waited and were merged, or a system
//! record `local_command`.
//! Promise: two writers whose records lie mixed are told apart by the tree; what a sub-agent said is not an answer.
//! Not here: doubts about what was found (see [`judge`]). Start with [`fate`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::head::Id;
use crate::lines::{self, Line};
use crate::{Asked, End, Fate, MAX_ANSWER_BYTES, Match, Scan, judge, moment};

/// How the marks of a broken off turn begin.
const INTERRUPTED: &str = "[Request interrupted by user";
/// How a hook's wish to go on begins, after an answer that would have been the end.
const HOOK_SAID: &str = "Stop hook feedback:";
const STDOUT: (&str, &str) = ("<local-command-stdout>", "</local-command-stdout>");
const STDERR: (&str, &str) = ("<local-command-stderr>", "</local-command-stderr>");

pub(crate) fn fate(file: impl Read, asked: &Asked<'_>) -> io::Result<Fate> {
    let mut scan = Scanner { asked: *asked, turn: None, is_queued: false, bad: 0 };
    lines::each(file, |line| {
        scan.line(line);
        ControlFlow::Continue(())
    })?;
    let leaves_other_traces = asked.text.trim_start().starts_with('/');
    if scan.turn.is_none() && leaves_other_traces {
        return Ok(Fate::CannotTell {
            why: "the prompt is a command to the agent itself, and left no trace that is known".to_owned(),
        });
    }
    Ok(judge(scan.finish(), asked))
}

/// Whether anything was said.
pub(crate) fn has_words(file: &File) -> io::Result<bool> {
    let mut has = false;
    lines::each(file, |line| {
        if let Line::Whole(line) = line
            && let Ok(Head { kind }) = serde_json::from_slice(line)
        {
            has = matches!(&*kind, "user" | "assistant");
        }
        if has { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(has)
}

struct Scanner<'a> {
    asked: Asked<'a>,
    turn: Option<Turn>,
    /// The agent took the prompt into its queue, and no record of ours followed yet.
    is_queued: bool,
    /// Records that could not be read.
    bad: usize,
}

/// What was found of the turn.
struct Turn {
    by: Match,
    at_ms: Option<u64>,
    /// The records of the turn. The next prompt is not among them, nor what descends from it.
    chain: HashSet<Id>,
    /// Tools that were asked for and have no result.
    tools: HashSet<Id>,
    /// The last message of the model, and what text it has.
    message: Id,
    answer: String,
    end: End,
    bad: usize,
}

impl Scanner<'_> {
    fn line(&mut self, line: Line<'_>) {
        let read = match line {
            Line::Whole(line) => match serde_json::from_slice::<Head<'_>>(line) {
                Ok(head) => match &*head.kind {
                    "user" | "assistant" | "attachment" | "system" | "queue-operation" => {
                        serde_json::from_slice::<Record<'_>>(line).map(|record| self.record(&record)).is_ok()
                    }
                    _ => true,
                },
                Err(_) => false,
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

    fn record(&mut self, record: &Record<'_>) {
        if record.is_sidechain {
            return;
        }
        if record.kind == "queue-operation" {
            let is_ours = record.content.as_ref().is_some_and(|content| content.is(&self.asked));
            self.is_queued |= record.operation.as_deref() == Some("enqueue") && is_ours;
            return;
        }
        let by = self.is_prompt(record);
        // Words never outdo an id.
        let outdoes = |turn: &Turn| by.is_some_and(|by| by >= turn.by);
        if let Some(by) = by.filter(|_| self.turn.as_ref().is_none_or(outdoes)) {
            self.is_queued = false;
            self.turn = Some(Turn {
                by,
                at_ms: record.timestamp.as_deref().and_then(moment::parse),
                chain: record.uuid.as_deref().map(id).into_iter().collect(),
                tools: HashSet::new(),
                message: Id::default(),
                answer: String::new(),
                end: End::Open("the agent's record has the prompt and no answer".to_owned()),
                bad: 0,
            });
        } else if let Some(turn) = &mut self.turn {
            turn.follow(record);
        }
    }

    /// Whether this is the prompt, and how that is known.
    fn is_prompt(&self, record: &Record<'_>) -> Option<Match> {
        let asked = &self.asked;
        let has_id = |id: &Option<Cow<'_, str>>| asked.id.is_some_and(|ours| id.as_deref() == Some(ours));
        let (is_id, is_words) = match &*record.kind {
            "user" => {
                let content = &record.message.as_ref()?.content;
                if content.blocks().any(|block| block.tool_use_id.is_some()) {
                    return None;
                }
                let merged = record.merged_send_uuids.iter().flat_map(|few| &few.0);
                let is_merged = merged.into_iter().any(|uuid| asked.id == Some(uuid));
                let is_line = self.is_queued && content.has_lines(asked.text);
                let is_words = content.is(asked) && !record.is_meta;
                let is_command = asked.text.trim_start().starts_with('/');
                // An id alone is not enough: another session of ours may have given it to other words.
                let is_id = has_id(&record.uuid) && (is_words || is_command || content.has_lines(asked.text));
                (is_id || is_merged, is_words || is_line && record.prompt_source.is_some())
            }
            "attachment" => {
                let attachment = record.attachment.as_ref()?;
                if attachment.kind != "queued_command" {
                    return None;
                }
                let is_words = attachment.prompt.as_ref().is_some_and(|prompt| prompt.is(asked));
                (has_id(&attachment.source_uuid) && is_words, is_words)
            }
            "system" if record.subtype.as_deref() == Some("local_command") => {
                let is_words = record.content.as_ref().is_some_and(|content| content.is(asked));
                (has_id(&record.submit_uuid) && is_words, is_words)
            }
            _ => return None,
        };
        if is_id { Some(Match::Id) } else { is_words.then_some(Match::Words) }
    }

    fn finish(self) -> Scan {
        match self.turn {
            None => Scan::Missing { bad: self.bad },
            Some(turn) => Scan::Found { by: turn.by, at_ms: turn.at_ms, bad: turn.bad, end: turn.end },
        }
    }
}

impl Turn {
    /// A record after the prompt.
    fn follow(&mut self, record: &Record<'_>) {
        let parent = record.parent_uuid.as_deref().or(record.logical_parent_uuid.as_deref());
        if !parent.is_some_and(|parent| self.chain.contains(&id(parent))) {
            return;
        }
        let goes_on = match &*record.kind {
            "user" => self.user(record),
            "assistant" => {
                self.assistant(record);
                true
            }
            "system" if record.subtype.as_deref() == Some("local_command") => {
                record.content.as_ref().and_then(Content::text).is_some_and(|text| self.command_said(text))
            }
            _ => true,
        };
        if goes_on {
            self.chain.extend(record.uuid.as_deref().map(id));
        }
    }

    /// False if this is the next prompt.
    fn user(&mut self, record: &Record<'_>) -> bool {
        let Some(message) = &record.message else { return true };
        let mut is_result = false;
        for tool in message.content.blocks().filter_map(|block| block.tool_use_id.as_deref()) {
            self.tools.remove(&id(tool));
            is_result = true;
        }
        let text = message.content.text().unwrap_or_default();
        if text.starts_with(INTERRUPTED) {
            self.end = End::BrokenOff("the agent wrote down that the turn was interrupted".to_owned());
        } else if text.starts_with(HOOK_SAID) && record.is_meta {
            self.end = End::Open("a hook made the agent go on, and there is no answer after that".to_owned());
        } else {
            return self.command_said(text) || is_result || record.is_meta || record.is_compact_summary;
        }
        true
    }

    /// What a command of the agent's own printed is the answer to it.
    fn command_said(&mut self, text: &str) -> bool {
        let inside =
            |(begin, end): (&str, &str)| text.strip_prefix(begin)?.strip_suffix(end).map(str::to_owned);
        if let Some(said) = inside(STDOUT) {
            self.end = End::Done(said);
        } else if let Some(said) = inside(STDERR) {
            self.end = End::Failed(said);
        } else {
            return false;
        }
        true
    }

    fn assistant(&mut self, record: &Record<'_>) {
        let Some(message) = &record.message else { return };
        if record.is_api_error_message {
            let why = message.content.text().unwrap_or("the model could not be asked");
            self.end = End::Rejected(why.to_owned());
            return;
        }
        // What the agent makes up itself: "No response requested." where an answer is missing.
        if message.model.as_deref() == Some("<synthetic>") {
            return;
        }
        let id_of_message = id(message.id.as_deref().unwrap_or_default());
        if self.message != id_of_message {
            self.message = id_of_message;
            self.answer.clear();
        }
        for block in message.content.blocks() {
            match &*block.kind {
                "tool_use" => self.tools.extend(block.id.as_deref().map(id)),
                // A little more than is kept, so that it shows that it was cut.
                "text" if self.answer.len() <= MAX_ANSWER_BYTES => {
                    let text = block.text.as_deref().unwrap_or_default();
                    self.answer.push_str(&text[..text.floor_char_boundary(MAX_ANSWER_BYTES + 4)]);
                }
                _ => {}
            }
        }
        if record.is_aborted_mid_stream {
            self.end = End::Open("the agent's record has the beginning of an answer".to_owned());
            return;
        }
        self.end = match message.stop_reason.as_deref() {
            _ if !self.tools.is_empty() => {
                End::Open("the agent's record has a tool call without a result".to_owned())
            }
            Some("end_turn" | "stop_sequence") => End::Done(self.answer.clone()),
            Some("refusal") => End::Failed(match self.answer.as_str() {
                "" => "the model refused to answer".to_owned(),
                said => format!("the model refused to answer: {said}"),
            }),
            Some("tool_use") => End::Open("the agent's record ends after a tool call".to_owned()),
            // The agent asks the model to go on after these, so this may or may not have been all.
            Some(reason) => {
                End::Unclear(format!("the last answer in the agent's record ended with {reason}"))
            }
            None if self.answer.is_empty() => {
                End::Open("the agent's record has thoughts and no answer".to_owned())
            }
            None => End::Unclear("the last answer in the agent's record has no end".to_owned()),
        };
    }
}

/// An id, in short: they may be of any length, and there are many.
fn id(id: &str) -> Id {
    Id::of(id.as_bytes())
}

/// Enough to know whether the rest is of interest.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    logical_parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "flag")]
    is_sidechain: bool,
    #[serde(default, deserialize_with = "flag")]
    is_meta: bool,
    #[serde(default, deserialize_with = "flag")]
    is_compact_summary: bool,
    #[serde(default, deserialize_with = "flag")]
    is_api_error_message: bool,
    #[serde(default, deserialize_with = "flag")]
    is_aborted_mid_stream: bool,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    attachment: Option<Attachment<'a>>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    subtype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    operation: Option<Cow<'a, str>>,
    #[serde(borrow)]
    submit_uuid: Option<Cow<'a, str>>,
    prompt_source: Option<IgnoredAny>,
    #[serde(borrow)]
    merged_send_uuids: Option<Few<Cow<'a, str>>>,
}

/// A flag that is not set may be left out, or null.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<bool>::deserialize(deserializer).map(|flag| flag.unwrap_or(false))
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    prompt: Option<Content<'a>>,
    #[serde(borrow)]
    source_uuid: Option<Cow<'a, str>>,
}

/// How many blocks a record may have, or other things of one kind.
const MOST: usize = 10_000;

/// A list that is not long. Nobody can say what is in a record with one that is.
struct Few<T>(Vec<T>);

impl<T> Few<T> {
    fn read<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error>
    where
        T: Deserialize<'de>,
    {
        let mut few = Vec::new();
        while let Some(one) = list.next_element()? {
            if few.len() == MOST {
                return Err(serde::de::Error::custom("there is too much in it"));
            }
            few.push(one);
        }
        Ok(Self(few))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reading<T> {
            type Value = Few<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Few::read(list)
            }
        }
        deserializer.deserialize_seq(Reading(PhantomData))
    }
}

/// Words, or a list of blocks, or what is of no interest.
#[derive(Default)]
pub(crate) enum Content<'a> {
    Words(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
    #[default]
    Other,
}

#[derive(Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
}

impl<'a> Content<'a> {
    fn blocks(&self) -> impl Iterator<Item = &Block<'a>> {
        match self {
            Self::Blocks(blocks) => blocks.as_slice(),
            Self::Words(_) | Self::Other => &[],
        }
        .iter()
    }

    /// The first text.
    pub(crate) fn first_text(&self) -> Option<&str> {
        match self {
            Self::Words(words) => Some(words),
            Self::Blocks(_) | Self::Other => self.blocks().find_map(|block| block.text.as_deref()),
        }
    }

    /// The text, if there is one text and not several.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Words(words) => Some(words),
            Self::Blocks(_) => {
                let mut texts = self.blocks().filter_map(|block| block.text.as_deref());
                texts.next().filter(|_| texts.next().is_none())
            }
            Self::Other => None,
        }
    }

    fn is(&self, asked: &Asked<'_>) -> bool {
        self.text().is_some_and(|text| asked.is_text(text))
    }

    /// Whether the text is there as whole lines among others.
    fn has_lines(&self, text: &str) -> bool {
        let Some(all) = self.text() else { return false };
        let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| *byte == b'\n');
        let bytes = all.as_bytes();
        let ends = |at: usize| is_edge(bytes.get(at + text.len())) && (at == 0 || is_edge(bytes.get(at - 1)));
        !text.is_empty() && all.match_indices(text).any(|(at, _)| ends(at))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    /// By hand, because an untagged enum would copy all of it first, and most of it is of no interest.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Contents;
        impl<'de> Visitor<'de> for Contents {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or blocks")
            }
            fn visit_borrowed_str<E>(self, words: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Words(Cow::Borrowed(words)))
            }
            fn visit_str<E>(self, words: &str) -> Result<Self::Value, E> {
                Ok(Content::Words(Cow::Owned(words.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Few::read(list).map(|few| Content::Blocks(few.0))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Content::Other)
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::Other)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Content::Other)
            }
        }
        deserializer.deserialize_any(Contents)
    }
}
