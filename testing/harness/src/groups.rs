//! Control groups of a lab's sessions, by their names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_host::cgroup::{self, CgroupV2};

/// Groups of runs of these sessions: `ID.EPOCH` where runs have theirs, and `berth-ID.EPOCH` in the groups of
/// version 1 that this process is in.
pub(crate) fn named_after(ids: &[&str]) -> Vec<PathBuf> {
    let mut places = old_groups_of_mine();
    places.extend(cgroup::keeper_place().ok().and_then(|place| place.path().parent().map(PathBuf::from)));
    let is_of_a_session = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let run = name.strip_prefix("berth-").unwrap_or(name);
        run.split_once('.').is_some_and(|(id, _)| ids.contains(&id))
    };
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_of_a_session).collect()
}

/// Removes a group, and kills the processes in it, which are the lab's own.
pub(crate) fn remove(group: &Path) {
    let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Ok(Some(group)) = CgroupV2::open(group, name) {
        let _ = group.kill();
    }
    let until = Instant::now() + Duration::from_secs(10);
    while fs::remove_dir(group).is_err() && group.exists() && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// Where version 1 is mounted, with the group of this process in it.
fn old_groups_of_mine() -> Vec<PathBuf> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (mounts, mine) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let mut groups = Vec::new();
    for line in mounts.lines() {
        let Some((mount, system)) = line.split_once(" - ") else { continue };
        let Some(options) = system.strip_prefix("cgroup ").and_then(|rest| rest.rsplit(' ').next()) else {
            continue;
        };
        let Some(point) = mount.split(' ').nth(4) else { continue };
        for group in mine.lines() {
            let mut fields = group.splitn(3, ':').skip(1);
            let (Some(list), Some(path)) = (fields.next(), fields.next()) else { continue };
            let shared =
                list.split(',').any(|name| !name.is_empty() && options.split(',').any(|one| one == name));
            if shared {
                groups.push(Path::new(point).join(path.trim_start_matches('/')));
            }
        }
    }
    groups
}
