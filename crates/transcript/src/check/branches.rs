//! Check of the tree: damaged links between records, and dialogue on branches that a resume leaves behind.
//!
//! Start with [`tree`].

use std::collections::BTreeMap;
use std::fs::File;

use super::{
    BranchTurn, BranchWriter, FindingCollector, FindingKind, FindingSeverity, ForkSide, MAX_LOST,
    TranscriptFinding, counted,
};
use crate::conversation_graph::{AbandonedBranch, ConversationGraph};
use crate::record_excerpts::{self, RecordExcerpt};
use crate::transcript_index::{TranscriptIndex, bit};

pub(super) fn tree(
    file: &File,
    survey: &TranscriptIndex,
    shape: &ConversationGraph,
    found: &mut FindingCollector<'_>,
) -> std::io::Result<()> {
    let mut missing: Vec<u32> = (0..survey.len()).filter(|at| survey.is(*at, bit::MISSING_PARENT)).collect();
    found.limit(&mut missing);
    for line in survey.lines_of(&missing) {
        let resume = Some("the agent goes on with the record before it; the records between them are lost");
        found.fault(FindingKind::MissingParent, line, "its parent record is missing", resume);
    }
    let mut twins = survey.twins.clone();
    found.limit(&mut twins);
    let mut both: Vec<u32> = twins.iter().flat_map(|(one, other)| [*one, *other]).collect();
    both.sort_unstable();
    both.dedup();
    let line_of: BTreeMap<u32, u64> = both.iter().copied().zip(survey.lines_of(&both)).collect();
    for (record, other) in twins {
        let text = format!("it has the id of the record on line {}", line_of[&other]);
        found.fault(
            FindingKind::DuplicateId,
            line_of[&record],
            &text,
            Some("the agent has only the later one"),
        );
    }
    if let Some(record) = shape.first_more {
        let text =
            format!("this is the first of {} more branches, which are not listed", shape.more_branches);
        let resume = Some("the model is not given what is on them");
        found.fault(FindingKind::Fork, survey.line_of(record), &text, resume);
    }
    if let Some(record) = shape.loops_at {
        let resume = Some("the agent cannot find the beginning");
        found.fault(FindingKind::Ring, survey.line_of(record), "it is its own ancestor", resume);
    }
    // Most transcripts have no branches, and then no words are needed.
    if shape.branches.is_empty() {
        return Ok(());
    }
    let mut wanted: Vec<u32> = Vec::new();
    for branch in &shape.branches {
        wanted.extend(branch.fork);
        wanted.extend(branch.instead);
        wanted.extend(&branch.prompts);
        wanted.extend([branch.head, branch.last]);
    }
    wanted.extend(shape.leaf);
    let next = next_prompts(survey, shape);
    wanted.extend(next.values());
    wanted.sort_unstable();
    wanted.dedup();
    let lines: BTreeMap<u32, u64> = wanted.iter().copied().zip(survey.lines_of(&wanted)).collect();
    let all = record_excerpts::fetch_excerpts(file, survey, lines.values().copied())?;
    for branch in &shape.branches {
        let line = |record: u32| lines.get(&record).copied().unwrap_or(0);
        let words = |record: u32| all.get(&line(record)).cloned().unwrap_or_default();
        let turn = |record: u32, kind: &'static str| BranchTurn {
            line: line(record),
            at_ms: words(record).at_ms,
            kind,
            said: words(record).said.unwrap_or_default(),
        };
        let prompts = branch.prompts.iter().copied().filter(|at| words(*at).is_persons());
        let mut turns: Vec<BranchTurn> = prompts.map(|at| turn(at, "prompt")).collect();
        if turns.is_empty() {
            turns.push(turn(branch.last, "answer"));
        }
        let lost = ForkSide {
            resumed: false,
            from_line: line(branch.head),
            to_line: line(branch.last),
            writer: writer(&words(branch.head), &words(branch.last)),
            turns,
        };
        let kept = branch.instead.map(|instead| {
            let end = shape.leaf.unwrap_or(instead);
            ForkSide {
                resumed: true,
                from_line: line(instead),
                to_line: line(end),
                writer: writer(&words(instead), &words(end)),
                turns: next.get(&instead).map(|at| turn(*at, "prompt")).into_iter().collect(),
            }
        });
        let room = MAX_LOST.saturating_sub(found.report.lost.len());
        found.report.lost.extend(lost.turns.iter().take(room).cloned());
        found.push(fork(branch, line(branch.fork.unwrap_or(branch.head)), kept, lost));
    }
    found.report.lost.sort_by_key(|turn| turn.line);
    Ok(())
}

/// For the records of the path at which branches leave it: the next prompt on the path.
fn next_prompts(survey: &TranscriptIndex, shape: &ConversationGraph) -> BTreeMap<u32, u32> {
    let mut next = BTreeMap::new();
    let (mut at, mut prompt, mut steps) = (shape.leaf, None, survey.len());
    while let Some(record) = at.filter(|_| steps > 0) {
        if survey.is(record, bit::PROMPT) {
            prompt = Some(record);
        }
        if let Some(prompt) = prompt.filter(|_| shape.branches.iter().any(|one| one.instead == Some(record)))
        {
            next.insert(record, prompt);
        }
        (at, steps) = (survey.parent(record), steps - 1);
    }
    next
}

fn writer(first: &RecordExcerpt, last: &RecordExcerpt) -> BranchWriter {
    let text =
        |text: &Option<String>| text.as_ref().map(|text| text.chars().filter(|c| !c.is_control()).collect());
    BranchWriter {
        entrypoint: text(&first.entrypoint),
        version: text(&first.version),
        cwd: text(&first.cwd),
        from_ms: first.at_ms,
        to_ms: last.at_ms,
    }
}

fn fork(branch: &AbandonedBranch, line: u64, kept: Option<ForkSide>, lost: ForkSide) -> TranscriptFinding {
    let (from, to) = (lost.from_line, lost.to_line);
    let what = if branch.fork.is_none() { FindingKind::SecondRoot } else { FindingKind::Fork };
    let text = match (&kept, branch.is_race) {
        (Some(kept), false) if branch.fork.is_none() => {
            let other = kept.from_line;
            format!(
                "the conversation went back to the start: lines {from} to {to} were left for line {other}"
            )
        }
        _ if branch.fork.is_none() => {
            format!("the conversation begins a second time: lines {from} to {to} have no parent")
        }
        (Some(kept), true) => {
            let other = kept.from_line;
            format!(
                "two writers wrote at once: lines {from} to {to} and those from {other} on both follow this one"
            )
        }
        (Some(kept), false) => {
            let other = kept.from_line;
            format!("the conversation went back: lines {from} to {to} were left for line {other}")
        }
        (None, _) => format!("lines {from} to {to} follow the record at which a resume begins"),
    };
    let has = match (branch.prompt_count, branch.answers) {
        (0, answers) => counted(answers, "answer"),
        (prompts, answers) => format!("{} and {}", counted(prompts, "prompt"), counted(answers, "answer")),
    };
    TranscriptFinding {
        what,
        weight: if branch.is_race { FindingSeverity::Fault } else { FindingSeverity::Note },
        line,
        text,
        resume: Some(format!("the model is not given what is on lines {from} to {to}: {has}")),
        branches: kept.into_iter().chain([lost]).collect(),
        may_be_at_work: false,
    }
}
