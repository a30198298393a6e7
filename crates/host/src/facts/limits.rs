//! How much there is of what can run out: terminals, processes, open files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::mounts;
use crate::cgroup::find_mount;
use crate::process::census;

/// Something that can run out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// How many are in use.
    pub used: u64,
    /// How many there can be.
    pub most: u64,
}

impl Limit {
    /// How many are left.
    pub fn left(self) -> u64 {
        self.most.saturating_sub(self.used)
    }
}

/// Terminals of this host.
pub fn terminals() -> io::Result<Limit> {
    let read = |name: &str| number(Path::new("/proc/sys/kernel/pty").join(name));
    Ok(Limit { used: read("nr")?, most: read("max")? })
}

/// Processes and threads, and what limits them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pids {
    /// The kernel's own limit, for the whole host.
    pub host: Limit,
    /// What this user may have (`ulimit -u`); nothing if that is unlimited, or we are root.
    pub user: Option<Limit>,
    /// What the nearest limiting control group above us may have, with its directory.
    pub group: Option<(PathBuf, Limit)>,
}

/// Looks at what limits the number of processes.
pub fn pids() -> io::Result<Pids> {
    let all = census()?;
    let threads_of = |mine: &dyn Fn(u32) -> bool| -> u64 {
        all.iter().filter(|process| mine(process.pid)).map(|process| u64::from(process.threads)).sum()
    };
    let me = rustix::process::geteuid();
    let owned = |pid: u32| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == me.as_raw())
    };
    // The kernel does not hold root to it.
    let most = getrlimit(Resource::Nproc).current.filter(|_| !me.is_root());
    Ok(Pids {
        host: Limit { used: threads_of(&|_| true), most: number("/proc/sys/kernel/pid_max".into())? },
        user: most.map(|most| Limit { used: threads_of(&owned), most }),
        group: group_limit(),
    })
}

/// How many files a process may have open: now, and if it asks for more.
pub fn open_files() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

/// The control group above us that has the fewest processes left.
fn group_limit() -> Option<(PathBuf, Limit)> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let top_1 = mounts().ok().and_then(|mounts| {
        let has_pids = |options: &str| options.split(',').any(|option| option == "pids");
        mounts.into_iter().find(|mount| mount.kind == "cgroup" && has_pids(&mount.options))
    });
    let top = match top_1 {
        Some(mount) => mount.point,
        None => find_mount().ok()?,
    };
    let mut group = top.join(group_in(&cgroups)?);
    let mut tightest: Option<(PathBuf, Limit)> = None;
    while group.starts_with(&top) {
        let limit = number(group.join("pids.max")).and_then(|most| {
            let used = number(group.join("pids.current"))?;
            Ok(Limit { used, most })
        });
        // "max" is no number: no limit there.
        if let Ok(limit) = limit
            && tightest.as_ref().is_none_or(|(_, tightest)| limit.left() < tightest.left())
        {
            tightest = Some((group.clone(), limit));
        }
        if !group.pop() {
            break;
        }
    }
    tightest
}

/// The path of our group in the hierarchy that counts processes: one of version 1, else version 2.
fn group_in(cgroups: &str) -> Option<&str> {
    let version_1 = cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next()?.split(',').find(|controller| *controller == "pids")?;
        fields.next()
    });
    let path = version_1.or_else(|| cgroups.lines().find_map(|line| line.strip_prefix("0::")))?;
    Some(path.trim_start_matches('/'))
}

fn number(path: PathBuf) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_counts_processes_is_found_in_either_version() {
        assert_eq!(group_in("8:pids:/a/b\n4:memory:/c\n0::/\n"), Some("a/b"));
        assert_eq!(group_in("5:cpu,pids:/a\n"), Some("a"));
        assert_eq!(group_in("0::/user.slice/x.scope\n"), Some("user.slice/x.scope"));
        assert_eq!(group_in(""), None);
    }

    #[test]
    fn this_host_has_room_for_this_test() {
        let pids = pids().unwrap();
        assert!(pids.host.left() > 0 && pids.host.used > 0, "{pids:?}");
        assert!(open_files().0.is_none_or(|files| files > 3));
        assert_eq!(Limit { used: 5, most: 3 }.left(), 0);
    }
}
