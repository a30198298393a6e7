//! Arguments of `berth doctor` and `berth sweep`.

/// Check what this host offers to berth, and what is missing.
///
/// Each feature is tried out, and all traces of the trial are removed. Exit 0 unless berth cannot work here at all.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth doctor
  berth doctor --json | jq -r '.rows[] | select(.state != \"ok\") | .name'")]
pub(crate) struct DoctorArgs {
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Clean up after sessions whose keeper died.
///
/// Runs whose keeper died are ended and recorded as lost; groups and files that are provably unused are removed;
/// sessions at rest for as long as their policy says are archived (`berth policy`). A process that carries a mark of
/// berth but has no record is reported, with its age, its command and a likely origin, and left alone. If the evidence
/// for a cleanup cannot be read, nothing is cleaned up and the exit is 1. Other commands sweep as well, at most once
/// a minute.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth sweep --dry-run
  berth sweep --json | jq '.no_record'")]
pub(crate) struct SweepArgs {
    /// Print what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}
