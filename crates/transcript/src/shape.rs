//! Which records a resume takes up, and which branches it leaves behind.
//!
//! Measured with Claude Code 2.1.325: a resume begins at the `leafUuid` of the last `last-prompt`, if nothing hangs on
//! that record, and else at the record that was written last; from there it follows the parents. A parent that is
//! missing is the record before. The results of tools that ran side by side hang on their own calls, and are found.
//! Promise: a branch is something somebody said or was answered, that a resume would not have; what only hangs beside
//! the path (results, notes) is none.
//! Start with [`Shape::of`].

use std::collections::HashMap;
use std::fs::File;
use std::io;

use crate::survey::{NONE, Survey, bit};
use crate::words;

/// How many branches are told apart.
pub(crate) const MAX_BRANCHES: usize = 250;
/// How many prompts of a branch are kept.
pub(crate) const MAX_PROMPTS: usize = 50;
/// How often everything is looked at again, where parents come later than their children.
const MAX_ROUNDS: usize = 64;

/// A branch that a resume leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// Its first record.
    pub(crate) head: u32,
    /// Where it leaves the path; nowhere for another beginning.
    pub(crate) fork: Option<u32>,
    /// The record that is on the path instead.
    pub(crate) instead: Option<u32>,
    pub(crate) records: u64,
    /// In the order of the file.
    pub(crate) prompts: Vec<u32>,
    pub(crate) prompt_count: u64,
    pub(crate) answers: u64,
    pub(crate) last: u32,
    /// Whether two wrote at the same time, or one went back and said something else.
    pub(crate) is_race: bool,
    /// Another beginning, and nothing but the times can tell whether somebody went back to it: see [`Shape::weigh`].
    may_be_back: bool,
}

/// The shape of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Where a resume begins.
    pub(crate) leaf: Option<u32>,
    /// The first record of the path.
    pub(crate) root: Option<u32>,
    pub(crate) branches: Vec<Branch>,
    /// For each record the number of its branch, from 1; 0 if it is of none. Empty if there are none.
    pub(crate) branch_of: Vec<u8>,
    /// A record that is its own ancestor.
    pub(crate) loops_at: Option<u32>,
    /// How many more branches there are, and where the first of them begins.
    pub(crate) more_branches: u64,
    pub(crate) first_more: Option<u32>,
}

impl Shape {
    /// Of a conversation of Claude Code; marks its records.
    pub(crate) fn of(survey: &mut Survey) -> Self {
        Self::to(survey, None)
    }

    /// The same with a path that ends at this record, if one is named.
    pub(crate) fn to(survey: &mut Survey, wanted: Option<u32>) -> Self {
        link_missing(survey);
        let mut shape = Self::default();
        carry(survey);
        shape.leaf = wanted.or_else(|| leaf(survey));
        shape.follow(survey);
        shape.branch(survey);
        shape
    }

    /// The end of the branch that has a record: where a resume goes on, if that is behind it, or else what is behind
    /// the last of it that somebody said.
    pub(crate) fn end_of(&self, survey: &Survey, record: u32) -> u32 {
        let behind = behind(survey, record);
        let is_behind = |at: &u32| behind[*at as usize];
        if let Some(leaf) = self.leaf.filter(is_behind) {
            return leaf;
        }
        let all = || (0..survey.len()).rev().filter(is_behind);
        let said = all().find(|at| is_said(survey, *at) || survey.is(*at, bit::RESULT)).unwrap_or(record);
        let behind = self::behind(survey, said);
        let is_tip = |at: &u32| behind[*at as usize] && !survey.is(*at, bit::CHILD | bit::OTHER);
        all().find(is_tip).unwrap_or(said)
    }

    /// The end of the branch in which something was said last.
    pub(crate) fn newest(&self, survey: &Survey) -> Option<u32> {
        let is_last = |at: &u32| !survey.is(*at, bit::SIDE | bit::LOOSE) && is_said(survey, *at);
        let last = (0..survey.len()).rev().find(is_last);
        last.map(|last| self.end_of(survey, last)).or(self.leaf)
    }

    /// The end of the branch with the most records.
    pub(crate) fn longest(&self, survey: &Survey) -> Option<u32> {
        let mut depths = vec![0_u32; survey.len() as usize];
        let mut way = Vec::new();
        for record in 0..survey.len() {
            let mut at = Some(record);
            // Up to one whose depth is known; in a ring, once around.
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
        let is_tip = |at: &u32| !survey.is(*at, bit::CHILD | bit::SIDE | bit::LOOSE | bit::OTHER);
        (0..survey.len()).filter(is_tip).max_by_key(|at| depths[*at as usize]).or(self.leaf)
    }

    /// Marks the path.
    fn follow(&mut self, survey: &mut Survey) {
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

    fn branch(&mut self, survey: &Survey) {
        let is_off = |record: u32| {
            survey.is(record, bit::CARRIES) && !survey.is(record, bit::PATH | bit::SIDE | bit::LOOSE)
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

    /// Finds the heads of the branches, and gives everything below one its number.
    fn number(&mut self, survey: &Survey) {
        self.branch_of = vec![0; survey.len() as usize];
        let is_outside = |record: u32| survey.is(record, bit::PATH | bit::SIDE | bit::LOOSE);
        // What was said before a compaction is in its summary, if the agent did not keep the records themselves.
        let summed_up = self.root.filter(|root| survey.is(*root, bit::BOUNDARY)).unwrap_or(0);
        for record in (0..survey.len()).filter(|record| !is_outside(*record)) {
            let parent = survey.parent(record);
            let is_head = match parent {
                Some(parent) => survey.is(parent, bit::PATH),
                None => record >= summed_up,
            };
            if !is_head || !survey.is(record, bit::CARRIES) {
                continue;
            }
            if self.branches.len() == MAX_BRANCHES {
                self.more_branches += 1;
                self.first_more = self.first_more.or(Some(record));
                continue;
            }
            self.branches.push(Branch {
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
        // More than once, because parents may come later than their children.
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
        // Below no head and not on the path: only a ring is like that.
        let is_lost = |record: &u32| {
            let from = survey.parent(*record);
            let hangs = from.is_some_and(|parent| !survey.is(parent, bit::PATH));
            hangs
                && !is_outside(*record)
                && survey.is(*record, bit::CARRIES)
                && self.branch_of[*record as usize] == 0
        };
        if self.loops_at.is_none() && self.more_branches == 0 && is_done && summed_up == 0 {
            self.loops_at = (0..survey.len()).find(is_lost);
        }
    }

    /// What is on the path instead of each branch, and whether both were written at the same time.
    fn compare(&mut self, survey: &Survey) {
        // For each fork: what is on the path next, and what is said there first.
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
                // The path ends here: what hangs on it was said later, and is not followed.
                branch.is_race = true;
                continue;
            };
            branch.instead = Some(instead);
            // Who is not alone is mixed with the other. Which program wrote says nothing: a person may come back with
            // a newer one, and go back then.
            let is_mixed = if branch.head < instead { instead < branch.last } else { branch.head < end };
            // Whoever goes back says something; whoever writes at the same time goes on with what was asked.
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

    /// Asks the times whether a second beginning is somebody who went back to the first prompt: what is left was over then.
    /// Two cold starts with one id write at the same time, whatever the order of the file is.
    pub(crate) fn weigh(&mut self, file: &File, survey: &Survey) -> io::Result<()> {
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
        let words = words::fetch(file, survey, lines.values().copied())?;
        let at_ms = |record: u32| words.get(&lines[&record])?.at_ms;
        for branch in self.branches.iter_mut().filter(|one| one.may_be_back) {
            let Some(instead) = branch.instead else { continue };
            let (before, after) =
                if branch.head < instead { (branch.last, instead) } else { (end, branch.head) };
            // One that does not say when it was written proves nothing.
            branch.is_race =
                !matches!((at_ms(before), at_ms(after)), (Some(before), Some(after)) if before < after);
        }
        Ok(())
    }
}

/// For each record whether it is this one, or descends from it.
fn behind(survey: &Survey, record: u32) -> Vec<bool> {
    let mut behind = vec![false; survey.len() as usize];
    behind[record as usize] = true;
    for _ in 0..MAX_ROUNDS {
        let mut is_done = true;
        for at in (0..survey.len()).filter(|at| !survey.is(*at, bit::SIDE | bit::LOOSE)) {
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

/// Whether a record is a prompt or an answer.
pub(crate) fn is_said(survey: &Survey, record: u32) -> bool {
    survey.is(record, bit::PROMPT) || survey.is(record, bit::ASSISTANT) && !survey.is(record, bit::SYNTHETIC)
}

/// The record from which on nothing is said but one message and what its tools gave back: a call behind it that has no
/// result may be at work.
pub(crate) fn tip(survey: &Survey) -> u32 {
    let begins = |at: &u32| is_said(survey, *at) && !survey.is(*at, bit::BLOCK | bit::SIDE);
    (0..survey.len()).rev().find(begins).unwrap_or(0)
}

/// Where a parent is missing, the agent goes on with the record before.
fn link_missing(survey: &mut Survey) {
    let mut before = None;
    for record in 0..survey.len() {
        if survey.is(record, bit::SIDE | bit::LOOSE) {
            continue;
        }
        if let Some(before) = before.filter(|_| survey.is(record, bit::MISSING)) {
            survey.parents[record as usize] = before;
        }
        before = Some(record).filter(|at| !survey.is(*at, bit::OTHER)).or(before);
    }
}

/// Marks who has children, and below whom something is said.
fn carry(survey: &mut Survey) {
    for _ in 0..MAX_ROUNDS {
        let mut is_done = true;
        for record in (0..survey.len()).rev() {
            let bits = survey.bits[record as usize];
            if bits & (bit::SIDE | bit::LOOSE) != 0 {
                continue;
            }
            let says = bits & bit::PROMPT != 0
                || bits & bit::ASSISTANT != 0 && bits & (bit::BLOCK | bit::SYNTHETIC) == 0;
            let carries = if says { bit::CARRIES } else { bits & bit::CARRIES };
            survey.bits[record as usize] |= carries;
            if let Some(parent) = survey.parent(record) {
                let before = survey.bits[parent as usize];
                // What nobody goes on at is not gone on with, unless something hangs on it.
                let is_child = bits & bit::OTHER == 0 || bits & bit::CHILD != 0;
                let after = before | carries | if is_child { bit::CHILD } else { 0 };
                survey.bits[parent as usize] = after;
                // A parent that was looked at already has to tell its own.
                is_done &= parent < record || before == after;
            }
        }
        if is_done {
            break;
        }
    }
    for record in 0..survey.len() {
        if survey.is(record, bit::CARRIES)
            && let Some(parent) = survey.parent(record)
        {
            let has_one = survey.is(parent, bit::ONE);
            survey.bits[parent as usize] |= if has_one { bit::FORK } else { bit::ONE };
        }
    }
}

/// Where a resume begins.
fn leaf(survey: &Survey) -> Option<u32> {
    let noted = survey.leaf_id.and_then(|id| survey.find(id));
    let is_tip = |record: &u32| !survey.is(*record, bit::CHILD | bit::SIDE);
    let last = |bits: u16| (0..survey.len()).rev().find(|at| !survey.is(*at, bits));
    noted
        .filter(is_tip)
        .or_else(|| last(bit::SIDE | bit::LOOSE | bit::OTHER))
        .or_else(|| last(bit::SIDE | bit::LOOSE))
}
