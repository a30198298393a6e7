//! Arguments of `berth notify`, and the syntax of `--notify`.

use berth_core::NotificationKind;
use clap::Subcommand;

/// Test notifications, and show the ones that were sent.
///
/// A notification says that a session needs you, finished or failed, while no client is attached to it, follows its
/// turn or watches it. `[notify]` in the config file says how and when; `berth run --notify` chooses the occasions for
/// one session. Nothing is set up by default.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth notify test                        every channel that is set up
  berth notify test --channel webhook fix  as if it were about the session fix
  berth notify log                         notifications sent and failed
  berth notify log --json | jq 'map(select(.outcome == \"failed\"))'

docs/notifications.md has recipes: ntfy, Telegram, and a webhook of your own.")]
pub(crate) struct NotifyArgs {
    #[command(subcommand)]
    pub(crate) verb: NotifyVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum NotifyVerb {
    Test(NotifyTestArgs),
    Log(NotifyLogArgs),
}

/// Send a real notification through every channel that is set up, and print the results.
///
/// Exit 1 if a channel failed, or if no channel is set up.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth notify test
  berth notify test --channel desktop
  berth notify test --json fix | jq -r '.[] | .detail'")]
pub(crate) struct NotifyTestArgs {
    /// Use only this channel: terminal, desktop, command, webhook or webhook.NAME
    #[arg(long, value_name = "C")]
    pub(crate) channel: Option<String>,
    /// Send the notification as if it were about this session
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the notifications that were sent or failed, the newest last.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth notify log
  berth notify log --last 3
  berth notify log --json | jq -r '.[] | .detail'")]
pub(crate) struct NotifyLogArgs {
    /// Show the last N; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// The word that stands for the setting of the config file.
pub(crate) const CONFIGURED: &str = "config";

/// Parses occasions separated by commas, or `none`.
pub(crate) fn occasions(text: &str) -> Result<berth_core::NotificationPolicy, String> {
    if text == "none" {
        return Ok(berth_core::NotificationPolicy::Only(vec![]));
    }
    let named = |word: &str| {
        NotificationKind::named(word)
            .ok_or_else(|| format!("`{word}` is not one of needs-you, finished, failed, none"))
    };
    let mut found = text.split(',').map(str::trim).map(named).collect::<Result<Vec<_>, _>>()?;
    found.sort();
    found.dedup();
    Ok(berth_core::NotificationPolicy::Only(found))
}
