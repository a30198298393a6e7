//! What can be typed about other hosts.

use clap::Subcommand;

/// Manage other hosts, reached over ssh.
///
/// `berth --host HOST` before a command runs it there: `berth --host box attach fix`. HOST is one that was added here,
/// or whatever ssh understands (`user@box`, a Host of ~/.ssh/config). berth has to be there, too; nothing has to
/// listen. `berth ls --hosts` is one list over all of them; a host that is away is shown with the age of what is known.
/// What is called `box:fix` there can be named so everywhere: `berth attach box:fix`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts add me@box --name box
  berth hosts
  berth ls --hosts
  berth --host box attach fix
  berth send box:fix 'and now the tests' --wait")]
pub(crate) struct Hosts {
    #[command(subcommand)]
    pub(crate) verb: Option<HostsVerb>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HostsVerb {
    Add(HostsAdd),
    Ls(HostsLs),
    Rm(HostsRm),
}

/// Add a host; it is asked first whether it answers.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts add me@box
  berth hosts add ssh://me@box:2222 --name lab --berth /opt/berth/bin/berth")]
pub(crate) struct HostsAdd {
    /// What ssh calls it
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// What you call it [default: the host in TARGET]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What berth is called there [default: berth]
    #[arg(long, value_name = "PATH")]
    pub(crate) berth: Option<String>,
    /// Take the place of one of the same name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Do not ask it
    #[arg(long)]
    pub(crate) no_check: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the hosts: which answer, their versions, how many sessions.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Examples:
  berth hosts ls
  berth hosts ls --json | jq -r '.[] | select(.away) | .name'")]
pub(crate) struct HostsLs {
    /// An array of objects, with the sessions of each
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove a host from the list. Nothing on it is touched.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth hosts rm box")]
pub(crate) struct HostsRm {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Serve the gateway's API on stdio, for `berth --host`.
///
/// `berth --host` and the gateway start it over ssh; people seldom do. It serves one connection and ends with it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  printf 'GET /v1/sessions HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | berth proxy")]
pub(crate) struct Proxy {
    #[command(subcommand)]
    pub(crate) verb: Option<ProxyVerb>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ProxyVerb {
    /// Run a command for a caller on another host
    #[command(hide = true)]
    Exec {
        /// Their version
        #[arg(long, value_name = "VERSION")]
        from: String,
        /// What they call this host
        #[arg(long, value_name = "HOST")]
        called: Option<String>,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        words: Vec<std::ffi::OsString>,
    },
}
