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

use crate::helper::{Owner, Terms};
use crate::paper::mirror;
use crate::record::{Actor, BadRecord, Boundary, Exit, Interface, Outcome, Process, Spec};
use crate::turn::{
    Able, Ask, Cancel, Conversation, Edge, Expiry, Final, Hold, Manner, Release, Retry, StartBy,
};

/// The number of this format. Any change of a type in this file, of a type it uses or of the hash functions of
/// `berth_core` needs another one.
pub const FORMAT: u32 = 2;

/// [`core::Session`] on paper, without the keys of its turns.
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

mirror! {
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Session [checked] {
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

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum Phase {
        New,
        Starting,
        Running { agent: Process },
        Ending(ending: Ending),
        Ended { outcome: Outcome },
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
    struct Sharing [checked] {
        terms: Terms,
        owners: Vec<Owner>,
        past: VecDeque<String>,
        stop_at_boot_ms: Option<u64>,
        readiness: Readiness,
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum Readiness {
        Awaited,
        Ready(address: Option<String>),
        Never(reason: String),
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
        #[serde(skip)]
        keys: (),
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
        Over(end: Final),
    }

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Current {
        turn: u64,
        output_from: u64,
        steered: Vec<u64>,
        cancel: Option<Cancel>,
    }
}
