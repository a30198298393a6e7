//! The calls of the shared record, and their answers.
//!
//! Promise of every engine: an `Ok` is replicated as far as the engine is set up to replicate. Every call that changes
//! something can be repeated with the same arguments after [`EngineError::OutcomeUnknown`] and changes nothing twice.
//! Not here: retries, time-outs of owners, and which host claims which session.
//! Start with [`FleetEngine::append`].

use std::future::Future;

use berth_core::{Epoch, SafeName, SessionId};

use crate::{EngineError, EventNumber, HeartbeatCount, HostId, Incarnation, PostNumber, RecordText, Term};

/// The record that all hosts of a fleet share. A call speaks for the host that it names.
pub trait FleetEngine: Send + Sync {
    /// Records a new session with its first events. Its name, key and conversation are unique in the fleet.
    fn create(
        &self,
        request: CreateRequest,
    ) -> impl Future<Output = Result<CreateAnswer, EngineError>> + Send;

    /// Adds events behind `after`, if the host owns the session under this term, and takes posts in the same commit.
    fn append(
        &self,
        request: AppendRequest,
    ) -> impl Future<Output = Result<AppendAnswer, EngineError>> + Send;

    /// Makes the host the owner of a session under the next term, with one event that says so.
    fn claim(&self, request: ClaimRequest) -> impl Future<Output = Result<ClaimAnswer, EngineError>> + Send;

    /// Adds a last event and leaves the session without an owner. The term stays until the next claim.
    fn release(
        &self,
        request: ReleaseRequest,
    ) -> impl Future<Output = Result<AppendAnswer, EngineError>> + Send;

    /// Begins a new incarnation of a host: heartbeats of the one before are answered with `Replaced`.
    fn begin_incarnation(
        &self,
        host: HostId,
    ) -> impl Future<Output = Result<Incarnation, EngineError>> + Send;

    /// Counts a heartbeat, and lists the sessions that other hosts claimed from this one.
    fn heartbeat(
        &self,
        request: HeartbeatRequest,
    ) -> impl Future<Output = Result<HeartbeatAnswer, EngineError>> + Send;

    /// Removes a session from the list of [`HeartbeatAnswer::Counted`], after the host has ended its run.
    fn acknowledge_loss(
        &self,
        host: HostId,
        lost: LostSession,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Puts a turn or an order into a session's inbox. A key is posted once.
    fn post(&self, request: PostRequest) -> impl Future<Output = Result<PostAnswer, EngineError>> + Send;

    /// Withdraws a post that was not taken yet.
    fn withdraw(
        &self,
        host: HostId,
        session: SessionId,
        key: RecordText,
    ) -> impl Future<Output = Result<WithdrawAnswer, EngineError>> + Send;

    /// Replaces the list row of a session that the row's host owns under this term.
    fn publish(
        &self,
        term: Term,
        row: ListRow,
    ) -> impl Future<Output = Result<PublishAnswer, EngineError>> + Send;

    /// Commits something, so that everything that calls on this connection have read is replicated once this is answered.
    fn barrier(&self, host: HostId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The outcome of calls whose answers were lost: reads the session, then commits a barrier on the same connection.
    /// What the read saw is replicated once that is answered; the read alone proves nothing. A call that the session does
    /// not show may still be on its way: repeat it.
    fn settle(
        &self,
        host: HostId,
        session: SessionId,
    ) -> impl Future<Output = Result<Option<SessionRecord>, EngineError>> + Send;

    /// One session. May show changes that are not replicated yet, see [`FleetEngine::settle`].
    fn session(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Option<SessionRecord>, EngineError>> + Send;

    /// The session that has this name, key or conversation.
    fn find(
        &self,
        identity: SessionIdentity,
    ) -> impl Future<Output = Result<Option<SessionId>, EngineError>> + Send;

    /// Up to `limit` sessions that a host owns, behind the session `after`, by id. What it shows is replicated. Only the
    /// host itself may ask.
    fn owned_sessions(
        &self,
        host: HostId,
        after: Option<SessionId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<OwnedSession>, EngineError>> + Send;

    /// Up to `limit` events of a session, from number `from` on.
    fn events(
        &self,
        session: SessionId,
        from: EventNumber,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RecordedEvent>, EngineError>> + Send;

    /// Up to `limit` waiting posts of the host's sessions, behind number `after`. Numbers commit out of order, and a claim
    /// brings old ones: each pass over the inbox begins at 0.
    fn inbox(
        &self,
        host: HostId,
        after: PostNumber,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<WaitingPost>, EngineError>> + Send;

    /// All hosts of the fleet.
    fn hosts(&self) -> impl Future<Output = Result<Vec<HostRecord>, EngineError>> + Send;

    /// Up to `limit` rows of the list behind a position, by rank, then the most recently active first.
    fn list_page(
        &self,
        after: Option<ListPosition>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<ListRow>, EngineError>> + Send;

    /// Up to `limit` list rows that changed since a cursor. A row that changed twice is given once.
    fn changes(
        &self,
        since: ChangeCursor,
        limit: u32,
    ) -> impl Future<Output = Result<ChangePage, EngineError>> + Send;
}

/// Rule for a session with a live run whose host is away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostLossPolicy {
    /// The session waits for its host.
    Wait,
    /// Another host takes the session over.
    TakeOver,
}

/// An agent's own identity of a dialogue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConversationRef {
    /// Kind of the agent.
    pub kind: RecordText,
    /// Id that the agent gave it.
    pub native_id: RecordText,
}

/// A property that one session of the fleet has at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionIdentity {
    /// Name that a user gave.
    Name(SafeName),
    /// Idempotency key of the command that made the session.
    Key(RecordText),
    /// Conversation that the session continues.
    Conversation(ConversationRef),
}

/// A session that a host owns, for the host that replicates it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedSession {
    /// Id of the session.
    pub session: SessionId,
    /// Term of the owner.
    pub term: Term,
    /// Number of the last event.
    pub last: EventNumber,
    /// Run that may be alive.
    pub live: Option<Epoch>,
}

/// A new session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Id of the session.
    pub session: SessionId,
    /// True if the host owns the session, under term 1; false for a session that waits for a host.
    pub owned: bool,
    /// Name that a user gave.
    pub name: Option<SafeName>,
    /// Idempotency key of the command that made the session.
    pub key: Option<RecordText>,
    /// Conversation that the session continues.
    pub conversation: Option<ConversationRef>,
    /// Labels that a host must have to claim it.
    pub wants: Vec<SafeName>,
    /// Rule for the loss of its host.
    pub on_host_loss: HostLossPolicy,
    /// Format of the events: a host that does not know it must not claim the session.
    pub event_format: u32,
    /// First events.
    pub events: Vec<RecordText>,
    /// Run that may be alive after these events.
    pub live: Option<Epoch>,
}

/// Answer to [`FleetEngine::create`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateAnswer {
    /// The session is recorded, by this call or by an earlier one with the same id and events.
    Created {
        /// Term of the owner, 0 without one.
        term: Term,
        /// Number of the last of the first events.
        last: EventNumber,
    },
    /// Another session has the name, key, conversation or id.
    Exists {
        /// The other session.
        session: SessionId,
        /// The first part that both have, in the order id, key, name, conversation.
        same: SharedIdentity,
    },
}

/// Part of a session's identity that is unique in the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SharedIdentity {
    /// The id, with other first events.
    Id,
    /// The idempotency key.
    Key,
    /// The name that a user gave.
    Name,
    /// The agent's dialogue that both continue.
    Conversation,
}

/// A post that an appended event accepts as a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenPost {
    /// Key of the post.
    pub key: RecordText,
    /// The event that accepts it.
    pub accepted_by: EventNumber,
}

/// Events to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Session that this is about.
    pub session: SessionId,
    /// Term under which the host owns the session.
    pub term: Term,
    /// Number of the last event before these.
    pub after: EventNumber,
    /// Bodies of the events, in order.
    pub events: Vec<RecordText>,
    /// Run that may be alive after these events.
    pub live: Option<Epoch>,
    /// Posts that these events accept.
    pub took: Vec<TakenPost>,
}

/// Answer to [`FleetEngine::append`] and [`FleetEngine::release`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppendAnswer {
    /// The events are recorded.
    Appended {
        /// Number of the last of them.
        last: EventNumber,
        /// Keys that were withdrawn or taken before: their turns must not be delivered.
        not_taken: Vec<RecordText>,
    },
    /// An earlier call recorded these events, or the first of them.
    AlreadyAppended {
        /// Number of the last of these events that is recorded. What is behind it must be appended again.
        last: EventNumber,
        /// Of the keys that events up to `last` accept, those that were withdrawn or taken before: their turns must not be
        /// delivered.
        not_taken: Vec<RecordText>,
    },
    /// The session has another owner or term. Nothing was recorded.
    Fenced {
        /// Term now.
        term: Term,
        /// Number of the last event.
        last: EventNumber,
    },
    /// The record ends before `after`: it went back in time. Nothing was recorded; append from its end on.
    Behind {
        /// Number of the last event.
        last: EventNumber,
    },
    /// Other events have these numbers under the same term: two writers share this host's identity.
    Diverged {
        /// Number of the last event.
        last: EventNumber,
    },
    /// The record does not have this session.
    NoSession,
}

/// Evidence that a host is away: its heartbeat as the claiming host saw it for the whole grace period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedHost {
    /// The owner of the session.
    pub host: HostId,
    /// Incarnation that was seen.
    pub incarnation: Incarnation,
    /// Its last heartbeat.
    pub heartbeat: HeartbeatCount,
}

/// A claim of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Session that this is about.
    pub session: SessionId,
    /// Term of the session as the host knows it.
    pub expected_term: Term,
    /// Body of the event that begins the new term. No two claims may have equal bodies.
    pub event: RecordText,
    /// Evidence about the owner; a session without an owner needs none.
    pub watched: Option<WatchedHost>,
}

/// Answer to [`FleetEngine::claim`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimAnswer {
    /// The host owns the session.
    Ours {
        /// The new term.
        term: Term,
        /// Number of the event that begins it.
        last: EventNumber,
    },
    /// The term is not the expected one: another host was first.
    Lost {
        /// Term now.
        term: Term,
        /// Owner now.
        owner: Option<HostId>,
    },
    /// The owner is not proven away, or its live run must be waited for.
    Held {
        /// Owner now.
        owner: HostId,
    },
    /// The record does not have this session.
    NoSession,
}

/// The last event of an ownership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReleaseRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Session that this is about.
    pub session: SessionId,
    /// Term under which the host owns the session.
    pub term: Term,
    /// Number of the last event before this one.
    pub after: EventNumber,
    /// Body of the event.
    pub event: RecordText,
}

/// A sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Incarnation that sends it.
    pub incarnation: Incarnation,
    /// Number of its slots in use.
    pub used_slots: u32,
}

/// A session that another host claimed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LostSession {
    /// Session that this is about.
    pub session: SessionId,
    /// Term that ended.
    pub term: Term,
}

/// Answer to [`FleetEngine::heartbeat`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeartbeatAnswer {
    /// The heartbeat is counted.
    Counted {
        /// Count with this heartbeat.
        heartbeat: HeartbeatCount,
        /// Sessions that other hosts claimed and whose loss was not acknowledged, in order.
        lost: Vec<LostSession>,
    },
    /// A newer incarnation of the host exists: this one must stop.
    Replaced,
}

/// A turn or an order for a session on any host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostRequest {
    /// The host that speaks.
    pub host: HostId,
    /// Session that this is about.
    pub session: SessionId,
    /// Idempotency key.
    pub key: RecordText,
    /// Kind of the post, for its reader.
    pub kind: RecordText,
    /// Content, for its reader.
    pub body: RecordText,
}

/// Answer to [`FleetEngine::post`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostAnswer {
    /// The post waits.
    Posted(PostNumber),
    /// An earlier call posted this key with this text.
    PostedBefore(PostNumber),
    /// An earlier call posted this key with another text.
    OtherText,
    /// As many posts wait as an inbox holds.
    InboxFull,
    /// The record does not have this session.
    NoSession,
}

/// Number of posts that may wait for one session. Concurrent posts may exceed it by a few.
pub const MAX_WAITING_POSTS: usize = 1000;

/// Answer to [`FleetEngine::withdraw`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithdrawAnswer {
    /// The post is withdrawn, by this call or an earlier one.
    Withdrawn,
    /// The session has accepted it.
    Taken {
        /// The event that accepts it.
        accepted_by: EventNumber,
    },
    /// The session has refused it.
    Refused,
    /// The inbox does not have this key.
    NoPost,
}

/// Answer to [`FleetEngine::publish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PublishAnswer {
    /// The list shows the row.
    Published,
    /// The host does not own the session under this term.
    Fenced,
}

/// A session, as the record has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRecord {
    /// Owner.
    pub host: Option<HostId>,
    /// Term of the owner, or of the last one.
    pub term: Term,
    /// Number of the last event.
    pub last: EventNumber,
    /// Run that may be alive.
    pub live: Option<Epoch>,
    /// Name that a user gave.
    pub name: Option<SafeName>,
    /// Rule for the loss of its host.
    pub on_host_loss: HostLossPolicy,
    /// Format of the events.
    pub event_format: u32,
}

/// An event, as the record has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedEvent {
    /// Number in its session.
    pub number: EventNumber,
    /// Term under which a host wrote it.
    pub term: Term,
    /// Opaque content.
    pub body: RecordText,
}

/// A post that no session has accepted yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingPost {
    /// Number in the inbox.
    pub number: PostNumber,
    /// The session that it is for.
    pub session: SessionId,
    /// Idempotency key.
    pub key: RecordText,
    /// Kind of the post, for its reader.
    pub kind: RecordText,
    /// Content, for its reader.
    pub body: RecordText,
}

/// A host, as the record has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostRecord {
    /// Its number.
    pub host: HostId,
    /// Name in the list of hosts.
    pub name: SafeName,
    /// The newest incarnation.
    pub incarnation: Incarnation,
    /// Count of its heartbeats.
    pub heartbeat: HeartbeatCount,
    /// Number of its slots in use.
    pub used_slots: u32,
}

/// A row of the list of sessions. Derived, for display and never for decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListRow {
    /// Session that this is about.
    pub session: SessionId,
    /// The host that owned the session when the row was published.
    pub host: HostId,
    /// Position of its state in the list: smaller comes first.
    pub rank: u32,
    /// Last activity on the clock of its host, in milliseconds since 1970.
    pub active_at_ms: u64,
    /// Opaque status for display.
    pub status: RecordText,
}

/// Position of a row in the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPosition {
    /// Rank of the row.
    pub rank: u32,
    /// Last activity of the row.
    pub active_at_ms: u64,
    /// Session of the row.
    pub session: SessionId,
}

impl ListRow {
    /// The position of this row: a page that begins behind it continues the list.
    pub fn position(&self) -> ListPosition {
        ListPosition { rank: self.rank, active_at_ms: self.active_at_ms, session: self.session.clone() }
    }
}

/// Place in the feed of changes. Opaque; the default is the beginning.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeCursor {
    /// Timeline of the server: on another one the numbers of transactions may be given again.
    pub(crate) timeline: u32,
    /// Transactions before this one were given.
    pub(crate) transaction: u64,
    /// Of this transaction, the sessions up to this one were given.
    pub(crate) session: Option<SessionId>,
}

/// Part of the feed of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangePage {
    /// Rows that changed.
    Rows {
        /// The rows, in no order that means anything.
        rows: Vec<ListRow>,
        /// Cursor for the next page.
        next: ChangeCursor,
        /// True if the next page has more rows already.
        more: bool,
    },
    /// Another server took over, or the record went back in time: read the whole list, and the feed from its beginning.
    StartOver,
}
