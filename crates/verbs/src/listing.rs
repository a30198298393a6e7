//! Lists of sessions, in a useful order: for `ls`, for the dashboard, for HTTP.
//!
//! Promise: sessions that need a user come first, hidden sessions are counted, and a session that cannot be read is
//! reported and hides no other one. Only listed sessions are read in full.
//! Not here: the description of a session, lines that fit a terminal, the tree of parents and children (see the CLI).
//! Start with [`collect`].

use std::path::{Path, PathBuf};

use berth_api::{Problem, ProblemCode, SessionState, SessionStatus, Timestamp};
use berth_core::SessionId;
use berth_store::session_status::{StatusCache, StatusSummary};

use crate::context::VerbContext;

/// A session that stopped longer ago than this is only listed on request.
const RECENT_MS: u64 = 24 * 3600 * 1000;

/// A list of fewer sessions is read faster than threads are started.
const WORTH_THREADS: usize = 400;
/// Limit for threads: with more of them, they wait for the same directory.
const MOST_THREADS: usize = 4;

/// Refuses a state that this version does not have.
pub fn check_states(states: &[SessionState]) -> Result<(), Problem> {
    let Some(odd) = states.iter().find(|state| matches!(state, SessionState::Other(_))) else {
        return Ok(());
    };
    let all = SessionState::ALL.map(|state| state.to_string()).join(", ");
    let what = format!("`{}` is not a valid state", odd.to_string().escape_debug());
    Err(Problem::usage(what).hint(format!("the states are {all}")))
}

/// Rank of a state in a list: lower ranks come first.
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

/// Sort key of a session in the default order. Of equal keys the session with the lower id comes first.
pub type ListPosition = (u8, std::cmp::Reverse<Timestamp>);

/// The sort key: sessions that need a user first, then by state; among equals the last active first.
pub fn list_position(status: &SessionStatus) -> ListPosition {
    (rank(&status.state), std::cmp::Reverse(status.last_activity_at))
}

/// Filter, order and limit of a list. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only sessions in one of these states; empty for any. With a state, sessions of any age are listed.
    pub states: Vec<SessionState>,
    /// Only sessions with this agent: its name in the table of agents, or the program.
    pub agent: Option<String>,
    /// Only sessions in this directory or below it.
    pub under: Option<PathBuf>,
    /// Only sessions with all of these tags.
    pub tags: Vec<String>,
    /// Only sessions with a matching name; `*` and `?` are wildcards.
    pub name: Option<String>,
    /// Age of the listed sessions.
    pub extent: ListExtent,
    /// Order of the list.
    pub order: ListOrder,
    /// Limit for listed sessions, the first ones in their order.
    pub limit: Option<usize>,
}

/// Age of the sessions in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListExtent {
    /// Sessions that run or wait, and those that stopped in the last day.
    #[default]
    Recent,
    /// All sessions, archived ones included.
    All,
    /// Only archived sessions.
    Archived,
}

/// Order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListOrder {
    /// Sessions that need you first, then by state; among equals the last active first
    #[default]
    State,
    /// The last active first
    Active,
    /// The newest first
    Created,
    /// By name, those without one last
    Name,
}

/// Result of a list.
#[derive(Clone, Debug, Default)]
pub struct SessionListing {
    /// The listed sessions, in order.
    pub sessions: Vec<SessionStatus>,
    /// Number of sessions that are hidden because of their age.
    pub older: usize,
    /// Number of sessions that are hidden because they are archived.
    pub archived: usize,
    /// Number of sessions that are hidden because of the limit.
    pub more: usize,
    /// Errors of sessions that could not be read.
    pub damaged: Vec<Problem>,
}

/// Result of reading one session for a list.
#[derive(Clone, Debug)]
pub enum ListingEntry {
    /// The session is listed; with the error if its lost run could not be ended.
    Shown(Box<SessionStatus>, Option<Problem>),
    /// The session is too old for the list.
    Older,
    /// The session is archived.
    Archived,
    /// The session does not pass the filter, or does not exist yet or any more: it is just being created, or was given
    /// up before its first event.
    Nothing,
    /// The session cannot be read.
    Damaged(Problem),
}

/// Lists the sessions that pass the filter.
pub fn collect(ctx: &VerbContext, filter: &SessionFilter) -> Result<SessionListing, Problem> {
    let ids = ids(ctx)?;
    Ok(listing(filter, look_at_all(ctx, filter, &ids)))
}

/// The ids of all sessions.
pub fn ids(ctx: &VerbContext) -> Result<Vec<SessionId>, Problem> {
    ctx.home.list()
}

/// Reads one session for a list.
pub fn read_entry(ctx: &VerbContext, filter: &SessionFilter, id: &SessionId) -> ListingEntry {
    bring_to_end(ctx, filter, id, first_look(ctx, filter, id, berth_host::clock::wall_ms()))
}

/// Sorts the sessions that were read into a list, and counts those that the filter hides.
pub fn listing(filter: &SessionFilter, seen: impl IntoIterator<Item = ListingEntry>) -> SessionListing {
    let mut listing = SessionListing::default();
    for seen in seen {
        match seen {
            ListingEntry::Shown(status, trouble) => {
                listing.sessions.push(*status);
                listing.damaged.extend(trouble);
            }
            ListingEntry::Older => listing.older += 1,
            ListingEntry::Archived => listing.archived += 1,
            ListingEntry::Nothing => {}
            ListingEntry::Damaged(problem) => listing.damaged.push(problem),
        }
    }
    filter.order.sort(&mut listing.sessions);
    let limit = filter.limit.unwrap_or(usize::MAX);
    listing.more = listing.sessions.len().saturating_sub(limit);
    listing.sessions.truncate(limit);
    listing
}

/// Reads these sessions for a list.
pub fn look_at_all(ctx: &VerbContext, filter: &SessionFilter, ids: &[SessionId]) -> Vec<ListingEntry> {
    let now_ms = berth_host::clock::wall_ms();
    let first = |ids: &[SessionId]| -> Vec<ListingEntry> {
        ids.iter().map(|id| first_look(ctx, filter, id, now_ms)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let seen = if ids.len() < WORTH_THREADS || threads == 1 {
        first(ids)
    } else {
        std::thread::scope(|scope| {
            let parts = ids.chunks(ids.len().div_ceil(threads));
            let parts: Vec<_> = parts.map(|part| scope.spawn(|| first(part))).collect();
            // A panic in one thread loses the whole list, as it would without threads.
            parts.into_iter().flat_map(|part| part.join().expect("looking at sessions")).collect()
        })
    };
    ids.iter().zip(seen).map(|(id, seen)| bring_to_end(ctx, filter, id, seen)).collect()
}

/// Reads a session and changes nothing. A loss that is not recorded yet is listed even if it does not pass the filter.
pub fn first_look(ctx: &VerbContext, filter: &SessionFilter, id: &SessionId, now_ms: u64) -> ListingEntry {
    let look = StatusCache::at(&ctx.home, id);
    let unwanted = look.brief().map(|brief| filter.place(&brief, now_ms));
    if let Some(seen @ (ListingEntry::Older | ListingEntry::Archived | ListingEntry::Nothing)) =
        unwanted.flatten()
    {
        return seen;
    }
    match look.status(&ctx.home) {
        Ok(status) if status.is_unrecorded_loss() => ListingEntry::Shown(Box::new(status), None),
        Ok(status) => listed_entry(filter, status, None, now_ms),
        Err(problem) if problem.code == ProblemCode::NotFound => ListingEntry::Nothing,
        Err(problem) => ListingEntry::Damaged(problem),
    }
}

/// Ends a run whose keeper died and whose loss is not recorded yet.
fn bring_to_end(
    ctx: &VerbContext,
    filter: &SessionFilter,
    id: &SessionId,
    seen: ListingEntry,
) -> ListingEntry {
    match seen {
        ListingEntry::Shown(status, None) if status.is_unrecorded_loss() => match ctx.healed(id) {
            Ok((status, trouble)) => listed_entry(filter, status, trouble, berth_host::clock::wall_ms()),
            Err(problem) if problem.code == ProblemCode::NotFound => ListingEntry::Nothing,
            Err(problem) => ListingEntry::Damaged(problem),
        },
        seen => seen,
    }
}

/// The result for a session whose status is known.
pub fn listed_entry(
    filter: &SessionFilter,
    status: SessionStatus,
    trouble: Option<Problem>,
    now_ms: u64,
) -> ListingEntry {
    match filter.place(&StatusSummary::from(&status), now_ms) {
        // A lost run that could not be ended is reported even if the session does not pass the filter.
        Some(_) if trouble.is_some() => ListingEntry::Shown(Box::new(status), trouble),
        Some(elsewhere) => elsewhere,
        None => ListingEntry::Shown(Box::new(status), trouble),
    }
}

impl SessionFilter {
    /// The result for a hidden session; `None` if the session is listed.
    fn place(&self, brief: &StatusSummary<'_>, now_ms: u64) -> Option<ListingEntry> {
        if !self.wants(brief) {
            return Some(ListingEntry::Nothing);
        }
        let is_archived = brief.state == SessionState::Archived;
        let is_old = || brief.ended_at.is_some_and(|at| now_ms.saturating_sub(at.0) >= RECENT_MS);
        match self.extent {
            ListExtent::All => None,
            ListExtent::Archived => (!is_archived).then_some(ListingEntry::Nothing),
            ListExtent::Recent if !self.states.is_empty() => None,
            ListExtent::Recent if is_archived => Some(ListingEntry::Archived),
            ListExtent::Recent => {
                (brief.state == SessionState::Stopped && is_old()).then_some(ListingEntry::Older)
            }
        }
    }

    /// True if there is any condition besides age.
    pub fn is_choosy(&self) -> bool {
        let Self { states, agent, under, tags, name, extent: _, order: _, limit: _ } = self;
        !states.is_empty() || agent.is_some() || under.is_some() || !tags.is_empty() || name.is_some()
    }

    /// True if a session meets the conditions, at any age.
    pub fn wants(&self, brief: &StatusSummary<'_>) -> bool {
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

impl ListOrder {
    fn sort(self, sessions: &mut [SessionStatus]) {
        use std::cmp::Reverse;
        match self {
            Self::State => sessions.sort_by_key(list_position),
            Self::Active => sessions.sort_by_key(|status| Reverse(status.last_activity_at)),
            Self::Created => sessions.sort_by_key(|status| Reverse(status.created_at)),
            Self::Name => sessions.sort_by(|one, other| {
                let key = |status: &SessionStatus| (status.name.is_none(), status.handle().to_owned());
                key(one).cmp(&key(other))
            }),
        }
    }
}

/// True if a name matches a pattern, in which `*` stands for any characters and `?` for one.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.as_bytes());
    let (mut at, mut with) = (0, 0);
    // Place of the last `*`, and the length of the name that it matches so far.
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
