//! `berth note`: writes, prints and removes a session's note.

use std::io::Read;

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_core::{Command, MAX_NOTE_BYTES, Refusal};
use serde::Serialize;

use crate::args::NoteArgs;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{lifecycle, print};

#[derive(Serialize)]
struct NoteOutput {
    id: String,
    note: Option<String>,
}

pub(crate) fn run(ctx: &CommandContext, args: &NoteArgs) -> Result<u8, Problem> {
    let (TargetSession { id, handle, .. }, words) = ctx.target_then(args.session.as_deref(), &args.text)?;
    if args.clear && !words.is_empty() {
        return Err(Problem::usage("--clear and a text do not go together")
            .hint("leave one of them out; nothing was changed"));
    }
    let text = (!words.is_empty()).then(|| text(&words)).transpose()?;
    if text.is_some() || args.clear {
        let request = KeeperRequest::Note { note: text.clone() };
        lifecycle::change(ctx, &id, request, Command::Note { note: text.clone() })?;
        if !args.json {
            let done = if text.is_some() { "noted" } else { "the note is removed" };
            print::note(&format!("{handle}: {done}"));
            return Ok(0);
        }
    }
    let note = ctx.known(&id)?.0.note;
    if args.json {
        print::json(&NoteOutput { id: id.to_string(), note })?;
    } else if let Some(note) = note {
        print::text(&(note + "\n"))?;
    }
    Ok(0)
}

/// The text of the note: the words, or standard input for `-`.
fn text(words: &[String]) -> Result<String, Problem> {
    if words != ["-"] {
        return not_empty(words.join(" "));
    }
    let mut bytes = Vec::new();
    // One byte over the limit shows that the note is too long. One more is for a final line end, which is removed.
    let read = std::io::stdin().lock().take(MAX_NOTE_BYTES as u64 + 2).read_to_end(&mut bytes);
    read.map_err(|error| Problem::refused(format!("cannot read standard input: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|odd| {
        let at = odd.utf8_error().valid_up_to();
        Problem::usage(format!("the note is not UTF-8 (at byte {at}); nothing was changed"))
    })?;
    let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
    if text.len() > MAX_NOTE_BYTES {
        let refusal = Refusal::NoteTooLong { bytes: text.len(), limit: MAX_NOTE_BYTES };
        let mut problem = berth_api::problem::refusal(&refusal, "");
        problem.what = format!("the note on standard input has more than {MAX_NOTE_BYTES} bytes");
        return Err(problem);
    }
    not_empty(text)
}

fn not_empty(text: String) -> Result<String, Problem> {
    if text.trim().is_empty() {
        return Err(
            Problem::usage("the note is empty; nothing was changed").hint("remove a note with --clear")
        );
    }
    Ok(text)
}
