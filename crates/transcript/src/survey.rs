//! What a transcript is made of, kept small: for each record who it is, where it hangs and on which line it is.
//!
//! Promise: a record takes about twenty bytes, so that a transcript of gigabytes fits into [`MAX_RECORDS`] and tens of
//! megabytes; of what does not fit, the lines are still looked at, and how much was left out is said.
//! Not here: what is wrong with it (see `check`). Start with [`survey`].

mod index;

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use crate::Kind;
use crate::allowance::Allowed;
use crate::head::{Head, Id, Item, Parent, Type};
use crate::place;
use crate::walk::{Flaw, Place, Seen, Walked, walk};
use index::Index;

/// How many records are kept. With all that is kept of them they take less than 50 MiB.
pub(crate) const MAX_RECORDS: usize = 1_500_000;
/// A record of an agent that is shorter is hardly one.
const LEAST_BYTES: u64 = 64;
/// How many calls of tools are kept.
pub(crate) const MAX_TOOLS: usize = 400_000;
/// How many flaws of lines are kept; of more there is only the number.
pub(crate) const MAX_FLAWS: usize = 10_000;
/// How many places of each other kind are kept.
pub(crate) const MAX_ODD: usize = 10_000;
/// How many lines are between two whose places in the file are kept, to begin with.
const LINES_PER_MARK: u64 = 64;
/// How many such places are kept. With more lines there are more of them in between.
const MAX_MARKS: usize = 1 << 16;
/// How many records may wait for their parents.
const MAX_WAITING: usize = 100_000;
/// How many records may be far behind the ones before.
const MAX_LEAPS: usize = 100_000;
/// How many session ids are told apart.
const MAX_SESSIONS: usize = 16;
/// How many messages are looked back for the other blocks of one.
const MESSAGES_BACK: usize = 16;

/// How much is read to tell whose a transcript is: an agent's first record may have its whole instructions.
const BEGINNING_BYTES: u64 = 4 << 20;

/// No record.
pub(crate) const NONE: u32 = u32::MAX;

/// What a record is, in bits.
pub(crate) mod bit {
    /// Of a type that is not known here: others may hang on it, and nobody goes on at it.
    pub(crate) const OTHER: u16 = 1;
    pub(crate) const ASSISTANT: u16 = 1 << 1;
    /// Of a sub-agent.
    pub(crate) const SIDE: u16 = 1 << 2;
    /// Something a person said, or a program for them.
    pub(crate) const PROMPT: u16 = 1 << 3;
    /// Made up by the agent.
    pub(crate) const SYNTHETIC: u16 = 1 << 4;
    /// The conversation was compacted here.
    pub(crate) const BOUNDARY: u16 = 1 << 5;
    pub(crate) const RESULT: u16 = 1 << 6;
    /// A result that an agent made up for a tool that another one ran.
    pub(crate) const INTERRUPTED: u16 = 1 << 7;
    /// Another part of the message that its parent is a part of.
    pub(crate) const BLOCK: u16 = 1 << 8;
    /// It says that it hangs where nobody is.
    pub(crate) const MISSING: u16 = 1 << 9;
    /// In it or below it something is said.
    pub(crate) const CARRIES: u16 = 1 << 10;
    /// It has a child that carries; and one more.
    pub(crate) const ONE: u16 = 1 << 11;
    pub(crate) const FORK: u16 = 1 << 12;
    /// A resume would take it up.
    pub(crate) const PATH: u16 = 1 << 13;
    /// It has a child.
    pub(crate) const CHILD: u16 = 1 << 14;
    /// Not part of a tree.
    pub(crate) const LOOSE: u16 = 1 << 15;
}

/// A flaw of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FlawAt {
    pub(crate) flaw: Flaw,
    pub(crate) line: u64,
    pub(crate) bytes: Range<u64>,
    pub(crate) is_last: bool,
}

/// A call of a tool and its result, or one of the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) id: Id,
    pub(crate) used_in: u32,
    pub(crate) result_in: u32,
}

/// One of the sessions that records say they are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSeen {
    pub(crate) id: Id,
    pub(crate) records: u64,
    pub(crate) first: u64,
}

/// A transcript, surveyed.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Whose it is; nobody's that is known if no record says so.
    pub(crate) kind: Option<Kind>,
    pub(crate) walked: Walked,
    /// Somebody cut it meanwhile.
    pub(crate) shrank: bool,
    /// All records, with those that are not kept.
    pub(crate) records: u64,
    pub(crate) flaws: Vec<FlawAt>,
    pub(crate) flaw_count: u64,
    ids: Vec<u64>,
    pub(crate) parents: Vec<u32>,
    pub(crate) bits: Vec<u16>,
    /// How many lines each is behind the one before.
    steps: Vec<u8>,
    /// The same, where that is more than a byte holds.
    leaps: Vec<(u32, u64)>,
    last_line: u64,
    index: Index,
    pub(crate) tools: Vec<Tool>,
    tool_index: Index,
    /// Calls that came while one under their id was open, and results that came while none was: of which pair, and in
    /// which record.
    pub(crate) used_twice: Vec<(u32, u32)>,
    pub(crate) answered_twice: Vec<(u32, u32)>,
    /// The record, and the one that had its id before.
    pub(crate) twins: Vec<(u32, u32)>,
    /// How many more of these three there are than are kept.
    pub(crate) more_odd: u64,
    pub(crate) sessions: Vec<SessionSeen>,
    /// Where Claude Code noted it was.
    pub(crate) leaf_id: Option<Id>,
    /// Beginnings of a rollout that are not the first.
    pub(crate) metas: Vec<u32>,
    pub(crate) more_metas: u64,
    /// Parents that come later than their children, or not at all.
    waiting: Vec<(u32, Id)>,
    recent: Vec<(u32, Id)>,
    marks: Marks,
    /// Whether there was more than is kept.
    pub(crate) is_cut: bool,
}

/// Looks at a whole transcript. `progress` is told how many bytes more were read.
pub(crate) fn survey(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Survey, String> {
    let wrong = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = place::open(path)?;
    let size = file.metadata().map_err(wrong)?.len();
    read(&file, size, progress).map_err(wrong)
}

/// The same of a file that is open.
fn read(file: &File, size: u64, progress: &mut dyn FnMut(u64)) -> io::Result<Survey> {
    let mut survey = Survey::new(size);
    let mut marks = Marks::default();
    let mut told = 0;
    let begun = |line: u64, from: u64| {
        if marks.begun(line, from) {
            progress(from - told);
            told = from;
        }
    };
    let walked = walk(Allowed::whole(file, size)?, size, begun, |place, seen| match seen {
        Seen::Record(head) => survey.record(head, place.line),
        Seen::Flaw(flaw) => {
            survey.flaw_count += 1;
            if survey.flaws.len() < MAX_FLAWS {
                let (line, bytes, is_last) = (place.line, place.bytes.clone(), place.is_last);
                survey.flaws.push(FlawAt { flaw, line, bytes, is_last });
            }
        }
    })?;
    progress(walked.bytes.saturating_sub(told));
    survey.walked = walked;
    survey.marks = marks;
    // What changed behind the place that was being read shows only now.
    let now = file.metadata()?.len();
    survey.walked.grew |= now > walked.bytes;
    survey.shrank = now < walked.bytes || walked.bytes < size;
    survey.finish();
    Ok(survey)
}

/// Whose transcript is in a file, by the first record that says so; nobody's if none near its beginning does.
pub fn kind_in(path: &Path) -> Result<Option<Kind>, String> {
    let file = place::open(path)?;
    let mut kind = None;
    let visit = |_: &Place, seen: Seen<'_>| {
        if let Seen::Record(head) = seen {
            kind = kind.or_else(|| kind_of(head));
        }
    };
    walk(file.take(BEGINNING_BYTES), BEGINNING_BYTES, |_, _| {}, visit)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(kind)
}

impl Survey {
    fn new(size: u64) -> Self {
        // Room for what is likely; both grow.
        let likely = usize::try_from(size / 2048).unwrap_or(MAX_RECORDS).min(MAX_RECORDS);
        // Room that nobody uses costs nothing; what grows is there twice while it does.
        let most = usize::try_from(size / LEAST_BYTES).unwrap_or(MAX_RECORDS).min(MAX_RECORDS);
        Self {
            kind: None,
            walked: Walked::default(),
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
            index: Index::for_about(likely, MAX_RECORDS),
            tools: Vec::with_capacity(most.min(MAX_TOOLS)),
            tool_index: Index::for_about(likely / 4, MAX_TOOLS),
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
            marks: Marks::default(),
            is_cut: false,
        }
    }

    /// How many records are kept.
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
    pub(crate) fn id_of(&self, record: u32) -> Id {
        Id(self.ids[record as usize])
    }

    /// The record that has this id.
    pub(crate) fn find(&self, id: Id) -> Option<u32> {
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

    /// The line on which a record is. For many use [`Self::lines_of`].
    pub(crate) fn line_of(&self, record: u32) -> u64 {
        self.lines_of(&[record])[0]
    }

    /// A place in the file at or before the beginning of a line, and which line begins there.
    pub(crate) fn before_line(&self, line: u64) -> (u64, u64) {
        self.marks.before(line)
    }

    fn record(&mut self, head: &Head, line: u64) {
        self.records += 1;
        self.is_cut |= head.is_cut;
        self.kind = self.kind.or_else(|| kind_of(head));
        if let Some(id) = head.session {
            if let Some(seen) = self.sessions.iter_mut().find(|seen| seen.id == id) {
                seen.records += 1;
            } else if self.sessions.len() < MAX_SESSIONS {
                self.sessions.push(SessionSeen { id, records: 1, first: line });
            }
        }
        match self.kind {
            Some(Kind::Codex) => self.codex(head, line),
            Some(Kind::Claude) | None => self.claude(head, line),
        }
    }

    fn claude(&mut self, head: &Head, line: u64) {
        if head.kind == Type::LastPrompt {
            self.leaf_id = head.leaf.or(self.leaf_id);
        }
        let Some(uuid) = head.uuid.filter(|_| is_kept(Kind::Claude, head)) else { return };
        let mut bits = match head.kind {
            Type::Assistant => bit::ASSISTANT,
            Type::User | Type::Attachment | Type::System => 0,
            Type::None | Type::LastPrompt | Type::SessionMeta | Type::ResponseItem | Type::Other => {
                bit::OTHER
            }
        };
        let set = |is: bool, bit: u16| if is { bit } else { 0 };
        let is_prompt = head.kind == Type::User
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
            push_odd(&mut self.twins, &mut self.more_odd, (this, other));
        }
        let parent = match (head.parent, head.logical_parent) {
            (Parent::Of(id), _) => Some((id, true)),
            // Whether what was compacted is still there is nobody's worry.
            (Parent::Nobody | Parent::Unsaid, Some(id)) => Some((id, false)),
            (Parent::Nobody | Parent::Unsaid, None) => None,
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

    fn codex(&mut self, head: &Head, line: u64) {
        let mut bits = bit::LOOSE;
        if head.kind == Type::ResponseItem {
            match head.item {
                Item::Output => bits |= bit::RESULT,
                Item::Message if head.is_users => bits |= bit::PROMPT,
                Item::Message => bits |= bit::ASSISTANT,
                Item::Call | Item::Other => {}
            }
        }
        let Some(this) = self.keep(0, bits, line) else { return };
        if head.kind == Type::SessionMeta && this > 0 {
            push_odd(&mut self.metas, &mut self.more_metas, this);
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

    /// Calls and results pair in the order in which they come: some providers count their ids from zero in every turn.
    fn tools(&mut self, head: &Head, this: u32) {
        for id in &head.uses {
            match self.last_pair(*id) {
                // What was asked for and answered is over: the same id is another call.
                Some((_, tool)) if tool.used_in != NONE && tool.result_in != NONE => {
                    self.pair(Tool { id: *id, used_in: this, result_in: NONE });
                }
                Some((at, tool)) if tool.used_in == NONE => self.tools[at as usize].used_in = this,
                Some((at, _)) => push_odd(&mut self.used_twice, &mut self.more_odd, (at, this)),
                None => self.pair(Tool { id: *id, used_in: this, result_in: NONE }),
            }
        }
        for id in &head.results {
            match self.last_pair(*id) {
                Some((at, tool)) if tool.result_in == NONE => self.tools[at as usize].result_in = this,
                Some((at, _)) => push_odd(&mut self.answered_twice, &mut self.more_odd, (at, this)),
                None => self.pair(Tool { id: *id, used_in: NONE, result_in: this }),
            }
        }
    }

    /// The last pair under an id, and its number.
    fn last_pair(&self, id: Id) -> Option<(u32, Tool)> {
        let at = self.tool_index.find(id.0, |at| self.tools[at as usize].id.0)?;
        Some((at, self.tools[at as usize]))
    }

    /// Keeps a new pair, if there is room. It is the last one under its id from now on.
    fn pair(&mut self, tool: Tool) {
        if self.tools.len() >= MAX_TOOLS {
            self.is_cut = true;
            return;
        }
        let at = self.tools.len() as u32;
        self.tools.push(tool);
        self.tool_index.put(tool.id.0, at, |at| self.tools[at as usize].id.0);
    }

    /// What can be said only when everything was seen.
    fn finish(&mut self) {
        for (record, id) in std::mem::take(&mut self.waiting) {
            match self.find(id).filter(|parent| *parent != record) {
                Some(parent) => self.parents[record as usize] = parent,
                // With more records than are kept nobody can say that it is not there.
                None if self.is_cut => {}
                None => self.bits[record as usize] |= bit::MISSING,
            }
        }
        // The file of a sub-agent is nothing but side.
        let in_tree = |bits: &&u16| **bits & bit::LOOSE == 0;
        if self.bits.iter().filter(in_tree).all(|bits| bits & bit::SIDE != 0) {
            self.bits.iter_mut().for_each(|bits| *bits &= !bit::SIDE);
        }
    }
}

/// Keeps what is odd, if there is room; else only how many there are.
fn push_odd<T>(odd: &mut Vec<T>, more: &mut u64, one: T) {
    if odd.len() < MAX_ODD {
        odd.push(one);
    } else {
        *more += 1;
    }
}

/// Whether a record is one of those that are kept. Of Claude Code only those of the tree are.
fn is_kept(kind: Kind, head: &Head) -> bool {
    match kind {
        // Whatever its type: older ones hung prompts on their notes of progress, newer ones may on others.
        Kind::Claude => head.uuid.is_some(),
        Kind::Codex => true,
    }
}

/// Counts records as a survey does, for whoever walks through the file again.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    kind: Option<Kind>,
    next: u32,
}

impl Numbers {
    /// The number of a record; none if it is not kept.
    pub(crate) fn of(&mut self, head: &Head) -> Option<u32> {
        self.kind = self.kind.or_else(|| kind_of(head));
        is_kept(self.kind.unwrap_or(Kind::Claude), head).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// Which agent writes such records.
fn kind_of(head: &Head) -> Option<Kind> {
    if head.has_payload && head.has_timestamp {
        Some(Kind::Codex)
    } else if head.kind != Type::None && head.session.is_some() {
        Some(Kind::Claude)
    } else {
        None
    }
}

/// Where some of the lines begin.
#[derive(Debug)]
struct Marks {
    places: Vec<u64>,
    lines_per_mark: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { places: Vec::new(), lines_per_mark: LINES_PER_MARK }
    }
}

impl Marks {
    /// Hears of every line; whether its place was kept.
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
        // The number of marks is even, so that this one is of those that stay.
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
        let mut marks = Marks::default();
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
