//! A control group of one run: it holds every process born in it, even one that closed, cleared or
//! ignored everything else.
//!
//! Promise: a group is opened only by its full name, and removed only when it is empty.
//! Not here: limits (see `limits`), choosing the parent (see [`super::place_for_runs`]).
//! Start with [`CgroupV2::make`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::{is_cgroup2, make, open_directory};
use crate::reason;

/// The depth to which groups inside a group are visited. The kernel allows more; berth makes none that deep.
const DEPTH: usize = 32;

/// A group of the version 2 hierarchy.
#[derive(Debug)]
pub struct CgroupV2 {
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
}

/// The processes in a group, and in groups inside it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CgroupMembers {
    /// The pids. A process that starts meanwhile may be missing.
    pub pids: Vec<u32>,
    /// The number of processes in pid namespaces that we cannot see into.
    pub unseen: usize,
}

impl CgroupV2 {
    /// Makes a group for a run. An existing group is taken over if it is empty: its maker died before it could be used.
    pub fn make(parent: &Path, name: &str) -> Result<Self, String> {
        let path = parent.join(name);
        make(&path)?;
        let trouble =
            |error: io::Error| format!("cannot use the cgroup {}: {}", path.display(), reason(&error));
        let group = Self::open(&path, name).map_err(trouble)?;
        let group = group.ok_or_else(|| format!("{} is not a cgroup of version 2", path.display()))?;
        if group.is_populated().map_err(trouble)? {
            return Err(format!("processes that no record explains are in the cgroup {}", path.display()));
        }
        Ok(group)
    }

    /// Opens the group of a run by its recorded path. `None` if the group is gone, or if that path cannot be one of a
    /// group called `name`: the record may be damaged. An error if the hierarchy the group was made in cannot be
    /// seen: then the group may well exist.
    pub fn open(path: &Path, name: &str) -> io::Result<Option<Self>> {
        if path.file_name() != Some(name.as_ref()) {
            return Ok(None);
        }
        match open_directory(path) {
            Ok(fd) if is_cgroup2(&fd) => Ok(Some(Self { path: path.to_owned(), fd })),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) if !is_in_sight(path) => {
                let what = format!("no cgroup hierarchy of version 2 is in sight at {}", path.display());
                Err(io::Error::other(what))
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory of the group.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into the group. A process that is born in it starts faster.
    pub fn take_in(&self, pid: u32) -> io::Result<()> {
        let procs = File::options().write(true).open(self.path.join("cgroup.procs"));
        procs?.write_all(pid.to_string().as_bytes())
    }

    /// The processes in the group now.
    pub fn members(&self) -> io::Result<CgroupMembers> {
        let mut members = CgroupMembers::default();
        collect(&self.path, DEPTH, &mut members)?;
        members.pids.sort_unstable();
        members.pids.dedup();
        Ok(members)
    }

    /// True if a process is in the group, seen or unseen.
    pub fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(events) => Ok(!events.lines().any(|line| line == "populated 0")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Files to wait on with epoll: one reports that the group becomes empty, one that memory runs out in it, if that
    /// is counted here.
    pub fn watches(&self) -> Vec<CgroupWatch> {
        let open = |name| Some(CgroupWatch::Urgent(File::open(self.path.join(name)).ok()?));
        ["cgroup.events", "memory.events"].into_iter().filter_map(open).filter(CgroupWatch::rearm).collect()
    }

    /// Kills every process in the group at once; a process that forks meanwhile takes its child along. Fails on
    /// kernels before 5.14.
    pub fn kill(&self) -> io::Result<()> {
        let file = File::options().write(true).open(self.path.join("cgroup.kill"));
        match file.and_then(|mut file| file.write_all(b"1")) {
            Err(error) if is_gone(&error) && !self.path.exists() => Ok(()),
            answer => answer,
        }
    }

    /// Removes the group, and the groups inside it. The kernel removes no group with a process in it, so true is
    /// proof that the group was empty.
    pub fn remove(&self) -> io::Result<bool> {
        remove(&self.path, DEPTH)
    }
}

impl AsFd for CgroupV2 {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file to wait on, from [`CgroupV2::watches`].
#[derive(Debug)]
pub enum CgroupWatch {
    /// A file of version 2, reported when its contents change.
    Urgent(File),
    /// A counter that version 1 adds to when memory runs out, a moment before a process is killed for it.
    Early(OwnedFd),
}

impl CgroupWatch {
    /// Reports memory that runs out in a group of version 1. `None` if that is not counted there.
    pub fn on_memory(group: &Path) -> Option<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let events = File::open(group.join("memory.oom_control")).ok()?;
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let order = format!("{} {}", counter.as_raw_fd(), events.as_raw_fd());
        let control = File::options().write(true).open(group.join("cgroup.event_control"));
        control.ok()?.write_all(order.as_bytes()).ok()?;
        Some(Self::Early(counter))
    }

    /// The epoll events to wait for.
    pub fn interest(&self) -> EventFlags {
        match self {
            Self::Urgent(_) => EventFlags::PRI,
            Self::Early(_) => EventFlags::IN,
        }
    }

    /// Must be called after each report, to get the next one. False if the group is gone.
    pub fn rearm(&self) -> bool {
        // Only the act of reading counts; the state is read with `is_populated` and `oom_kills`.
        let mut text = [0; 256];
        let read = rustix::io::read(self, &mut text);
        if let Self::Urgent(file) = self {
            let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0));
        }
        read != Err(Errno::NODEV)
    }
}

impl AsFd for CgroupWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Urgent(file) => file.as_fd(),
            Self::Early(counter) => counter.as_fd(),
        }
    }
}

/// True if the hierarchy that a group was made in can be seen, judged by the nearest existing parent directory.
fn is_in_sight(group: &Path) -> bool {
    let above = group.ancestors().skip(1).find_map(|dir| open_directory(dir).ok());
    above.is_some_and(|dir| is_cgroup2(&dir))
}

fn is_gone(error: &io::Error) -> bool {
    // ENODEV: removed while its file was open.
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

fn collect(path: &Path, depth: usize, members: &mut CgroupMembers) -> io::Result<()> {
    match fs::read_to_string(path.join("cgroup.procs")) {
        Ok(list) => {
            for pid in list.lines().filter_map(|line| line.parse::<u32>().ok()) {
                if pid == 0 { members.unseen += 1 } else { members.pids.push(pid) }
            }
        }
        Err(error) if is_gone(&error) => return Ok(()),
        // A threaded group: its processes are listed by the group above.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    for inner in groups_in(path)? {
        if depth == 0 {
            return Err(io::Error::other("groups inside groups are nested too deeply"));
        }
        collect(&inner, depth - 1, members)?;
    }
    Ok(())
}

fn remove(path: &Path, depth: usize) -> io::Result<bool> {
    for inner in groups_in(path)? {
        if depth == 0 || !remove(&inner, depth - 1)? {
            return Ok(false);
        }
    }
    match rustix::fs::rmdir(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn groups_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut groups = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error),
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            groups.push(entry.path());
        }
    }
    Ok(groups)
}
