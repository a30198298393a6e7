//! How much one caller may have under way at once: requests, event streams, waits, and the forms of strangers.
//!
//! Promise: a caller at a limit loses its own oldest stream or wait to the new one, and is told why; it takes nothing
//! from others. One token alone can never fill the connections of its address. The owner at the local socket has no
//! limit here.
//! Not here: terminals (see `live::terminals`), connections (see `server::limits`).
//! Start with [`Quotas::stay`] and [`Quotas::request`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{Code, Problem};
use tokio_util::sync::CancellationToken;

use crate::auth::failures;
use crate::auth::leash::Leash;
use crate::caller::Caller;
use crate::counts::{Counted, Counts};
use crate::fault::Fault;
use crate::live::terminals::{Holder, holder};

/// The event streams of one token: one in so many of all connections, 512 of 4096.
const STREAM_SHARE: usize = 8;
/// The waits of one token: one in so many of all connections, 512 of 4096.
const WAIT_SHARE: usize = 8;
/// The requests of one token that are under way, in eighths of all connections: fewer than one address may have.
const REQUEST_EIGHTHS: usize = 3;
/// The requests of one address behind a trusted proxy: as many as an address that connects itself.
const ADDRESS_EIGHTHS: usize = 4;
/// The least value of each limit, for hosts where few files may be open.
const LEAST: usize = 4;
/// Bodies of unknown callers, all of them together. A real form fits into one packet.
const MOST_FORMS: usize = 16;
/// How long a stream that was closed may take to send its last event before its connection is cut.
const GRACE: Duration = Duration::from_secs(1);
/// When there may be room again, in seconds.
const RETRY_SECONDS: u64 = 5;

/// A request that lasts until its caller or the gateway ends it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Lasting {
    Stream,
    Wait,
    /// The body of a login.
    Form,
}

/// Whose requests a limit counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Whose {
    Caller(Holder),
    /// A client behind a trusted proxy.
    Address(IpAddr),
    Strangers,
}

/// What all callers have under way.
#[derive(Debug)]
pub(crate) struct Quotas {
    connections: usize,
    requests: Counts<Whose>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By number: the oldest comes first.
    lasting: HashMap<(Whose, Lasting), BTreeMap<u64, Sign>>,
}

/// The means to end a lasting request.
#[derive(Clone, Debug)]
struct Sign {
    /// Cancelled when the request has to end.
    closed: CancellationToken,
    /// Cancelled when the request has ended.
    done: CancellationToken,
    /// Cuts the connection of the request.
    leash: Option<Leash>,
}

impl Sign {
    /// Ends the request: by its own last event, or by cutting its connection if its client does not read.
    fn close(self) {
        self.closed.cancel();
        let Some(leash) = self.leash else { return };
        tokio::spawn(async move {
            if tokio::time::timeout(GRACE, self.done.cancelled()).await.is_err() {
                leash.cut();
            }
        });
    }
}

impl Quotas {
    /// For a gateway with so many connections.
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self { connections, requests: Counts::default(), open: Mutex::default() })
    }

    fn most(&self, what: Lasting) -> usize {
        match what {
            Lasting::Stream => (self.connections / STREAM_SHARE).max(LEAST),
            Lasting::Wait => (self.connections / WAIT_SHARE).max(LEAST),
            Lasting::Form => MOST_FORMS,
        }
    }

    /// Counts a request until the returned guard is dropped. `forwarded` is the client's address, if a trusted proxy
    /// names it.
    pub(crate) fn request(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        forwarded: Option<IpAddr>,
    ) -> Result<Arc<Underway>, Fault> {
        let caller = caller.and_then(holder).map(|holder| (Whose::Caller(holder), REQUEST_EIGHTHS));
        let address = forwarded.map(|ip| (Whose::Address(failures::place(ip)), ADDRESS_EIGHTHS));
        let counted = caller.into_iter().chain(address).map(|(whose, eighths)| {
            let most = (self.connections * eighths / 8).max(LEAST);
            let ends =
                || self.open().close_oldest(&whose).then(|| self.requests.enter(whose.clone(), usize::MAX));
            let who = if matches!(whose, Whose::Caller(_)) { "your token" } else { "your address" };
            self.requests
                .enter(whose.clone(), most)
                .or_else(|| ends().flatten())
                .ok_or_else(|| full(format!("{who} has {most} requests under way already")))
        });
        Ok(Arc::new(Underway { _counted: counted.collect::<Result<_, _>>()? }))
    }

    /// Makes room for a lasting request of this caller: at its limit, its oldest one of that kind is closed.
    pub(crate) fn stay(self: &Arc<Self>, caller: &Caller, what: Lasting, leash: Option<Leash>) -> Stay {
        self.enter(holder(caller).map(Whose::Caller), what, leash)
    }

    /// Makes room for the body of an unknown caller: at the limit the oldest such body is given up.
    pub(crate) fn form(self: &Arc<Self>) -> Stay {
        self.enter(Some(Whose::Strangers), Lasting::Form, None)
    }

    fn enter(self: &Arc<Self>, whose: Option<Whose>, what: Lasting, leash: Option<Leash>) -> Stay {
        let sign = Sign { closed: CancellationToken::new(), done: CancellationToken::new(), leash };
        let Some(whose) = whose else {
            return Stay { quotas: self.clone(), key: None, number: 0, sign, what };
        };
        let (key, most) = ((whose, what), self.most(what));
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
        Stay { quotas: self.clone(), key: Some(key), number, sign, what }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Closes the oldest stream of a caller, or else its oldest wait. Returns whether there was one.
    fn close_oldest(&mut self, whose: &Whose) -> bool {
        for what in [Lasting::Stream, Lasting::Wait] {
            let all = self.lasting.get_mut(&(whose.clone(), what));
            if let Some((_, oldest)) = all.and_then(BTreeMap::pop_first) {
                oldest.close();
                return true;
            }
        }
        false
    }
}

fn full(what: String) -> Fault {
    let hint = "end some, or ask again later; nothing was done";
    Fault::from(Problem::new(Code::Full, what).hint(hint)).retry_after(RETRY_SECONDS)
}

/// A request that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Underway {
    _counted: Vec<Counted<Whose>>,
}

/// A lasting request that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Stay {
    quotas: Arc<Quotas>,
    key: Option<(Whose, Lasting)>,
    number: u64,
    sign: Sign,
    what: Lasting,
}

impl Stay {
    /// Cancelled when the request has to end.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.sign.closed
    }

    /// The problem for the client of a request that was closed.
    pub(crate) fn why(&self) -> Fault {
        let most = self.quotas.most(self.what);
        full(match self.what {
            Lasting::Stream => format!("your token has {most} newer event streams open; this was its oldest"),
            Lasting::Wait => {
                format!(
                    "your token has {most} newer waits under way; this was its oldest. What was begun goes on"
                )
            }
            Lasting::Form => format!("{most} newer logins came in before the form of this one"),
        })
    }

    /// Waits for the answer, and fails if the request has to end before it is there.
    pub(crate) async fn or_closed<T>(
        &self,
        answer: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.sign.closed.cancelled() => Err(self.why()),
        }
    }
}

impl Drop for Stay {
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
    use berth_api::Scope;
    use berth_core::SessionId;

    use super::*;

    fn agent(id: &str) -> Caller {
        let agent = SessionId::parse(id);
        assert!(agent.is_some(), "{id}");
        Caller { place: String::new(), scope: Scope::Read, sessions: None, agent, also: vec![], pass: None }
    }

    #[tokio::test]
    async fn the_oldest_stream_of_a_caller_makes_room_for_its_next_and_others_keep_theirs() {
        let quotas = Quotas::new(64);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let stay = |caller: &Caller| quotas.stay(caller, Lasting::Stream, None);
        let theirs = stay(&two);
        let mut streams: Vec<Stay> = (0..8).map(|_| stay(&one)).collect();
        assert!(streams.iter().all(|stream| !stream.closed().is_cancelled()));
        let wait = quotas.stay(&one, Lasting::Wait, None);
        streams.push(stay(&one));
        let closed: Vec<bool> = streams.iter().map(|stream| stream.closed().is_cancelled()).collect();
        assert_eq!(closed.iter().position(|closed| *closed), Some(0));
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(!theirs.closed().is_cancelled() && !wait.closed().is_cancelled());
        let refused = streams[0].or_closed(std::future::pending::<Result<(), Fault>>()).await;
        assert_eq!(refused.expect_err("it is closed").problem.code, Code::Full);
        drop((streams, theirs, wait));
        assert!(quotas.open().lasting.is_empty(), "what is over is forgotten");
    }

    #[tokio::test]
    async fn a_caller_with_too_many_requests_is_refused_unless_a_stream_of_its_own_can_end() {
        let quotas = Quotas::new(64);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let ask = |caller: &Caller| quotas.request(Some(caller), None);
        let underway: Vec<_> = (0..99).map_while(|_| ask(&one).ok()).collect();
        assert_eq!(underway.len(), 24);
        assert!(ask(&two).is_ok());
        let stream = quotas.stay(&one, Lasting::Stream, None);
        let more = ask(&one).expect("the stream makes room");
        assert!(stream.closed().is_cancelled());
        assert_eq!(ask(&one).expect_err("nothing can end").problem.code, Code::Full);
        drop((underway, more));
        assert!(quotas.requests.is_empty());
    }

    #[test]
    fn the_owner_at_the_local_socket_has_no_limit() {
        let quotas = Quotas::new(8);
        let owner = Caller { agent: None, ..agent("aaaaaaaaaaaa") };
        let streams: Vec<Stay> = (0..99).map(|_| quotas.stay(&owner, Lasting::Stream, None)).collect();
        assert!(streams.iter().all(|stream| !stream.closed().is_cancelled()));
        assert!((0..99).map(|_| quotas.request(Some(&owner), None)).all(|request| request.is_ok()));
    }
}
