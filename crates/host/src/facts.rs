//! Facts about this host: the kernel features, limits and services that it offers, for `berth doctor` and tests.
//!
//! Promise: every fact was tried or read just now, and no trial leaves anything behind.
//! Not here: judging a fact, and advice.
//! Start with [`cgroup::cgroup_facts`], [`disk::disk_facts`], [`limits`] and [`systemd::systemd_facts`].

pub mod cgroup;
pub mod disk;
pub mod limits;
pub mod systemd;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::unescape;
use crate::identity::{Pidfd, ProcessIdentity};
use crate::{process_tree, reason};

/// The version of the kernel.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Checks whether a descriptor can refer to a process (pidfd); the error says why not.
pub fn check_pidfds() -> Result<(), String> {
    let opened = Pidfd::open(std::process::id()).and_then(|pidfd| pidfd.signal(0));
    opened.map_err(|error| reason(&error))
}

/// Checks whether a process can adopt its orphaned descendants; the error says why not. From then on this process does.
pub fn check_subreaper() -> Result<(), String> {
    process_tree::become_subreaper().map_err(|error| reason(&error))
}

/// How `/proc` is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcMount {
    /// The value of the mount option `hidepid`, if processes of other users are hidden.
    pub hides: Option<String>,
}

/// Reads how `/proc` is mounted; the error says why it cannot be used.
pub fn proc_mount() -> Result<ProcMount, String> {
    ProcessIdentity::me().map_err(|error| reason(&error))?;
    let mounts = mounts().map_err(|error| reason(&error))?;
    let proc = mounts.iter().rev().find(|mount| mount.point == Path::new("/proc"));
    let options = proc.map(|mount| mount.options.as_str()).unwrap_or_default();
    Ok(ProcMount { hides: hidden_by(options) })
}

fn hidden_by(options: &str) -> Option<String> {
    let value = options.split(',').find_map(|option| option.strip_prefix("hidepid="))?;
    (!matches!(value, "0" | "off")).then(|| value.to_owned())
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountEntry {
    pub(crate) point: PathBuf,
    pub(crate) kind: String,
    /// The options of the file system itself, not of the mount point.
    pub(crate) options: String,
}

/// All mounts, in the order in which they were made.
pub(crate) fn mounts() -> io::Result<Vec<MountEntry>> {
    let text = fs::read("/proc/self/mountinfo")?;
    Ok(mounts_in(&String::from_utf8_lossy(&text)))
}

fn mounts_in(mountinfo: &str) -> Vec<MountEntry> {
    let parse = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let point = PathBuf::from(unescape(mount.split(' ').nth(4)?));
        let mut system = system.split(' ');
        let kind = system.next()?.to_owned();
        Some(MountEntry { point, kind, options: system.nth(1).unwrap_or_default().to_owned() })
    };
    mountinfo.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_kind_and_options() {
        let text = "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw,hidepid=2\nrubbish\n";
        let found = mounts_in(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].point.as_path(), found[0].kind.as_str()), (Path::new("/proc"), "proc"));
        assert_eq!(hidden_by(&found[0].options).as_deref(), Some("2"));
        assert_eq!(
            (hidden_by("rw"), hidden_by("rw,hidepid=0"), hidden_by("hidepid=off")),
            (None, None, None)
        );
        assert_eq!(hidden_by("rw,hidepid=invisible").as_deref(), Some("invisible"));
    }

    #[test]
    fn this_host_can_hold_and_adopt_processes() {
        assert_eq!((check_pidfds(), check_subreaper()), (Ok(()), Ok(())));
        assert!(proc_mount().is_ok());
        assert!(!kernel_release().is_empty());
    }
}
