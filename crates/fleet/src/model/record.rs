//! The rules of the record, as values: what the functions of the database do, one call at a time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_core::{Epoch, SafeName, SessionId};

use crate::engine::{
    AppendAnswer, AppendRequest, ChangeCursor, ChangePage, ClaimAnswer, ClaimRequest, ConversationRef,
    CreateAnswer, CreateRequest, HeartbeatAnswer, HeartbeatRequest, HostLossPolicy, HostRecord, ListPosition,
    ListRow, LostSession, MAX_WAITING_POSTS, OwnedSession, PostAnswer, PostRequest, PublishAnswer,
    RecordedEvent, ReleaseRequest, SessionIdentity, SessionRecord, SharedIdentity, TakenPost, WaitingPost,
    WatchedHost, WithdrawAnswer,
};
use crate::{EventNumber, HeartbeatCount, HostId, Incarnation, PostNumber, RecordText, Term};

/// The content of one modelled server.
#[derive(Clone, Default)]
pub(super) struct ModelRecord {
    hosts: BTreeMap<HostId, ModelHost>,
    sessions: BTreeMap<SessionId, ModelSession>,
    posts: BTreeMap<(SessionId, RecordText), ModelPost>,
    posted: u64,
    losses: Vec<(HostId, LostSession)>,
    list: BTreeMap<SessionId, (u64, ListRow)>,
    /// Number of the last transaction that changed the list.
    changed: u64,
    audit: Vec<(HostId, &'static str)>,
}

#[derive(Clone)]
struct ModelHost {
    name: SafeName,
    incarnation: Incarnation,
    heartbeat: HeartbeatCount,
    used_slots: u32,
}

#[derive(Clone)]
struct ModelSession {
    host: Option<HostId>,
    term: Term,
    last: EventNumber,
    live: Option<Epoch>,
    name: Option<SafeName>,
    key: Option<RecordText>,
    conversation: Option<ConversationRef>,
    on_host_loss: HostLossPolicy,
    event_format: u32,
    events: Vec<RecordedEvent>,
}

#[derive(Clone)]
struct ModelPost {
    number: PostNumber,
    kind: RecordText,
    body: RecordText,
    state: PostState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PostState {
    Waiting,
    Taken(EventNumber),
    Withdrawn,
}

impl ModelSession {
    fn push(&mut self, term: Term, body: RecordText) {
        self.last = self.last.plus(1);
        self.events.push(RecordedEvent { number: self.last, term, body });
    }

    /// True if these events are recorded behind `after` under this term, as far as the record goes.
    fn has(&self, term: Term, after: EventNumber, bodies: &[RecordText]) -> bool {
        let recorded = self.events.iter().filter(|event| event.number > after);
        recorded.zip(bodies).all(|(event, body)| event.term == term && event.body == *body)
    }

    fn record(&self) -> SessionRecord {
        SessionRecord {
            host: self.host,
            term: self.term,
            last: self.last,
            live: self.live,
            name: self.name.clone(),
            on_host_loss: self.on_host_loss,
            event_format: self.event_format,
        }
    }
}

impl ModelRecord {
    pub(super) fn admit(&mut self, host: HostId, name: SafeName) {
        let (incarnation, heartbeat) = (Incarnation(0), HeartbeatCount(0));
        self.hosts.insert(host, ModelHost { name, incarnation, heartbeat, used_slots: 0 });
    }

    pub(super) fn audit(&mut self, host: HostId, call: &'static str) {
        self.audit.push((host, call));
    }

    pub(super) fn create(&mut self, request: CreateRequest) -> CreateAnswer {
        let last = EventNumber(request.events.len() as u64);
        let (host, term) = if request.owned { (Some(request.host), Term(1)) } else { (None, Term(0)) };
        if let Some(there) = self.sessions.get(&request.session) {
            let is_this = there.last >= last && there.has(term, EventNumber(0), &request.events);
            let same = SharedIdentity::Id;
            return if is_this {
                CreateAnswer::Created { term, last }
            } else {
                CreateAnswer::Exists { session: request.session, same }
            };
        }
        type Part = (SharedIdentity, fn(&ModelSession, &CreateRequest) -> bool);
        let parts: [Part; 3] = [
            (SharedIdentity::Key, |there, new| there.key.is_some() && there.key == new.key),
            (SharedIdentity::Name, |there, new| there.name.is_some() && there.name == new.name),
            (SharedIdentity::Conversation, |there, new| {
                there.conversation.is_some() && there.conversation == new.conversation
            }),
        ];
        for (same, is_same) in parts {
            if let Some((id, _)) = self.sessions.iter().find(|(_, there)| is_same(there, &request)) {
                return CreateAnswer::Exists { session: id.clone(), same };
            }
        }
        let mut session = ModelSession {
            host,
            term,
            last: EventNumber(0),
            live: request.live,
            name: request.name,
            key: request.key,
            conversation: request.conversation,
            on_host_loss: request.on_host_loss,
            event_format: request.event_format,
            events: Vec::new(),
        };
        request.events.into_iter().for_each(|body| session.push(term, body));
        self.sessions.insert(request.session, session);
        CreateAnswer::Created { term, last }
    }

    /// True if the append fits owner, term and end of the record.
    pub(super) fn is_at(&self, request: &AppendRequest) -> bool {
        self.sessions.get(&request.session).is_some_and(|session| {
            session.host == Some(request.host)
                && session.term == request.term
                && session.last == request.after
        })
    }

    pub(super) fn append(&mut self, request: AppendRequest) -> AppendAnswer {
        if self.is_at(&request) {
            return self.insert(request);
        }
        let Some(session) = self.sessions.get(&request.session) else { return AppendAnswer::NoSession };
        let last = session.last;
        if session.host != Some(request.host) || session.term != request.term {
            AppendAnswer::Fenced { term: session.term, last }
        } else if last < request.after {
            AppendAnswer::Behind { last }
        } else if session.has(request.term, request.after, &request.events) {
            let last = last.min(request.after.plus(request.events.len()));
            AppendAnswer::AlreadyAppended {
                last,
                not_taken: self.not_taken(&request.session, &request.took, last),
            }
        } else {
            AppendAnswer::Diverged { last }
        }
    }

    fn insert(&mut self, request: AppendRequest) -> AppendAnswer {
        let Some(session) = self.sessions.get_mut(&request.session) else { return AppendAnswer::NoSession };
        session.live = request.live;
        request.events.into_iter().for_each(|body| session.push(request.term, body));
        let last = session.last;
        for taken in &request.took {
            let post = self.posts.get_mut(&(request.session.clone(), taken.key.clone()));
            if let Some(post) = post.filter(|post| post.state == PostState::Waiting) {
                post.state = PostState::Taken(taken.accepted_by);
            }
        }
        let not_taken = self.not_taken(&request.session, &request.took, last);
        AppendAnswer::Appended { last, not_taken }
    }

    /// Of the keys that events up to `recorded` accept, those that other events took or that no event may take.
    fn not_taken(&self, session: &SessionId, took: &[TakenPost], recorded: EventNumber) -> Vec<RecordText> {
        let is_taken = |taken: &&TakenPost| {
            let post = self.posts.get(&(session.clone(), taken.key.clone()));
            post.is_some_and(|post| post.state == PostState::Taken(taken.accepted_by))
        };
        let due = took.iter().filter(|taken| taken.accepted_by <= recorded);
        due.filter(|taken| !is_taken(taken)).map(|taken| taken.key.clone()).collect()
    }

    /// The planted bug `LookingFence`: events get the numbers that were free when the append was looked at.
    pub(super) fn insert_unfenced(&mut self, request: AppendRequest) -> AppendAnswer {
        let Some(session) = self.sessions.get_mut(&request.session) else { return AppendAnswer::NoSession };
        let mut number = request.after;
        for body in request.events {
            number = number.plus(1);
            session.events.push(RecordedEvent { number, term: request.term, body });
        }
        session.last = session.last.max(number);
        AppendAnswer::Appended { last: number, not_taken: Vec::new() }
    }

    /// The planted bug `NoIdempotence`: what does not fit the end of the record is added there.
    pub(super) fn append_again(&mut self, mut request: AppendRequest) -> AppendAnswer {
        if let Some(session) = self.sessions.get(&request.session)
            && session.term == request.term
        {
            request.after = session.last;
        }
        self.append(request)
    }

    pub(super) fn claim(&mut self, request: ClaimRequest) -> ClaimAnswer {
        let Some(session) = self.sessions.get(&request.session) else { return ClaimAnswer::NoSession };
        let (term, owner) = (session.term, session.host);
        if term == request.expected_term.next() && owner == Some(request.host) {
            let begin = session.events.iter().find(|event| event.term == term);
            if let Some(begin) = begin.filter(|event| event.body == request.event) {
                return ClaimAnswer::Ours { term, last: begin.number };
            }
        }
        if term != request.expected_term {
            return ClaimAnswer::Lost { term, owner };
        }
        if let Some(owner) = owner.filter(|owner| *owner != request.host) {
            let may_wait = session.live.is_some() && session.on_host_loss == HostLossPolicy::Wait;
            if may_wait || !request.watched.is_some_and(|watched| self.is_still(owner, watched)) {
                return ClaimAnswer::Held { owner };
            }
            self.losses.push((owner, LostSession { session: request.session.clone(), term }));
        }
        let session = self.sessions.get_mut(&request.session).expect("found above");
        session.host = Some(request.host);
        session.term = term.next();
        // A host that claims its own session may have a run of it.
        session.live = session.live.filter(|_| owner == Some(request.host));
        session.push(term.next(), request.event);
        ClaimAnswer::Ours { term: term.next(), last: session.last }
    }

    /// True if the owner's heartbeat is where the claiming host saw it.
    fn is_still(&self, owner: HostId, watched: WatchedHost) -> bool {
        self.hosts.get(&owner).is_some_and(|host| {
            watched.host == owner
                && watched.incarnation == host.incarnation
                && watched.heartbeat == host.heartbeat
        })
    }

    pub(super) fn release(&mut self, request: ReleaseRequest) -> AppendAnswer {
        let Some(session) = self.sessions.get_mut(&request.session) else { return AppendAnswer::NoSession };
        let (term, last) = (session.term, session.last);
        let none = Vec::new();
        if term == request.term && session.host.is_none() && last == request.after.plus(1) {
            let bodies = [request.event];
            return if session.has(term, request.after, &bodies) {
                AppendAnswer::AlreadyAppended { last, not_taken: none }
            } else {
                AppendAnswer::Fenced { term, last }
            };
        }
        if term != request.term || session.host != Some(request.host) {
            AppendAnswer::Fenced { term, last }
        } else if last < request.after {
            AppendAnswer::Behind { last }
        } else if last > request.after {
            AppendAnswer::Diverged { last }
        } else {
            session.push(term, request.event);
            session.host = None;
            session.live = None;
            AppendAnswer::Appended { last: session.last, not_taken: none }
        }
    }

    pub(super) fn begin_incarnation(&mut self, host: HostId) -> Incarnation {
        let host = self.hosts.get_mut(&host).expect("the simulation admits hosts first");
        host.incarnation = Incarnation(host.incarnation.0 + 1);
        host.incarnation
    }

    pub(super) fn heartbeat(&mut self, request: HeartbeatRequest) -> HeartbeatAnswer {
        let host = self.hosts.get_mut(&request.host).expect("the simulation admits hosts first");
        if host.incarnation != request.incarnation {
            return HeartbeatAnswer::Replaced;
        }
        host.heartbeat = HeartbeatCount(host.heartbeat.0 + 1);
        host.used_slots = request.used_slots;
        let losses = self.losses.iter().filter(|(host, _)| *host == request.host);
        let mut lost: Vec<LostSession> = losses.map(|(_, lost)| lost.clone()).collect();
        lost.sort();
        HeartbeatAnswer::Counted { heartbeat: host.heartbeat, lost }
    }

    pub(super) fn acknowledge_loss(&mut self, host: HostId, lost: &LostSession) {
        self.losses.retain(|(loser, known)| *loser != host || known != lost);
    }

    pub(super) fn post(&mut self, request: PostRequest) -> PostAnswer {
        if !self.sessions.contains_key(&request.session) {
            return PostAnswer::NoSession;
        }
        let place = (request.session.clone(), request.key);
        if let Some(post) = self.posts.get(&place) {
            let is_this = post.kind == request.kind && post.body == request.body;
            return if is_this { PostAnswer::PostedBefore(post.number) } else { PostAnswer::OtherText };
        }
        let waiting = self
            .posts
            .iter()
            .filter(|((id, _), post)| *id == request.session && post.state == PostState::Waiting);
        if waiting.count() >= MAX_WAITING_POSTS {
            return PostAnswer::InboxFull;
        }
        self.posted += 1;
        let number = PostNumber(self.posted);
        let (kind, body, state) = (request.kind, request.body, PostState::Waiting);
        self.posts.insert(place, ModelPost { number, kind, body, state });
        PostAnswer::Posted(number)
    }

    pub(super) fn withdraw(&mut self, session: &SessionId, key: &RecordText) -> WithdrawAnswer {
        let Some(post) = self.posts.get_mut(&(session.clone(), key.clone())) else {
            return WithdrawAnswer::NoPost;
        };
        match post.state {
            PostState::Waiting | PostState::Withdrawn => {
                post.state = PostState::Withdrawn;
                WithdrawAnswer::Withdrawn
            }
            PostState::Taken(accepted_by) => WithdrawAnswer::Taken { accepted_by },
        }
    }

    pub(super) fn publish(&mut self, term: Term, row: ListRow) -> PublishAnswer {
        let session = self.sessions.get(&row.session);
        if !session.is_some_and(|session| session.host == Some(row.host) && session.term == term) {
            return PublishAnswer::Fenced;
        }
        self.changed += 1;
        self.list.insert(row.session.clone(), (self.changed, row));
        PublishAnswer::Published
    }

    pub(super) fn session(&self, session: &SessionId) -> Option<SessionRecord> {
        self.sessions.get(session).map(ModelSession::record)
    }

    pub(super) fn find(&self, identity: &SessionIdentity) -> Option<SessionId> {
        let is_it = |session: &ModelSession| match identity {
            SessionIdentity::Name(name) => session.name.as_ref() == Some(name),
            SessionIdentity::Key(key) => session.key.as_ref() == Some(key),
            SessionIdentity::Conversation(conversation) => {
                session.conversation.as_ref() == Some(conversation)
            }
        };
        self.sessions.iter().find(|(_, session)| is_it(session)).map(|(id, _)| id.clone())
    }

    pub(super) fn owned_sessions(
        &self,
        host: HostId,
        after: Option<&SessionId>,
        limit: u32,
    ) -> Vec<OwnedSession> {
        let is_owned = |(id, session): &(&SessionId, &ModelSession)| {
            session.host == Some(host) && after.is_none_or(|after| *id > after)
        };
        let owned = |(id, session): (&SessionId, &ModelSession)| OwnedSession {
            session: id.clone(),
            term: session.term,
            last: session.last,
            live: session.live,
        };
        self.sessions.iter().filter(is_owned).take(limit as usize).map(owned).collect()
    }

    pub(super) fn events(&self, session: &SessionId, from: EventNumber, limit: u32) -> Vec<RecordedEvent> {
        let session = self.sessions.get(session);
        let events = session.into_iter().flat_map(|session| &session.events);
        events.filter(|event| event.number >= from).take(limit as usize).cloned().collect()
    }

    pub(super) fn inbox(&self, host: HostId, after: PostNumber, limit: u32) -> Vec<WaitingPost> {
        let is_of_host =
            |id: &SessionId| self.sessions.get(id).is_some_and(|session| session.host == Some(host));
        let waiting = self.posts.iter().filter(|((id, _), post)| {
            post.state == PostState::Waiting && post.number > after && is_of_host(id)
        });
        let mut posts: Vec<WaitingPost> = waiting
            .map(|((session, key), post)| WaitingPost {
                number: post.number,
                session: session.clone(),
                key: key.clone(),
                kind: post.kind.clone(),
                body: post.body.clone(),
            })
            .collect();
        posts.sort_by_key(|post| post.number);
        posts.truncate(limit as usize);
        posts
    }

    pub(super) fn hosts(&self) -> Vec<HostRecord> {
        let record = |(id, host): (&HostId, &ModelHost)| HostRecord {
            host: *id,
            name: host.name.clone(),
            incarnation: host.incarnation,
            heartbeat: host.heartbeat,
            used_slots: host.used_slots,
        };
        self.hosts.iter().map(record).collect()
    }

    pub(super) fn list_page(&self, after: Option<&ListPosition>, limit: u32) -> Vec<ListRow> {
        let place = |at: &ListPosition| (at.rank, Reverse(at.active_at_ms), at.session.clone());
        let mut rows: Vec<ListRow> = self.list.values().map(|(_, row)| row.clone()).collect();
        rows.sort_by_key(|row| place(&row.position()));
        let is_behind = |row: &ListRow| after.is_none_or(|after| place(&row.position()) > place(after));
        rows.into_iter().filter(is_behind).take(limit as usize).collect()
    }

    pub(super) fn changes(&self, timeline: u32, since: &ChangeCursor, limit: u32) -> ChangePage {
        let is_begin = *since == ChangeCursor::default();
        if !is_begin && (since.timeline != timeline || since.transaction > self.changed + 1) {
            return ChangePage::StartOver;
        }
        let place = |(changed, row): &&(u64, ListRow)| (*changed, Some(row.session.clone()));
        let start = (since.transaction, since.session.clone());
        let mut found: Vec<&(u64, ListRow)> = self.list.values().filter(|row| place(row) > start).collect();
        found.sort_by_key(place);
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = match found.last().filter(|_| more) {
            Some((transaction, row)) => {
                ChangeCursor { timeline, transaction: *transaction, session: Some(row.session.clone()) }
            }
            None => ChangeCursor { timeline, transaction: self.changed + 1, session: None },
        };
        ChangePage::Rows { rows: found.into_iter().map(|(_, row)| row.clone()).collect(), next, more }
    }
}
