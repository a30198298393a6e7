//! Examination of this host: features, the cost of each missing one, and how to fix it.
//!
//! Promise: the examination leaves nothing behind.
//! Start with [`examine`]. The facts come from `berth_host::facts`; the texts and the limits between good and bad are
//! here.

use std::path::Path;

use berth_host::dir::{self, DirError};
use berth_host::facts;
use berth_host::facts::cgroup::{CgroupFacts, CgroupTrial};
use berth_host::facts::disk::DiskFacts;
use berth_host::facts::limits::ResourceUsage;
use berth_host::facts::systemd::SystemdFacts;
use berth_store::StateDir;
use berth_store::notifications::{DeliveryOutcome, NotificationDelivery, NotificationDir};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{format, setup};

/// Less free space than this is little on any disk.
const LITTLE_ROOM_BYTES: u64 = 1 << 30;
/// More free space than this is plenty, whatever share of the disk it is.
const MUCH_ROOM_BYTES: u64 = 20 << 30;
/// Without this much space a journal cannot be created.
const NO_ROOM_BYTES: u64 = 64 << 10;
/// Fewer free inodes than this are little: a session takes about ten.
const FEW_FILES: u64 = 1000;
/// A disk with less than this percentage left is nearly full.
const LITTLE_PERCENT: u64 = 5;
/// Fewer free terminals than this are little: a session takes one.
const FEW_TERMINALS: u64 = 32;
/// Fewer free processes than this are little: an agent with its tools takes dozens of processes and threads.
const FEW_PROCESSES: u64 = 512;
/// A lower limit for open files is too small for a keeper with all its clients, and for an agent.
const FEW_OPEN_FILES: u64 = 256;

/// Fix for a state directory that cannot be used.
const ELSEWHERE: &str = "export BERTH_HOME=DIR, with DIR on a local disk";
/// Result of the whole examination.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Examination")]
pub struct DoctorReport {
    /// True if berth can work on this host.
    pub usable: bool,
    /// Number of features that are limited or missing.
    pub limited: usize,
    /// Name and version of the kernel.
    pub kernel: String,
    /// The examined features, one row each.
    pub rows: Vec<HostCheck>,
}

/// Condition of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Condition")]
pub enum CheckState {
    /// The feature works fully.
    Ok,
    /// The feature works with restrictions; `cost` says which.
    Limited,
    /// The feature does not exist.
    Missing,
}

/// One examined feature.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Examined")]
pub struct HostCheck {
    /// Name of the feature.
    pub name: &'static str,
    /// Condition of the feature.
    pub state: CheckState,
    /// True if berth cannot work without the feature.
    pub needed: bool,
    /// Finding, in words.
    pub found: String,
    /// Consequence of a limited or missing feature.
    pub cost: Option<String>,
    /// Command or setting that would fix it.
    pub fix: Option<String>,
}

impl HostCheck {
    fn new(name: &'static str, state: CheckState, found: impl Into<String>) -> Self {
        Self { name, state, needed: false, found: found.into(), cost: None, fix: None }
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckState::Ok, found)
    }

    fn limited(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckState::Limited, found)
    }

    fn missing(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckState::Missing, found)
    }

    fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    fn cost(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Examines every feature.
pub fn examine() -> DoctorReport {
    let rows = rows();
    let unusable = rows.iter().any(|row| row.needed && row.state == CheckState::Missing);
    let limited = rows.iter().filter(|row| row.state != CheckState::Ok).count();
    DoctorReport { usable: !unusable, limited, kernel: facts::kernel_release(), rows }
}

fn rows() -> Vec<HostCheck> {
    let mut rows = state_directory();
    rows.push(processes_of_others());
    rows.push(pidfds());
    rows.push(subreaper());
    let is_root = rustix::process::geteuid().is_root();
    let cgroups = facts::cgroup::cgroup_facts();
    let systemd = facts::systemd::systemd_facts();
    rows.extend(control_groups(&cgroups, is_root, systemd.as_ref()));
    match &systemd {
        Some(systemd) => rows.extend(systemd_rows(systemd)),
        None => rows.push(HostCheck::ok("systemd", "not used on this host: nothing ends with a login")),
    }
    rows.push(terminals());
    rows.push(process_limits());
    rows.push(open_files(facts::limits::open_file_limits()));
    rows.extend(notifications());
    rows.extend(hooks());
    rows
}

/// Checks that the hooks for agents that are started by hand are installed and work.
fn hooks() -> Vec<HostCheck> {
    const NAME: &str = "hooks";
    const COST: &str =
        "berth gives no warning about a second writer of a conversation that is opened by hand";
    let Ok(root) = StateDir::place() else { return vec![] };
    let mut rows = Vec::new();
    for (agent, plan) in [("claude", setup::claude(&root, false)), ("codex", setup::codex(&root, false))] {
        let fix = format!("berth setup {agent}");
        rows.push(match plan {
            Ok(plan) if plan.is_done() && plan.notes.is_empty() => {
                HostCheck::ok(NAME, format!("set up for {agent}"))
            }
            Ok(plan) if plan.is_done() => {
                HostCheck::limited(NAME, format!("{agent}: {}", plan.notes.join("; "))).cost(COST)
            }
            // A user who never installed the hooks may not need them.
            Ok(plan) if plan.is_new => HostCheck::ok(
                NAME,
                format!("not set up for {agent}; runs of berth bring their own (`{fix}`)"),
            ),
            Ok(_) => {
                HostCheck::limited(NAME, format!("incomplete or outdated for {agent}")).cost(COST).fix(fix)
            }
            Err(problem) => HostCheck::limited(NAME, problem.what).cost(COST).fix(fix),
        });
    }
    let link = berth_conversations::injected_hooks::hook_link_path(&root);
    if link.is_symlink() && !link.exists() {
        let found = format!("{} is a broken link: berth was moved", link.display());
        rows.push(HostCheck::limited(NAME, found).cost(COST).fix("berth setup claude"));
    }
    let found = berth_conversations::open_conversations::OpenConversations::of(&root).all();
    if found.left_out > 0 {
        let found =
            format!("{} records of open conversations were not read: there are too many", found.left_out);
        rows.push(HostCheck::limited(NAME, found).cost(COST).fix("berth sweep"));
    }
    let damaged = found.damaged;
    if let Some(first) = damaged.first() {
        let found = format!(
            "{} records of open conversations cannot be read: {} ({})",
            damaged.len(),
            first.file.display(),
            first.why
        );
        rows.push(HostCheck::limited(NAME, found).cost(COST).fix("remove them once they are not in use"));
    }
    rows
}

/// Checks that notifications reach the user. No row if no notification was ever sent.
fn notifications() -> Option<HostCheck> {
    const NAME: &str = "notifications";
    let desk = NotificationDir::existing(&StateDir::at(StateDir::place().ok()?))?;
    let deliveries = desk.deliveries().unwrap_or_default();
    let last = deliveries.last()?;
    let Some(failed) = unmended(&deliveries) else {
        return Some(HostCheck::ok(NAME, format!("the last one was {} ago", format::age_since(last.at))));
    };
    let channel = Some(failed.channel.as_str()).filter(|name| !name.is_empty()).unwrap_or("telling");
    let found = format!(
        "{channel} failed {} ago: {}",
        format::age_since(failed.at),
        format::escape_control_characters(&failed.detail)
    );
    Some(
        HostCheck::limited(NAME, found)
            .cost("you are not told when a session needs you")
            .fix("berth notify log shows more, berth notify test tries it again"),
    )
}

/// The last failure that no success of the same channel followed.
fn unmended(deliveries: &[NotificationDelivery]) -> Option<&NotificationDelivery> {
    let at = deliveries.iter().rposition(|it| it.outcome == DeliveryOutcome::Failed)?;
    let failed = &deliveries[at];
    let is_mended = deliveries[at..].iter().any(|later| {
        later.outcome == DeliveryOutcome::Sent
            && (failed.channel.is_empty() || later.channel == failed.channel)
    });
    (!is_mended).then_some(failed)
}

fn state_directory() -> Vec<HostCheck> {
    const NAME: &str = "state directory";
    const COST: &str = "berth has no place to keep sessions";
    let root = match StateDir::place() {
        Ok(root) => root,
        Err(problem) => {
            let row = HostCheck::missing(NAME, problem.what).needed().cost(COST);
            return vec![row.fix(problem.hint.unwrap_or_else(|| ELSEWHERE.to_owned()))];
        }
    };
    let disk = match facts::disk::disk_facts(&root) {
        Ok(disk) => disk,
        Err(error) => {
            let found = format!("{} cannot be examined: {error}", root.display());
            return vec![HostCheck::missing(NAME, found).needed().cost(COST).fix(ELSEWHERE)];
        }
    };
    let place = match (usable(&root, &disk), disk.exists) {
        (Err((what, fix)), _) => HostCheck::missing(NAME, what).needed().cost(COST).fix(fix),
        (Ok(()), true) => {
            HostCheck::ok(NAME, format!("{} on {}, private", root.display(), disk.kind)).needed()
        }
        (Ok(()), false) => {
            let found = format!("{} on {}, made by the first session", root.display(), disk.kind);
            HostCheck::ok(NAME, found).needed()
        }
    };
    if place.state != CheckState::Ok {
        return vec![place];
    }
    vec![place, room(&disk), locks(&disk.dir)]
}

/// Checks that the state directory is usable, or can be created; the error has the reason and the fix.
fn usable(root: &Path, disk: &DiskFacts) -> Result<(), (String, String)> {
    if disk.exists {
        return dir::private_dir(root).map_err(|error| match error {
            DirError::Open { .. } => (error.to_string(), format!("chmod 700 {}", root.display())),
            DirError::Make { .. }
            | DirError::Look { .. }
            | DirError::Link(_)
            | DirError::NotDirectory(_)
            | DirError::Owner { .. }
            | DirError::Network { .. } => (error.to_string(), ELSEWHERE.to_owned()),
        });
    }
    let above = disk.dir.display();
    let what = match dir::untrusted_kind(&disk.dir) {
        Ok(None) if disk.writable => return Ok(()),
        Ok(None) => format!("{} cannot be made: you may not write to {above}", root.display()),
        Ok(Some(kind)) => format!("{} would be on {kind}, where locks cannot be trusted", root.display()),
        Err(error) => format!("{above} cannot be examined: {error}"),
    };
    Err((what, ELSEWHERE.to_owned()))
}

fn room(disk: &DiskFacts) -> HostCheck {
    const NAME: &str = "room";
    let percent = |free: u64, total: u64| (u128::from(free) * 100 / u128::from(total.max(1))) as u64;
    let bytes_percent = percent(disk.free_bytes, disk.total_bytes);
    let mut found = format!(
        "{} free of {} ({bytes_percent} %)",
        format::describe_size(disk.free_bytes),
        format::describe_size(disk.total_bytes)
    );
    let mut few_files = false;
    if let Some(free) = disk.free_files {
        let files_percent = percent(free, disk.total_files);
        few_files = free < FEW_FILES || (files_percent < LITTLE_PERCENT && free < 100 * FEW_FILES);
        found.push_str(&format!(", {free} more files ({files_percent} %)"));
    }
    let is_full = disk.free_bytes < NO_ROOM_BYTES || disk.free_files == Some(0);
    let is_little = disk.free_bytes < LITTLE_ROOM_BYTES
        || (bytes_percent < LITTLE_PERCENT && disk.free_bytes < MUCH_ROOM_BYTES);
    let fix = format!("free some: du -xh --max-depth=1 {}", disk.dir.display());
    if is_full {
        HostCheck::missing(NAME, found)
            .needed()
            .cost("no session can be started: there is no room for its record")
            .fix(fix)
    } else if is_little || few_files {
        let cost = "when it is used up, no session can be started, and those that run wait for room before \
                    they answer";
        HostCheck::limited(NAME, found).needed().cost(cost).fix(fix)
    } else {
        HostCheck::ok(NAME, found).needed()
    }
}

fn locks(dir: &Path) -> HostCheck {
    const NAME: &str = "locks";
    const COST: &str = "two keepers could hold one session: berth must not be used there";
    match facts::disk::locks_hold(dir) {
        Ok(true) => HostCheck::ok(NAME, "a lock there excludes other processes").needed(),
        Ok(false) => HostCheck::missing(NAME, "two processes can hold one lock at the same time")
            .needed()
            .cost(COST)
            .fix(ELSEWHERE),
        Err(why) => {
            HostCheck::missing(NAME, format!("cannot take a lock: {why}")).needed().cost(COST).fix(ELSEWHERE)
        }
    }
}

fn processes_of_others() -> HostCheck {
    const NAME: &str = "/proc";
    match facts::proc_mount() {
        Ok(facts::ProcMount { hides: None }) => HostCheck::ok(NAME, "shows all processes").needed(),
        Ok(facts::ProcMount { hides: Some(_) }) if rustix::process::geteuid().is_root() => {
            HostCheck::ok(NAME, "hides processes from other users, not from root").needed()
        }
        Ok(facts::ProcMount { hides: Some(value) }) => {
            HostCheck::limited(NAME, format!("hides the processes of others (hidepid={value})"))
                .needed()
                .cost("`berth ps --port` cannot name the process that listens on another user's port; nothing of your own is hidden")
                .fix("mount -o remount,hidepid=0 /proc")
        }
        Err(why) => HostCheck::missing(NAME, format!("cannot be used: {why}"))
            .needed()
            .cost("berth cannot identify processes, and cannot work")
            .fix("mount -t proc proc /proc"),
    }
}

fn pidfds() -> HostCheck {
    const NAME: &str = "pidfd";
    match facts::check_pidfds() {
        Ok(()) => HostCheck::ok(NAME, "signals reach exactly the intended process").needed(),
        Err(why) => HostCheck::missing(NAME, format!("not available: {why}"))
            .needed()
            .cost("berth signals processes only through a pidfd, so it cannot end a run")
            .fix("Linux 5.4 or newer; in a container, a seccomp profile that allows pidfd_open and pidfd_send_signal"),
    }
}

fn subreaper() -> HostCheck {
    const NAME: &str = "subreaper";
    match facts::check_subreaper() {
        Ok(()) => HostCheck::ok(NAME, "a keeper adopts the orphans of its agent").needed(),
        Err(why) => HostCheck::missing(NAME, format!("orphans cannot be adopted: {why}"))
            .needed()
            .cost("processes that an agent starts could leave its session and outlive it")
            .fix("a kernel or container that allows prctl(PR_SET_CHILD_SUBREAPER)"),
    }
}

fn control_groups(found: &CgroupFacts, is_root: bool, systemd: Option<&SystemdFacts>) -> Vec<HostCheck> {
    const NAME: &str = "cgroup v2";
    const COST: &str = "keepers stay in the group they are started from, so whatever ends that group (a logout, a \
                        service restart) takes them along; a run is held by the process tree alone";
    let mount = match &found.mount {
        Ok(mount) => mount.display(),
        Err(why) => {
            let fix = if is_root {
                "mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2"
            } else {
                "sudo mkdir -p /run/cgroup2 && sudo mount -t cgroup2 none /run/cgroup2"
            };
            return vec![HostCheck::missing(NAME, why.clone()).cost(COST).fix(fix)];
        }
    };
    let beside = if found.in_version_1.is_empty() { "" } else { ", beside version 1" };
    let trial = match &found.trial {
        Ok(trial) => trial,
        Err(why) => {
            let fix = if is_root {
                format!("mount -o remount,rw {mount}; in a container, give it a writable cgroup of its own")
            } else if let Some(systemd) = systemd {
                enable_linger(systemd)
            } else {
                "none for an ordinary user without systemd, which would hand you a part of the tree"
                    .to_owned()
            };
            return vec![
                HostCheck::limited(NAME, format!("at {mount}{beside}, but {why}")).cost(COST).fix(fix),
            ];
        }
    };
    let group =
        HostCheck::ok(NAME, format!("at {mount}{beside}; groups can be made in {}", trial.place.display()));
    let rows =
        [Some(group), trial.birth.as_ref().map(birth), Some(kill(trial)), Some(controllers(found, trial))];
    rows.into_iter().flatten().collect()
}

fn birth(tried: &Result<(), String>) -> HostCheck {
    const NAME: &str = "born in a group";
    match tried {
        Ok(()) => HostCheck::ok(NAME, "a process can be started in a group of its own (CLONE_INTO_CGROUP)"),
        Err(why) => HostCheck::limited(NAME, format!("a process cannot be started in another group: {why}"))
            .cost("keepers stay in the group they are started from, and end with it")
            .fix("Linux 5.7 or newer; in a container, a seccomp profile that allows clone3"),
    }
}

fn kill(trial: &CgroupTrial) -> HostCheck {
    const NAME: &str = "cgroup.kill";
    if trial.has_kill {
        HostCheck::ok(NAME, "a whole group can be killed at once")
    } else {
        HostCheck::limited(NAME, format!("not in this kernel ({})", facts::kernel_release()))
            .cost("a run that makes processes faster than they are found takes longer to end")
            .fix("Linux 5.14 or newer")
    }
}

fn controllers(found: &CgroupFacts, trial: &CgroupTrial) -> HostCheck {
    const NAME: &str = "controllers";
    let wanted = ["memory", "pids", "cpu"];
    let has = |all: &[String], name: &str| all.iter().any(|one| one == name);
    let (here, absent): (Vec<&str>, Vec<&str>) =
        wanted.into_iter().partition(|name| has(&trial.controllers, name));
    let (old, absent): (Vec<&str>, Vec<&str>) =
        absent.into_iter().partition(|name| has(&found.usable_in_version_1, name));
    if absent.is_empty() {
        let old =
            if old.is_empty() { String::new() } else { format!("{} through version 1", old.join(", ")) };
        let ways: Vec<String> = [here.join(", "), old].into_iter().filter(|way| !way.is_empty()).collect();
        return HostCheck::ok(NAME, format!("can be limited: {}", ways.join("; ")));
    }
    let (in_1, nowhere): (Vec<&str>, Vec<&str>) =
        absent.iter().copied().partition(|name| has(&found.in_version_1, name));
    let mut told = Vec::new();
    if !in_1.is_empty() {
        told.push(format!("{} only in version 1, where you may make no group", in_1.join(", ")));
    }
    if !nowhere.is_empty() {
        told.push(format!("{} not handed down to {}", nowhere.join(", "), trial.place.display()));
    }
    let fix = if in_1.is_empty() {
        "systemctl edit user@.service, with [Service] Delegate=cpu memory pids"
    } else {
        "boot with systemd.unified_cgroup_hierarchy=1, or without the version 1 mounts"
    };
    HostCheck::limited(NAME, told.join("; ")).cost("no limit of that kind can be set for a run").fix(fix)
}

fn systemd_rows(found: &SystemdFacts) -> Vec<HostCheck> {
    let manager = match &found.manager {
        Ok(()) => HostCheck::ok("systemd", "its manager answers"),
        Err(why) => HostCheck::limited("systemd", format!("runs, but its manager does not answer: {why}"))
            .cost("keepers get no scope of their own, and end with the login or service that started them")
            .fix(match found.lingers {
                Some(_) => enable_linger(found),
                None => {
                    "log in with a full session (ssh, console, `machinectl shell`) and try again".to_owned()
                }
            }),
    };
    let linger = found.lingers.map(|lingers| {
        if lingers {
            return HostCheck::ok("linger", "your systemd manager outlives your last logout");
        }
        let cost = if found.kills_at_logout == Some(true) {
            "your systemd manager, and every session in it, ends soon after your last logout"
        } else {
            "your systemd manager ends soon after your last logout, so keepers stay in the login that starts \
             them, which survives but has no control groups to give"
        };
        HostCheck::limited("linger", "off").cost(cost).fix(enable_linger(found))
    });
    let logout = match found.kills_at_logout {
        Some(false) => HostCheck::ok("logout", "leaves processes alone (KillUserProcesses=no)"),
        Some(true) => HostCheck::limited("logout", "kills what the login started (KillUserProcesses=yes)")
            .cost("a session whose keeper could not leave the login's group ends with it")
            .fix("KillUserProcesses=no in /etc/systemd/logind.conf, then systemctl restart systemd-logind"),
        None => {
            HostCheck::ok("logout", "logind does not say what it does; usually it leaves processes alone")
        }
    };
    [Some(manager), linger, Some(logout)].into_iter().flatten().collect()
}

fn enable_linger(found: &SystemdFacts) -> String {
    format!("loginctl enable-linger {}", found.user.as_deref().unwrap_or("$USER"))
}

fn terminals() -> HostCheck {
    const NAME: &str = "terminals";
    match facts::limits::terminal_usage() {
        Ok(limit) => {
            let row =
                counted(NAME, &format!("{} of {} in use", limit.used, limit.most), limit, FEW_TERMINALS);
            let row = if row.state == CheckState::Missing { row.needed() } else { row };
            costly(row, "each session takes one; when they are used up, no session can be started", || {
                format!("sysctl kernel.pty.max={}", limit.most.max(1024).saturating_mul(4))
            })
        }
        Err(error) => HostCheck::limited(NAME, format!("cannot be counted: {error}"))
            .cost("berth cannot tell how many sessions there can be"),
    }
}

fn process_limits() -> HostCheck {
    const NAME: &str = "processes";
    const COST: &str = "an agent cannot start its tools, and fails with misleading errors";
    let pids = match facts::limits::pid_usage() {
        Ok(pids) => pids,
        Err(error) => return HostCheck::limited(NAME, format!("cannot be counted: {error}")).cost(COST),
    };
    let mut limits = vec![(
        format!("{} of {} on this host", pids.host.used, pids.host.most),
        pids.host,
        "sysctl kernel.pid_max=4194304".to_owned(),
    )];
    if let Some(user) = pids.user {
        limits.push((
            format!("{} of {} of this user (ulimit -u)", user.used, user.most),
            user,
            "ulimit -u unlimited, or nproc in /etc/security/limits.conf".to_owned(),
        ));
    }
    if let Some((group, limit)) = pids.group {
        let fix = format!("echo max > {}", group.join("pids.max").display());
        limits.push((format!("{} of {} in {}", limit.used, limit.most, group.display()), limit, fix));
    }
    let found = limits.iter().map(|(found, _, _)| found.as_str()).collect::<Vec<_>>().join(", ");
    let Some((_, tightest, fix)) = limits.iter().min_by_key(|(_, limit, _)| limit.left()) else {
        return HostCheck::ok(NAME, found);
    };
    costly(counted(NAME, &found, *tightest, FEW_PROCESSES), COST, || fix.clone())
}

fn open_files((now, most): (Option<u64>, Option<u64>)) -> HostCheck {
    const NAME: &str = "open files";
    let shown = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let found = format!("{} at a time, {} if asked for (ulimit -n)", shown(now), shown(most));
    match now {
        Some(now) if now < FEW_OPEN_FILES => HostCheck::limited(NAME, found)
            .cost("a keeper with many clients, and an agent with many files, runs out")
            .fix(if most.is_none_or(|most| most >= 1024) {
                "ulimit -n 1024"
            } else {
                "nofile in /etc/security/limits.conf"
            }),
        Some(_) | None => HostCheck::ok(NAME, found),
    }
}

fn counted(name: &'static str, found: &str, limit: ResourceUsage, few: u64) -> HostCheck {
    match limit.left() {
        0 => HostCheck::missing(name, found),
        left if left < few => HostCheck::limited(name, found),
        _ => HostCheck::ok(name, found),
    }
}

/// Adds cost and fix to a row that is not ok.
fn costly(row: HostCheck, cost: &str, fix: impl FnOnce() -> String) -> HostCheck {
    if row.state == CheckState::Ok { row } else { row.cost(cost).fix(fix()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(free_bytes: u64, total_bytes: u64, free_files: Option<u64>) -> DiskFacts {
        DiskFacts {
            dir: "/x".into(),
            exists: true,
            writable: true,
            kind: "ext4".to_owned(),
            free_bytes,
            total_bytes,
            free_files,
            total_files: 1_000_000,
        }
    }

    #[test]
    fn little_free_space_is_reported_before_there_is_none() {
        const GIB: u64 = 1 << 30;
        let state = |free, total, files| room(&disk(free, total, files)).state;
        assert_eq!(state(50 * GIB, 100 * GIB, Some(900_000)), CheckState::Ok);
        assert_eq!(state(50 * GIB, 100 * GIB, None), CheckState::Ok);
        assert_eq!(state(GIB / 2, GIB, None), CheckState::Limited, "below 1 GiB");
        assert_eq!(state(4 * GIB, 100 * GIB, None), CheckState::Limited, "below 5 %");
        assert_eq!(state(100 * GIB, 4000 * GIB, None), CheckState::Ok, "2 %, and plenty");
        assert_eq!(state(50 * GIB, 100 * GIB, Some(900)), CheckState::Limited, "few files");
        assert_eq!(state(0, 100 * GIB, None), CheckState::Missing);
        assert_eq!(state(50 * GIB, 100 * GIB, Some(0)), CheckState::Missing);
    }

    fn ada() -> SystemdFacts {
        SystemdFacts {
            manager: Ok(()),
            user: Some("ada".to_owned()),
            lingers: Some(false),
            kills_at_logout: Some(true),
        }
    }

    #[test]
    fn every_control_group_row_says_what_to_do() {
        let trial = |controllers: &[&str], has_kill, birth| {
            Ok(CgroupTrial {
                place: "/c/berth".into(),
                controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
                has_kill,
                birth,
            })
        };
        let states = |found: &CgroupFacts, is_root| -> Vec<(&'static str, CheckState)> {
            let rows = control_groups(found, is_root, (!is_root).then_some(&ada()));
            for row in rows.iter().filter(|row| row.state != CheckState::Ok) {
                assert!(row.cost.is_some() && row.fix.is_some(), "{}", row.name);
            }
            rows.iter().map(|row| (row.name, row.state)).collect()
        };
        let mount = || Ok("/c".into());
        let all = CgroupFacts {
            mount: mount(),
            in_version_1: Vec::new(),
            usable_in_version_1: Vec::new(),
            trial: trial(&["cpu", "memory", "pids"], true, Some(Ok(()))),
        };
        assert!(states(&all, true).iter().all(|(_, state)| *state == CheckState::Ok));

        let usable = CgroupFacts {
            mount: mount(),
            in_version_1: vec!["memory".to_owned()],
            usable_in_version_1: vec!["memory".to_owned()],
            trial: trial(&["cpu", "pids"], true, None),
        };
        assert!(states(&usable, true).iter().all(|(_, state)| *state == CheckState::Ok));

        let old = CgroupFacts {
            mount: mount(),
            in_version_1: vec!["memory".to_owned()],
            usable_in_version_1: Vec::new(),
            trial: trial(&["pids"], false, Some(Err("no".to_owned()))),
        };
        let expected = [
            ("cgroup v2", CheckState::Ok),
            ("born in a group", CheckState::Limited),
            ("cgroup.kill", CheckState::Limited),
            ("controllers", CheckState::Limited),
        ];
        assert_eq!(states(&old, false), expected);
        let refused = CgroupFacts {
            mount: mount(),
            in_version_1: Vec::new(),
            usable_in_version_1: Vec::new(),
            trial: Err("no".to_owned()),
        };
        assert_eq!(states(&refused, false), [("cgroup v2", CheckState::Limited)]);
        let none = CgroupFacts {
            mount: Err("none".to_owned()),
            in_version_1: Vec::new(),
            usable_in_version_1: Vec::new(),
            trial: Err("none".to_owned()),
        };
        assert_eq!(states(&none, true), [("cgroup v2", CheckState::Missing)]);
    }

    #[test]
    fn a_user_without_lingering_gets_the_command_with_their_name() {
        let found = ada();
        let rows = systemd_rows(&found);
        let fixes: Vec<&str> = rows.iter().filter_map(|row| row.fix.as_deref()).collect();
        assert_eq!(fixes[0], "loginctl enable-linger ada");
        assert_eq!(rows.iter().filter(|row| row.state == CheckState::Limited).count(), 2);
        let root = SystemdFacts { lingers: None, kills_at_logout: Some(false), ..found };
        assert!(systemd_rows(&root).iter().all(|row| row.state == CheckState::Ok));
    }
}
