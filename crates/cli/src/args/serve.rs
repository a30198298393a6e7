//! What can be typed about the gateway.

use std::path::PathBuf;

use berth_gateway::{Address, Inherited};
use clap::ValueEnum;

/// Serve sessions to browsers, bots and other machines.
///
/// Listens on a socket in the state directory; on TCP only where --listen says. It holds no session state: end it
/// or kill it at any time, and nothing is lost. Prints one line for each address it listens on. There is one gateway
/// for each state directory: a second one says who is first, and ends with 4. SIGTERM ends it, SIGHUP reads the
/// certificate again. Each option can be in the config, too: `berth config --explain serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth serve
  berth serve --listen 127.0.0.1:7070
  berth serve --listen :7070 --log-format text
  berth serve --listen 0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem")]
pub(crate) struct Serve {
    /// Listen on this address, too: `127.0.0.1:7070`; `:7070` and `localhost:7070` are loopback; port 0 is any
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Address>,
    /// The certificate for network addresses (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen without TLS also where others could read along
    #[arg(long)]
    pub(crate) insecure_http: bool,
    /// A name under which clients may know it, besides its addresses
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Serve /metrics without a token
    #[arg(long)]
    pub(crate) open_metrics: bool,
    /// Tell of each request on standard error, in one line
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Print what it listens on as JSON, one line each
    #[arg(long)]
    pub(crate) json: bool,
    /// What an earlier image of this process left to this one
    #[arg(long, hide = true, value_name = "NUMBERS")]
    pub(crate) inherit: Option<Inherited>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// Not at all
    None,
    /// For people
    Text,
    /// For programs: one object each
    Json,
}

/// Print the description of the HTTP API (OpenAPI 3.1).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth openapi > openapi.json
  berth openapi | jq '.paths | keys'")]
pub(crate) struct OpenApi {}
