//! `berth note`: what somebody wrote about a session.

use std::io::Read;

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_core::{Command, MAX_NOTE_BYTES, Refusal};
use serde::Serialize;

use crate::args::Note;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{life, print};

#[derive(Serialize)]
struct Noted {
    id: String,
    note: Option<String>,
}

pub(crate) fn run(ctx: &Ctx, args: &Note) -> Result<u8, Problem> {
    let (Meant { id, handle, .. }, words) = ctx.target_then(args.session.as_deref(), &args.text)?;
    if args.clear && !words.is_empty() {
        return Err(Problem::new(Code::Usage, "--clear and a text do not go together")
            .hint("leave one of them out; nothing was changed"));
    }
    let text = (!words.is_empty()).then(|| text(&words)).transpose()?;
    if text.is_some() || args.clear {
        let request = Request::Note { note: text.clone() };
        life::change(ctx, &id, request, Command::Note { note: text.clone() })?;
        if !args.json {
            let done = if text.is_some() { "noted" } else { "the note is gone" };
            print::note(&format!("{handle}: {done}"));
            return Ok(0);
        }
    }
    let note = ctx.known(&id)?.0.note;
    if args.json {
        print::json(&Noted { id: id.to_string(), note })?;
    } else if let Some(note) = note {
        print::text(&(note + "\n"))?;
    }
    Ok(0)
}

/// What to write: the words, or what comes on standard input.
fn text(words: &[String]) -> Result<String, Problem> {
    if words != ["-"] {
        return not_empty(words.join(" "));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much; a line end at the end is not meant.
    let read = std::io::stdin().lock().take(MAX_NOTE_BYTES as u64 + 2).read_to_end(&mut bytes);
    read.map_err(|error| Problem::new(Code::Refused, format!("cannot read standard input: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|odd| {
        let at = odd.utf8_error().valid_up_to();
        Problem::new(Code::Usage, format!("the note is not UTF-8 (at byte {at}); nothing was changed"))
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
        return Err(Problem::new(Code::Usage, "the note is empty; nothing was changed")
            .hint("take a note away with --clear"));
    }
    Ok(text)
}
