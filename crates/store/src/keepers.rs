//! Live keepers: which process keeps which session, by lease and by command line.
//!
//! Promise: a process is called the keeper of a session only if the lease names it and it was started for that very
//! directory.
//! Start with [`session_of_keeper`] for a process, and `keeper_of` for a session.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_host::identity::{Pidfd, ProcessIdentity, ProcessLiveness};
use berth_host::process::{all_processes, command_line};

use crate::session_files::{LEASE_FILE, SessionFiles};
use crate::{session_status, store};

/// The hidden verb that makes this binary a keeper.
pub const KEEPER_VERB: &str = "keeper";
/// Flag of an image that continues the work of an earlier one.
pub const ADOPT_FLAG: &str = "--adopt";

/// The session that a process is proven to keep.
pub fn session_of_keeper(pid: u32) -> Option<SessionFiles> {
    let files = session_keeper_was_started_for(pid)?;
    let signed = |identity: ProcessIdentity| {
        fs::read(files.dir().join(LEASE_FILE))
            .is_ok_and(|text| text.starts_with(store::lease_signature(&identity).as_bytes()))
    };
    ProcessIdentity::of(pid).is_ok_and(signed).then_some(files)
}

/// The session that a process was started to keep, by its command line alone, which does not prove that it does.
pub fn session_keeper_was_started_for(pid: u32) -> Option<SessionFiles> {
    let dir = command_line(pid).ok().and_then(|line| session_dir(&line))?;
    SessionFiles::understand(dir.as_os_str())
}

/// A live process that was started as the keeper of the session at this path, whatever its lease says: the lease,
/// or the whole directory, may have been replaced under it.
pub(crate) fn keeper_started_for(dir: &Path) -> io::Result<Option<(u32, Pidfd)>> {
    let ours = rustix::process::geteuid().as_raw();
    let resolved = |dir: &Path| Some((dir.file_name()?.to_owned(), fs::canonicalize(dir.parent()?).ok()?));
    let wanted = resolved(dir);
    for stat in all_processes()? {
        if stat.pid == std::process::id() || stat.is_zombie() {
            continue;
        }
        // Read before the command line, so that the command line of a later process with this pid is not believed.
        let Ok(identity) = ProcessIdentity::of(stat.pid) else { continue };
        let Some(keeps) = command_line(stat.pid).ok().and_then(|line| session_dir(&line)) else { continue };
        let is_ours = fs::metadata(format!("/proc/{}", stat.pid)).is_ok_and(|found| found.uid() == ours);
        let is_of_this = keeps.file_name() == dir.file_name() && resolved(&keeps) == wanted;
        if is_ours
            && is_of_this
            && let ProcessLiveness::Alive(pidfd) = identity.check()
        {
            return Ok(Some((stat.pid, pidfd)));
        }
    }
    Ok(None)
}

/// Directory of the session that a keeper's command line names.
fn session_dir(line: &[u8]) -> Option<PathBuf> {
    let words: Vec<&str> =
        line.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
    match words.as_slice() {
        ["berth", verb, flag, dir, ..] if *verb == KEEPER_VERB && *flag == ADOPT_FLAG => Some(dir.into()),
        ["berth", verb, dir, ..] if *verb == KEEPER_VERB => Some(dir.into()),
        _ => None,
    }
}

/// Reason why no keeper was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoKeeper {
    /// The session does not exist.
    Unknown,
    /// The session belongs to this other account.
    OtherAccount(u32),
    /// No keeper runs.
    NotKept,
    /// The system did not tell. Assume neither a keeper nor its absence.
    CannotTell(String),
}

/// The keeper of the session in `dir`, as an open pidfd: the kernel reports its end to the owner of the pidfd. Only
/// a process is believed that holds the lease, signed it, and was started as the keeper of this very directory. The
/// identity is returned as well, because a later keeper is another process.
pub(crate) fn keeper_of(dir: &Path) -> Result<(ProcessIdentity, Pidfd), NoKeeper> {
    let cannot_tell = |what: &str, error: io::Error| NoKeeper::CannotTell(format!("cannot {what}: {error}"));
    let ours = rustix::process::geteuid().as_raw();
    let found = match fs::metadata(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoKeeper::Unknown),
        Err(error) => return Err(cannot_tell(&format!("look at {}", dir.display()), error)),
    };
    if found.uid() != ours {
        return Err(NoKeeper::OtherAccount(found.uid()));
    }
    match session_status::is_kept(dir) {
        Ok(true) => {}
        Ok(false) => return Err(NoKeeper::NotKept),
        Err(error) => return Err(cannot_tell("look at its lease", error)),
    }
    let Some(signed) = store::lease_signer(&store::holder(dir)) else {
        return Err(NoKeeper::CannotTell("its lease does not say who holds it".to_owned()));
    };
    let pidfd = match signed.check() {
        ProcessLiveness::Alive(pidfd) => pidfd,
        ProcessLiveness::Gone => return Err(NoKeeper::NotKept),
        ProcessLiveness::CannotTell(why) => return Err(NoKeeper::CannotTell(why)),
    };
    // Read while the process is held open: the answer is about this very process, or there is none.
    let account = fs::metadata(format!("/proc/{}", signed.pid)).map(|found| found.uid());
    let line = command_line(signed.pid).unwrap_or_default();
    if pidfd.has_exited() {
        return Err(NoKeeper::NotKept);
    }
    match account {
        Ok(account) if account != ours => return Err(NoKeeper::OtherAccount(account)),
        Ok(_) => {}
        Err(error) => return Err(cannot_tell("look at its keeper", error)),
    }
    let place = |dir: &Path| fs::metadata(dir).map(|found| (found.dev(), found.ino())).ok();
    let keeps = session_dir(&line);
    if keeps.is_some_and(|keeps| place(&keeps).is_some() && place(&keeps) == place(dir)) {
        Ok((signed, pidfd))
    } else {
        // A command that clears up after a keeper signs as well, and is not a keeper.
        Err(NoKeeper::NotKept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_says_on_its_command_line_which_session_it_keeps() {
        assert_eq!(session_dir(b"berth\0keeper\0/h/helpers/abc\0"), Some("/h/helpers/abc".into()));
        assert_eq!(
            session_dir(b"berth\0keeper\0--adopt\0/h/sessions/abc\x003\x004\0"),
            Some("/h/sessions/abc".into())
        );
        assert_eq!(session_dir(b"berth\0attach\0abc\0"), None);
        assert_eq!(session_dir(b"sh\0-c\0berth keeper /h abc\0"), None);
    }
}
