//! `berth transcript check`: reports damage in transcripts, and the turns that a resume would lose.

use std::fmt::Write;

use berth_api::{Problem, ProblemCode};
use berth_transcript::AllTranscripts;
use berth_verbs::transcript_files::check::{
    BranchTurn, FindingSeverity, ForkSide, TranscriptFinding, TranscriptReport,
};
use berth_verbs::transcript_files::{self, CheckedTranscript};
use serde_json::json;

use super::{BROKEN, count, files, moment};
use crate::args::TranscriptCheckArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::progress::DeferredProgress;
use crate::text_width;

/// Limit of turns that are listed of a branch; --json has more.
const MAX_TURNS: usize = 10;

pub(super) fn run(ctx: &CommandContext, args: &TranscriptCheckArgs) -> Result<u8, Problem> {
    let AllTranscripts { files, damaged } = if args.all {
        transcript_files::all(|name| std::env::var_os(name))?
    } else {
        AllTranscripts { files: files(ctx, &args.files)?, damaged: Vec::new() }
    };
    let mut all = print::JsonArrayPrinter::default();
    let (mut clean, mut broken, mut unreadable) = (0_u64, 0_u64, 0_u64);
    let progress = DeferredProgress::new("checking (MiB)");
    let mut told = |checked| {
        match &checked {
            CheckedTranscript::Report(report) if report.is_clean() => clean += 1,
            CheckedTranscript::Report(_) => broken += 1,
            CheckedTranscript::Unreadable { .. } => unreadable += 1,
        }
        match checked {
            CheckedTranscript::Report(report) if args.json => progress.suspend(|| all.push(&report))?,
            CheckedTranscript::Unreadable { path, why } if args.json => {
                let unreadable = json!({"path": path.to_string_lossy(), "error": why});
                progress.suspend(|| all.push(&unreadable))?;
            }
            // With --all, files without findings are only counted.
            CheckedTranscript::Report(report) if args.all && report.findings.is_empty() => {}
            CheckedTranscript::Report(report) => progress.suspend(|| print::text(&text(&report)))?,
            CheckedTranscript::Unreadable { why, .. } => {
                progress.suspend(|| print::problem(&Problem::refused(why).hint("the file was not checked")))
            }
        }
        Ok(())
    };
    for (path, why) in damaged {
        told(CheckedTranscript::Unreadable { path, why })?;
    }
    transcript_files::check_files(&files, &progress, &mut told)?;
    drop(progress);
    if args.json {
        all.end()?;
    } else if args.all || files.len() != 1 {
        let total = count(files.len() as u64, "transcript");
        let more = if unreadable > 0 { format!(", {unreadable} could not be read") } else { String::new() };
        print::note(&format!("{total}: {clean} clean, {broken} broken{more}"));
    }
    Ok(match (unreadable, broken) {
        (0, 0) => 0,
        (0, _) => BROKEN,
        (_, _) => ProblemCode::Refused.exit_code(),
    })
}

fn text(report: &TranscriptReport) -> String {
    let found = match (report.faults(), report.notes()) {
        (0, 0) => "clean".to_owned(),
        (0, notes) => format!("clean, {}", count(notes, "note")),
        (faults, 0) => count(faults, "fault"),
        (faults, notes) => format!("{}, {}", count(faults, "fault"), count(notes, "note")),
    };
    let path = report.path.display();
    let agent = report.agent.unwrap_or("unknown agent");
    let size = print::describe_size(report.bytes);
    let records = count(report.records, "record");
    let mut text = format!("{path}: {found} ({agent}, {records}, {size})\n");
    for finding in &report.findings {
        tell(finding, &mut text);
    }
    if report.more_findings > 0 {
        let _ = writeln!(text, "  and {} more", report.more_findings);
    }
    if !report.lost.is_empty() {
        let _ = writeln!(text, "  a resume would not have:");
        turns(&report.lost, "    ", &mut text);
    }
    if report.faults() > 0 && report.agent.is_some() {
        let _ = writeln!(text, "  `berth transcript repair` makes a copy that is whole");
    }
    text
}

fn tell(finding: &TranscriptFinding, text: &mut String) {
    let place = if finding.line == 0 { "the file".to_owned() } else { format!("line {}", finding.line) };
    let weight = match finding.weight {
        FindingSeverity::Fault => "",
        FindingSeverity::Note => "note: ",
    };
    let _ = writeln!(text, "  {place}: {weight}{}", finding.text);
    if let Some(resume) = &finding.resume {
        let _ = writeln!(text, "    a resume: {resume}");
    }
    for side in &finding.branches {
        let _ = writeln!(text, "    {}", fork_side(side));
        if side.resumed {
            turns(&side.turns, "      ", text);
        }
    }
}

/// One side of a fork: its lines, its writer, and the time and place of writing.
fn fork_side(side: &ForkSide) -> String {
    let writer = &side.writer;
    let word = if side.resumed { "followed" } else { "left    " };
    let mut text = format!("{word}  lines {} to {}", side.from_line, side.to_line);
    let times = (moment(writer.from_ms), moment(writer.to_ms));
    if !times.0.is_empty() {
        let _ = write!(text, ", {}", times.0);
        // A second time on the same day is shown without the day.
        if times.1 != times.0 && times.1.len() > 11 {
            let same_day = times.0.get(..11) == times.1.get(..11);
            let _ = write!(text, " to {}", if same_day { &times.1[11..] } else { &times.1[..] });
        }
    }
    for part in [&writer.entrypoint, &writer.version].into_iter().flatten() {
        let _ = write!(text, ", {}", part);
    }
    if let Some(cwd) = &writer.cwd {
        let _ = write!(text, ", in {}", cwd);
    }
    text
}

fn turns(turns: &[BranchTurn], indent: &str, text: &mut String) {
    for turn in turns.iter().take(MAX_TURNS) {
        let said = text_width::cut_to_columns(&text_width::one_line(&turn.said), 60);
        let _ = writeln!(text, "{indent}line {}  {}  {}: {said}", turn.line, moment(turn.at_ms), turn.kind);
    }
    if turns.len() > MAX_TURNS {
        let _ = writeln!(text, "{indent}and {} more", turns.len() - MAX_TURNS);
    }
}
