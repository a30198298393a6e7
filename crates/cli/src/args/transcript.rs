//! Arguments of `berth transcript check`, `repair` and `tree`: transcripts that agents keep themselves.

use std::path::PathBuf;

use clap::Subcommand;

use super::{TranscriptLsArgs, TranscriptShowArgs};

/// Check the transcripts of agents, and repair copies of them.
///
/// Claude Code and Codex record every conversation in a transcript file. Two writers, a crash or a power cut can damage
/// such a file. berth never changes an original. docs/transcripts.md lists the faults that a check finds.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript ls
  berth transcript check --all
  berth transcript tree talk.jsonl
  berth transcript repair talk.jsonl --to mended.jsonl")]
pub(crate) struct TranscriptArgs {
    #[command(subcommand)]
    pub(crate) verb: TranscriptVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TranscriptVerb {
    Ls(TranscriptLsArgs),
    Show(TranscriptShowArgs),
    Check(TranscriptCheckArgs),
    Repair(TranscriptRepairArgs),
    Tree(TranscriptTreeArgs),
}

/// Find damage in transcripts, and the turns that a resume would lose.
///
/// The check finds torn lines, records that ran together, zeroes, forks by two writers, tool calls without results and
/// more, each with its line. Exit codes: 0 no damage, 12 something is broken, 1 a file could not be read.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript check talk.jsonl
  berth transcript check --all -q || echo \"some are broken\"
  berth transcript check talk.jsonl --json | jq -r '.[].lost[].said'")]
pub(crate) struct TranscriptCheckArgs {
    /// The transcript: its file, a session of berth, or the id of a conversation (or the beginning of the id)
    #[arg(value_name = "PATH|S|ID", required_unless_present = "all")]
    pub(crate) files: Vec<String>,
    /// Every transcript of Claude Code and of Codex, including those of sub-agents
    #[arg(long, conflicts_with = "files")]
    pub(crate) all: bool,
    /// Print an array with an object for each file
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a repaired copy of a transcript, which its agent can resume.
///
/// The original stays as it is. Turns that two writers wrote at once come one after the other. Records that cannot stay
/// are put into COPY.rest, and with --beside into copies of their own. Exit codes: 0 the copy is whole, 12 something is
/// still wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript repair talk.jsonl --to mended.jsonl
  berth transcript repair talk.jsonl --new-id --to .
  berth transcript repair talk.jsonl --keep newest --beside --to mended.jsonl")]
pub(crate) struct TranscriptRepairArgs {
    /// The transcript: its file, a session of berth, or the id of a conversation (or the beginning of the id)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) file: String,
    /// The copy: a new file, or with --new-id a directory
    #[arg(long, value_name = "COPY")]
    pub(crate) to: PathBuf,
    /// Branches of a fork that stay: all, newest, longest, or one by the line or the id of a record
    #[arg(long, value_name = "BRANCH", value_parser = crate::cmd::transcript::repair::keep)]
    pub(crate) keep: Option<String>,
    /// Copy the branches that cannot stay to conversations of their own
    #[arg(long)]
    pub(crate) beside: bool,
    /// Give the copy a new id, so that it can be next to the original
    #[arg(long)]
    pub(crate) new_id: bool,
    /// Replace the copy if it exists; no other file is ever replaced
    #[arg(long)]
    pub(crate) force: bool,
    /// Print an object with the copy, its id and the changes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw the turns of a transcript, its branches, and the path that a resume takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript tree talk.jsonl
  berth transcript tree talk.jsonl --json | jq -r '.turns[].said'")]
pub(crate) struct TranscriptTreeArgs {
    /// The transcript: its file, a session of berth, or the id of a conversation (or the beginning of the id)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) file: String,
    /// Print an object with the turns, in the order in which they began
    #[arg(long)]
    pub(crate) json: bool,
}
