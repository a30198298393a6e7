//! A copy of a transcript that is whole, and that its agent resumes.
//!
//! Promise: the original is only read, and a copy never takes its place. What is whole is copied byte for byte, so that
//! a clean transcript has an identical copy. What cannot stay in a conversation is not thrown away: it is in a file
//! beside the copy. Each change is told.
//!
//! How things are mended: records that ran together get lines of their own; what is torn is set aside; a record whose
//! parent is missing hangs on the one before, as the agent itself has it; a call without a result gets the one the agent
//! itself would write; of two results the real one stays. Turns that two writers wrote at once come one after the other
//! where each is whole (`plan` has the rules); where that makes no sense the path a resume follows stays.
//! Not here: deciding what is wrong (see `check`), writing (see `copy`). Start with [`repair`].

mod copy;
mod made;
mod plan;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Kind;
use crate::check::{self, Finding, Weight, named_id};
use crate::head::Id;
use crate::place;
use crate::shape::{self, Shape};
use crate::survey::{self, NONE, Survey, Tool};

/// How often a copy is looked at and mended again: branches may have branches.
const MAX_ROUNDS: usize = 16;

/// Which branch of a fork stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Keep {
    /// All that can be put one after the other.
    #[default]
    All,
    /// The one that was written last.
    Newest,
    /// The one with the most records.
    Longest,
    /// The one that has the record with this id, or on this line.
    Leaf(String),
}

/// How to make a copy.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Which branches stay.
    pub keep: Keep,
    /// Another id for the conversation, so that the copy can lie beside the original: a UUID.
    pub new_id: Option<String>,
    /// Whether a file with the name of the copy may be replaced. No original ever is, nor is any other file.
    pub force: bool,
    /// Whether branches that cannot stay become copies of their own.
    pub beside: bool,
    /// Whether somebody who lives has the original open. A call at its end is at work then: nobody may say that it was
    /// interrupted, and in the copy it stays without a result.
    pub is_held: bool,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// On which line of the original; 0 if a change made it necessary.
    pub line: u64,
    /// What was done.
    pub text: String,
}

/// What was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Repaired {
    /// The copy.
    pub copy: PathBuf,
    /// What was set aside, if anything was.
    pub rest: Option<PathBuf>,
    /// Whose it is.
    pub agent: &'static str,
    /// The id under which the agent finds the copy.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// The directory the conversation was held in, if that is known.
    pub cwd: Option<String>,
    /// What was changed. Nothing: the copy is identical.
    pub changes: Vec<Change>,
    /// What is still wrong with the copy.
    pub left: Vec<Finding>,
    /// Copies of branches that could not stay.
    pub beside: Vec<PathBuf>,
}

/// Makes a copy. The error says why there is none; then nothing was made.
pub fn repair(source: &Path, target: &Path, wish: &Wish) -> Result<Repaired, String> {
    make(source, target, wish, Choice::Keep(&wish.keep))
}

fn make(source: &Path, target: &Path, wish: &Wish, mut choice: Choice<'_>) -> Result<Repaired, String> {
    let before = stamp(source)?;
    if target.is_dir() {
        return Err(format!("{} is a directory: name the file the copy shall be", target.display()));
    }
    let rest = copy::beside(target, "rest");
    is_free_of(target, &before)?;
    is_free_of(&rest, &before)?;
    let is_there = target.symlink_metadata().is_ok();
    // An agent's own files are originals, all of them, whoever says that they may be replaced.
    let is_own = place::own(target).is_some();
    if is_own && is_there {
        return Err(format!("{} is another original, which is never replaced", target.display()));
    }
    if !wish.force && is_there {
        return Err(format!("{} is there already", target.display()));
    }
    // Nobody named it, so nobody said that it may be replaced.
    if rest.symlink_metadata().is_ok() {
        return Err(format!("{} is there already: move it away, or name another copy", rest.display()));
    }
    let mut work = copy::Work::begin(target)?;
    let mut changes = Vec::new();
    let mut aside: Vec<Id> = Vec::new();
    let mut known = None;
    let mut at_work = HashSet::new();
    let mut round = 0;
    loop {
        let from = if round == 0 { source.to_owned() } else { work.current() };
        let (survey, shape, tip) = look(&from, choice)?;
        let kind = survey.kind.ok_or_else(|| {
            format!("{} has no record of Claude Code's or Codex's, and cannot be mended", source.display())
        })?;
        if survey.is_cut {
            return Err(format!(
                "{} has too many records ({}), or too much in one, to be mended",
                source.display(),
                survey.records
            ));
        }
        let file = place::open(&from)?;
        let wrong = |error: std::io::Error| format!("cannot read {}: {error}", from.display());
        // Only the original has an end at which somebody works; in a copy other turns may come behind it.
        if wish.is_held && round == 0 {
            let end = shape::tip(&survey);
            let is_open = |tool: &&Tool| tool.result_in == NONE && tool.used_in >= end;
            at_work = survey.tools.iter().filter(is_open).map(|tool| tool.id).collect();
        }
        let plan = plan::plan(&file, &survey, &shape, tip, &at_work).map_err(wrong)?;
        if known.is_none() {
            known = Some((kind, survey.sessions.clone(), check::is_fork(&file, &survey).map_err(wrong)?));
        }
        // What stays in one round stays in the next, or what it hangs on.
        if let Some(tip) = tip {
            let mut path = plan::ancestors(&survey, tip.record);
            // Of two with one id the later one is found by it.
            let is_gone = |at: &u32| plan.drops.contains_key(&survey.find(survey.id_of(*at)).unwrap_or(*at));
            let stays = path.find(|at| !is_gone(at)).unwrap_or(tip.record);
            choice = Choice::Record(survey.id_of(stays));
        } else {
            choice = Choice::Keep(&Keep::All);
        }
        aside.extend(&plan.aside);
        if round > 0 && plan.is_empty() || round == MAX_ROUNDS {
            break;
        }
        changes.extend(
            plan.told
                .iter()
                .map(|(line, text)| Change { line: if round == 0 { *line } else { 0 }, text: text.clone() }),
        );
        let is_whole = plan.is_empty();
        work.round(&file, &survey, &plan)?;
        round += 1;
        if is_whole {
            break;
        }
    }
    let (kind, sessions, is_fork) = known.ok_or("nothing was looked at")?;
    let copy = work.current();
    let id = wish.new_id.clone().or_else(|| named_id(target).map(str::to_owned));
    let report = check::check(&copy, &mut |_| {})?;
    // What no agent would give is no id to be spread.
    let said = report.conversation.filter(|id| place::is_plain_id(id));
    let id = id.or_else(|| named_id(source).map(str::to_owned)).or(said).unwrap_or_default();
    // A fork of Codex has the beginning of the thread it was forked from, which stays what it is.
    let ours = if is_fork { &sessions[..1] } else { &sessions[..] };
    let strangers = ours.iter().filter(|seen| seen.id != Id::of(id.as_bytes())).count();
    if strangers > 0 && !id.is_empty() {
        let count = work.rename(&id, is_fork)?;
        if count > 0 {
            changes.push(Change { line: 0, text: format!("records that now say they are of {id}: {count}") });
        }
    }
    if stamp(source)? != before {
        return Err(format!(
            "{} was written meanwhile, so the copy would not be whole: nothing was made",
            source.display()
        ));
    }
    let (mut survey, cwd) = {
        let survey = survey::survey(&copy, &mut |_| {})?;
        let cwd = cwd_of(&copy, &survey);
        (survey, cwd)
    };
    let mut shape = if kind == Kind::Claude { Shape::of(&mut survey) } else { Shape::default() };
    let file = place::open(&copy)?;
    let left = shape.weigh(&file, &survey).and_then(|()| check::report(target, &file, &survey, &shape));
    let left = left.map_err(|error| format!("cannot read {}: {error}", copy.display()))?;
    let aside = if wish.beside { aside } else { Vec::new() };
    // Branches first: what cannot be made is known before the copy has its name.
    let mut beside = Beside::default();
    for head in aside {
        beside.branch(source, target, head, wish.is_held)?;
    }
    // Whatever was put there meanwhile.
    is_free_of(target, &before)?;
    let rest = work.finish(target, &rest, wish.force && !is_own)?;
    let beside = beside.keep();
    Ok(Repaired {
        copy: target.to_owned(),
        rest,
        agent: kind.word(),
        conversation: id,
        cwd,
        changes,
        left: left.findings.into_iter().filter(|one| one.weight == Weight::Fault).collect(),
        beside,
    })
}

/// Whether a name is not one of the original's.
fn is_free_of(path: &Path, original: &Stamp) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (original.0, original.1) => {
            Err(format!("{} is the original, which is never changed", path.display()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Copies of branches; removed unless they are kept. Nobody named their files: they replace none.
#[derive(Debug, Default)]
struct Beside {
    copies: Vec<PathBuf>,
    rests: Vec<PathBuf>,
}

impl Beside {
    /// A copy of one branch, as a conversation of its own.
    fn branch(&mut self, source: &Path, target: &Path, head: Id, is_held: bool) -> Result<(), String> {
        let id = made::made_up_id(&format!("{}{:x}", target.display(), head.0));
        let path = target.with_file_name(format!("{id}.jsonl"));
        if path.symlink_metadata().is_ok() {
            return Err(format!("{} is there already: move it away, or name another copy", path.display()));
        }
        let wish = Wish { new_id: Some(id), is_held, ..Wish::default() };
        let made = make(source, &path, &wish, Choice::Record(head))?;
        self.copies.push(made.copy);
        self.rests.extend(made.rest);
        Ok(())
    }

    fn keep(mut self) -> Vec<PathBuf> {
        self.rests.clear();
        std::mem::take(&mut self.copies)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for path in self.copies.iter().chain(&self.rests) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Which branch of a file is wanted.
#[derive(Clone, Copy, Debug)]
enum Choice<'a> {
    Keep(&'a Keep),
    /// The one that has this record.
    Record(Id),
}

/// What a file is, and where the branch that is wanted ends.
fn look(path: &Path, choice: Choice<'_>) -> Result<(Survey, Shape, Option<plan::Tip>), String> {
    let mut survey = survey::survey(path, &mut |_| {})?;
    if survey.kind != Some(Kind::Claude) {
        return match choice {
            Choice::Keep(Keep::Leaf(_)) => {
                Err("only a transcript of Claude Code has branches to choose from".to_owned())
            }
            Choice::Keep(Keep::All | Keep::Newest | Keep::Longest) | Choice::Record(_) => {
                Ok((survey, Shape::default(), None))
            }
        };
    }
    let mut shape = Shape::of(&mut survey);
    let wrong = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    shape.weigh(&place::open(path)?, &survey).map_err(wrong)?;
    let wanted = match choice {
        Choice::Keep(Keep::All) => None,
        Choice::Keep(Keep::Newest) => shape.newest(&survey),
        Choice::Keep(Keep::Longest) => shape.longest(&survey),
        Choice::Keep(Keep::Leaf(word)) => {
            let by_line = word.parse::<u64>().ok().and_then(|line| {
                let all: Vec<u32> = (0..survey.len()).collect();
                survey.lines_of(&all).iter().position(|at| *at == line).map(|at| at as u32)
            });
            let found = by_line.or_else(|| survey.find(Id::of(word.as_bytes())));
            let found = found.ok_or_else(|| format!("there is no record {word} in {}", path.display()))?;
            Some(shape.end_of(&survey, found))
        }
        Choice::Record(id) => survey.find(id).map(|found| shape.end_of(&survey, found)),
    };
    let Some(record) = wanted else { return Ok((survey, shape, None)) };
    let tip = plan::Tip { record, is_taken: shape.leaf == Some(record) };
    // The same records again, with the path that is wanted.
    let mut again = survey::survey(path, &mut |_| {})?;
    let shape = Shape::to(&mut again, Some(record));
    Ok((again, shape, Some(tip)))
}

/// The directory a conversation was held in.
fn cwd_of(path: &Path, survey: &Survey) -> Option<String> {
    let file = place::open(path).ok()?;
    let line = match survey.kind? {
        Kind::Claude => survey.line_of((0..survey.len()).next_back()?),
        Kind::Codex => 1,
    };
    let mut cwd = None;
    crate::words::each(&file, survey, [line], |_, record: Option<serde_json::Value>| {
        let record = record.unwrap_or_default();
        cwd = record["cwd"].as_str().or(record["payload"]["cwd"].as_str()).map(str::to_owned);
    })
    .ok()?;
    cwd
}

/// What tells whether a file was changed: its device and number, its size, when it was written.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Result<Stamp, String> {
    use std::os::unix::fs::MetadataExt;
    let file = place::open(path)?;
    let meta = file.metadata().map_err(|error| format!("cannot look at {}: {error}", path.display()))?;
    Ok((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}
