//! Limits on connections, and the choice of connections to close when there is no room.
//!
//! Promise: idle connections never keep out active ones. At a limit the connection that has been idle for longest is
//! closed; a new one is refused only if all are being served. The connection of an unknown caller does not count as
//! served: it can be closed until its request has been answered. However many known callers are served, some room is
//! left for the local socket.
//! Start with [`ConnectionLimits::enter`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_host::clock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::auth::{ConnectionPeer, failures, trusted_proxies::TrustedProxies};
use crate::metrics::GatewayMetrics;

/// Number of connections, if the limit of open files allows it.
const MAX_CONNECTIONS: usize = 4096;
/// Share of connections that is reserved for the local socket: one in so many.
const LOCAL_SHARE: usize = 16;
/// Number of connections from one network address (IPv6: one /64).
pub(super) const MAX_CONNECTIONS_PER_PEER: usize = 2048;
/// Number of open files that are not connections: journals, sockets of keepers.
const OTHER_FILES: u64 = 2048;

/// Timeout for the head of a request, and therefore for an idle connection after an answer.
pub(super) const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Timeout for the TLS handshake.
pub(super) const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for a client that reads nothing of its answer.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// Size limit of the head of a request, and of the part of an answer that is buffered in this process.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Size limit of the input that is discarded from a client that sends HTTP to a TLS port: a whole request.
pub(super) const MAX_UNREAD_BYTES: u64 = 4 << 20;
/// Pause after accepting failed for lack of files.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A timeout for clients, which tests shorten.
pub(super) fn idle_timeout(usually: Duration) -> Duration {
    berth_store::killpoint::patience(crate::http::extractors::PATIENCE_VARIABLE, usually)
}

/// Raises the limit of open files as far as needed, and returns the number of connections that it allows.
pub(crate) fn from_files() -> usize {
    let wanted = MAX_CONNECTIONS as u64 + OTHER_FILES;
    let files = berth_host::open_file_limit::raise_limit(wanted).unwrap_or(1024);
    let room = if files >= wanted { MAX_CONNECTIONS as u64 } else { files / 2 };
    usize::try_from(room).unwrap_or(MAX_CONNECTIONS).clamp(16, MAX_CONNECTIONS)
}

/// All connections.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    limit: usize,
    open: Mutex<OpenConnections>,
    changed: Notify,
    metrics: Arc<GatewayMetrics>,
    /// Cancelled when the gateway shuts down.
    ending: CancellationToken,
    /// Trusted proxies: many clients come from one such address.
    proxies: TrustedProxies,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    all: HashMap<u64, Arc<ClientConnection>>,
    per_peer: HashMap<IpAddr, usize>,
    /// Number of connections over the network: the sum of those above.
    network: usize,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    address: Option<IpAddr>,
    /// Start of the idle time, by the clock of the host; zero while a request is served.
    idle_since_ms: AtomicU64,
    /// True once the connection was upgraded from HTTP: it is served to its end.
    stays: AtomicBool,
    /// Cancelled to close this connection: to make room, or at shutdown. Each connection has a token of its own,
    /// because all connections check it with each request and would contend for a shared one.
    pub(super) leave: CancellationToken,
}

impl ClientConnection {
    fn begin(&self) {
        self.idle_since_ms.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        self.idle_since_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Counts as served to the end of the connection, beyond the answer to its request.
    pub(super) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Counts as served until the returned guard is dropped.
    pub(super) fn serve(self: &Arc<Self>) -> ServingGuard {
        self.begin();
        ServingGuard(self.clone())
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct ServingGuard(Arc<ClientConnection>);

impl Drop for ServingGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A request that counts as served once its caller is known. Until then its connection may be closed to make room, like
/// an idle one, however slowly its body arrives.
#[derive(Clone, Debug)]
pub(crate) struct DeferredServing {
    seat: Arc<ClientConnection>,
    serving: Arc<Mutex<Option<ServingGuard>>>,
}

impl DeferredServing {
    /// Marks the start of a request on this connection.
    pub(super) fn new(seat: &Arc<ClientConnection>) -> Self {
        seat.end();
        Self { seat: seat.clone(), serving: Arc::default() }
    }

    /// Marks the caller as known: the request counts as served from now on.
    pub(crate) fn mark_known(&self) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.get_or_insert_with(|| self.seat.serve());
    }

    /// Takes the guard that counts the request as served, if its caller is known.
    pub(super) fn take(&self) -> Option<ServingGuard> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn now_ms() -> u64 {
    clock::boot_ms().max(1)
}

/// A place among the connections, taken until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    key: u64,
    pub(super) seat: Arc<ClientConnection>,
    connections: Arc<ConnectionLimits>,
}

impl ConnectionLimits {
    pub(super) fn new(
        limit: usize,
        metrics: Arc<GatewayMetrics>,
        ending: CancellationToken,
        proxies: TrustedProxies,
    ) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default(), changed: Notify::new(), metrics, ending, proxies })
    }

    /// Takes a place for a connection, if need be by closing an idle one; `None` if there is no room.
    pub(super) fn enter(self: &Arc<Self>, peer: &ConnectionPeer) -> Option<ConnectionPermit> {
        let address = match peer {
            ConnectionPeer::Local { .. } => None,
            ConnectionPeer::Network(address) => Some(failures::place(address.ip())),
        };
        // Clients behind a proxy are counted one by one, once their addresses are known (see `quota`).
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
        let seat = Arc::new(ClientConnection {
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
        Some(ConnectionPermit { key, seat, connections: self.clone() })
    }

    /// Closes the connection that has been idle for longest.
    fn make_room(&self, open: &mut OpenConnections, fits: impl Fn(&ClientConnection) -> bool) -> Option<()> {
        let since = |seat: &ClientConnection| seat.idle_since_ms.load(Ordering::Relaxed);
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

    /// Waits until all connections are closed.
    pub(super) async fn all_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.open().all.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn remove(&mut self, key: u64) -> Option<Arc<ClientConnection>> {
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

impl Drop for ConnectionPermit {
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

    fn peer(last: u8) -> ConnectionPeer {
        ConnectionPeer::Network(std::net::SocketAddr::from(([10, 0, 0, last], 1)))
    }

    #[test]
    fn an_idle_connection_makes_room_and_a_served_one_stays() {
        let metrics = Arc::new(GatewayMetrics::new(0));
        let connections =
            ConnectionLimits::new(3, metrics.clone(), CancellationToken::new(), TrustedProxies::default());
        let served = connections.enter(&peer(1)).expect("room");
        let serving = served.seat.serve();
        let idle = connections.enter(&peer(2)).expect("room");
        let third = connections.enter(&peer(3)).expect("the idle one makes room");
        assert!(idle.seat.leave.is_cancelled() && !served.seat.leave.is_cancelled());
        let also_served = third.seat.serve();
        assert!(connections.enter(&peer(4)).is_none(), "all connections are being served");
        assert_eq!((metrics.connections_evicted.get(), metrics.connections_refused.get()), (1, 1));
        drop(serving);
        assert!(connections.enter(&peer(4)).is_some(), "the connection that was served is idle now");
        drop((served, idle, third, also_served));
        assert!(connections.open().all.is_empty() && connections.open().per_peer.is_empty());
        assert_eq!(connections.open().network, 0);
    }

    #[test]
    fn the_local_socket_has_room_however_many_unknown_callers_are_served() {
        let metrics = Arc::new(GatewayMetrics::new(0));
        let connections =
            ConnectionLimits::new(32, metrics, CancellationToken::new(), TrustedProxies::default());
        let enter = |peer: &ConnectionPeer| {
            let ticket = connections.enter(peer)?;
            let serving = ticket.seat.serve();
            Some((ticket, serving))
        };
        let strangers: Vec<_> = (0..40).map_while(|last| enter(&peer(last))).collect();
        assert_eq!(strangers.len(), 30);
        let local = ConnectionPeer::Local { uid: 0, pid: None, inside: Arc::new(Ok(vec![])) };
        let at_home: Vec<_> = (0..40).map_while(|_| enter(&local)).collect();
        assert_eq!(at_home.len(), 2);
    }

    #[test]
    fn a_network_of_version_6_is_one_peer() {
        let connections = ConnectionLimits::new(
            4096,
            Arc::new(GatewayMetrics::new(0)),
            CancellationToken::new(),
            TrustedProxies::default(),
        );
        let at = |last: u16| {
            ConnectionPeer::Network((std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), 1).into())
        };
        let first = connections.enter(&at(0)).expect("room");
        let others: Vec<_> =
            (0..MAX_CONNECTIONS_PER_PEER as u16).map(|last| connections.enter(&at(last))).collect();
        assert!(first.seat.leave.is_cancelled() && others.iter().all(Option::is_some));
    }
}
