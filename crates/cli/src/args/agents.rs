//! Arguments of `berth agents`.

use std::time::Duration;

use super::parse_duration;

/// List the known agents, with version and path.
///
/// Lists the built-in agents, with the additions and changes of the config file. Every installed program is asked
/// for its version, all at the same time. With NAME, prints all that is known about that agent.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The config file is $BERTH_CONFIG, else $XDG_CONFIG_HOME/berth/config.toml, else ~/.config/berth/config.toml.

Examples:
  berth agents
  berth agents gemini             how to install it, start it, resume it
  berth agents --json | jq -r '.[] | select(.installed) | .name'")]
pub(crate) struct AgentsArgs {
    /// Show only this agent, in full
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Longest wait for a program to print its version
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print an array of objects; with NAME, one object
    #[arg(long)]
    pub(crate) json: bool,
}
