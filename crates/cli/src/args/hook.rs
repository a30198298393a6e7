//! Arguments of `berth hook`, which agents call.

use std::path::PathBuf;

/// Record an event that an agent reports through its hooks. Agents call this; people do not have to.
///
/// The event is read as JSON from standard input, or is the last argument (`notify` of Codex). The exit code is always
/// 0. A prompt is blocked only if another program writes the same conversation, and BERTH_GUARD (block, warn, off) does
/// not say otherwise. docs/hooks.md says more.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hook claude < event.json
  berth hook codex --home ~/.local/state/berth < event.json")]
pub(crate) struct HookArgs {
    /// The agent that calls the hook: claude or codex
    #[arg(value_parser = ["claude", "codex"])]
    pub(crate) agent: String,
    /// The state directory of the account that set the hook up
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// The config file of that account
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The event, if it is not on standard input
    #[arg(value_name = "JSON")]
    pub(crate) event: Option<String>,
}
