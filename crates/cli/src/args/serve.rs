//! Arguments of `berth serve` and `berth openapi`.

use std::path::PathBuf;

use berth_gateway::{InheritedListeners, TcpAddress};
use clap::ValueEnum;

/// Serve sessions to browsers, bots and other machines.
///
/// The gateway listens on a socket in the state directory, and on TCP only at the addresses of --listen. It holds no
/// session state: end it or kill it at any time, and nothing is lost. It prints one line for each address, and at a
/// terminal a link that logs a browser in; `berth link` prints one anywhere. There is one gateway for each state
/// directory: a second one prints the address of the first and exits with 4. SIGTERM ends the gateway, SIGHUP makes it read the
/// certificate again. The config file has a key for each option: `berth config --explain serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth serve
  berth serve --listen 127.0.0.1:7070
  berth serve --listen :7070 --log-format text
  berth serve --listen 0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem")]
pub(crate) struct ServeArgs {
    /// Also listen on this address: `127.0.0.1:7070`; `:7070` and `localhost:7070` are loopback; port 0 picks a free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<TcpAddress>,
    /// The certificate for network addresses (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen without TLS on network addresses as well, where others could read all traffic
    #[arg(long)]
    pub(crate) insecure_http: bool,
    /// Accept requests for this host name, in addition to the addresses
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Serve /metrics without a token
    #[arg(long)]
    pub(crate) open_metrics: bool,
    /// Log each request to standard error, in one line
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatArg>,
    /// Print the addresses as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Descriptors and number of restarts that this process inherits from its earlier program image
    #[arg(long, hide = true, value_name = "NUMBERS")]
    pub(crate) inherit: Option<InheritedListeners>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// No log
    None,
    /// Text, for people
    Text,
    /// JSON, for programs: one object per request
    Json,
}

/// Print the description of the HTTP API (OpenAPI 3.1).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth openapi > openapi.json
  berth openapi | jq '.paths | keys'")]
pub(crate) struct OpenApiArgs {}
