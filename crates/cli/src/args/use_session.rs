//! Arguments of `berth use`.

/// Set or print the current session of this terminal.
///
/// A command that names no session uses the current one, and `@` stands for it. The current session belongs to this
/// terminal alone: no other window, no script and no agent sees it or changes it. `run`, `attach` and `resume`
/// make their session the current one, if they are typed at a terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth use fix          now `berth show` and `berth send @ TEXT` mean fix
  berth use              prints the current session
  berth use --none       forgets it

Off a terminal no session is current: scripts name one, or set BERTH_SESSION.")]
pub(crate) struct UseArgs {
    /// The session [default: print the current one]
    #[arg(value_name = "S", conflicts_with = "none")]
    pub(crate) session: Option<String>,
    /// Forget the current session of this terminal
    #[arg(long)]
    pub(crate) none: bool,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}
