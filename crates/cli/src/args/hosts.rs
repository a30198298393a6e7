//! Arguments of `berth hosts` and `berth proxy`.

use clap::Subcommand;

/// Manage other hosts, reached over ssh.
///
/// `berth --host HOST` before a command runs the command there: `berth --host box attach fix`. HOST is a host that was
/// added here, or any name that ssh understands (`user@box`, a Host of ~/.ssh/config). berth has to be installed there;
/// no server has to listen. `berth ls --hosts` lists the sessions of all hosts; for a host that is away it shows the
/// last known state, with its age. A session that the list calls `box:fix` has that name in every command:
/// `berth attach box:fix`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts add me@box --name box
  berth hosts
  berth ls --hosts
  berth --host box attach fix
  berth send box:fix 'and now the tests' --wait")]
pub(crate) struct HostsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<HostsVerb>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HostsVerb {
    Add(HostsAddArgs),
    Ls(HostsLsArgs),
    Rm(HostsRmArgs),
}

/// Add a host, after a check that it answers.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts add me@box
  berth hosts add ssh://me@box:2222 --name lab --berth /opt/berth/bin/berth")]
pub(crate) struct HostsAddArgs {
    /// The host, as ssh knows it: a name, USER@HOST or an ssh:// address
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Name of the host in berth [default: the host in TARGET]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Path of the berth program on that host [default: berth]
    #[arg(long, value_name = "PATH")]
    pub(crate) berth: Option<String>,
    /// Replace a host of the same name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Add the host without a check
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the hosts, with state, version and number of sessions.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Examples:
  berth hosts ls
  berth hosts ls --json | jq -r '.[] | select(.away) | .name'")]
pub(crate) struct HostsLsArgs {
    /// Print an array of objects, with the sessions of each host
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove a host from the list. Nothing on it is touched.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts rm box")]
pub(crate) struct HostsRmArgs {
    /// Name of the host
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Serve the gateway's API on stdio, for `berth --host`.
///
/// `berth --host` and the gateway start this over ssh; people seldom do. The process serves one connection and ends
/// with it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  printf 'GET /v1/sessions HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | berth proxy")]
pub(crate) struct ProxyArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ProxyVerb>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ProxyVerb {
    /// Run a command for a caller on another host
    #[command(hide = true)]
    Exec {
        /// Version of the calling berth
        #[arg(long, value_name = "VERSION")]
        from: String,
        /// Name of this host on the calling host
        #[arg(long, value_name = "HOST")]
        called: Option<String>,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        words: Vec<std::ffi::OsString>,
    },
}
