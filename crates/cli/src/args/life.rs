//! What can be typed about a session's life besides running it: ended, put away, deleted, named, sorted.

use std::time::Duration;

use berth_api::life::Term;

use super::{CONFIGURED, OnFailed, OnUnknown, Which, duration, occasions};

/// Stop sessions, and wait for their end.
///
/// Everything a session started is asked to end, then killed after the grace time. Exit 0 means
/// that nothing of it is left. The record stays; `berth resume` starts it again.
///
/// A session that is named is not asked about. Without a name, with --all, or with conditions as `berth ls` has them, a
/// yes is needed: typed at a terminal, or given with --yes. Without one nothing is done, and the exit is 7. Conditions
/// that no session meets are exit 3.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth stop fix
  berth stop                     the current one, after asking
  berth stop --name 'job*' --yes
  berth stop --all --yes         all that run, from a script")]
pub(crate) struct Stop {
    /// The sessions [default: the current one, after asking]
    #[arg(value_name = "S", conflicts_with_all = ["all", "Which"])]
    pub(crate) sessions: Vec<String>,
    /// All that run, after asking
    #[arg(long, conflicts_with = "Which")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Print what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Archive sessions: hide them from the list.
///
/// Nothing is deleted: `berth log`, `berth output` and everything else still work, and `berth restore` or
/// `berth resume` bring a session back. One that runs is refused (exit 4) unless --stop ends it first; one whose
/// keeper died is archived once nothing of its run is left. With --older-than, all sessions that nothing
/// happened in for so long; that needs a yes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth archive fix
  berth archive --stop fix other            end them first, as `berth stop` does
  berth archive --tag nightly --yes         conditions are those of `berth ls`
  berth archive --older-than 30d --yes      what has been at rest for a month")]
pub(crate) struct Archive {
    /// The sessions [default: the current one, if you say yes]
    #[arg(value_name = "S", conflicts_with_all = ["older_than", "Which"])]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// End those that run first
    #[arg(long, conflicts_with = "older_than")]
    pub(crate) stop: bool,
    /// With --stop: how long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, requires = "stop")]
    pub(crate) grace: Duration,
    /// All that nothing happened in for this long, as in 30d
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "Which")]
    pub(crate) older_than: Option<Duration>,
    /// Do not ask (one that is named is never asked about)
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restore archived sessions to the list.
#[derive(clap::Args, Debug)]
#[command(
    alias = "unarchive",
    after_help = "\
Examples:
  berth restore fix
  berth resume fix        restores it and starts it, in one step
  berth restore fix --history --to fix.jsonl     its transcript, elsewhere"
)]
pub(crate) struct Restore {
    /// The sessions [default: the current one]
    #[arg(value_name = "S", conflicts_with = "Which")]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Put the agent's transcript back, from the copies that `berth history` lists
    #[arg(long)]
    pub(crate) history: bool,
    /// Which of them [default: the last one]
    #[arg(long, value_name = "N", requires = "history")]
    pub(crate) at: Option<u64>,
    /// Write it to this file instead of where the agent looks for it
    #[arg(long, value_name = "FILE", requires = "history")]
    pub(crate) to: Option<std::path::PathBuf>,
    /// Print what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Delete sessions permanently.
///
/// This is the only command that deletes. What berth holds of them is deleted: the journal, the output, the name and
/// the key. The agent's own files, and the directory it worked in, are not touched. It always asks, and off a terminal
/// it needs --yes (exit 7); one that runs is refused (exit 4).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth purge --archived --older-than 90d --dry-run     what would go
  berth purge --archived --older-than 90d --yes
  berth purge fix")]
pub(crate) struct Purge {
    /// The sessions
    #[arg(
        value_name = "S",
        required_unless_present_any = ["archived", "older_than", "Which"],
        conflicts_with_all = ["archived", "Which"]
    )]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All that are archived
    #[arg(long, conflicts_with = "Which")]
    pub(crate) archived: bool,
    /// Only those that were archived this long ago, as in 90d
    // The conflict has to be named: clap requires nothing that conflicts with what is there.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "archived", conflicts_with = "sessions")]
    pub(crate) older_than: Option<Duration>,
    /// Only say what would be deleted
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// An array of objects: id, name, key, state, bytes, and whether it was purged
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tag a session, or print its tags.
///
/// A tag is written as a name is: letters, digits, `.`, `_` and `-`. `+TAG` is the same as `TAG`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth tag fix                        print them, one per line
  berth tag fix bug urgent             of the current session: berth tag @ bug
  berth tag fix done --remove urgent
  berth tag --name 'job*' nightly      all that match, as in `berth ls`
  berth ls --json | jq -r '.[] | select(.tags | index(\"bug\")) | .id'")]
pub(crate) struct Tag {
    /// The session [default: the current one]; with conditions a tag
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Tags to add
    #[arg(value_name = "TAG")]
    pub(crate) add: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Take a tag away (several: --remove a,b)
    #[arg(short, long, visible_alias = "rm", value_name = "TAG", value_delimiter = ',')]
    pub(crate) remove: Vec<String>,
    /// An array of words; with conditions, what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a note about a session, or print it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth note fix                                  print it
  berth note fix 'waits for the review of #12'
  git log -1 --format=%s | berth note fix -
  berth note fix --clear")]
pub(crate) struct Note {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// What to write, in place of what was there; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Take the note away
    #[arg(long)]
    pub(crate) clear: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show or set a session's limits, archiving and notifications.
///
/// What is not named stays as it is. A time to live counts from now, or from the next run of a session that
/// does not run; one whose time was up stays ended.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth policy fix                             print it
  berth policy fix --idle 10m                  ends the agent when idle so long
  berth policy fix --archive-after 7d          archived after a week at rest
  berth policy fix --ttl never --idle never
  berth policy fix --notify needs-you,failed")]
pub(crate) struct Policy {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Pause the agent after this long idle, or `never`; the next message wakes it
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) idle: Option<Term>,
    /// End the session for good after this long, or `never`
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) ttl: Option<Term>,
    /// Archive it when it was at rest for this long, or `never`
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) archive_after: Option<Term>,
    /// What the queue does after a turn whose end is unknown
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) on_unknown: Option<OnUnknown>,
    /// What the queue does after a turn that failed because of the model: usage limit, overload or login
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) on_failed: Option<OnFailed>,
    /// Notifications while no client looks: needs-you, finished, failed (with commas between), none, or
    /// `config` for what the config file says
    #[arg(long, value_name = "WHAT", value_parser = occasions_or_config)]
    pub(crate) notify: Option<berth_core::Notify>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Rename a session.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "\
Examples:
  berth rename fix login-bug",
    override_usage = "berth rename [OPTIONS] <S> <NAME>"
)]
pub(crate) struct Rename {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The new name
    pub(crate) name: Option<String>,
}

/// What a new session is called and sorted by, and when it is put away.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Sorting {
    /// Tag it (several: --tag a,b)
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
    /// Write a note about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Archive it when it was at rest for this long, or `never` [default: `policy.archive_after` of the config]
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) archive_after: Option<Term>,
}

/// A time, or `never`.
pub(super) fn term(text: &str) -> Result<Term, String> {
    if text == "never" {
        return Ok(Term::Never);
    }
    let time = duration(text).map_err(|why| format!("{why}; or `never`"))?;
    Ok(Term::After(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

/// Occasions, `none`, or what the config file says.
fn occasions_or_config(text: &str) -> Result<berth_core::Notify, String> {
    match text {
        CONFIGURED => Ok(berth_core::Notify::AsConfigured),
        _ => occasions(text).map_err(|why| format!("{why}; or {CONFIGURED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_a_time_or_never() {
        assert_eq!(term("never"), Ok(Term::Never));
        assert_eq!(term("7d"), Ok(Term::After(7 * 24 * 3600 * 1000)));
        for bad in ["", "no", "Never ", "-1d"] {
            assert!(term(bad).is_err(), "{bad} was taken for a time");
        }
    }
}

/// List the saved copies of a session's transcript.
///
/// One copy is made at the end of each turn. The copies stay when the agent clears up after itself or its file is
/// damaged. `[history]` in the config file says whether they are made, and how much they may take.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth history fix
  berth restore fix --history            put the last one back")]
pub(crate) struct History {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}
