//! What can be typed about who may use the gateway.

use std::time::Duration;

use berth_api::Scope;
use berth_api::life::Term;
use clap::Subcommand;
use clap::builder::TypedValueParser;

/// Manage the tokens of the gateway.
///
/// Every client that comes over the network needs a token, from this machine too; you yourself need none at the socket
/// of `berth serve`. Only a hash of it is stored. docs/gateway.md tells what each scope may do.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token new --scope read --name grafana
  berth token ls
  berth token revoke grafana")]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) verb: TokenVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TokenVerb {
    New(TokenNew),
    Ls(TokenLs),
    Revoke(TokenRevoke),
}

/// Make a token, and print it alone. It is not shown again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token new --scope send --name ci --expires 30d
  berth token new --scope read --name guest --session fix
  berth token new --scope read --name grafana --expires never
  TOKEN=$(berth token new --scope control --name bot)")]
pub(crate) struct TokenNew {
    /// The scope; each includes the ones before it: read, send, control, admin
    #[arg(long, value_name = "S", value_parser = scope(), hide_possible_values = true)]
    pub(crate) scope: Scope,
    /// What to call it; no two have the same name
    #[arg(long, value_name = "N")]
    pub(crate) name: String,
    /// After how long it ends, as in 12h or 30d, or `never`
    #[arg(long, value_name = "TIME", value_parser = super::life::term, default_value = "90d")]
    pub(crate) expires: Term,
    /// Only for this session; may be given more than once [default: all]. It does not confine `control` and `admin`,
    /// which start commands with your account: those need --yes
    #[arg(long = "session", value_name = "S")]
    pub(crate) only: Vec<String>,
    /// Make a token of the scope `control` or `admin` although --session does not confine it
    #[arg(long, requires = "only")]
    pub(crate) yes: bool,
    /// Print an object with the token (`secret`) and what is known of it
    #[arg(long)]
    pub(crate) json: bool,
}

/// List tokens, logged-in browsers and unused links.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token ls
  berth token ls --json | jq -r '.[] | select(.expired) | .name'")]
pub(crate) struct TokenLs {
    /// An array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take a token back, with everything that was made with it.
///
/// It counts at once; what was opened with it, an event stream or a terminal, ends within a second.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth token revoke grafana
  berth token revoke --json grafana | jq -r '.[].id'")]
pub(crate) struct TokenRevoke {
    /// Its name or its id, as `berth token ls` shows them
    #[arg(value_name = "NAME|ID")]
    pub(crate) handle: String,
    /// An array of what is gone
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a link that logs in one browser, once.
///
/// It works one time, and not for long. A browser that is logged in stays so for a week; `berth token ls` lists it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth link                               for the gateway that runs here
  berth link --scope read --session fix --expires 1h
  berth link --base https://berth.example.com")]
pub(crate) struct Link {
    /// The scope of the link: read, send, control, admin
    #[arg(long, value_name = "S", value_parser = scope(), default_value = "control", hide_possible_values = true)]
    pub(crate) scope: Scope,
    /// How long the link works, at most 24h
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "10m")]
    pub(crate) expires: Duration,
    /// Only for this session; may be given more than once [default: all]. It does not confine `control` and `admin`,
    /// which start commands with your account: those need --yes
    #[arg(long = "session", value_name = "S")]
    pub(crate) only: Vec<String>,
    /// Make a link of the scope `control` or `admin` although --session does not confine it
    #[arg(long, requires = "only")]
    pub(crate) yes: bool,
    /// Where browsers find the gateway [default: where it listens]
    #[arg(long, value_name = "URL", value_parser = berth_verbs::links::parse_base)]
    pub(crate) base: Option<String>,
    /// Draw the address as a QR code for a camera [default: at a terminal that is large enough, if
    /// other devices can reach the address]
    #[arg(long, overrides_with = "no_qr", conflicts_with = "json")]
    pub(crate) qr: bool,
    /// Print the address only
    #[arg(long, overrides_with = "qr")]
    pub(crate) no_qr: bool,
    /// Print an object with the address (`url`) and what is known of it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the audit log: use of tokens, answers and take-overs.
///
/// Tokens made, used, refused and revoked; answers; take-overs. The log is kept in files of limited size in the state
/// directory, so the oldest lines are forgotten. docs/audit.md says what each line means.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth audit
  berth audit --since 1h -n 20
  berth audit --json | jq -r 'select(.event == \"token-refused\") | .by'")]
pub(crate) struct Audit {
    /// At most so many lines, the last ones
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub(crate) lines: usize,
    /// Only what happened in this time, as in 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = super::duration)]
    pub(crate) since: Option<Duration>,
    /// One object a line
    #[arg(long)]
    pub(crate) json: bool,
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    clap::builder::PossibleValuesParser::new(Scope::ALL.map(Scope::word))
        .try_map(|text| Scope::named(&text).ok_or("no such scope"))
}
