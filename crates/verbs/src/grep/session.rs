//! One session, searched: what was said in its turns, what its agent wrote, and the agent's own record of it.
//!
//! Promise: words that are in several of these places are found once, in the first; what is damaged is searched as
//! far as it can be read, and said.
//! Not here: in which order sessions are searched (see `work`), how it looks (see `show`).
//! Start with [`Subject`], then [`Job::run`].

use std::collections::HashSet;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

use berth_api::record::Event;
use berth_api::{Code, Problem, Status, Timestamp};
use berth_core::SessionId;
use berth_keeper::turn;
use berth_store::SessionFiles;
use berth_store::{History, turn_view};

use super::lines::{Context, Found, Gather, Kind, Piece, Scratch, Source, may_match, search};
use super::pattern::Pattern;
use super::text;
use crate::transcript::own_files;

/// Among so many first events is the one that says where a session comes from.
const FIRST_EVENTS: u64 = 4;

/// A session to be searched.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its id.
    pub id: SessionId,
    /// Its record.
    pub files: SessionFiles,
    /// As far as it is known: its record may be damaged.
    pub status: Status,
}

impl Subject {
    /// How people address it.
    pub fn handle(&self) -> &str {
        self.status.name.as_deref().unwrap_or(self.id.as_str())
    }

    fn kind(&self) -> Kind {
        if matches!(self.status.what.driver.as_str(), "" | "pty") { Kind::Terminal } else { Kind::Records }
    }

    /// What there is to search.
    pub(crate) fn jobs(&self, context: Context) -> Result<Vec<Job>, Problem> {
        let output = self.output()?;
        if self.kind() == Kind::Records {
            let bytes = output.bytes();
            let mut jobs = vec![Job { part: Part::Turns, source: output, range: 0..usize::MAX, bytes }];
            // What was said before it came here is in the agent's own record alone.
            jobs.extend(self.said_elsewhere(context));
            return Ok(jobs);
        }
        // What a program paints on a screen is in its own record once, and in words: the screen is searched where some of
        // that record is missing.
        let (records, is_all) = self.own_records();
        let mut jobs = if is_all { Vec::new() } else { split(Part::Output, output, context) };
        for path in records {
            jobs.extend(self.conversation(path, u64::MAX, context));
        }
        Ok(jobs)
    }

    /// The agent's own records of all conversations that this session had, and whether all of them are there.
    fn own_records(&self) -> (Vec<PathBuf>, bool) {
        if self.status.what.conversation.is_empty() {
            return (Vec::new(), false);
        }
        let (events, damage) = self.files.salvage();
        let (paths, is_all) = own_files(&events);
        (paths, is_all && damage.is_none())
    }

    /// What to search in an agent's own record, up to `until`.
    fn conversation(&self, path: PathBuf, until: u64, context: Context) -> Vec<Job> {
        let Some(agent) = berth_transcript::Kind::of(&self.status.what.conversation) else {
            return Vec::new();
        };
        let bytes = path.metadata().map_or(0, |file| file.len()).min(until);
        let pieces = vec![Piece { path, start: 0, bytes, until }];
        split(Part::Conversation, Source { kind: Kind::Transcript(agent), pieces }, context)
    }

    /// The agent's own record of a conversation that was had without us, up to where it was imported.
    fn said_elsewhere(&self, context: Context) -> Vec<Job> {
        // The first events of a session say whether it was.
        let events = self.files.read_range(1, FIRST_EVENTS, usize::MAX).unwrap_or_default();
        let imported = events.iter().find_map(|event| match &event.get().event {
            berth_core::Event::Imported { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let Some(until) = imported else { return Vec::new() };
        let session = History::replay(&events).session;
        let files = turn::conversation_files(&session).unwrap_or_default();
        files.into_iter().flat_map(|path| self.conversation(path, until, context)).collect()
    }

    fn output(&self) -> Result<Source, Problem> {
        let output = self.files.output();
        let files = output.files().map_err(|error| unreadable(output.display(), &error))?;
        let pieces = files
            .into_iter()
            .map(|(path, start, bytes)| Piece { path, start, bytes, until: u64::MAX })
            .collect();
        Ok(Source { kind: self.kind(), pieces })
    }
}

/// A job for each file: they are searched at the same time. Lines around a match may be in another file.
fn split(part: Part, source: Source, context: Context) -> Vec<Job> {
    let all = source.pieces.len();
    let each = if context == Context::default() { 1 } else { all.max(1) };
    let ranges = (0..all).step_by(each).map(|at| at..(at + each).min(all));
    let job = |range: Range<usize>| {
        let bytes = source.pieces[range.clone()].iter().map(|piece| piece.bytes).sum();
        Job { part, source: source.clone(), range, bytes }
    };
    ranges.map(job).collect()
}

fn unreadable(place: impl std::fmt::Display, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot search {place}: {error}"))
        .hint("the rest was searched; check that you may read it")
}

/// Where something was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// In the turns: prompts, answers, and what the agent did. A job only, never a place.
    Turns,
    /// What somebody said to the agent.
    Prompt,
    /// What the agent said in the end.
    Answer,
    /// What the agent said after the turn was over.
    Late,
    /// What the agent wanted to know.
    Ask,
    /// What the agent wrote on the way: tools, their output, remarks.
    Work,
    /// In what a terminal got.
    Output,
    /// In the agent's own record of the conversation.
    Conversation,
}

impl Part {
    /// As it is written.
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

/// Something found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Where.
    pub part: Part,
    /// The turn it belongs to.
    pub turn: Option<u64>,
    /// When it was said or written, if that is known.
    pub at: Option<Timestamp>,
    /// The agent's own file, if it was there.
    pub file: Option<PathBuf>,
    /// What.
    pub found: Found,
}

/// A piece of work for one thread.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    part: Part,
    source: Source,
    range: Range<usize>,
    pub(crate) bytes: u64,
}

/// How much is wanted of each session.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How much around a match.
    pub context: Context,
    /// How many matches of a session are enough.
    pub most: u64,
    /// One match of a session is all that is wanted of it.
    pub one_each: bool,
}

impl Job {
    /// Does it. Problems come along with what was found in spite of them.
    pub(crate) fn run(
        &self,
        subject: &Subject,
        pattern: &Pattern,
        extent: Extent,
        scratch: &mut Scratch,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> (Vec<Hit>, Vec<Problem>) {
        if self.part == Part::Turns {
            return self.turns(subject, pattern, extent, scratch, read);
        }
        let mut gather = Gather::new(pattern, extent.context, extent.most);
        let searched = search(&self.source, self.range.clone(), &mut gather, scratch, read);
        let place = &self.source.pieces[self.range.start].path;
        let problems = searched.err().map(|error| unreadable(place.display(), &error)).into_iter().collect();
        let is_output = self.part == Part::Output;
        let index = if is_output && !gather.found.is_empty() { times(&subject.files) } else { Vec::new() };
        let hit = |found: Found| Hit {
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
        subject: &Subject,
        pattern: &Pattern,
        extent: Extent,
        scratch: &mut Scratch,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> (Vec<Hit>, Vec<Problem>) {
        let mut problems = Vec::new();
        let journal = journal(&subject.files);
        let may_be_said = may_match(&journal, pattern, scratch, &mut |_| ControlFlow::Continue(()));
        let mut gather = Gather::new(pattern, extent.context, extent.most);
        let searched = search(&self.source, 0..self.source.pieces.len(), &mut gather, scratch, read);
        problems.extend(searched.err().map(|error| unreadable(subject.files.output().display(), &error)));
        let worked = gather.found;
        // If it cannot be read that is said by who reads it properly.
        if worked.is_empty() && matches!(may_be_said, Ok(false)) {
            return (Vec::new(), problems);
        }
        let (events, damage) = subject.files.salvage();
        problems.extend(damage);
        let views = turn_view::views(&events, &subject.id);
        let mut hits = said(&events, pattern, extent);
        let known: HashSet<(Option<u64>, Vec<u8>)> =
            hits.iter().map(|hit| (hit.turn, hit.found.text.clone())).collect();
        let index = if worked.is_empty() { Vec::new() } else { times(&subject.files) };
        let mut begun: Vec<(u64, u64)> =
            views.iter().filter_map(|view| Some((view.output_from?, view.number))).collect();
        begun.sort_unstable();
        let mut seen = known;
        for found in worked {
            let before = begun.partition_point(|(from, _)| *from <= found.offset);
            let turn = before.checked_sub(1).map(|last| begun[last].1);
            // An answer is in the output as well, and tools say things twice.
            let is_context = extent.context != Context::default();
            if is_context || seen.insert((turn, found.text.clone())) {
                hits.push(Hit { part: Part::Work, turn, at: at(&index, found.offset), file: None, found });
            }
        }
        hits.sort_by_key(|hit| hit.turn);
        (hits, problems)
    }
}

/// What the journal has of turns.
fn said(
    events: &[berth_journal::Committed<berth_store::history::Stored>],
    pattern: &Pattern,
    extent: Extent,
) -> Vec<Hit> {
    let mut gather = Gather::new(pattern, extent.context, extent.most);
    let mut blocks: Vec<(Part, Option<u64>, Timestamp)> = Vec::new();
    let mut scratch = Vec::new();
    let mut turn_asked = None;
    for event in events {
        let entry = event.get().entry();
        let (part, turn, said) = match entry.event {
            Event::TurnAccepted { turn, prompt } => (Part::Prompt, Some(turn), prompt.text),
            Event::TurnEdited { turn, text, .. } => (Part::Prompt, Some(turn), text),
            Event::TurnDelivered { turn, .. } => {
                turn_asked = Some(turn);
                continue;
            }
            Event::TurnEnded { turn, end, .. } => (Part::Answer, Some(turn), end.answer),
            Event::TurnLate { turn, end } => (Part::Late, Some(turn), end.answer),
            Event::Asked { ask } => (Part::Ask, turn_asked, format!("{}: {}", ask.tool, ask.detail)),
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
    let hit = |found: Found| {
        let (part, turn, at) = blocks[found.offset as usize];
        Hit { part, turn, at: Some(at), file: None, found }
    };
    gather.found.into_iter().map(hit).collect()
}

/// The files of the journal, as bytes.
fn journal(session: &SessionFiles) -> Source {
    let piece = |(number, path): (usize, PathBuf)| Piece {
        bytes: path.metadata().map_or(0, |file| file.len()),
        path,
        // None goes on where another ends.
        start: (number as u64) << 48,
        until: u64::MAX,
    };
    Source {
        kind: Kind::Records,
        pieces: session.journal_files().into_iter().enumerate().map(piece).collect(),
    }
}

fn times(session: &SessionFiles) -> Vec<(u64, u64)> {
    session.output().time_index().unwrap_or_default()
}

/// When the byte at this offset was written.
fn at(index: &[(u64, u64)], offset: u64) -> Option<Timestamp> {
    let behind = index.partition_point(|(_, from)| *from <= offset);
    index.get(behind.checked_sub(1)?).map(|(wall_ms, _)| Timestamp(*wall_ms))
}
