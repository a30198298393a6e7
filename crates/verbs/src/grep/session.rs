//! Search in one session: its turns, the output of its agent, and the agent's own transcript.
//!
//! Promise: words that are in several of these places are found once, in the first; damaged files are searched as far
//! as they can be read, and reported.
//! Not here: the order of the sessions (see `work`), the display (see `show`).
//! Start with [`SearchSubject`], then [`SearchJob::run`].

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

use berth_api::record::Event;
use berth_api::{Problem, SessionStatus, Timestamp};
use berth_conversations::location;
use berth_core::SessionId;
use berth_store::turn_output::TurnOutputs;
use berth_store::{SessionFiles, SessionView};

use super::lines::{
    ContextLines, FileStream, MatchCollector, MatchedLine, SearchBuffers, StreamFile, StreamKind, may_match,
    search,
};
use super::pattern::SearchPattern;
use super::text;
use crate::transcript::own_files;

/// The origin of a session is among this many first events.
const FIRST_EVENTS: u64 = 4;

/// A session that is searched.
#[derive(Clone, Debug)]
pub struct SearchSubject {
    /// Id of the session.
    pub id: SessionId,
    /// Files of the session.
    pub files: SessionFiles,
    /// Status of the session, as far as it is known: its record may be damaged.
    pub status: SessionStatus,
}

impl SearchSubject {
    /// The session's name, else its id.
    pub fn handle(&self) -> &str {
        self.status.name.as_deref().unwrap_or(self.id.as_str())
    }

    fn kind(&self) -> StreamKind {
        if matches!(self.status.what.driver.as_str(), "" | "pty") {
            StreamKind::Terminal
        } else {
            StreamKind::Records
        }
    }

    /// The parts of the session that are searched.
    pub(crate) fn jobs(&self, context: ContextLines) -> Result<Vec<SearchJob>, Problem> {
        let output = self.output()?;
        if self.kind() == StreamKind::Records {
            let bytes = output.bytes();
            let mut jobs =
                vec![SearchJob { part: MatchPlace::Turns, source: output, range: 0..usize::MAX, bytes }];
            // Dialogue from before the adoption is only in the agent's transcript.
            jobs.extend(self.imported_record_jobs(context));
            return Ok(jobs);
        }
        // A program paints its words on the screen many times, and its own record has them once: the screen is searched
        // only where some of that record is missing.
        let (records, is_all) = self.own_records();
        let mut jobs = if is_all { Vec::new() } else { split(MatchPlace::Output, output, context) };
        for path in records {
            jobs.extend(self.conversation(path, u64::MAX, context));
        }
        Ok(jobs)
    }

    /// The agent's transcripts of all conversations of this session, and true if every record exists.
    fn own_records(&self) -> (Vec<PathBuf>, bool) {
        if self.status.what.conversation.is_empty() {
            return (Vec::new(), false);
        }
        let (events, damage) = self.files.salvage();
        let (paths, is_all) = own_files(&events);
        (paths, is_all && damage.is_none())
    }

    /// The parts of an agent's transcript to search, up to `until`.
    fn conversation(&self, path: PathBuf, until: u64, context: ContextLines) -> Vec<SearchJob> {
        let Some(agent) = berth_transcript::TranscriptKind::of(&self.status.what.conversation) else {
            return Vec::new();
        };
        let bytes = path.metadata().map_or(0, |file| file.len()).min(until);
        let pieces = vec![StreamFile { path, start: 0, bytes, until }];
        split(MatchPlace::Conversation, FileStream { kind: StreamKind::Transcript(agent), pieces }, context)
    }

    /// The parts of the agent's transcript of an imported conversation, up to the place of the import.
    fn imported_record_jobs(&self, context: ContextLines) -> Vec<SearchJob> {
        // The first events of a session tell whether it was imported.
        let events = self.files.read_range(1, FIRST_EVENTS, usize::MAX).unwrap_or_default();
        let imported = events.iter().find_map(|event| match &event.get().event {
            berth_core::Event::Imported { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let Some(until) = imported else { return Vec::new() };
        let session = SessionView::replay(&events).session;
        let files = location::conversation_files(&session).unwrap_or_default();
        files.into_iter().flat_map(|path| self.conversation(path, until, context)).collect()
    }

    fn output(&self) -> Result<FileStream, Problem> {
        let output = self.files.output();
        let files = output.files().map_err(|error| unreadable(output.display(), &error))?;
        let pieces = files
            .into_iter()
            .map(|(path, start, bytes)| StreamFile { path, start, bytes, until: u64::MAX })
            .collect();
        Ok(FileStream { kind: self.kind(), pieces })
    }
}

/// A job for each file, so that files are searched in parallel. With context there is one job, because lines around a
/// match may be in another file.
fn split(part: MatchPlace, source: FileStream, context: ContextLines) -> Vec<SearchJob> {
    let all = source.pieces.len();
    let each = if context == ContextLines::default() { 1 } else { all.max(1) };
    let ranges = (0..all).step_by(each).map(|at| at..(at + each).min(all));
    let job = |range: Range<usize>| {
        let bytes = source.pieces[range.clone()].iter().map(|piece| piece.bytes).sum();
        SearchJob { part, source: source.clone(), range, bytes }
    };
    ranges.map(job).collect()
}

fn unreadable(place: impl std::fmt::Display, error: &io::Error) -> Problem {
    Problem::refused(format!("cannot search {place}: {error}"))
        .hint("the rest was searched; check that you may read it")
}

/// Part of a session in which a match is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchPlace {
    /// All turns: prompts, answers and the agent's actions. Only for jobs, never for a match.
    Turns,
    /// Text that a user or program sent to the agent.
    Prompt,
    /// The answer of a turn.
    Answer,
    /// Text of the agent after the turn was over.
    Late,
    /// A question of the agent.
    Ask,
    /// Text of the agent during a turn: tools, their output, remarks.
    Work,
    /// Output of a terminal.
    Output,
    /// The agent's transcript of the conversation.
    Conversation,
}

impl MatchPlace {
    /// The part's name in JSON and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Late => "late",
            Self::Ask => "ask",
            Self::Work => "work",
            Self::Output => "output",
            Self::Conversation => "conversation",
        }
    }
}

/// A match, or a line of context.
#[derive(Clone, Debug)]
pub struct SearchHit {
    /// Part of the session in which it is.
    pub part: MatchPlace,
    /// Number of the turn that it belongs to.
    pub turn: Option<u64>,
    /// Time at which it was said or written, if known.
    pub at: Option<Timestamp>,
    /// Path of the agent's transcript, if it is from there.
    pub file: Option<PathBuf>,
    /// The line and the places of its matches.
    pub found: MatchedLine,
}

/// A part of the search for one thread.
#[derive(Clone, Debug)]
pub(crate) struct SearchJob {
    part: MatchPlace,
    source: FileStream,
    range: Range<usize>,
    pub(crate) bytes: u64,
}

/// Limits for the results of each session.
#[derive(Clone, Copy, Debug)]
pub struct SearchExtent {
    /// Lines of context around a match.
    pub context: ContextLines,
    /// Limit for the matches of a session.
    pub most: u64,
    /// True if one match per session is enough.
    pub one_each: bool,
}

impl SearchJob {
    /// Runs the job. Errors are returned together with the matches that were found in spite of them.
    pub(crate) fn run(
        &self,
        subject: &SearchSubject,
        pattern: &SearchPattern,
        extent: SearchExtent,
        scratch: &mut SearchBuffers,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> (Vec<SearchHit>, Vec<Problem>) {
        if self.part == MatchPlace::Turns {
            return self.turns(subject, pattern, extent, scratch, read);
        }
        let mut gather = MatchCollector::new(pattern, extent.context, extent.most);
        let searched = search(&self.source, self.range.clone(), &mut gather, scratch, read);
        let place = &self.source.pieces[self.range.start].path;
        let problems = searched.err().map(|error| unreadable(place.display(), &error)).into_iter().collect();
        let is_output = self.part == MatchPlace::Output;
        let index = if is_output && !gather.found.is_empty() { times(&subject.files) } else { Vec::new() };
        let hit = |found: MatchedLine| SearchHit {
            part: self.part,
            turn: None,
            at: at(&index, found.offset),
            file: (!is_output).then(|| place.clone()),
            found,
        };
        (gather.found.into_iter().map(hit).collect(), problems)
    }

    fn turns(
        &self,
        subject: &SearchSubject,
        pattern: &SearchPattern,
        extent: SearchExtent,
        scratch: &mut SearchBuffers,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> (Vec<SearchHit>, Vec<Problem>) {
        let mut problems = Vec::new();
        let journal = journal(&subject.files);
        let may_be_said = may_match(&journal, pattern, scratch, &mut |_| ControlFlow::Continue(()));
        let mut gather = MatchCollector::new(pattern, extent.context, extent.most);
        let searched = search(&self.source, 0..self.source.pieces.len(), &mut gather, scratch, read);
        problems.extend(searched.err().map(|error| unreadable(subject.files.output().display(), &error)));
        let worked = gather.found;
        // The part of the search that parses the journal reports if it cannot be read.
        if worked.is_empty() && matches!(may_be_said, Ok(false)) {
            return (Vec::new(), problems);
        }
        let (events, damage) = subject.files.salvage();
        problems.extend(damage);
        let outputs = TurnOutputs::of(&events);
        let mut hits = search_turns(&events, pattern, extent);
        // The turns that each text was found in.
        let mut seen: HashMap<Vec<u8>, HashSet<Option<u64>>> = HashMap::new();
        for hit in &hits {
            seen.entry(hit.found.text.clone()).or_default().insert(hit.turn);
        }
        let index = if worked.is_empty() { Vec::new() } else { times(&subject.files) };
        for found in worked {
            let turn = outputs.turn_at(found.offset);
            // An answer is in the output as well, and tools repeat themselves.
            let is_context = extent.context != ContextLines::default();
            let turns = seen.entry(found.text.clone()).or_default();
            // Output of no turn may be a replay of the conversation.
            let is_new = (turn.is_some() || turns.is_empty()) && turns.insert(turn);
            if is_context || is_new {
                hits.push(SearchHit {
                    part: MatchPlace::Work,
                    turn,
                    at: at(&index, found.offset),
                    file: None,
                    found,
                });
            }
        }
        hits.sort_by_key(|hit| hit.turn);
        (hits, problems)
    }
}

/// The words of turns in the journal.
fn search_turns(
    events: &[berth_journal::Committed<berth_store::session_view::StoredEvent>],
    pattern: &SearchPattern,
    extent: SearchExtent,
) -> Vec<SearchHit> {
    let mut gather = MatchCollector::new(pattern, extent.context, extent.most);
    let mut blocks: Vec<(MatchPlace, Option<u64>, Timestamp)> = Vec::new();
    let mut scratch = Vec::new();
    let mut turn_asked = None;
    for event in events {
        let entry = event.get().entry();
        let (part, turn, said) = match entry.event {
            Event::TurnAccepted { turn, prompt } => (MatchPlace::Prompt, Some(turn), prompt.text),
            Event::TurnEdited { turn, text, .. } => (MatchPlace::Prompt, Some(turn), text),
            Event::TurnDelivered { turn, .. } => {
                turn_asked = Some(turn);
                continue;
            }
            Event::TurnEnded { turn, end, .. } => (MatchPlace::Answer, Some(turn), end.answer),
            Event::LateResult { turn, end } => (MatchPlace::Late, Some(turn), end.answer),
            Event::QuestionAsked { ask } => {
                (MatchPlace::Ask, turn_asked, format!("{}: {}", ask.tool, ask.detail))
            }
            _ => continue,
        };
        gather.part();
        for line in said.split('\n') {
            scratch.clear();
            text::of_terminal(line.as_bytes(), &mut scratch);
            for line in text::lines(&scratch) {
                if gather.take(blocks.len() as u64, line).is_break() {
                    break;
                }
            }
        }
        blocks.push((part, turn, Timestamp(entry.at_ms)));
    }
    let hit = |found: MatchedLine| {
        let (part, turn, at) = blocks[found.offset as usize];
        SearchHit { part, turn, at: Some(at), file: None, found }
    };
    gather.found.into_iter().map(hit).collect()
}

/// The files of the journal, as raw bytes.
fn journal(session: &SessionFiles) -> FileStream {
    let piece = |(number, path): (usize, PathBuf)| StreamFile {
        bytes: path.metadata().map_or(0, |file| file.len()),
        path,
        // No file continues the last line of another.
        start: (number as u64) << 48,
        until: u64::MAX,
    };
    FileStream {
        kind: StreamKind::Records,
        pieces: session.journal_files().into_iter().enumerate().map(piece).collect(),
    }
}

fn times(session: &SessionFiles) -> Vec<(u64, u64)> {
    session.output().time_index().unwrap_or_default()
}

/// Time at which the byte at this offset was written.
fn at(index: &[(u64, u64)], offset: u64) -> Option<Timestamp> {
    let behind = index.partition_point(|(_, from)| *from <= offset);
    index.get(behind.checked_sub(1)?).map(|(wall_ms, _)| Timestamp(*wall_ms))
}
