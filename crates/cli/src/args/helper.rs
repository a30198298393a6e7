//! Arguments of `berth helper`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::helper::ReadinessProbe;
use clap::{Subcommand, ValueEnum};

use super::{LogArgs, OutputArgs, parse_duration};

/// Share a process between sessions: a broker, an MCP server, a dev server, a browser.
///
/// A helper is started once, by the first session that asks for it, and stopped when its last owner has
/// released it, ended or died.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
NAME is a helper's name, or its id. For a name, berth first looks for a helper of this directory, then
for one of the whole account, then for the only helper with that name.

Examples:
  berth helper ensure web --ready tcp:3000 -- npm run dev    inside a session
  berth helper ensure broker --owner fix --ready unix:broker.sock -- ./broker
  berth helper release web                                   as an end hook
  berth helper ls")]
pub(crate) struct HelperArgs {
    #[command(subcommand)]
    pub(crate) verb: HelperVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HelperVerb {
    Ensure(HelperEnsureArgs),
    Release(HelperReleaseArgs),
    Ls(HelperLsArgs),
    Show(HelperShowArgs),
    Stop(HelperStopArgs),
    /// Print a helper's events: its journal.
    #[command(mut_arg("session", |arg| arg.value_name("NAME").help("The helper").required(true)))]
    Log(LogArgs),
    /// Print a helper's raw output, from the beginning or from an offset.
    #[command(mut_arg("session", |arg| arg.value_name("NAME").help("The helper").required(true)))]
    Output(OutputArgs),
}

/// Make a session own a helper, and start it if it does not run.
///
/// Prints the helper's address (`tcp:127.0.0.1:3000`, `unix:/path`), or `running` if it has no address, alone on
/// a line, once the helper is ready. Exit 0 means: the helper is up, and this session owns it. If the helper is being
/// stopped, berth waits for its end and starts it anew. If it runs with another command, this is refused.
///
/// The helper gets the environment of the caller that starts it, and a terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper ensure web --ready tcp:3000 -- npm run dev
  berth helper ensure broker --owner fix --ready unix:broker.sock -- ./broker
  berth helper ensure mcp --scope user -- ./broker
  berth helper ensure browser --ready 'line:listening on' -- ./browser

Ready means, without a connection being made:
  tcp:PORT     a process of the helper listens on that port
  unix:PATH    a process of the helper listens there (relative to its directory)
  line:REGEX   a line of its output, without colours, has a match
Without --ready a helper is ready as soon as it runs.")]
pub(crate) struct HelperEnsureArgs {
    /// The helper
    pub(crate) name: String,
    /// The session that owns the helper; must be running
    #[arg(long, value_name = "S", env = "BERTH_SESSION")]
    pub(crate) owner: Option<String>,
    /// Callers that share the helper: those in this directory, or all of the account
    #[arg(long, value_enum, default_value_t = HelperScopeArg::Dir)]
    pub(crate) scope: HelperScopeArg,
    /// How long the helper stays after its last owner has left [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) idle: Option<Duration>,
    /// Sign that the helper is ready: tcp:PORT, unix:PATH or line:REGEX
    #[arg(long, value_name = "SIGN", value_parser = ready)]
    pub(crate) ready: Option<ReadinessProbe>,
    /// Longest time until the helper is ready. If the caller that starts it gives this, the helper is ended after that
    /// time. For a later caller, only this command ends after that time, with exit 6, and the helper runs on
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) ready_timeout: Duration,
    /// Note that the session needs the helper between its turns as well. (Recorded and shown only. A session whose
    /// agent is paused owns no helper: let it stay with --idle for longer than the pause. Without --idle a helper never
    /// outlives its last owner)
    #[arg(long)]
    pub(crate) keep: bool,
    /// Directory to run the helper in; with --scope dir, also its scope [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Print JSON, as `helper show --json` does
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// End a session's ownership of a helper.
///
/// The release of the last owner stops the helper, after its --idle time. The command returns as soon as the release
/// is recorded, and does not wait for the helper's end. Releasing twice is fine; releasing a helper that the session
/// never owned is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper release web              inside the session that owns it
  berth helper release web --owner fix")]
pub(crate) struct HelperReleaseArgs {
    /// The helper
    pub(crate) name: String,
    /// The session that owns the helper
    #[arg(long, value_name = "S", env = "BERTH_SESSION")]
    pub(crate) owner: Option<String>,
    /// Print JSON, as `helper show --json` does
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the helpers that are up, and their owners.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "\
Examples:
  berth helper ls
  berth helper ls --all --json | jq -r '.[].name'",
    alias = "list"
)]
pub(crate) struct HelperLsArgs {
    /// List stopped helpers as well
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Print an array of objects, as `helper show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the details of a helper, and its last output.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper show web
  berth helper show web --json | jq -r .helper.address")]
pub(crate) struct HelperShowArgs {
    /// The helper
    pub(crate) name: String,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Stop helpers with all their owners, and wait for their end.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper stop web")]
pub(crate) struct HelperStopArgs {
    /// The helpers
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// How long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// Print an array of objects, as `helper show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum HelperScopeArg {
    /// Callers in this directory
    Dir,
    /// All callers of the account
    User,
}

fn ready(text: &str) -> Result<ReadinessProbe, String> {
    let ready = ReadinessProbe::parse(text).ok_or("use tcp:PORT, unix:PATH or line:REGEX")?;
    if let ReadinessProbe::Line(pattern) = &ready {
        berth_verbs::helper::readiness_pattern(pattern).map_err(|error| error.to_string())?;
    }
    Ok(ready)
}
