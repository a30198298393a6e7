//! A whole [`core::Session`] on paper: what a replay of all its events comes to, so that nobody has to replay them.
//!
//! Promise: what is written is read back as it was, but for the keys of turns: those come from the turn index
//! ([`core::Turns::remember_key`]). A new field of the session breaks the build here.
//! Not here: files, checksums, and whether a snapshot fits its journal. It is derived state: a snapshot of another
//! [`FORMAT`] is discarded, and no version reads that of another one.
//!
//! Times on the boot clock are stored as they are. Those of deadlines (`StartBy`, `Expiry`, `Hold::Retrying`) have their
//! boot with them. All others are of the run that is live, whose boot is that of [`SessionSnapshot`]'s `keeper`:
//! `Ending::kill_at_boot_ms`, `Sharing::stop_at_boot_ms`, `Turns::quiet_since_boot_ms` and the `Cancel` of the turn the
//! agent has. The end of that run clears them.
//! Start with [`SessionSnapshot`].

use std::collections::{BTreeMap, VecDeque};

use berth_core as core;
use serde::{Deserialize, Serialize};

use crate::helper::{Owner, Terms, session_id};
use crate::record::{Actor, BadRecord, Boundary, Exit, Interface, Outcome, Process, Spec};
use crate::turn::{
    Able, Ask, Cancel, Conversation, Edge, Expiry, Final, Hold, Manner, Release, Retry, StartBy,
};

/// The number of this format. Any change of a type in this file, of a type it uses or of the hash functions of
/// `berth_core` needs another one.
pub const FORMAT: u32 = 1;

/// [`core::Session`] on paper, without the keys of its turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionSnapshot {
    format: u32,
    spec: Option<Spec>,
    name: Option<String>,
    epoch: u64,
    keeper: Option<Process>,
    output_from: u64,
    boundary: Boundary,
    oom_kills: u64,
    phase: Phase,
    stopped_by: Option<Actor>,
    fence: u64,
    writer: Option<Writer>,
    sharing: Option<Sharing>,
    turns: Turns,
    edges: Option<Edges>,
    tells: bool,
    next_interface: Option<NextInterface>,
    switching: bool,
    conversation: Option<Conversation>,
    given_up_after: u64,
    released: Option<Release>,
    expiry: Option<Expiry>,
    archived: bool,
    tags: Vec<String>,
    note: Option<String>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSnapshot {
    /// It is of another version.
    #[error("the snapshot has format {0}, and this version reads format {FORMAT}")]
    Format(u32),
    /// No version of ours would have written it.
    #[error(transparent)]
    Record(#[from] BadRecord),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Phase {
    New,
    Starting,
    Running(Process),
    Ending(Ending),
    Ended(Outcome),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Ending {
    agent: Option<Process>,
    exit: Option<Exit>,
    oom: bool,
    kill_at_boot_ms: u64,
    killed: bool,
    left: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Writer {
    fence: u64,
    holder: Actor,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Sharing {
    terms: Terms,
    owners: Vec<Owner>,
    past: Vec<String>,
    stop_at_boot_ms: Option<u64>,
    readiness: Readiness,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Readiness {
    Awaited,
    Ready(Option<String>),
    Never(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Edges {
    working: bool,
    ahead: u32,
    before: u32,
    last: Option<Edge>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct NextInterface {
    interface: Interface,
    at_once: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Turns {
    window: BTreeMap<u64, Turn>,
    over: VecDeque<u64>,
    total: u64,
    given_total: u64,
    last_given: u64,
    last_done: u64,
    queue: VecDeque<u64>,
    current: Option<Current>,
    hold: Option<Hold>,
    asks: Vec<Ask>,
    ready: Option<Able>,
    quiet_since_boot_ms: Option<u64>,
    was_of_use: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Turn {
    state: TurnState,
    prompt: String,
    start_by: Option<StartBy>,
    manner: Manner,
    retry: Option<Retry>,
    ends: Vec<u64>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum TurnState {
    Queued,
    Delivered,
    Working,
    Over(Final),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Current {
    turn: u64,
    output_from: u64,
    steered: Vec<u64>,
    cancel: Option<Cancel>,
}

impl From<&core::Session> for SessionSnapshot {
    fn from(session: &core::Session) -> Self {
        let core::Session {
            spec,
            name,
            epoch,
            keeper,
            output_from,
            boundary,
            oom_kills,
            phase,
            stopped_by,
            fence,
            writer,
            sharing,
            turns,
            edges,
            tells,
            next_interface,
            switching,
            conversation,
            given_up_after,
            released,
            expiry,
            archived,
            tags,
            note,
        } = session.clone();
        Self {
            format: FORMAT,
            spec: spec.map(Into::into),
            name: name.map(|name| name.to_string()),
            epoch: epoch.0,
            keeper: keeper.map(Into::into),
            output_from,
            boundary: boundary.into(),
            oom_kills,
            phase: phase.into(),
            stopped_by: stopped_by.map(Into::into),
            fence: fence.0,
            writer: writer.map(Into::into),
            sharing: sharing.map(Into::into),
            turns: turns.into(),
            edges: edges.map(Into::into),
            tells,
            next_interface: next_interface.map(Into::into),
            switching,
            conversation: conversation.map(Into::into),
            given_up_after,
            released: released.map(Into::into),
            expiry: expiry.map(Into::into),
            archived,
            tags: tags.iter().map(ToString::to_string).collect(),
            note,
        }
    }
}

impl TryFrom<SessionSnapshot> for core::Session {
    type Error = BadSnapshot;

    fn try_from(snapshot: SessionSnapshot) -> Result<Self, BadSnapshot> {
        let SessionSnapshot {
            format,
            spec,
            name,
            epoch,
            keeper,
            output_from,
            boundary,
            oom_kills,
            phase,
            stopped_by,
            fence,
            writer,
            sharing,
            turns,
            edges,
            tells,
            next_interface,
            switching,
            conversation,
            given_up_after,
            released,
            expiry,
            archived,
            tags,
            note,
        } = snapshot;
        if format != FORMAT {
            return Err(BadSnapshot::Format(format));
        }
        let named = |name: String| core::Name::parse(&name).map_err(BadRecord::from);
        Ok(Self {
            spec: spec.map(Into::into),
            name: name.map(named).transpose()?,
            epoch: core::Epoch(epoch),
            keeper: keeper.map(Into::into),
            output_from,
            boundary: boundary.into(),
            oom_kills,
            phase: phase.into(),
            stopped_by: stopped_by.map(Into::into),
            fence: core::Fence(fence),
            writer: writer.map(Into::into),
            sharing: sharing.map(TryInto::try_into).transpose()?,
            turns: turns.into(),
            edges: edges.map(Into::into),
            tells,
            next_interface: next_interface.map(Into::into),
            switching,
            conversation: conversation.map(Into::into),
            given_up_after,
            released: released.map(Into::into),
            expiry: expiry.map(Into::into),
            archived,
            tags: tags.into_iter().map(named).collect::<Result<_, _>>()?,
            note,
        })
    }
}

impl From<core::Turns> for Turns {
    fn from(turns: core::Turns) -> Self {
        let core::Turns {
            window,
            over,
            total,
            keys: _,
            given_total,
            last_given,
            last_done,
            queue,
            current,
            hold,
            asks,
            ready,
            quiet_since_boot_ms,
            was_of_use,
        } = turns;
        Self {
            window: window.into_iter().map(|(number, turn)| (number, turn.into())).collect(),
            over,
            total,
            given_total,
            last_given,
            last_done,
            queue,
            current: current.map(Into::into),
            hold: hold.map(Into::into),
            asks: asks.into_iter().map(Into::into).collect(),
            ready: ready.map(Into::into),
            quiet_since_boot_ms,
            was_of_use,
        }
    }
}

impl From<Turns> for core::Turns {
    fn from(turns: Turns) -> Self {
        let Turns {
            window,
            over,
            total,
            given_total,
            last_given,
            last_done,
            queue,
            current,
            hold,
            asks,
            ready,
            quiet_since_boot_ms,
            was_of_use,
        } = turns;
        Self {
            window: window.into_iter().map(|(number, turn)| (number, turn.into())).collect(),
            over,
            total,
            keys: core::TurnKeys::default(),
            given_total,
            last_given,
            last_done,
            queue,
            current: current.map(Into::into),
            hold: hold.map(Into::into),
            asks: asks.into_iter().map(Into::into).collect(),
            ready: ready.map(Into::into),
            quiet_since_boot_ms,
            was_of_use,
        }
    }
}

impl From<core::Turn> for Turn {
    fn from(turn: core::Turn) -> Self {
        let core::Turn { state, prompt, start_by, manner, retry, ends } = turn;
        let (start_by, retry) = (start_by.map(Into::into), retry.map(Into::into));
        Self { state: state.into(), prompt: prompt.to_string(), start_by, manner: manner.into(), retry, ends }
    }
}

impl From<Turn> for core::Turn {
    fn from(turn: Turn) -> Self {
        let Turn { state, prompt, start_by, manner, retry, ends } = turn;
        let (start_by, retry) = (start_by.map(Into::into), retry.map(Into::into));
        Self { state: state.into(), prompt: prompt.into(), start_by, manner: manner.into(), retry, ends }
    }
}

impl From<core::TurnState> for TurnState {
    fn from(state: core::TurnState) -> Self {
        match state {
            core::TurnState::Queued => Self::Queued,
            core::TurnState::Delivered => Self::Delivered,
            core::TurnState::Working => Self::Working,
            core::TurnState::Over(end) => Self::Over(end.into()),
        }
    }
}

impl From<TurnState> for core::TurnState {
    fn from(state: TurnState) -> Self {
        match state {
            TurnState::Queued => Self::Queued,
            TurnState::Delivered => Self::Delivered,
            TurnState::Working => Self::Working,
            TurnState::Over(end) => Self::Over(end.into()),
        }
    }
}

impl From<core::Current> for Current {
    fn from(current: core::Current) -> Self {
        let core::Current { turn, output_from, steered, cancel } = current;
        Self { turn, output_from, steered, cancel: cancel.map(Into::into) }
    }
}

impl From<Current> for core::Current {
    fn from(current: Current) -> Self {
        let Current { turn, output_from, steered, cancel } = current;
        Self { turn, output_from, steered, cancel: cancel.map(Into::into) }
    }
}

impl From<core::Phase> for Phase {
    fn from(phase: core::Phase) -> Self {
        match phase {
            core::Phase::New => Self::New,
            core::Phase::Starting => Self::Starting,
            core::Phase::Running { agent } => Self::Running(agent.into()),
            core::Phase::Ending(ending) => Self::Ending(ending.into()),
            core::Phase::Ended { outcome } => Self::Ended(outcome.into()),
        }
    }
}

impl From<Phase> for core::Phase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::New => Self::New,
            Phase::Starting => Self::Starting,
            Phase::Running(agent) => Self::Running { agent: agent.into() },
            Phase::Ending(ending) => Self::Ending(ending.into()),
            Phase::Ended(outcome) => Self::Ended { outcome: outcome.into() },
        }
    }
}

impl From<core::Ending> for Ending {
    fn from(ending: core::Ending) -> Self {
        let core::Ending { agent, exit, oom, kill_at_boot_ms, killed, left } = ending;
        let (agent, exit) = (agent.map(Into::into), exit.map(Into::into));
        Self { agent, exit, oom, kill_at_boot_ms, killed, left }
    }
}

impl From<Ending> for core::Ending {
    fn from(ending: Ending) -> Self {
        let Ending { agent, exit, oom, kill_at_boot_ms, killed, left } = ending;
        let (agent, exit) = (agent.map(Into::into), exit.map(Into::into));
        Self { agent, exit, oom, kill_at_boot_ms, killed, left }
    }
}

impl From<core::Writer> for Writer {
    fn from(writer: core::Writer) -> Self {
        let core::Writer { fence, holder } = writer;
        Self { fence: fence.0, holder: holder.into() }
    }
}

impl From<Writer> for core::Writer {
    fn from(writer: Writer) -> Self {
        let Writer { fence, holder } = writer;
        Self { fence: core::Fence(fence), holder: holder.into() }
    }
}

impl From<core::Sharing> for Sharing {
    fn from(sharing: core::Sharing) -> Self {
        let core::Sharing { terms, owners, past, stop_at_boot_ms, readiness } = sharing;
        Self {
            terms: terms.into(),
            owners: owners.into_iter().map(Into::into).collect(),
            past: past.iter().map(ToString::to_string).collect(),
            stop_at_boot_ms,
            readiness: match readiness {
                core::Readiness::Awaited => Readiness::Awaited,
                core::Readiness::Ready(address) => Readiness::Ready(address),
                core::Readiness::Never(reason) => Readiness::Never(reason),
            },
        }
    }
}

impl TryFrom<Sharing> for core::Sharing {
    type Error = BadRecord;

    fn try_from(sharing: Sharing) -> Result<Self, BadRecord> {
        let Sharing { terms, owners, past, stop_at_boot_ms, readiness } = sharing;
        Ok(Self {
            terms: terms.try_into()?,
            owners: owners.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            past: past.into_iter().map(session_id).collect::<Result<_, _>>()?,
            stop_at_boot_ms,
            readiness: match readiness {
                Readiness::Awaited => core::Readiness::Awaited,
                Readiness::Ready(address) => core::Readiness::Ready(address),
                Readiness::Never(reason) => core::Readiness::Never(reason),
            },
        })
    }
}

impl From<core::Edges> for Edges {
    fn from(edges: core::Edges) -> Self {
        let core::Edges { working, ahead, before, last } = edges;
        Self { working, ahead, before, last: last.map(Into::into) }
    }
}

impl From<Edges> for core::Edges {
    fn from(edges: Edges) -> Self {
        let Edges { working, ahead, before, last } = edges;
        Self { working, ahead, before, last: last.map(Into::into) }
    }
}

impl From<core::NextInterface> for NextInterface {
    fn from(next: core::NextInterface) -> Self {
        let core::NextInterface { interface, at_once } = next;
        Self { interface: interface.into(), at_once }
    }
}

impl From<NextInterface> for core::NextInterface {
    fn from(next: NextInterface) -> Self {
        let NextInterface { interface, at_once } = next;
        Self { interface: interface.into(), at_once }
    }
}
