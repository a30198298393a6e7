//! Repair plan: the changes that make a transcript one conversation.
//!
//! Forks. A branch that begins with a prompt is a whole turn: it goes right before the next prompt that was written
//! after it, and to the end if there is none. A branch that begins with an answer belongs to the prompt at which it
//! leaves the path; it goes before the next record of the path if that is a prompt as well, and text that an agent made
//! up there ("No response requested.", an interrupted call that was not) is dropped. Any other branch cannot be put
//! into one line: then the path stays and the branch is set aside. A user who went back is left alone.
//! Start with [`plan`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::synthetic_records::{SyntheticRecord, claude_result, codex_result, leaf_note};
use crate::TranscriptKind;
use crate::check;
use crate::conversation_graph::{AbandonedBranch, ConversationGraph, is_said};
use crate::record_excerpts;
use crate::record_scanner::{LinePosition, MAX_HELD_BYTES, ScannedItem, TranscriptFlaw, scan_records};
use crate::record_summary::IdHash;
use crate::transcript_index::{NONE, RecordNumbering, TranscriptIndex, bit};

/// Changes of a transcript. Records are identified by their numbers.
#[derive(Debug, Default)]
pub(super) struct RepairPlan {
    /// New parents: the id as it is written, with its quotes; `None` for no parent.
    pub(super) parents: HashMap<u32, Option<Vec<u8>>>,
    pub(super) drops: HashMap<u32, ()>,
    /// Text of a record to insert after another one.
    pub(super) after: HashMap<u32, String>,
    /// Numbers of branches that go to the end.
    late: HashSet<u8>,
    /// Numbers of branches that cannot stay, and the ids of their first records.
    aside_branches: HashSet<u8>,
    pub(super) aside: Vec<IdHash>,
    /// Record to append at the end of the file.
    pub(super) end: Option<String>,
    branch_of: Vec<u8>,
    has_flaws: bool,
    /// Reported changes, each with its line.
    pub(super) told: Vec<(u64, String)>,
}

impl RepairPlan {
    /// True if the plan has no changes.
    pub(super) fn is_empty(&self) -> bool {
        self.parents.is_empty()
            && self.drops.is_empty()
            && self.after.is_empty()
            && self.late.is_empty()
            && self.aside_branches.is_empty()
            && self.end.is_none()
            && !self.has_flaws
    }

    fn branch(&self, record: u32) -> u8 {
        self.branch_of.get(record as usize).copied().unwrap_or(0)
    }

    pub(super) fn is_late(&self, record: u32) -> bool {
        self.late.contains(&self.branch(record))
    }

    pub(super) fn is_aside(&self, record: u32) -> bool {
        self.aside_branches.contains(&self.branch(record))
    }
}

/// A record and its ancestors, up to the first.
pub(super) fn ancestors(survey: &TranscriptIndex, record: u32) -> impl Iterator<Item = u32> {
    let mut at = Some(record);
    std::iter::from_fn(move || {
        let this = at?;
        at = survey.parent(this);
        Some(this)
    })
    // A ring has no end.
    .take(survey.len() as usize)
}

/// The end of the chosen branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BranchTip {
    pub(super) record: u32,
    /// True if a resume goes on there by itself.
    pub(super) is_taken: bool,
}

/// Makes the plan. With `kept` branches are not joined: only the path to that record stays. Calls that are `at_work`
/// stay open.
pub(super) fn plan(
    file: &File,
    survey: &TranscriptIndex,
    shape: &ConversationGraph,
    kept: Option<BranchTip>,
    at_work: &HashSet<IdHash>,
) -> io::Result<RepairPlan> {
    let mut making = PlanBuilder {
        survey,
        shape,
        at_work,
        plan: RepairPlan::default(),
        texts: Vec::new(),
        links: BTreeMap::new(),
        made: HashMap::new(),
        instead: HashMap::new(),
    };
    // Records are found by their lines: first each gets a readable line of its own. Of two records with one id, one is
    // dropped before tools are compared: a repeated record is no second call, nor a second result.
    if !making.flaws() && !making.drop_duplicates() {
        making.tools();
        match survey.kind {
            Some(TranscriptKind::Claude) => making.tree(kept.is_some()),
            Some(TranscriptKind::Codex) | None => making.drop_second_headers(file)?,
        }
    }
    let mut plan = making.finish(file)?;
    if let Some(tip) = kept.filter(|tip| !tip.is_taken && plan.is_empty()) {
        plan.end = Some(leaf_note(file, survey, tip.record)?);
        let text = "a note at the end says that a resume goes on behind it".to_owned();
        plan.told.push((survey.line_of(tip.record), text));
    }
    Ok(plan)
}

/// Parent of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ParentLink {
    Root,
    Record(u32),
}

struct PlanBuilder<'a> {
    survey: &'a TranscriptIndex,
    shape: &'a ConversationGraph,
    at_work: &'a HashSet<IdHash>,
    plan: RepairPlan,
    /// Reported changes, each with its record.
    texts: Vec<(u32, String)>,
    links: BTreeMap<u32, ParentLink>,
    /// Made-up results to insert after records: the ids of their calls are filled in later.
    made: HashMap<u32, SyntheticRecord>,
    /// Replacements of dropped records as parents.
    instead: HashMap<u32, Option<u32>>,
}

impl PlanBuilder<'_> {
    fn note(&mut self, record: u32, text: impl Into<String>) {
        self.texts.push((record, text.into()));
    }

    fn drop(&mut self, record: u32, instead: Option<u32>) {
        self.plan.drops.insert(record, ());
        self.instead.insert(record, instead);
    }

    fn is_dropped(&self, record: u32) -> bool {
        self.plan.drops.contains_key(&record)
    }

    /// Repairs flaws of lines; true if there were any, so that records cannot be looked up yet.
    fn flaws(&mut self) -> bool {
        let mut is_first = false;
        for at in &self.survey.flaws {
            let bytes = at.bytes.end - at.bytes.start;
            let text = match at.flaw {
                TranscriptFlaw::Torn => format!("{bytes} bytes that are not a whole record are set aside"),
                TranscriptFlaw::Zeroes => format!("{bytes} zeroes are left out"),
                TranscriptFlaw::Fused => {
                    is_first = true;
                    "a record got a line of its own".to_owned()
                }
                TranscriptFlaw::NotUtf8 if bytes <= MAX_HELD_BYTES as u64 => {
                    is_first = true;
                    "bytes that are not UTF-8 are replaced, as the agent would".to_owned()
                }
                TranscriptFlaw::NotUtf8 | TranscriptFlaw::Deep => continue,
            };
            self.plan.told.push((at.line, text));
            self.plan.has_flaws = true;
        }
        // Flaws beyond the limit may be of any kind.
        is_first || self.survey.flaw_count > self.survey.flaws.len() as u64
    }

    fn tools(&mut self) {
        let survey = self.survey;
        let mut odd: Vec<(u32, Option<u32>, &'static str)> = Vec::new();
        let mut results: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (tool, record) in &survey.answered_twice {
            results.entry(*tool).or_default().push(*record);
        }
        for (tool, mut others) in results {
            others.insert(0, survey.tools[tool as usize].result_in);
            // A made-up result for a tool that went on in the other writer is not the result.
            let is_called = survey.tools[tool as usize].used_in != NONE;
            let is_real = |at: &u32| is_called && !survey.is(*at, bit::INTERRUPTED);
            let real = others.iter().copied().find(is_real).unwrap_or(others[0]);
            let text = "a second result of one call is set aside; the real one stays";
            odd.extend(others.into_iter().filter(|other| *other != real).map(|at| (at, Some(real), text)));
        }
        for (tool, record) in &survey.used_twice {
            if survey.tools[*tool as usize].used_in != *record {
                let text = "a call under an id that was used before is set aside";
                odd.push((*record, survey.parent(*record), text));
            }
        }
        for tool in &survey.tools {
            match (tool.used_in, tool.result_in) {
                (NONE, result) => {
                    let text = "a result of a tool that was never called is set aside";
                    odd.push((result, survey.parent(result), text));
                }
                (used, NONE) if !self.at_work.contains(&tool.id) => {
                    self.made.insert(used, SyntheticRecord::default());
                }
                (_, _) => {}
            }
        }
        // A record with other, valid calls or results must stay: the invalid one stays as well, and is reported.
        let mut right: HashMap<u32, u64> = odd.iter().map(|(record, ..)| (*record, 0)).collect();
        let again = survey.used_twice.iter().chain(&survey.answered_twice).map(|(_, record)| *record);
        for record in survey.tools.iter().flat_map(|tool| [tool.used_in, tool.result_in]).chain(again) {
            right.entry(record).and_modify(|count| *count += 1);
        }
        for (record, ..) in &odd {
            right.entry(*record).and_modify(|count| *count -= 1);
        }
        for (record, instead, text) in odd {
            if right[&record] == 0 {
                self.drop(record, instead);
                self.note(record, text);
            }
        }
    }

    /// Removes further beginnings: a rollout begins once.
    fn drop_second_headers(&mut self, file: &File) -> io::Result<()> {
        if self.survey.metas.is_empty() {
            return Ok(());
        }
        if check::is_fork(file, self.survey)? {
            return Ok(());
        }
        for record in &self.survey.metas {
            self.drop(*record, None);
            self.note(*record, "a second beginning is set aside");
        }
        Ok(())
    }

    /// Drops records whose id a later record has; true if there were any. The agent uses only the later one.
    fn drop_duplicates(&mut self) -> bool {
        let survey = self.survey;
        for (_, earlier) in &survey.twins {
            // No record replaces it: its children name its id, which the later record has.
            self.plan.drops.insert(*earlier, ());
            self.note(*earlier, "it has the id of a later record, and is set aside");
        }
        !survey.twins.is_empty()
    }

    fn tree(&mut self, is_chosen: bool) {
        let survey = self.survey;
        for record in (0..survey.len()).filter(|at| survey.is(*at, bit::MISSING_PARENT)) {
            let parent = survey.parent(record);
            self.links.insert(record, parent.map_or(ParentLink::Root, ParentLink::Record));
            self.note(record, "its parent is missing; it hangs on the record before it now");
        }
        if self.shape.loops_at.is_some() {
            self.break_rings();
            return;
        }
        self.plan.branch_of = self.shape.branch_of.clone();
        // A user who went back is left alone, unless a branch was chosen: then only that branch stays.
        let branches = self.shape.branches.iter().enumerate();
        let races = branches.filter(|(_, branch)| branch.is_race || is_chosen);
        let mut races: Vec<(u8, &AbandonedBranch, Option<u32>)> =
            races.map(|(at, branch)| (at as u8 + 1, branch, self.first_said(at as u8 + 1, branch))).collect();
        // Answers come first, because they belong to their prompts.
        races.sort_by_key(|(_, branch, said)| {
            (said.is_some_and(|said| survey.is(said, bit::PROMPT)), branch.head)
        });
        let mut end = self.shape.leaf;
        let mut answered = HashSet::new();
        for (number, branch, said) in races {
            let Some(said) = said.filter(|_| !is_chosen) else {
                self.set_aside(number, branch);
                continue;
            };
            let is_turn = survey.is(said, bit::PROMPT);
            let is_sound = is_turn || self.answer_fits(branch) && answered.insert(branch.fork);
            if is_sound {
                self.join(number, branch, said, is_turn, &mut end);
            } else {
                self.set_aside(number, branch);
            }
        }
    }

    /// Breaks rings: a ring has a record whose parent comes later in the file. Once such records have the one before
    /// them as parent, no ring is left.
    fn break_rings(&mut self) {
        let survey = self.survey;
        let mut before = None;
        for record in (0..survey.len()).filter(|at| !survey.is(*at, bit::SIDE | bit::NOT_IN_TREE)) {
            if survey.parent(record).is_some_and(|parent| parent > record)
                && !self.links.contains_key(&record)
            {
                self.links.insert(record, before.map_or(ParentLink::Root, ParentLink::Record));
                self.note(
                    record,
                    "its parent was a later record, in a ring; its parent is the record before it now",
                );
            }
            before = Some(record).filter(|at| !survey.is(*at, bit::OTHER)).or(before);
        }
    }

    /// The first prompt or answer of a branch.
    fn first_said(&self, number: u8, branch: &AbandonedBranch) -> Option<u32> {
        let survey = self.survey;
        (branch.head..=branch.last)
            .find(|at| self.shape.branch_of[*at as usize] == number && is_said(survey, *at))
    }

    /// Prompts and answers on the path after a fork, and made-up text before them.
    fn path_behind(&self, fork: Option<u32>) -> Vec<u32> {
        let Some(leaf) = self.shape.leaf else { return Vec::new() };
        let mut path: Vec<u32> = ancestors(self.survey, leaf).take_while(|at| Some(*at) != fork).collect();
        path.reverse();
        path
    }

    /// True if an answer can be inserted where its branch leaves the path: the next record there is a prompt.
    fn answer_fits(&self, branch: &AbandonedBranch) -> bool {
        let survey = self.survey;
        let path = self.path_behind(branch.fork);
        let mut said = path.iter().filter(|at| is_said(survey, **at));
        branch.fork.is_some() && said.next().is_some_and(|at| survey.is(*at, bit::PROMPT))
    }

    /// Puts a branch into the one line.
    fn join(
        &mut self,
        number: u8,
        branch: &AbandonedBranch,
        said: u32,
        is_turn: bool,
        end: &mut Option<u32>,
    ) {
        let survey = self.survey;
        let is_made_up = |at: u32| survey.is(at, bit::SYNTHETIC | bit::INTERRUPTED);
        // Text that the second writer made up, because it did not know the first one's, is dropped.
        let before: Vec<u32> =
            ancestors(survey, said).skip(1).take_while(|at| Some(*at) != branch.fork).collect();
        for made_up in before.iter().copied().filter(|at| is_made_up(*at)) {
            self.drop_made_up(made_up);
        }
        let top = before.iter().rev().copied().find(|at| !self.is_dropped(*at)).unwrap_or(said);
        let tail = (branch.head..=branch.last)
            .rev()
            .find(|at| {
                self.shape.branch_of[*at as usize] == number && !self.is_dropped(*at) && !is_made_up(*at)
            })
            .unwrap_or(said);
        let path = self.path_behind(branch.fork);
        let next =
            path.iter().copied().find(|at| survey.is(*at, bit::PROMPT) && (!is_turn || *at > branch.head));
        let lines = format!("lines {} to {}", survey.line_of(branch.head), survey.line_of(branch.last));
        match (next, branch.fork) {
            // A beginning from before the path's own.
            (_, None) if path.first().is_some_and(|root| branch.head < *root) => {
                self.links.insert(path[0], ParentLink::Record(tail));
                self.note(path[0], format!("it follows the earlier beginning now: {lines}"));
            }
            (Some(next), _) => {
                if !is_turn {
                    for at in path.iter().copied().take_while(|at| *at != next).filter(|at| is_made_up(*at)) {
                        self.drop_made_up(at);
                    }
                }
                let before = match self.links.get(&next) {
                    Some(link) => *link,
                    None => survey.parent(next).map_or(ParentLink::Root, ParentLink::Record),
                };
                if is_turn {
                    self.links.insert(top, before);
                }
                self.links.insert(next, ParentLink::Record(tail));
                self.note(
                    next,
                    format!("it follows {lines} now, which another writer wrote at the same time"),
                );
            }
            (None, _) => {
                self.links.insert(top, end.map_or(ParentLink::Root, ParentLink::Record));
                *end = Some(tail);
                self.plan.late.insert(number);
                self.note(
                    top,
                    format!("{lines}, which another writer wrote at the same time, come at the end now"),
                );
            }
        }
    }

    fn drop_made_up(&mut self, record: u32) {
        if !self.is_dropped(record) {
            let parent = self.survey.parent(record);
            self.drop(record, parent);
            self.note(record, "text that the agent made up for a missing answer is set aside");
        }
    }

    fn set_aside(&mut self, number: u8, branch: &AbandonedBranch) {
        self.plan.aside_branches.insert(number);
        let (from, to) = (self.survey.line_of(branch.head), self.survey.line_of(branch.last));
        self.note(branch.head, format!("the branch on lines {from} to {to} is set aside"));
        self.plan.aside.push(self.survey.id_of(branch.head));
    }

    /// The record itself, or the replacement of a dropped one.
    fn replacement_of(&self, mut record: u32) -> Option<u32> {
        for _ in 0..self.survey.len() {
            match self.instead.get(&record) {
                None => return Some(record),
                Some(Some(other)) => record = *other,
                Some(None) => return None,
            }
        }
        None
    }

    /// Makes up missing results. A call that cannot be read gets none, and stays as it is.
    fn make(&mut self, file: &File) -> io::Result<()> {
        let survey = self.survey;
        let is_claude = survey.kind == Some(TranscriptKind::Claude);
        let mut calls: Vec<u32> = self.made.keys().copied().collect();
        calls.sort_unstable();
        let lines = survey.lines_of(&calls);
        let record_on: HashMap<u64, u32> = lines.iter().copied().zip(calls).collect();
        let open: HashSet<(u32, IdHash)> = survey
            .tools
            .iter()
            .filter(|tool| tool.result_in == NONE && !self.at_work.contains(&tool.id))
            .map(|tool| (tool.used_in, tool.id))
            .collect();
        self.made.clear();
        record_excerpts::for_each_record(file, survey, lines, |line, call: Option<Value>| {
            let call = call.unwrap_or_default();
            let record = record_on[&line];
            let is_open = |id: &str| open.contains(&(record, IdHash::of(id.as_bytes())));
            let made = if is_claude { claude_result(&call, is_open) } else { codex_result(&call) };
            if let Some(made) = made {
                self.made.insert(record, made);
                self.note(record, "its call got a result that says it was interrupted");
            }
        })
    }

    /// Looks up the ids of the records, and completes the plan.
    fn finish(mut self, file: &File) -> io::Result<RepairPlan> {
        let survey = self.survey;
        let is_claude = survey.kind == Some(TranscriptKind::Claude);
        self.made.retain(|record, _| !self.plan.drops.contains_key(record) && !self.plan.is_aside(*record));
        self.make(file)?;
        if is_claude && !(self.instead.is_empty() && self.made.is_empty()) {
            for record in 0..survey.len() {
                let Some(parent) = survey.parent(record).filter(|_| !self.links.contains_key(&record)) else {
                    continue;
                };
                let hangs_on_result =
                    self.made.contains_key(&parent) && !survey.is(record, bit::BLOCK | bit::RESULT);
                if self.instead.contains_key(&parent) || hangs_on_result {
                    self.links.insert(record, ParentLink::Record(parent));
                }
            }
        }
        let links: Vec<(u32, Option<u32>)> = self
            .links
            .iter()
            .filter(|(record, _)| !self.is_dropped(**record))
            .map(|(record, link)| match link {
                ParentLink::Root => (*record, None),
                ParentLink::Record(parent) => (*record, self.replacement_of(*parent)),
            })
            .collect();
        let mut wanted: Vec<u32> = links.iter().filter_map(|(_, parent)| *parent).collect();
        wanted.extend(self.texts.iter().map(|(record, _)| *record));
        wanted.sort_unstable();
        wanted.dedup();
        let lines: HashMap<u32, u64> = wanted.iter().copied().zip(survey.lines_of(&wanted)).collect();
        // The made-up result goes in between.
        let is_made = |parent: &u32| self.made.contains_key(parent);
        let needed =
            links.iter().filter_map(|(_, parent)| *parent).filter(|parent| !is_made(parent)).collect();
        let ids = ids_of(file, survey, &needed)?;
        for (record, parent) in links {
            let id = match parent {
                None => None,
                Some(parent) => match (self.made.get(&parent), ids.get(&parent)) {
                    (Some(made), _) => Some(format!("\"{}\"", made.id).into_bytes()),
                    (None, Some(id)) => Some(id.clone()),
                    (None, None) => return Err(io::Error::other("the file changed meanwhile")),
                },
            };
            self.plan.parents.insert(record, id);
        }
        self.plan.after.extend(self.made.into_iter().map(|(record, made)| (record, made.text)));
        let told = self.texts.into_iter().map(|(record, text)| (lines[&record], text));
        self.plan.told.extend(told);
        self.plan.told.sort();
        Ok(self.plan)
    }
}

/// The ids of some records, as written in the file.
fn ids_of(file: &File, survey: &TranscriptIndex, wanted: &HashSet<u32>) -> io::Result<HashMap<u32, Vec<u8>>> {
    let mut ids = HashMap::new();
    if wanted.is_empty() {
        return Ok(ids);
    }
    let mut source = file;
    source.seek(SeekFrom::Start(0))?;
    let (mut numbers, mut failed) = (RecordNumbering::default(), None);
    let visit = |_: &LinePosition, seen: ScannedItem<'_>| {
        let ScannedItem::Record(head) = seen else { return };
        let Some(this) = numbers.of(head).filter(|this| wanted.contains(this)) else { return };
        let mut id = vec![0; (head.uuid_at.end - head.uuid_at.start) as usize];
        failed = failed.take().or(file.read_exact_at(&mut id, head.uuid_at.start).err());
        ids.insert(this, id);
    };
    scan_records(source, survey.walked.bytes, |_, _| {}, visit)?;
    failed.map_or(Ok(ids), Err)
}
