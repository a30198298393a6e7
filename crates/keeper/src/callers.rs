//! Who asks: somebody outside of all sessions, or a process of a session's run.
//!
//! Promise: a claim is looked up, never told by whoever asks; it is about the very process that connected, or
//! about nobody. The lasting evidence is taken when the process connects, and stays with the connection. Evidence
//! that contradicts itself (a keeper that its own lease does not name, a run without its record) makes the caller
//! *cannot tell*, never an outsider. All claims count: who is inside of two sessions may do what both allow. What is
//! said about an agent that somebody else asks for (a gateway does) only takes rights away.
//! Not here: what follows (see `berth_core::may`), whether a process may be ended (see `whose`).
//! Start with [`of_process`], then [`Seen::allow`].

use std::fs;
use std::io;
use std::os::fd::AsFd;

use berth_api::message::{Request, Role};
use berth_api::problem::not_allowed;
use berth_api::{Code, Problem};
use berth_core::{Caller, Deed, Epoch, Grant, SessionId, Spec, Target, may};
use berth_host::identity::{self, Pidfd, ProcessStat};
use berth_host::process::census;
use berth_host::{cgroup, socket, tree};
use berth_store::SessionFiles;
use berth_store::home::Home;
use berth_store::{keepers, view};

use crate::whose::{HOME_VARIABLE, claim_of_mark, is_same};
use crate::{boundary, notify, recover};

/// How far up the tree a keeper is looked for.
const MOST_ANCESTORS: usize = 1000;
/// How often the way up is tried: it changes when a process on it ends.
const ATTEMPTS: usize = 3;
/// How many generations of sessions that start sessions are followed.
const MOST_GENERATIONS: usize = 64;
/// What a keeper calls itself, for the kernel's list.
const KEEPERS_NAME: &str = "berth";

/// Who asks, by what was found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Somebody outside of all sessions of this state directory.
    Outside,
    /// A process of these. Usually it is one; the strongest evidence comes first.
    Inside(Vec<Inside>),
    /// Nobody can tell, for this reason.
    Unseen(String),
}

/// A session that somebody is inside of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inside {
    /// Which.
    pub session: SessionId,
    /// What people call it.
    pub handle: String,
    /// What it was given.
    pub grant: Grant,
}

/// The other end of a connection, held on to.
#[derive(Debug)]
pub(crate) struct Peer {
    pid: u32,
    uid: u32,
    process: io::Result<Pidfd>,
    /// The sessions that the process was inside of when it connected, by its lasting evidence; or why that cannot be told.
    attribution: Result<Vec<SessionId>, String>,
}

impl Peer {
    /// Opens a pidfd of the process that connected, and attributes the process while it is known to exist: a process that
    /// ends before its requests are read keeps its attribution.
    pub(crate) fn of(home: &Home, stream: &impl AsFd) -> io::Result<Self> {
        let socket::Peer { uid, pid } = socket::peer(stream)?;
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

    /// Whether that process is known to be gone, so that its number may be another's.
    pub(crate) fn is_gone(&self) -> bool {
        self.process.as_ref().is_ok_and(Pidfd::has_exited)
    }

    /// The sessions it is inside of: by the evidence from when it connected, and by what it carries now.
    pub(crate) fn look(&self, home: &Home) -> Seen {
        // Of another account there is only root here, and root needs nobody's leave. What can be seen counts.
        let is_root = self.uid != rustix::process::geteuid().as_raw();
        let seen = match &self.attribution {
            Ok(sessions) => {
                let carried = carried_evidence(home, self.pid);
                match (self.is_gone(), carried) {
                    (false, Ok(carried)) => seen(home, sessions.iter().cloned().chain(carried)),
                    (false, Err(why)) => Seen::Unseen(why),
                    // What the process carried can no longer be read. Without lasting evidence it cannot be told.
                    (true, _) if sessions.is_empty() => Seen::Unseen(gone(self.pid)),
                    (true, _) => seen(home, sessions.iter().cloned()),
                }
            }
            Err(why) => Seen::Unseen(why.clone()),
        };
        match seen {
            Seen::Unseen(_) if is_root => Seen::Outside,
            Seen::Outside | Seen::Inside(_) | Seen::Unseen(_) => seen,
        }
    }
}

fn gone(pid: u32) -> String {
    format!("process {pid}, which asked, has ended")
}

/// Which sessions whoever is at the other end of a connection is inside of.
pub fn of_peer(home: &Home, stream: &impl AsFd) -> Seen {
    match Peer::of(home, stream) {
        Ok(peer) => peer.look(home),
        Err(error) => Seen::Unseen(format!("the system does not tell: {error}")),
    }
}

/// Which sessions a process is inside of.
pub fn of_process(home: &Home, pid: u32) -> Seen {
    let evidence = lasting_evidence(home, pid)
        .and_then(|lasting| carried_evidence(home, pid).map(|carried| lasting.into_iter().chain(carried)));
    match evidence {
        Ok(sessions) => seen(home, sessions),
        Err(why) => Seen::Unseen(why),
    }
}

/// What a list of sessions, the strongest evidence first, makes of a caller.
fn seen(home: &Home, sessions: impl Iterator<Item = SessionId>) -> Seen {
    let mut all: Vec<SessionId> = Vec::new();
    sessions.for_each(|id| {
        if !all.contains(&id) {
            all.push(id);
        }
    });
    if all.is_empty() {
        return Seen::Outside;
    }
    Seen::Inside(all.into_iter().map(|id| inside(home, id)).collect())
}

/// The sessions that a process is inside of by evidence that it cannot put away by itself: its control groups and the
/// keepers above it.
fn lasting_evidence(home: &Home, pid: u32) -> Result<Vec<SessionId>, String> {
    match identity::stat(pid) {
        Ok(stat) if stat.is_zombie() => return Err(gone(pid)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone(pid)),
        Err(error) => return Err(format!("process {pid} cannot be looked at: {error}")),
    }
    let groups = groups_of(pid)
        .map_err(|error| format!("the control group of process {pid} cannot be read: {error}"))?;
    let above = keepers_above(home, pid)
        .map_err(|error| format!("what is above process {pid} cannot be told: {error}"))?;
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
fn carried_evidence(home: &Home, pid: u32) -> Result<Vec<SessionId>, String> {
    let mut sessions = Vec::new();
    for (id, files) in SessionFiles::with_run_lock_of(pid).unwrap_or_default() {
        if is_kept_here(home, &id) || files.is_some_and(|files| is_in(home, &files)) {
            sessions.push(id);
        }
    }
    if let Ok([Some(mark), _]) = tree::variables(pid, [recover::MARK, HOME_VARIABLE])
        && let Some(claim) = claim_of_mark(&mark, None)
        && let Some(epoch) = claim.epoch
        && is_kept_here(home, &claim.id)
        && runs(home, &claim.id, epoch)?
    {
        sessions.push(claim.id);
    }
    Ok(sessions)
}

/// The runs whose control groups a process is in. In one of its own below a run's it is in that as well.
fn groups_of(pid: u32) -> io::Result<Vec<SessionId>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let name = |part: &str| {
        let part = part.strip_prefix(cgroup::LIMIT_PREFIX).unwrap_or(part);
        boundary::run_of_group(part).map(|(id, _)| id)
    };
    // The version 2 hierarchy, which is the one that everything is born in, comes last in the list.
    let lines = text.lines().rev().filter_map(|line| line.splitn(3, ':').nth(2));
    Ok(lines.flat_map(|path| path.rsplit('/').filter_map(name)).collect())
}

/// The keepers and notifiers above a process, by the session they are of.
#[derive(Default)]
struct Above {
    /// Of this state directory: the nearest keeper, and the notifiers below it.
    here: Vec<SessionId>,
    /// Of another state directory. Such a keeper is not a way out of the sessions above it.
    elsewhere: Vec<SessionId>,
}

/// The session whose keeper is the nearest above a process, and before it those whose notifiers are: a notifier is of
/// no run, but what it runs was started by the events of that session, and by a config file that its agent may have
/// named. It is no way out of any run, so the way up goes on behind it.
fn keepers_above(home: &Home, pid: u32) -> io::Result<Above> {
    let mut tried = 0;
    loop {
        tried += 1;
        match climb(home, pid) {
            // Somebody on the way ended; whom they left behind has another parent now.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tried < ATTEMPTS => {}
            climbed => return climbed,
        }
    }
}

fn climb(home: &Home, pid: u32) -> io::Result<Above> {
    let mut stat = identity::stat(pid)?;
    let mut above = Above::default();
    for generation in 0..MOST_ANCESTORS {
        // One short read for each, on this way of everybody who asks; a look at the rest only if it is one of ours.
        if stat.comm == KEEPERS_NAME {
            if let Some(session) = notify::started_for(stat.pid) {
                match is_here(home, &session)? {
                    true if notify::told_by(stat.pid).is_some() => above.here.push(session.id().clone()),
                    // A notifier signs for its seat before it runs anything, so its seat was changed.
                    true => return Err(misfit(&stat, "notifier", &session, "no seat names it")),
                    false => above.elsewhere.push(session.id().clone()),
                }
            } else if generation > 0
                && let Some(session) = keepers::started_for(stat.pid)
            {
                match is_here(home, &session)? {
                    true if keepers::kept_by(stat.pid).is_some() => {
                        above.here.push(session.id().clone());
                        return Ok(above);
                    }
                    // A keeper signs its lease before it runs anything, so its lease was changed.
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
        stat = identity::stat(stat.ppid)?;
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

/// Whether a session is one of this state directory.
fn is_in(home: &Home, session: &SessionFiles) -> bool {
    is_same(session.root(), home.root())
}

/// Whether the directory that a keeper was started with is of this state directory. Fails if that directory is gone: it may
/// have been this state directory under another name.
fn is_here(home: &Home, session: &SessionFiles) -> io::Result<bool> {
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

/// Whether there is such a session or helper in this state directory. Another one has agents of its own.
fn is_kept_here(home: &Home, id: &SessionId) -> bool {
    home.shelves().iter().any(|shelf| shelf.session(id).has_events().unwrap_or(true))
}

/// Whether a session without a record here was recorded here once: its directory or its keeper still exists.
fn has_lost_its_record(home: &Home, id: &SessionId) -> bool {
    let is_left = home.shelves().iter().any(|shelf| shelf.session(id).try_exists().unwrap_or(true));
    let is_its_keeper = |stat: &ProcessStat| {
        let dir = (stat.comm == KEEPERS_NAME).then(|| keepers::started_for(stat.pid)).flatten();
        dir.is_some_and(|dir| dir.id() == id && is_here(home, &dir).unwrap_or(true))
    };
    is_left || census().map_or(true, |all| all.iter().any(is_its_keeper))
}

/// Whether a run goes on. Variables are inherited by what has long left it; alone they count while it does.
fn runs(home: &Home, id: &SessionId, epoch: Epoch) -> Result<bool, String> {
    let mut shelves = home.shelves().into_iter();
    let shelf = shelves.find(|shelf| shelf.session(id).has_events().unwrap_or(true));
    match shelf.map(|shelf| view::status(&shelf, id)) {
        None => Ok(false),
        Some(Ok(status)) => Ok(status.epoch == epoch.0 && status.ended_at.is_none()),
        Some(Err(problem)) if problem.code == Code::NotFound => Ok(false),
        Some(Err(problem)) => {
            Err(format!("whether run {epoch} of session {id} goes on cannot be told: {problem}"))
        }
    }
}

/// What is known of a session that somebody is inside of.
pub fn inside(home: &Home, session: SessionId) -> Inside {
    let sessions = home.sessions();
    let status = view::status(&sessions, &session).ok();
    let said = status.as_ref().map_or(Grant::Nothing, |status| status.what.grant.into());
    let grant = match said {
        Grant::Nothing => Grant::Nothing,
        // The short cut is for lists; what gives a right has to be in the journal.
        Grant::Send | Grant::Control | Grant::Admin => {
            let past = view::history(&sessions, &session).ok();
            past.and_then(|past| past.session.spec).map_or(Grant::Nothing, |spec| spec.grant)
        }
    };
    let handle = status.map_or_else(|| session.to_string(), |status| status.handle().to_owned());
    Inside { session, handle, grant }
}

/// What a session is to another one that somebody is inside of.
pub fn target(home: &Home, inside: &SessionId, id: &SessionId, parent: Option<&str>) -> Target {
    if inside == id {
        return Target::Itself;
    }
    let sessions = home.sessions();
    let mut parent = parent.and_then(SessionId::parse);
    for _ in 0..MOST_GENERATIONS {
        let Some(id) = parent else { break };
        if id == *inside {
            return Target::Child;
        }
        let known = view::status(&sessions, &id).ok();
        parent = known.and_then(|known| known.what.parent).as_deref().and_then(SessionId::parse);
    }
    Target::Stranger
}

/// The same for a session of which nothing is known yet.
pub(crate) fn target_of(home: &Home, inside: &SessionId, id: &SessionId) -> Target {
    let known = view::status(&home.sessions(), id).ok();
    target(home, inside, id, known.and_then(|known| known.what.parent).as_deref())
}

/// What is farthest from somebody, of several.
pub(crate) fn farthest(targets: impl Iterator<Item = Target>) -> Target {
    let rank = |target: &Target| match target {
        Target::Itself => 0,
        Target::Child => 1,
        Target::Nobody | Target::Stranger => 2,
    };
    // Nobody's is not theirs.
    targets.max_by_key(rank).unwrap_or(Target::Stranger)
}

impl Seen {
    /// The same if it is asked for somebody inside of these sessions.
    pub(crate) fn and_for<'a>(self, home: &Home, agents: impl IntoIterator<Item = &'a String>) -> Self {
        agents.into_iter().fold(self, |seen, agent| {
            let Some(agent) = SessionId::parse(agent) else {
                return Self::Unseen(format!("`{}` is not the id of a session", agent.escape_debug()));
            };
            match seen {
                Self::Outside => Self::Inside(vec![inside(home, agent)]),
                Self::Inside(mut all) => {
                    if !all.iter().any(|inside| inside.session == agent) {
                        all.push(inside(home, agent));
                    }
                    Self::Inside(all)
                }
                Self::Unseen(why) => Self::Unseen(why),
            }
        })
    }

    /// Refuses what they may not do. `handle` is what it is about; `target` tells what that is to a session.
    pub fn allow(
        &self,
        deed: Deed,
        handle: &str,
        target: impl Fn(&SessionId) -> Target,
    ) -> Result<(), Problem> {
        match self {
            Self::Outside => Ok(()),
            Self::Inside(all) => all.iter().try_for_each(|inside| {
                may(Caller::Agent(inside.grant), deed, target(&inside.session))
                    .map_err(|forbidden| not_allowed(&forbidden, handle, &inside.handle))
            }),
            Self::Unseen(why) => may(Caller::Unseen, deed, Target::Nobody)
                .and_then(|()| may(Caller::Unseen, deed, Target::Stranger))
                .map_err(|_| {
                    Problem::new(Code::NotAllowed, format!("it cannot be told who asks: {why}"))
                        .hint("the calling process has to stay until it is done, where /proc shows it")
                }),
        }
    }

    /// The session that whatever they start is a child of.
    pub fn parent(&self) -> Option<SessionId> {
        match self {
            Self::Inside(all) => all.first().map(|inside| inside.session.clone()),
            Self::Outside | Self::Unseen(_) => None,
        }
    }
}

/// What a request is, as far as it matters who may and as far as it tells by itself.
pub fn deed_of(request: &Request) -> Deed {
    match request {
        Request::Create { spec, take, .. } => Deed::Start { grant: spec.grant.into(), takes: take.takes() },
        Request::Resume { take, .. } => Deed::Resume { takes: take.takes() },
        Request::StartHelper { .. } | Request::Join { .. } => Deed::Share,
        Request::Leave { .. } => Deed::Release,
        Request::Stop { .. } | Request::SwitchInterface { .. } => Deed::Stop,
        Request::Rename { .. } => Deed::Rename,
        Request::Tag { .. } | Request::Note { .. } => Deed::Describe,
        Request::SetPolicy { .. } => Deed::SetPolicy,
        Request::Attach { role: Role::Observer, .. } => Deed::Look,
        Request::Attach { role: Role::Writer | Role::Take, .. } | Request::Type { .. } => {
            Deed::Type { answers: false }
        }
        Request::Send { .. }
        | Request::Withdraw { .. }
        | Request::Cancel { .. }
        | Request::Move { .. }
        | Request::Edit { .. }
        | Request::Pause
        | Request::GoOn => Deed::Send,
        Request::AnswerAsk { .. } => Deed::Answer,
        Request::Restart => Deed::Restart,
        Request::Status
        | Request::Turn { .. }
        | Request::Turns { .. }
        | Request::Events { .. }
        | Request::Resize { .. }
        | Request::Screen { .. }
        | Request::Watch { .. }
        | Request::AwaitAgent
        // Whose hook it is, the keeper looks up; it commands nothing.
        | Request::Hook { .. }
        | Request::Follow { .. } => Deed::Look,
    }
}

/// The same of this session, or helper.
pub(crate) fn deed_to(request: &Request, spec: Option<&Spec>, is_helper: bool) -> Deed {
    match deed_of(request) {
        // An agent's own interface asks its questions on the screen, and keys answer them.
        Deed::Type { .. } => Deed::Type { answers: spec.is_some_and(|spec| spec.agent.is_some()) },
        Deed::Stop if is_helper => Deed::StopHelper,
        deed => deed,
    }
}

/// The session that is to own a helper, or no longer, by a request.
pub(crate) fn owner_named(request: &Request) -> Option<&str> {
    if let Request::StartHelper { owner, .. } | Request::Join { owner, .. } = request {
        return Some(&owner.session);
    }
    if let Request::Leave { owner } = request { Some(owner) } else { None }
}

/// Looks at the first request of a keeper, which makes a session or begins its next run: whether whoever asks may,
/// and whose child it is.
pub(crate) fn admitted(
    home: &Home,
    id: &SessionId,
    seen: &Seen,
    mut request: Request,
) -> Result<Request, Problem> {
    let deed = deed_of(&request);
    if let Request::Create { spec, .. } = &mut request {
        seen.allow(deed, id.as_str(), |_| Target::Nobody)?;
        // By evidence, whatever was said: a parent may see to its children.
        if let Some(parent) = seen.parent() {
            spec.parent = Some(parent.to_string());
        }
    } else if let Some(owner) = owner_named(&request) {
        seen.allow(deed, owner, |inside| match SessionId::parse(owner) {
            Some(owner) => target_of(home, inside, &owner),
            None => Target::Stranger,
        })?;
    } else {
        let known = view::status(home, id).ok();
        let handle = known.as_ref().map_or_else(|| id.to_string(), |known| known.handle().to_owned());
        let parent = known.and_then(|known| known.what.parent);
        seen.allow(deed, &handle, |inside| target(home, inside, id, parent.as_deref()))?;
    }
    if let Request::StartHelper { spec, .. } = &mut request {
        // It is shared, and may do what everybody may who shares it.
        spec.grant = berth_api::record::Grant::None;
    }
    Ok(request)
}
