//! A place for keepers outside the login session that started them.
//!
//! Promise: the directory returned is in the version 2 hierarchy, and a process may be born there with
//! `CLONE_INTO_CGROUP` (see [`crate::spawn`]); or the reason why there is none.
//! Not here: one cgroup for each run, limits, killing.
//! Start with [`keeper_place`].

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstatfs, mkdir, open, statfs};
use rustix::io::Errno;

use crate::reason;

/// The number of the version 2 hierarchy in `statfs`.
const CGROUP2: i64 = 0x6367_7270;
/// Where it usually is: alone, or beside version 1. Elsewhere costs a look at all mounts.
const USUAL_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// An open cgroup directory.
#[derive(Debug)]
pub struct CgroupDir {
    /// Where it is.
    pub path: PathBuf,
    fd: OwnedFd,
}

impl AsFd for CgroupDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The cgroup for keepers, made if missing. For root it is `berth` at the top. For another user it is
/// `berth` in the part of the tree that systemd leaves to that user, if we run in that part ourselves:
/// the kernel moves nobody across a boundary that the user may not write to.
pub fn keeper_place() -> Result<CgroupDir, String> {
    let user = rustix::process::geteuid();
    let below = if user.is_root() { PathBuf::new() } else { delegated_part(user.as_raw())? };
    // Usually it exists from the last time, and one open finds it.
    for mount in USUAL_MOUNTS {
        let path = Path::new(mount).join(&below).join("berth");
        if let Ok(fd) = open_directory(&path)
            && fstatfs(&fd).is_ok_and(|system| system.f_type == CGROUP2)
        {
            return Ok(CgroupDir { path, fd });
        }
    }
    let path = find_mount()?.join(&below).join("berth");
    match mkdir(&path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => {
            return Err(format!("cannot make the cgroup {}: {}", path.display(), reason(&error.into())));
        }
    }
    let fd = open_directory(&path)
        .map_err(|error| format!("cannot open the cgroup {}: {}", path.display(), reason(&error.into())))?;
    Ok(CgroupDir { path, fd })
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The path of `user@UID.service` that we run in, from the top of the hierarchy.
fn delegated_part(uid: u32) -> Result<PathBuf, String> {
    let text = fs::read_to_string("/proc/self/cgroup")
        .map_err(|error| format!("cannot read /proc/self/cgroup: {}", reason(&error)))?;
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

/// Where the version 2 hierarchy is mounted.
fn find_mount() -> Result<PathBuf, String> {
    for mount in USUAL_MOUNTS {
        if statfs(mount).is_ok_and(|system| system.f_type == CGROUP2) {
            return Ok(PathBuf::from(mount));
        }
    }
    let mounts = fs::read("/proc/self/mountinfo")
        .map_err(|error| format!("cannot read /proc/self/mountinfo: {}", reason(&error)))?;
    mount_in(&String::from_utf8_lossy(&mounts))
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
fn unescape(text: &str) -> String {
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
