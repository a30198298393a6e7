//! Arguments of `berth token`, `link` and `audit`: access to the gateway.

use std::time::Duration;

use berth_api::AccessScope;
use berth_api::policy_change::TimeoutChange;
use clap::Subcommand;
use clap::builder::TypedValueParser;

/// Manage the tokens of the gateway.
///
/// Every client that connects over the network needs a token, also from this machine; your own account needs no token
/// at the socket of `berth serve`. Only a hash of a token is stored. docs/gateway.md says what each scope may do.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token new --scope read --name grafana
  berth token ls
  berth token revoke grafana")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) verb: TokenVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TokenVerb {
    New(TokenNewArgs),
    Ls(TokenLsArgs),
    Revoke(TokenRevokeArgs),
}

/// Make a token, and print it. A token is not shown again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token new --scope send --name ci --expires 30d
  berth token new --scope read --name guest --session fix
  berth token new --scope read --name grafana --expires never
  TOKEN=$(berth token new --scope control --name bot)")]
pub(crate) struct TokenNewArgs {
    /// The scope; each includes the ones before it: read, send, control, admin
    #[arg(long, value_name = "S", value_parser = scope(), hide_possible_values = true)]
    pub(crate) scope: AccessScope,
    /// Name of the token, which no other token has
    #[arg(long, value_name = "N")]
    pub(crate) name: String,
    /// Lifetime of the token, as in 12h or 30d, or `never`
    #[arg(long, value_name = "TIME", value_parser = super::lifecycle::term, default_value = "90d")]
    pub(crate) expires: TimeoutChange,
    /// Only for this session; may be given more than once [default: all]. A list does not limit `control`
    /// and `admin`, which can start any command; with these scopes --session needs --yes
    #[arg(long = "session", value_name = "S")]
    pub(crate) only: Vec<String>,
    /// Make a token of the scope `control` or `admin` although --session does not confine it
    #[arg(long, requires = "only")]
    pub(crate) yes: bool,
    /// Print an object with the token (`secret`) and its properties
    #[arg(long)]
    pub(crate) json: bool,
}

/// List tokens, logged-in browsers and unused links.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token ls
  berth token ls --json | jq -r '.[] | select(.expired) | .name'")]
pub(crate) struct TokenLsArgs {
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Revoke a token, with every token, link and login that was made with it.
///
/// The token is rejected at once; event streams and terminals that were opened with it end within a second.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token revoke grafana
  berth token revoke --json grafana | jq -r '.[].id'")]
pub(crate) struct TokenRevokeArgs {
    /// Name or id of the token, as `berth token ls` shows them
    #[arg(value_name = "NAME|ID")]
    pub(crate) handle: String,
    /// Print an array of the revoked tokens
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a link that logs in one browser, once.
///
/// The link works once, within the time of --expires. A browser stays logged in for a week; `berth token ls` lists it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth link                               for the gateway that runs here
  berth link --scope read --session fix --expires 1h
  berth link --base https://berth.example.com")]
pub(crate) struct LinkArgs {
    /// The scope of the link: read, send, control, admin
    #[arg(long, value_name = "S", value_parser = scope(), default_value = "control", hide_possible_values = true)]
    pub(crate) scope: AccessScope,
    /// How long the link works, at most 24h
    #[arg(long, value_name = "TIME", value_parser = super::parse_duration, default_value = "10m")]
    pub(crate) expires: Duration,
    /// Only for this session; may be given more than once [default: all]. A list does not limit `control`
    /// and `admin`, which can start any command; with these scopes --session needs --yes
    #[arg(long = "session", value_name = "S")]
    pub(crate) only: Vec<String>,
    /// Make a link of the scope `control` or `admin` although --session does not confine it
    #[arg(long, requires = "only")]
    pub(crate) yes: bool,
    /// Address at which browsers reach the gateway [default: the address it listens on]
    #[arg(long, value_name = "URL", value_parser = berth_verbs::gateway_urls::parse_base)]
    pub(crate) base: Option<String>,
    /// Draw the address as a QR code for a camera [default: at a terminal that is large enough, if
    /// other devices can reach the address]
    #[arg(long, overrides_with = "no_qr", conflicts_with = "json")]
    pub(crate) qr: bool,
    /// Print the address only
    #[arg(long, overrides_with = "qr")]
    pub(crate) no_qr: bool,
    /// Print an object with the address (`url`) and its properties
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the audit log: use of tokens, answers and take-overs.
///
/// The log has tokens made, used, refused and revoked; answers; take-overs. Its files in the state directory have a
/// size limit, so the oldest lines are dropped. docs/audit.md says what each line means.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth audit
  berth audit --since 1h -n 20
  berth audit --json | jq -r 'select(.event == \"token-refused\") | .by'")]
pub(crate) struct AuditArgs {
    /// Print at most N lines, the last ones
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub(crate) lines: usize,
    /// Only lines of this last period, as in 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = super::parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Print one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

fn scope() -> impl TypedValueParser<Value = AccessScope> {
    clap::builder::PossibleValuesParser::new(AccessScope::ALL.map(AccessScope::word))
        .try_map(|text| AccessScope::named(&text).ok_or("no such scope"))
}
