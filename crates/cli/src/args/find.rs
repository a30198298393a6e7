//! What can be typed to find something again, and to take it away.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{Which, duration};

/// Search prompts, answers and output of all sessions.
///
/// Archived sessions are included. Prompts, answers and tool calls are searched decoded, terminal output without its
/// colours and moves, and of an agent's own terminal interface also the agent's own record of the conversation. What
/// stands before a line is what to go on with: fix.3 for `berth turn fix.3`, a number for `berth output fix --from
/// NUMBER`. Newest session first.
///
/// Exit 0 found, 1 nothing found or something could not be searched (said on standard error), 2 bad pattern.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth grep 'connection refused'
  berth grep -i -w todo fix                       in one session, any case
  berth grep -C 2 'panicked at' --agent claude    with two lines around each
  berth grep -l -F '$HOME'                        which sessions have it
  berth grep --json timeout | jq -r '.turn // .session'")]
pub(crate) struct Grep {
    /// A regular expression, as for ripgrep
    #[arg(value_name = "PATTERN", required_unless_present = "regexps")]
    pub(crate) pattern: Option<String>,
    /// The sessions (all if none is named; `@` is the current one)
    #[arg(value_name = "S")]
    pub(crate) sessions: Vec<String>,
    /// A pattern, also one that begins with a dash; may be repeated
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) regexps: Vec<String>,
    /// Upper and lower case are the same
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Only whole words
    #[arg(short, long)]
    pub(crate) word_regexp: bool,
    /// Search for the pattern as plain text
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,
    /// Say where each line is (always done)
    #[arg(short = 'n', long)]
    pub(crate) line_number: bool,
    /// Only how many lines match, for each session
    #[arg(short, long, conflicts_with_all = ["files_with_matches", "json"])]
    pub(crate) count: bool,
    /// Only which sessions match
    #[arg(short = 'l', long, conflicts_with = "json")]
    pub(crate) files_with_matches: bool,
    /// Show so many lines behind each match
    #[arg(short = 'A', long, value_name = "N")]
    pub(crate) after_context: Option<usize>,
    /// Show so many lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    pub(crate) before_context: Option<usize>,
    /// Show so many lines around each match
    #[arg(short = 'C', long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// No more than so many matches of each session
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_count: Option<u64>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// An object per line: session, name, part, turn, offset, at, line, and the matches in it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a session's transcript, events or terminal recording to a file.
///
/// Without --format the file's ending decides (.md .json .jsonl .cast); else it is Markdown for an agent that takes
/// turns, and a recording (asciicast v2, for asciinema) for a terminal. `json` and `jsonl` have the events as `berth
/// log --json` prints them, and the turns. A file is never overwritten without --force, and is there as a whole or not
/// at all. Of a damaged session what can be read is written, and the exit is 1.
///
/// A recording has the size the terminal had last: changes of size are not recorded.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth export fix                             Markdown on standard output
  berth export fix -o notes/                   notes/fix.md
  berth export tests -o tests.cast --idle-limit 2s && asciinema play tests.cast
  berth export fix --format jsonl | jq -r '.event // .turn'")]
pub(crate) struct Export {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// What to make of it [default: as the file ends, else md or cast]
    #[arg(short, long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Where to: a file, a directory (the file is named after the session), or `-`
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Only this run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) run: Option<u64>,
    /// Overwrite a file that is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Let players shorten pauses to this (cast only; the recording keeps them)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle_limit: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Markdown, for people
    Md,
    /// An array: the events, then the turns
    Json,
    /// The events, one object per line, then the turns
    Jsonl,
    /// Asciicast v2, for asciinema
    Cast,
}
