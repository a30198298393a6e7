//! Arguments of `berth adopt`, `import`, `transcript ls` and `transcript show`: conversations from outside berth.

use std::path::PathBuf;
use std::time::Duration;

use super::parse_duration;

/// Names of the agents whose conversations berth can read.
pub(crate) const KEEPERS_OF_CONVERSATIONS: [&str; 2] = ["claude", "codex"];

/// Continue a conversation from outside berth in a session.
///
/// ID is the agent's own id, its first characters (four or more), or its file; `berth ls --foreign` lists them. If a
/// program has the conversation open, berth names the program and changes nothing: close it there, or --wait until it
/// is closed, or --take it. A tool that a killed agent left running is ended first. A conversation that already belongs
/// to a session is resumed in that session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth adopt 1b4e28ba                       named after its first words
  berth adopt 1b4e28ba --name fix --wait     once the other program closes it
  berth adopt 1b4e28ba --take --detach       end it there, go on here
  berth adopt 1b4e28ba --take=4711           only if that process has it open")]
pub(crate) struct AdoptArgs {
    /// The conversation: its id, the beginning of its id, or its file
    #[arg(value_name = "ID")]
    pub(crate) conversation: String,
    /// Name of the session [default: made from the first words of the conversation]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// End the programs that have it open, and what they started; with pids, only if no others have it open
    #[arg(long, value_name = "PID", num_args = 0.., require_equals = true, value_delimiter = ',')]
    pub(crate) take: Option<Vec<u32>>,
    /// Wait until no program has it open
    #[arg(long, conflicts_with = "take")]
    pub(crate) wait: bool,
    /// Wait no longer than this, as in 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
    /// Continue in the agent's own terminal interface
    #[arg(long)]
    pub(crate) tui: bool,
    /// Search only the conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// Do not attach; print the session's id once its agent takes turns
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Print JSON, as `show --json` does, and not only the id
    #[arg(long)]
    pub(crate) json: bool,
}

/// Import past conversations as stopped sessions.
///
/// Each conversation becomes a stopped session, named after its first words, with the times of the agent's transcript;
/// `berth grep` searches it, and `berth resume` continues it. A conversation that already belongs to a session is
/// skipped, so this command can be repeated. The agents' own files are only read.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth import --all --dry-run               lists the sessions it would make
  berth import --all --agent claude          every past one of this agent
  berth import --dir .                       conversations in this directory
  berth import 1b4e28ba --name talk           one conversation")]
pub(crate) struct ImportArgs {
    /// The conversations: their ids, the beginnings of ids, or their files
    #[arg(value_name = "ID", required_unless_present_any = ["all", "dir"])]
    pub(crate) conversations: Vec<String>,
    /// Import every past conversation
    #[arg(long, conflicts_with_all = ["conversations", "dir"])]
    pub(crate) all: bool,
    /// Import conversations that took place in this directory, or below it
    #[arg(long, value_name = "DIR", conflicts_with = "conversations")]
    pub(crate) dir: Option<PathBuf>,
    /// Only conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// Name of the session; only with one ID
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "dir"])]
    pub(crate) name: Option<String>,
    /// Import at most N, the latest first
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print an array of objects, with the outcome for each conversation
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the conversations that agents keep, those of sessions included.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript ls
  berth transcript ls --agent codex --json | jq -r '.[].file'")]
pub(crate) struct TranscriptLsArgs {
    /// Only conversations of this agent
    #[arg(long, value_name = "A", value_parser = KEEPERS_OF_CONVERSATIONS)]
    pub(crate) agent: Option<String>,
    /// Only conversations that took place in this directory, or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// List at most N that are not open [default: 50]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// List all conversations
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what was said in a conversation, by the agent's transcript.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth transcript show 1b4e28ba
  berth transcript show 1b4e28ba --json | jq -r '.exchanges[].prompt'")]
pub(crate) struct TranscriptShowArgs {
    /// The conversation: its file, a session of berth, or its id (or the beginning of the id)
    #[arg(value_name = "PATH|S|ID")]
    pub(crate) conversation: String,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}
