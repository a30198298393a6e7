//! What can be typed after `berth notify`.

use berth_core::Occasion;
use clap::Subcommand;

/// Test notifications, and show those that were sent.
///
/// A notification says that a session needs you, finished or failed, while no client is attached to it, follows its
/// turn or watches it. `[notify]` in the config file says how and when; `berth run --notify` says it for one session.
/// Nothing is set up by default.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth notify test                        every way that is set up
  berth notify test --channel webhook fix  as if fix had something to say
  berth notify log                         what was told, and what failed
  berth notify log --json | jq 'map(select(.outcome == \"failed\"))'

docs/notifications.md has recipes: ntfy, Telegram, and a webhook of your own.")]
pub(crate) struct Notify {
    #[command(subcommand)]
    pub(crate) verb: NotifyVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum NotifyVerb {
    Test(NotifyTest),
    Log(NotifyLog),
}

/// Send a real notification in every way that is set up, and print the results.
///
/// Exit 1 if one failed, or if there is none.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth notify test
  berth notify test --channel desktop
  berth notify test --json fix | jq -r '.[] | .detail'")]
pub(crate) struct NotifyTest {
    /// Only in this way: terminal, desktop, command, webhook or webhook.NAME
    #[arg(long, value_name = "C")]
    pub(crate) channel: Option<String>,
    /// As if it were about this session
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// An array of objects
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
pub(crate) struct NotifyLog {
    /// How many of the last ones; 0 for all there are
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
    /// An array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// The word for what the config file says.
pub(crate) const CONFIGURED: &str = "config";

/// Occasions with commas between, or `none`.
pub(crate) fn occasions(text: &str) -> Result<berth_core::Notify, String> {
    if text == "none" {
        return Ok(berth_core::Notify::Only(vec![]));
    }
    let named = |word: &str| {
        Occasion::named(word)
            .ok_or_else(|| format!("`{word}` is not one of needs-you, finished, failed, none"))
    };
    let mut found = text.split(',').map(str::trim).map(named).collect::<Result<Vec<_>, _>>()?;
    found.sort();
    found.dedup();
    Ok(berth_core::Notify::Only(found))
}
