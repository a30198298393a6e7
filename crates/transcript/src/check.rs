//! What is wrong with a transcript, and what a resume would lose.
//!
//! Promise: only reads; memory stays below 64 MiB whatever the size of the file; each finding says on which line, in
//! plain words, and what a resume makes of it. What agents do in ordinary life (results of tools that ran side by
//! side, sub-agents, compaction) is not a finding. Somebody who went back and said something else is a note.
//! Not here: mending it (see `repair`). Start with [`check`].

mod branches;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Kind;
use crate::place;
use crate::shape::{self, Shape};
use crate::survey::{self, MAX_RECORDS, NONE, Survey, bit};
use crate::walk::Flaw;
use crate::words;

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
    /// Somebody cut it meanwhile.
    Shrinking,
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
    /// Whether it is a call behind which nothing was said: while its agent lives, its tool may be at work.
    #[serde(skip)]
    pub(crate) may_be_at_work: bool,
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
    #[serde(rename = "conversation_id")]
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
    /// How many of those are faults.
    pub more_faults: u64,
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
        listed as u64 + self.more_faults
    }

    /// How many notes there are.
    pub fn notes(&self) -> u64 {
        self.findings.len() as u64 + self.more_findings - self.faults()
    }

    /// Whether a call is at its end that has no result: no fault while the agent that wrote it lives.
    pub fn may_be_at_work(&self) -> bool {
        self.findings.iter().any(|one| one.may_be_at_work)
    }

    /// Takes note that somebody has it open: the result of a call at its end is still to come.
    pub fn is_held_by(&mut self, who: &str) {
        for one in self.findings.iter_mut().filter(|one| one.may_be_at_work) {
            (one.weight, one.resume) = (Weight::Note, None);
            one.text.push_str(&format!(" yet: {who} has it open"));
        }
    }
}

/// Looks at a transcript. `progress` is told how many bytes more were read. The error says why it cannot be read.
pub fn check(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Report, String> {
    let mut survey = survey::survey(path, progress)?;
    let mut shape = match survey.kind {
        Some(Kind::Claude) => Shape::of(&mut survey),
        Some(Kind::Codex) | None => Shape::default(),
    };
    let file = place::open(path)?;
    let told = shape.weigh(&file, &survey).and_then(|()| report(path, &file, &survey, &shape));
    told.map_err(|error| format!("cannot read {}: {error}", path.display()))
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
        more_faults: 0,
        lost: Vec::new(),
        resumes_from: shape.leaf.map_or(0, |leaf| survey.line_of(leaf)),
    };
    let mut found = Found { report: &mut report };
    if survey.walked.grew {
        found.note(What::Growing, 0, "it was written to while it was read", None);
    }
    if survey.shrank {
        let resume = Some("what it has now is not what is told here; look at it again");
        found.fault(What::Shrinking, 0, "it was made shorter while it was read", resume);
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
        Some(Kind::Claude) => branches::tree(file, survey, shape, &mut found)?,
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
    if survey.walked.grew {
        report.is_held_by("its writer");
    }
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
            may_be_at_work: false,
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
            may_be_at_work: false,
        });
    }

    /// As many faults as can be told; of the others only the number.
    fn few<T>(&mut self, all: &mut Vec<T>) {
        self.more(Weight::Fault, all.len().saturating_sub(MAX_FINDINGS) as u64);
        all.truncate(MAX_FINDINGS);
    }

    fn push(&mut self, finding: Finding) {
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(finding);
        } else {
            self.more(finding.weight, 1);
        }
    }

    /// Takes note of so many that are not told.
    fn more(&mut self, weight: Weight, count: u64) {
        self.report.more_findings += count;
        self.report.more_faults += if weight == Weight::Fault { count } else { 0 };
    }
}

fn flaws(survey: &Survey, found: &mut Found<'_>) {
    for at in &survey.flaws {
        let bytes = at.bytes.end - at.bytes.start;
        match at.flaw {
            Flaw::Torn if at.is_last && survey.walked.grew => {
                found.note(What::TornLine, at.line, "a record at its end was being written", None)
            }
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
    found.more(Weight::Fault, survey.flaw_count - survey.flaws.len() as u64);
    found.more(Weight::Fault, survey.more_odd);
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
    let is_strange = survey.sessions.iter().any(|seen| Some(seen.id) != expected);
    // Where the name says it all and nothing is strange, nothing is looked up.
    let wanted = survey.sessions.iter().filter(|_| named.is_none() || is_strange);
    let all = words::fetch(file, survey, wanted.map(|seen| seen.first))?;
    let name_of = |line: u64| all.get(&line)?.session.clone();
    found.report.conversation = named.map(str::to_owned).or_else(|| name_of(most?.first));
    let is_fork = (is_strange || !survey.metas.is_empty()) && is_fork(file, survey)?;
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
    found.more(if is_fork { Weight::Note } else { Weight::Fault }, survey.more_metas);
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
    let is_any_open = odd.iter().any(|(_, what, _)| *what == What::CallWithoutResult);
    let tip = if is_any_open { shape::tip(survey) } else { NONE };
    for ((record, what, other), line) in odd.into_iter().zip(lines) {
        let name = all.get(&line).and_then(|words| words.tool.as_deref()).unwrap_or("a tool");
        let other = if other == NONE { 0 } else { survey.line_of(other) };
        match what {
            What::CallWithoutResult => {
                let word = if is_claude { "interrupted" } else { "aborted" };
                found.push(Finding {
                    what,
                    weight: Weight::Fault,
                    line,
                    text: format!("{name} was called and there is no result"),
                    resume: Some(format!("the model is told that the call was {word}")),
                    branches: Vec::new(),
                    may_be_at_work: record >= tip,
                });
            }
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

/// `1 line`, `2 lines`.
fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
