//! `berth transcript repair`: makes an undamaged copy of a transcript.

use std::fmt::Write;
use std::path::PathBuf;

use berth_api::Problem;
use berth_verbs::transcript_files;
use berth_verbs::transcript_files::repair::{BranchChoice, RepairOptions, RepairResult};

use super::BROKEN;
use crate::args::TranscriptRepairArgs;
use crate::ctx::CommandContext;
use crate::print;

pub(super) fn run(ctx: &CommandContext, args: &TranscriptRepairArgs) -> Result<u8, Problem> {
    let source = transcript_files::resolve_path(ctx, &args.file)?;
    let keep = match args.keep.as_deref() {
        None | Some("all") => BranchChoice::All,
        Some("newest") => BranchChoice::Newest,
        Some("longest") => BranchChoice::Longest,
        Some(leaf) => BranchChoice::Leaf(leaf.to_owned()),
    };
    let options = RepairOptions { keep, force: args.force, beside: args.beside, ..RepairOptions::default() };
    let (made, holder) = transcript_files::repair_file(&source, &args.to, args.new_id, options)?;
    if let Some(holder) = holder {
        let who = holder.line();
        print::note(&format!(
            "{who} has the transcript open: records that it writes from now on are not in the copy"
        ));
    }
    if args.json {
        print::json(&made)?;
    } else {
        print::text(&text(&made))?;
        if let Some(how) = how_to_resume(&made, &source) {
            print::note(&how);
        }
    }
    Ok(if made.left.is_empty() { 0 } else { BROKEN })
}

fn text(made: &RepairResult) -> String {
    let mut text = format!("{}\n", made.copy.display());
    for change in &made.changes {
        let _ = match change.line {
            0 => writeln!(text, "  {}", change.text),
            line => writeln!(text, "  line {line}: {}", change.text),
        };
    }
    if made.changes.is_empty() {
        text.push_str("  nothing had to be changed: the copy is identical\n");
    }
    if let Some(rest) = &made.rest {
        let _ = writeln!(text, "  records that were set aside are in {}", rest.display());
    }
    for other in &made.beside {
        let _ = writeln!(text, "  a branch has a copy of its own: {}", other.display());
    }
    for left in &made.left {
        let _ = writeln!(text, "  still wrong, line {}: {}", left.line, left.text);
    }
    text
}

/// A sentence with the command that resumes the copy. `None` for an id that no agent would give, because such an id may
/// contain anything.
fn how_to_resume(made: &RepairResult, source: &std::path::Path) -> Option<String> {
    if !berth_transcript::is_plain_id(&made.conversation) {
        return None;
    }
    let cd = made.cwd.as_ref().map_or_else(String::new, |cwd| {
        format!("cd {} && ", berth_api::redact::redact_command_line(std::slice::from_ref(cwd)))
    });
    let command = match made.agent {
        "codex" => format!("{cd}codex resume {}", made.conversation),
        _ => format!("{cd}claude --resume {}", made.conversation),
    };
    let absolute = |path: &std::path::Path| std::path::absolute(path).ok();
    let dir = |path: &std::path::Path| -> Option<PathBuf> { Some(absolute(path)?.parent()?.to_owned()) };
    let is_in_place = dir(&made.copy) == dir(source)
        && made.copy.to_string_lossy().ends_with(&format!("{}.jsonl", made.conversation));
    Some(if is_in_place {
        format!("resume it with: {command}")
    } else {
        let name = match made.agent {
            "codex" => source.file_name()?.to_string_lossy().into_owned(),
            _ => format!("{}.jsonl", made.conversation),
        };
        format!(
            "to resume it, move it to the directory of the agent's transcripts, as {name}, then: {command}"
        )
    })
}

/// Parses the value of `--keep`, and rejects a text that cannot name a branch.
pub(crate) fn keep(text: &str) -> Result<String, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.is_empty() || text.len() > 128 || !text.bytes().all(is_word) {
        return Err("use all, newest, longest, the number of a line or the id of a record".to_owned());
    }
    Ok(text.to_owned())
}
