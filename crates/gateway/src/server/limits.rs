//! How many may be connected, and who goes when there is no room.
//!
//! Promise: who does nothing never keeps out who wants something. At a limit the connection that has been without a
//! request for longest is closed; only if everybody is being served is somebody refused. A caller that is not known is
//! not served in that sense: its connection can be closed until its request has been answered. However many known
//! callers are served, some room is left for whoever comes by the local socket.
//! Start with [`Connections::enter`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_host::clock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::auth::{Peer, failures, proxies::Proxies};
use crate::metrics::Metrics;

/// How many may be connected at once, if the limit of open files allows it.
const MAX_CONNECTIONS: usize = 4096;
/// One of so many is for the local socket alone.
const LOCAL_SHARE: usize = 16;
/// How many of these from one network address (IPv6: one /64).
pub(super) const MAX_CONNECTIONS_PER_PEER: usize = 2048;
/// Files that are not connections: journals, sockets of keepers.
const OTHER_FILES: u64 = 2048;

/// How long a client may take for the head of a request; and so how long a connection is kept after an answer.
pub(super) const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take for TLS before the first request.
pub(super) const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take nothing of what it is sent.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// The longest head of a request, and how much of an answer waits for the client in this process.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How much is taken, and not looked at, of who speaks HTTP where TLS is: a whole request.
pub(super) const MAX_UNREAD_BYTES: u64 = 4 << 20;
/// How long nobody is accepted after that failed, for want of files.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How patient to be with a client; tests are less so.
pub(super) fn patience(usually: Duration) -> Duration {
    berth_store::killpoint::patience(crate::http::body::PATIENCE_VARIABLE, usually)
}

/// Raises the limit of open files as far as it is needed; how many connections that allows.
pub(crate) fn from_files() -> usize {
    let wanted = MAX_CONNECTIONS as u64 + OTHER_FILES;
    let files = berth_host::files::raise(wanted).unwrap_or(1024);
    let room = if files >= wanted { MAX_CONNECTIONS as u64 } else { files / 2 };
    usize::try_from(room).unwrap_or(MAX_CONNECTIONS).clamp(16, MAX_CONNECTIONS)
}

/// Everybody who is connected.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: Mutex<Open>,
    changed: Notify,
    metrics: Arc<Metrics>,
    /// The gateway ends.
    ending: CancellationToken,
    /// Trusted proxies: many clients come from one such address.
    proxies: Proxies,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Seat>>,
    per_peer: HashMap<IpAddr, usize>,
    /// How many come over the network: the sum of those.
    network: usize,
}

/// One who is connected.
#[derive(Debug)]
pub(super) struct Seat {
    address: Option<IpAddr>,
    /// Since when there is no request, by the clock of the host; zero while there is one.
    idle_since_ms: AtomicU64,
    /// Its connection is something else than HTTP now, and served to its end.
    stays: AtomicBool,
    /// Whether to make room for somebody else, or because the gateway ends: one thing to wait for, of its own. A
    /// connection looks at it with each request, and all of them at one would stand in each other's way.
    pub(super) leave: CancellationToken,
}

impl Seat {
    fn begin(&self) {
        self.idle_since_ms.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        self.idle_since_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Is served to the end of its connection, beyond the answer to its request.
    pub(super) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Is being served until what comes back is dropped.
    pub(super) fn serve(self: &Arc<Self>) -> Serving {
        self.begin();
        Serving(self.clone())
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct Serving(Arc<Seat>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A request that counts as served once its caller is known. Until then its connection makes room for others like an
/// idle one, however slowly its body comes.
#[derive(Clone, Debug)]
pub(crate) struct OnceKnown {
    seat: Arc<Seat>,
    serving: Arc<Mutex<Option<Serving>>>,
}

impl OnceKnown {
    /// A request has begun on this connection.
    pub(super) fn new(seat: &Arc<Seat>) -> Self {
        seat.end();
        Self { seat: seat.clone(), serving: Arc::default() }
    }

    /// The caller is known: it is served from now on.
    pub(crate) fn mark_known(&self) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.get_or_insert_with(|| self.seat.serve());
    }

    /// Takes the guard that counts the request as served, if its caller is known.
    pub(super) fn take(&self) -> Option<Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn now_ms() -> u64 {
    clock::boot_ms().max(1)
}

/// The right to be connected, until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    key: u64,
    pub(super) seat: Arc<Seat>,
    connections: Arc<Connections>,
}

impl Connections {
    pub(super) fn new(
        limit: usize,
        metrics: Arc<Metrics>,
        ending: CancellationToken,
        proxies: Proxies,
    ) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default(), changed: Notify::new(), metrics, ending, proxies })
    }

    /// Lets somebody in, in the place of somebody who does nothing if need be; `None` if there is no room.
    pub(super) fn enter(self: &Arc<Self>, peer: &Peer) -> Option<Ticket> {
        let address = match peer {
            Peer::Local { .. } => None,
            Peer::Network(address) => Some(failures::place(address.ip())),
        };
        // Behind a proxy each client is counted by itself, once its address is known (see `quota`).
        let is_proxy = address.is_some_and(|address| self.proxies.is_trusted(address));
        let mut open = self.open();
        let of_peer = address.and_then(|address| open.per_peer.get(&address)).copied().unwrap_or_default();
        if !is_proxy && of_peer >= MAX_CONNECTIONS_PER_PEER.min(self.limit) {
            self.make_room(&mut open, |seat| seat.address == address)?;
        } else if address.is_some() && open.network >= self.limit - (self.limit / LOCAL_SHARE).max(1) {
            self.make_room(&mut open, |seat| seat.address.is_some())?;
        } else if open.all.len() >= self.limit {
            self.make_room(&mut open, |_| true)?;
        }
        let key = open.next;
        open.next += 1;
        let seat = Arc::new(Seat {
            address,
            idle_since_ms: AtomicU64::new(now_ms()),
            stays: AtomicBool::new(false),
            leave: self.ending.child_token(),
        });
        open.all.insert(key, seat.clone());
        if let Some(address) = address {
            *open.per_peer.entry(address).or_default() += 1;
            open.network += 1;
        }
        self.metrics.connections.set(open.all.len() as i64);
        Some(Ticket { key, seat, connections: self.clone() })
    }

    /// Has the one leave that has done nothing for longest.
    fn make_room(&self, open: &mut Open, fits: impl Fn(&Seat) -> bool) -> Option<()> {
        let since = |seat: &Seat| seat.idle_since_ms.load(Ordering::Relaxed);
        let idle = open.all.iter().filter(|(_, seat)| since(seat) != 0 && fits(seat));
        let Some((&key, _)) = idle.min_by_key(|(key, seat)| (since(seat), **key)) else {
            self.metrics.connections_refused.inc();
            return None;
        };
        self.metrics.connections_evicted.inc();
        let seat = open.remove(key)?;
        seat.leave.cancel();
        Some(())
    }

    /// Waits until nobody is connected.
    pub(super) async fn all_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.open().all.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn remove(&mut self, key: u64) -> Option<Arc<Seat>> {
        let seat = self.all.remove(&key)?;
        if let Some(address) = seat.address
            && let Some(count) = self.per_peer.get_mut(&address)
        {
            *count -= 1;
            self.network -= 1;
            if *count == 0 {
                self.per_peer.remove(&address);
            }
        }
        Some(seat)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.remove(self.key);
        self.connections.metrics.connections.set(open.all.len() as i64);
        drop(open);
        self.connections.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::Network(std::net::SocketAddr::from(([10, 0, 0, last], 1)))
    }

    #[test]
    fn who_does_nothing_makes_room_and_who_is_served_stays() {
        let metrics = Arc::new(Metrics::new(0));
        let connections = Connections::new(3, metrics.clone(), CancellationToken::new(), Proxies::default());
        let served = connections.enter(&peer(1)).expect("room");
        let serving = served.seat.serve();
        let idle = connections.enter(&peer(2)).expect("room");
        let third = connections.enter(&peer(3)).expect("the idle one makes room");
        assert!(idle.seat.leave.is_cancelled() && !served.seat.leave.is_cancelled());
        let also_served = third.seat.serve();
        assert!(connections.enter(&peer(4)).is_none(), "everybody is being served");
        assert_eq!((metrics.connections_evicted.get(), metrics.connections_refused.get()), (1, 1));
        drop(serving);
        assert!(connections.enter(&peer(4)).is_some(), "who was served is idle now");
        drop((served, idle, third, also_served));
        assert!(connections.open().all.is_empty() && connections.open().per_peer.is_empty());
        assert_eq!(connections.open().network, 0);
    }

    #[test]
    fn however_many_strangers_are_served_the_local_socket_has_room() {
        let metrics = Arc::new(Metrics::new(0));
        let connections = Connections::new(32, metrics, CancellationToken::new(), Proxies::default());
        let enter = |peer: &Peer| {
            let ticket = connections.enter(peer)?;
            let serving = ticket.seat.serve();
            Some((ticket, serving))
        };
        let strangers: Vec<_> = (0..40).map_while(|last| enter(&peer(last))).collect();
        assert_eq!(strangers.len(), 30);
        let local = Peer::Local { uid: 0, pid: None, inside: Arc::new(Ok(vec![])) };
        let at_home: Vec<_> = (0..40).map_while(|_| enter(&local)).collect();
        assert_eq!(at_home.len(), 2);
    }

    #[test]
    fn a_network_of_version_6_is_one_peer() {
        let connections =
            Connections::new(4096, Arc::new(Metrics::new(0)), CancellationToken::new(), Proxies::default());
        let at = |last: u16| {
            Peer::Network((std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), 1).into())
        };
        let first = connections.enter(&at(0)).expect("room");
        let others: Vec<_> =
            (0..MAX_CONNECTIONS_PER_PEER as u16).map(|last| connections.enter(&at(last))).collect();
        assert!(first.seat.leave.is_cancelled() && others.iter().all(Option::is_some));
    }
}
