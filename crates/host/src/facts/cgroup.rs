//! The control group features of this host, found by trial: a group is made, a process is born in it, and
//! both are removed.
//!
//! Promise: the trial group and its process are gone when [`cgroup_facts`] returns.
//! Start with [`cgroup_facts`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::{MountEntry, mounts};
use crate::cgroup::{delegated_part, find_mount};
use crate::spawn::{ChildProcess, ChildStdio, SpawnOptions, spawn};
use crate::systemd::{self, SystemdManager};
use crate::{random_bytes, reason};

/// How long a group may take to be empty after its last process was collected.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(1);

/// The result of [`cgroup_facts`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupFacts {
    /// The mount point of version 2, or the reason why there is none.
    pub mount: Result<PathBuf, String>,
    /// The controllers that version 1 has, and version 2 therefore lacks.
    pub in_version_1: Vec<String>,
    /// The controllers among `in_version_1` that groups of berth can use.
    pub usable_in_version_1: Vec<String>,
    /// The result of a trial group where berth would make its own, or the reason why none could be made.
    pub trial: Result<CgroupTrial, String>,
}

/// The features of a trial group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupTrial {
    /// The group it was made in, or for which systemd makes a scope.
    pub place: PathBuf,
    /// The controllers that groups there could be given.
    pub controllers: Vec<String>,
    /// True if all processes of a group can be killed at once (`cgroup.kill`).
    pub has_kill: bool,
    /// The result of starting a process in the group; the error says why it failed. `None` if only a keeper could try.
    pub birth: Option<Result<(), String>>,
}

/// Reads the mounts and makes a trial group.
pub fn cgroup_facts() -> CgroupFacts {
    let mount = find_mount();
    let in_version_1 = mounts().map(|mounts| version_1_controllers(&mounts)).unwrap_or_default();
    let trial = mount.clone().and_then(|mount| match SystemdManager::reach() {
        Ok(manager) => try_in_scope(&mount, manager),
        Err(why) => place_in(&mount)
            .and_then(|place| try_in(&place))
            .map_err(|no_place| if systemd::is_systemd_running() { why } else { no_place }),
    });
    let may_use = |name: &&String| {
        let group = crate::cgroup::old_group(name);
        group.is_some_and(|group| access(&group, Access::WRITE_OK).is_ok())
    };
    let usable_in_version_1 = in_version_1.iter().filter(may_use).cloned().collect();
    CgroupFacts { mount, in_version_1, usable_in_version_1, trial }
}

/// The directory in which berth would make a group.
fn place_in(mount: &Path) -> Result<PathBuf, String> {
    let user = rustix::process::geteuid();
    let part = if user.is_root() { mount.to_owned() } else { mount.join(delegated_part(user.as_raw())?) };
    let ours = part.join("berth");
    Ok(if ours.is_dir() { ours } else { part })
}

fn try_in(place: &Path) -> Result<CgroupTrial, String> {
    let group = TrialGroup::make(place)
        .map_err(|error| format!("cannot make a group in {}: {}", place.display(), reason(&error)))?;
    let words = |text: String| text.split_ascii_whitespace().map(str::to_owned).collect();
    Ok(CgroupTrial {
        place: place.to_owned(),
        controllers: fs::read_to_string(place.join("cgroup.controllers")).map(words).unwrap_or_default(),
        has_kill: group.0.join("cgroup.kill").exists(),
        birth: Some(bear_in(&group.0)),
    })
}

/// Makes a scope for a shell, as is done for a keeper.
fn try_in_scope(mount: &Path, manager: SystemdManager) -> Result<CgroupTrial, String> {
    let waiting = WaitingShell::start(None)?;
    let pid = waiting.child.pid;
    manager.make_scope(pid, "doctor", "Trial of berth doctor")?;
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|error| reason(&error))?;
    let place = cgroups.lines().find_map(|line| line.strip_prefix("0::/"));
    let place = place.ok_or("systemd made a scope, but not in the hierarchy of version 2")?;
    let scope = mount.join(place);
    let mut trial = try_in(&scope)?;
    // The scope ends with the shell.
    trial.place = scope.parent().unwrap_or(&scope).to_owned();
    // Only a process in the scope can tell that it does not work: the kernel refuses to let a process of a login put
    // another one there.
    trial.birth = trial.birth.filter(Result::is_ok);
    Ok(trial)
}

/// A trial group, removed on drop.
struct TrialGroup(PathBuf);

impl TrialGroup {
    fn make(place: &Path) -> io::Result<TrialGroup> {
        let mut name = [0; 8];
        random_bytes(&mut name)?;
        let path = place.join(format!("berth-doctor-{:016x}", u64::from_ne_bytes(name)));
        fs::create_dir(&path)?;
        Ok(TrialGroup(path))
    }
}

impl Drop for TrialGroup {
    fn drop(&mut self) {
        let until = Instant::now() + REMOVAL_PATIENCE;
        // The group is busy for an instant after its last process is gone.
        while fs::remove_dir(&self.0).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts a shell in the group, and checks which group it is in.
fn bear_in(group: &Path) -> Result<(), String> {
    let directory = open(group, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let directory = directory.map_err(|error| reason(&error.into()))?;
    let waiting = WaitingShell::start(Some(directory.as_fd()))?;
    let members = fs::read_to_string(group.join("cgroup.procs")).map_err(|error| reason(&error))?;
    if members.lines().any(|line| line.parse() == Ok(waiting.child.pid)) {
        Ok(())
    } else {
        Err("the kernel refuses it".to_owned())
    }
}

/// A shell that waits for its input to end, and is collected when dropped.
struct WaitingShell {
    child: ChildProcess,
    input: Option<OwnedFd>,
}

impl WaitingShell {
    fn start(cgroup: Option<BorrowedFd<'_>>) -> Result<Self, String> {
        let (theirs, input) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| reason(&io::Error::from(error)))?;
        let null = File::options().write(true).open("/dev/null").map_err(|error| reason(&error))?;
        let args: [OsString; 3] = ["sh".into(), "-c".into(), "read x".into()];
        let child = spawn(&SpawnOptions {
            program: Path::new("/bin/sh"),
            args: &args,
            env: &[],
            cwd: Path::new("/"),
            stdio: ChildStdio::Files { stdin: theirs.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
            keep: &[],
            cgroup,
            joins: &[],
        });
        Ok(Self { child: child.map_err(|error| error.to_string())?, input: Some(input) })
    }
}

impl Drop for WaitingShell {
    fn drop(&mut self) {
        // The shell reads the end of its input now, and ends.
        self.input = None;
        let _ = crate::proc::retry(|| waitid(WaitId::PidFd(self.child.pidfd.as_fd()), WaitIdOptions::EXITED));
    }
}

fn version_1_controllers(mounts: &[MountEntry]) -> Vec<String> {
    let wanted = ["memory", "pids", "cpu"];
    let has = |controller: &str| {
        let in_options = |mount: &&MountEntry| mount.options.split(',').any(|option| option == controller);
        mounts.iter().filter(|mount| mount.kind == "cgroup").any(|mount| in_options(&mount))
    };
    wanted.into_iter().filter(|controller| has(controller)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_version_1_are_found_by_the_options_of_its_mounts() {
        let mount = |kind: &str, options: &str| MountEntry {
            point: "/x".into(),
            kind: kind.to_owned(),
            options: options.to_owned(),
        };
        let mounts =
            [mount("cgroup", "rw,cpu,cpuacct"), mount("cgroup", "rw,memory"), mount("cgroup2", "rw,pids")];
        assert_eq!(version_1_controllers(&mounts), ["memory", "cpu"]);
    }

    #[test]
    fn a_look_leaves_no_group_behind() {
        let found = cgroup_facts();
        if let Ok(trial) = &found.trial {
            let left = fs::read_dir(&trial.place).unwrap().flatten();
            let ours = |name: &OsString| name.to_string_lossy().starts_with("berth-doctor-");
            // Another test, or a person, may have one there at this very moment; not for long.
            let mut left: Vec<PathBuf> =
                left.filter(|entry| ours(&entry.file_name())).map(|entry| entry.path()).collect();
            let until = Instant::now() + Duration::from_secs(30);
            while !left.is_empty() && Instant::now() < until {
                left.retain(|path| path.exists());
            }
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
