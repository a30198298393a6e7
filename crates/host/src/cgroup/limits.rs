//! Limits on a run: memory, processes, processor time.
//!
//! Promise: a limit that was asked for holds, or the error says why it cannot. The controllers are in
//! the version 2 hierarchy, or, on hosts that mount both, in version 1: then the run is put into a group
//! there as well.
//! Not here: choosing the limits, and reporting a run that reached one to people.
//! Start with [`CgroupLimits::set`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::{CgroupV2, make, own_groups, unescape};
use crate::reason;

/// The resources a run may use. Without any value, only the limits of the host apply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CgroupLimits {
    /// Memory, swap included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and their threads.
    pub processes: Option<u64>,
    /// Processor time, in hundredths of one core.
    pub cpu_percent: Option<u64>,
}

/// Groups of version 1 that hold limits of a run, open to be joined by its first process.
#[derive(Debug, Default)]
pub struct LimitCgroups {
    /// The directories of the groups.
    pub paths: Vec<PathBuf>,
    joins: Vec<File>,
}

impl LimitCgroups {
    /// Wraps groups that were made before.
    pub fn known(paths: Vec<PathBuf>) -> Self {
        Self { paths, joins: Vec::new() }
    }

    /// The files a new process writes itself into.
    pub fn joins(&self) -> Vec<BorrowedFd<'_>> {
        self.joins.iter().map(AsFd::as_fd).collect()
    }
}

/// One limit: its controller, and the files and values to write, for a group of version 2 or 1.
struct ControllerLimit {
    controller: &'static str,
    what: &'static str,
    new: Vec<(&'static str, String, FilePresence)>,
    old: Vec<(&'static str, String, FilePresence)>,
}

/// Says if a file must exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilePresence {
    Yes,
    /// Kernels without swap accounting do not have the file.
    IfThere,
}

/// The prefix of the names of version 1 groups for limits.
pub const PREFIX: &str = "berth-";
/// The controllers of all limits.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The length of the period over which processor time is counted, in microseconds.
const CPU_PERIOD: u64 = 100_000;

impl CgroupLimits {
    fn list(&self) -> Vec<ControllerLimit> {
        use FilePresence::{IfThere, Yes};
        let memory = self.memory_bytes.map(|bytes| ControllerLimit {
            controller: "memory",
            what: "memory",
            new: vec![("memory.max", bytes.to_string(), Yes), ("memory.swap.max", "0".to_owned(), IfThere)],
            old: vec![
                ("memory.limit_in_bytes", bytes.to_string(), Yes),
                ("memory.memsw.limit_in_bytes", bytes.to_string(), IfThere),
            ],
        });
        let processes = self.processes.map(|count| ControllerLimit {
            controller: "pids",
            what: "processes",
            new: vec![("pids.max", count.to_string(), Yes)],
            old: vec![("pids.max", count.to_string(), Yes)],
        });
        let cpu = self.cpu_percent.map(|percent| {
            let quota = percent.saturating_mul(CPU_PERIOD / 100);
            ControllerLimit {
                controller: "cpu",
                what: "processor time",
                new: vec![("cpu.max", format!("{quota} {CPU_PERIOD}"), Yes)],
                old: vec![
                    ("cpu.cfs_period_us", CPU_PERIOD.to_string(), Yes),
                    ("cpu.cfs_quota_us", quota.to_string(), Yes),
                ],
            }
        });
        [memory, processes, cpu].into_iter().flatten().collect()
    }

    /// Sets the limits of a run: in its own group, or in groups of version 1 called `name` where the controllers are
    /// there. Groups that were made are removed again if one of the limits cannot be set.
    pub fn set(&self, group: Option<&CgroupV2>, name: &str) -> Result<LimitCgroups, String> {
        let mut limited = LimitCgroups::default();
        let set = self.list().iter().try_for_each(|limit| limit.set(group, name, &mut limited));
        if let Err(why) = set {
            limited.paths.iter().for_each(|path| drop(fs::remove_dir(path)));
            return Err(why);
        }
        Ok(limited)
    }
}

impl ControllerLimit {
    fn set(&self, group: Option<&CgroupV2>, name: &str, limited: &mut LimitCgroups) -> Result<(), String> {
        let new = group.map(|group| self.enable(group).and_then(|()| write_all(group.path(), &self.new)));
        let why = match new {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => why,
            None => "there is no cgroup of version 2 for it".to_owned(),
        };
        let Some(parent) = old_group(self.controller) else {
            return Err(format!("cannot limit the {} of a session: {why}", self.what));
        };
        let path = parent.join(format!("{PREFIX}{name}"));
        let open = || -> Result<File, String> {
            make(&path)?;
            write_all(&path, &self.old)?;
            let file = path.join("cgroup.procs");
            File::options()
                .write(true)
                .open(&file)
                .map_err(|error| format!("cannot open {}: {}", file.display(), reason(&error)))
        };
        let opened = open();
        // Several controllers may share one hierarchy, and then one group.
        let is_new = !limited.paths.contains(&path);
        limited.paths.extend(is_new.then_some(path));
        let join = opened.map_err(|why| format!("cannot limit the {} of a session: {why}", self.what))?;
        limited.joins.extend(is_new.then_some(join));
        Ok(())
    }

    /// Enables the controller in the group: the groups above it must hand it down.
    fn enable(&self, group: &CgroupV2) -> Result<(), String> {
        if lists(group.path(), "cgroup.controllers", self.controller) {
            return Ok(());
        }
        let mut above: Vec<&Path> = Vec::new();
        for dir in group.path().ancestors().skip(1) {
            above.push(dir);
            if lists(dir, "cgroup.controllers", self.controller) {
                break;
            }
        }
        let highest = above.last().copied().unwrap_or(group.path());
        if !lists(highest, "cgroup.controllers", self.controller) {
            return Err(format!(
                "the {} controller is not in the cgroup hierarchy of version 2",
                self.controller
            ));
        }
        for dir in above.iter().rev() {
            if !lists(dir, "cgroup.subtree_control", self.controller) {
                let file = dir.join("cgroup.subtree_control");
                fs::write(&file, format!("+{}", self.controller)).map_err(|error| {
                    format!(
                        "cannot enable the {} controller in {}: {}",
                        self.controller,
                        file.display(),
                        reason(&error)
                    )
                })?;
            }
        }
        Ok(())
    }
}

fn lists(dir: &Path, file: &str, controller: &str) -> bool {
    fs::read_to_string(dir.join(file))
        .is_ok_and(|text| text.split_whitespace().any(|word| word == controller))
}

fn write_all(dir: &Path, values: &[(&'static str, String, FilePresence)]) -> Result<(), String> {
    for (name, value, needed) in values {
        let file = dir.join(name);
        let written =
            File::options().write(true).open(&file).and_then(|mut file| file.write_all(value.as_bytes()));
        match written {
            Ok(()) => {}
            Err(error) if *needed == FilePresence::IfThere && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(format!("cannot write {value} into {}: {}", file.display(), reason(&error)));
            }
        }
    }
    Ok(())
}

/// The group of version 1 that this process is in for a controller. Groups for runs are made in it, so that our own
/// limits apply to them as well.
pub(crate) fn old_group(controller: &str) -> Option<PathBuf> {
    old_groups_for(&[controller]).pop()
}

/// The groups of version 1 that this process is in, for all controllers that can limit.
pub(super) fn old_groups() -> Vec<PathBuf> {
    let mut groups = old_groups_for(&CONTROLLERS);
    groups.dedup();
    groups
}

fn old_groups_for(controllers: &[&str]) -> Vec<PathBuf> {
    let (Ok(mounts), Ok(own)) = (fs::read("/proc/self/mountinfo"), own_groups()) else { return Vec::new() };
    let mounts = String::from_utf8_lossy(&mounts);
    controllers.iter().filter_map(|name| old_group_in(&mounts, &own, name)).collect()
}

/// Moves this process out of the limits of the run it was started from: the processes it starts are not part of that
/// run. Where that is not allowed, it stays under them.
pub fn leave_inherited_limits() {
    for group in old_groups() {
        let parts: Vec<_> = group.components().collect();
        let is_limit = |part: &std::path::Component<'_>| {
            part.as_os_str().to_str().is_some_and(|part| part.starts_with(PREFIX))
        };
        if let Some(depth) = parts.iter().position(is_limit) {
            let above: PathBuf = parts[..depth].iter().collect();
            let procs = File::options().write(true).open(above.join("cgroup.procs"));
            // 0 means the process that writes it.
            let _ = procs.and_then(|mut procs| procs.write_all(b"0"));
        }
    }
}

fn old_group_in(mountinfo: &str, groups: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|word| word == controller);
    let mine = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next().filter(|list| has(list)).and_then(|_| fields.next())
    })?;
    mountinfo.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_old = system.next() == Some("cgroup") && has(system.nth(1)?);
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(mine).strip_prefix(root).ok().filter(|_| is_old)?;
        Some(PathBuf::from(unescape(point)).join(below))
    })
}

/// How many processes the kernel killed in these groups because memory ran out.
pub fn oom_kills<'a>(paths: impl IntoIterator<Item = &'a Path>) -> u64 {
    let count = |path: &Path| {
        let new = fs::read_to_string(path.join("memory.events"));
        let text = new.or_else(|_| fs::read_to_string(path.join("memory.oom_control"))).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
    };
    paths.into_iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_version_1_is_found_through_its_mount() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let groups = "4:memory:/docker/7/inner\n1:cpu,cpuacct:/\n0::/\n";
        assert_eq!(old_group_in(mounts, groups, "cpu"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(old_group_in(mounts, groups, "memory"), Some("/sys/fs/cgroup/memory/inner".into()));
        assert_eq!(old_group_in(mounts, groups, "pids"), None);
    }
}
