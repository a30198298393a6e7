//! Attribution of a process to a session: the claims on it, the strength of each, and the verdict.
//!
//! Promise: a claim is a fact that was looked up just now, never a look at a name. The strongest decides;
//! an inherited variable alone is never enough to end a process whose run is over.
//! Not here: ending anything (see `berth_keeper::recover` and `berth_verbs::sweep`).
//! Start with [`attribute_process`].

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_api::{Problem, SessionState, SessionStatus};
use berth_core::{Epoch, SessionId};
use berth_host::identity::{self, ProcessStat};
use berth_host::{cgroup, process_tree};
use berth_store::SessionFiles;
use berth_store::foreign_lease_holder::command_of_process;
use berth_store::state_dir::{FOLDERS, StateDir};
use berth_store::{keepers, session_status};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{nested_sessions, run_cgroups};

/// The variable every process of a run inherits.
pub const MARK: &str = "BERTH_RUN";
/// The value of [`MARK`] for a run.
pub fn environment_mark(id: &SessionId, epoch: Epoch) -> String {
    format!("{id}:{epoch}")
}

/// The variable with the state directory that a process of ours belongs to.
pub const HOME_VARIABLE: &str = "BERTH_HOME";

/// Attribution of one process to a session or helper.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ProcessAttribution {
    /// Id of the process in question.
    pub pid: u32,
    /// Command line of the process, without secrets.
    pub command: String,
    /// Age of the process in milliseconds.
    pub age_ms: u64,
    /// Result of the attribution.
    pub verdict: AttributionVerdict,
    /// `session` or `helper`.
    pub kind: &'static str,
    /// Id of the session or helper that the process belongs to; absent if unknown.
    pub session: Option<String>,
    /// Name of that session or helper, if it has one.
    pub name: Option<String>,
    /// Number of the run (epoch) that the process belongs to.
    pub epoch: Option<u64>,
    /// State directory of that session, if it is not this one.
    pub home: Option<PathBuf>,
    /// Facts behind the result.
    pub evidence: Vec<EvidenceFact>,
    /// Action that berth would take on the process, and when.
    pub planned_action: String,
}

/// A fact, where it comes from, and how old it is.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct EvidenceFact {
    /// The source of the fact, such as `lease` or `journal`.
    pub source: &'static str,
    /// The fact itself, as a sentence.
    pub fact: String,
    /// The age of the fact in milliseconds; 0 if it was read just now.
    pub age_ms: u64,
}

/// Result of attributing a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttributionVerdict {
    /// Belongs to a run that goes on.
    Ours,
    /// Belongs to a run whose keeper is gone, or that is over.
    LeftOver,
    /// Carries a claim on a session that has no record.
    NoRecord,
    /// Belongs to a session in another state directory.
    Elsewhere,
    /// No fact connects it to berth.
    NotOurs,
    /// Not everything could be read, or the facts prove too little.
    CannotTell,
}

/// A fact that ties a process to a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessClaim {
    /// The source of the fact.
    pub by: ClaimSource,
    /// The session that the fact names.
    pub id: SessionId,
    /// The run; `None`, meaning the current one, if the fact does not name a run.
    pub epoch: Option<Epoch>,
    /// The state directory the fact names.
    pub home: Option<PathBuf>,
}

/// The basis of a claim, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClaimSource {
    /// The process is the keeper, by the lease.
    Keeper,
    /// The process is in the run's control group.
    Group,
    /// A keeper is above the process in the process tree.
    Descent,
    /// The process holds the run's lock.
    Lock,
    /// The process has the run's mark in its environment.
    Mark,
}

impl ClaimSource {
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

/// The claims on one process, the strongest first, and the facts that could not be read.
#[derive(Debug, Default)]
pub struct ProcessClaims {
    /// The claims that were found.
    pub claims: Vec<ProcessClaim>,
    /// Facts that could not be read, with the reasons.
    pub unreadable: Vec<String>,
}

/// Attributes a process by all facts that can be found out about it.
pub fn attribute_process(home: &StateDir, pid: u32) -> Result<ProcessAttribution, Problem> {
    let stat = identity::process_stat(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::not_found(format!("there is no process {pid}"))
            .hint("`berth ps` lists the processes of all sessions"),
        _ => Problem::refused(format!("cannot look at process {pid}: {error}")),
    })?;
    if stat.is_zombie() {
        let what = format!("process {pid} has ended; process {} has not collected its exit yet", stat.ppid);
        return Err(Problem::not_found(what));
    }
    let found = claims_on(&stat);
    let mut told = judge(home, &stat, &found)?;
    let facts = found.claims.iter().map(|claim| EvidenceFact {
        source: claim.by.word(),
        fact: words(claim),
        age_ms: 0,
    });
    told.evidence = facts.collect();
    told.evidence.extend(found.unreadable.into_iter().map(|fact| EvidenceFact {
        source: "not seen",
        fact,
        age_ms: 0,
    }));
    Ok(told)
}

/// Looks up every claim on a process.
pub fn claims_on(stat: &ProcessStat) -> ProcessClaims {
    let mut found = ProcessClaims::default();
    if let Some(session) = keepers::session_of_keeper(stat.pid) {
        found.claims.push(claim_of(ClaimSource::Keeper, &session));
    }
    match cgroup::group_of_process(stat.pid) {
        Ok(name) => {
            let run = name.as_deref().and_then(run_cgroups::run_of_group);
            found.claims.extend(run.map(|(id, epoch)| ProcessClaim {
                by: ClaimSource::Group,
                id,
                epoch: Some(epoch),
                home: None,
            }));
        }
        Err(error) => found.unreadable.push(format!("its control group: {error}")),
    }
    if found.claims.first().is_some_and(|claim| claim.by == ClaimSource::Keeper) {
        // The lease is sufficient evidence. A keeper's open files and environment are closed even to its own account.
        return found;
    }
    let above = nested_sessions::keeper_above(stat);
    found.claims.extend(above.map(|session| claim_of(ClaimSource::Descent, &session)));
    match SessionFiles::with_run_lock_of(stat.pid) {
        Ok(sessions) => found.claims.extend(sessions.into_iter().map(|(id, files)| match files {
            Some(files) => claim_of(ClaimSource::Lock, &files),
            None => ProcessClaim { by: ClaimSource::Lock, id, epoch: None, home: None },
        })),
        Err(error) => found.unreadable.push(format!("its open files: {error}")),
    }
    match process_tree::process_variables(stat.pid, [MARK, HOME_VARIABLE]) {
        Ok([mark, home]) => found.claims.extend(mark.and_then(|mark| claim_of_mark(&mark, home))),
        Err(error) => found.unreadable.push(format!("its environment: {error}")),
    }
    found
}

/// The claim in the values of [`MARK`] and [`HOME_VARIABLE`]; `None` if the mark is not one of ours.
pub fn claim_of_mark(mark: &str, home: Option<String>) -> Option<ProcessClaim> {
    let (id, epoch) = mark.split_once(':')?;
    Some(ProcessClaim {
        by: ClaimSource::Mark,
        id: SessionId::parse(id)?,
        epoch: Some(Epoch(epoch.parse().ok()?)),
        home: home.map(PathBuf::from),
    })
}

/// A claim by a session's path, which names the state directory as well.
fn claim_of(by: ClaimSource, session: &SessionFiles) -> ProcessClaim {
    ProcessClaim { by, id: session.id().clone(), epoch: None, home: Some(session.root().to_owned()) }
}

/// The strongest claim on a process. A group does not say in which state directory its session is; other
/// claims on the same session may.
pub fn strongest_claim(claims: &[ProcessClaim]) -> Option<ProcessClaim> {
    let mut claim = claims.iter().min_by_key(|claim| claim.by)?.clone();
    let same = claims.iter().filter(|other| other.id == claim.id);
    claim.home = claim.home.or_else(|| same.filter_map(|other| other.home.clone()).next());
    Some(claim)
}

/// The record that a claim refers to.
pub enum ClaimedRecord {
    /// The status of the session.
    Found(Box<SessionStatus>),
    /// No record, here or where the claim points to.
    Missing,
    /// The session is in another state directory.
    Elsewhere(PathBuf),
}

/// Finds the record of the session or helper that a claim names.
pub fn record_of(home: &StateDir, claim: &ProcessClaim) -> Result<ClaimedRecord, Problem> {
    if let Some(other) = claim.home.as_ref().filter(|dir| !is_same_directory(dir, home.root())) {
        let gone =
            |folder: &str| matches!(other.join(folder).join(claim.id.as_str()).try_exists(), Ok(false));
        let is_there = !FOLDERS.iter().all(|folder| gone(folder));
        return Ok(if is_there { ClaimedRecord::Elsewhere(other.clone()) } else { ClaimedRecord::Missing });
    }
    for dir in home.folders() {
        if dir.session(&claim.id).has_events()? {
            return session_status::status(&dir, &claim.id)
                .map(|status| ClaimedRecord::Found(Box::new(status)));
        }
    }
    Ok(ClaimedRecord::Missing)
}

/// True if two paths lead to one directory: one of them may go through a link.
pub fn is_same_directory(one: &Path, other: &Path) -> bool {
    let place = |dir: &Path| std::fs::metadata(dir).ok().map(|dir| (dir.dev(), dir.ino()));
    one == other || place(one).is_some_and(|one| place(other) == Some(one))
}

/// The verdict that follows from the claims.
fn judge(home: &StateDir, stat: &ProcessStat, found: &ProcessClaims) -> Result<ProcessAttribution, Problem> {
    let mut told = ProcessAttribution {
        pid: stat.pid,
        command: command_of_process(stat),
        age_ms: stat.age_ms(),
        verdict: AttributionVerdict::NotOurs,
        kind: "session",
        session: None,
        name: None,
        epoch: None,
        home: None,
        evidence: vec![],
        planned_action: "nothing: berth does not touch a process without a claim".to_owned(),
    };
    let Some(claim) = &strongest_claim(&found.claims) else {
        if !found.unreadable.is_empty() {
            told.verdict = AttributionVerdict::CannotTell;
            told.planned_action = "nothing: a process that cannot be attributed is left alone".to_owned();
        }
        return Ok(told);
    };
    told.session = Some(claim.id.to_string());
    told.epoch = claim.epoch.map(|epoch| epoch.0);
    match record_of(home, claim)? {
        ClaimedRecord::Elsewhere(dir) => {
            told.verdict = AttributionVerdict::Elsewhere;
            told.home = Some(dir.clone());
            told.planned_action = format!(
                "nothing from here; look at it with BERTH_HOME={} berth why --pid {}",
                dir.display(),
                stat.pid
            );
        }
        ClaimedRecord::Missing => {
            told.verdict = AttributionVerdict::NoRecord;
            told.planned_action =
                "nothing: there is no record of its session here. If it is not needed, end it by hand"
                    .to_owned();
        }
        ClaimedRecord::Found(status) => {
            told.name.clone_from(&status.name);
            if let Some(helper) = &status.helper {
                (told.kind, told.name) = ("helper", Some(helper.name.clone()));
            }
            (told.verdict, told.planned_action) = verdict_of_claim(claim, &status);
        }
    }
    Ok(told)
}

/// The verdict on a process with this claim and its future, by the status of its session.
pub fn verdict_of_claim(claim: &ProcessClaim, status: &SessionStatus) -> (AttributionVerdict, String) {
    let (kind, handle, stop) = match &status.helper {
        Some(helper) => ("helper", helper.name.as_str(), "berth helper stop"),
        None => ("session", status.handle(), "berth stop"),
    };
    let current = claim.epoch.is_none_or(|epoch| epoch.0 == status.epoch);
    if current && has_live_run(status) {
        (AttributionVerdict::Ours, format!("it ends with its {kind}: at the latest with `{stop} {handle}`"))
    } else if current && status.is_unrecorded_loss() {
        let why = "ends it: its keeper is gone";
        (
            AttributionVerdict::LeftOver,
            format!("the next `berth sweep`, or command about {kind} {handle}, {why}"),
        )
    } else if claim.by != ClaimSource::Group {
        let why =
            "its run is over, and only an inherited lock or variable names it. End it by hand if not needed";
        (AttributionVerdict::CannotTell, format!("nothing: {why}"))
    } else {
        (AttributionVerdict::LeftOver, "the next `berth sweep` ends it: its run is over".to_owned())
    }
}

/// True if the session has a run that goes on.
pub fn has_live_run(status: &SessionStatus) -> bool {
    match status.state {
        SessionState::Starting | SessionState::Running | SessionState::Working => true,
        SessionState::NeedsYou | SessionState::Stopping => true,
        // An agent that was released has no process.
        SessionState::Idle => status.keeper_pid.is_some(),
        SessionState::Stopped | SessionState::Lost | SessionState::Archived | SessionState::Other(_) => false,
    }
}

fn words(claim: &ProcessClaim) -> String {
    let run = claim.epoch.map(|epoch| format!("run {epoch} of ")).unwrap_or_default();
    let session = format!("{run}session {}", claim.id);
    match claim.by {
        ClaimSource::Keeper => format!("it is the keeper of {session}; the lease names it"),
        ClaimSource::Group => format!("it is in the control group of {session}"),
        ClaimSource::Descent => format!("the keeper of {session} is above it in the process tree"),
        ClaimSource::Lock => format!("it holds the lock that only {session} hands on"),
        ClaimSource::Mark => format!("its environment carries the mark of {session}"),
    }
}

#[cfg(test)]
mod tests {
    use berth_core::SessionState;

    use super::*;

    #[test]
    fn a_process_of_a_run_that_goes_on_is_ours_in_every_state_of_its_agent() {
        let id = SessionId::from_random([1; SessionId::LENGTH]);
        let verdict = |state: SessionState, keeper_pid: Option<u32>, run: u64| {
            let claim =
                ProcessClaim { by: ClaimSource::Group, id: id.clone(), epoch: Some(Epoch(run)), home: None };
            let state = state.into();
            verdict_of_claim(
                &claim,
                &SessionStatus { state, keeper_pid, epoch: 2, ..SessionStatus::default() },
            )
            .0
        };
        let live = [
            SessionState::Starting,
            SessionState::Running,
            SessionState::Working,
            SessionState::NeedsYou,
            SessionState::Idle,
            SessionState::Stopping,
        ];
        for state in live {
            assert_eq!(verdict(state, Some(7), 2), AttributionVerdict::Ours, "{state:?}");
            assert_eq!(
                verdict(state, Some(7), 1),
                AttributionVerdict::LeftOver,
                "of an earlier run, {state:?}"
            );
        }
        assert_eq!(
            verdict(SessionState::Idle, None, 2),
            AttributionVerdict::LeftOver,
            "its agent was released"
        );
        for state in [SessionState::Stopped, SessionState::Lost, SessionState::Archived] {
            assert_eq!(verdict(state, None, 2), AttributionVerdict::LeftOver, "{state:?}");
        }
    }
}
