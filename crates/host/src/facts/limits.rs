//! Limits of this host that berth can run into: terminals, processes, open files.
//!
//! Not here: raising a limit (see [`crate::open_file_limit`]).
//! Start with [`terminal_usage`], [`pid_usage`] and [`open_file_limits`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::mounts;
use crate::cgroup::find_mount;
use crate::process::all_processes;

/// A resource with a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceUsage {
    /// The number in use.
    pub used: u64,
    /// The largest allowed number.
    pub most: u64,
}

impl ResourceUsage {
    /// The number that is still free.
    pub fn left(self) -> u64 {
        self.most.saturating_sub(self.used)
    }
}

/// The pseudo terminals of this host.
pub fn terminal_usage() -> io::Result<ResourceUsage> {
    let read = |name: &str| number(Path::new("/proc/sys/kernel/pty").join(name));
    Ok(ResourceUsage { used: read("nr")?, most: read("max")? })
}

/// The limits on processes and threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PidUsage {
    /// The kernel's own limit, for the whole host.
    pub host: ResourceUsage,
    /// The limit of this user (`ulimit -u`); `None` if that is unlimited, or we are root.
    pub user: Option<ResourceUsage>,
    /// The limit of the nearest control group above us that has one, with its directory.
    pub group: Option<(PathBuf, ResourceUsage)>,
}

/// Reads the limits on processes.
pub fn pid_usage() -> io::Result<PidUsage> {
    let all = all_processes()?;
    let threads_of = |mine: &dyn Fn(u32) -> bool| -> u64 {
        all.iter().filter(|process| mine(process.pid)).map(|process| u64::from(process.threads)).sum()
    };
    let me = rustix::process::geteuid();
    let owned = |pid: u32| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == me.as_raw())
    };
    // The kernel does not apply this limit to root.
    let most = getrlimit(Resource::Nproc).current.filter(|_| !me.is_root());
    Ok(PidUsage {
        host: ResourceUsage { used: threads_of(&|_| true), most: number("/proc/sys/kernel/pid_max".into())? },
        user: most.map(|most| ResourceUsage { used: threads_of(&owned), most }),
        group: group_limit(),
    })
}

/// The number of files a process may have open: the soft limit, and the hard limit.
pub fn open_file_limits() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

/// The control group above us that has the fewest processes left.
fn group_limit() -> Option<(PathBuf, ResourceUsage)> {
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
    let mut tightest: Option<(PathBuf, ResourceUsage)> = None;
    while group.starts_with(&top) {
        let limit = number(group.join("pids.max")).and_then(|most| {
            let used = number(group.join("pids.current"))?;
            Ok(ResourceUsage { used, most })
        });
        // "max" is not a number: the group has no limit.
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
        let pids = pid_usage().unwrap();
        assert!(pids.host.left() > 0 && pids.host.used > 0, "{pids:?}");
        assert!(open_file_limits().0.is_none_or(|files| files > 3));
        assert_eq!(ResourceUsage { used: 5, most: 3 }.left(), 0);
    }
}
