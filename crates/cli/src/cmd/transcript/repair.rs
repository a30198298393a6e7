//! `berth transcript repair`: a copy that is whole.

use std::fmt::Write;
use std::path::PathBuf;

use berth_api::Problem;
use berth_verbs::records;
use berth_verbs::records::repair::{Keep, Repaired, Wish};

use super::BROKEN;
use crate::args::TranscriptRepair;
use crate::ctx::Ctx;
use crate::print;

pub(super) fn run(ctx: &Ctx, args: &TranscriptRepair) -> Result<u8, Problem> {
    let source = records::one_meant(ctx, &args.file)?;
    let keep = match args.keep.as_deref() {
        None | Some("all") => Keep::All,
        Some("newest") => Keep::Newest,
        Some("longest") => Keep::Longest,
        Some(leaf) => Keep::Leaf(leaf.to_owned()),
    };
    let wish = Wish { keep, force: args.force, beside: args.beside, ..Wish::default() };
    let (made, holder) = records::repair_file(&source, &args.to, args.new_id, wish)?;
    if let Some(holder) = holder {
        let who = holder.line();
        print::note(&format!("{who} has it open: what it writes from now on is not in the copy"));
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

fn text(made: &Repaired) -> String {
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
        let _ = writeln!(text, "  what was set aside is in {}", rest.display());
    }
    for other in &made.beside {
        let _ = writeln!(text, "  a branch has a copy of its own: {}", other.display());
    }
    for left in &made.left {
        let _ = writeln!(text, "  still wrong, line {}: {}", left.line, left.text);
    }
    text
}

/// The command that takes the copy up. Nothing for an id that an agent would not give: it may be anything.
fn how_to_resume(made: &Repaired, source: &std::path::Path) -> Option<String> {
    if !berth_transcript::is_plain_id(&made.conversation) {
        return None;
    }
    let cd = made.cwd.as_ref().map_or_else(String::new, |cwd| {
        format!("cd {} && ", berth_api::redact::command_line(std::slice::from_ref(cwd)))
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
        format!("to resume it, put it where the agent keeps its own, as {name}, then: {command}")
    })
}

/// Refuses what cannot be an id of a branch.
pub(crate) fn keep(text: &str) -> Result<String, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.is_empty() || text.len() > 128 || !text.bytes().all(is_word) {
        return Err("all, newest, longest, the number of a line or the id of a record".to_owned());
    }
    Ok(text.to_owned())
}
