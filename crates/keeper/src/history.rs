//! What the journal tells, summed up: the session's state and the times people ask for.

use berth_api::record::{Actor, Entry, Spec};
use berth_api::status::{Status, Timestamp, What, WriterStatus};
use berth_core::{Ending, Event, Phase, Session, SessionId, State};
use berth_journal::{Committed, Record};

/// An event with its time, as the journal keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub event: Event,
}

impl Record for Stored {
    fn encode(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(out, &self.entry()).expect("an entry is plain data and a Vec takes any write");
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let entry: Entry = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let event = entry.to_core().map_err(|bad| bad.to_string())?;
        Ok(Self { at_ms: entry.at_ms, event })
    }
}

impl Stored {
    /// The same on paper.
    pub fn entry(&self) -> Entry {
        Entry::new(self.at_ms, &self.event)
    }
}

/// A session's past, summed up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// Its state.
    pub session: Session,
    /// The number of the last event.
    pub seq: u64,
    created_at_ms: u64,
    started_at_ms: u64,
    ended_at_ms: Option<u64>,
    last_event_at_ms: u64,
    writer_since_ms: u64,
}

impl History {
    /// Replays a journal.
    pub fn replay(events: &[Committed<Stored>]) -> Self {
        let mut history = Self::default();
        for event in events {
            history.apply(event);
        }
        history
    }

    /// Takes the next event in. Only what is on disk can be taken in.
    pub fn apply(&mut self, committed: &Committed<Stored>) {
        let stored = committed.get();
        self.seq = committed.seq().0;
        self.last_event_at_ms = stored.at_ms;
        match &stored.event {
            Event::Created { .. } => self.created_at_ms = stored.at_ms,
            Event::RunStarting { .. } => {
                self.started_at_ms = stored.at_ms;
                self.ended_at_ms = None;
            }
            Event::RunEnded { .. } => self.ended_at_ms = Some(stored.at_ms),
            Event::WriterGranted { .. } => self.writer_since_ms = stored.at_ms,
            Event::Renamed { .. }
            | Event::RunStarted { .. }
            | Event::StopRequested { .. }
            | Event::AgentExited { .. }
            | Event::KillOrdered { .. }
            | Event::EndUnproven { .. }
            | Event::WriterReleased { .. }
            | Event::Typed { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::Warned { .. } => {}
        }
        self.session.apply(&stored.event);
    }

    /// Everything a list shows. `kept` says whether a keeper holds the lease.
    pub fn status(&self, id: &SessionId, kept: bool) -> Status {
        let session = &self.session;
        let spec: Spec = session.spec.clone().unwrap_or_default().into();
        let mut status = Status {
            id: id.to_string(),
            name: session.name.as_ref().map(ToString::to_string),
            state: session.state(kept).word().to_owned(),
            what: What::from(&spec),
            epoch: session.epoch.0,
            pid: session.agent().filter(|_| kept).map(|agent| agent.pid),
            keeper_pid: session.keeper.as_ref().filter(|_| kept).map(|keeper| keeper.pid),
            created_at: Timestamp(self.created_at_ms),
            started_at: Timestamp(self.started_at_ms),
            ended_at: self.ended_at_ms.map(Timestamp),
            last_activity_at: Timestamp(self.last_event_at_ms),
            stopped_by: session.stopped_by.clone().map(Actor::from),
            writer: session.writer.as_ref().filter(|_| kept).map(|writer| WriterStatus {
                holder: writer.holder.clone().into(),
                since: Timestamp(self.writer_since_ms),
            }),
            output_from: session.output_from,
            seq: self.seq,
            ..Status::default()
        };
        if let Phase::Ending(Ending { left, .. }) = &session.phase {
            status.left = left.clone();
        }
        match session.outcome() {
            Some(outcome) => status.set_outcome(&outcome.clone().into()),
            None if session.state(kept) == State::Lost => {
                status.set_outcome(&berth_api::record::Outcome::Lost);
            }
            None => {}
        }
        status
    }
}
