//! Arguments of the commands for a session's life after its start: `stop`, `archive`, `restore`, `purge`, `rename`,
//! `tag`, `note`, `policy` and `history`.

use std::time::Duration;

use berth_api::policy_change::TimeoutChange;

use super::{CONFIGURED, OnFailedArg, OnUnknownArg, SessionFilterArgs, occasions, parse_duration};

/// Stop sessions, and wait for their end.
///
/// Every process of a session is asked to end, then killed after the grace time. Exit 0 means that no process
/// is left. The record stays; `berth resume` starts the session again.
///
/// A session that is named is stopped without a question. Without a name, with --all, or with conditions as in
/// `berth ls`, consent is needed: typed at a terminal, or given with --yes. Without consent nothing is done, and the
/// exit is 7. If no session meets the conditions, the exit is 3.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth stop fix
  berth stop                     the current one, after asking
  berth stop --name 'job*' --yes
  berth stop --all --yes         all running sessions, from a script")]
pub(crate) struct StopArgs {
    /// The sessions [default: the current one, after asking]
    #[arg(value_name = "S", conflicts_with_all = ["all", "SessionFilterArgs"])]
    pub(crate) sessions: Vec<String>,
    /// Stop all running sessions, after asking
    #[arg(long, conflicts_with = "SessionFilterArgs")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How long processes may take to end before they are killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// Print an array of objects, as `show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Archive sessions: hide them from the list.
///
/// Nothing is deleted: `berth log`, `berth output` and every other command still work, and `berth restore` or
/// `berth resume` bring a session back. A running session is refused (exit 4) unless --stop ends it first; a session
/// whose keeper died is archived once no process of its run is left. --older-than archives all sessions without
/// activity for that time, and needs consent.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth archive fix
  berth archive --stop fix other            end them first, as `berth stop` does
  berth archive --tag nightly --yes         conditions are those of `berth ls`
  berth archive --older-than 30d --yes      sessions at rest for a month")]
pub(crate) struct ArchiveArgs {
    /// The sessions [default: the current one, after asking]
    #[arg(value_name = "S", conflicts_with_all = ["older_than", "SessionFilterArgs"])]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Stop running sessions first
    #[arg(long, conflicts_with = "older_than")]
    pub(crate) stop: bool,
    /// With --stop: how long processes may take to end before they are killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "stop")]
    pub(crate) grace: Duration,
    /// All sessions without activity for this long, as in 30d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "SessionFilterArgs")]
    pub(crate) older_than: Option<Duration>,
    /// Do not ask (a session that is named is archived without a question)
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print an array of objects, as `show --json` prints them
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
  berth restore fix --history --to fix.jsonl     its transcript, to another file"
)]
pub(crate) struct RestoreArgs {
    /// The sessions [default: the current one]
    #[arg(value_name = "S", conflicts_with = "SessionFilterArgs")]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Put the agent's transcript back, from the copies that `berth history` lists
    #[arg(long)]
    pub(crate) history: bool,
    /// With --history: the number of the copy [default: the last one]
    #[arg(long, value_name = "N", requires = "history")]
    pub(crate) at: Option<u64>,
    /// Write the transcript to this file, not to the place where the agent looks for it
    #[arg(long, value_name = "FILE", requires = "history")]
    pub(crate) to: Option<std::path::PathBuf>,
    /// Print an array of objects, as `show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Delete sessions permanently.
///
/// This is the only command that deletes. It deletes berth's own record of a session: the journal, the output, the name
/// and the key. The agent's own files, and the directory it worked in, are not touched. The command always asks, and
/// off a terminal it needs --yes (exit 7). A running session is refused (exit 4).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth purge --archived --older-than 90d --dry-run     lists them first
  berth purge --archived --older-than 90d --yes
  berth purge fix")]
pub(crate) struct PurgeArgs {
    /// The sessions
    #[arg(
        value_name = "S",
        required_unless_present_any = ["archived", "older_than", "SessionFilterArgs"],
        conflicts_with_all = ["archived", "SessionFilterArgs"]
    )]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Delete all archived sessions
    #[arg(long, conflicts_with = "SessionFilterArgs")]
    pub(crate) archived: bool,
    /// Only sessions that were archived this long ago, as in 90d
    // The conflict has to be named: clap drops `requires` for an argument that conflicts with a present one.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "archived", conflicts_with = "sessions")]
    pub(crate) older_than: Option<Duration>,
    /// List the sessions that would be deleted, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print an array of objects: id, name, key, state, bytes, and whether the session was purged
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tag a session, or print its tags.
///
/// A tag has the form of a session's name: letters, digits, `.`, `_` and `-`. `+TAG` means `TAG`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth tag fix                        print them, one per line
  berth tag fix bug urgent             for the current session: berth tag @ bug
  berth tag fix done --remove urgent
  berth tag --name 'job*' nightly      all that match, as in `berth ls`
  berth ls --json | jq -r '.[] | select(.tags | index(\"bug\")) | .id'")]
pub(crate) struct TagArgs {
    /// The session [default: the current one]; with conditions, a tag
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Tags to add
    #[arg(value_name = "TAG")]
    pub(crate) add: Vec<String>,
    #[command(flatten)]
    pub(crate) which: SessionFilterArgs,
    /// Remove a tag (several: --remove a,b)
    #[arg(short, long, visible_alias = "rm", value_name = "TAG", value_delimiter = ',')]
    pub(crate) remove: Vec<String>,
    /// Print an array of tags; with conditions, an array of objects, as `show --json` prints them
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
pub(crate) struct NoteArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// The new note, which replaces the old one; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Remove the note
    #[arg(long)]
    pub(crate) clear: bool,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show or set a session's limits, archiving and notifications.
///
/// A setting that is not named stays as it is. The time to live counts from now, or from the next run if the
/// session does not run. A session that ended because its time was up stays ended.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth policy fix                             print it
  berth policy fix --idle 10m                  pauses an agent idle for so long
  berth policy fix --archive-after 7d          archived after a week at rest
  berth policy fix --ttl never --idle never
  berth policy fix --notify needs-you,failed")]
pub(crate) struct PolicyArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Pause the agent after this long idle, or `never`; the next message wakes it
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) idle: Option<TimeoutChange>,
    /// End the session for good after this long, or `never`
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) ttl: Option<TimeoutChange>,
    /// Archive the session after this long at rest, or `never`
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) archive_after: Option<TimeoutChange>,
    /// Reaction of the queue to a turn whose outcome is unknown
    #[arg(long, value_name = "ACTION", value_enum)]
    pub(crate) on_unknown: Option<OnUnknownArg>,
    /// Reaction of the queue to a turn that failed because of the model: usage limit, overload or login
    #[arg(long, value_name = "ACTION", value_enum)]
    pub(crate) on_failed: Option<OnFailedArg>,
    /// Notifications while no client watches: needs-you, finished, failed (separated by commas), none, or
    /// `config` for the setting of the config file
    #[arg(long, value_name = "OCCASIONS", value_parser = occasions_or_config)]
    pub(crate) notify: Option<berth_core::NotificationPolicy>,
    /// Print an object
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
pub(crate) struct RenameArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The new name
    pub(crate) name: Option<String>,
}

/// Tags, note and archiving of a new session.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct SessionLabelArgs {
    /// Tag the session (several: --tag a,b)
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
    /// Write a note about the session
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Archive the session after this long at rest, or `never` [default: `policy.archive_after` of the config]
    #[arg(long, value_name = "TIME", value_parser = term)]
    pub(crate) archive_after: Option<TimeoutChange>,
}

/// Parses a time, or `never`.
pub(super) fn term(text: &str) -> Result<TimeoutChange, String> {
    if text == "never" {
        return Ok(TimeoutChange::Never);
    }
    let time = parse_duration(text).map_err(|why| format!("{why}; or `never`"))?;
    Ok(TimeoutChange::After(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

/// Parses occasions, `none`, or `config` for the setting of the config file.
fn occasions_or_config(text: &str) -> Result<berth_core::NotificationPolicy, String> {
    match text {
        CONFIGURED => Ok(berth_core::NotificationPolicy::AsConfigured),
        _ => occasions(text).map_err(|why| format!("{why}; or {CONFIGURED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_a_time_or_never() {
        assert_eq!(term("never"), Ok(TimeoutChange::Never));
        assert_eq!(term("7d"), Ok(TimeoutChange::After(7 * 24 * 3600 * 1000)));
        for bad in ["", "no", "Never ", "-1d"] {
            assert!(term(bad).is_err(), "{bad} was taken for a time");
        }
    }
}

/// List the saved copies of a session's transcript.
///
/// One copy is made at the end of each turn. The copies stay when the agent deletes its file or the file is damaged.
/// `[history]` in the config file turns copies on or off and limits their size.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth history fix
  berth restore fix --history            put the last one back")]
pub(crate) struct HistoryArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}
