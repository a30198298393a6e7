//! Arguments of `berth show`, `why`, `ps` and `log`, which only read.

/// Show the details of a session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth show fix
  berth show fix --json | jq -r .state")]
pub(crate) struct ShowArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain the state of a session, or the owner of a process.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth why fix
  berth why --pid 4711      its owner, and when it would be ended")]
pub(crate) struct WhyArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S", conflicts_with = "pid")]
    pub(crate) session: Option<String>,
    /// Explain the owner of this process instead
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the processes of sessions, with memory and ports.
///
/// The keeper is on top, with its processes below. Memory is each process's share, so the sum is the memory of the
/// session. Secrets on command lines are shown as ***. --port shows the owner of a port: exit 3 if no process listens
/// there.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth ps                                       every running session
  berth ps --port 3000                           the owner of port 3000
  berth ps fix --json | jq '.[0].memory_bytes'")]
pub(crate) struct PsArgs {
    /// The session [default: all running sessions]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Show the process that listens on this port, of berth or not
    #[arg(long, value_name = "N", conflicts_with = "session", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a session's events: its journal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth log fix
  berth log fix --follow --json | jq -r .event
  berth log fix --head > fix.head                    keep this out of reach
  berth log fix --verify \"$(berth log fix --head)\"   exit 0: nothing was changed")]
pub(crate) struct LogArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Follow new events until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print one object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin at the event with this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: u64,
    /// Print number and hash of the last event (the head); the hash covers the whole journal up to that event
    #[arg(long, conflicts_with_all = ["follow", "from"])]
    pub(crate) head: bool,
    /// Check that the journal is unchanged up to this head; with several heads, find where it changed
    #[arg(long, value_name = "HEAD", conflicts_with_all = ["follow", "from", "head"])]
    pub(crate) verify: Vec<String>,
}
