//! `berth transcript`: checks, repairs and draws the transcripts that agents keep themselves.

mod check;
pub(crate) mod repair;
mod tree;

use std::path::PathBuf;

use berth_api::Problem;
use berth_verbs::transcript_files;

use crate::args::{TranscriptArgs, TranscriptVerb};
use crate::cmd::conversations;
use crate::ctx::CommandContext;

/// The exit code if a transcript is broken.
const BROKEN: u8 = 12;

pub(crate) fn run(ctx: &CommandContext, args: &TranscriptArgs) -> Result<u8, Problem> {
    match &args.verb {
        TranscriptVerb::Ls(args) => conversations::list(ctx, args),
        TranscriptVerb::Show(args) => conversations::show(ctx, args),
        TranscriptVerb::Check(args) => check::run(ctx, args),
        TranscriptVerb::Repair(args) => repair::run(ctx, args),
        TranscriptVerb::Tree(args) => tree::run(ctx, args),
    }
}

/// The transcript files that these words name.
fn files(ctx: &CommandContext, words: &[String]) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for word in words {
        files.extend(transcript_files::resolve_paths(ctx, word)?);
    }
    Ok(files)
}

/// A time for people: the day and the local time of day. Empty if the time is unknown.
fn moment(at_ms: Option<u64>) -> String {
    let at = at_ms.and_then(|ms| jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok());
    at.map_or_else(String::new, |at| {
        at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// A number with its noun, as in `1 line` and `2 lines`.
fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
