//! The sessions there are, in the order people want them: for `ls`, for the dashboard, for HTTP.
//!
//! Promise: whoever needs a person comes first, what is not shown is counted, and a session that cannot be read
//! is told of and keeps no other one from being listed. Only what is shown is understood in full.
//! Not here: the words about one session, lines that fit, who belongs under whom (see the CLI).
//! Start with [`collect`].

use std::path::{Path, PathBuf};

use berth_api::{Code, Problem, SessionState, Status, Timestamp};
use berth_core::SessionId;
use berth_store::view::{Brief, Look};

use crate::ctx::Ctx;

/// What stopped longer ago than this is not listed unless it is asked for.
const RECENT_MS: u64 = 24 * 3600 * 1000;

/// A list of fewer is read faster than threads are made.
const WORTH_THREADS: usize = 400;
/// The most threads: past a few, they wait for the same directory.
const MOST_THREADS: usize = 4;

/// Refuses a state that sessions of this version cannot be in.
pub fn known(states: &[SessionState]) -> Result<(), Problem> {
    let Some(odd) = states.iter().find(|state| matches!(state, SessionState::Other(_))) else {
        return Ok(());
    };
    let all = SessionState::ALL.map(|state| state.to_string()).join(", ");
    let what = format!("`{}` is not a state", odd.to_string().escape_debug());
    Err(Problem::new(Code::Usage, what).hint(format!("the states are {all}")))
}

/// Where a session comes in a list.
pub fn rank(state: &SessionState) -> u8 {
    match state {
        SessionState::NeedsYou => 0,
        SessionState::Lost => 1,
        SessionState::Starting | SessionState::Running | SessionState::Working | SessionState::Stopping => 2,
        SessionState::Idle => 3,
        SessionState::Stopped | SessionState::Other(_) => 4,
        SessionState::Archived => 5,
    }
}

/// Where a session comes in a list that nobody sorts otherwise. Of equals the one with the lower id comes first.
pub type Place = (u8, std::cmp::Reverse<Timestamp>);

/// Its place: who needs you first, then by what they do; among these the last active first.
pub fn place(status: &Status) -> Place {
    (rank(&status.state), std::cmp::Reverse(status.last_activity_at))
}

/// Which sessions are wanted. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In one of these states; any, if there is none. Whoever names a state gets all that are in it, however old.
    pub states: Vec<SessionState>,
    /// With this agent: its name in the table of agents, or the program.
    pub agent: Option<String>,
    /// In this directory or below it.
    pub under: Option<PathBuf>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// With a name like this; `*` and `?` stand for anything.
    pub name: Option<String>,
    /// How far back.
    pub extent: Extent,
    /// In which order.
    pub order: Order,
    /// At most so many, the first ones in their order.
    pub limit: Option<usize>,
}

/// How far back a list reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// What is not over, and what stopped in the last day.
    #[default]
    Recent,
    /// Everything.
    All,
    /// Only what was put away.
    Archived,
}

/// What a list is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Who needs you, then by what it does; among equals the last active first
    #[default]
    State,
    /// The last active first
    Active,
    /// The newest first
    Created,
    /// By name, those without one last
    Name,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// What is shown, in order.
    pub sessions: Vec<Status>,
    /// How many would be shown but for their age.
    pub older: usize,
    /// How many would be shown but were put away.
    pub archived: usize,
    /// How many would be shown but for the limit.
    pub beyond: usize,
    /// What could not be read.
    pub damaged: Vec<Problem>,
}

/// What one look at one session found.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It is shown. Something may be in the way of bringing it to its end.
    Shown(Box<Status>, Option<Problem>),
    /// It is too old.
    Older,
    /// It was put away.
    Archived,
    /// It is not wanted, or there is nothing to see: being made this very moment, or given up before anything
    /// was said in it.
    Nothing,
    /// It cannot be read.
    Damaged(Problem),
}

/// Lists the sessions that are wanted.
pub fn collect(ctx: &Ctx, filter: &Filter) -> Result<Listing, Problem> {
    let ids = ids(ctx)?;
    Ok(listing(filter, look_at_all(ctx, filter, &ids)))
}

/// The ids of all sessions.
pub fn ids(ctx: &Ctx) -> Result<Vec<SessionId>, Problem> {
    ctx.home.list()
}

/// Looks at one session.
pub fn look_at(ctx: &Ctx, filter: &Filter, id: &SessionId) -> Seen {
    settle(ctx, filter, id, first_look(ctx, filter, id, berth_host::clock::wall_ms()))
}

/// Puts what was seen in order.
pub fn listing(filter: &Filter, seen: impl IntoIterator<Item = Seen>) -> Listing {
    let mut listing = Listing::default();
    for seen in seen {
        match seen {
            Seen::Shown(status, trouble) => {
                listing.sessions.push(*status);
                listing.damaged.extend(trouble);
            }
            Seen::Older => listing.older += 1,
            Seen::Archived => listing.archived += 1,
            Seen::Nothing => {}
            Seen::Damaged(problem) => listing.damaged.push(problem),
        }
    }
    filter.order.sort(&mut listing.sessions);
    let limit = filter.limit.unwrap_or(usize::MAX);
    listing.beyond = listing.sessions.len().saturating_sub(limit);
    listing.sessions.truncate(limit);
    listing
}

/// Looks at these sessions.
pub fn look_at_all(ctx: &Ctx, filter: &Filter, ids: &[SessionId]) -> Vec<Seen> {
    let now_ms = berth_host::clock::wall_ms();
    let first = |ids: &[SessionId]| -> Vec<Seen> {
        ids.iter().map(|id| first_look(ctx, filter, id, now_ms)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let seen = if ids.len() < WORTH_THREADS || threads == 1 {
        first(ids)
    } else {
        std::thread::scope(|scope| {
            let parts = ids.chunks(ids.len().div_ceil(threads));
            let parts: Vec<_> = parts.map(|part| scope.spawn(|| first(part))).collect();
            // A part whose thread panicked is as lost as a whole list whose only thread did.
            parts.into_iter().flat_map(|part| part.join().expect("looking at sessions")).collect()
        })
    };
    ids.iter().zip(seen).map(|(id, seen)| settle(ctx, filter, id, seen)).collect()
}

/// Looks, and changes nothing. A loss that nobody has recorded is shown, whether it is wanted or not.
pub fn first_look(ctx: &Ctx, filter: &Filter, id: &SessionId, now_ms: u64) -> Seen {
    let look = Look::at(&ctx.home, id);
    let unwanted = look.brief().map(|brief| filter.place(&brief, now_ms));
    if let Some(seen @ (Seen::Older | Seen::Archived | Seen::Nothing)) = unwanted.flatten() {
        return seen;
    }
    match look.status(&ctx.home) {
        Ok(status) if status.is_unrecorded_loss() => Seen::Shown(Box::new(status), None),
        Ok(status) => shown(filter, status, None, now_ms),
        Err(problem) if problem.code == Code::NotFound => Seen::Nothing,
        Err(problem) => Seen::Damaged(problem),
    }
}

/// A loss nobody has recorded yet: what the run left behind is ended now.
fn settle(ctx: &Ctx, filter: &Filter, id: &SessionId, seen: Seen) -> Seen {
    match seen {
        Seen::Shown(status, None) if status.is_unrecorded_loss() => match ctx.healed(id) {
            Ok((status, trouble)) => shown(filter, status, trouble, berth_host::clock::wall_ms()),
            Err(problem) if problem.code == Code::NotFound => Seen::Nothing,
            Err(problem) => Seen::Damaged(problem),
        },
        seen => seen,
    }
}

/// What is seen of a session that was looked at.
pub fn shown(filter: &Filter, status: Status, trouble: Option<Problem>, now_ms: u64) -> Seen {
    match filter.place(&Brief::from(&status), now_ms) {
        // What could not be brought to its end is told, wanted or not.
        Some(_) if trouble.is_some() => Seen::Shown(Box::new(status), trouble),
        Some(elsewhere) => elsewhere,
        None => Seen::Shown(Box::new(status), trouble),
    }
}

impl Filter {
    /// Where a session goes that is not shown; `None` if it is.
    fn place(&self, brief: &Brief<'_>, now_ms: u64) -> Option<Seen> {
        if !self.wants(brief) {
            return Some(Seen::Nothing);
        }
        let is_archived = brief.state == SessionState::Archived;
        let is_old = || brief.ended_at.is_some_and(|at| now_ms.saturating_sub(at.0) >= RECENT_MS);
        match self.extent {
            Extent::All => None,
            Extent::Archived => (!is_archived).then_some(Seen::Nothing),
            Extent::Recent if !self.states.is_empty() => None,
            Extent::Recent if is_archived => Some(Seen::Archived),
            Extent::Recent => (brief.state == SessionState::Stopped && is_old()).then_some(Seen::Older),
        }
    }

    /// Whether there is any condition, besides age.
    pub fn is_choosy(&self) -> bool {
        let Self { states, agent, under, tags, name, extent: _, order: _, limit: _ } = self;
        !states.is_empty() || agent.is_some() || under.is_some() || !tags.is_empty() || name.is_some()
    }

    /// Whether a session is as the conditions say, whatever its age.
    pub fn wants(&self, brief: &Brief<'_>) -> bool {
        let program = || brief.command.first().and_then(|word| Path::new(word).file_name());
        let is_agent =
            |wanted: &str| brief.agent.as_deref() == Some(wanted) || program().is_some_and(|it| it == wanted);
        (self.states.is_empty() || self.states.contains(&brief.state))
            && self.agent.as_deref().is_none_or(is_agent)
            && self.under.as_ref().is_none_or(|dir| Path::new(&*brief.cwd).starts_with(dir))
            && self.tags.iter().all(|tag| brief.tags.contains(tag))
            && self
                .name
                .as_deref()
                .is_none_or(|like| brief.name.as_deref().is_some_and(|it| is_like(it, like)))
    }
}

impl Order {
    fn sort(self, sessions: &mut [Status]) {
        use std::cmp::Reverse;
        match self {
            Self::State => sessions.sort_by_key(place),
            Self::Active => sessions.sort_by_key(|status| Reverse(status.last_activity_at)),
            Self::Created => sessions.sort_by_key(|status| Reverse(status.created_at)),
            Self::Name => sessions.sort_by(|one, other| {
                let key = |status: &Status| (status.name.is_none(), status.handle().to_owned());
                key(one).cmp(&key(other))
            }),
        }
    }
}

/// Whether a name is like a pattern, in which `*` stands for any characters and `?` for one.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.as_bytes());
    let (mut at, mut with) = (0, 0);
    // Where the last `*` was, and how much of the name it stands for so far.
    let mut star = None;
    while at < name.len() {
        match pattern.get(with) {
            Some(b'*') => {
                star = Some((with, at));
                with += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == name[at] => (at, with) = (at + 1, with + 1),
            Some(_) | None => {
                let Some((begin, taken)) = star else { return false };
                star = Some((begin, taken + 1));
                (at, with) = (taken + 1, begin + 1);
            }
        }
    }
    pattern[with..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
