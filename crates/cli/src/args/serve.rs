//! What can be typed about the gateway.

use std::net::SocketAddr;

/// Open sessions to browsers, bots, back ends and other machines.
///
/// Listens on a socket in the state directory; on TCP only where --listen says. It holds no session state: end it
/// or kill it at any time, and nothing is lost. Prints one line for each address it listens on.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth serve
  berth serve --listen 127.0.0.1:7070")]
pub(crate) struct Serve {
    /// Listen on this address, too
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Answer to this name as well, as in berth.example.com
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
}

/// Print the description of the HTTP API (OpenAPI 3.1).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth openapi > openapi.json
  berth openapi | jq '.paths | keys'")]
pub(crate) struct OpenApi {}
