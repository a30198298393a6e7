//! Arguments of `berth ls`, and the conditions that other commands share with it.

use std::path::PathBuf;

use berth_api::SessionState;

use crate::listing::ListOrder;

/// List sessions, those that need you first.
///
/// Then come working sessions, idle ones, and those that ended in the last day. A session is listed if it meets all
/// conditions. --state lists all sessions in that state, however old. On a terminal the lines fit its width, and
/// `@` marks this terminal's current session; elsewhere the columns are always the same, and nothing is cut. Scripts
/// use --json, --format or --ids.
#[derive(clap::Args, Debug, Default)]
#[command(
    alias = "list",
    after_help = "\
Examples:
  berth ls --here --state needs-you,working
  berth ls --watch                  until q; with --json a line for each change
  berth ls --hosts                  sessions of other hosts as well
  berth ls --foreign                conversations from outside berth
  berth ls --tree                   helpers and inner sessions below owners
  berth ls --format '{{.id}}\\t{{.name}}\\t{{.turns.total}}'
  berth ls --json | jq -r '.[] | select(.state == \"running\") | .id'
  berth stop $(berth ls --ids --tag nightly)"
)]
pub(crate) struct LsArgs {
    /// List all sessions, also long-stopped and archived ones
    #[arg(short, long, conflicts_with = "archived")]
    pub(crate) all: bool,
    /// List only archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// The order of the list
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: SortArg,
    /// List at most N
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Show helpers, and sessions started in sessions, below the session they belong to
    #[arg(long)]
    pub(crate) tree: bool,
    /// List the sessions of all hosts (`berth hosts`); of a host that is away, the last known ones
    #[arg(long, conflicts_with_all = ["tree", "watch"])]
    pub(crate) hosts: bool,
    /// List conversations that belong to no session: open ones first, then the latest
    #[arg(long, conflicts_with_all = ["archived", "tree", "hosts", "watch", "format", "state", "tag", "name", "sort"])]
    pub(crate) foreign: bool,
    /// Keep running, and show changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print an array of objects, as `show --json` prints them; with --tree they have `children` and `helpers`
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a line for each session, with fields of the --json objects
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["json", "tree", "watch"])]
    pub(crate) format: Option<String>,
    /// Print only the ids, one per line
    #[arg(long, conflicts_with_all = ["json", "tree", "watch", "format"])]
    pub(crate) ids: bool,
}

/// Conditions that choose sessions, for every command that works on several.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct SessionFilterArgs {
    /// Only sessions in one of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_enum)]
    pub(crate) state: Vec<SessionState>,
    /// Only sessions with this agent, or this program
    #[arg(long, value_name = "A")]
    pub(crate) agent: Option<String>,
    /// Only sessions in this directory, or below it
    #[arg(long, value_name = "DIR", conflicts_with = "here")]
    pub(crate) cwd: Option<PathBuf>,
    /// Only sessions in the current directory, or below it
    #[arg(long)]
    pub(crate) here: bool,
    /// Only sessions with this tag; with several --tag, sessions that have all of them
    #[arg(long, value_name = "T")]
    pub(crate) tag: Vec<String>,
    /// Only sessions with a matching name; `*` matches any text, `?` one character
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Option<String>,
}

impl SessionFilterArgs {
    /// True if there is at least one condition.
    pub(crate) fn is_choosy(&self) -> bool {
        let Self { state, agent, cwd, here, tag, name } = self;
        !state.is_empty() || agent.is_some() || cwd.is_some() || *here || !tag.is_empty() || name.is_some()
    }
}

/// The order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum SortArg {
    /// By state, those that need you first; within a state the last active first
    #[default]
    State,
    /// The last active first
    Active,
    /// The newest first
    Created,
    /// By name, sessions without a name last
    Name,
}

impl From<SortArg> for ListOrder {
    fn from(sort: SortArg) -> Self {
        match sort {
            SortArg::State => Self::State,
            SortArg::Active => Self::Active,
            SortArg::Created => Self::Created,
            SortArg::Name => Self::Name,
        }
    }
}
