//! Check of a transcript: damage, and turns that a resume would lose.
//!
//! Promise: only reads; memory stays below 64 MiB whatever the size of the file; each finding names its line, in plain
//! words, and the effect on a resume. Normal features of transcripts (results of parallel tools, sub-agents,
//! compaction) are not findings. A user who went back and said something else is a note.
//! Not here: repairing (see `repair`). Start with [`check`].

mod branches;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::TranscriptKind;
use crate::conversation_graph::{self, ConversationGraph};
use crate::location;
use crate::record_excerpts;
use crate::record_scanner::TranscriptFlaw;
use crate::transcript_index::{self, MAX_RECORDS, NONE, TranscriptIndex, bit};

/// Limit for reported findings; the rest is only counted.
pub const MAX_FINDINGS: usize = 1000;
/// Limit for reported turns that a resume would lose.
pub const MAX_LOST: usize = 1000;

/// Kind of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A line is not a whole record.
    TornLine,
    /// Two records are on one line.
    FusedRecords,
    /// Zeroes where records should be.
    Zeroes,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A record is nested too deep to be examined.
    TooDeep,
    /// The parent of a record is missing.
    MissingParent,
    /// A prompt or an answer is on a branch that a resume leaves behind.
    Fork,
    /// The conversation begins twice.
    SecondRoot,
    /// A record is its own ancestor.
    Ring,
    /// Two records have one id.
    DuplicateId,
    /// Records belong to another session.
    WrongSession,
    /// A tool call has no result.
    CallWithoutResult,
    /// A result has no tool call.
    ResultWithoutCall,
    /// A tool call has two results.
    SecondResult,
    /// Two tool calls have one id.
    SecondCall,
    /// A rollout has two beginnings.
    SecondBeginning,
    /// The transcript has more records than can be examined.
    TooManyRecords,
    /// The file is empty.
    Empty,
    /// No record is of a known agent.
    NotATranscript,
    /// A process was writing the file during the check.
    Growing,
    /// A process truncated the file during the check.
    Shrinking,
}

/// Weight of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingSeverity {
    /// The transcript is damaged.
    Fault,
    /// Worth knowing; nothing is damaged.
    Note,
}

/// A flaw of a transcript, and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TranscriptFinding {
    /// Kind of the finding.
    pub what: FindingKind,
    /// Weight of the finding.
    pub weight: FindingSeverity,
    /// Line of the finding, from 1; 0 if it is about the whole file.
    pub line: u64,
    /// The finding in words.
    pub text: String,
    /// Effect on a resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Branches of a fork; the first one is the one that a resume follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<ForkSide>,
    /// True for a call after which nothing was said: while its agent lives, its tool may still run.
    #[serde(skip)]
    pub(crate) may_be_at_work: bool,
}

/// One branch of a fork.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ForkSide {
    /// True if a resume follows the branch.
    pub resumed: bool,
    /// First line of the branch.
    pub from_line: u64,
    /// Last line of the branch.
    pub to_line: u64,
    /// Writer of the branch, as far as the records name it.
    pub writer: BranchWriter,
    /// Prompts on the branch; of the branch that a resume follows, only the first.
    pub turns: Vec<BranchTurn>,
}

/// Writer of a branch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BranchWriter {
    /// How the agent was started: `cli` for a user's terminal, `sdk-cli` for a program.
    pub entrypoint: Option<String>,
    /// Version of the agent.
    pub version: Option<String>,
    /// Working directory of the agent.
    pub cwd: Option<String>,
    /// Time of its first record, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// Time of its last record, in milliseconds since 1970.
    pub to_ms: Option<u64>,
}

/// A prompt or an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BranchTurn {
    /// Line of the record.
    pub line: u64,
    /// Time of the record, in milliseconds since 1970.
    pub at_ms: Option<u64>,
    /// `prompt`, or `answer` if only the answer is lost.
    pub kind: &'static str,
    /// Beginning of the text.
    pub said: String,
}

/// Result of the check of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TranscriptReport {
    /// Path of the file.
    pub path: PathBuf,
    /// Agent that wrote the file; null if no record names it.
    pub agent: Option<&'static str>,
    /// Id that the agent gave the conversation.
    #[serde(rename = "conversation_id")]
    pub conversation: Option<String>,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Number of lines.
    pub lines: u64,
    /// Number of records.
    pub records: u64,
    /// Findings, in the order of the lines.
    pub findings: Vec<TranscriptFinding>,
    /// Number of further findings.
    pub more_findings: u64,
    /// Number of faults among them.
    pub more_faults: u64,
    /// Prompts and answers that a resume would lose.
    pub lost: Vec<BranchTurn>,
    /// Line of the record at which a resume continues; 0 if unknown.
    pub resumes_from: u64,
}

impl TranscriptReport {
    /// True if no finding is a fault.
    pub fn is_clean(&self) -> bool {
        self.faults() == 0
    }

    /// Number of faults.
    pub fn faults(&self) -> u64 {
        let listed = self.findings.iter().filter(|one| one.weight == FindingSeverity::Fault).count();
        listed as u64 + self.more_faults
    }

    /// Number of notes.
    pub fn notes(&self) -> u64 {
        self.findings.len() as u64 + self.more_findings - self.faults()
    }

    /// True if the last call has no result: not a fault while the agent that wrote it lives.
    pub fn may_be_at_work(&self) -> bool {
        self.findings.iter().any(|one| one.may_be_at_work)
    }

    /// Records that a process has the file open: the result of a call at its end is still to come.
    pub fn is_held_by(&mut self, who: &str) {
        for one in self.findings.iter_mut().filter(|one| one.may_be_at_work) {
            (one.weight, one.resume) = (FindingSeverity::Note, None);
            one.text.push_str(&format!(" yet: {who} has it open"));
        }
    }
}

/// Checks a transcript. `progress` gets the number of bytes after each read. The error says why the file cannot be
/// read.
pub fn check(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<TranscriptReport, String> {
    let mut survey = transcript_index::build_index(path, progress)?;
    let mut shape = match survey.kind {
        Some(TranscriptKind::Claude) => ConversationGraph::of(&mut survey),
        Some(TranscriptKind::Codex) | None => ConversationGraph::default(),
    };
    let file = location::open_transcript(path)?;
    let told =
        shape.classify_second_beginnings(&file, &survey).and_then(|()| report(path, &file, &survey, &shape));
    told.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Makes the report from the survey.
pub(crate) fn report(
    path: &Path,
    file: &File,
    survey: &TranscriptIndex,
    shape: &ConversationGraph,
) -> std::io::Result<TranscriptReport> {
    let mut report = TranscriptReport {
        path: path.to_owned(),
        agent: survey.kind.map(TranscriptKind::word),
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
    let mut found = FindingCollector { report: &mut report };
    if survey.walked.grew {
        found.note(FindingKind::Growing, 0, "the file was written while it was read", None);
    }
    if survey.shrank {
        let resume = Some("the report may not fit the file any more; check it again");
        found.fault(FindingKind::Shrinking, 0, "the file was made shorter while it was read", resume);
    }
    if survey.kind.is_none() {
        if survey.walked.bytes == 0 {
            found.fault(FindingKind::Empty, 0, "the file is empty", Some("there is nothing to resume"));
        } else {
            found.fault(
                FindingKind::NotATranscript,
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
        Some(TranscriptKind::Claude) => branches::tree(file, survey, shape, &mut found)?,
        Some(TranscriptKind::Codex) | None => {}
    }
    if survey.is_cut {
        let text = format!(
            "too many records, or too much in one: {} are in it, {} were compared with each other (at most \
             {MAX_RECORDS}); the lines of all were looked at",
            survey.records,
            survey.len()
        );
        found.note(FindingKind::TooManyRecords, 0, &text, None);
    }
    report.findings.sort_by_key(|one| (one.line, one.what));
    if survey.walked.grew {
        report.is_held_by("its writer");
    }
    Ok(report)
}

/// Collects findings, up to the limit.
struct FindingCollector<'a> {
    report: &'a mut TranscriptReport,
}

impl FindingCollector<'_> {
    fn fault(&mut self, what: FindingKind, line: u64, text: &str, resume: Option<&str>) {
        self.push(TranscriptFinding {
            what,
            weight: FindingSeverity::Fault,
            line,
            text: text.to_owned(),
            resume: resume.map(str::to_owned),
            branches: Vec::new(),
            may_be_at_work: false,
        });
    }

    fn note(&mut self, what: FindingKind, line: u64, text: &str, resume: Option<&str>) {
        self.push(TranscriptFinding {
            what,
            weight: FindingSeverity::Note,
            line,
            text: text.to_owned(),
            resume: resume.map(str::to_owned),
            branches: Vec::new(),
            may_be_at_work: false,
        });
    }

    /// Keeps as many faults as the limit allows; the rest is only counted.
    fn limit<T>(&mut self, all: &mut Vec<T>) {
        self.more(FindingSeverity::Fault, all.len().saturating_sub(MAX_FINDINGS) as u64);
        all.truncate(MAX_FINDINGS);
    }

    fn push(&mut self, finding: TranscriptFinding) {
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(finding);
        } else {
            self.more(finding.weight, 1);
        }
    }

    /// Counts findings that are not reported.
    fn more(&mut self, weight: FindingSeverity, count: u64) {
        self.report.more_findings += count;
        self.report.more_faults += if weight == FindingSeverity::Fault { count } else { 0 };
    }
}

fn flaws(survey: &TranscriptIndex, found: &mut FindingCollector<'_>) {
    for at in &survey.flaws {
        let bytes = at.bytes.end - at.bytes.start;
        match at.flaw {
            TranscriptFlaw::Torn if at.is_last && survey.walked.grew => {
                found.note(FindingKind::TornLine, at.line, "a record at its end was being written", None)
            }
            TranscriptFlaw::Torn if at.is_last => found.fault(
                FindingKind::TornLine,
                at.line,
                &format!("the file ends in the middle of a record ({bytes} bytes of it are there)"),
                Some("the record that was being written is lost; the agent skips it"),
            ),
            TranscriptFlaw::Torn => found.fault(
                FindingKind::TornLine,
                at.line,
                &format!("{bytes} bytes are not a whole record"),
                Some("their contents are lost; the agent skips the line"),
            ),
            TranscriptFlaw::Zeroes => found.fault(
                FindingKind::Zeroes,
                at.line,
                &format!("{bytes} zeroes, as a power cut leaves them"),
                Some("the record in their place is lost, and the agent skips the line"),
            ),
            TranscriptFlaw::NotUtf8 => found.fault(
                FindingKind::NotUtf8,
                at.line,
                "a record has bytes that are not UTF-8",
                Some("the agent reads other characters there, or skips the line"),
            ),
            TranscriptFlaw::Fused => found.fault(
                FindingKind::FusedRecords,
                at.line,
                "a record begins on the line of another",
                Some("the agent cannot read the line: everything on it is lost"),
            ),
            TranscriptFlaw::Deep => found.fault(
                FindingKind::TooDeep,
                at.line,
                "a record is nested too deep to be examined",
                Some("the agent may be able to read it"),
            ),
        }
    }
    found.more(FindingSeverity::Fault, survey.flaw_count - survey.flaws.len() as u64);
    found.more(FindingSeverity::Fault, survey.more_odd);
}

/// The id in the name of a file.
pub(crate) fn id_of_file_name(path: &Path) -> Option<&str> {
    let stem = path.file_stem()?.to_str()?;
    let id = stem.len().checked_sub(36).and_then(|at| stem.get(at..))?;
    let is_id = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_id.then_some(id)
}

/// True for a fork of a thread of Codex: a fork has the beginning of that thread as well.
pub(crate) fn is_fork(file: &File, survey: &TranscriptIndex) -> std::io::Result<bool> {
    let first = survey.sessions.first().filter(|_| survey.kind == Some(TranscriptKind::Codex));
    let words = record_excerpts::fetch_excerpts(file, survey, first.map(|seen| seen.first))?;
    Ok(words.into_values().any(|words| words.is_forked))
}

fn sessions(
    path: &Path,
    file: &File,
    survey: &TranscriptIndex,
    found: &mut FindingCollector<'_>,
) -> std::io::Result<()> {
    let named = id_of_file_name(path);
    let most = match survey.kind {
        // The first beginning is the thread's own.
        Some(TranscriptKind::Codex) => survey.sessions.first(),
        Some(TranscriptKind::Claude) | None => survey.sessions.iter().max_by_key(|seen| seen.records),
    };
    let expected =
        named.map(|id| crate::record_summary::IdHash::of(id.as_bytes())).or(most.map(|seen| seen.id));
    let is_strange = survey.sessions.iter().any(|seen| Some(seen.id) != expected);
    // If the name has the id and no record contradicts it, no record is read again.
    let wanted = survey.sessions.iter().filter(|_| named.is_none() || is_strange);
    let all = record_excerpts::fetch_excerpts(file, survey, wanted.map(|seen| seen.first))?;
    let name_of = |line: u64| all.get(&line)?.session.clone();
    found.report.conversation = named.map(str::to_owned).or_else(|| name_of(most?.first));
    let is_fork = (is_strange || !survey.metas.is_empty()) && is_fork(file, survey)?;
    for (at, seen) in survey.sessions.iter().enumerate().filter(|(_, seen)| Some(seen.id) != expected) {
        let name = name_of(seen.first).unwrap_or_else(|| "another".to_owned());
        let count = seen.records;
        let text = match survey.kind {
            Some(TranscriptKind::Codex) => {
                format!("the records name thread {name}, and the name of the file another")
            }
            Some(TranscriptKind::Claude) | None => {
                format!("{}, this one first, of session {name}", counted(count, "record"))
            }
        };
        if is_fork && at > 0 {
            continue;
        }
        found.fault(FindingKind::WrongSession, seen.first, &text, Some("the agent takes them for its own"));
    }
    for line in survey.lines_of(&survey.metas) {
        if is_fork {
            found.note(
                FindingKind::SecondBeginning,
                line,
                "the beginning of the thread this one was forked from",
                None,
            );
        } else {
            let resume = Some("the agent goes by the first");
            found.fault(FindingKind::SecondBeginning, line, "the rollout begins a second time", resume);
        }
    }
    found.more(if is_fork { FindingSeverity::Note } else { FindingSeverity::Fault }, survey.more_metas);
    Ok(())
}

fn tools(file: &File, survey: &TranscriptIndex, found: &mut FindingCollector<'_>) -> std::io::Result<()> {
    let is_cut = survey.is_cut;
    let mut odd: Vec<(u32, FindingKind, u32)> = Vec::new();
    for tool in &survey.tools {
        match (tool.used_in, tool.result_in) {
            (NONE, result) if !is_cut => odd.push((result, FindingKind::ResultWithoutCall, NONE)),
            (used, NONE) if used != NONE && !is_cut => odd.push((used, FindingKind::CallWithoutResult, NONE)),
            (_, _) => {}
        }
        // There may be hundreds of thousands, and only the first ones are reported.
        if odd.len() > 4 * MAX_FINDINGS {
            odd.sort_unstable_by_key(|(record, ..)| *record);
            found.limit(&mut odd);
        }
    }
    let tool = |at: u32| survey.tools[at as usize];
    odd.extend(
        survey
            .answered_twice
            .iter()
            .map(|(at, record)| (*record, FindingKind::SecondResult, tool(*at).result_in)),
    );
    odd.extend(
        survey.used_twice.iter().map(|(at, record)| (*record, FindingKind::SecondCall, tool(*at).used_in)),
    );
    odd.sort_unstable_by_key(|(record, ..)| *record);
    found.limit(&mut odd);
    let lines = survey.lines_of(&odd.iter().map(|(record, ..)| *record).collect::<Vec<_>>());
    let all = record_excerpts::fetch_excerpts(file, survey, lines.iter().copied())?;
    let is_claude = survey.kind == Some(TranscriptKind::Claude);
    let is_any_open = odd.iter().any(|(_, what, _)| *what == FindingKind::CallWithoutResult);
    let tip = if is_any_open { conversation_graph::tip(survey) } else { NONE };
    for ((record, what, other), line) in odd.into_iter().zip(lines) {
        let name = all.get(&line).and_then(|words| words.tool.as_deref()).unwrap_or("a tool");
        let other = if other == NONE { 0 } else { survey.line_of(other) };
        match what {
            FindingKind::CallWithoutResult => {
                let word = if is_claude { "interrupted" } else { "aborted" };
                found.push(TranscriptFinding {
                    what,
                    weight: FindingSeverity::Fault,
                    line,
                    text: format!("{name} was called and there is no result"),
                    resume: Some(format!("the model is told that the call was {word}")),
                    branches: Vec::new(),
                    may_be_at_work: record >= tip,
                });
            }
            FindingKind::ResultWithoutCall => {
                found.fault(
                    what,
                    line,
                    "a result of a tool that was never called",
                    Some("the agent leaves it out"),
                );
            }
            FindingKind::SecondResult => {
                let made_up =
                    if survey.is(record, bit::INTERRUPTED) { ", made up by another writer" } else { "" };
                found.fault(
                    what,
                    line,
                    &format!("a second result{made_up}; the first is on line {other}"),
                    Some("the model gets the result on the path"),
                );
            }
            _ => found.fault(
                what,
                line,
                &format!("{name} was called under an id that line {other} has already"),
                Some("the model gets both calls"),
            ),
        }
    }
    Ok(())
}

/// `1 line`, `2 lines`.
fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
