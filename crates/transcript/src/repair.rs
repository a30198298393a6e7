//! Repaired copy of a transcript, which its agent can resume.
//!
//! Promise: the original is only read, and a copy never takes its place. Whole records are copied byte for byte, so
//! that a clean transcript has an identical copy. Records that cannot stay in the conversation are kept in a file
//! beside the copy. Each change is reported.
//!
//! The repairs: records on one line get lines of their own; torn records are set aside; a record whose parent is
//! missing gets the record before it as its parent, as in the agent itself; a call without a result gets the one that
//! the agent itself would write; of two results the real one stays. Turns that two writers wrote at once are put one
//! after the other where each is whole (`plan` has the rules); where that makes no sense, only the path that a resume
//! follows stays.
//! Not here: finding the damage (see `check`), writing files (see `copy`). Start with [`repair`].

mod copy;
mod plan;
mod synthetic_records;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::TranscriptKind;
use crate::check::{self, FindingSeverity, TranscriptFinding, id_of_file_name};
use crate::conversation_graph::{self, ConversationGraph};
use crate::location;
use crate::record_summary::IdHash;
use crate::transcript_index::{self, NONE, ToolPair, TranscriptIndex};

/// Limit for rounds of examining and repairing a copy: branches may have branches.
const MAX_ROUNDS: usize = 16;

/// Branches of a fork that stay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum BranchChoice {
    /// All branches that can be put one after the other.
    #[default]
    All,
    /// The branch that was written last.
    Newest,
    /// The branch with the most records.
    Longest,
    /// The branch that has the record with this id, or on this line.
    Leaf(String),
}

/// Choices of a caller that repairs a transcript.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Branches of a fork that stay.
    pub keep: BranchChoice,
    /// New id of the conversation, a UUID, so that the copy can lie beside the original.
    pub new_id: Option<String>,
    /// True if an existing file with the name of the copy may be replaced. An original never is, nor is any other file.
    pub force: bool,
    /// True if branches that cannot stay become copies of their own.
    pub beside: bool,
    /// True if a running process has the original open. A call at its end may still run then: it cannot be called
    /// interrupted, and in the copy it stays without a result.
    pub is_held: bool,
}

/// One change that a repair made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RepairChange {
    /// Line of the original; 0 for a consequence of another change.
    pub line: u64,
    /// The change, in words.
    pub text: String,
}

/// Result of a repair.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RepairResult {
    /// Path of the copy.
    pub copy: PathBuf,
    /// Path of the file with records that were set aside, if there are any.
    pub rest: Option<PathBuf>,
    /// Agent that wrote the transcript.
    pub agent: &'static str,
    /// Id under which the agent finds the copy.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// Directory of the conversation, if known.
    pub cwd: Option<String>,
    /// Changes; empty if the copy is identical.
    pub changes: Vec<RepairChange>,
    /// Findings that remain in the copy.
    pub left: Vec<TranscriptFinding>,
    /// Copies of branches that could not stay.
    pub beside: Vec<PathBuf>,
}

/// Makes a repaired copy. After an error no file was written.
pub fn repair(source: &Path, target: &Path, options: &RepairOptions) -> Result<RepairResult, String> {
    make(source, target, options, BranchSelector::Keep(&options.keep))
}

fn make(
    source: &Path,
    target: &Path,
    options: &RepairOptions,
    mut choice: BranchSelector<'_>,
) -> Result<RepairResult, String> {
    let before = stamp(source)?;
    if target.is_dir() {
        return Err(format!("{} is a directory: give the path of a file for the copy", target.display()));
    }
    let rest = copy::sibling_path(target, "rest");
    ensure_not_original(target, &before)?;
    ensure_not_original(&rest, &before)?;
    let is_there = target.symlink_metadata().is_ok();
    // All files in an agent's own directory are originals, even if the caller allows replacing them.
    let is_own = location::agents_own_path(target).is_some();
    if is_own && is_there {
        return Err(format!("{} is another original, which is never replaced", target.display()));
    }
    if !options.force && is_there {
        return Err(format!("{} exists already", target.display()));
    }
    // The user did not name this file, and so did not allow replacing it.
    if rest.symlink_metadata().is_ok() {
        return Err(format!("{} exists already: move it away, or name another copy", rest.display()));
    }
    let mut work = copy::CopyFiles::begin(target)?;
    let mut changes = Vec::new();
    let mut aside: Vec<IdHash> = Vec::new();
    let mut known = None;
    let mut at_work = HashSet::new();
    let mut round = 0;
    loop {
        let from = if round == 0 { source.to_owned() } else { work.current() };
        let (survey, shape, tip) = index_and_choose(&from, choice)?;
        let kind = survey.kind.ok_or_else(|| {
            format!("{} has no record of Claude Code's or Codex's, and cannot be repaired", source.display())
        })?;
        if survey.is_cut {
            return Err(format!(
                "{} has too many records ({}), or too much in one, to be repaired",
                source.display(),
                survey.records
            ));
        }
        let file = location::open_transcript(&from)?;
        let wrong = |error: std::io::Error| format!("cannot read {}: {error}", from.display());
        // Only the original has an end at which a process may be writing; in a copy other turns may follow it.
        if options.is_held && round == 0 {
            let end = conversation_graph::tip(&survey);
            let is_open = |tool: &&ToolPair| tool.result_in == NONE && tool.used_in >= end;
            at_work = survey.tools.iter().filter(is_open).map(|tool| tool.id).collect();
        }
        let plan = plan::plan(&file, &survey, &shape, tip, &at_work).map_err(wrong)?;
        if known.is_none() {
            known = Some((kind, survey.sessions.clone(), check::is_fork(&file, &survey).map_err(wrong)?));
        }
        // A record that stays in one round, or its ancestor, stays in the next.
        if let Some(tip) = tip {
            let mut path = plan::ancestors(&survey, tip.record);
            // Of two records with one id the later one is found by it.
            let is_gone = |at: &u32| plan.drops.contains_key(&survey.find(survey.id_of(*at)).unwrap_or(*at));
            let stays = path.find(|at| !is_gone(at)).unwrap_or(tip.record);
            choice = BranchSelector::Record(survey.id_of(stays));
        } else {
            choice = BranchSelector::Keep(&BranchChoice::All);
        }
        aside.extend(&plan.aside);
        if round > 0 && plan.is_empty() || round == MAX_ROUNDS {
            break;
        }
        changes.extend(plan.told.iter().map(|(line, text)| RepairChange {
            line: if round == 0 { *line } else { 0 },
            text: text.clone(),
        }));
        let is_whole = plan.is_empty();
        work.apply_plan(&file, &survey, &plan)?;
        round += 1;
        if is_whole {
            break;
        }
    }
    let (kind, sessions, is_fork) = known.ok_or("no record was read")?;
    let copy = work.current();
    let id = options.new_id.clone().or_else(|| id_of_file_name(target).map(str::to_owned));
    let report = check::check(&copy, &mut |_| {})?;
    // An id that no agent would give must not be copied into the records.
    let said = report.conversation.filter(|id| location::is_plain_id(id));
    let id = id.or_else(|| id_of_file_name(source).map(str::to_owned)).or(said).unwrap_or_default();
    // A fork of Codex has the beginning of the original thread, which keeps that thread's id.
    let ours = if is_fork { &sessions[..1] } else { &sessions[..] };
    let strangers = ours.iter().filter(|seen| seen.id != IdHash::of(id.as_bytes())).count();
    if strangers > 0 && !id.is_empty() {
        let count = work.rename(&id, is_fork)?;
        if count > 0 {
            changes.push(RepairChange { line: 0, text: format!("records that belong to {id} now: {count}") });
        }
    }
    if stamp(source)? != before {
        return Err(format!(
            "{} was written meanwhile, so the copy would not be complete: no copy was made",
            source.display()
        ));
    }
    let (mut survey, cwd) = {
        let survey = transcript_index::build_index(&copy, &mut |_| {})?;
        let cwd = cwd_of(&copy, &survey);
        (survey, cwd)
    };
    let mut shape = if kind == TranscriptKind::Claude {
        ConversationGraph::of(&mut survey)
    } else {
        ConversationGraph::default()
    };
    let file = location::open_transcript(&copy)?;
    let left = shape
        .classify_second_beginnings(&file, &survey)
        .and_then(|()| check::report(target, &file, &survey, &shape));
    let left = left.map_err(|error| format!("cannot read {}: {error}", copy.display()))?;
    let aside = if options.beside { aside } else { Vec::new() };
    // Branches first: an error there comes before the copy has its name.
    let mut beside = BranchCopies::default();
    for head in aside {
        beside.branch(source, target, head, options.is_held)?;
    }
    // A file may have been created there meanwhile.
    ensure_not_original(target, &before)?;
    let rest = work.finish(target, &rest, options.force && !is_own)?;
    let beside = beside.keep();
    Ok(RepairResult {
        copy: target.to_owned(),
        rest,
        agent: kind.word(),
        conversation: id,
        cwd,
        changes,
        left: left.findings.into_iter().filter(|one| one.weight == FindingSeverity::Fault).collect(),
        beside,
    })
}

/// Refuses a path that leads to the original.
fn ensure_not_original(path: &Path, original: &FileStamp) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (original.0, original.1) => {
            Err(format!("{} is the original, which is never changed", path.display()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Copies of branches; removed unless they are kept. The user did not name these files, so they replace none.
#[derive(Debug, Default)]
struct BranchCopies {
    copies: Vec<PathBuf>,
    rests: Vec<PathBuf>,
}

impl BranchCopies {
    /// Makes a copy of one branch, as a conversation of its own.
    fn branch(&mut self, source: &Path, target: &Path, head: IdHash, is_held: bool) -> Result<(), String> {
        let id = synthetic_records::synthetic_id(&format!("{}{:x}", target.display(), head.0));
        let path = target.with_file_name(format!("{id}.jsonl"));
        if path.symlink_metadata().is_ok() {
            return Err(format!("{} exists already: move it away, or name another copy", path.display()));
        }
        let options = RepairOptions { new_id: Some(id), is_held, ..RepairOptions::default() };
        let made = make(source, &path, &options, BranchSelector::Record(head))?;
        self.copies.push(made.copy);
        self.rests.extend(made.rest);
        Ok(())
    }

    fn keep(mut self) -> Vec<PathBuf> {
        self.rests.clear();
        std::mem::take(&mut self.copies)
    }
}

impl Drop for BranchCopies {
    fn drop(&mut self) {
        for path in self.copies.iter().chain(&self.rests) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Choice of a branch.
#[derive(Clone, Copy, Debug)]
enum BranchSelector<'a> {
    Keep(&'a BranchChoice),
    /// The branch that has this record.
    Record(IdHash),
}

/// Surveys a file, and finds the end of the chosen branch.
fn index_and_choose(
    path: &Path,
    choice: BranchSelector<'_>,
) -> Result<(TranscriptIndex, ConversationGraph, Option<plan::BranchTip>), String> {
    let mut survey = transcript_index::build_index(path, &mut |_| {})?;
    if survey.kind != Some(TranscriptKind::Claude) {
        return match choice {
            BranchSelector::Keep(BranchChoice::Leaf(_)) => {
                Err("only a transcript of Claude Code has branches to choose from".to_owned())
            }
            BranchSelector::Keep(BranchChoice::All | BranchChoice::Newest | BranchChoice::Longest)
            | BranchSelector::Record(_) => Ok((survey, ConversationGraph::default(), None)),
        };
    }
    let mut shape = ConversationGraph::of(&mut survey);
    let wrong = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    shape.classify_second_beginnings(&location::open_transcript(path)?, &survey).map_err(wrong)?;
    let wanted = match choice {
        BranchSelector::Keep(BranchChoice::All) => None,
        BranchSelector::Keep(BranchChoice::Newest) => shape.newest(&survey),
        BranchSelector::Keep(BranchChoice::Longest) => shape.longest(&survey),
        BranchSelector::Keep(BranchChoice::Leaf(word)) => {
            let by_line = word.parse::<u64>().ok().and_then(|line| {
                let all: Vec<u32> = (0..survey.len()).collect();
                survey.lines_of(&all).iter().position(|at| *at == line).map(|at| at as u32)
            });
            let found = by_line.or_else(|| survey.find(IdHash::of(word.as_bytes())));
            let found = found.ok_or_else(|| format!("there is no record {word} in {}", path.display()))?;
            Some(shape.end_of(&survey, found))
        }
        BranchSelector::Record(id) => survey.find(id).map(|found| shape.end_of(&survey, found)),
    };
    let Some(record) = wanted else { return Ok((survey, shape, None)) };
    let tip = plan::BranchTip { record, is_taken: shape.leaf == Some(record) };
    // Reads the records again, with the chosen path.
    let mut again = transcript_index::build_index(path, &mut |_| {})?;
    let shape = ConversationGraph::to(&mut again, Some(record));
    Ok((again, shape, Some(tip)))
}

/// The directory of a conversation.
fn cwd_of(path: &Path, survey: &TranscriptIndex) -> Option<String> {
    let file = location::open_transcript(path).ok()?;
    let line = match survey.kind? {
        TranscriptKind::Claude => survey.line_of((0..survey.len()).next_back()?),
        TranscriptKind::Codex => 1,
    };
    let mut cwd = None;
    crate::record_excerpts::for_each_record(&file, survey, [line], |_, record: Option<serde_json::Value>| {
        let record = record.unwrap_or_default();
        cwd = record["cwd"].as_str().or(record["payload"]["cwd"].as_str()).map(str::to_owned);
    })
    .ok()?;
    cwd
}

/// Identity of a version of a file: device and inode, size, time of the last write.
type FileStamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Result<FileStamp, String> {
    use std::os::unix::fs::MetadataExt;
    let file = location::open_transcript(path)?;
    let meta = file.metadata().map_err(|error| format!("cannot examine {}: {error}", path.display()))?;
    Ok((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}
