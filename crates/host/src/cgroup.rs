//! Control groups: a place for keepers outside the login session that started them, and a group of
//! its own for each run.
//!
//! Promise: every directory used here is in the version 2 hierarchy (limits may be in version 1 where
//! the controllers are), and a group is killed or removed only by its full name.
//! Not here: the assignment of groups to runs.
//! Start with [`keeper_place`] and [`CgroupV2`].

mod group;
mod limits;
mod scope;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstatfs, mkdir, open, statfs};
use rustix::io::Errno;

pub use group::{CgroupMembers, CgroupV2, CgroupWatch};
pub(crate) use limits::old_group;
pub use limits::{CgroupLimits, LimitCgroups, PREFIX as LIMIT_PREFIX, leave_inherited_limits, oom_kills};
pub use scope::{scope_name, scope_of_mine};

use crate::reason;
use crate::systemd::{self, SystemdManager};

/// The number of the version 2 hierarchy in `statfs`.
const CGROUP2: i64 = 0x6367_7270;
/// The usual mount points: alone, or beside version 1. Any other place costs a read of all mounts.
const USUAL_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The top directory of berth in the hierarchy.
const TOP: &str = "berth";
/// The group below it that holds keepers. A group with controllers for its children may hold no process.
const KEEPERS: &str = "keepers";

/// The cgroup for keepers, made if missing. For root it is `berth/keepers` at the top. For another user
/// it is `berth/keepers` in the part of the tree that systemd leaves to that user, if we run in that part
/// ourselves: the kernel moves no process across a boundary that the user may not write to.
pub fn keeper_place() -> Result<CgroupV2, String> {
    let place = place_of_keepers()?;
    if let Some(group) = find_place(&place) {
        return Ok(group);
    }
    let path = find_mount()?.join(&place);
    for dir in [path.parent().unwrap_or(&path), &path] {
        make(dir)?;
    }
    let fd = open_directory(&path)
        .map_err(|error| format!("cannot open the cgroup {}: {}", path.display(), reason(&error.into())))?;
    Ok(CgroupV2 { path, fd })
}

fn place_of_keepers() -> Result<PathBuf, String> {
    let user = rustix::process::geteuid();
    let below = if user.is_root() { PathBuf::new() } else { delegated_part(user.as_raw())? };
    Ok(below.join(TOP).join(KEEPERS))
}

/// The group of keepers, if it exists. Usually it exists from the last time, and one open finds it.
fn find_place(place: &Path) -> Option<CgroupV2> {
    USUAL_MOUNTS.iter().find_map(|mount| {
        let path = Path::new(mount).join(place);
        let fd = open_directory(&path).ok()?;
        is_cgroup2(&fd).then_some(CgroupV2 { path, fd })
    })
}

/// The directory in which groups for runs may be made: in the scope of this process, or beside the group of keepers
/// that it is in.
pub fn place_for_runs() -> Result<PathBuf, String> {
    if let Some(scope) = scope_of_mine() {
        return Ok(scope);
    }
    let mine = own_group()?;
    let inside = |path: &Path| {
        let top = path.parent()?;
        (path.ends_with(Path::new(TOP).join(KEEPERS))).then(|| top.to_owned())
    };
    match inside(&mine) {
        Some(top) => Ok(find_mount()?.join(top.strip_prefix("/").unwrap_or(&top))),
        // The parent could not put this process into a scope; this says why.
        None if systemd::is_systemd_running() => Err(SystemdManager::reach().err().unwrap_or_else(|| {
            format!("systemd gave this process no scope when it was started: it runs in {}", mine.display())
        })),
        None => Err(keeper_place()
            .err()
            .unwrap_or_else(|| format!("this process runs in the cgroup {}", mine.display()))),
    }
}

/// The group of the version 2 hierarchy that this process is in, from the top of what it can see.
fn own_group() -> Result<PathBuf, String> {
    let text = own_groups()?;
    let mine = text.lines().find_map(|line| line.strip_prefix("0::"));
    mine.map(PathBuf::from).ok_or_else(|| "this process is in no cgroup of version 2".to_owned())
}

/// The name of the version 2 group a process is in, without the path to it.
pub fn group_of_process(pid: u32) -> io::Result<Option<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(path.and_then(|path| path.rsplit('/').next()).map(str::to_owned))
}

/// The existing groups of runs, of all state directories; none if there is no place for them. Groups in the scopes of
/// keepers are not included.
pub fn groups_of_runs() -> io::Result<Vec<PathBuf>> {
    let place = place_of_keepers().ok();
    let found = place.as_ref().map(|place| find_mount().map(|mount| mount.join(place)));
    let Some(Ok(keepers)) = found else { return Ok(vec![]) };
    let top = keepers.parent().unwrap_or(&keepers);
    let is_ours = |name: &str| name != KEEPERS;
    groups_called(top, is_ours)
}

/// The groups of version 1 that were made for limits of runs, beside the ones this process is in.
pub fn old_groups_of_runs() -> io::Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    for parent in limits::old_groups() {
        groups.extend(groups_called(&parent, |name| name.starts_with(limits::PREFIX))?);
    }
    Ok(groups)
}

fn groups_called(parent: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(groups),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&is_wanted) && entry.file_type()?.is_dir() {
            groups.push(entry.path());
        }
    }
    Ok(groups)
}

fn own_groups() -> Result<String, String> {
    fs::read_to_string("/proc/self/cgroup")
        .map_err(|error| format!("cannot read /proc/self/cgroup: {}", reason(&error)))
}

fn make(path: &Path) -> Result<(), String> {
    match mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(format!("cannot make the cgroup {}: {}", path.display(), reason(&error.into()))),
    }
}

fn is_cgroup2(fd: impl AsFd) -> bool {
    fstatfs(fd).is_ok_and(|system| system.f_type == CGROUP2)
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    // A link could lead anywhere, and whole groups are killed. So links are not followed.
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The path of `user@UID.service` that we run in, from the top of the hierarchy.
pub(crate) fn delegated_part(uid: u32) -> Result<PathBuf, String> {
    let text = own_groups()?;
    delegated_part_of(&text, uid).ok_or_else(|| {
        format!(
            "this process does not run in user@{uid}.service, the part of the cgroup tree that belongs to you"
        )
    })
}

fn delegated_part_of(cgroups: &str, uid: u32) -> Option<PathBuf> {
    let mine = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let service = format!("user@{uid}.service");
    let depth = mine.split('/').position(|part| part == service)?;
    Some(mine.split('/').take(depth + 1).collect())
}

/// The mount point of the version 2 hierarchy.
pub(crate) fn find_mount() -> Result<PathBuf, String> {
    for mount in USUAL_MOUNTS {
        if statfs(mount).is_ok_and(|system| system.f_type == CGROUP2) {
            return Ok(PathBuf::from(mount));
        }
    }
    let mounts = fs::read("/proc/self/mountinfo")
        .map_err(|error| format!("cannot read /proc/self/mountinfo: {}", reason(&error)))?;
    mount_in(&String::from_utf8_lossy(&mounts))
        // The list of mounts has also those that another mount hides.
        .filter(|mount| statfs(mount).is_ok_and(|system| system.f_type == CGROUP2))
        .ok_or_else(|| "no cgroup hierarchy of version 2 is mounted".to_owned())
}

/// The first mount of type `cgroup2` that shows the hierarchy from its top.
fn mount_in(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (system.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(unescape(point)))
    })
}

/// The kernel writes a space in a mount point as `\040`, and so on.
pub(crate) fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_by_type_wherever_it_is() {
        let mounts = "37 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      38 31 0:38 /part /x rw,relatime - cgroup2 cgroup2 rw\n\
                      41 31 0:38 / /odd\\040place rw,relatime shared:9 - cgroup2 none rw\n";
        assert_eq!(mount_in(mounts), Some("/odd place".into()));
        assert_eq!(mount_in("40 31 0:37 / /sys rw - sysfs sysfs rw\n"), None);
    }

    #[test]
    fn the_part_of_a_user_is_found_only_from_inside() {
        let inside = "4:memory:/x\n0::/user.slice/user-7.slice/user@7.service/app.slice/t.scope\n";
        assert_eq!(delegated_part_of(inside, 7), Some("user.slice/user-7.slice/user@7.service".into()));
        assert_eq!(delegated_part_of(inside, 8), None);
        assert_eq!(delegated_part_of("0::/user.slice/user-7.slice/session-3.scope\n", 7), None);
    }
}
