//! What holds a run together: a control group of its own where the host allows one, with its limits.
//!
//! Promise: a group is used only by the full name that belongs to this very run; what is found in it is
//! of the run, but for keepers of other sessions; a limit that was asked for holds or nothing is started.
//! Not here: adoption, the run's lock and its mark, which hold without the host's help (see `recover`).
//! Start with `Contained::make`; who only looks, with [`group_of`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_core::{Boundary, Epoch, Limits, Session, SessionId};
use berth_host::cgroup::{self, Group, Limited, Members, Watch};
use berth_store::SessionFiles;

use crate::foreign;

/// What a run is held together by, in the hands of who holds the lease. Dropped, it takes its empty groups
/// away; the kernel keeps those with somebody in them. Who only looks uses [`group_of`].
#[derive(Debug)]
pub(crate) struct Contained {
    group: Option<Group>,
    limited: Limited,
    missing: Option<String>,
}

impl Contained {
    /// Makes the groups of a run that is about to begin.
    pub(crate) fn make(id: &SessionId, epoch: Epoch, limits: &Limits) -> Result<Self, Problem> {
        cgroup::leave_limits_of_others();
        let name = group_name(id, epoch);
        let made = cgroup::place_for_runs().and_then(|parent| Group::make(&parent, &name));
        let (group, missing) = match made {
            Ok(group) => (Some(group), None),
            Err(why) => (None, Some(why)),
        };
        let mut contained = Self { group, limited: Limited::default(), missing };
        let limits = cgroup::Limits {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            cpu_percent: limits.cpu_percent,
        };
        contained.limited = limits.set(contained.group.as_ref(), &name).map_err(|why| {
            Problem::new(Code::Refused, why)
                .hint("`berth doctor` says what this host can limit and how to get the rest")
        })?;
        Ok(contained)
    }

    /// Takes up what a run was given, by what was written down about it.
    pub(crate) fn of(session: &Session, id: &SessionId) -> io::Result<Self> {
        let name = group_name(id, session.epoch);
        let group = group_of(session, id)?;
        let ours = format!("{}{name}", cgroup::LIMIT_PREFIX);
        let paths = session.boundary.limited_in.iter().map(PathBuf::from);
        let paths = paths.filter(|path| path.file_name() == Some(ours.as_ref())).collect();
        Ok(Self { group, limited: Limited::known(paths), missing: session.boundary.missing.clone() })
    }

    /// Nothing, and why.
    pub(crate) fn none(missing: String) -> Self {
        Self { group: None, limited: Limited::default(), missing: Some(missing) }
    }

    /// Takes up the group of a run that is over.
    pub(crate) fn known(path: &Path, name: &str) -> io::Result<Self> {
        let (limited, missing) = (Limited::default(), None);
        Ok(Self { group: Group::open(path, name)?, limited, missing })
    }

    /// For the record.
    pub(crate) fn boundary(&self) -> Boundary {
        let text = |path: &Path| path.display().to_string();
        Boundary {
            cgroup: self.group.as_ref().map(|group| text(group.path())),
            missing: self.missing.clone(),
            limited_in: self.limited.paths.iter().map(|path| text(path)).collect(),
        }
    }

    /// Where the first process is born.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(AsFd::as_fd)
    }

    /// What the first process writes itself into.
    pub(crate) fn joins(&self) -> Vec<BorrowedFd<'_>> {
        self.limited.joins()
    }

    /// What the kernel reports changes of: nobody left, or memory ran out.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        let limited = self.limited.paths.iter().filter_map(|path| Watch::on_memory(path));
        self.group.iter().flat_map(Group::watches).chain(limited).collect()
    }

    /// Who is in the run's group.
    pub(crate) fn members(&self) -> io::Result<Members> {
        self.group.as_ref().map_or_else(|| Ok(Members::default()), Group::members)
    }

    /// Where the group is in use by another keeper of a session of this name, if it is.
    pub(crate) fn used_elsewhere(&self, session: &SessionFiles) -> Option<SessionFiles> {
        used_elsewhere(self.group.as_ref()?, session)
    }

    /// Whether somebody is in the group who cannot be seen from here.
    pub(crate) fn has_unseen(&self) -> bool {
        self.members().is_ok_and(|members| members.unseen > 0)
    }

    /// Whether anybody at all is in the group.
    pub(crate) fn is_populated(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_populated().unwrap_or(true))
    }

    /// Whether nobody of the run is in its group; also if it has none. Keepers of other sessions that
    /// could not be put elsewhere do not count.
    pub(crate) fn is_empty(&self) -> bool {
        let Some(group) = &self.group else { return true };
        match group.is_populated() {
            Ok(false) => true,
            Ok(true) => holds_only_others(group),
            Err(_) => false,
        }
    }

    /// Kills everybody in the group at once. False if there is none, if the kernel cannot, or if somebody
    /// is in there who is not ours.
    pub(crate) fn kill(&self) -> bool {
        let Some(group) = &self.group else { return false };
        let split = group.members().and_then(|members| foreign::split(&members.pids));
        split.is_ok_and(|split| split.others.is_empty()) && group.kill().is_ok()
    }

    /// Takes its groups away, once and for all; not one with somebody in it.
    pub(crate) fn remove(&mut self) {
        if self.group.as_ref().is_some_and(|group| group.remove().unwrap_or(false)) {
            self.group = None;
        }
        self.limited.paths.retain(|path| std::fs::remove_dir(path).is_err());
    }

    /// How many processes of the run the kernel killed because memory ran out.
    pub(crate) fn oom_kills(&self) -> u64 {
        let group = self.group.iter().map(Group::path);
        cgroup::oom_kills(group.chain(self.limited.paths.iter().map(PathBuf::as_path)))
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The group of a session's current or last run, if it had one and that is still there.
pub fn group_of(session: &Session, id: &SessionId) -> io::Result<Option<Group>> {
    let Some(path) = &session.boundary.cgroup else { return Ok(None) };
    Group::open(Path::new(path), &group_name(id, session.epoch))
}

/// Where a group with the name of a run of this session is in use by another keeper: in a copy of the
/// session, or in what this is a copy of.
pub(crate) fn used_elsewhere(group: &Group, session: &SessionFiles) -> Option<SessionFiles> {
    group.members().ok()?.pids.iter().find_map(|pid| foreign::kept_elsewhere(*pid, session))
}

/// Whether a group has only keepers of other sessions in it, that could not be put elsewhere.
pub(crate) fn holds_only_others(group: &Group) -> bool {
    let members = group.members().unwrap_or_default();
    let split = foreign::split(&members.pids).unwrap_or_default();
    members.unseen == 0 && split.ours.is_empty() && !split.others.is_empty()
}

/// What the group of a run is called, wherever it is.
pub(crate) fn group_name(id: &SessionId, epoch: Epoch) -> String {
    format!("{id}.{epoch}")
}

/// The run a group is called after.
pub(crate) fn run_of_group(name: &str) -> Option<(SessionId, Epoch)> {
    let (id, epoch) = name.split_once('.')?;
    Some((SessionId::parse(id)?, Epoch(epoch.parse().ok()?)))
}
