//! A lease that another program has locked: berth can neither keep the session nor make that program release the lock.
//!
//! Promise: a stranger is named only if the kernel's list of locks has it, it did not sign the lease, and it is not a
//! berth command, which may hold a lease for a moment before it signs.
//! Start with `ForeignLeaseHolder::of`.

use std::path::{Path, PathBuf};

use berth_api::{Problem, redact};
use berth_host::identity::{self, ProcessLiveness, ProcessStat};
use berth_host::lock::lock_holders;

use crate::session_files::LEASE_FILE;
use crate::store;

/// The name that keepers and commands of berth have in the kernel's list of processes.
const OWN_COMM: &str = "berth";
/// How much of a command line is shown, in characters.
const SHOWN_COMMAND: usize = 120;

/// A process that holds a lease and is not berth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignLeaseHolder {
    pid: u32,
    command: String,
    locked: PathBuf,
}

impl ForeignLeaseHolder {
    /// Finds the stranger that holds one of the two locks of a lease: the one on the file or the one on `dir`.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        Self::of_lock(dir, dir.join(LEASE_FILE)).or_else(|| Self::of_lock(dir, dir.to_owned()))
    }

    fn of_lock(dir: &Path, locked: PathBuf) -> Option<Self> {
        let pids = lock_holders(&locked).ok()?;
        if pids.is_empty() {
            return None;
        }
        let signed = store::lease_signer(&store::holder(dir));
        // The pid of a signer that has ended may belong to another process by now.
        let signer =
            signed.filter(|signer| !matches!(signer.check(), ProcessLiveness::Gone)).map(|signer| signer.pid);
        let others = pids.into_iter().filter(|pid| Some(*pid) != signer);
        let stranger =
            others.filter_map(|pid| identity::process_stat(pid).ok()).find(|stat| stat.comm != OWN_COMM)?;
        Some(Self { pid: stranger.pid, command: command(&stranger), locked })
    }

    /// Refuses a command that needs the lease of the session or helper `handle`.
    pub(crate) fn problem(&self, handle: &str) -> Problem {
        let what =
            format!("`{handle}` cannot be kept: another program has locked its lease: {}", self.describe());
        Problem::in_use(what).hint(format!(
            "end that program, or have it let go of {}; nothing was changed",
            self.locked.display()
        ))
    }

    /// Describes the stranger for people.
    pub fn describe(&self) -> String {
        format!("pid {} ({})", self.pid, self.command)
    }
}

/// The command line of a process on one line, without secrets and control characters: tokens with scope `read` see it.
fn command(stranger: &ProcessStat) -> String {
    let line: String = command_of_process(stranger).chars().take(SHOWN_COMMAND).collect();
    line.escape_debug().to_string()
}

/// The command line of a process, without secrets; its name if it has none.
pub fn command_of_process(stat: &ProcessStat) -> String {
    let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
    if argv.is_empty() { stat.comm.clone() } else { redact::redact_command_line(&argv) }
}
