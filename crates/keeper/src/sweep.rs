//! Comparing records with reality, and clearing up what is proven ours.
//!
//! Promise: everything is looked at first; if a source of knowledge fails, nothing is cleared up. Only a
//! run without a keeper, a group of a run that is over, and files that nobody can be using are cleared
//! up. What carries a claim of ours without a record is told, never ended.
//! Not here: proving whose a process is (see `whose`) and ending a run (see `recover`).
//! Start with [`sweep`].

mod files;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use berth_api::{Code, SessionState, Status};
use berth_core::{Actor, Epoch, SessionId};
use berth_host::cgroup::{self, Group};
use berth_host::identity::{self, Identity, ProcessStat, Verdict as Life};
use berth_host::lock::LockFile;
use berth_host::process::census;
use berth_host::{clock, disk, tree};
use berth_store::Grave;
use berth_store::SessionFiles;
use berth_store::home::Home;
use berth_store::stranger::command_of;
use berth_store::terminals::{self, Presence, TERMINALS};
use berth_store::view;
use serde::{Deserialize, Serialize};

use crate::holders::{HOLDERS, Holders};
use crate::whose::{self, Claim, Record, Source, Verdict};
use crate::{boundary, notify, purge, recover, writers};
use files::{is_given_up, is_long_ago};
pub use report::{Alive, Cleared, Done, Report, Stranger};

/// How often a sweep comes along with other commands.
const LIGHT_EVERY: Duration = Duration::from_secs(60);
/// How long one of these may go on clearing up; it began with its command's answer given.
const LIGHT_PATIENCE: Duration = Duration::from_secs(3);
/// When it last did; locked while it does.
const STAMP_FILE: &str = "sweep.lock";
/// Who was told of.
const MEMORY_FILE: &str = "sweep.json";
/// How many processes are remembered as told. Those that live are never forgotten for it.
const MOST_TOLD: usize = 1000;

/// How thoroughly to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Processes, records, groups and files.
    Whole,
    /// The same without stray files: cheap enough to come along with other commands.
    Light,
}

/// What a sweep remembers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    told: Vec<ToldOf>,
    #[serde(flatten)]
    counts: Counts,
}

/// How many sweeps there were in this state directory, and what they found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// How many sweeps, but for dry runs.
    pub sweeps: u64,
    /// How often something of ours was left over.
    pub left_over: u64,
}

/// What was counted. It is derived from nothing else, and a file that is not there counts nothing.
pub fn counts(home: &Home) -> Counts {
    memory(home).counts
}

fn memory(home: &Home) -> Memory {
    let json = fs::read(home.root().join(MEMORY_FILE)).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// A process that somebody was told of.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ToldOf {
    pid: u32,
    start_ticks: u64,
    boot: String,
}

/// What is wanted of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Only say what would be done.
    pub dry_run: bool,
    /// How thoroughly to look.
    pub depth: Depth,
    /// Whether somebody hears what is told. What nobody heard is still news the next time.
    pub is_heard: bool,
}

/// Sweeps if the last time is long enough ago and nobody else does. `None` if not.
pub fn sweep_now_and_then(home: &Home, is_heard: bool) -> Option<Report> {
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
    let order = Order { dry_run: false, depth: Depth::Light, is_heard };
    Some(sweep(home, order, |_| {}))
}

/// Compares records with reality and clears up what is proven ours. `progress` hears how much is done.
pub fn sweep(home: &Home, order: Order, progress: impl FnMut(Progress)) -> Report {
    let report = Report { dry_run: order.dry_run, ..Report::default() };
    let until = Instant::now() + LIGHT_PATIENCE;
    let mut sweep = Sweep { home, order, until, known: Survey::default(), report };
    sweep.look();
    sweep.clear(progress);
    sweep.remember();
    let report = &sweep.report;
    let (left_over, garbage, strangers) =
        (report.left_over.len(), report.no_process.len(), report.no_record.len());
    tracing::info!(depth = ?order.depth, alive = report.alive.len(), left_over, garbage, strangers, "swept");
    sweep.report
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How many things are done with.
    pub done: usize,
    /// Of how many.
    pub of: usize,
}

/// Everything that was looked at before anything is done.
#[derive(Default)]
struct Survey {
    /// By id: where it is kept, and what is known.
    records: BTreeMap<SessionId, (Home, Status)>,
    /// Runs whose keeper is gone, and the processes found so far.
    lost: BTreeMap<SessionId, Vec<String>>,
    /// Groups of runs that are over.
    groups: Vec<(PathBuf, SessionId, Epoch)>,
    /// Groups that nobody has a record of, to be taken away if they are empty.
    empty_groups: Vec<PathBuf>,
    /// Session directories without a session.
    half_made: Vec<(Home, SessionId)>,
    /// Sessions whose purge was interrupted, and where they are.
    half_purged: Vec<Grave>,
    /// Sessions that were at rest for longer than this, in milliseconds, as their policy says.
    at_rest: Vec<(Home, SessionId, u64)>,
    /// Files that a killed writer left.
    stray_files: Vec<PathBuf>,
    /// Records of terminals that are gone, and what they are called.
    terminals: Vec<(PathBuf, String)>,
    strangers: Vec<(ProcessStat, Claim, Verdict, String)>,
}

struct Sweep<'a> {
    home: &'a Home,
    order: Order,
    /// When one that comes along with a command has had enough.
    until: Instant,
    known: Survey,
    report: Report,
}

impl Sweep<'_> {
    fn look(&mut self) {
        self.look_at_records();
        match self.home.unfinished_graves() {
            Ok(found) => self.known.half_purged = found,
            Err(error) => self.report.failed.push(format!("cannot list what is being purged: {error}")),
        }
        match census() {
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
        if self.order.depth == Depth::Whole {
            self.look_at_files();
            self.look_at_foreign_agents();
        }
    }

    /// Agents that nobody here keeps: told of, and never touched. Nothing that is cleared up depends on them, so not
    /// being able to look keeps nothing from being cleared up.
    fn look_at_foreign_agents(&mut self) {
        for kind in berth_transcript::Kind::ALL {
            let live = match writers::live(kind, |name| std::env::var_os(name)) {
                Ok(live) => live,
                Err(why) => {
                    tracing::debug!(why, "cannot look for agents that are not ours");
                    continue;
                }
            };
            for writer in live.into_iter().filter(|writer| writer.kept_in().is_none()) {
                let is_known = |known: &Stranger| known.pid == writer.identity.pid;
                if !self.report.foreign.iter().any(is_known) {
                    self.report.foreign.push(foreign_agent(&writer));
                }
            }
        }
    }

    /// Whoever opens and closes windows all day leaves a record with each.
    fn look_at_terminals(&mut self) {
        let paths = match self.home.terminal_records() {
            Ok(paths) => paths,
            Err(error) => {
                return self.report.failed.push(format!("cannot list the records of terminals: {error}"));
            }
        };
        for path in paths {
            match terminals::read(&path) {
                Ok(Some((terminal, _))) if terminal.presence() == Presence::Gone => {
                    self.known.terminals.push((path, terminal.tty.display().to_string()));
                }
                Ok(_) => {}
                Err(why) => self.report.damaged.push(format!("{}: {why}", path.display())),
            }
        }
    }

    fn look_at_records(&mut self) {
        let now = berth_host::clock::wall_ms();
        for shelf in self.home.shelves() {
            let ids = match shelf.list() {
                Ok(ids) => ids,
                Err(problem) => {
                    self.report.failed.push(problem.what);
                    continue;
                }
            };
            for id in ids {
                match view::status(&shelf, &id) {
                    Ok(status) => {
                        if status.is_unrecorded_loss() {
                            self.known.lost.insert(id.clone(), vec![]);
                        }
                        if let Some(rest_ms) = rest_is_over(&status, now).filter(|_| !shelf.is_helpers()) {
                            self.known.at_rest.push((shelf.clone(), id.clone(), rest_ms));
                        }
                        self.known.records.insert(id, (shelf.clone(), status));
                    }
                    // Somebody may be about to make this very one; its lease must not be taken away.
                    Err(problem) if problem.code == Code::NotFound && shelf.is_helpers() => {}
                    Err(problem) if problem.code == Code::NotFound => {
                        let files = shelf.session(&id);
                        if files.is_half_made() {
                            self.known.half_made.push((shelf.clone(), id));
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

    /// Tells apart what keepers hold, what they left behind, and who else carries a claim of ours.
    fn look_at_processes(&mut self, processes: &[ProcessStat]) {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for process in processes {
            children.entry(process.ppid).or_default().push(process.pid);
        }
        let mut explained: BTreeSet<u32> = [std::process::id()].into();
        let keepers: BTreeMap<u32, &Status> = self
            .known
            .records
            .values()
            .filter(|(_, status)| is_live(status))
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
            self.report.alive.push(Alive { id, name, processes });
            explained.extend(ours);
        }
        for process in processes.iter().filter(|process| !process.is_zombie()) {
            let is_kernels = process.pid == 2 || process.ppid == 2;
            if !explained.contains(&process.pid) && !is_kernels {
                self.look_at_unexplained(process);
            }
        }
    }

    /// A process that no keeper of ours is above.
    fn look_at_unexplained(&mut self, process: &ProcessStat) {
        let (claim, unreadable) = strongest_claim(process.pid);
        self.report.unreadable += usize::from(unreadable);
        let Some(mut claim) = claim else { return };
        let mut record = whose::record_of(self.home, &claim);
        if matches!(record, Ok(Record::Missing)) && claim.home.is_none() {
            // Before anybody is told of it: what is dear to look at may say that it is of another place.
            claim = whose::strongest(&whose::claims_on(process).claims).unwrap_or(claim);
            record = whose::record_of(self.home, &claim);
        }
        let (verdict, why) = match record {
            Ok(Record::Elsewhere(_)) => return,
            Ok(Record::Missing) => (Verdict::NoRecord, "there is no record of its session here".to_owned()),
            Ok(Record::Found(status)) => match whose::fate(&claim, &status) {
                (Verdict::LeftOver, _) if status.is_unrecorded_loss() => {
                    let found = format!("pid {} ({})", process.pid, process.comm);
                    self.known.lost.entry(claim.id).or_default().push(found);
                    return;
                }
                (Verdict::CannotTell, why) => (Verdict::CannotTell, why),
                // Its group is looked at by itself, and of what runs nothing is to be done.
                _ => return,
            },
            Err(problem) => (Verdict::CannotTell, problem.what),
        };
        self.known.strangers.push((process.clone(), claim, verdict, why));
    }

    fn look_at_groups(&mut self, groups: Vec<PathBuf>) {
        for path in groups {
            let run = path.file_name().and_then(|name| name.to_str()).and_then(boundary::run_of_group);
            let Some((id, epoch)) = run else { continue };
            let Some((shelf, status)) = self.known.records.get(&id) else {
                // Of another state directory, or of a session that never was: taken away if it is empty.
                if is_given_up(&path) {
                    self.known.empty_groups.push(path);
                }
                continue;
            };
            // One that is about to begin has the next number; nobody ever makes an earlier one again.
            let is_over = epoch.0 < status.epoch || (epoch.0 == status.epoch && is_over(status));
            if !is_over {
                continue;
            }
            let group = Group::open(&path, &boundary::group_name(&id, epoch)).ok().flatten();
            let files = shelf.session(&id);
            let is_others = |group: &Group| {
                boundary::used_elsewhere(group, &files).is_some() || boundary::holds_only_others(group)
            };
            if !group.as_ref().is_some_and(is_others) {
                self.known.groups.push((path, id, epoch));
            }
        }
    }

    /// Groups of version 1 hold limits only. Who is in one is looked at by its other group.
    fn look_at_old_groups(&mut self, groups: Vec<PathBuf>) {
        for path in groups {
            let name = path.file_name().and_then(|name| name.to_str());
            let run = name.and_then(|name| boundary::run_of_group(name.strip_prefix(cgroup::LIMIT_PREFIX)?));
            let live = run.and_then(|(id, _)| Some(is_live(&self.known.records.get(&id)?.1)));
            if live != Some(true) && is_given_up(&path) {
                self.known.empty_groups.push(path);
            }
        }
    }

    fn look_at_files(&mut self) {
        let mut dirs = vec![self.home.root().to_owned()];
        dirs.extend(["names", "keys", TERMINALS, HOLDERS].map(|name| self.home.root().join(name)));
        dirs.extend(notify::desk_dirs(self.home.root()));
        let over = self.known.records.iter().filter(|(_, (_, status))| is_over(status));
        let sessions: Vec<SessionFiles> = over.map(|(id, (shelf, _))| shelf.session(id)).collect();
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

    /// Clears up, or says what would be.
    fn clear(&mut self, mut progress: impl FnMut(Progress)) {
        let known = std::mem::take(&mut self.known);
        let holders = Holders::of(self.home.root());
        if !self.order.dry_run && self.report.failed.is_empty() && holders.are_there() {
            // Of agents that are long gone; who wrote a conversation last is worth knowing only for a while.
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
            progress(Progress { done, of });
        };
        for (id, found) in &known.lost {
            let Some((shelf, status)) = known.records.get(id) else { continue };
            // One that comes along waits for nobody: who holds it clears it up, and the rest has time.
            let is_held = || shelf.session(id).is_kept().unwrap_or(true);
            if self.order.depth == Depth::Light && (Instant::now() >= self.until || is_held()) {
                continue;
            }
            let what = format!("run {} of {}, whose keeper is gone", status.epoch, status.handle());
            let (done, processes) = self.doing(|| recover::heal(shelf, id).map_err(|problem| problem.what));
            let processes = processes.filter(|ended| !ended.is_empty()).unwrap_or_else(|| found.clone());
            let cleared = Cleared { what, session: Some(id.to_string()), processes, done };
            let empty = cleared.processes.is_empty() && !matches!(cleared.done, Done::Failed(_));
            if empty {
                self.report.no_process.push(cleared)
            } else {
                self.report.left_over.push(cleared)
            }
            step();
        }
        for (path, id, epoch) in &known.groups {
            let name = boundary::group_name(id, *epoch);
            let Some((shelf, _)) = known.records.get(id) else { continue };
            let end = || recover::end_group(path, &name, &shelf.session(id)).map_err(|left| left.join("; "));
            let (done, processes) = self.doing(end);
            let members = || Group::open(path, &name).ok().flatten()?.members().ok();
            let processes = processes.unwrap_or_else(|| {
                members().unwrap_or_default().pids.iter().map(|pid| format!("pid {pid}")).collect()
            });
            let what = format!("the control group of run {epoch} of {id}, which is over");
            let cleared = Cleared { what, session: Some(id.to_string()), processes, done };
            if cleared.processes.is_empty() {
                self.report.no_process.push(cleared);
            } else {
                self.report.left_over.push(cleared);
            }
            step();
        }
        for path in &known.empty_groups {
            // The kernel removes none with somebody in it, and then there is nothing to tell.
            let is_gone =
                self.report.failed.is_empty() && !self.order.dry_run && fs::remove_dir(path).is_ok();
            if is_gone {
                let what = format!("{}, an empty control group without an owner", path.display());
                let done = Done::Cleared;
                self.report.no_process.push(Cleared { what, session: None, processes: vec![], done });
            }
        }
        for (shelf, id) in &known.half_made {
            let files = shelf.session(id);
            if files.changed_at().is_some_and(is_long_ago) {
                let (done, _) = self.doing(|| files.remove_half_made().map(|()| vec![]));
                let what = format!("{}, which was never finished being made", files.display());
                let session = Some(id.to_string());
                self.report.no_process.push(Cleared { what, session, processes: vec![], done });
            }
            step();
        }
        for grave in &known.half_purged {
            if self.order.depth == Depth::Light && Instant::now() >= self.until {
                break;
            }
            let (done, _) = self.doing(|| purge::finish(self.home, grave).map(|()| vec![]));
            let what = format!("what is left of session {}, whose purge was interrupted", grave.id());
            let session = Some(grave.id().to_string());
            self.report.no_process.push(Cleared { what, session, processes: vec![], done });
            step();
        }
        for (shelf, id, rest_ms) in &known.at_rest {
            if self.order.depth == Depth::Light && Instant::now() >= self.until {
                break;
            }
            let mut was_used = false;
            let (done, _) = self.doing(|| {
                let by = Actor { pid: std::process::id(), uid: None, place: "its policy".to_owned() };
                let archived = recover::archive_at_rest(shelf, id, *rest_ms, by);
                was_used = !archived.map_err(|problem| problem.what)?;
                Ok(vec![])
            });
            let handle = known.records.get(id).map_or(id.as_str(), |(_, status)| status.handle());
            let what = format!("{handle}, at rest for longer than its policy says");
            let (session, processes) = (Some(id.to_string()), vec![]);
            if !was_used {
                self.report.archived.push(Cleared { what, session, processes, done });
            }
            step();
        }
        for file in &known.stray_files {
            let remove = || match fs::remove_file(file) {
                // Its writer was there after all.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
                Ok(()) | Err(_) => Ok(vec![]),
            };
            let (done, _) = self.doing(remove);
            let what = format!("{}, which a killed writer left", file.display());
            self.report.no_process.push(Cleared { what, session: None, processes: vec![], done });
            step();
        }
        for (path, tty) in &known.terminals {
            // No terminal will ever be this one again, so nobody writes the record meanwhile.
            let (done, _) =
                self.doing(|| fs::remove_file(path).map(|()| vec![]).map_err(|error| error.to_string()));
            let what = format!("the current session of {tty}, a terminal that is gone");
            self.report.no_process.push(Cleared { what, session: None, processes: vec![], done });
            step();
        }
        for (process, claim, verdict, why) in known.strangers {
            let stranger = stranger(&process, &claim, why);
            match verdict {
                Verdict::NoRecord => self.report.no_record.push(stranger),
                _ => self.report.cannot_tell.push(stranger),
            }
        }
    }

    /// Does one thing, unless nothing may be done.
    fn doing(&self, act: impl FnOnce() -> Result<Vec<String>, String>) -> (Done, Option<Vec<String>>) {
        if !self.report.failed.is_empty() {
            return (Done::Kept, None);
        }
        if self.order.dry_run {
            return (Done::Would, None);
        }
        match act() {
            Ok(ended) => (Done::Cleared, Some(ended)),
            Err(why) => (Done::Failed(why), None),
        }
    }

    /// Marks who was told of before, and writes down who is told of now.
    fn remember(&mut self) {
        let before = memory(self.home);
        let known = before.told.clone();
        let mut told = Vec::new();
        let Report { no_record, cannot_tell, foreign, .. } = &mut self.report;
        for stranger in no_record.iter_mut().chain(cannot_tell).chain(foreign) {
            let Ok(identity) = Identity::of(stranger.pid) else { continue };
            let now = ToldOf { pid: identity.pid, start_ticks: identity.start_ticks, boot: identity.boot };
            stranger.is_new = !before.told.contains(&now);
            told.push(now);
        }
        // Those that are there now come first, so that the limit never makes them news again.
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
        let counts = Counts {
            sweeps: before.counts.sweeps + 1,
            left_over: before.counts.left_over + self.report.left_over.len() as u64,
        };
        let memory = Memory { told, counts };
        if let Ok(json) = serde_json::to_vec(&memory) {
            // If it cannot be written, something is told twice.
            let _ = disk::write_atomically(self.home.root(), MEMORY_FILE, &json, false);
        }
    }
}

fn identity_of(told: &ToldOf) -> Identity {
    Identity { pid: told.pid, start_ticks: told.start_ticks, boot: told.boot.clone() }
}

/// The strongest claim on a process that no keeper is above, by what is cheap to look at, and whether
/// it could not be looked into.
fn strongest_claim(pid: u32) -> (Option<Claim>, bool) {
    let group = cgroup::group_of_process(pid).ok().flatten();
    let variables = tree::variables(pid, [recover::MARK, whose::HOME_VARIABLE]);
    let unreadable = matches!(&variables, Err(error) if error.kind() == io::ErrorKind::PermissionDenied);
    let [mark, home] = variables.unwrap_or_default();
    let by_mark = mark.and_then(|mark| whose::claim_of_mark(&mark, home));
    let by_group = group.as_deref().and_then(boundary::run_of_group).map(|(id, epoch)| Claim {
        by: Source::Group,
        home: by_mark.as_ref().filter(|mark| mark.id == id).and_then(|mark| mark.home.clone()),
        id,
        epoch: Some(epoch),
    });
    (by_group.or(by_mark), unreadable)
}

fn stranger(process: &ProcessStat, claim: &Claim, why: String) -> Stranger {
    let by = match claim.by {
        Source::Group => "by its control group",
        Source::Keeper | Source::Descent | Source::Lock | Source::Mark => "by a variable it inherited",
    };
    Stranger {
        pid: process.pid,
        age_ms: process.age_ms(),
        command: command_of(process),
        uid: process.open().and_then(|opened| opened.uid()).ok(),
        guess: format!("session {} {by}", claim.id),
        why,
        is_new: true,
    }
}

/// An agent that a person, or something else, started without us.
fn foreign_agent(writer: &writers::Writer) -> Stranger {
    let pid = writer.identity.pid;
    let place = match (&writer.terminal, &writer.cwd) {
        (Some(terminal), _) => format!("a process at {}", terminal.display()),
        (None, Some(cwd)) => format!("a process started in {}", cwd.display()),
        (None, None) => "another program".to_owned(),
    };
    Stranger {
        pid,
        age_ms: berth_host::clock::wall_ms().saturating_sub(writer.since_ms),
        command: writer.command.clone(),
        uid: identity::stat(pid).and_then(|stat| stat.open()?.uid()).ok(),
        guess: place,
        why: format!("no session has its conversation {}", writer.conversation_id),
        is_new: true,
    }
}

/// Whether a run of the session goes on.
pub(crate) fn is_live(status: &Status) -> bool {
    match status.state {
        SessionState::Starting | SessionState::Running | SessionState::Working => true,
        SessionState::NeedsYou | SessionState::Stopping => true,
        // An agent that was released has nothing that runs.
        SessionState::Idle => status.keeper_pid.is_some(),
        SessionState::Stopped | SessionState::Lost | SessionState::Archived | SessionState::Other(_) => false,
    }
}

/// Whether a session's last run is over, and that is recorded.
fn is_over(status: &Status) -> bool {
    status.state.is_final() && !status.is_unrecorded_loss()
}

/// How long a session may be at rest, if it is and was for longer. By the wall clock, since nothing else counts
/// across a restart of the host: a clock that jumps puts sessions away too early or too late, and what was put
/// away comes back with one command.
fn rest_is_over(status: &Status, now: u64) -> Option<u64> {
    let rest_ms = status.what.policy.archive_after_ms?;
    (status.is_at_rest() && now.saturating_sub(status.last_activity_at.0) >= rest_ms).then_some(rest_ms)
}
