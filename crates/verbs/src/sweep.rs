//! Comparing records with reality, and clearing up what is proven ours.
//!
//! Promise: everything is examined before anything is changed; if a source of knowledge fails, nothing is cleared up.
//! Only a run without a keeper, a group of a run that is over, and files that no process can be using are cleared up.
//! A process with a claim of ours and no record is reported, never ended.
//! Not here: proving which session a process belongs to (see `berth_procs::attribution`) and ending a run (see
//! `berth_keeper::recover`).
//! Start with [`sweep`].

mod files;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use berth_api::{ProblemCode, SessionStatus};
use berth_conversations::foreign_writers;
use berth_conversations::open_conversations::{HOLDERS, OpenConversations};
use berth_core::{Actor, Epoch, SessionId};
use berth_host::cgroup::{self, CgroupV2};
use berth_host::identity::{self, ProcessIdentity, ProcessLiveness as Life, ProcessStat};
use berth_host::lock::LockFile;
use berth_host::process::all_processes;
use berth_host::{clock, disk, process_tree};
use berth_keeper::recover;
use berth_procs::attribution::{
    self, AttributionVerdict, ClaimSource, ClaimedRecord, MARK, ProcessClaim, has_live_run,
};
use berth_procs::run_cgroups;
use berth_store::PendingPurge;
use berth_store::SessionFiles;
use berth_store::current_session::{TERMINALS, TerminalPresence};
use berth_store::foreign_lease_holder::command_of_process;
use berth_store::notifications;
use berth_store::session_status;
use berth_store::state_dir::StateDir;

use crate::purge;
use serde::{Deserialize, Serialize};

use files::{is_given_up, is_long_ago};
pub use report::{ForeignProcess, LiveSession, SweepFinding, SweepOutcome, SweepReport};

/// The least time between two sweeps that run along with other commands.
const LIGHT_EVERY: Duration = Duration::from_secs(60);
/// The time limit of such a sweep for clearing up. The command has given its answer before it began.
const LIGHT_PATIENCE: Duration = Duration::from_secs(3);
/// The time of the last such sweep; locked while one runs.
const STAMP_FILE: &str = "sweep.lock";
/// The processes that were reported before, and the counts.
const MEMORY_FILE: &str = "sweep.json";
/// The number of processes remembered as reported. Living ones are never forgotten because of this limit.
const MOST_TOLD: usize = 1000;

/// The extent of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepDepth {
    /// Processes, records, groups and files.
    Whole,
    /// Everything except stray files: cheap enough to run along with other commands.
    Light,
}

/// The state that sweeps keep on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SweepMemory {
    told: Vec<ReportedProcess>,
    #[serde(flatten)]
    counts: SweepCounts,
}

/// The number of sweeps in this state directory, and of their finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepCounts {
    /// Sweeps so far, dry runs excluded.
    pub sweeps: u64,
    /// Sweeps that found something of ours left over.
    pub left_over: u64,
}

/// Reads the counts. They are derived from nothing else, and a missing file means zero.
pub fn counts(home: &StateDir) -> SweepCounts {
    memory(home).counts
}

fn memory(home: &StateDir) -> SweepMemory {
    let json = fs::read(home.root().join(MEMORY_FILE)).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// A process that a sweep reported to a user.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReportedProcess {
    pid: u32,
    start_ticks: u64,
    boot: String,
}

/// The options of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// The extent of the sweep.
    pub depth: SweepDepth,
    /// True if the caller shows the report to a user. An unseen find is reported as new again the next time.
    pub is_heard: bool,
}

/// Sweeps if the last sweep is long enough ago and no other process sweeps; else returns `None`.
pub fn sweep_now_and_then(home: &StateDir, is_heard: bool) -> Option<SweepReport> {
    let stamp = home.root().join(STAMP_FILE);
    let last = fs::metadata(&stamp).and_then(|file| file.modified()).ok();
    let age = last.and_then(|last| SystemTime::now().duration_since(last).ok());
    if age.is_some_and(|age| age < LIGHT_EVERY) {
        return None;
    }
    let lock = LockFile::open_or_create(&stamp).ok()?;
    if !lock.try_exclusive().ok()? {
        return None;
    }
    // Before anything else: if this hangs or is interrupted, the next command must not try at once.
    lock.write_text("the last sweep that came along with a command\n").ok()?;
    let order = SweepOptions { dry_run: false, depth: SweepDepth::Light, is_heard };
    Some(sweep(home, order, |_| {}))
}

/// Compares records with reality and clears up what is proven ours. `progress` is called after each step.
pub fn sweep(home: &StateDir, order: SweepOptions, progress: impl FnMut(SweepProgress)) -> SweepReport {
    let report = SweepReport { dry_run: order.dry_run, ..SweepReport::default() };
    let until = Instant::now() + LIGHT_PATIENCE;
    let mut sweep = Sweep { home, order, until, known: SweepSurvey::default(), report };
    sweep.survey();
    sweep.clear(progress);
    sweep.remember();
    let report = &sweep.report;
    let (left_over, garbage, strangers) =
        (report.left_over.len(), report.no_process.len(), report.no_record.len());
    tracing::info!(depth = ?order.depth, alive = report.alive.len(), left_over, garbage, strangers, "swept");
    sweep.report
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepProgress {
    /// Finds that are dealt with.
    pub done: usize,
    /// All finds of this sweep.
    pub of: usize,
}

/// Everything that was examined before anything is changed.
#[derive(Default)]
struct SweepSurvey {
    /// By id: the home that keeps the record, and the status.
    records: BTreeMap<SessionId, (StateDir, SessionStatus)>,
    /// Runs whose keeper is gone, and the processes found so far.
    lost: BTreeMap<SessionId, Vec<String>>,
    /// Groups of runs that are over.
    groups: Vec<(PathBuf, SessionId, Epoch)>,
    /// Groups without a record, to be removed if they are empty.
    empty_groups: Vec<PathBuf>,
    /// Session directories without a session.
    half_made: Vec<(StateDir, SessionId)>,
    /// Sessions whose purge was interrupted, with the place of their remains.
    half_purged: Vec<PendingPurge>,
    /// Sessions that were at rest for longer than this, in milliseconds, as their policy says.
    at_rest: Vec<(StateDir, SessionId, u64)>,
    /// Files that a killed writer left.
    stray_files: Vec<PathBuf>,
    /// Records of terminals that are gone, with the terminals' names.
    terminals: Vec<(PathBuf, String)>,
    strangers: Vec<(ProcessStat, ProcessClaim, AttributionVerdict, String)>,
}

struct Sweep<'a> {
    home: &'a StateDir,
    order: SweepOptions,
    /// The time at which a sweep that runs along with a command stops.
    until: Instant,
    known: SweepSurvey,
    report: SweepReport,
}

impl Sweep<'_> {
    fn survey(&mut self) {
        self.look_at_records();
        match self.home.unfinished_graves() {
            Ok(found) => self.known.half_purged = found,
            Err(error) => self.report.failed.push(format!("cannot list interrupted purges: {error}")),
        }
        match all_processes() {
            Ok(processes) => self.look_at_processes(&processes),
            Err(error) => self.report.failed.push(format!("cannot look through /proc: {error}")),
        }
        match cgroup::groups_of_runs() {
            Ok(groups) => self.look_at_groups(groups),
            Err(error) => self.report.failed.push(format!("cannot list the control groups of runs: {error}")),
        }
        match cgroup::old_groups_of_runs() {
            Ok(groups) => self.look_at_old_groups(groups),
            Err(error) => {
                self.report.failed.push(format!("cannot list control groups of version 1: {error}"))
            }
        }
        self.look_at_terminals();
        if self.order.depth == SweepDepth::Whole {
            self.look_at_files();
            self.look_at_foreign_agents();
        }
    }

    /// Agents that no keeper here holds: reported, and never touched. Nothing that is cleared up depends on them, so
    /// a failure here does not stop the sweep.
    fn look_at_foreign_agents(&mut self) {
        for kind in berth_transcript::TranscriptKind::ALL {
            let live = match foreign_writers::live_writers(kind, |name| std::env::var_os(name)) {
                Ok(live) => live,
                Err(why) => {
                    tracing::debug!(why, "cannot look for agents that are not ours");
                    continue;
                }
            };
            for writer in live.into_iter().filter(|writer| writer.kept_in().is_none()) {
                let is_known = |known: &ForeignProcess| known.pid == writer.identity.pid;
                if !self.report.foreign.iter().any(is_known) {
                    self.report.foreign.push(foreign_agent(&writer));
                }
            }
        }
    }

    /// Every terminal window leaves a record, so a user who opens and closes windows all day leaves many.
    fn look_at_terminals(&mut self) {
        let records = match self.home.terminal_records() {
            Ok(records) => records,
            Err(error) => {
                return self.report.failed.push(format!("cannot list the records of terminals: {error}"));
            }
        };
        for (path, content) in records {
            match content {
                Ok(Some((terminal, _))) if terminal.presence() == TerminalPresence::Gone => {
                    self.known.terminals.push((path, terminal.tty.display().to_string()));
                }
                Ok(_) => {}
                Err(why) => self.report.damaged.push(format!("{}: {why}", path.display())),
            }
        }
    }

    fn look_at_records(&mut self) {
        let now = berth_host::clock::wall_ms();
        for dir in self.home.folders() {
            let ids = match dir.list() {
                Ok(ids) => ids,
                Err(problem) => {
                    self.report.failed.push(problem.what);
                    continue;
                }
            };
            for id in ids {
                match session_status::status(&dir, &id) {
                    Ok(status) => {
                        if status.is_unrecorded_loss() {
                            self.known.lost.insert(id.clone(), vec![]);
                        }
                        if let Some(rest_ms) = rest_is_over(&status, now).filter(|_| !dir.is_helpers()) {
                            self.known.at_rest.push((dir.clone(), id.clone(), rest_ms));
                        }
                        self.known.records.insert(id, (dir.clone(), status));
                    }
                    // Another command may be about to make this helper; its lease must not be taken away.
                    Err(problem) if problem.code == ProblemCode::NotFound && dir.is_helpers() => {}
                    Err(problem) if problem.code == ProblemCode::NotFound => {
                        let files = dir.session(&id);
                        if files.is_half_made() {
                            self.known.half_made.push((dir.clone(), id));
                        } else {
                            let what = format!("{} has no journal", files.display());
                            self.report.damaged.push(what);
                        }
                    }
                    Err(problem) => self.report.damaged.push(problem.what),
                }
            }
        }
    }

    /// Sorts processes: held by a keeper, left behind by one, or with a claim of ours but no keeper.
    fn look_at_processes(&mut self, processes: &[ProcessStat]) {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for process in processes {
            children.entry(process.ppid).or_default().push(process.pid);
        }
        let mut explained: BTreeSet<u32> = [std::process::id()].into();
        let keepers: BTreeMap<u32, &SessionStatus> = self
            .known
            .records
            .values()
            .filter(|(_, status)| has_live_run(status))
            .filter_map(|(_, status)| Some((status.keeper_pid?, status)))
            .collect();
        for (keeper, status) in &keepers {
            let mut ours = vec![*keeper];
            let mut next = 0;
            while let Some(pid) = ours.get(next) {
                next += 1;
                // Sessions started inside sessions are counted by their own keepers.
                let below = children.get(pid).into_iter().flatten();
                ours.extend(below.filter(|pid| !keepers.contains_key(pid)));
            }
            let (id, name, processes) = (status.id.clone(), status.name.clone(), ours.len());
            self.report.alive.push(LiveSession { id, name, processes });
            explained.extend(ours);
        }
        for process in processes.iter().filter(|process| !process.is_zombie()) {
            let is_kernels = process.pid == 2 || process.ppid == 2;
            if !explained.contains(&process.pid) && !is_kernels {
                self.look_at_unexplained(process);
            }
        }
    }

    /// Examines a process that is not below any keeper of ours.
    fn look_at_unexplained(&mut self, process: &ProcessStat) {
        let (claim, unreadable) = strongest_claim(process.pid);
        self.report.unreadable += usize::from(unreadable);
        let Some(mut claim) = claim else { return };
        let mut record = attribution::record_of(self.home, &claim);
        if matches!(record, Ok(ClaimedRecord::Missing)) && claim.home.is_none() {
            // The expensive checks come before the report: they may show that the process is of
            // another state directory.
            claim = attribution::strongest_claim(&attribution::claims_on(process).claims).unwrap_or(claim);
            record = attribution::record_of(self.home, &claim);
        }
        let (verdict, why) = match record {
            Ok(ClaimedRecord::Elsewhere(_)) => return,
            Ok(ClaimedRecord::Missing) => {
                (AttributionVerdict::NoRecord, "there is no record of its session here".to_owned())
            }
            Ok(ClaimedRecord::Found(status)) => match attribution::verdict_of_claim(&claim, &status) {
                (AttributionVerdict::LeftOver, _) if status.is_unrecorded_loss() => {
                    let found = format!("pid {} ({})", process.pid, process.comm);
                    self.known.lost.entry(claim.id).or_default().push(found);
                    return;
                }
                (AttributionVerdict::CannotTell, why) => (AttributionVerdict::CannotTell, why),
                // Its group is examined separately, and a process of a live run needs nothing.
                _ => return,
            },
            Err(problem) => (AttributionVerdict::CannotTell, problem.what),
        };
        self.known.strangers.push((process.clone(), claim, verdict, why));
    }

    fn look_at_groups(&mut self, groups: Vec<PathBuf>) {
        for path in groups {
            let run = path.file_name().and_then(|name| name.to_str()).and_then(run_cgroups::run_of_group);
            let Some((id, epoch)) = run else { continue };
            let Some((dir, status)) = self.known.records.get(&id) else {
                // A group of another state directory, or of a session that never existed: removed if it is empty.
                if is_given_up(&path) {
                    self.known.empty_groups.push(path);
                }
                continue;
            };
            // A run that is about to begin has the next epoch; no process ever makes a group of an earlier one again.
            let is_over = epoch.0 < status.epoch || (epoch.0 == status.epoch && status.is_over());
            if !is_over {
                continue;
            }
            let group = CgroupV2::open(&path, &run_cgroups::group_name(&id, epoch)).ok().flatten();
            let files = dir.session(&id);
            let is_others = |group: &CgroupV2| {
                run_cgroups::session_sharing_group(group, &files).is_some()
                    || run_cgroups::holds_only_others(group)
            };
            if !group.as_ref().is_some_and(is_others) {
                self.known.groups.push((path, id, epoch));
            }
        }
    }

    /// Groups of version 1 hold limits only. The processes in them are examined through their other group.
    fn look_at_old_groups(&mut self, groups: Vec<PathBuf>) {
        for path in groups {
            let name = path.file_name().and_then(|name| name.to_str());
            let run =
                name.and_then(|name| run_cgroups::run_of_group(name.strip_prefix(cgroup::LIMIT_PREFIX)?));
            let live = run.and_then(|(id, _)| Some(has_live_run(&self.known.records.get(&id)?.1)));
            if live != Some(true) && is_given_up(&path) {
                self.known.empty_groups.push(path);
            }
        }
    }

    fn look_at_files(&mut self) {
        let mut dirs = vec![self.home.root().to_owned()];
        dirs.extend(["names", "keys", TERMINALS, HOLDERS].map(|name| self.home.root().join(name)));
        dirs.extend(notifications::desk_dirs(self.home));
        let over = self.known.records.iter().filter(|(_, (_, status))| status.is_over());
        let sessions: Vec<SessionFiles> = over.map(|(id, (dir, _))| dir.session(id)).collect();
        let listed = dirs.iter().map(|dir| (dir.display().to_string(), disk::temporary_files(dir)));
        let of_sessions = sessions.iter().map(|files| (files.display().to_string(), files.temporary_files()));
        for (place, found) in listed.chain(of_sessions) {
            match found {
                Ok(files) => {
                    self.known.stray_files.extend(files.into_iter().filter(|file| is_given_up(file)));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.report.failed.push(format!("cannot list {place}: {error}")),
            }
        }
    }

    /// Clears up, or reports what would be cleared.
    fn clear(&mut self, mut progress: impl FnMut(SweepProgress)) {
        let known = std::mem::take(&mut self.known);
        let holders = OpenConversations::of(self.home.root());
        if !self.order.dry_run && self.report.failed.is_empty() && holders.are_there() {
            // Removes records of agents that are long gone; the last writer of a conversation matters only for a while.
            holders.sweep(clock::wall_ms());
        }
        let of = known.lost.len()
            + known.groups.len()
            + known.half_made.len()
            + known.stray_files.len()
            + known.terminals.len()
            + known.half_purged.len()
            + known.at_rest.len();
        let mut done = 0;
        let mut step = || {
            done += 1;
            progress(SweepProgress { done, of });
        };
        for (id, found) in &known.lost {
            let Some((dir, status)) = known.records.get(id) else { continue };
            // A sweep that runs along with a command does not wait: a command that holds the session clears it up,
            // and the rest has time.
            let is_held = || dir.session(id).is_kept().unwrap_or(true);
            if self.order.depth == SweepDepth::Light && (Instant::now() >= self.until || is_held()) {
                continue;
            }
            let what = format!("run {} of {}, whose keeper is gone", status.epoch, status.handle());
            let (done, processes) =
                self.doing(|| recover::recover_session(dir, id).map_err(|problem| problem.what));
            let processes = processes.filter(|ended| !ended.is_empty()).unwrap_or_else(|| found.clone());
            let cleared = SweepFinding { what, session: Some(id.to_string()), processes, done };
            let empty = cleared.processes.is_empty() && !matches!(cleared.done, SweepOutcome::Failed(_));
            if empty {
                self.report.no_process.push(cleared)
            } else {
                self.report.left_over.push(cleared)
            }
            step();
        }
        for (path, id, epoch) in &known.groups {
            let name = run_cgroups::group_name(id, *epoch);
            let Some((dir, _)) = known.records.get(id) else { continue };
            let end = || recover::end_group(path, &name, &dir.session(id)).map_err(|left| left.join("; "));
            let (done, processes) = self.doing(end);
            let members = || CgroupV2::open(path, &name).ok().flatten()?.members().ok();
            let processes = processes.unwrap_or_else(|| {
                members().unwrap_or_default().pids.iter().map(|pid| format!("pid {pid}")).collect()
            });
            let what = format!("the control group of run {epoch} of {id}, which is over");
            let cleared = SweepFinding { what, session: Some(id.to_string()), processes, done };
            if cleared.processes.is_empty() {
                self.report.no_process.push(cleared);
            } else {
                self.report.left_over.push(cleared);
            }
            step();
        }
        for path in &known.empty_groups {
            // The kernel removes no group with a process in it, and then there is nothing to report.
            let is_gone =
                self.report.failed.is_empty() && !self.order.dry_run && fs::remove_dir(path).is_ok();
            if is_gone {
                let what = format!("{}, an empty control group without an owner", path.display());
                let done = SweepOutcome::Cleared;
                self.report.no_process.push(SweepFinding { what, session: None, processes: vec![], done });
            }
        }
        for (dir, id) in &known.half_made {
            let files = dir.session(id);
            if files.changed_at().is_some_and(is_long_ago) {
                let (done, _) = self.doing(|| files.remove_half_made().map(|()| vec![]));
                let what = format!("{}, which was never finished being made", files.display());
                let session = Some(id.to_string());
                self.report.no_process.push(SweepFinding { what, session, processes: vec![], done });
            }
            step();
        }
        for grave in &known.half_purged {
            if self.order.depth == SweepDepth::Light && Instant::now() >= self.until {
                break;
            }
            let (done, _) = self.doing(|| purge::finish(self.home, grave).map(|()| vec![]));
            let what = format!("the remains of session {}, whose purge was interrupted", grave.id());
            let session = Some(grave.id().to_string());
            self.report.no_process.push(SweepFinding { what, session, processes: vec![], done });
            step();
        }
        for (dir, id, rest_ms) in &known.at_rest {
            if self.order.depth == SweepDepth::Light && Instant::now() >= self.until {
                break;
            }
            let mut was_used = false;
            let (done, _) = self.doing(|| {
                let by = Actor { pid: std::process::id(), uid: None, place: "its policy".to_owned() };
                let archived = recover::archive_at_rest(dir, id, *rest_ms, by);
                was_used = !archived.map_err(|problem| problem.what)?;
                Ok(vec![])
            });
            let handle = known.records.get(id).map_or(id.as_str(), |(_, status)| status.handle());
            let what = format!("{handle}, at rest for longer than its policy says");
            let (session, processes) = (Some(id.to_string()), vec![]);
            if !was_used {
                self.report.archived.push(SweepFinding { what, session, processes, done });
            }
            step();
        }
        for file in &known.stray_files {
            let remove = || match fs::remove_file(file) {
                // The writer was still there after all.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
                Ok(()) | Err(_) => Ok(vec![]),
            };
            let (done, _) = self.doing(remove);
            let what = format!("{}, which a killed writer left", file.display());
            self.report.no_process.push(SweepFinding { what, session: None, processes: vec![], done });
            step();
        }
        for (path, tty) in &known.terminals {
            // This terminal will never exist again, so no process writes the record meanwhile.
            let (done, _) =
                self.doing(|| fs::remove_file(path).map(|()| vec![]).map_err(|error| error.to_string()));
            let what = format!("the current session of {tty}, a terminal that is gone");
            self.report.no_process.push(SweepFinding { what, session: None, processes: vec![], done });
            step();
        }
        for (process, claim, verdict, why) in known.strangers {
            let stranger = stranger(&process, &claim, why);
            match verdict {
                AttributionVerdict::NoRecord => self.report.no_record.push(stranger),
                _ => self.report.cannot_tell.push(stranger),
            }
        }
    }

    /// Does one step, unless this is a dry run or a source of knowledge failed.
    fn doing(
        &self,
        act: impl FnOnce() -> Result<Vec<String>, String>,
    ) -> (SweepOutcome, Option<Vec<String>>) {
        if !self.report.failed.is_empty() {
            return (SweepOutcome::Kept, None);
        }
        if self.order.dry_run {
            return (SweepOutcome::Would, None);
        }
        match act() {
            Ok(ended) => (SweepOutcome::Cleared, Some(ended)),
            Err(why) => (SweepOutcome::Failed(why), None),
        }
    }

    /// Marks processes that were reported before, and writes down those that are reported now.
    fn remember(&mut self) {
        let before = memory(self.home);
        let known = before.told.clone();
        let mut told = Vec::new();
        let SweepReport { no_record, cannot_tell, foreign, .. } = &mut self.report;
        for stranger in no_record.iter_mut().chain(cannot_tell).chain(foreign) {
            let Ok(identity) = ProcessIdentity::of(stranger.pid) else { continue };
            let now =
                ReportedProcess { pid: identity.pid, start_ticks: identity.start_ticks, boot: identity.boot };
            stranger.is_new = !before.told.contains(&now);
            told.push(now);
        }
        // Present processes come first, so that the limit never makes them news again.
        for earlier in before.told {
            if told.len() < MOST_TOLD && !told.contains(&earlier) {
                told.push(earlier);
            }
        }
        if self.order.dry_run {
            return;
        }
        if self.order.is_heard {
            told.retain(|told| !matches!(identity_of(told).check(), Life::Gone));
        } else {
            told = known;
        }
        let counts = SweepCounts {
            sweeps: before.counts.sweeps + 1,
            left_over: before.counts.left_over + self.report.left_over.len() as u64,
        };
        let memory = SweepMemory { told, counts };
        if let Ok(json) = serde_json::to_vec(&memory) {
            // If this cannot be written, some processes are reported twice.
            let _ = disk::write_atomically(self.home.root(), MEMORY_FILE, &json, false);
        }
    }
}

fn identity_of(told: &ReportedProcess) -> ProcessIdentity {
    ProcessIdentity { pid: told.pid, start_ticks: told.start_ticks, boot: told.boot.clone() }
}

/// The strongest claim on a process that is not below a keeper, by cheap evidence only; and true if the process could
/// not be looked into.
fn strongest_claim(pid: u32) -> (Option<ProcessClaim>, bool) {
    let group = cgroup::group_of_process(pid).ok().flatten();
    let variables = process_tree::process_variables(pid, [MARK, attribution::HOME_VARIABLE]);
    let unreadable = matches!(&variables, Err(error) if error.kind() == io::ErrorKind::PermissionDenied);
    let [mark, home] = variables.unwrap_or_default();
    let by_mark = mark.and_then(|mark| attribution::claim_of_mark(&mark, home));
    let by_group = group.as_deref().and_then(run_cgroups::run_of_group).map(|(id, epoch)| ProcessClaim {
        by: ClaimSource::Group,
        home: by_mark.as_ref().filter(|mark| mark.id == id).and_then(|mark| mark.home.clone()),
        id,
        epoch: Some(epoch),
    });
    (by_group.or(by_mark), unreadable)
}

fn stranger(process: &ProcessStat, claim: &ProcessClaim, why: String) -> ForeignProcess {
    let by = match claim.by {
        ClaimSource::Group => "by its control group",
        ClaimSource::Keeper | ClaimSource::Descent | ClaimSource::Lock | ClaimSource::Mark => {
            "by a variable it inherited"
        }
    };
    ForeignProcess {
        pid: process.pid,
        age_ms: process.age_ms(),
        command: command_of_process(process),
        uid: process.open().and_then(|opened| opened.uid()).ok(),
        guess: format!("session {} {by}", claim.id),
        why,
        is_new: true,
    }
}

/// An agent that a user or another program started without berth.
fn foreign_agent(writer: &foreign_writers::ForeignWriter) -> ForeignProcess {
    let pid = writer.identity.pid;
    let place = match (&writer.terminal, &writer.cwd) {
        (Some(terminal), _) => format!("a process at {}", terminal.display()),
        (None, Some(cwd)) => format!("a process started in {}", cwd.display()),
        (None, None) => "another program".to_owned(),
    };
    ForeignProcess {
        pid,
        age_ms: berth_host::clock::wall_ms().saturating_sub(writer.since_ms),
        command: writer.command.clone(),
        uid: identity::process_stat(pid).and_then(|stat| stat.open()?.uid()).ok(),
        guess: place,
        why: format!("no session has its conversation {}", writer.conversation_id),
        is_new: true,
    }
}

/// The configured rest time in milliseconds, if the session has been at rest for longer. By the wall clock, since no
/// other clock counts across a restart of the host: a clock that jumps archives sessions too early or too late, and
/// one command brings an archived session back.
fn rest_is_over(status: &SessionStatus, now: u64) -> Option<u64> {
    let rest_ms = status.what.policy.archive_after_ms?;
    (status.is_at_rest() && now.saturating_sub(status.last_activity_at.0) >= rest_ms).then_some(rest_ms)
}
