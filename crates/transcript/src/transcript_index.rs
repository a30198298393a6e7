//! Survey of a transcript, in little memory: id, parent and line of each record.
//!
//! Promise: a record takes about twenty bytes, so that a transcript of gigabytes fits into [`MAX_RECORDS`] and tens of
//! megabytes; beyond that only the lines are checked, and the omission is reported.
//! Not here: the judgement of damage (see `check`). Start with [`build_index`].

mod id_index;

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use crate::TranscriptKind;
use crate::location;
use crate::read_budget::BudgetedReader;
use crate::record_scanner::{LinePosition, ScanTotals, ScannedItem, TranscriptFlaw, scan_records};
use crate::record_summary::{IdHash, ItemType, RecordParent, RecordSummary, RecordType};
use id_index::IdIndex;

/// Limit for records. All together take less than 50 MiB.
pub(crate) const MAX_RECORDS: usize = 1_500_000;
/// Minimum size of a realistic record, for estimates.
const LEAST_BYTES: u64 = 64;
/// Limit for tool calls.
pub(crate) const MAX_TOOLS: usize = 400_000;
/// Limit for flaws of lines; the rest is only counted.
pub(crate) const MAX_FLAWS: usize = 10_000;
/// Limit for each other list of places.
pub(crate) const MAX_ODD: usize = 10_000;
/// Initial number of lines between two whose places in the file are kept.
const LINES_PER_MARK: u64 = 64;
/// Limit for such places. With more lines the distance between them grows.
const MAX_MARKS: usize = 1 << 16;
/// Limit for records that wait for their parents.
const MAX_WAITING: usize = 100_000;
/// Limit for records that are far behind the previous one.
const MAX_LEAPS: usize = 100_000;
/// Limit for session ids.
const MAX_SESSIONS: usize = 16;
/// Limit for previous messages that are searched for another block of one message.
const MESSAGES_BACK: usize = 16;

/// Bytes that are read to find the agent of a transcript: an agent's first record may have its whole instructions.
const BEGINNING_BYTES: u64 = 4 << 20;

/// Marks the absence of a record.
pub(crate) const NONE: u32 = u32::MAX;

/// Properties of a record, as bits.
pub(crate) mod bit {
    /// The type is not known here: the record may have children, and a resume never begins at it.
    pub(crate) const OTHER: u16 = 1;
    pub(crate) const ASSISTANT: u16 = 1 << 1;
    /// Part of a sub-agent's dialogue.
    pub(crate) const SIDE: u16 = 1 << 2;
    /// A prompt of a user, or of a program.
    pub(crate) const PROMPT: u16 = 1 << 3;
    /// A text that the agent made up.
    pub(crate) const SYNTHETIC: u16 = 1 << 4;
    /// The conversation was compacted here.
    pub(crate) const BOUNDARY: u16 = 1 << 5;
    pub(crate) const RESULT: u16 = 1 << 6;
    /// A result that an agent made up for a tool of another writer.
    pub(crate) const INTERRUPTED: u16 = 1 << 7;
    /// Another block of the message that its parent is a block of.
    pub(crate) const BLOCK: u16 = 1 << 8;
    /// The parent that the record names is missing.
    pub(crate) const MISSING_PARENT: u16 = 1 << 9;
    /// The record or a descendant has a prompt or an answer.
    pub(crate) const HAS_CONTENT: u16 = 1 << 10;
    /// `HAS_CONTENT_CHILD`: at least one child carries. `FORK`: at least two children do.
    pub(crate) const HAS_CONTENT_CHILD: u16 = 1 << 11;
    pub(crate) const FORK: u16 = 1 << 12;
    /// A resume would read the record.
    pub(crate) const PATH: u16 = 1 << 13;
    /// The record has a child.
    pub(crate) const CHILD: u16 = 1 << 14;
    /// The record is not part of a tree.
    pub(crate) const NOT_IN_TREE: u16 = 1 << 15;
}

/// A flaw of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LocatedFlaw {
    pub(crate) flaw: TranscriptFlaw,
    pub(crate) line: u64,
    pub(crate) bytes: Range<u64>,
    pub(crate) is_last: bool,
}

/// A tool call and its result, or one of the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolPair {
    pub(crate) id: IdHash,
    pub(crate) used_in: u32,
    pub(crate) result_in: u32,
}

/// A session that records name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedSession {
    pub(crate) id: IdHash,
    pub(crate) records: u64,
    pub(crate) first: u64,
}

/// Result of the survey.
#[derive(Debug)]
pub(crate) struct TranscriptIndex {
    /// Agent that wrote the transcript; `None` if no record tells.
    pub(crate) kind: Option<TranscriptKind>,
    pub(crate) walked: ScanTotals,
    /// True if a process truncated the file meanwhile.
    pub(crate) shrank: bool,
    /// Number of all records, including those beyond the limit.
    pub(crate) records: u64,
    pub(crate) flaws: Vec<LocatedFlaw>,
    pub(crate) flaw_count: u64,
    ids: Vec<u64>,
    pub(crate) parents: Vec<u32>,
    pub(crate) bits: Vec<u16>,
    /// Distance in lines of each record from the previous one.
    steps: Vec<u8>,
    /// Distances that do not fit into a byte, as line numbers.
    leaps: Vec<(u32, u64)>,
    last_line: u64,
    index: IdIndex,
    pub(crate) tools: Vec<ToolPair>,
    tool_index: IdIndex,
    /// Calls under an id that was still open, and results without an open call: the number of the pair, and the record.
    pub(crate) used_twice: Vec<(u32, u32)>,
    pub(crate) answered_twice: Vec<(u32, u32)>,
    /// Records with a repeated id: the record, and the earlier one.
    pub(crate) twins: Vec<(u32, u32)>,
    /// Number of further entries of these three lists.
    pub(crate) more_odd: u64,
    pub(crate) sessions: Vec<RecordedSession>,
    /// Leaf that Claude Code noted.
    pub(crate) leaf_id: Option<IdHash>,
    /// Beginnings of a rollout that are not the first.
    pub(crate) metas: Vec<u32>,
    pub(crate) more_metas: u64,
    /// Records whose parents come later in the file, or not at all.
    waiting: Vec<(u32, IdHash)>,
    recent: Vec<(u32, IdHash)>,
    marks: LineOffsets,
    /// True if the transcript exceeds a limit.
    pub(crate) is_cut: bool,
}

/// Surveys a whole transcript. `progress` gets the number of bytes after each read.
pub(crate) fn build_index(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<TranscriptIndex, String> {
    let wrong = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = location::open_transcript(path)?;
    let size = file.metadata().map_err(wrong)?.len();
    read(&file, size, progress).map_err(wrong)
}

/// Surveys an open file.
fn read(file: &File, size: u64, progress: &mut dyn FnMut(u64)) -> io::Result<TranscriptIndex> {
    let mut survey = TranscriptIndex::new(size);
    let mut marks = LineOffsets::default();
    let mut told = 0;
    let begun = |line: u64, from: u64| {
        if marks.begun(line, from) {
            progress(from - told);
            told = from;
        }
    };
    let walked = scan_records(BudgetedReader::whole(file, size)?, size, begun, |place, seen| match seen {
        ScannedItem::Record(head) => survey.record(head, place.line),
        ScannedItem::Flaw(flaw) => {
            survey.flaw_count += 1;
            if survey.flaws.len() < MAX_FLAWS {
                let (line, bytes, is_last) = (place.line, place.bytes.clone(), place.is_last);
                survey.flaws.push(LocatedFlaw { flaw, line, bytes, is_last });
            }
        }
    })?;
    progress(walked.bytes.saturating_sub(told));
    survey.walked = walked;
    survey.marks = marks;
    // A change behind the current place shows only now.
    let now = file.metadata()?.len();
    survey.walked.grew |= now > walked.bytes;
    survey.shrank = now < walked.bytes || walked.bytes < size;
    survey.finish();
    Ok(survey)
}

/// The agent that wrote a file, by the first record that tells; `None` if no record near the beginning does.
pub fn kind_in(path: &Path) -> Result<Option<TranscriptKind>, String> {
    let file = location::open_transcript(path)?;
    let mut kind = None;
    let visit = |_: &LinePosition, seen: ScannedItem<'_>| {
        if let ScannedItem::Record(head) = seen {
            kind = kind.or_else(|| kind_of(head));
        }
    };
    scan_records(file.take(BEGINNING_BYTES), BEGINNING_BYTES, |_, _| {}, visit)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(kind)
}

impl TranscriptIndex {
    fn new(size: u64) -> Self {
        // Room for the likely number; both grow.
        let likely = usize::try_from(size / 2048).unwrap_or(MAX_RECORDS).min(MAX_RECORDS);
        // Reserved memory costs nothing until it is used; a growing list exists twice for a moment.
        let most = usize::try_from(size / LEAST_BYTES).unwrap_or(MAX_RECORDS).min(MAX_RECORDS);
        Self {
            kind: None,
            walked: ScanTotals::default(),
            shrank: false,
            records: 0,
            flaws: Vec::new(),
            flaw_count: 0,
            ids: Vec::with_capacity(most),
            parents: Vec::with_capacity(most),
            bits: Vec::with_capacity(most),
            steps: Vec::with_capacity(most),
            leaps: Vec::new(),
            last_line: 0,
            index: IdIndex::for_about(likely, MAX_RECORDS),
            tools: Vec::with_capacity(most.min(MAX_TOOLS)),
            tool_index: IdIndex::for_about(likely / 4, MAX_TOOLS),
            used_twice: Vec::new(),
            answered_twice: Vec::new(),
            twins: Vec::new(),
            more_odd: 0,
            sessions: Vec::new(),
            leaf_id: None,
            metas: Vec::new(),
            more_metas: 0,
            waiting: Vec::new(),
            recent: Vec::new(),
            marks: LineOffsets::default(),
            is_cut: false,
        }
    }

    /// Number of records that are kept.
    pub(crate) fn len(&self) -> u32 {
        self.bits.len() as u32
    }

    pub(crate) fn is(&self, record: u32, bits: u16) -> bool {
        self.bits[record as usize] & bits != 0
    }

    pub(crate) fn parent(&self, record: u32) -> Option<u32> {
        Some(self.parents[record as usize]).filter(|parent| *parent != NONE)
    }

    /// The id of a record of a tree.
    pub(crate) fn id_of(&self, record: u32) -> IdHash {
        IdHash(self.ids[record as usize])
    }

    /// The record that has this id.
    pub(crate) fn find(&self, id: IdHash) -> Option<u32> {
        self.index.find(id.0, |at| self.ids[at as usize])
    }

    /// The lines on which some records are; they must be sorted.
    pub(crate) fn lines_of(&self, records: &[u32]) -> Vec<u64> {
        let mut lines = Vec::with_capacity(records.len());
        let (mut line, mut at, mut leap) = (0, 0, 0);
        for record in records {
            while at <= *record {
                line = if self.steps[at as usize] == u8::MAX {
                    while self.leaps[leap].0 < at {
                        leap += 1;
                    }
                    self.leaps[leap].1
                } else {
                    line + u64::from(self.steps[at as usize])
                };
                at += 1;
            }
            lines.push(line);
        }
        lines
    }

    /// The line of a record. For many records use [`Self::lines_of`].
    pub(crate) fn line_of(&self, record: u32) -> u64 {
        self.lines_of(&[record])[0]
    }

    /// A place in the file at or before the beginning of a line, and which line begins there.
    pub(crate) fn before_line(&self, line: u64) -> (u64, u64) {
        self.marks.before(line)
    }

    fn record(&mut self, head: &RecordSummary, line: u64) {
        self.records += 1;
        self.is_cut |= head.is_cut;
        self.kind = self.kind.or_else(|| kind_of(head));
        if let Some(id) = head.session {
            if let Some(seen) = self.sessions.iter_mut().find(|seen| seen.id == id) {
                seen.records += 1;
            } else if self.sessions.len() < MAX_SESSIONS {
                self.sessions.push(RecordedSession { id, records: 1, first: line });
            }
        }
        match self.kind {
            Some(TranscriptKind::Codex) => self.codex(head, line),
            Some(TranscriptKind::Claude) | None => self.claude(head, line),
        }
    }

    fn claude(&mut self, head: &RecordSummary, line: u64) {
        if head.kind == RecordType::LastPrompt {
            self.leaf_id = head.leaf.or(self.leaf_id);
        }
        let Some(uuid) = head.uuid.filter(|_| is_kept(TranscriptKind::Claude, head)) else { return };
        let mut bits = match head.kind {
            RecordType::Assistant => bit::ASSISTANT,
            RecordType::User | RecordType::Attachment | RecordType::System => 0,
            RecordType::None
            | RecordType::LastPrompt
            | RecordType::SessionMeta
            | RecordType::ResponseItem
            | RecordType::Other => bit::OTHER,
        };
        let set = |is: bool, bit: u16| if is { bit } else { 0 };
        let is_prompt = head.kind == RecordType::User
            && head.has_message
            && !head.is_meta
            && !head.is_summary
            && head.results.is_empty();
        bits |= set(is_prompt, bit::PROMPT)
            | set(head.is_sidechain, bit::SIDE)
            | set(head.is_synthetic, bit::SYNTHETIC)
            | set(head.is_boundary, bit::BOUNDARY)
            | set(!head.results.is_empty(), bit::RESULT)
            | set(head.is_interrupted_result && !head.results.is_empty(), bit::INTERRUPTED);
        let Some(this) = self.keep(uuid.0, bits, line) else { return };
        if let Some(other) = self.index.put(uuid.0, this, |at| self.ids[at as usize]) {
            push_bounded(&mut self.twins, &mut self.more_odd, (this, other));
        }
        let parent = match (head.parent, head.logical_parent) {
            (RecordParent::Of(id), _) => Some((id, true)),
            // A missing record from before a compaction is harmless.
            (RecordParent::Root | RecordParent::Unsaid, Some(id)) => Some((id, false)),
            (RecordParent::Root | RecordParent::Unsaid, None) => None,
        };
        if let Some((id, must_be)) = parent {
            match self.find(id).filter(|parent| *parent != this) {
                Some(parent) => self.parents[this as usize] = parent,
                None if must_be && self.waiting.len() < MAX_WAITING => self.waiting.push((this, id)),
                None if must_be => self.is_cut = true,
                None => {}
            }
        }
        if let Some(message) = head.message {
            let parent = self.parents[this as usize];
            if self.recent.iter().any(|(at, id)| *at == parent && *id == message) {
                self.bits[this as usize] |= bit::BLOCK;
            }
            if self.recent.len() == MESSAGES_BACK {
                self.recent.remove(0);
            }
            self.recent.push((this, message));
        }
        self.tools(head, this);
    }

    fn codex(&mut self, head: &RecordSummary, line: u64) {
        let mut bits = bit::NOT_IN_TREE;
        if head.kind == RecordType::ResponseItem {
            match head.item {
                ItemType::Output => bits |= bit::RESULT,
                ItemType::Message if head.is_users => bits |= bit::PROMPT,
                ItemType::Message => bits |= bit::ASSISTANT,
                ItemType::Call | ItemType::Other => {}
            }
        }
        let Some(this) = self.keep(0, bits, line) else { return };
        if head.kind == RecordType::SessionMeta && this > 0 {
            push_bounded(&mut self.metas, &mut self.more_metas, this);
        }
        self.tools(head, this);
    }

    /// Keeps a record, if there is room.
    fn keep(&mut self, id: u64, bits: u16, line: u64) -> Option<u32> {
        if self.bits.len() >= MAX_RECORDS || self.leaps.len() >= MAX_LEAPS {
            self.is_cut = true;
            return None;
        }
        let this = self.len();
        let step = line - self.last_line;
        self.steps.push(u8::try_from(step).unwrap_or(u8::MAX));
        if step >= u64::from(u8::MAX) {
            self.leaps.push((this, line));
        }
        self.last_line = line;
        self.ids.push(id);
        self.parents.push(NONE);
        self.bits.push(bits);
        Some(this)
    }

    /// Pairs calls and results in their order: some providers count their ids from zero in every turn.
    fn tools(&mut self, head: &RecordSummary, this: u32) {
        for id in &head.uses {
            match self.last_pair(*id) {
                // A pair with call and result is complete: the next call with its id is another one.
                Some((_, tool)) if tool.used_in != NONE && tool.result_in != NONE => {
                    self.pair(ToolPair { id: *id, used_in: this, result_in: NONE });
                }
                Some((at, tool)) if tool.used_in == NONE => self.tools[at as usize].used_in = this,
                Some((at, _)) => push_bounded(&mut self.used_twice, &mut self.more_odd, (at, this)),
                None => self.pair(ToolPair { id: *id, used_in: this, result_in: NONE }),
            }
        }
        for id in &head.results {
            match self.last_pair(*id) {
                Some((at, tool)) if tool.result_in == NONE => self.tools[at as usize].result_in = this,
                Some((at, _)) => push_bounded(&mut self.answered_twice, &mut self.more_odd, (at, this)),
                None => self.pair(ToolPair { id: *id, used_in: NONE, result_in: this }),
            }
        }
    }

    /// The last pair under an id, and its number.
    fn last_pair(&self, id: IdHash) -> Option<(u32, ToolPair)> {
        let at = self.tool_index.find(id.0, |at| self.tools[at as usize].id.0)?;
        Some((at, self.tools[at as usize]))
    }

    /// Keeps a new pair, if there is room. It is the last one under its id from now on.
    fn pair(&mut self, tool: ToolPair) {
        if self.tools.len() >= MAX_TOOLS {
            self.is_cut = true;
            return;
        }
        let at = self.tools.len() as u32;
        self.tools.push(tool);
        self.tool_index.put(tool.id.0, at, |at| self.tools[at as usize].id.0);
    }

    /// Completes the survey after the last record.
    fn finish(&mut self) {
        for (record, id) in std::mem::take(&mut self.waiting) {
            match self.find(id).filter(|parent| *parent != record) {
                Some(parent) => self.parents[record as usize] = parent,
                // With more records than the limit, the parent may be among the rest.
                None if self.is_cut => {}
                None => self.bits[record as usize] |= bit::MISSING_PARENT,
            }
        }
        // In the file of a sub-agent every record is a side record.
        let in_tree = |bits: &&u16| **bits & bit::NOT_IN_TREE == 0;
        if self.bits.iter().filter(in_tree).all(|bits| bits & bit::SIDE != 0) {
            self.bits.iter_mut().for_each(|bits| *bits &= !bit::SIDE);
        }
    }
}

/// Adds an entry if there is room; else only counts it.
fn push_bounded<T>(odd: &mut Vec<T>, more: &mut u64, one: T) {
    if odd.len() < MAX_ODD {
        odd.push(one);
    } else {
        *more += 1;
    }
}

/// True if the survey keeps such a record. For Claude Code only the records of the tree are kept.
fn is_kept(kind: TranscriptKind, head: &RecordSummary) -> bool {
    match kind {
        // Of any type: older versions linked prompts to notes of progress, newer ones may link them to other types.
        TranscriptKind::Claude => head.uuid.is_some(),
        TranscriptKind::Codex => true,
    }
}

/// Numbers records as the survey does, for a second pass over the file.
#[derive(Debug, Default)]
pub(crate) struct RecordNumbering {
    kind: Option<TranscriptKind>,
    next: u32,
}

impl RecordNumbering {
    /// The number of a record; `None` if it is not kept.
    pub(crate) fn of(&mut self, head: &RecordSummary) -> Option<u32> {
        self.kind = self.kind.or_else(|| kind_of(head));
        is_kept(self.kind.unwrap_or(TranscriptKind::Claude), head).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// The agent that writes such records.
fn kind_of(head: &RecordSummary) -> Option<TranscriptKind> {
    if head.has_payload && head.has_timestamp {
        Some(TranscriptKind::Codex)
    } else if head.kind != RecordType::None && head.session.is_some() {
        Some(TranscriptKind::Claude)
    } else {
        None
    }
}

/// Offsets of some lines.
#[derive(Debug)]
struct LineOffsets {
    places: Vec<u64>,
    lines_per_mark: u64,
}

impl Default for LineOffsets {
    fn default() -> Self {
        Self { places: Vec::new(), lines_per_mark: LINES_PER_MARK }
    }
}

impl LineOffsets {
    /// Called for every line; true if its offset was kept.
    fn begun(&mut self, line: u64, from: u64) -> bool {
        if line % self.lines_per_mark != 1 {
            return false;
        }
        if self.places.len() == MAX_MARKS {
            let mut at = 0;
            self.places.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.lines_per_mark *= 2;
        }
        // The number of marks is even, so this one is among those that stay.
        self.places.push(from);
        true
    }

    /// A place at or before the beginning of a line, and which line begins there.
    fn before(&self, line: u64) -> (u64, u64) {
        let last = self.places.len().saturating_sub(1) as u64;
        let mark = (line.saturating_sub(1) / self.lines_per_mark).min(last);
        (self.places.get(mark as usize).copied().unwrap_or(0), mark * self.lines_per_mark + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_lines_stay_few_and_right_however_many_lines_there_are() {
        let mut marks = LineOffsets::default();
        let lines = LINES_PER_MARK * MAX_MARKS as u64 * 5;
        for line in 1..=lines {
            marks.begun(line, line * 10);
        }
        assert!(marks.places.len() <= MAX_MARKS, "{}", marks.places.len());
        for line in (1..=lines).step_by(997) {
            let (from, begins) = marks.before(line);
            assert!(
                from == begins * 10 && begins <= line && line - begins < marks.lines_per_mark,
                "{line}: {begins}"
            );
        }
    }
}
