//! What can be typed about conversations that were had without berth.

use std::path::PathBuf;
use std::time::Duration;

use super::duration;

/// The agents whose conversations are known.
pub(crate) const KEEPERS_OF_CONVERSATIONS: [&str; 2] = ["claude", "codex"];

/// Continue a conversation from outside berth in a session.
///
/// ID is the agent's own id, its first characters (four or more), or its file; `berth ls --foreign` lists them. If a
/// program has it open, that is named and nothing happens: close it there, or --wait until it is closed, or --take it.
/// A tool that a killed agent left running is ended first. A conversation that a session has already is resumed there.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth adopt 1b4e28ba                       as a session, named by its words
  berth adopt 1b4e28ba --name fix --wait     once it is closed over there
  berth adopt 1b4e28ba --take --detach       end it there, go on here
  berth adopt 1b4e28ba --take=4711           only if it is that process")]
pub(crate) struct Adopt {
    /// The conversation: its id, the beginning of it, or its file
    #[arg(value_name = "ID")]
    pub(crate) conversation: String,
    /// What to call the session [default: from how the conversation began]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// End the programs that have it open, and what they started; with pids, only if no others have it open
    #[arg(long, value_name = "PID", num_args = 0.., require_equals = true, value_delimiter = ',')]
    pub(crate) take: Option<Vec<u32>>,
    /// Wait until no program has it open
    #[arg(long, conflicts_with = "take")]
    pub(crate) wait: bool,
    /// Wait no longer than this, as in 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
    /// With the agent's own terminal interface
    #[arg(long)]
    pub(crate) tui: bool,
    /// Only look among the conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// Do not stay; print the session's id once its agent takes turns
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Print what `show --json` prints instead of the id
    #[arg(long)]
    pub(crate) json: bool,
}

/// Import past conversations as stopped sessions.
///
/// Each becomes a stopped session, named from how it began, with the times of the agent's own record; `berth grep`
/// finds what was said in it, and `berth resume` goes on with it. What a session has already is left as it is, so
/// this can be repeated. The agents' own files are only read.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth import --all --dry-run               what would become a session
  berth import --all --agent claude          every past one of Claude Code
  berth import --dir .                       those that were had here
  berth import 1b4e28ba --name talk           one")]
pub(crate) struct Import {
    /// The conversations: their ids, the beginnings of those, or their files
    #[arg(value_name = "ID", required_unless_present_any = ["all", "dir"])]
    pub(crate) conversations: Vec<String>,
    /// All there are
    #[arg(long, conflicts_with_all = ["conversations", "dir"])]
    pub(crate) all: bool,
    /// Those that were had in this directory, or below it
    #[arg(long, value_name = "DIR", conflicts_with = "conversations")]
    pub(crate) dir: Option<PathBuf>,
    /// Only conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// What to call the session; only with one ID
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "dir"])]
    pub(crate) name: Option<String>,
    /// At most so many, the last ones first
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// An array of objects: what became of each
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the conversations that agents keep, those of sessions included.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript ls
  berth transcript ls --agent codex --json | jq -r '.[].file'")]
pub(crate) struct TranscriptLs {
    /// Only conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// Only those that were had in this directory, or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// At most so many that are not open [default: 50]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// All of them
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// An array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what was said in a conversation, by the agent's own record.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript show 1b4e28ba
  berth transcript show 1b4e28ba --json | jq -r '.exchanges[].prompt'")]
pub(crate) struct TranscriptShow {
    /// Its file, a session of berth, or the id of a conversation (or how it begins)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) conversation: String,
    /// One object
    #[arg(long)]
    pub(crate) json: bool,
}
