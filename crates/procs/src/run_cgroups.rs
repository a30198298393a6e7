//! The boundary of a run: a control group of its own where the host allows one, with its limits.
//!
//! Promise: a group is used only by the full name that belongs to this very run; every process in it is of the run,
//! except keepers of other sessions; a requested limit holds, or nothing is started.
//! Not here: adoption, the run's lock and its mark, which work without the host's help (see
//! `berth_keeper::recover`).
//! Start with `RunCgroups::make`; readers start with [`run_group`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_core::{Epoch, RunBoundary, RunLimits, Session, SessionId};
use berth_host::cgroup::{self, CgroupMembers, CgroupV2, CgroupWatch, LimitCgroups};
use berth_store::SessionFiles;

use crate::nested_sessions;

/// The groups of a run, owned by the holder of the lease. On drop the empty groups are removed; the kernel keeps
/// groups with processes in them. Readers use [`run_group`].
#[derive(Debug)]
pub struct RunCgroups {
    group: Option<CgroupV2>,
    limited: LimitCgroups,
    missing: Option<String>,
}

impl RunCgroups {
    /// Makes the groups of a run that is about to begin.
    pub fn make(id: &SessionId, epoch: Epoch, limits: &RunLimits) -> Result<Self, Problem> {
        cgroup::leave_inherited_limits();
        let name = group_name(id, epoch);
        let made = cgroup::place_for_runs().and_then(|parent| CgroupV2::make(&parent, &name));
        let (group, missing) = match made {
            Ok(group) => (Some(group), None),
            Err(why) => (None, Some(why)),
        };
        let mut contained = Self { group, limited: LimitCgroups::default(), missing };
        let limits = cgroup::CgroupLimits {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            cpu_percent: limits.cpu_percent,
        };
        contained.limited = limits.set(contained.group.as_ref(), &name).map_err(|why| {
            Problem::refused(why).hint("`berth doctor` says what this host can limit and how to get the rest")
        })?;
        Ok(contained)
    }

    /// Reopens the groups of a run, by its record.
    pub fn of(session: &Session, id: &SessionId) -> io::Result<Self> {
        let name = group_name(id, session.epoch);
        let group = run_group(session, id)?;
        let ours = format!("{}{name}", cgroup::LIMIT_PREFIX);
        let paths = session.boundary.limited_in.iter().map(PathBuf::from);
        let paths = paths.filter(|path| path.file_name() == Some(ours.as_ref())).collect();
        Ok(Self { group, limited: LimitCgroups::known(paths), missing: session.boundary.missing.clone() })
    }

    /// A run without groups, and the reason.
    pub fn none(missing: String) -> Self {
        Self { group: None, limited: LimitCgroups::default(), missing: Some(missing) }
    }

    /// Reopens the group of a run that is over.
    pub fn known(path: &Path, name: &str) -> io::Result<Self> {
        let (limited, missing) = (LimitCgroups::default(), None);
        Ok(Self { group: CgroupV2::open(path, name)?, limited, missing })
    }

    /// The boundary as the journal records it.
    pub fn boundary(&self) -> RunBoundary {
        let text = |path: &Path| path.display().to_string();
        RunBoundary {
            cgroup: self.group.as_ref().map(|group| text(group.path())),
            missing: self.missing.clone(),
            limited_in: self.limited.paths.iter().map(|path| text(path)).collect(),
        }
    }

    /// The group in which the first process is born.
    pub fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(AsFd::as_fd)
    }

    /// The files of further groups that the first process joins.
    pub fn joins(&self) -> Vec<BorrowedFd<'_>> {
        self.limited.joins()
    }

    /// Files to wait on: they report an empty group and exhausted memory.
    pub fn watches(&self) -> Vec<CgroupWatch> {
        let limited = self.limited.paths.iter().filter_map(|path| CgroupWatch::on_memory(path));
        self.group.iter().flat_map(CgroupV2::watches).chain(limited).collect()
    }

    /// The processes in the run's group.
    pub fn members(&self) -> io::Result<CgroupMembers> {
        self.group.as_ref().map_or_else(|| Ok(CgroupMembers::default()), CgroupV2::members)
    }

    /// The other session of this name whose keeper uses the group, if there is one.
    pub fn used_elsewhere(&self, session: &SessionFiles) -> Option<SessionFiles> {
        session_sharing_group(self.group.as_ref()?, session)
    }

    /// True if the group has a process that cannot be seen from here.
    pub fn has_unseen(&self) -> bool {
        self.members().is_ok_and(|members| members.unseen > 0)
    }

    /// True if the group has any process.
    pub fn is_populated(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_populated().unwrap_or(true))
    }

    /// True if no process of the run is in its group, or if it has no group. Keepers of other sessions that could not
    /// be put elsewhere do not count.
    pub fn is_empty(&self) -> bool {
        let Some(group) = &self.group else { return true };
        match group.is_populated() {
            Ok(false) => true,
            Ok(true) => holds_only_others(group),
            Err(_) => false,
        }
    }

    /// Kills every process in the group at once. False if there is no group, if the kernel cannot, or if a process in
    /// it is not ours.
    pub fn kill(&self) -> bool {
        let Some(group) = &self.group else { return false };
        let split =
            group.members().and_then(|members| nested_sessions::separate_nested_sessions(&members.pids));
        split.is_ok_and(|split| split.others.is_empty()) && group.kill().is_ok()
    }

    /// Removes its groups for good, except those with a process in them.
    pub fn remove(&mut self) {
        if self.group.as_ref().is_some_and(|group| group.remove().unwrap_or(false)) {
            self.group = None;
        }
        self.limited.paths.retain(|path| std::fs::remove_dir(path).is_err());
    }

    /// The number of processes of the run that the kernel killed because memory ran out.
    pub fn oom_kills(&self) -> u64 {
        let group = self.group.iter().map(CgroupV2::path);
        cgroup::oom_kills(group.chain(self.limited.paths.iter().map(PathBuf::as_path)))
    }
}

impl Drop for RunCgroups {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The group of a session's current or last run, if it had one that still exists.
pub fn run_group(session: &Session, id: &SessionId) -> io::Result<Option<CgroupV2>> {
    let Some(path) = &session.boundary.cgroup else { return Ok(None) };
    CgroupV2::open(Path::new(path), &group_name(id, session.epoch))
}

/// The session whose keeper uses a group with the name of a run of this session: a copy of this session, or the
/// original of which this is a copy.
pub fn session_sharing_group(group: &CgroupV2, session: &SessionFiles) -> Option<SessionFiles> {
    group.members().ok()?.pids.iter().find_map(|pid| nested_sessions::kept_elsewhere(*pid, session))
}

/// True if a group has only keepers of other sessions in it, which could not be put elsewhere.
pub fn holds_only_others(group: &CgroupV2) -> bool {
    let members = group.members().unwrap_or_default();
    let split = nested_sessions::separate_nested_sessions(&members.pids).unwrap_or_default();
    members.unseen == 0 && split.ours.is_empty() && !split.others.is_empty()
}

/// The name of the group of a run, in any parent.
pub fn group_name(id: &SessionId, epoch: Epoch) -> String {
    format!("{id}.{epoch}")
}

/// Parses the name of a group: the run it belongs to.
pub fn run_of_group(name: &str) -> Option<(SessionId, Epoch)> {
    let (id, epoch) = name.split_once('.')?;
    Some((SessionId::parse(id)?, Epoch(epoch.parse().ok()?)))
}
