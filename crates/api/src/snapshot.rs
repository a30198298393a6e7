//! A whole [`core::Session`] in a storable form: the result of replaying all its events, which saves the replay.
//!
//! Promise: a snapshot is read back unchanged, except for the keys of turns: those come from the turn index
//! ([`core::SessionTurns::remember_key`]). A new field of the session breaks the build here.
//! Not here: files, checksums, and whether a snapshot fits its journal. It is derived state: a snapshot of another
//! [`FORMAT`] is discarded, and no version reads that of another one.
//!
//! Times on the boot clock are stored as they are. Those of deadlines (`StartDeadline`, `SessionExpiry`, `QueueHold::Retrying`) have their
//! boot with them. All others are of the run that is live, whose boot is that of [`SessionSnapshot`]'s `keeper`:
//! `EndingRun::kill_at_boot_ms`, `HelperSharing::stop_at_boot_ms`, `SessionTurns::quiet_since_boot_ms` and the `CancelRequest` of the turn the
//! agent has. The end of that run clears them.
//! Start with [`SessionSnapshot`].

use std::collections::{BTreeMap, VecDeque};

use berth_core as core;
use serde::{Deserialize, Serialize};

use crate::helper::{HelperOwner, HelperTerms};
use crate::mirror::mirror;
use crate::record::{
    Actor, AgentInterface, BadRecord, ProcessExit, ProcessRef, RunBoundary, RunOutcome, SessionSpec,
};
use crate::turn::{
    ActivityChange, AgentCapabilities, AgentQuestion, CancelRequest, Conversation, FinalState, QueueHold,
    ReleaseReason, SendMode, SessionExpiry, StartDeadline, TurnRetry,
};

/// Number of this format. Any change of a type in this file, of a type it uses or of the hash functions of
/// `berth_core` needs a new number.
pub const FORMAT: u32 = 2;

/// A [`core::Session`] in a storable form, without the keys of its turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionSnapshot {
    format: u32,
    session: Session,
}

impl From<&core::Session> for SessionSnapshot {
    fn from(session: &core::Session) -> Self {
        Self { format: FORMAT, session: session.clone().into() }
    }
}

impl TryFrom<SessionSnapshot> for core::Session {
    type Error = BadSnapshot;

    fn try_from(snapshot: SessionSnapshot) -> Result<Self, BadSnapshot> {
        if snapshot.format != FORMAT {
            return Err(BadSnapshot::Format(snapshot.format));
        }
        Ok(snapshot.session.try_into()?)
    }
}

/// Reason why a snapshot cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSnapshot {
    /// The format is that of another version.
    #[error("the snapshot has format {0}, and this version reads format {FORMAT}")]
    Format(u32),
    /// The contents are nothing that a version of berth would write.
    #[error(transparent)]
    Record(#[from] BadRecord),
}

mirror! {
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Session [checked] {
        spec: Option<SessionSpec>,
        name: Option<String>,
        epoch: u64,
        keeper: Option<ProcessRef>,
        output_from: u64,
        boundary: RunBoundary,
        oom_kills: u64,
        phase: RunPhase,
        stopped_by: Option<Actor>,
        fence: u64,
        writer: Option<Writer>,
        sharing: Option<HelperSharing>,
        turns: SessionTurns,
        edges: Option<TerminalActivity>,
        tells: bool,
        next_interface: Option<NextInterface>,
        switching: bool,
        conversation: Option<Conversation>,
        given_up_after: u64,
        released: Option<ReleaseReason>,
        expiry: Option<SessionExpiry>,
        archived: bool,
        tags: Vec<String>,
        note: Option<String>,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum RunPhase {
        New,
        Starting,
        Running { agent: ProcessRef },
        Ending(ending: EndingRun),
        Ended { outcome: RunOutcome },
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct EndingRun {
        agent: Option<ProcessRef>,
        exit: Option<ProcessExit>,
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
    struct HelperSharing [checked] {
        terms: HelperTerms,
        owners: Vec<HelperOwner>,
        past: VecDeque<String>,
        stop_at_boot_ms: Option<u64>,
        readiness: HelperReadiness,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum HelperReadiness {
        Awaited,
        Ready(address: Option<String>),
        Never(reason: String),
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct TerminalActivity {
        working: bool,
        ahead: u32,
        before: u32,
        last: Option<ActivityChange>,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct NextInterface {
        interface: AgentInterface,
        at_once: bool,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct SessionTurns {
        window: BTreeMap<u64, Turn>,
        over: VecDeque<u64>,
        total: u64,
        #[serde(skip)]
        keys: (),
        given_total: u64,
        last_given: u64,
        last_done: u64,
        queue: VecDeque<u64>,
        current: Option<CurrentTurn>,
        hold: Option<QueueHold>,
        asks: Vec<AgentQuestion>,
        ready: Option<AgentCapabilities>,
        quiet_since_boot_ms: Option<u64>,
        was_of_use: bool,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Turn {
        state: TurnProgress,
        prompt: String,
        start_by: Option<StartDeadline>,
        manner: SendMode,
        retry: Option<TurnRetry>,
        ends: Vec<u64>,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum TurnProgress {
        Queued,
        Delivered,
        Working,
        Over(end: FinalState),
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct CurrentTurn {
        turn: u64,
        output_from: u64,
        steered: Vec<u64>,
        cancel: Option<CancelRequest>,
    }
}

#[cfg(test)]
mod tests;
