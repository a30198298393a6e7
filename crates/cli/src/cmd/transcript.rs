//! `berth transcript`: the transcripts that agents keep themselves.

mod check;
pub(crate) mod repair;
mod tree;

use std::path::PathBuf;

use berth_api::Problem;
use berth_verbs::records;

use crate::args::{Transcript, TranscriptVerb};
use crate::cmd::conversations;
use crate::ctx::Ctx;

/// Something is broken.
const BROKEN: u8 = 12;

pub(crate) fn run(ctx: &Ctx, args: &Transcript) -> Result<u8, Problem> {
    match &args.verb {
        TranscriptVerb::Ls(args) => conversations::list(ctx, args),
        TranscriptVerb::Show(args) => conversations::show(ctx, args),
        TranscriptVerb::Check(args) => check::run(ctx, args),
        TranscriptVerb::Repair(args) => repair::run(ctx, args),
        TranscriptVerb::Tree(args) => tree::run(ctx, args),
    }
}

/// The files that are meant.
fn files(ctx: &Ctx, words: &[String]) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for word in words {
        files.extend(records::meant(ctx, word)?);
    }
    Ok(files)
}

/// A moment for people: the day, and the time of it.
fn moment(at_ms: Option<u64>) -> String {
    let at = at_ms.and_then(|ms| jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok());
    at.map_or_else(String::new, |at| {
        at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// `1 line`, `2 lines`.
fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
