//! What can be typed after `berth helper`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::helper::ReadyWhen;
use clap::{Subcommand, ValueEnum};

use super::{Log, Output, duration};

/// Share a process between sessions: a broker, an MCP server, a dev server, a browser.
///
/// A helper is started once, by the first session that asks for it, and stopped when the last session
/// that owns it has released it, ended or died.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
NAME is a helper's name, or its id. The helper of this directory comes first, then the one of the
whole account, then the only one of that name.

Examples:
  berth helper ensure web --ready tcp:3000 -- npm run dev    inside a session
  berth helper ensure broker --owner fix --ready unix:broker.sock -- ./broker
  berth helper release web                                   as its end hook
  berth helper ls")]
pub(crate) struct Helper {
    #[command(subcommand)]
    pub(crate) verb: HelperVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HelperVerb {
    Ensure(Ensure),
    Release(Release),
    Ls(HelperLs),
    Show(HelperShow),
    Stop(HelperStop),
    /// Print a helper's events: its journal.
    #[command(mut_arg("session", |arg| arg.value_name("NAME").help("The helper").required(true)))]
    Log(Log),
    /// Print a helper's raw output, from the beginning or from an offset.
    #[command(mut_arg("session", |arg| arg.value_name("NAME").help("The helper").required(true)))]
    Output(Output),
}

/// Make a session own a helper, and start it if it does not run.
///
/// Prints where the helper is reached (`tcp:127.0.0.1:3000`, `unix:/path`), or `running` if it has no address, alone on
/// a line, once it is ready. Exit 0 means: it is up, and this session owns it. One that is being stopped is waited for
/// and started anew. If it runs with another command this is refused.
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
  unix:PATH    the same for a socket (relative to the helper's directory)
  line:REGEX   a line of its output, without colours, has a match
Without --ready it is ready as soon as it runs.")]
pub(crate) struct Ensure {
    /// The helper
    pub(crate) name: String,
    /// The session that owns it; must be running
    #[arg(long, value_name = "S", env = "BERTH_SESSION")]
    pub(crate) owner: Option<String>,
    /// Who shares it: callers in this directory, or all of the account
    #[arg(long, value_enum, default_value_t = ScopeArg::Dir)]
    pub(crate) scope: ScopeArg,
    /// How long it stays when its last owner has left [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle: Option<Duration>,
    /// What makes it ready: tcp:PORT, unix:PATH or line:REGEX
    #[arg(long, value_name = "SIGN", value_parser = ready)]
    pub(crate) ready: Option<ReadyWhen>,
    /// How long it may take to get ready. The caller that starts it sets when it is ended; a later caller only how long
    /// to wait: then this ends with exit 6, and the helper goes on
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) ready_timeout: Duration,
    /// The session wants it also between its turns. (Recorded and shown. A session whose agent is paused owns nothing:
    /// let the helper linger with --idle for longer than that. It never outlives its last owner otherwise)
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where to run it, and, with --scope dir, which directory it is of [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Print what `helper show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// End a session's ownership of a helper.
///
/// The last one out stops it, after its --idle time. Returns as soon as that is recorded, and does not
/// wait for the helper's end. Releasing twice is fine; releasing what the session never owned is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper release web              inside the session that owns it
  berth helper release web --owner fix")]
pub(crate) struct Release {
    /// The helper
    pub(crate) name: String,
    /// The session that owned it
    #[arg(long, value_name = "S", env = "BERTH_SESSION")]
    pub(crate) owner: Option<String>,
    /// Print what `helper show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the helpers that are up, and who owns them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "\
Examples:
  berth helper ls
  berth helper ls --all --json | jq -r '.[].name'",
    alias = "list"
)]
pub(crate) struct HelperLs {
    /// Also those that are stopped
    #[arg(short, long)]
    pub(crate) all: bool,
    /// An array of objects, as `helper show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the details of a helper, and its last output.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper show web
  berth helper show web --json | jq -r .helper.address")]
pub(crate) struct HelperShow {
    /// The helper
    pub(crate) name: String,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Stop helpers with all their owners, and wait for their end.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth helper stop web")]
pub(crate) struct HelperStop {
    /// The helpers
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// How long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Print what `helper show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Callers in this directory
    Dir,
    /// All callers of the account
    User,
}

fn ready(text: &str) -> Result<ReadyWhen, String> {
    let ready = ReadyWhen::parse(text).ok_or("it is tcp:PORT, unix:PATH or line:REGEX")?;
    if let ReadyWhen::Line(pattern) = &ready {
        berth_keeper::helpers::pattern(pattern).map_err(|error| error.to_string())?;
    }
    Ok(ready)
}
