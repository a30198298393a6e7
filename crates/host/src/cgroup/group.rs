//! A control group of one run: everything that was born in it, whatever it closed, cleared or ignores.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::{is_cgroup2, make, open_directory};
use crate::reason;

/// How deep groups inside a group are looked into. The kernel allows more; nobody of ours makes them.
const DEPTH: usize = 32;

/// A group of the version 2 hierarchy.
#[derive(Debug)]
pub struct Group {
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
}

/// Who is in a group, and in groups inside it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Their numbers. What starts meanwhile may be missing.
    pub pids: Vec<u32>,
    /// How many are in a pid namespace that we cannot see into.
    pub unseen: usize,
}

impl Group {
    /// Makes a group for a run. One that is there already is taken if nobody is in it: its maker died
    /// before it could be used.
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

    /// Opens the group of a run by the path that was written down for it. `None` if it is gone, or if
    /// that path cannot be one of a group called `name`: what is written down may be damaged. An error if
    /// the hierarchy it was made in is not in sight: then it may well be there.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into it. One that is born in it has less to wait for.
    pub fn take_in(&self, pid: u32) -> io::Result<()> {
        let procs = File::options().write(true).open(self.path.join("cgroup.procs"));
        procs?.write_all(pid.to_string().as_bytes())
    }

    /// Who is in it now.
    pub fn members(&self) -> io::Result<Members> {
        let mut members = Members::default();
        collect(&self.path, DEPTH, &mut members)?;
        members.pids.sort_unstable();
        members.pids.dedup();
        Ok(members)
    }

    /// Whether anybody is in it, seen or unseen.
    pub fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(events) => Ok(!events.lines().any(|line| line == "populated 0")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Files that the kernel reports as urgent: when the group becomes empty, and when memory runs out in
    /// it, if that is counted here.
    pub fn watches(&self) -> Vec<Watch> {
        let open = |name| Some(Watch::Urgent(File::open(self.path.join(name)).ok()?));
        ["cgroup.events", "memory.events"].into_iter().filter_map(open).filter(Watch::rearm).collect()
    }

    /// Kills everybody in it at once; a process that forks meanwhile takes its child along. Kernels
    /// before 5.14 cannot.
    pub fn kill(&self) -> io::Result<()> {
        let file = File::options().write(true).open(self.path.join("cgroup.kill"));
        match file.and_then(|mut file| file.write_all(b"1")) {
            Err(error) if is_gone(&error) && !self.path.exists() => Ok(()),
            answer => answer,
        }
    }

    /// Removes it, and the groups inside it. The kernel removes no group with a process in it, so true is
    /// proof that nobody is there.
    pub fn remove(&self) -> io::Result<bool> {
        remove(&self.path, DEPTH)
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// See [`Group::watches`].
#[derive(Debug)]
pub enum Watch {
    /// A file of version 2, which has changed.
    Urgent(File),
    /// A counter that version 1 adds to when memory runs out, a moment before anybody is killed for it.
    Early(OwnedFd),
}

impl Watch {
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

    /// What to wait for.
    pub fn interest(&self) -> EventFlags {
        match self {
            Self::Urgent(_) => EventFlags::PRI,
            Self::Early(_) => EventFlags::IN,
        }
    }

    /// To be called when the kernel has reported it, to be told again. False if its group is gone.
    pub fn rearm(&self) -> bool {
        // Only the reading counts; what it says is asked for with `is_populated` and `oom_kills`.
        let mut text = [0; 256];
        let read = rustix::io::read(self, &mut text);
        if let Self::Urgent(file) = self {
            let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0));
        }
        read != Err(Errno::NODEV)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Urgent(file) => file.as_fd(),
            Self::Early(counter) => counter.as_fd(),
        }
    }
}

/// Whether the hierarchy that a group was made in can be seen: the nearest directory above that is there.
fn is_in_sight(group: &Path) -> bool {
    let above = group.ancestors().skip(1).find_map(|dir| open_directory(dir).ok());
    above.is_some_and(|dir| is_cgroup2(&dir))
}

fn is_gone(error: &io::Error) -> bool {
    // ENODEV: removed while its file was open.
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

fn collect(path: &Path, depth: usize, members: &mut Members) -> io::Result<()> {
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
