//! What can be typed about the transcripts that agents keep themselves.

use std::path::PathBuf;

use clap::Subcommand;

use super::{TranscriptLs, TranscriptShow};

/// Check the transcripts of agents, and repair copies of them.
///
/// Claude Code and Codex write down every conversation. Two writers, a crash or a power cut can break what they
/// wrote. An original is never changed. docs/transcripts.md tells what is looked for.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript ls
  berth transcript check --all
  berth transcript tree talk.jsonl
  berth transcript repair talk.jsonl --to mended.jsonl")]
pub(crate) struct Transcript {
    #[command(subcommand)]
    pub(crate) verb: TranscriptVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TranscriptVerb {
    Ls(TranscriptLs),
    Show(TranscriptShow),
    Check(TranscriptCheck),
    Repair(TranscriptRepair),
    Tree(TranscriptTree),
}

/// Find what is broken in transcripts, and what a resume would lose.
///
/// Torn lines, records that ran together, zeroes, forks by two writers, tool calls without results and more, each with
/// its line. Exit codes: 0 nothing is broken, 12 something is, 1 a file could not be read.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript check talk.jsonl
  berth transcript check --all -q || echo \"some are broken\"
  berth transcript check talk.jsonl --json | jq -r '.[].lost[].said'")]
pub(crate) struct TranscriptCheck {
    /// Its file, a session of berth, or the id of a conversation (or how it begins)
    #[arg(value_name = "PATH|S|ID", required_unless_present = "all")]
    pub(crate) files: Vec<String>,
    /// Every transcript of Claude Code and of Codex, sub-agents' too
    #[arg(long, conflicts_with = "files")]
    pub(crate) all: bool,
    /// An array with an object for each file
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a copy of a transcript that is whole and that its agent resumes.
///
/// The original stays as it is. Turns that two writers wrote at once come one after the other; what cannot stay is in
/// COPY.rest, and with --beside in a copy of its own. Exit codes: 0 the copy is whole, 12 something is still wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript repair talk.jsonl --to mended.jsonl
  berth transcript repair talk.jsonl --new-id --to .
  berth transcript repair talk.jsonl --keep newest --beside --to mended.jsonl")]
pub(crate) struct TranscriptRepair {
    /// Its file, a session of berth, or the id of a conversation (or how it begins)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) file: String,
    /// The copy: a file that is not there yet, or with --new-id a directory
    #[arg(long, value_name = "COPY")]
    pub(crate) to: PathBuf,
    /// Which branch of a fork stays: all, newest, longest, or one by the line or the id of a record
    #[arg(long, value_name = "BRANCH", value_parser = crate::cmd::transcript::repair::keep)]
    pub(crate) keep: Option<String>,
    /// Make copies of the branches that cannot stay, as conversations of their own
    #[arg(long)]
    pub(crate) beside: bool,
    /// Give the copy an id of its own, so that it can lie beside the original
    #[arg(long)]
    pub(crate) new_id: bool,
    /// Replace the copy if it is there; no other file is ever replaced
    #[arg(long)]
    pub(crate) force: bool,
    /// An object with the copy, its id and what was changed
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw the turns of a transcript, its branches, and what a resume takes up.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript tree talk.jsonl
  berth transcript tree talk.jsonl --json | jq -r '.turns[].said'")]
pub(crate) struct TranscriptTree {
    /// Its file, a session of berth, or the id of a conversation (or how it begins)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) file: String,
    /// An object with the turns, in the order in which they were begun
    #[arg(long)]
    pub(crate) json: bool,
}
