//! Limits on concurrent requests of one caller: requests, event streams, waits, and login forms.
//!
//! Promise: at its limit a caller loses its own oldest stream or wait to the new one, and is told the reason; other
//! callers lose nothing. One token alone can never fill the connections of its address. The owner at the local socket
//! has no limit here.
//! Not here: terminals (see `live::terminals`), connections (see `server::limits`).
//! Start with [`RequestQuotas::stay`] and [`RequestQuotas::request`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::Problem;
use tokio_util::sync::CancellationToken;

use crate::auth::failures;
use crate::auth::revocation::RevocationHandle;
use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::key_counts::{CountGuard, KeyCounts};
use crate::live::terminal_limits::{QuotaOwner, holder};

/// Divisor for the event streams of one token: one in so many of all connections, 512 of 4096.
const STREAM_SHARE: usize = 8;
/// Divisor for the waits of one token: one in so many of all connections, 512 of 4096.
const WAIT_SHARE: usize = 8;
/// Concurrent requests of one token, in eighths of all connections: fewer than one address may have.
const REQUEST_EIGHTHS: usize = 3;
/// Concurrent requests of one address behind a trusted proxy: as many as an address that connects directly.
const ADDRESS_EIGHTHS: usize = 4;
/// Smallest value of each limit, for hosts where few files may be open.
const LEAST: usize = 4;
/// Number of concurrent login forms of unknown callers, all of them together. A real form fits into one packet.
const MOST_FORMS: usize = 16;
/// Time for a closed stream to send its last event before its connection is cut.
const GRACE: Duration = Duration::from_secs(1);
/// Time after which there may be room again, in seconds.
const RETRY_SECONDS: u64 = 5;

/// A request that lasts until its caller or the gateway ends it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LastingKind {
    Stream,
    Wait,
    /// The body of a login.
    Form,
}

/// Owner of the requests that a limit counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum QuotaKey {
    Caller(QuotaOwner),
    /// A client behind a trusted proxy.
    Address(IpAddr),
    Strangers,
}

/// Concurrent requests of all callers.
#[derive(Debug)]
pub(crate) struct RequestQuotas {
    connections: usize,
    requests: KeyCounts<QuotaKey>,
    open: Mutex<OpenRequests>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    next: u64,
    /// Lasting requests by number, so the oldest comes first.
    lasting: HashMap<(QuotaKey, LastingKind), BTreeMap<u64, RequestCloser>>,
}

/// The means to end a lasting request.
#[derive(Clone, Debug)]
struct RequestCloser {
    /// Cancelled when the request has to end.
    closed: CancellationToken,
    /// Cancelled when the request has ended.
    done: CancellationToken,
    /// Cuts the connection of the request.
    revocation: Option<RevocationHandle>,
}

impl RequestCloser {
    /// Ends the request: by its own last event, or by cutting its connection if its client does not read.
    fn close(self) {
        self.closed.cancel();
        let Some(revocation) = self.revocation else { return };
        tokio::spawn(async move {
            if tokio::time::timeout(GRACE, self.done.cancelled()).await.is_err() {
                revocation.cut();
            }
        });
    }
}

impl RequestQuotas {
    /// Makes the limits for a gateway with this number of connections.
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self { connections, requests: KeyCounts::default(), open: Mutex::default() })
    }

    fn limit(&self, what: LastingKind) -> usize {
        match what {
            LastingKind::Stream => (self.connections / STREAM_SHARE).max(LEAST),
            LastingKind::Wait => (self.connections / WAIT_SHARE).max(LEAST),
            LastingKind::Form => MOST_FORMS,
        }
    }

    /// Counts a request until the returned guard is dropped. `forwarded` is the client's address, if a trusted proxy
    /// names it.
    pub(crate) fn request(
        self: &Arc<Self>,
        caller: Option<&RequestCaller>,
        forwarded: Option<IpAddr>,
    ) -> Result<Arc<RequestPermit>, HttpProblem> {
        let caller = caller.and_then(holder).map(|holder| (QuotaKey::Caller(holder), REQUEST_EIGHTHS));
        let address = forwarded.map(|ip| (QuotaKey::Address(failures::place(ip)), ADDRESS_EIGHTHS));
        let counted = caller.into_iter().chain(address).map(|(whose, eighths)| {
            let most = (self.connections * eighths / 8).max(LEAST);
            let ends =
                || self.open().close_oldest(&whose).then(|| self.requests.enter(whose.clone(), usize::MAX));
            let who = if matches!(whose, QuotaKey::Caller(_)) { "your token" } else { "your address" };
            self.requests
                .enter(whose.clone(), most)
                .or_else(|| ends().flatten())
                .ok_or_else(|| full(format!("{who} has {most} requests under way already")))
        });
        Ok(Arc::new(RequestPermit { _counted: counted.collect::<Result<_, _>>()? }))
    }

    /// Makes room for a lasting request of this caller: at its limit, its oldest one of that kind is closed.
    pub(crate) fn stay(
        self: &Arc<Self>,
        caller: &RequestCaller,
        what: LastingKind,
        revocation: Option<RevocationHandle>,
    ) -> LastingPermit {
        self.enter(holder(caller).map(QuotaKey::Caller), what, revocation)
    }

    /// Makes room for the body of an unknown caller: at the limit the oldest such body is given up.
    pub(crate) fn form(self: &Arc<Self>) -> LastingPermit {
        self.enter(Some(QuotaKey::Strangers), LastingKind::Form, None)
    }

    fn enter(
        self: &Arc<Self>,
        whose: Option<QuotaKey>,
        what: LastingKind,
        revocation: Option<RevocationHandle>,
    ) -> LastingPermit {
        let sign =
            RequestCloser { closed: CancellationToken::new(), done: CancellationToken::new(), revocation };
        let Some(whose) = whose else {
            return LastingPermit { quotas: self.clone(), key: None, number: 0, sign, what };
        };
        let (key, most) = ((whose, what), self.limit(what));
        let mut open = self.open();
        open.next += 1;
        let number = open.next;
        let all = open.lasting.entry(key.clone()).or_default();
        let oldest = if all.len() >= most { all.pop_first() } else { None };
        all.insert(number, sign.clone());
        drop(open);
        if let Some((_, oldest)) = oldest {
            oldest.close();
        }
        LastingPermit { quotas: self.clone(), key: Some(key), number, sign, what }
    }

    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenRequests {
    /// Closes the oldest stream of a caller, or else its oldest wait. Returns whether there was one.
    fn close_oldest(&mut self, whose: &QuotaKey) -> bool {
        for what in [LastingKind::Stream, LastingKind::Wait] {
            let all = self.lasting.get_mut(&(whose.clone(), what));
            if let Some((_, oldest)) = all.and_then(BTreeMap::pop_first) {
                oldest.close();
                return true;
            }
        }
        false
    }
}

fn full(what: String) -> HttpProblem {
    let hint = "end some of them, or ask again later; nothing was done";
    HttpProblem::from(Problem::full(what).hint(hint)).retry_after(RETRY_SECONDS)
}

/// A request that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    _counted: Vec<CountGuard<QuotaKey>>,
}

/// A lasting request that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct LastingPermit {
    quotas: Arc<RequestQuotas>,
    key: Option<(QuotaKey, LastingKind)>,
    number: u64,
    sign: RequestCloser,
    what: LastingKind,
}

impl LastingPermit {
    /// Cancelled when the request has to end.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.sign.closed
    }

    /// The problem for the client of a request that was closed.
    pub(crate) fn close_problem(&self) -> HttpProblem {
        let most = self.quotas.limit(self.what);
        full(match self.what {
            LastingKind::Stream => {
                format!("closed: your token has more than {most} event streams, and this was the oldest")
            }
            LastingKind::Wait => {
                format!(
                    "closed: your token has more than {most} waits, and this was the oldest; work that had started continues"
                )
            }
            LastingKind::Form => {
                format!("the login form arrived too slowly: {most} newer logins took its place")
            }
        })
    }

    /// Waits for the answer, and fails if the request has to end before it is there.
    pub(crate) async fn or_closed<T>(
        &self,
        answer: impl Future<Output = Result<T, HttpProblem>>,
    ) -> Result<T, HttpProblem> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.sign.closed.cancelled() => Err(self.close_problem()),
        }
    }
}

impl Drop for LastingPermit {
    fn drop(&mut self) {
        self.sign.done.cancel();
        let Some(key) = self.key.take() else { return };
        let mut open = self.quotas.open();
        if let Some(all) = open.lasting.get_mut(&key) {
            all.remove(&self.number);
            if all.is_empty() {
                open.lasting.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::{AccessScope, ProblemCode};
    use berth_core::SessionId;

    use super::*;

    fn agent(id: &str) -> RequestCaller {
        let agent = SessionId::parse(id);
        assert!(agent.is_some(), "{id}");
        RequestCaller {
            place: String::new(),
            scope: AccessScope::Read,
            sessions: None,
            agent,
            also: vec![],
            pass: None,
        }
    }

    #[tokio::test]
    async fn the_oldest_stream_of_a_caller_makes_room_for_its_next_and_others_keep_theirs() {
        let quotas = RequestQuotas::new(64);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let stay = |caller: &RequestCaller| quotas.stay(caller, LastingKind::Stream, None);
        let theirs = stay(&two);
        let mut streams: Vec<LastingPermit> = (0..8).map(|_| stay(&one)).collect();
        assert!(streams.iter().all(|stream| !stream.closed().is_cancelled()));
        let wait = quotas.stay(&one, LastingKind::Wait, None);
        streams.push(stay(&one));
        let closed: Vec<bool> = streams.iter().map(|stream| stream.closed().is_cancelled()).collect();
        assert_eq!(closed.iter().position(|closed| *closed), Some(0));
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(!theirs.closed().is_cancelled() && !wait.closed().is_cancelled());
        let refused = streams[0].or_closed(std::future::pending::<Result<(), HttpProblem>>()).await;
        assert_eq!(refused.expect_err("it is closed").problem.code, ProblemCode::Full);
        drop((streams, theirs, wait));
        assert!(quotas.open().lasting.is_empty(), "what is over is forgotten");
    }

    #[tokio::test]
    async fn a_caller_with_too_many_requests_is_refused_unless_a_stream_of_its_own_can_end() {
        let quotas = RequestQuotas::new(64);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let ask = |caller: &RequestCaller| quotas.request(Some(caller), None);
        let underway: Vec<_> = (0..99).map_while(|_| ask(&one).ok()).collect();
        assert_eq!(underway.len(), 24);
        assert!(ask(&two).is_ok());
        let stream = quotas.stay(&one, LastingKind::Stream, None);
        let more = ask(&one).expect("the stream makes room");
        assert!(stream.closed().is_cancelled());
        assert_eq!(ask(&one).expect_err("nothing can end").problem.code, ProblemCode::Full);
        drop((underway, more));
        assert!(quotas.requests.is_empty());
    }

    #[test]
    fn the_owner_at_the_local_socket_has_no_limit() {
        let quotas = RequestQuotas::new(8);
        let owner = RequestCaller { agent: None, ..agent("aaaaaaaaaaaa") };
        let streams: Vec<LastingPermit> =
            (0..99).map(|_| quotas.stay(&owner, LastingKind::Stream, None)).collect();
        assert!(streams.iter().all(|stream| !stream.closed().is_cancelled()));
        assert!((0..99).map(|_| quotas.request(Some(&owner), None)).all(|request| request.is_ok()));
    }
}
