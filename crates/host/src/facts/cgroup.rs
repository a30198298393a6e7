//! What control groups offer here, by trying: a group is made, a process born in it, both removed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::{Mount, mounts};
use crate::cgroup::{delegated_part, find_mount};
use crate::spawn::{Child, Spawn, Stdio, spawn};
use crate::systemd::{self, Manager};
use crate::{random_bytes, reason};

/// How long a group may take to be empty after its last process was collected.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroups {
    /// Where version 2 is mounted, or why nowhere.
    pub mount: Result<PathBuf, String>,
    /// The controllers that version 1 has, and version 2 therefore has not.
    pub in_version_1: Vec<String>,
    /// Those of them that groups of ours there can be given.
    pub usable_in_version_1: Vec<String>,
    /// What came of making a group where those of berth would be made, or why none could be.
    pub trial: Result<Trial, String>,
}

/// What a group that was made for a moment could do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The group it was made in, or for which systemd makes a scope.
    pub place: PathBuf,
    /// The controllers that groups there could be given.
    pub controllers: Vec<String>,
    /// Whether all its processes can be killed at once (`cgroup.kill`).
    pub has_kill: bool,
    /// Whether a process can be born in it, or why not; nothing if only a keeper could try.
    pub birth: Option<Result<(), String>>,
}

/// Looks, and tries.
pub fn look() -> Cgroups {
    let mount = find_mount();
    let in_version_1 = mounts().map(|mounts| version_1_controllers(&mounts)).unwrap_or_default();
    let trial = mount.clone().and_then(|mount| match Manager::reach() {
        Ok(manager) => try_in_scope(&mount, manager),
        Err(why) => place_in(&mount)
            .and_then(|place| try_in(&place))
            .map_err(|no_place| if systemd::runs() { why } else { no_place }),
    });
    let may_use = |name: &&String| {
        let group = crate::cgroup::old_group(name);
        group.is_some_and(|group| access(&group, Access::WRITE_OK).is_ok())
    };
    let usable_in_version_1 = in_version_1.iter().filter(may_use).cloned().collect();
    Cgroups { mount, in_version_1, usable_in_version_1, trial }
}

/// Where a group of berth would be made.
fn place_in(mount: &Path) -> Result<PathBuf, String> {
    let user = rustix::process::geteuid();
    let part = if user.is_root() { mount.to_owned() } else { mount.join(delegated_part(user.as_raw())?) };
    let ours = part.join("berth");
    Ok(if ours.is_dir() { ours } else { part })
}

fn try_in(place: &Path) -> Result<Trial, String> {
    let group = Group::make(place)
        .map_err(|error| format!("cannot make a group in {}: {}", place.display(), reason(&error)))?;
    let words = |text: String| text.split_ascii_whitespace().map(str::to_owned).collect();
    Ok(Trial {
        place: place.to_owned(),
        controllers: fs::read_to_string(place.join("cgroup.controllers")).map(words).unwrap_or_default(),
        has_kill: group.0.join("cgroup.kill").exists(),
        birth: Some(bear_in(&group.0)),
    })
}

/// Does with a shell what is done with a keeper.
fn try_in_scope(mount: &Path, manager: Manager) -> Result<Trial, String> {
    let waiting = Waiting::start(None)?;
    let pid = waiting.child.pid;
    manager.make_scope(pid, "doctor", "Trial of berth doctor")?;
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|error| reason(&error))?;
    let place = cgroups.lines().find_map(|line| line.strip_prefix("0::/"));
    let place = place.ok_or("systemd made a scope, but not in the hierarchy of version 2")?;
    let scope = mount.join(place);
    let mut trial = try_in(&scope)?;
    // The scope ends with the shell.
    trial.place = scope.parent().unwrap_or(&scope).to_owned();
    // Only who is in the scope can tell that it does not work: the kernel lets nobody put a process there
    // from a login.
    trial.birth = trial.birth.filter(Result::is_ok);
    Ok(trial)
}

/// A group that goes away again.
struct Group(PathBuf);

impl Group {
    fn make(place: &Path) -> io::Result<Group> {
        let mut name = [0; 8];
        random_bytes(&mut name)?;
        let path = place.join(format!("berth-doctor-{:016x}", u64::from_ne_bytes(name)));
        fs::create_dir(&path)?;
        Ok(Group(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + REMOVAL_PATIENCE;
        // Busy for an instant after its last process is gone.
        while fs::remove_dir(&self.0).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts a shell in the group, and looks where it is.
fn bear_in(group: &Path) -> Result<(), String> {
    let directory = open(group, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let directory = directory.map_err(|error| reason(&error.into()))?;
    let waiting = Waiting::start(Some(directory.as_fd()))?;
    let members = fs::read_to_string(group.join("cgroup.procs")).map_err(|error| reason(&error))?;
    if members.lines().any(|line| line.parse() == Ok(waiting.child.pid)) {
        Ok(())
    } else {
        Err("the kernel refuses it".to_owned())
    }
}

/// A shell that waits for its input to end, and is collected when dropped.
struct Waiting {
    child: Child,
    input: Option<OwnedFd>,
}

impl Waiting {
    fn start(cgroup: Option<BorrowedFd<'_>>) -> Result<Self, String> {
        let (theirs, input) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| reason(&io::Error::from(error)))?;
        let null = File::options().write(true).open("/dev/null").map_err(|error| reason(&error))?;
        let args: [OsString; 3] = ["sh".into(), "-c".into(), "read x".into()];
        let child = spawn(&Spawn {
            program: Path::new("/bin/sh"),
            args: &args,
            env: &[],
            cwd: Path::new("/"),
            stdio: Stdio::Files { stdin: theirs.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
            keep: &[],
            cgroup,
            joins: &[],
        });
        Ok(Self { child: child.map_err(|error| error.to_string())?, input: Some(input) })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It reads the end of its input now, and ends.
        self.input = None;
        let _ = crate::proc::retry(|| waitid(WaitId::PidFd(self.child.pidfd.as_fd()), WaitIdOptions::EXITED));
    }
}

fn version_1_controllers(mounts: &[Mount]) -> Vec<String> {
    let wanted = ["memory", "pids", "cpu"];
    let has = |controller: &str| {
        let in_options = |mount: &&Mount| mount.options.split(',').any(|option| option == controller);
        mounts.iter().filter(|mount| mount.kind == "cgroup").any(|mount| in_options(&mount))
    };
    wanted.into_iter().filter(|controller| has(controller)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_version_1_are_found_by_the_options_of_its_mounts() {
        let mount = |kind: &str, options: &str| Mount {
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
        let found = look();
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
