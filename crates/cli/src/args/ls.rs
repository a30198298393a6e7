//! What can be typed after `berth ls`.

use std::path::PathBuf;

use berth_api::SessionState;

use crate::listing::Order;

/// List sessions, those that need you first.
///
/// Then come working, idle, and those that ended in the last day. Conditions hold together.
/// With --state all sessions in that state are listed, however old. On a terminal the lines fit and `@` marks this
/// terminal's current session; anywhere else the columns are always the same and nothing is cut. Scripts take --json,
/// --format or --ids.
#[derive(clap::Args, Debug, Default)]
#[command(
    alias = "list",
    after_help = "\
Examples:
  berth ls --here --state needs-you,working
  berth ls --watch                  until q; with --json a line for each change
  berth ls --hosts                  sessions of other hosts as well
  berth ls --foreign                other conversations (`berth adopt`)
  berth ls --tree                   helpers and inner sessions under theirs
  berth ls --format '{{.id}}\\t{{.name}}\\t{{.turns.total}}'
  berth ls --json | jq -r '.[] | select(.state == \"running\") | .id'
  berth stop $(berth ls --ids --tag nightly)"
)]
pub(crate) struct Ls {
    /// Everything: also what stopped long ago, and what was archived
    #[arg(short, long, conflicts_with = "archived")]
    pub(crate) all: bool,
    /// Only what was archived
    #[arg(long)]
    pub(crate) archived: bool,
    #[command(flatten)]
    pub(crate) which: Which,
    /// In which order
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: Sort,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Helpers, and sessions started in sessions, under the session they belong to
    #[arg(long)]
    pub(crate) tree: bool,
    /// Those of all hosts, too (`berth hosts`); of one that is away, what was last known
    #[arg(long, conflicts_with_all = ["tree", "watch"])]
    pub(crate) hosts: bool,
    /// Other conversations, which no session has: open ones first, then the latest
    #[arg(long, conflicts_with_all = ["archived", "tree", "hosts", "watch", "format", "state", "tag", "name", "sort"])]
    pub(crate) foreign: bool,
    /// Stay, and show what changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// An array of objects, as `show --json` prints them; with --tree they have `children` and `helpers`
    #[arg(long)]
    pub(crate) json: bool,
    /// A line for each, with fields of what --json prints
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["json", "tree", "watch"])]
    pub(crate) format: Option<String>,
    /// The ids alone, a line for each
    #[arg(long, conflicts_with_all = ["json", "tree", "watch", "format"])]
    pub(crate) ids: bool,
}

/// Which sessions: the conditions that every command which goes through them takes.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Which {
    /// Only sessions in one of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_enum)]
    pub(crate) state: Vec<SessionState>,
    /// Only sessions with this agent, or this program
    #[arg(long, value_name = "A")]
    pub(crate) agent: Option<String>,
    /// Only sessions in this directory, or below it
    #[arg(long, value_name = "DIR", conflicts_with = "here")]
    pub(crate) cwd: Option<PathBuf>,
    /// The same for the directory you are in
    #[arg(long)]
    pub(crate) here: bool,
    /// Only sessions with this tag; of several, all
    #[arg(long, value_name = "T")]
    pub(crate) tag: Vec<String>,
    /// Only sessions with a name like this; `*` and `?` stand for anything
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Option<String>,
}

impl Which {
    /// Whether there is any condition.
    pub(crate) fn is_choosy(&self) -> bool {
        let Self { state, agent, cwd, here, tag, name } = self;
        !state.is_empty() || agent.is_some() || cwd.is_some() || *here || !tag.is_empty() || name.is_some()
    }
}

/// What a list is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Sort {
    /// Who needs you, then by what it does; among equals the last active first
    #[default]
    State,
    /// The last active first
    Active,
    /// The newest first
    Created,
    /// By name, those without one last
    Name,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::State => Self::State,
            Sort::Active => Self::Active,
            Sort::Created => Self::Created,
            Sort::Name => Self::Name,
        }
    }
}
