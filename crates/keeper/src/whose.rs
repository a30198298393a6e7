//! Whose is a process? The claims on it, how strong each is, and what follows.
//!
//! Promise: a claim is a fact that was looked up just now, never a look at a name. The strongest decides;
//! what only an inherited variable says is never enough to end a process whose run is over.
//! Not here: ending anything (see `recover` and `sweep`).
//! Start with [`whose`].

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem, Status};
use berth_core::{Epoch, SessionId};
use berth_host::identity::{self, ProcessStat};
use berth_host::{cgroup, tree};
use berth_store::SessionFiles;
use berth_store::home::{Home, SHELVES};
use berth_store::stranger::command_of;
use berth_store::{keepers, view};
use schemars::JsonSchema;
use serde::Serialize;

use crate::why::Fact;
use crate::{boundary, foreign, recover, sweep};

/// The variable that says which state directory a process of ours belongs to.
pub(crate) const HOME_VARIABLE: &str = "BERTH_HOME";

/// What is known about the owner of a process.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Whose {
    /// The process.
    pub pid: u32,
    /// What it runs, without secrets.
    pub command: String,
    /// Its age.
    pub age_ms: u64,
    /// Whose it is.
    pub verdict: Verdict,
    /// What it is of: a session or a helper.
    pub kind: &'static str,
    /// The session or helper it is of, by id.
    pub session: Option<String>,
    /// What people call that.
    pub name: Option<String>,
    /// The run it is of.
    pub epoch: Option<u64>,
    /// Where that session lives, if not in this state directory.
    pub home: Option<PathBuf>,
    /// Why that is said.
    pub evidence: Vec<Fact>,
    /// What berth would do with it, and when.
    pub would_happen: String,
}

/// Whose a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Of a run that goes on.
    Ours,
    /// Of a run whose keeper is gone, or that is over.
    LeftOver,
    /// It carries a claim of ours on a session that there is no record of.
    NoRecord,
    /// Of a session in another state directory.
    Elsewhere,
    /// Nothing says that it is ours.
    NotOurs,
    /// Not everything could be looked at, or what there is proves too little.
    CannotTell,
}

/// A fact that ties a process to a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Claim {
    pub(crate) by: Source,
    pub(crate) id: SessionId,
    /// Which run; the current one if the fact does not say.
    pub(crate) epoch: Option<Epoch>,
    /// The state directory the fact names.
    pub(crate) home: Option<PathBuf>,
}

/// What a claim rests on, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Source {
    /// It is the keeper, and the lease says so.
    Keeper,
    /// It is in the run's control group.
    Group,
    /// A keeper is above it in the process tree.
    Descent,
    /// It holds the run's lock.
    Lock,
    /// It has the run's mark in its environment.
    Mark,
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Group => "cgroup",
            Self::Descent => "descent",
            Self::Lock => "run lock",
            Self::Mark => "mark",
        }
    }
}

/// The claims on one process, the strongest first, and what could not be looked at.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) claims: Vec<Claim>,
    pub(crate) unreadable: Vec<String>,
}

/// Whose a process is, by everything that can be found out about it.
pub fn whose(home: &Home, pid: u32) -> Result<Whose, Problem> {
    let stat = identity::stat(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(Code::NotFound, format!("there is no process {pid}"))
            .hint("`berth ps` lists the processes of all sessions"),
        _ => Problem::new(Code::Refused, format!("cannot look at process {pid}: {error}")),
    })?;
    if stat.is_zombie() {
        let what = format!("process {pid} has ended; process {} has not collected its exit yet", stat.ppid);
        return Err(Problem::new(Code::NotFound, what));
    }
    let found = claims_on(&stat);
    let mut told = judge(home, &stat, &found)?;
    let facts =
        found.claims.iter().map(|claim| Fact { source: claim.by.word(), fact: words(claim), age_ms: 0 });
    told.evidence = facts.collect();
    told.evidence.extend(found.unreadable.into_iter().map(|fact| Fact {
        source: "not seen",
        fact,
        age_ms: 0,
    }));
    Ok(told)
}

/// Looks up every claim on a process.
pub(crate) fn claims_on(stat: &ProcessStat) -> Claims {
    let mut found = Claims::default();
    if let Some(session) = keepers::kept_by(stat.pid) {
        found.claims.push(claim_of(Source::Keeper, &session));
    }
    match cgroup::group_of_process(stat.pid) {
        Ok(name) => {
            let run = name.as_deref().and_then(boundary::run_of_group);
            found.claims.extend(run.map(|(id, epoch)| Claim {
                by: Source::Group,
                id,
                epoch: Some(epoch),
                home: None,
            }));
        }
        Err(error) => found.unreadable.push(format!("its control group: {error}")),
    }
    if found.claims.first().is_some_and(|claim| claim.by == Source::Keeper) {
        // The lease is sufficient evidence. A keeper's open files and environment are closed to its own account.
        return found;
    }
    let above = foreign::keeper_above(stat);
    found.claims.extend(above.map(|session| claim_of(Source::Descent, &session)));
    match SessionFiles::with_run_lock_of(stat.pid) {
        Ok(sessions) => found.claims.extend(sessions.into_iter().map(|(id, files)| match files {
            Some(files) => claim_of(Source::Lock, &files),
            None => Claim { by: Source::Lock, id, epoch: None, home: None },
        })),
        Err(error) => found.unreadable.push(format!("its open files: {error}")),
    }
    match tree::variables(stat.pid, [recover::MARK, HOME_VARIABLE]) {
        Ok([mark, home]) => found.claims.extend(mark.and_then(|mark| claim_of_mark(&mark, home))),
        Err(error) => found.unreadable.push(format!("its environment: {error}")),
    }
    found
}

pub(crate) fn claim_of_mark(mark: &str, home: Option<String>) -> Option<Claim> {
    let (id, epoch) = mark.split_once(':')?;
    Some(Claim {
        by: Source::Mark,
        id: SessionId::parse(id)?,
        epoch: Some(Epoch(epoch.parse().ok()?)),
        home: home.map(PathBuf::from),
    })
}

/// A claim by a session's place, which names the state directory as well.
fn claim_of(by: Source, session: &SessionFiles) -> Claim {
    Claim { by, id: session.id().clone(), epoch: None, home: Some(session.root().to_owned()) }
}

/// The strongest claim on a process. A group does not say in which state directory its session is; other
/// claims on the same session may.
pub(crate) fn strongest(claims: &[Claim]) -> Option<Claim> {
    let mut claim = claims.iter().min_by_key(|claim| claim.by)?.clone();
    let same = claims.iter().filter(|other| other.id == claim.id);
    claim.home = claim.home.or_else(|| same.filter_map(|other| other.home.clone()).next());
    Some(claim)
}

/// The record a claim is about.
pub(crate) enum Record {
    /// There is one.
    Found(Box<Status>),
    /// There is none, here or where the claim says.
    Missing,
    /// It is in another state directory.
    Elsewhere(PathBuf),
}

/// Looks for the session or helper a claim names.
pub(crate) fn record_of(home: &Home, claim: &Claim) -> Result<Record, Problem> {
    if let Some(other) = claim.home.as_ref().filter(|dir| !is_same(dir, home.root())) {
        let gone = |shelf: &str| matches!(other.join(shelf).join(claim.id.as_str()).try_exists(), Ok(false));
        let is_there = !SHELVES.iter().all(|shelf| gone(shelf));
        return Ok(if is_there { Record::Elsewhere(other.clone()) } else { Record::Missing });
    }
    for shelf in home.shelves() {
        if shelf.session(&claim.id).has_events()? {
            return view::status(&shelf, &claim.id).map(|status| Record::Found(Box::new(status)));
        }
    }
    Ok(Record::Missing)
}

/// Whether two paths lead to one directory: one of them may go through a link.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |dir: &Path| std::fs::metadata(dir).ok().map(|dir| (dir.dev(), dir.ino()));
    one == other || place(one).is_some_and(|one| place(other) == Some(one))
}

/// What the claims come to.
fn judge(home: &Home, stat: &ProcessStat, found: &Claims) -> Result<Whose, Problem> {
    let mut told = Whose {
        pid: stat.pid,
        command: command_of(stat),
        age_ms: stat.age_ms(),
        verdict: Verdict::NotOurs,
        kind: "session",
        session: None,
        name: None,
        epoch: None,
        home: None,
        evidence: vec![],
        would_happen: "nothing: berth does not touch what it has no claim on".to_owned(),
    };
    let Some(claim) = &strongest(&found.claims) else {
        if !found.unreadable.is_empty() {
            told.verdict = Verdict::CannotTell;
            told.would_happen = "nothing: what cannot be told is left alone".to_owned();
        }
        return Ok(told);
    };
    told.session = Some(claim.id.to_string());
    told.epoch = claim.epoch.map(|epoch| epoch.0);
    match record_of(home, claim)? {
        Record::Elsewhere(dir) => {
            told.verdict = Verdict::Elsewhere;
            told.home = Some(dir.clone());
            told.would_happen = format!(
                "nothing from here; look at it with BERTH_HOME={} berth why --pid {}",
                dir.display(),
                stat.pid
            );
        }
        Record::Missing => {
            told.verdict = Verdict::NoRecord;
            told.would_happen =
                "nothing: there is no record of its session here. If it is not needed, end it by hand"
                    .to_owned();
        }
        Record::Found(status) => {
            told.name.clone_from(&status.name);
            if let Some(helper) = &status.helper {
                (told.kind, told.name) = ("helper", Some(helper.name.clone()));
            }
            (told.verdict, told.would_happen) = fate(claim, &status);
        }
    }
    Ok(told)
}

/// What becomes of a process with this claim, by what is known of its session.
pub(crate) fn fate(claim: &Claim, status: &Status) -> (Verdict, String) {
    let (kind, handle, stop) = match &status.helper {
        Some(helper) => ("helper", helper.name.as_str(), "berth helper stop"),
        None => ("session", status.handle(), "berth stop"),
    };
    let current = claim.epoch.is_none_or(|epoch| epoch.0 == status.epoch);
    if current && sweep::is_live(status) {
        (Verdict::Ours, format!("it ends with its {kind}: at the latest with `{stop} {handle}`"))
    } else if current && status.is_unrecorded_loss() {
        let why = "ends it: its keeper is gone";
        (Verdict::LeftOver, format!("the next `berth sweep`, or command about {kind} {handle}, {why}"))
    } else if claim.by != Source::Group {
        let why =
            "its run is over, and only what it inherited ties it to that. End it by hand if it is not needed";
        (Verdict::CannotTell, format!("nothing: {why}"))
    } else {
        (Verdict::LeftOver, "the next `berth sweep` ends it: its run is over".to_owned())
    }
}

fn words(claim: &Claim) -> String {
    let run = claim.epoch.map(|epoch| format!("run {epoch} of ")).unwrap_or_default();
    let session = format!("{run}session {}", claim.id);
    match claim.by {
        Source::Keeper => format!("it is the keeper of {session}; the lease names it"),
        Source::Group => format!("it is in the control group of {session}"),
        Source::Descent => format!("the keeper of {session} is above it in the process tree"),
        Source::Lock => format!("it holds the lock that only {session} hands on"),
        Source::Mark => format!("its environment carries the mark of {session}"),
    }
}

#[cfg(test)]
mod tests {
    use berth_core::State;

    use super::*;

    #[test]
    fn a_process_of_a_run_that_goes_on_is_ours_whatever_its_agent_does() {
        let id = SessionId::from_random([1; SessionId::LENGTH]);
        let verdict = |state: State, keeper_pid: Option<u32>, run: u64| {
            let claim = Claim { by: Source::Group, id: id.clone(), epoch: Some(Epoch(run)), home: None };
            let state = state.into();
            fate(&claim, &Status { state, keeper_pid, epoch: 2, ..Status::default() }).0
        };
        let live =
            [State::Starting, State::Running, State::Working, State::NeedsYou, State::Idle, State::Stopping];
        for state in live {
            assert_eq!(verdict(state, Some(7), 2), Verdict::Ours, "{state:?}");
            assert_eq!(verdict(state, Some(7), 1), Verdict::LeftOver, "of an earlier run, {state:?}");
        }
        assert_eq!(verdict(State::Idle, None, 2), Verdict::LeftOver, "its agent was released");
        for state in [State::Stopped, State::Lost, State::Archived] {
            assert_eq!(verdict(state, None, 2), Verdict::LeftOver, "{state:?}");
        }
    }
}
