//! What agents type.

use std::path::PathBuf;

/// Take what an agent tells through its hooks. Agents call this; people do not have to.
///
/// The event is read as JSON from standard input, or is the last argument (`notify` of Codex). It ends with 0 whatever
/// happens. A prompt is held up only where another program writes the same conversation, and BERTH_GUARD (block, warn,
/// off) does not say otherwise. docs/hooks.md says more.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hook claude < event.json
  berth hook codex --home ~/.local/state/berth < event.json")]
pub(crate) struct Hook {
    /// Whose hook it is: claude or codex
    #[arg(value_parser = ["claude", "codex"])]
    pub(crate) agent: String,
    /// The state directory of who set it up
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Their config file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The event, where it is not on standard input
    #[arg(value_name = "JSON")]
    pub(crate) event: Option<String>,
}
