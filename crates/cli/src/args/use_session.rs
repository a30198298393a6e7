//! What can be typed after `berth use`.

/// Set or print the current session of this terminal.
///
/// The current session is what a command means that names none, and what `@` stands for. It belongs to this
/// terminal alone: no other window, no script and no agent sees it or changes it. `run`, `attach` and `resume`
/// make their session the current one, if they are typed at a terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth use fix          now `berth show` and `berth send @ TEXT` mean fix
  berth use              which one it is
  berth use --none       forget it

Off a terminal none is current: scripts name one, or set BERTH_SESSION.")]
pub(crate) struct Use {
    /// The session [default: print the current one]
    #[arg(value_name = "S", conflicts_with = "none")]
    pub(crate) session: Option<String>,
    /// Forget the current session of this terminal
    #[arg(long)]
    pub(crate) none: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}
