//! The engine in memory, with the faults of networks and fail-overs, for simulations.
//!
//! A commit changes the primary first. With an answer it is on the synchronous standby as well, and so is every commit
//! before it. A third server, the replica, follows when the simulation says so.
//! Promise: no time passes, nothing is random; the simulation chooses the fault of the next call that changes something.
//! Start with [`ModelFleet`].

mod record;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::{SafeName, SessionId};

use crate::engine::{
    AppendAnswer, AppendRequest, ChangeCursor, ChangePage, ClaimAnswer, ClaimRequest, CreateAnswer,
    CreateRequest, FleetEngine, HeartbeatAnswer, HeartbeatRequest, HostRecord, ListPosition, ListRow,
    LostSession, OwnedSession, PostAnswer, PostRequest, PublishAnswer, RecordedEvent, ReleaseRequest,
    SessionIdentity, SessionRecord, WaitingPost, WithdrawAnswer,
};
use crate::{EngineError, EventNumber, HostId, Incarnation, PostNumber, RecordText, Term};
use record::ModelRecord;

/// A bug on purpose. A simulation that does not notice it proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedBug {
    /// An append looks at owner and term first, and inserts later without looking again.
    LookingFence,
    /// Unknown outcomes are settled by reading alone.
    SettleByRead,
    /// A cancelled wait for the standby counts as a success.
    AckOnWarning,
    /// Reads that decide are answered by a replica.
    DecideOnReplica,
    /// An append that is repeated is added again.
    NoIdempotence,
}

/// A fault of one call that changes something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFault {
    /// The request never arrives.
    RequestLost,
    /// The request arrives when the simulation says so; the caller has given up by then.
    Late,
    /// The request is committed; its answer is lost.
    AnswerLost,
    /// The wait for the standby is cancelled: committed on the primary, with a warning.
    WaitCancelled,
}

type LateCall = Box<dyn FnOnce(&mut ModelRecord) + Send>;

#[derive(Default)]
struct ModelServers {
    primary: ModelRecord,
    standby: ModelRecord,
    replica: ModelRecord,
    is_standby_away: bool,
    timeline: u32,
    late: Vec<LateCall>,
    next_fault: Option<CallFault>,
    bug: Option<PlantedBug>,
}

/// The servers of a modelled fleet.
#[derive(Clone, Default)]
pub struct ModelFleet {
    servers: Arc<Mutex<ModelServers>>,
}

/// The record as one host reaches it.
#[derive(Clone)]
pub struct ModelEngine {
    fleet: ModelFleet,
    /// The host of the login role.
    host: HostId,
}

impl ModelFleet {
    /// Servers with a bug on purpose, or without.
    pub fn new(bug: Option<PlantedBug>) -> Self {
        let servers = ModelServers { bug, ..ModelServers::default() };
        Self { servers: Arc::new(Mutex::new(servers)) }
    }

    /// Adds a host, and gives its way to the record. The caller numbers hosts from 1.
    pub fn admit(&self, host: HostId, name: SafeName) -> ModelEngine {
        let mut servers = self.servers();
        let ModelServers { primary, standby, replica, .. } = &mut *servers;
        [primary, standby, replica].into_iter().for_each(|record| record.admit(host, name.clone()));
        drop(servers);
        ModelEngine { fleet: self.clone(), host }
    }

    /// Gives the next call that changes something this fault.
    pub fn plan_fault(&self, fault: CallFault) {
        self.servers().next_fault = Some(fault);
    }

    /// Cuts the synchronous standby off, or brings it back. While it is away no call gets an answer.
    pub fn set_standby_away(&self, is_away: bool) {
        self.servers().is_standby_away = is_away;
    }

    /// Promotes the synchronous standby. What only the old primary had is gone, with the calls on their way to it.
    pub fn fail_over(&self) {
        let mut servers = self.servers();
        servers.primary = servers.standby.clone();
        servers.late.clear();
        servers.is_standby_away = false;
        servers.timeline += 1;
    }

    /// Restarts the primary: commits that waited for the standby are visible now, and still not replicated.
    pub fn restart_primary(&self) {
        self.servers().late.clear();
    }

    /// Brings the replica up to date.
    pub fn catch_up_replica(&self) {
        let mut servers = self.servers();
        servers.replica = servers.primary.clone();
    }

    /// Lets the oldest late call arrive. Returns false if there is none.
    pub fn deliver_late_call(&self) -> bool {
        let mut servers = self.servers();
        if servers.late.is_empty() {
            return false;
        }
        let call = servers.late.remove(0);
        call(&mut servers.primary);
        true
    }

    fn servers(&self) -> MutexGuard<'_, ModelServers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelEngine {
    /// Runs a call that changes the record, with the planned fault.
    fn change<A: 'static>(
        &self,
        call: &'static str,
        host: HostId,
        change: impl FnOnce(&mut ModelRecord) -> A + Send + 'static,
    ) -> Result<A, EngineError> {
        let mut servers = self.fleet.servers();
        if host != self.host {
            servers.primary.audit(self.host, call);
            return Err(EngineError::Rejected { call, host });
        }
        let unknown = |cause: &str| Err(EngineError::OutcomeUnknown { call, cause: cause.to_owned() });
        match servers.next_fault.take() {
            Some(CallFault::RequestLost) => unknown("no answer in time"),
            Some(CallFault::Late) => {
                servers.late.push(Box::new(move |record| drop(change(record))));
                unknown("no answer in time")
            }
            Some(CallFault::AnswerLost) => {
                change(&mut servers.primary);
                if !servers.is_standby_away {
                    servers.standby = servers.primary.clone();
                }
                unknown("connection closed")
            }
            Some(CallFault::WaitCancelled) => {
                let answer = change(&mut servers.primary);
                if servers.bug == Some(PlantedBug::AckOnWarning) {
                    return Ok(answer);
                }
                unknown("WARNING: canceling wait for synchronous replication")
            }
            None => {
                let answer = change(&mut servers.primary);
                if servers.is_standby_away {
                    return unknown("no answer in time");
                }
                servers.standby = servers.primary.clone();
                Ok(answer)
            }
        }
    }

    /// Reads from the primary.
    fn read<A>(&self, read: impl FnOnce(&ModelRecord) -> A) -> Result<A, EngineError> {
        let servers = self.fleet.servers();
        let is_on_replica = servers.bug == Some(PlantedBug::DecideOnReplica);
        Ok(read(if is_on_replica { &servers.replica } else { &servers.primary }))
    }

    fn bug(&self) -> Option<PlantedBug> {
        self.fleet.servers().bug
    }
}

impl FleetEngine for ModelEngine {
    async fn create(&self, request: CreateRequest) -> Result<CreateAnswer, EngineError> {
        self.change("create", request.host, move |record| record.create(request))
    }

    async fn append(&self, request: AppendRequest) -> Result<AppendAnswer, EngineError> {
        let bug = self.bug();
        if bug == Some(PlantedBug::LookingFence) {
            let may_pass = self.read(|record| record.is_at(&request))?;
            return self.change("append", request.host, move |record| {
                if may_pass { record.insert_unfenced(request) } else { record.append(request) }
            });
        }
        let is_repeated = bug == Some(PlantedBug::NoIdempotence);
        self.change("append", request.host, move |record| {
            if is_repeated { record.append_again(request) } else { record.append(request) }
        })
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, EngineError> {
        self.change("claim", request.host, move |record| record.claim(request))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<AppendAnswer, EngineError> {
        self.change("release", request.host, move |record| record.release(request))
    }

    async fn begin_incarnation(&self, host: HostId) -> Result<Incarnation, EngineError> {
        self.change("begin_incarnation", host, move |record| record.begin_incarnation(host))
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, EngineError> {
        self.change("heartbeat", request.host, move |record| record.heartbeat(request))
    }

    async fn acknowledge_loss(&self, host: HostId, lost: LostSession) -> Result<(), EngineError> {
        self.change("acknowledge_loss", host, move |record| record.acknowledge_loss(host, &lost))
    }

    async fn post(&self, request: PostRequest) -> Result<PostAnswer, EngineError> {
        self.change("post", request.host, move |record| record.post(request))
    }

    async fn withdraw(
        &self,
        host: HostId,
        session: SessionId,
        key: RecordText,
    ) -> Result<WithdrawAnswer, EngineError> {
        self.change("withdraw", host, move |record| record.withdraw(&session, &key))
    }

    async fn publish(&self, term: Term, row: ListRow) -> Result<PublishAnswer, EngineError> {
        self.change("publish", row.host, move |record| record.publish(term, row))
    }

    async fn barrier(&self, host: HostId) -> Result<(), EngineError> {
        self.change("barrier", host, |_| ())
    }

    async fn settle(&self, host: HostId, session: SessionId) -> Result<Option<SessionRecord>, EngineError> {
        let seen = self.session(session).await?;
        if self.bug() != Some(PlantedBug::SettleByRead) {
            self.barrier(host).await?;
        }
        Ok(seen)
    }

    async fn find(&self, identity: SessionIdentity) -> Result<Option<SessionId>, EngineError> {
        self.read(|record| record.find(&identity))
    }

    async fn owned_sessions(
        &self,
        host: HostId,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<OwnedSession>, EngineError> {
        let owned = self.read(|record| record.owned_sessions(host, after.as_ref(), limit))?;
        self.barrier(host).await?;
        Ok(owned)
    }

    async fn session(&self, session: SessionId) -> Result<Option<SessionRecord>, EngineError> {
        self.read(|record| record.session(&session))
    }

    async fn events(
        &self,
        session: SessionId,
        from: EventNumber,
        limit: u32,
    ) -> Result<Vec<RecordedEvent>, EngineError> {
        self.read(|record| record.events(&session, from, limit))
    }

    async fn inbox(
        &self,
        host: HostId,
        after: PostNumber,
        limit: u32,
    ) -> Result<Vec<WaitingPost>, EngineError> {
        if host != self.host {
            self.fleet.servers().primary.audit(self.host, "inbox");
            return Err(EngineError::Rejected { call: "inbox", host });
        }
        self.read(|record| record.inbox(host, after, limit))
    }

    async fn hosts(&self) -> Result<Vec<HostRecord>, EngineError> {
        self.read(ModelRecord::hosts)
    }

    async fn list_page(&self, after: Option<ListPosition>, limit: u32) -> Result<Vec<ListRow>, EngineError> {
        self.read(|record| record.list_page(after.as_ref(), limit))
    }

    async fn changes(&self, since: ChangeCursor, limit: u32) -> Result<ChangePage, EngineError> {
        let timeline = self.fleet.servers().timeline;
        self.read(|record| record.changes(timeline, &since, limit))
    }
}
