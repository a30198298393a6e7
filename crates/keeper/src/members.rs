//! Which processes belong to a session.
//!
//! Promise: looking changes nothing. Sessions inside a session are not its members. Each member has a
//! reason to be one: it is the keeper, or below it, or in the run's control group, or carries the run's
//! mark, or holds the run's lock.
//! Not here: ending them (see [`crate::recover`], which wants proof), the way back from a process to its
//! session (see [`crate::whose`]), words.
//! Start with [`members`]; [`Evidence`] for many sessions at once.

use std::collections::BTreeMap;
use std::io;

use berth_api::{Code, Problem};
use berth_core::{Session, SessionId};
use berth_host::identity::{self, Identity, ProcessStat, Verdict};
use berth_host::lock::Probe;
use berth_host::process::census;
use berth_host::tree;
use berth_store::SessionFiles;
use berth_store::home::Home;
use berth_store::{process, view};

use crate::{boundary, foreign, recover};

/// What of a session runs now.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// The keeper first, if there is one; then the others by pid.
    pub processes: Vec<Member>,
}

/// A process of a session.
#[derive(Clone, Debug)]
pub struct Member {
    /// The process.
    pub process: ProcessStat,
    /// What it is to the session.
    pub role: Role,
    /// It is of the run, but not, or no longer, below the keeper.
    pub astray: bool,
}

/// What a process is to its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It holds the session.
    Keeper,
    /// The program that was to be run.
    Agent,
    /// Started by that, or by what that started.
    Process,
}

impl Members {
    /// The keeper's process.
    pub fn keeper(&self) -> Option<&ProcessStat> {
        self.processes.iter().find(|member| member.role == Role::Keeper).map(|member| &member.process)
    }
}

/// The processes of a session; none if it does not run.
pub fn members(home: &Home, id: &SessionId) -> Result<Members, Problem> {
    Evidence::gather()?.members(home, id)
}

/// What all processes carry, read once for as many sessions as wanted.
#[derive(Debug)]
pub struct Evidence {
    all: Vec<ProcessStat>,
    marked: Vec<(Identity, String)>,
}

impl Evidence {
    /// Looks at every process.
    pub fn gather() -> Result<Self, Problem> {
        let gathered = census().and_then(|all| Ok(Self { all, marked: tree::with_any_mark(recover::MARK)? }));
        gathered.map_err(|error| cannot_look(&error))
    }

    /// The processes of a session; none if it does not run.
    pub fn members(&self, home: &Home, id: &SessionId) -> Result<Members, Problem> {
        let session = view::history(home, id)?.session;
        let files = home.session(id);
        let keeper = living_keeper(&files, &session);
        let mut found = Found { all: &self.all, pids: BTreeMap::new() };
        if let Some(keeper) = keeper {
            found.add(keeper, false);
            found.add_below(keeper, false);
        } else if matches!(files.probe_run_lock(), Ok(Some(Probe::Held))) {
            // Below a living keeper all are found by descent. Without one, who cleared its environment
            // still has the lock it inherited.
            let holders = files.run_lock_carriers().map_err(|error| cannot_look(&error))?;
            // A keeper that is leaving has it for a moment longer, and is nothing that runs.
            let leaving = session.keeper.as_ref().map(process::identity);
            for holder in holders.processes.into_iter().filter(|holder| Some(holder) != leaving.as_ref()) {
                found.add(holder.pid, true);
                found.add_below(holder.pid, true);
            }
        }
        let group = boundary::group_of(&session, id);
        let members = group.and_then(|group| group.map(|group| group.members()).transpose());
        // One that cannot be read adds nothing to what the other evidence shows.
        let members = members.ok().flatten().unwrap_or_default();
        let ours = foreign::split(&members.pids).map_err(|error| cannot_look(&error))?.ours;
        ours.into_iter().for_each(|pid| found.add(pid, true));
        for (process, _) in self.marked.iter().filter(|(_, mark)| is_mark_of(mark, id)) {
            if !found.pids.contains_key(&process.pid) && matches!(process.check(), Verdict::Alive(_)) {
                found.add(process.pid, true);
                found.add_below(process.pid, true);
            }
        }
        Ok(found.members(keeper, &session))
    }
}

/// What was found of one session.
struct Found<'e> {
    all: &'e [ProcessStat],
    /// Who, and whether astray.
    pids: BTreeMap<u32, bool>,
}

impl Found<'_> {
    fn add(&mut self, pid: u32, astray: bool) {
        self.pids.entry(pid).or_insert(astray);
    }

    fn add_below(&mut self, pid: u32, astray: bool) {
        let below = foreign::below_in(self.all, pid);
        below.ours.into_iter().for_each(|pid| self.add(pid, astray));
    }

    fn members(self, keeper: Option<u32>, session: &Session) -> Members {
        let agent = session.agent().map(process::identity);
        let role = |process: &ProcessStat| match &agent {
            _ if Some(process.pid) == keeper => Role::Keeper,
            Some(agent) if process.pid == agent.pid && process.start_ticks == agent.start_ticks => {
                Role::Agent
            }
            Some(_) | None => Role::Process,
        };
        // Who ended meanwhile is not told of.
        let living = self.pids.into_iter().filter_map(|(pid, astray)| {
            let process = identity::stat(pid).ok().filter(|process| !process.is_zombie())?;
            Some(Member { role: role(&process), process, astray })
        });
        let mut processes: Vec<Member> = living.collect();
        processes.sort_by_key(|member| (member.role != Role::Keeper, member.process.pid));
        Members { processes }
    }
}

fn living_keeper(files: &SessionFiles, session: &Session) -> Option<u32> {
    let keeper = session.keeper.as_ref().filter(|_| session.is_live())?;
    let lives = matches!(process::identity(keeper).check(), Verdict::Alive(_));
    (lives && files.is_kept().unwrap_or(false)).then_some(keeper.pid)
}

fn is_mark_of(mark: &str, id: &SessionId) -> bool {
    mark.split(':').next() == Some(id.as_str())
}

fn cannot_look(error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot look through /proc: {error}"))
}
