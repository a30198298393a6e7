//! What can be typed after `berth agents`.

use std::time::Duration;

use super::duration;

/// List the known agents, with version and path.
///
/// The built-in ones, with what the config file adds and changes. Each program that is there is asked for
/// its version, all at the same time. With a name, everything about that one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The config file is $BERTH_CONFIG, else $XDG_CONFIG_HOME/berth/config.toml, else ~/.config/berth/config.toml.

Examples:
  berth agents
  berth agents gemini             how to install it, start it, resume it
  berth agents --json | jq -r '.[] | select(.installed) | .name'")]
pub(crate) struct Agents {
    /// Only this one, in full
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How long a program may take to say its version
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// An array of objects; with a name, one object
    #[arg(long)]
    pub(crate) json: bool,
}
