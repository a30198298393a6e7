//! What can be typed about this host: what it offers, and what is left over on it.

/// Check what this host offers to berth, and what is missing.
///
/// Everything is tried, and nothing stays of the trying. Exit 0 unless berth cannot work here at all.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth doctor
  berth doctor --json | jq -r '.rows[] | select(.state != \"ok\") | .name'")]
pub(crate) struct Doctor {
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Clean up after sessions whose keeper died.
///
/// Runs whose keeper died are ended and recorded as lost; groups and files that are provably unused are removed;
/// sessions at rest for as long as their policy says are archived (`berth policy`). A process that carries a claim of
/// ours without a record is told, with its age, its command and a guess, and left alone. If anything needed to know
/// better cannot be read, nothing is cleared up and the exit is 1. Other commands do this, too, once a minute at most.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth sweep --dry-run
  berth sweep --json | jq '.no_record'")]
pub(crate) struct Sweep {
    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}
