//! Shape of a conversation: the path that a resume follows, and the branches that it leaves behind.
//!
//! Verified with the version of docs/agents.md: a resume begins at the `leafUuid` of the last `last-prompt`, if that record has
//! no children, and else at the record that was written last; from there it follows the parents. A missing parent is
//! replaced by the record before. The results of parallel tools are children of their own calls, and are found.
//! Promise: a branch has a prompt or an answer that a resume would lose; other records beside the path (results, notes)
//! are not a branch.
//! Start with [`ConversationGraph::of`].

use std::collections::HashMap;
use std::fs::File;
use std::io;

use crate::record_excerpts;
use crate::transcript_index::{NONE, TranscriptIndex, bit};

/// Limit for branches that are distinguished.
pub(crate) const MAX_BRANCHES: usize = 250;
/// Limit for the prompts of a branch.
pub(crate) const MAX_PROMPTS: usize = 50;
/// Limit for rounds over all records, for parents that come later than their children.
const MAX_ROUNDS: usize = 64;

/// A branch that a resume leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct AbandonedBranch {
    /// First record of the branch.
    pub(crate) head: u32,
    /// Record of the path at which the branch begins; `None` for another beginning of the conversation.
    pub(crate) fork: Option<u32>,
    /// Next record of the path after the fork.
    pub(crate) instead: Option<u32>,
    pub(crate) records: u64,
    /// Prompts, in the order of the file.
    pub(crate) prompts: Vec<u32>,
    pub(crate) prompt_count: u64,
    pub(crate) answers: u64,
    pub(crate) last: u32,
    /// True if two writers wrote at the same time; false if a user went back and said something else.
    pub(crate) is_race: bool,
    /// True for another beginning of which only the times can tell whether a user went back to it: see
    /// [`ConversationGraph::classify_second_beginnings`].
    may_be_back: bool,
}

/// The shape of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationGraph {
    /// Record at which a resume begins.
    pub(crate) leaf: Option<u32>,
    /// First record of the path.
    pub(crate) root: Option<u32>,
    pub(crate) branches: Vec<AbandonedBranch>,
    /// Number of each record's branch, from 1; 0 for none. Empty without branches.
    pub(crate) branch_of: Vec<u8>,
    /// A record that is its own ancestor.
    pub(crate) loops_at: Option<u32>,
    /// Number of further branches, and the first record of the first of them.
    pub(crate) more_branches: u64,
    pub(crate) first_more: Option<u32>,
}

impl ConversationGraph {
    /// Finds the shape of a conversation of Claude Code; marks its records.
    pub(crate) fn of(survey: &mut TranscriptIndex) -> Self {
        Self::to(survey, None)
    }

    /// Finds the shape with a path that ends at the `wanted` record, if there is one.
    pub(crate) fn to(survey: &mut TranscriptIndex, wanted: Option<u32>) -> Self {
        link_missing(survey);
        let mut shape = Self::default();
        mark_content(survey);
        shape.leaf = wanted.or_else(|| leaf(survey));
        shape.follow(survey);
        shape.branch(survey);
        shape
    }

    /// The end of the branch that has a record: the place where a resume goes on, if it is a descendant, or else the
    /// last descendant with a prompt or an answer.
    pub(crate) fn end_of(&self, survey: &TranscriptIndex, record: u32) -> u32 {
        let behind = descendants(survey, record);
        let is_behind = |at: &u32| behind[*at as usize];
        if let Some(leaf) = self.leaf.filter(is_behind) {
            return leaf;
        }
        let all = || (0..survey.len()).rev().filter(is_behind);
        let said = all().find(|at| is_said(survey, *at) || survey.is(*at, bit::RESULT)).unwrap_or(record);
        let behind = self::descendants(survey, said);
        let is_tip = |at: &u32| behind[*at as usize] && !survey.is(*at, bit::CHILD | bit::OTHER);
        all().find(is_tip).unwrap_or(said)
    }

    /// The end of the branch with the latest prompt or answer.
    pub(crate) fn newest(&self, survey: &TranscriptIndex) -> Option<u32> {
        let is_last = |at: &u32| !survey.is(*at, bit::SIDE | bit::NOT_IN_TREE) && is_said(survey, *at);
        let last = (0..survey.len()).rev().find(is_last);
        last.map(|last| self.end_of(survey, last)).or(self.leaf)
    }

    /// The end of the branch with the most records.
    pub(crate) fn longest(&self, survey: &TranscriptIndex) -> Option<u32> {
        let mut depths = vec![0_u32; survey.len() as usize];
        let mut way = Vec::new();
        for record in 0..survey.len() {
            let mut at = Some(record);
            // Up to an ancestor with a known depth; in a ring, once around.
            while let Some(this) = at.filter(|at| depths[*at as usize] == 0 && way.len() < depths.len()) {
                way.push(this);
                at = survey.parent(this);
            }
            let mut depth = at.map_or(0, |at| depths[at as usize]);
            while let Some(this) = way.pop() {
                depth += 1;
                depths[this as usize] = depth;
            }
        }
        let is_tip = |at: &u32| !survey.is(*at, bit::CHILD | bit::SIDE | bit::NOT_IN_TREE | bit::OTHER);
        (0..survey.len()).filter(is_tip).max_by_key(|at| depths[*at as usize]).or(self.leaf)
    }

    /// Marks the path.
    fn follow(&mut self, survey: &mut TranscriptIndex) {
        let mut at = self.leaf;
        while let Some(record) = at {
            if survey.is(record, bit::PATH) {
                self.loops_at = Some(record);
                return;
            }
            survey.bits[record as usize] |= bit::PATH;
            self.root = Some(record);
            at = survey.parent(record);
        }
    }

    fn branch(&mut self, survey: &TranscriptIndex) {
        let is_off = |record: u32| {
            survey.is(record, bit::HAS_CONTENT)
                && !survey.is(record, bit::PATH | bit::SIDE | bit::NOT_IN_TREE)
        };
        if !(0..survey.len()).any(is_off) {
            return;
        }
        self.number(survey);
        for record in 0..survey.len() {
            let number = usize::from(self.branch_of[record as usize]);
            let Some(branch) = number.checked_sub(1).map(|at| &mut self.branches[at]) else { continue };
            branch.records += 1;
            branch.last = record;
            if survey.is(record, bit::PROMPT) {
                branch.prompt_count += 1;
                if branch.prompts.len() < MAX_PROMPTS {
                    branch.prompts.push(record);
                }
            } else if survey.is(record, bit::ASSISTANT) && !survey.is(record, bit::SYNTHETIC) {
                branch.answers += 1;
            }
        }
        self.compare(survey);
    }

    /// Finds the first records of the branches, and gives their descendants the number.
    fn number(&mut self, survey: &TranscriptIndex) {
        self.branch_of = vec![0; survey.len() as usize];
        let is_outside = |record: u32| survey.is(record, bit::PATH | bit::SIDE | bit::NOT_IN_TREE);
        // Records from before a compaction are in its summary, if the agent did not keep the records themselves.
        let summed_up = self.root.filter(|root| survey.is(*root, bit::BOUNDARY)).unwrap_or(0);
        for record in (0..survey.len()).filter(|record| !is_outside(*record)) {
            let parent = survey.parent(record);
            let is_head = match parent {
                Some(parent) => survey.is(parent, bit::PATH),
                None => record >= summed_up,
            };
            if !is_head || !survey.is(record, bit::HAS_CONTENT) {
                continue;
            }
            if self.branches.len() == MAX_BRANCHES {
                self.more_branches += 1;
                self.first_more = self.first_more.or(Some(record));
                continue;
            }
            self.branches.push(AbandonedBranch {
                head: record,
                fork: parent,
                instead: None,
                records: 0,
                prompts: Vec::new(),
                prompt_count: 0,
                answers: 0,
                last: record,
                is_race: false,
                may_be_back: false,
            });
            self.branch_of[record as usize] = self.branches.len() as u8;
        }
        // In several rounds, because parents may come later than their children.
        let mut is_done = false;
        for _ in 0..MAX_ROUNDS {
            is_done = true;
            for record in (0..survey.len()).filter(|record| !is_outside(*record)) {
                let above = survey.parent(record).map_or(0, |parent| self.branch_of[parent as usize]);
                if above != 0 && self.branch_of[record as usize] == 0 {
                    self.branch_of[record as usize] = above;
                    is_done &= survey.parent(record).is_none_or(|parent| parent < record);
                }
            }
            if is_done {
                break;
            }
        }
        // A record below no branch and not on the path is in a ring.
        let is_lost = |record: &u32| {
            let from = survey.parent(*record);
            let hangs = from.is_some_and(|parent| !survey.is(parent, bit::PATH));
            hangs
                && !is_outside(*record)
                && survey.is(*record, bit::HAS_CONTENT)
                && self.branch_of[*record as usize] == 0
        };
        if self.loops_at.is_none() && self.more_branches == 0 && is_done && summed_up == 0 {
            self.loops_at = (0..survey.len()).find(is_lost);
        }
    }

    /// Finds the next record of the path for each branch, and whether both were written at the same time.
    fn compare(&mut self, survey: &TranscriptIndex) {
        // For each fork: the next record of the path, and its first prompt or answer.
        let mut on_path: HashMap<Option<u32>, (u32, Option<u32>)> =
            self.branches.iter().map(|one| (one.fork, (NONE, None))).collect();
        let (mut at, mut said, mut steps) = (self.leaf, None, survey.len());
        while let Some(record) = at.filter(|_| steps > 0) {
            let parent = survey.parent(record);
            said = Some(record).filter(|at| is_said(survey, *at)).or(said);
            if let Some(next) = on_path.get_mut(&parent) {
                *next = (record, said);
            }
            (at, steps) = (parent, steps - 1);
        }
        let end = self.leaf.unwrap_or_default();
        for (number, branch) in (1_u8..).zip(&mut self.branches) {
            let Some((instead, said)) = on_path.get(&branch.fork).copied().filter(|next| next.0 != NONE)
            else {
                // The path ends here: a child of it was written later, and is not followed.
                branch.is_race = true;
                continue;
            };
            branch.instead = Some(instead);
            // Two simultaneous writers have mixed records. The version of the program proves nothing: a user may come
            // back with a newer one, and go back then.
            let is_mixed = if branch.head < instead { instead < branch.last } else { branch.head < end };
            // A user who goes back sends a prompt; a simultaneous writer continues the existing prompt.
            let ours = (branch.head..=branch.last)
                .find(|at| self.branch_of[*at as usize] == number && is_said(survey, *at));
            let later =
                if instead > branch.head { said.unwrap_or(instead) } else { ours.unwrap_or(branch.head) };
            let goes_on = !survey.is(later, bit::PROMPT);
            let is_made_up = survey.is(branch.head, bit::SYNTHETIC | bit::INTERRUPTED)
                || survey.is(instead, bit::SYNTHETIC | bit::INTERRUPTED);
            let has_sign = is_mixed || goes_on || is_made_up;
            branch.may_be_back = branch.fork.is_none() && !has_sign;
            branch.is_race = has_sign || branch.fork.is_none();
        }
    }

    /// Uses the times to find whether a second beginning is a user who went back to the first prompt: the abandoned
    /// branch was over then. Two cold starts with one id write at the same time, in any order in the file.
    pub(crate) fn classify_second_beginnings(
        &mut self,
        file: &File,
        survey: &TranscriptIndex,
    ) -> io::Result<()> {
        let Some(end) = self.leaf.filter(|_| self.branches.iter().any(|one| one.may_be_back)) else {
            return Ok(());
        };
        let mut records: Vec<u32> = vec![end];
        records
            .extend(self.branches.iter().filter(|one| one.may_be_back).flat_map(|one| [one.head, one.last]));
        records.extend(self.root);
        records.sort_unstable();
        records.dedup();
        let lines: HashMap<u32, u64> = records.iter().copied().zip(survey.lines_of(&records)).collect();
        let words = record_excerpts::fetch_excerpts(file, survey, lines.values().copied())?;
        let at_ms = |record: u32| words.get(&lines[&record])?.at_ms;
        for branch in self.branches.iter_mut().filter(|one| one.may_be_back) {
            let Some(instead) = branch.instead else { continue };
            let (before, after) =
                if branch.head < instead { (branch.last, instead) } else { (end, branch.head) };
            // A branch without times proves nothing.
            branch.is_race =
                !matches!((at_ms(before), at_ms(after)), (Some(before), Some(after)) if before < after);
        }
        Ok(())
    }
}

/// For each record true if it is this one, or a descendant.
fn descendants(survey: &TranscriptIndex, record: u32) -> Vec<bool> {
    let mut behind = vec![false; survey.len() as usize];
    behind[record as usize] = true;
    for _ in 0..MAX_ROUNDS {
        let mut is_done = true;
        for at in (0..survey.len()).filter(|at| !survey.is(*at, bit::SIDE | bit::NOT_IN_TREE)) {
            if let Some(parent) = survey.parent(at)
                && behind[parent as usize]
                && !behind[at as usize]
            {
                behind[at as usize] = true;
                is_done &= parent < at;
            }
        }
        if is_done {
            break;
        }
    }
    behind
}

/// True if a record is a prompt or an answer.
pub(crate) fn is_said(survey: &TranscriptIndex, record: u32) -> bool {
    survey.is(record, bit::PROMPT) || survey.is(record, bit::ASSISTANT) && !survey.is(record, bit::SYNTHETIC)
}

/// The record after which only one message and the results of its tools follow: a call after it without a result may
/// still run.
pub(crate) fn tip(survey: &TranscriptIndex) -> u32 {
    let begins = |at: &u32| is_said(survey, *at) && !survey.is(*at, bit::BLOCK | bit::SIDE);
    (0..survey.len()).rev().find(begins).unwrap_or(0)
}

/// Links records with a missing parent to the record before, as the agent does.
fn link_missing(survey: &mut TranscriptIndex) {
    let mut before = None;
    for record in 0..survey.len() {
        if survey.is(record, bit::SIDE | bit::NOT_IN_TREE) {
            continue;
        }
        if let Some(before) = before.filter(|_| survey.is(record, bit::MISSING_PARENT)) {
            survey.parents[record as usize] = before;
        }
        before = Some(record).filter(|at| !survey.is(*at, bit::OTHER)).or(before);
    }
}

/// Marks records with children, and records with a prompt or an answer below them.
fn mark_content(survey: &mut TranscriptIndex) {
    for _ in 0..MAX_ROUNDS {
        let mut is_done = true;
        for record in (0..survey.len()).rev() {
            let bits = survey.bits[record as usize];
            if bits & (bit::SIDE | bit::NOT_IN_TREE) != 0 {
                continue;
            }
            let says = bits & bit::PROMPT != 0
                || bits & bit::ASSISTANT != 0 && bits & (bit::BLOCK | bit::SYNTHETIC) == 0;
            let carries = if says { bit::HAS_CONTENT } else { bits & bit::HAS_CONTENT };
            survey.bits[record as usize] |= carries;
            if let Some(parent) = survey.parent(record) {
                let before = survey.bits[parent as usize];
                // A record of an unknown type counts as a child only if it has children.
                let is_child = bits & bit::OTHER == 0 || bits & bit::CHILD != 0;
                let after = before | carries | if is_child { bit::CHILD } else { 0 };
                survey.bits[parent as usize] = after;
                // A parent that was visited already must pass the mark on.
                is_done &= parent < record || before == after;
            }
        }
        if is_done {
            break;
        }
    }
    for record in 0..survey.len() {
        if survey.is(record, bit::HAS_CONTENT)
            && let Some(parent) = survey.parent(record)
        {
            let has_one = survey.is(parent, bit::HAS_CONTENT_CHILD);
            survey.bits[parent as usize] |= if has_one { bit::FORK } else { bit::HAS_CONTENT_CHILD };
        }
    }
}

/// The record at which a resume begins.
fn leaf(survey: &TranscriptIndex) -> Option<u32> {
    let noted = survey.leaf_id.and_then(|id| survey.find(id));
    let is_tip = |record: &u32| !survey.is(*record, bit::CHILD | bit::SIDE);
    let last = |bits: u16| (0..survey.len()).rev().find(|at| !survey.is(*at, bits));
    noted
        .filter(is_tip)
        .or_else(|| last(bit::SIDE | bit::NOT_IN_TREE | bit::OTHER))
        .or_else(|| last(bit::SIDE | bit::NOT_IN_TREE))
}
