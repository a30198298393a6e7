//! Attribution of callers: a process outside of all sessions, or a process of a session's run.
//!
//! Promise: a claim is looked up, never taken from the caller's word; it is about the very process that connected, or
//! about no process. The lasting evidence is taken when the process connects, and stays with the connection.
//! Contradictory evidence (a keeper that its own lease does not name, a run without its record) makes the caller
//! *cannot tell*, never an outsider. All claims count: a process inside of two sessions may do only what both allow.
//! A statement about an agent on whose behalf another process asks (a gateway does that) only takes rights away.
//! Not here: what a caller may do (see `berth_core::check_permission`), ending processes (see `berth_keeper::recover`).
//! Start with [`sessions_around_process`], then [`CallerAttribution::allow`].

use std::fs;
use std::io;
use std::os::fd::AsFd;

use berth_api::message::{AttachMode, KeeperRequest};
use berth_api::problem::not_allowed;
use berth_api::{Problem, ProblemCode};
use berth_core::{ActionTarget, CallerAction, CallerKind, Epoch, Grant, SessionId, check_permission};
use berth_host::identity::{self, Pidfd, ProcessStat};
use berth_host::process::all_processes;
use berth_host::{cgroup, process_tree, socket};
use berth_store::SessionFiles;
use berth_store::state_dir::StateDir;
use berth_store::{keepers, notifications, session_status};

use crate::attribution::{HOME_VARIABLE, MARK, claim_of_mark, is_same_directory};
use crate::run_cgroups;

/// The number of generations up the tree in which a keeper is looked for.
const MOST_ANCESTORS: usize = 1000;
/// The number of attempts to climb the tree: it changes when a process on the way ends.
const ATTEMPTS: usize = 3;
/// The number of generations of sessions that start sessions.
const MOST_GENERATIONS: usize = 64;
/// The process name of a keeper, as the kernel has it.
const KEEPERS_NAME: &str = "berth";

/// A caller, by the evidence about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallerAttribution {
    /// A process outside of all sessions of this state directory.
    Outside,
    /// A process inside these sessions. Usually it is one; the strongest evidence comes first.
    Inside(Vec<EnclosingSession>),
    /// The caller cannot be attributed, for this reason.
    Unseen(String),
}

/// A session that the caller is inside of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnclosingSession {
    /// The id of the session.
    pub session: SessionId,
    /// The name that people use for it, or its id.
    pub handle: String,
    /// The grant of the session, which limits its processes.
    pub grant: Grant,
}

/// The other end of a connection, held on to.
#[derive(Debug)]
pub struct PeerProcess {
    pid: u32,
    uid: u32,
    process: io::Result<Pidfd>,
    /// The sessions that the process was inside of when it connected, by its lasting evidence; or why that is unknown.
    attribution: Result<Vec<SessionId>, String>,
}

impl PeerProcess {
    /// Opens a pidfd of the process that connected, and attributes the process while it is known to exist: a process that
    /// ends before its requests are read keeps its attribution.
    pub fn of(home: &StateDir, stream: &impl AsFd) -> io::Result<Self> {
        let socket::PeerCredentials { uid, pid } = socket::peer_credentials(stream)?;
        let process = socket::peer_process(stream);
        let attribution = match &process {
            Ok(process) => {
                let sessions = lasting_evidence(home, pid);
                // The facts are about that process only if it still has its pid.
                if process.has_exited() { Err(gone(pid)) } else { sessions }
            }
            Err(error) => Err(format!("process {pid} cannot be held on to: {error}")),
        };
        Ok(Self { pid, uid, process, attribution })
    }

    /// True if that process is known to be gone, so that its pid may be another's.
    pub fn is_gone(&self) -> bool {
        self.process.as_ref().is_ok_and(Pidfd::has_exited)
    }

    /// The sessions it is inside of: by the evidence from the connection, and by what the process carries now.
    pub fn attribute(&self, home: &StateDir) -> CallerAttribution {
        // The only other account here is root, which needs no permission. The visible evidence counts.
        let is_root = self.uid != rustix::process::geteuid().as_raw();
        let seen = match &self.attribution {
            Ok(sessions) => {
                let carried = carried_evidence(home, self.pid);
                match (self.is_gone(), carried) {
                    (false, Ok(carried)) => seen(home, sessions.iter().cloned().chain(carried)),
                    (false, Err(why)) => CallerAttribution::Unseen(why),
                    // The carried evidence can no longer be read. Without lasting evidence the caller is unknown.
                    (true, _) if sessions.is_empty() => CallerAttribution::Unseen(gone(self.pid)),
                    (true, _) => seen(home, sessions.iter().cloned()),
                }
            }
            Err(why) => CallerAttribution::Unseen(why.clone()),
        };
        match seen {
            CallerAttribution::Unseen(_) if is_root => CallerAttribution::Outside,
            CallerAttribution::Outside | CallerAttribution::Inside(_) | CallerAttribution::Unseen(_) => seen,
        }
    }
}

fn gone(pid: u32) -> String {
    format!("process {pid}, which asked, has ended")
}

/// Attributes the process at the other end of a connection.
pub fn sessions_around_peer(home: &StateDir, stream: &impl AsFd) -> CallerAttribution {
    match PeerProcess::of(home, stream) {
        Ok(peer) => peer.attribute(home),
        Err(error) => {
            CallerAttribution::Unseen(format!("cannot read the process of the connection: {error}"))
        }
    }
}

/// Attributes a process.
pub fn sessions_around_process(home: &StateDir, pid: u32) -> CallerAttribution {
    let evidence = lasting_evidence(home, pid)
        .and_then(|lasting| carried_evidence(home, pid).map(|carried| lasting.into_iter().chain(carried)));
    match evidence {
        Ok(sessions) => seen(home, sessions),
        Err(why) => CallerAttribution::Unseen(why),
    }
}

/// Turns a list of sessions, the strongest evidence first, into a caller.
fn seen(home: &StateDir, sessions: impl Iterator<Item = SessionId>) -> CallerAttribution {
    let mut all: Vec<SessionId> = Vec::new();
    sessions.for_each(|id| {
        if !all.contains(&id) {
            all.push(id);
        }
    });
    if all.is_empty() {
        return CallerAttribution::Outside;
    }
    CallerAttribution::Inside(all.into_iter().map(|id| enclosing_session(home, id)).collect())
}

/// The sessions that a process is inside of by evidence that it cannot remove by itself: its control groups and the
/// keepers above it.
fn lasting_evidence(home: &StateDir, pid: u32) -> Result<Vec<SessionId>, String> {
    match identity::process_stat(pid) {
        Ok(stat) if stat.is_zombie() => return Err(gone(pid)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone(pid)),
        Err(error) => return Err(format!("process {pid} cannot be examined: {error}")),
    }
    let groups = groups_of(pid)
        .map_err(|error| format!("the control group of process {pid} cannot be read: {error}"))?;
    let above = keepers_above(home, pid)
        .map_err(|error| format!("the processes above process {pid} cannot be read: {error}"))?;
    let mut sessions = Vec::new();
    for id in groups {
        if is_kept_here(home, &id) {
            sessions.push(id);
        } else if !above.elsewhere.contains(&id) && has_lost_its_record(home, &id) {
            return Err(format!(
                "process {pid} is in a run of session {id}, whose record is damaged or gone"
            ));
        }
    }
    sessions.extend(above.here);
    Ok(sessions)
}

/// The sessions that a process is inside of by evidence that it carries and can drop: its lock and its mark.
fn carried_evidence(home: &StateDir, pid: u32) -> Result<Vec<SessionId>, String> {
    let mut sessions = Vec::new();
    for (id, files) in SessionFiles::with_run_lock_of(pid).unwrap_or_default() {
        if is_kept_here(home, &id) || files.is_some_and(|files| is_in(home, &files)) {
            sessions.push(id);
        }
    }
    if let Ok([Some(mark), _]) = process_tree::process_variables(pid, [MARK, HOME_VARIABLE])
        && let Some(claim) = claim_of_mark(&mark, None)
        && let Some(epoch) = claim.epoch
        && is_kept_here(home, &claim.id)
        && runs(home, &claim.id, epoch)?
    {
        sessions.push(claim.id);
    }
    Ok(sessions)
}

/// The runs whose control groups a process is in. A process in a group below a run's group is in that run as well.
fn groups_of(pid: u32) -> io::Result<Vec<SessionId>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let name = |part: &str| {
        let part = part.strip_prefix(cgroup::LIMIT_PREFIX).unwrap_or(part);
        run_cgroups::run_of_group(part).map(|(id, _)| id)
    };
    // The version 2 hierarchy, in which every process is born, comes last in the list.
    let lines = text.lines().rev().filter_map(|line| line.splitn(3, ':').nth(2));
    Ok(lines.flat_map(|path| path.rsplit('/').filter_map(name)).collect())
}

/// The keepers and notifiers above a process, by the session they are of.
#[derive(Default)]
struct AncestorKeepers {
    /// Sessions of this state directory: the nearest keeper, and the notifiers below it.
    here: Vec<SessionId>,
    /// Sessions of another state directory. Such a keeper is not a way out of the sessions above it.
    elsewhere: Vec<SessionId>,
}

/// Finds the session of the nearest keeper above a process, and the sessions of notifiers on the way. A notifier is
/// not part of a run, but its commands were started by the events of that session, and by a config file that its
/// agent may have named. A notifier is not a way out of any run, so the climb continues above it.
fn keepers_above(home: &StateDir, pid: u32) -> io::Result<AncestorKeepers> {
    let mut tried = 0;
    loop {
        tried += 1;
        match climb(home, pid) {
            // A process on the way ended; its children have another parent now.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tried < ATTEMPTS => {}
            climbed => return climbed,
        }
    }
}

fn climb(home: &StateDir, pid: u32) -> io::Result<AncestorKeepers> {
    let mut stat = identity::process_stat(pid)?;
    let mut above = AncestorKeepers::default();
    for generation in 0..MOST_ANCESTORS {
        // One short read for each process on the way, for every caller; a closer look only at processes of ours.
        if stat.comm == KEEPERS_NAME {
            if let Some(session) = notifications::session_notifier_was_started_for(stat.pid) {
                match is_here(home, &session)? {
                    true if notifications::notified_session(stat.pid).is_some() => {
                        above.here.push(session.id().clone())
                    }
                    // A notifier signs for its seat before it runs anything. So the seat was changed
                    // by another process.
                    true => return Err(misfit(&stat, "notifier", &session, "no seat names it")),
                    false => above.elsewhere.push(session.id().clone()),
                }
            } else if generation > 0
                && let Some(session) = keepers::session_keeper_was_started_for(stat.pid)
            {
                match is_here(home, &session)? {
                    true if keepers::session_of_keeper(stat.pid).is_some() => {
                        above.here.push(session.id().clone());
                        return Ok(above);
                    }
                    // A keeper signs its lease before it runs anything. So the lease was changed by another process.
                    true => {
                        return Err(misfit(&stat, "keeper", &session, "the lease there does not name it"));
                    }
                    false => above.elsewhere.push(session.id().clone()),
                }
            }
        }
        if stat.ppid <= 1 {
            return Ok(above);
        }
        stat = identity::process_stat(stat.ppid)?;
    }
    Err(io::Error::other("the tree is too deep"))
}

fn misfit(stat: &ProcessStat, role: &str, session: &SessionFiles, why: &str) -> io::Error {
    io::Error::other(format!(
        "process {} was started as the {role} of {}, and {why}",
        stat.pid,
        session.display()
    ))
}

/// True if a session is one of this state directory.
fn is_in(home: &StateDir, session: &SessionFiles) -> bool {
    is_same_directory(session.root(), home.root())
}

/// True if the directory that a keeper was started with is of this state directory. Fails if that directory is gone:
/// it may have been this state directory under another name.
fn is_here(home: &StateDir, session: &SessionFiles) -> io::Result<bool> {
    if is_in(home, session) {
        return Ok(true);
    }
    match session.root().try_exists() {
        Ok(true) => Ok(false),
        Ok(false) | Err(_) => Err(io::Error::other(format!(
            "{}, which a keeper was started with, cannot be found",
            session.display()
        ))),
    }
}

/// True if this state directory has such a session or helper. Another state directory has agents of its own.
fn is_kept_here(home: &StateDir, id: &SessionId) -> bool {
    home.folders().iter().any(|dir| dir.session(id).has_events().unwrap_or(true))
}

/// True if a session without a record here was recorded here once: its directory or its keeper still exists.
fn has_lost_its_record(home: &StateDir, id: &SessionId) -> bool {
    let is_left = home.folders().iter().any(|dir| dir.session(id).try_exists().unwrap_or(true));
    let is_its_keeper = |stat: &ProcessStat| {
        let dir =
            (stat.comm == KEEPERS_NAME).then(|| keepers::session_keeper_was_started_for(stat.pid)).flatten();
        dir.is_some_and(|dir| dir.id() == id && is_here(home, &dir).unwrap_or(true))
    };
    is_left || all_processes().map_or(true, |all| all.iter().any(is_its_keeper))
}

/// True if a run goes on. Variables are inherited by processes that left the run long ago; on their own they count
/// only while it goes on.
fn runs(home: &StateDir, id: &SessionId, epoch: Epoch) -> Result<bool, String> {
    let mut dirs = home.folders().into_iter();
    let dir = dirs.find(|dir| dir.session(id).has_events().unwrap_or(true));
    match dir.map(|dir| session_status::status(&dir, id)) {
        None => Ok(false),
        Some(Ok(status)) => Ok(status.epoch == epoch.0 && status.ended_at.is_none()),
        Some(Err(problem)) if problem.code == ProblemCode::NotFound => Ok(false),
        Some(Err(problem)) => {
            Err(format!("cannot tell whether run {epoch} of session {id} goes on: {problem}"))
        }
    }
}

/// Reads the grant and the name of a session that a caller is inside of.
pub fn enclosing_session(home: &StateDir, session: SessionId) -> EnclosingSession {
    let sessions = home.sessions();
    let status = session_status::status(&sessions, &session).ok();
    let said = status.as_ref().map_or(Grant::Nothing, |status| status.what.grant.into());
    let grant = match said {
        Grant::Nothing => Grant::Nothing,
        // The cached status is for lists; a grant that gives a right has to be in the journal.
        Grant::Send | Grant::Control | Grant::Admin => {
            let past = session_status::history(&sessions, &session).ok();
            past.and_then(|past| past.session.spec).map_or(Grant::Nothing, |spec| spec.grant)
        }
    };
    let handle = status.map_or_else(|| session.to_string(), |status| status.handle().to_owned());
    EnclosingSession { session, handle, grant }
}

/// The relation of a session to another one that the caller is inside of.
pub fn action_target_with_parent(
    home: &StateDir,
    inside: &SessionId,
    id: &SessionId,
    parent: Option<&str>,
) -> ActionTarget {
    if inside == id {
        return ActionTarget::Itself;
    }
    let sessions = home.sessions();
    let mut parent = parent.and_then(SessionId::parse);
    for _ in 0..MOST_GENERATIONS {
        let Some(id) = parent else { break };
        if id == *inside {
            return ActionTarget::Child;
        }
        let known = session_status::status(&sessions, &id).ok();
        parent = known.and_then(|known| known.what.parent).as_deref().and_then(SessionId::parse);
    }
    ActionTarget::Stranger
}

/// Like [`action_target_with_parent`], for a session whose parent is not known yet.
pub fn action_target(home: &StateDir, inside: &SessionId, id: &SessionId) -> ActionTarget {
    let known = session_status::status(&home.sessions(), id).ok();
    action_target_with_parent(home, inside, id, known.and_then(|known| known.what.parent).as_deref())
}

/// The most distant of several targets.
pub fn farthest_target(targets: impl Iterator<Item = ActionTarget>) -> ActionTarget {
    let rank = |target: &ActionTarget| match target {
        ActionTarget::Itself => 0,
        ActionTarget::Child => 1,
        ActionTarget::NoSession | ActionTarget::Stranger => 2,
    };
    // Without any target the relation is that of a stranger.
    targets.max_by_key(rank).unwrap_or(ActionTarget::Stranger)
}

impl CallerAttribution {
    /// The caller, limited further by the sessions of the agents on whose behalf it asks.
    pub fn and_for<'a>(self, home: &StateDir, agents: impl IntoIterator<Item = &'a String>) -> Self {
        agents.into_iter().fold(self, |seen, agent| {
            let Some(agent) = SessionId::parse(agent) else {
                return Self::Unseen(format!("`{}` is not the id of a session", agent.escape_debug()));
            };
            match seen {
                Self::Outside => Self::Inside(vec![enclosing_session(home, agent)]),
                Self::Inside(mut all) => {
                    if !all.iter().any(|inside| inside.session == agent) {
                        all.push(enclosing_session(home, agent));
                    }
                    Self::Inside(all)
                }
                Self::Unseen(why) => Self::Unseen(why),
            }
        })
    }

    /// Rejects a request that the caller may not make. `handle` names the object; `target` gives its relation
    /// to a session.
    pub fn allow(
        &self,
        action: CallerAction,
        handle: &str,
        target: impl Fn(&SessionId) -> ActionTarget,
    ) -> Result<(), Problem> {
        match self {
            Self::Outside => Ok(()),
            Self::Inside(all) => all.iter().try_for_each(|inside| {
                check_permission(CallerKind::Agent(inside.grant), action, target(&inside.session))
                    .map_err(|forbidden| not_allowed(&forbidden, handle, &inside.handle))
            }),
            Self::Unseen(why) => check_permission(CallerKind::Unseen, action, ActionTarget::NoSession)
                .and_then(|()| check_permission(CallerKind::Unseen, action, ActionTarget::Stranger))
                .map_err(|_| {
                    Problem::not_allowed(format!("cannot identify the caller: {why}"))
                        .hint("keep the calling process alive until the answer arrives, and visible in /proc")
                }),
        }
    }

    /// The session whose children the caller's new sessions become.
    pub fn parent(&self) -> Option<SessionId> {
        match self {
            Self::Inside(all) => all.first().map(|inside| inside.session.clone()),
            Self::Outside | Self::Unseen(_) => None,
        }
    }
}

/// The action of a request, for the permission rules, as far as the request alone shows it.
pub fn action_of_request(request: &KeeperRequest) -> CallerAction {
    match request {
        KeeperRequest::Create { spec, take, .. } => CallerAction::Start { grant: spec.grant.into(), takes: take.takes() },
        KeeperRequest::Resume { take, .. } => CallerAction::Resume { takes: take.takes() },
        KeeperRequest::StartHelper { .. } | KeeperRequest::Join { .. } => CallerAction::Share,
        KeeperRequest::Leave { .. } => CallerAction::Release,
        KeeperRequest::Stop { .. } | KeeperRequest::SwitchInterface { .. } => CallerAction::Stop,
        KeeperRequest::Rename { .. } => CallerAction::Rename,
        KeeperRequest::Tag { .. } | KeeperRequest::Note { .. } => CallerAction::Describe,
        KeeperRequest::SetPolicy { .. } => CallerAction::SetPolicy,
        KeeperRequest::Attach { role: AttachMode::Observer, .. } => CallerAction::Look,
        KeeperRequest::Attach { role: AttachMode::Writer | AttachMode::Take, .. } | KeeperRequest::Type { .. } => {
            CallerAction::Type { answers: false }
        }
        KeeperRequest::Send { .. }
        | KeeperRequest::Withdraw { .. }
        | KeeperRequest::Cancel { .. }
        | KeeperRequest::Move { .. }
        | KeeperRequest::Edit { .. }
        | KeeperRequest::Pause
        | KeeperRequest::GoOn => CallerAction::Send,
        KeeperRequest::AnswerAsk { .. } => CallerAction::Answer,
        KeeperRequest::Restart => CallerAction::Restart,
        KeeperRequest::Status
        | KeeperRequest::Turn { .. }
        | KeeperRequest::Turns { .. }
        | KeeperRequest::Resize { .. }
        | KeeperRequest::Screen { .. }
        | KeeperRequest::Watch
        | KeeperRequest::AwaitAgent
        // The keeper looks up which session the hook belongs to; a hook commands nothing.
        | KeeperRequest::Hook { .. }
        | KeeperRequest::Follow { .. } => CallerAction::Look,
    }
}
