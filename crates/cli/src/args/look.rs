//! What can be typed to look at sessions: what is known of one, why, its processes, what happened.

/// Show the details of a session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth show fix
  berth show fix --json | jq -r .state")]
pub(crate) struct Show {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain the state of a session, or the owner of a process.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth why fix
  berth why --pid 4711      whose is it, and what would happen to it")]
pub(crate) struct Why {
    /// The session [default: the current one]
    #[arg(value_name = "S", conflicts_with = "pid")]
    pub(crate) session: Option<String>,
    /// A process instead
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the processes of sessions, with memory and ports.
///
/// The keeper is on top, what it keeps below it. Memory is each process's share, so the sum is what the session costs.
/// Secrets on command lines are shown as ***. With --port, whose port that is: exit 3 if no process listens there.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth ps                                       every session that runs
  berth ps --port 3000                           who has port 3000
  berth ps fix --json | jq '.[0].memory_bytes'")]
pub(crate) struct Ps {
    /// The session [default: all that run]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Who listens on this port, of berth or not
    #[arg(long, value_name = "N", conflicts_with = "session", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// An array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a session's events: its journal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth log fix
  berth log fix --follow --json | jq -r .event
  berth log fix --head > fix.head                    keep it out of reach
  berth log fix --verify \"$(berth log fix --head)\"   exit 0: nothing was changed")]
pub(crate) struct Log {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin at this event
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: u64,
    /// Print number and hash of the last event: the hash stands for the whole journal up to it
    #[arg(long, conflicts_with_all = ["follow", "from"])]
    pub(crate) head: bool,
    /// Check that the journal up to this head is what it was; several narrow down where it is not
    #[arg(long, value_name = "HEAD", conflicts_with_all = ["follow", "from", "head"])]
    pub(crate) verify: Vec<String>,
}
