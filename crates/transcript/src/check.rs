//! What is wrong with a transcript, and what a resume would lose.
//!
//! Promise: only reads; memory stays below 64 MiB whatever the size of the file; each finding says on which line, in
//! plain words, and what a resume makes of it. What agents do in ordinary life (results of tools that ran side by
//! side, sub-agents, compaction) is not a finding. Somebody who went back and said something else is a note.
//! Not here: mending it (see `repair`). Start with [`check`].

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Kind;
use crate::place;
use crate::shape::{Branch, Shape};
use crate::survey::{self, MAX_RECORDS, NONE, Survey, bit};
use crate::walk::Flaw;
use crate::words::{self, Words};

/// How many findings are told; of more there is only the number.
pub const MAX_FINDINGS: usize = 1000;
/// How many turns that a resume would not have are told.
pub const MAX_LOST: usize = 1000;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A line is not a whole record.
    TornLine,
    /// Two records are on one line.
    FusedRecords,
    /// Zeroes where records should be.
    Zeroes,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A record that is nested too deep to be looked at.
    TooDeep,
    /// A record hangs on one that is not there.
    MissingParent,
    /// Something that was said is on a branch that a resume leaves behind.
    Fork,
    /// The conversation begins twice.
    SecondRoot,
    /// Records hang on each other in a ring.
    Ring,
    /// Two records have one id.
    DuplicateId,
    /// Records of another session.
    WrongSession,
    /// A tool was asked for, and has no result.
    CallWithoutResult,
    /// A result of a tool that nobody asked for.
    ResultWithoutCall,
    /// A tool has two results.
    SecondResult,
    /// A tool was asked for twice under one id.
    SecondCall,
    /// A rollout has two beginnings.
    SecondBeginning,
    /// There is more than could be looked at.
    TooManyRecords,
    /// There is nothing in it.
    Empty,
    /// No record is one of an agent that is known.
    NotATranscript,
    /// Somebody was writing it meanwhile.
    Growing,
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Something is broken.
    Fault,
    /// Good to know.
    Note,
}

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What.
    pub what: What,
    /// Whether it is a fault.
    pub weight: Weight,
    /// On which line, from 1; 0 if it is about the whole file.
    pub line: u64,
    /// In words.
    pub text: String,
    /// What a resume makes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// The branches of a fork: first the one that a resume follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Side>,
}

/// One side of a fork.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Side {
    /// Whether a resume follows it.
    pub resumed: bool,
    /// Its first and its last line.
    pub from_line: u64,
    /// See `from_line`.
    pub to_line: u64,
    /// Who wrote it, as far as that is written down.
    pub writer: Writer,
    /// What was asked on it; of the side that is followed, the first.
    pub turns: Vec<Turn>,
}

/// Who wrote a branch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Writer {
    /// How it was started: `cli` for a person's terminal, `sdk-cli` for a program.
    pub entrypoint: Option<String>,
    /// Which version.
    pub version: Option<String>,
    /// In which directory.
    pub cwd: Option<String>,
    /// When it began to write there, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// When it wrote last.
    pub to_ms: Option<u64>,
}

/// Something that was said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Turn {
    /// Where.
    pub line: u64,
    /// When.
    pub at_ms: Option<u64>,
    /// `prompt`, or `answer` where only that is lost.
    pub kind: &'static str,
    /// How it begins.
    pub said: String,
}

/// What was found in one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Which.
    pub path: PathBuf,
    /// Whose it is.
    pub agent: Option<&'static str>,
    /// The agent's own id of the conversation.
    pub conversation: Option<String>,
    /// How large it is.
    pub bytes: u64,
    /// How many lines it has.
    pub lines: u64,
    /// How many records.
    pub records: u64,
    /// What is wrong, in the order of the lines.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more_findings: u64,
    /// What was said and a resume would not have.
    pub lost: Vec<Turn>,
    /// On which line a resume begins to go on; 0 if that is not known.
    pub resumes_from: u64,
}

impl Report {
    /// Whether nothing is broken.
    pub fn is_clean(&self) -> bool {
        self.faults() == 0
    }

    /// How many faults were found.
    pub fn faults(&self) -> u64 {
        let listed = self.findings.iter().filter(|one| one.weight == Weight::Fault).count();
        listed as u64 + self.more_findings
    }
}

/// Looks at a transcript. `progress` is told how many bytes more were read. The error says why it cannot be read.
pub fn check(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Report, String> {
    let mut survey = survey::survey(path, progress)?;
    let shape = match survey.kind {
        Some(Kind::Claude) => Shape::of(&mut survey),
        Some(Kind::Codex) | None => Shape::default(),
    };
    let file = place::open(path)?;
    report(path, &file, &survey, &shape).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Puts it into words.
pub(crate) fn report(path: &Path, file: &File, survey: &Survey, shape: &Shape) -> std::io::Result<Report> {
    let mut report = Report {
        path: path.to_owned(),
        agent: survey.kind.map(Kind::word),
        conversation: None,
        bytes: survey.walked.bytes,
        lines: survey.walked.lines,
        records: survey.records,
        findings: Vec::new(),
        more_findings: 0,
        lost: Vec::new(),
        resumes_from: shape.leaf.map_or(0, |leaf| survey.line_of(leaf)),
    };
    let mut found = Found { report: &mut report };
    if survey.walked.grew {
        found.note(What::Growing, 0, "somebody was writing it while it was read", None);
    }
    if survey.kind.is_none() {
        if survey.walked.bytes == 0 {
            found.fault(What::Empty, 0, "the file is empty", Some("there is nothing to resume"));
        } else {
            found.fault(
                What::NotATranscript,
                0,
                "no record in it is one of Claude Code's or Codex's",
                Some("there is nothing to resume"),
            );
        }
        return Ok(report);
    }
    flaws(survey, &mut found);
    sessions(path, file, survey, &mut found)?;
    tools(file, survey, &mut found)?;
    match survey.kind {
        Some(Kind::Claude) => tree(file, survey, shape, &mut found)?,
        Some(Kind::Codex) | None => {}
    }
    if survey.is_cut {
        let text = format!(
            "too many records, or too much in one: {} are in it, {} were compared with each other (at most \
             {MAX_RECORDS}); the lines of all were looked at",
            survey.records,
            survey.len()
        );
        found.note(What::TooManyRecords, 0, &text, None);
    }
    report.findings.sort_by_key(|one| (one.line, one.what));
    Ok(report)
}

/// Takes findings, up to their limit.
struct Found<'a> {
    report: &'a mut Report,
}

impl Found<'_> {
    fn fault(&mut self, what: What, line: u64, text: &str, resume: Option<&str>) {
        self.push(Finding {
            what,
            weight: Weight::Fault,
            line,
            text: text.to_owned(),
            resume: resume.map(str::to_owned),
            branches: Vec::new(),
        });
    }

    fn note(&mut self, what: What, line: u64, text: &str, resume: Option<&str>) {
        self.push(Finding {
            what,
            weight: Weight::Note,
            line,
            text: text.to_owned(),
            resume: resume.map(str::to_owned),
            branches: Vec::new(),
        });
    }

    /// As many as can be told; of the others only the number.
    fn few<T>(&mut self, all: &mut Vec<T>) {
        self.report.more_findings += all.len().saturating_sub(MAX_FINDINGS) as u64;
        all.truncate(MAX_FINDINGS);
    }

    fn push(&mut self, finding: Finding) {
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(finding);
        } else {
            self.report.more_findings += 1;
        }
    }
}

fn flaws(survey: &Survey, found: &mut Found<'_>) {
    for at in &survey.flaws {
        let bytes = at.bytes.end - at.bytes.start;
        match at.flaw {
            Flaw::Torn if at.is_last => found.fault(
                What::TornLine,
                at.line,
                &format!("the file ends in the middle of a record ({bytes} bytes of it are there)"),
                Some("what was being written is lost; the agent passes over it"),
            ),
            Flaw::Torn => found.fault(
                What::TornLine,
                at.line,
                &format!("{bytes} bytes are not a whole record"),
                Some("what they were is lost; the agent passes over the line"),
            ),
            Flaw::Zeroes => found.fault(
                What::Zeroes,
                at.line,
                &format!("{bytes} zeroes, as a power cut leaves them"),
                Some("what should have been there is lost, and the agent passes over the line"),
            ),
            Flaw::NotUtf8 => found.fault(
                What::NotUtf8,
                at.line,
                "a record has bytes that are not UTF-8",
                Some("the agent reads other characters there, or passes over the line"),
            ),
            Flaw::Fused => found.fault(
                What::FusedRecords,
                at.line,
                "a record begins on the line of another",
                Some("the agent cannot read the line: all that is on it is lost"),
            ),
            Flaw::Deep => found.fault(
                What::TooDeep,
                at.line,
                "a record is nested too deep to be looked at",
                Some("the agent may be able to read it"),
            ),
        }
    }
    found.report.more_findings += survey.flaw_count - survey.flaws.len() as u64;
}

/// The id that the name of a file promises.
pub(crate) fn named_id(path: &Path) -> Option<&str> {
    let stem = path.file_stem()?.to_str()?;
    let id = stem.len().checked_sub(36).and_then(|at| stem.get(at..))?;
    let is_id = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_id.then_some(id)
}

/// Whether it is a fork of a thread of Codex: then it has the beginning of that thread as well.
pub(crate) fn is_fork(file: &File, survey: &Survey) -> std::io::Result<bool> {
    let first = survey.sessions.first().filter(|_| survey.kind == Some(Kind::Codex));
    let words = words::fetch(file, survey, first.map(|seen| seen.first))?;
    Ok(words.into_values().any(|words| words.is_forked))
}

fn sessions(path: &Path, file: &File, survey: &Survey, found: &mut Found<'_>) -> std::io::Result<()> {
    let named = named_id(path);
    let most = match survey.kind {
        // The first beginning is the thread's own.
        Some(Kind::Codex) => survey.sessions.first(),
        Some(Kind::Claude) | None => survey.sessions.iter().max_by_key(|seen| seen.records),
    };
    let expected = named.map(|id| crate::head::Id::of(id.as_bytes())).or(most.map(|seen| seen.id));
    let all = words::fetch(file, survey, survey.sessions.iter().map(|seen| seen.first))?;
    let name_of = |line: u64| all.get(&line)?.session.clone();
    found.report.conversation = named.map(str::to_owned).or_else(|| name_of(most?.first));
    let is_fork = is_fork(file, survey)?;
    for (at, seen) in survey.sessions.iter().enumerate().filter(|(_, seen)| Some(seen.id) != expected) {
        let name = name_of(seen.first).unwrap_or_else(|| "another".to_owned());
        let count = seen.records;
        let text = match survey.kind {
            Some(Kind::Codex) => format!("it says it is thread {name}, and the name of the file another"),
            Some(Kind::Claude) | None => {
                format!("{}, this one first, of session {name}", counted(count, "record"))
            }
        };
        if is_fork && at > 0 {
            continue;
        }
        found.fault(What::WrongSession, seen.first, &text, Some("the agent takes them for its own"));
    }
    for line in survey.lines_of(&survey.metas) {
        if is_fork {
            found.note(
                What::SecondBeginning,
                line,
                "the beginning of the thread this one was forked from",
                None,
            );
        } else {
            let resume = Some("the agent goes by the first");
            found.fault(What::SecondBeginning, line, "the rollout begins a second time", resume);
        }
    }
    Ok(())
}

fn tools(file: &File, survey: &Survey, found: &mut Found<'_>) -> std::io::Result<()> {
    let is_cut = survey.is_cut;
    let mut odd: Vec<(u32, What, u32)> = Vec::new();
    for tool in &survey.tools {
        match (tool.used_in, tool.result_in) {
            (NONE, result) if !is_cut => odd.push((result, What::ResultWithoutCall, NONE)),
            (used, NONE) if used != NONE && !is_cut => odd.push((used, What::CallWithoutResult, NONE)),
            (_, _) => {}
        }
        // There may be hundreds of thousands, and only the first ones are told.
        if odd.len() > 4 * MAX_FINDINGS {
            odd.sort_unstable_by_key(|(record, ..)| *record);
            found.few(&mut odd);
        }
    }
    let tool = |at: u32| survey.tools[at as usize];
    odd.extend(
        survey.answered_twice.iter().map(|(at, record)| (*record, What::SecondResult, tool(*at).result_in)),
    );
    odd.extend(survey.used_twice.iter().map(|(at, record)| (*record, What::SecondCall, tool(*at).used_in)));
    odd.sort_unstable_by_key(|(record, ..)| *record);
    found.few(&mut odd);
    let lines = survey.lines_of(&odd.iter().map(|(record, ..)| *record).collect::<Vec<_>>());
    let all = words::fetch(file, survey, lines.iter().copied())?;
    let is_claude = survey.kind == Some(Kind::Claude);
    for ((record, what, other), line) in odd.into_iter().zip(lines) {
        let name = all.get(&line).and_then(|words| words.tool.as_deref()).unwrap_or("a tool");
        let other = if other == NONE { 0 } else { survey.line_of(other) };
        match what {
            What::CallWithoutResult => found.fault(
                what,
                line,
                &format!("{name} was called and there is no result"),
                Some(if is_claude {
                    "the model is told that the call was interrupted"
                } else {
                    "the model is told that the call was aborted"
                }),
            ),
            What::ResultWithoutCall => {
                found.fault(
                    what,
                    line,
                    "a result of a tool that was never called",
                    Some("the agent leaves it out"),
                );
            }
            What::SecondResult => {
                let made_up =
                    if survey.is(record, bit::INTERRUPTED) { ", made up by another writer" } else { "" };
                found.fault(
                    what,
                    line,
                    &format!("a second result{made_up}; the first is on line {other}"),
                    Some("the model is given the one that is on the path"),
                );
            }
            _ => found.fault(
                what,
                line,
                &format!("{name} was called under an id that line {other} has already"),
                Some("the model is told of both"),
            ),
        }
    }
    Ok(())
}

fn tree(file: &File, survey: &Survey, shape: &Shape, found: &mut Found<'_>) -> std::io::Result<()> {
    let mut missing: Vec<u32> = (0..survey.len()).filter(|at| survey.is(*at, bit::MISSING)).collect();
    found.few(&mut missing);
    for line in survey.lines_of(&missing) {
        let resume = Some("the agent goes on with the record before it; what was between them is lost");
        found.fault(What::MissingParent, line, "it hangs on a record that is not there", resume);
    }
    let mut twins = survey.twins.clone();
    found.few(&mut twins);
    let mut both: Vec<u32> = twins.iter().flat_map(|(one, other)| [*one, *other]).collect();
    both.sort_unstable();
    both.dedup();
    let line_of: BTreeMap<u32, u64> = both.iter().copied().zip(survey.lines_of(&both)).collect();
    for (record, other) in twins {
        let text = format!("it has the id of the record on line {}", line_of[&other]);
        found.fault(What::DuplicateId, line_of[&record], &text, Some("the agent has only the later one"));
    }
    if let Some(record) = shape.first_more {
        let text =
            format!("this is the first of {} more branches, which are not told apart", shape.more_branches);
        let resume = Some("the model is not given what is on them");
        found.fault(What::Fork, survey.line_of(record), &text, resume);
    }
    if let Some(record) = shape.loops_at {
        let resume = Some("the agent cannot find the beginning");
        found.fault(What::Ring, survey.line_of(record), "it is its own ancestor", resume);
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
    let all = words::fetch(file, survey, lines.values().copied())?;
    for branch in &shape.branches {
        let line = |record: u32| lines.get(&record).copied().unwrap_or(0);
        let words = |record: u32| all.get(&line(record)).cloned().unwrap_or_default();
        let turn = |record: u32, kind: &'static str| Turn {
            line: line(record),
            at_ms: words(record).at_ms,
            kind,
            said: words(record).said.unwrap_or_default(),
        };
        let prompts = branch.prompts.iter().copied().filter(|at| words(*at).is_persons());
        let mut turns: Vec<Turn> = prompts.map(|at| turn(at, "prompt")).collect();
        if turns.is_empty() {
            turns.push(turn(branch.last, "answer"));
        }
        let lost = Side {
            resumed: false,
            from_line: line(branch.head),
            to_line: line(branch.last),
            writer: writer(&words(branch.head), &words(branch.last)),
            turns,
        };
        let kept = branch.instead.map(|instead| {
            let end = shape.leaf.unwrap_or(instead);
            Side {
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

/// For the records of the path at which branches leave: the first prompt from there on.
fn next_prompts(survey: &Survey, shape: &Shape) -> BTreeMap<u32, u32> {
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

fn writer(first: &Words, last: &Words) -> Writer {
    let text =
        |text: &Option<String>| text.as_ref().map(|text| text.chars().filter(|c| !c.is_control()).collect());
    Writer {
        entrypoint: text(&first.entrypoint),
        version: text(&first.version),
        cwd: text(&first.cwd),
        from_ms: first.at_ms,
        to_ms: last.at_ms,
    }
}

fn fork(branch: &Branch, line: u64, kept: Option<Side>, lost: Side) -> Finding {
    let (from, to) = (lost.from_line, lost.to_line);
    let what = if branch.fork.is_none() { What::SecondRoot } else { What::Fork };
    let text = match (&kept, branch.is_race) {
        _ if branch.fork.is_none() => {
            format!("the conversation begins a second time: lines {from} to {to} hang on nothing")
        }
        (Some(kept), true) => {
            let other = kept.from_line;
            format!("two wrote at once: lines {from} to {to} and those from {other} on both follow this one")
        }
        (Some(kept), false) => {
            let other = kept.from_line;
            format!("somebody went back: lines {from} to {to} were left for line {other}")
        }
        (None, _) => format!("lines {from} to {to} follow the record at which a resume begins"),
    };
    let has = match (branch.prompt_count, branch.answers) {
        (0, answers) => counted(answers, "answer"),
        (prompts, answers) => format!("{} and {}", counted(prompts, "prompt"), counted(answers, "answer")),
    };
    Finding {
        what,
        weight: if branch.is_race { Weight::Fault } else { Weight::Note },
        line,
        text,
        resume: Some(format!("the model is not given what is on lines {from} to {to}: {has}")),
        branches: kept.into_iter().chain([lost]).collect(),
    }
}

/// `1 line`, `2 lines`.
fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
