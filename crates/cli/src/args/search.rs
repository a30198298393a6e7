//! Arguments of `berth grep` and `berth export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{SessionFilterArgs, parse_duration};

/// Search prompts, answers and output of all sessions.
///
/// Archived sessions are included, and the newest session comes first. Prompts, answers and tool calls are searched
/// decoded. Terminal output is searched without colours and cursor movements. For an agent in its own terminal
/// interface, the agent's transcript of the conversation is searched as well. The prefix of a line says where to read
/// on: fix.3 for `berth turn fix.3`, a number for `berth output fix --from NUMBER`.
///
/// Exit 0 found, 1 nothing found or something could not be searched (see standard error), 2 bad pattern.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth grep 'connection refused'
  berth grep -i -w todo fix                       in one session, any case
  berth grep -C 2 'panicked at' --agent claude    with two lines around each
  berth grep -l -F '$HOME'                        which sessions have it
  berth grep --json timeout | jq -r '.turn // .session'")]
pub(crate) struct GrepArgs {
    /// A regular expression, as for ripgrep
    #[arg(value_name = "PATTERN", required_unless_present = "regexps")]
    pub(crate) pattern: Option<String>,
    /// The sessions; `@` is the current one [default: all]
    #[arg(value_name = "S")]
    pub(crate) sessions: Vec<String>,
    /// A pattern, also one that begins with a dash; may be repeated
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) regexps: Vec<String>,
    /// Ignore the difference between upper and lower case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Match only whole words
    #[arg(short, long)]
    pub(crate) word_regexp: bool,
    /// Search for the pattern as plain text
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,
    /// Print the place of each line (always done)
    #[arg(short = 'n', long)]
    pub(crate) line_number: bool,
    /// Print only the number of matching lines of each session
    #[arg(short, long, conflicts_with_all = ["files_with_matches", "json"])]
    pub(crate) count: bool,
    /// Print only the sessions that match
    #[arg(short = 'l', long, conflicts_with = "json")]
    pub(crate) files_with_matches: bool,
    /// Show N lines after each match
    #[arg(short = 'A', long, value_name = "N")]
    pub(crate) after_context: Option<usize>,
    /// Show N lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    pub(crate) before_context: Option<usize>,
    /// Show N lines before and after each match
    #[arg(short = 'C', long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Print at most N matches of each session
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_count: Option<u64>,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Print an object per line: session, name, part, turn, offset, at, line, and the matches in it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a session's transcript, events or terminal recording to a file.
///
/// Without --format the file's extension decides (.md .json .jsonl .cast). Without a known extension the format is
/// Markdown for an agent that takes turns, and a recording (asciicast v2, for asciinema) for a terminal. `json` and
/// `jsonl` contain the events as `berth log --json` prints them, and the turns. A file is written as a whole or not at
/// all, and is never overwritten without --force. If a session is damaged, the readable part is written, and the exit
/// is 1.
///
/// A recording begins at the first size of the terminal and contains each change of size.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth export fix                             Markdown on standard output
  berth export fix -o notes/                   notes/fix.md
  berth export tests -o tests.cast --idle-limit 2s && asciinema play tests.cast
  berth export fix --format jsonl | jq -r '.event // .turn'")]
pub(crate) struct ExportArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// The format [default: by the file's extension, else md or cast]
    #[arg(short, long, value_enum)]
    pub(crate) format: Option<ExportFormatArg>,
    /// The target: a file, a directory (the file is named after the session), or `-`
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Export only this run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) run: Option<u64>,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Let players shorten pauses to this time (cast only; the recording keeps full pauses)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) idle_limit: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ExportFormatArg {
    /// Markdown, for people
    Md,
    /// An array: the events, then the turns
    Json,
    /// The events, one object per line, then the turns
    Jsonl,
    /// Asciicast v2, for asciinema
    Cast,
}
