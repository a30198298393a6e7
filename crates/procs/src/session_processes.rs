//! The processes that belong to a session.
//!
//! Promise: looking changes nothing. Sessions inside a session are not its members. Each member has a
//! reason to be one: it is the keeper, or below it, or in the run's control group, or carries the run's
//! mark, or holds the run's lock.
//! Not here: ending them (see `berth_keeper::recover`, which needs proof), the way from a process to its session (see
//! [`crate::attribution`]), texts for people.
//! Start with [`member_processes`]; [`ProcessSnapshot`] for many sessions at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use berth_api::Problem;
use berth_core::{Session, SessionId};
use berth_host::identity::{self, Pidfd, ProcessIdentity, ProcessLiveness, ProcessStat};
use berth_host::lock::LockState;
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_store::SessionFiles;
use berth_store::state_dir::StateDir;
use berth_store::{process_ref, session_status};

use crate::attribution::MARK;
use crate::{nested_sessions, run_cgroups};

/// The processes of a session that run now.
#[derive(Clone, Debug, Default)]
pub struct MemberProcesses {
    /// The keeper first, if there is one; then the others by pid.
    pub processes: Vec<MemberProcess>,
}

/// A process of a session.
#[derive(Clone, Debug)]
pub struct MemberProcess {
    /// The process as `/proc` shows it.
    pub process: ProcessStat,
    /// The role of the process in the session.
    pub role: ProcessRole,
    /// True if the process is of the run, but not, or no longer, below the keeper.
    pub astray: bool,
}

/// The role of a process in its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessRole {
    /// The process that holds the session.
    Keeper,
    /// The first process of the run.
    Agent,
    /// A descendant of the agent's process.
    Process,
}

impl MemberProcesses {
    /// The keeper's process, if the session has one.
    pub fn keeper(&self) -> Option<&ProcessStat> {
        self.processes.iter().find(|member| member.role == ProcessRole::Keeper).map(|member| &member.process)
    }
}

/// The processes of a session; none if it does not run.
pub fn member_processes(home: &StateDir, id: &SessionId) -> Result<MemberProcesses, Problem> {
    ProcessSnapshot::gather()?.members(home, id)
}

/// The marks and ancestors of all processes, read once for any number of sessions.
#[derive(Debug)]
pub struct ProcessSnapshot {
    all: Vec<ProcessStat>,
    marked: Vec<(ProcessIdentity, String)>,
}

impl ProcessSnapshot {
    /// Reads every process.
    pub fn gather() -> Result<Self, Problem> {
        let gathered = all_processes()
            .and_then(|all| Ok(Self { all, marked: process_tree::processes_with_variable_named(MARK)? }));
        gathered.map_err(|error| cannot_look(&error))
    }

    /// The processes of a session; none if it does not run.
    pub fn members(&self, home: &StateDir, id: &SessionId) -> Result<MemberProcesses, Problem> {
        let session = session_status::history(home, id)?.session;
        let files = home.session(id);
        let keeper = living_keeper(&files, &session);
        let mut found = FoundMembers { all: &self.all, pids: BTreeMap::new() };
        if let Some(keeper) = keeper {
            found.add(keeper, false);
            found.add_below(keeper, false);
        } else if matches!(files.probe_run_lock(), Ok(Some(LockState::Held))) {
            // Below a living keeper all processes are found by descent. Without a keeper, a process that cleared its
            // environment still has the lock it inherited.
            let holders = files.run_lock_carriers().map_err(|error| cannot_look(&error))?;
            // A keeper that is leaving has the lock for a moment longer, and is not a member of the run.
            let leaving = session.keeper.as_ref().map(process_ref::to_process_identity);
            for holder in holders.processes.into_iter().filter(|holder| Some(holder) != leaving.as_ref()) {
                found.add(holder.pid, true);
                found.add_below(holder.pid, true);
            }
        }
        let group = run_cgroups::run_group(&session, id);
        let members = group.and_then(|group| group.map(|group| group.members()).transpose());
        // A group that cannot be read adds nothing to the other evidence.
        let members = members.ok().flatten().unwrap_or_default();
        let ours = nested_sessions::separate_nested_sessions(&members.pids)
            .map_err(|error| cannot_look(&error))?
            .ours;
        ours.into_iter().for_each(|pid| found.add(pid, true));
        for (process, _) in self.marked.iter().filter(|(_, mark)| is_mark_of(mark, id)) {
            if !found.pids.contains_key(&process.pid) && matches!(process.check(), ProcessLiveness::Alive(_))
            {
                found.add(process.pid, true);
                found.add_below(process.pid, true);
            }
        }
        Ok(found.members(keeper, &session))
    }
}

/// The processes found of one session.
struct FoundMembers<'e> {
    all: &'e [ProcessStat],
    /// The pids, with `true` for a process that is astray.
    pids: BTreeMap<u32, bool>,
}

impl FoundMembers<'_> {
    fn add(&mut self, pid: u32, astray: bool) {
        self.pids.entry(pid).or_insert(astray);
    }

    fn add_below(&mut self, pid: u32, astray: bool) {
        let below = nested_sessions::sort_listed_descendants(self.all, pid);
        below.ours.into_iter().for_each(|pid| self.add(pid, astray));
    }

    fn members(self, keeper: Option<u32>, session: &Session) -> MemberProcesses {
        let agent = session.agent().map(process_ref::to_process_identity);
        let role = |process: &ProcessStat| match &agent {
            _ if Some(process.pid) == keeper => ProcessRole::Keeper,
            Some(agent) if process.pid == agent.pid && process.start_ticks == agent.start_ticks => {
                ProcessRole::Agent
            }
            Some(_) | None => ProcessRole::Process,
        };
        // A process that ended meanwhile is left out.
        let living = self.pids.into_iter().filter_map(|(pid, astray)| {
            let process = identity::process_stat(pid).ok().filter(|process| !process.is_zombie())?;
            Some(MemberProcess { role: role(&process), process, astray })
        });
        let mut processes: Vec<MemberProcess> = living.collect();
        processes.sort_by_key(|member| (member.role != ProcessRole::Keeper, member.process.pid));
        MemberProcesses { processes }
    }
}

fn living_keeper(files: &SessionFiles, session: &Session) -> Option<u32> {
    let keeper = session.keeper.as_ref().filter(|_| session.is_live())?;
    let lives = matches!(process_ref::to_process_identity(keeper).check(), ProcessLiveness::Alive(_));
    (lives && files.is_kept().unwrap_or(false)).then_some(keeper.pid)
}

/// The descendants of processes of the run, which are of the run as well, even if they closed or cleared everything.
///
/// Listed twice with the processes held open in between: a reused pid is then either not in the second list or not
/// the process we hold.
pub fn descendants_of_run(parents: &[(ProcessIdentity, Pidfd)]) -> Vec<(ProcessIdentity, Pidfd)> {
    let list = || -> BTreeSet<u32> {
        let all = all_processes().unwrap_or_default();
        let alive = parents.iter().filter(|(_, pidfd)| !pidfd.has_exited());
        alive
            .flat_map(|(parent, _)| nested_sessions::sort_listed_descendants(&all, parent.pid).ours)
            .collect()
    };
    let known: BTreeSet<u32> = parents.iter().map(|(parent, _)| parent.pid).collect();
    let held = list().into_iter().filter(|pid| !known.contains(pid)).filter_map(|pid| {
        let identity = ProcessIdentity::of(pid).ok()?;
        match identity.check() {
            ProcessLiveness::Alive(pidfd) => Some((identity, pidfd)),
            ProcessLiveness::Gone | ProcessLiveness::CannotTell(_) => None,
        }
    });
    let held: Vec<(ProcessIdentity, Pidfd)> = held.collect();
    let again = if held.is_empty() { BTreeSet::new() } else { list() };
    held.into_iter().filter(|(identity, _)| again.contains(&identity.pid)).collect()
}

fn is_mark_of(mark: &str, id: &SessionId) -> bool {
    mark.split(':').next() == Some(id.as_str())
}

fn cannot_look(error: &io::Error) -> Problem {
    Problem::refused(format!("cannot look through /proc: {error}"))
}
