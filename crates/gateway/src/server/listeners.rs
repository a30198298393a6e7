//! Listening sockets, and the lock that makes this process the only gateway of its state directory.
//!
//! Promise: only the holder of `gateway.lock` removes the socket of an earlier gateway, so that socket is proven stale.
//! The lock file is never removed. Sockets of an earlier image of this process stay open without a gap, so no client is
//! refused.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use berth_api::{Problem, ProblemCode, Timestamp};
use berth_host::identity::ProcessIdentity;
use berth_host::lock::LockFile;
use berth_host::{clock, socket, watchdog};
use berth_store::StateDir;
use berth_store::state_dir::GATEWAY_LOCK;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{ListenAddress, ServeOptions, TcpAddress};

/// The name of the socket in the state directory.
pub(super) const SOCKET_NAME: &str = "gateway.sock";

/// Timeout for the lock. A process that checks whether the lock is held has it for an instant.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);
/// Number of clients that may wait to be accepted: as many as the kernel allows (`net.core.somaxconn`), which reduces
/// this value.
const BACKLOG: i32 = i32::MAX;
/// The text of a lock file is short.
const MAX_PLACES_CHARS: usize = 300;

/// Everything that a gateway has open before it serves.
#[derive(Debug)]
pub(crate) struct BoundListeners {
    pub(crate) lock: LockFile,
    pub(crate) all: Vec<BoundListener>,
}

/// A socket to listen on.
#[derive(Debug)]
pub(crate) struct BoundListener {
    /// Address as it is shown to users.
    pub(crate) name: String,
    pub(crate) kind: ListenerKind,
}

#[derive(Debug)]
pub(crate) enum ListenerKind {
    Local(std::os::unix::net::UnixListener),
    Network { listener: std::net::TcpListener, is_tls: bool },
}

/// State that an earlier image of this process left: the numbers of descriptors, and the number of restarts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InheritedListeners {
    lock: Option<RawFd>,
    listeners: Vec<RawFd>,
    /// Number of earlier images.
    pub(crate) restarts: u64,
}

impl FromStr for InheritedListeners {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<i64>> = text.split(',').map(|number| number.parse().ok()).collect();
        let fd = |number: &i64| RawFd::try_from(*number).ok();
        let read = numbers.as_deref().and_then(|numbers| match numbers {
            [restarts, lock, listeners @ ..] => Some(Self {
                restarts: u64::try_from(*restarts).ok()?,
                lock: Some(fd(lock)?),
                listeners: listeners.iter().map(fd).collect::<Option<_>>()?,
            }),
            [] | [_] => None,
        });
        read.ok_or_else(|| "this argument is only for a gateway that restarts itself".to_owned())
    }
}

impl BoundListeners {
    /// Takes the lock, then opens all sockets; or takes over those of an earlier image.
    pub(crate) fn open(
        home: &StateDir,
        options: &ServeOptions,
        inherited: &InheritedListeners,
    ) -> Result<Self, Problem> {
        let mut wanted = Vec::new();
        for listen in &options.listen {
            wanted.push(match listen {
                ListenAddress::Socket => None,
                ListenAddress::Tcp(address) => Some(allowed(address, options)?),
            });
        }
        let lock = match inherited.lock {
            Some(fd) => LockFile::from_fd(taken_over(fd)?),
            None => held(home)?,
        };
        let left: Result<Vec<OwnedFd>, Problem> =
            inherited.listeners.iter().map(|&fd| taken_over(fd)).collect();
        let taken = sorted_out(left?, &wanted);
        let mut all = Vec::new();
        for (address, fd) in wanted.into_iter().zip(taken) {
            all.push(match address {
                None => local(home.root(), fd)?,
                Some(address) => network(address, options.tls.is_some(), fd)?,
            });
        }
        let listeners = Self { lock, all };
        listeners.sign().map_err(|error| super::failed("cannot write its identity into its lock", &error))?;
        Ok(listeners)
    }

    /// The descriptors that a later image needs: see [`InheritedListeners`].
    pub(crate) fn fds(&self) -> Vec<RawFd> {
        let sockets = self.all.iter().map(|listener| match &listener.kind {
            ListenerKind::Local(listener) => listener.as_raw_fd(),
            ListenerKind::Network { listener, .. } => listener.as_raw_fd(),
        });
        std::iter::once(self.lock.fd().as_raw_fd()).chain(sockets).collect()
    }

    /// Writes the identity of this gateway into the lock file, for the error of a second gateway.
    fn sign(&self) -> io::Result<()> {
        let me = ProcessIdentity::me()?;
        let places: Vec<&str> = self.all.iter().map(|listener| listener.name.as_str()).collect();
        let places: String = places.join(" ").chars().take(MAX_PLACES_CHARS).collect();
        let since = Timestamp(clock::wall_ms());
        self.lock.write_text(&format!("pid={} start={} since={since} on {places}\n", me.pid, me.start_ticks))
    }
}

fn taken_over(fd: RawFd) -> Result<OwnedFd, Problem> {
    watchdog::inherited_descriptor(fd)
        .map_err(|error| super::failed("cannot take over what it had open", &error))
}

/// For each place to listen, the socket of an earlier image that listens there; `None` in `wanted` means the local
/// socket. All other inherited sockets are closed: the config may have changed, and no client may reach an address that
/// is not in it.
fn sorted_out(mut left: Vec<OwnedFd>, wanted: &[Option<SocketAddr>]) -> Vec<Option<OwnedFd>> {
    let mut taken: Vec<Option<OwnedFd>> = wanted.iter().map(|_| None).collect();
    // Exact ports first: a place with any port (0) must not take the socket of a place with an exact one.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&at| wanted[at].is_some_and(|address| address.port() == 0));
    for at in order {
        let found = left.iter().position(|fd| listens_on(fd, wanted[at]));
        taken[at] = found.map(|found| left.remove(found));
    }
    taken
}

fn listens_on(fd: &OwnedFd, wanted: Option<SocketAddr>) -> bool {
    let Ok(real) = rustix::net::getsockname(fd) else { return false };
    match wanted {
        None => real.address_family() == AddressFamily::UNIX,
        Some(wanted) => SocketAddr::try_from(real).is_ok_and(|real| {
            real.ip() == wanted.ip() && (wanted.port() == 0 || real.port() == wanted.port())
        }),
    }
}

/// Takes the lock of this state directory.
fn held(home: &StateDir) -> Result<LockFile, Problem> {
    let path = home.root().join(GATEWAY_LOCK);
    let trouble = |error: &io::Error| {
        Problem::refused(format!("cannot lock {}: {error}", path.display()))
            .hint("`berth doctor` looks at the state directory")
    };
    let lock = LockFile::open_or_create(&path).map_err(|error| trouble(&error))?;
    if lock.acquire(LOCK_PATIENCE).map_err(|error| trouble(&error))? {
        return Ok(lock);
    }
    let text = lock.read_text().unwrap_or_default();
    let (who, places) = text.trim_end().split_once(" on ").unwrap_or((text.trim_end(), ""));
    let word = |name: &str| who.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let who = match (word("pid"), word("since")) {
        (Some(pid), Some(since)) => format!("pid {pid}, since {since}"),
        _ => "its identity is not known yet".to_owned(),
    };
    let what = format!("a gateway serves {} already: {who}", home.root().display());
    let where_ =
        if places.is_empty() { String::new() } else { format!("use the running gateway ({places}), ") };
    Err(Problem::held(what)
        .hint(format!("{where_}end it first, or serve another state directory with BERTH_HOME")))
}

fn local(root: &Path, inherited: Option<OwnedFd>) -> Result<BoundListener, Problem> {
    let listener = match inherited {
        Some(fd) => fd.into(),
        None => socket::listen_at(root, SOCKET_NAME).map_err(|error| {
            let path = root.join(SOCKET_NAME);
            Problem::refused(format!("cannot listen on {}: {error}", path.display()))
                .hint("the path may be something other than a socket")
        })?,
    };
    Ok(BoundListener {
        name: format!("unix:{}", root.join(SOCKET_NAME).display()),
        kind: ListenerKind::Local(listener),
    })
}

/// Resolves an address to listen on, unless traffic to it could be read by others.
fn allowed(address: &TcpAddress, options: &ServeOptions) -> Result<SocketAddr, Problem> {
    let resolved = address.resolve().map_err(|why| {
        Problem::usage(format!("cannot resolve the address {address}: {why}"))
            .hint("write the number, as in --listen 127.0.0.1:7070")
    })?;
    if resolved.ip().is_loopback() || options.tls.is_some() || options.insecure_http {
        return Ok(resolved);
    }
    Err(Problem::usage(format!("{resolved} can be reached from outside, and TLS is not configured: tokens and all traffic could be read on the way"))
        .hint("give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy or ssh; --insecure-http allows plain HTTP"))
}

fn network(address: SocketAddr, is_tls: bool, inherited: Option<OwnedFd>) -> Result<BoundListener, Problem> {
    let listener = match inherited {
        Some(fd) => Ok(fd.into()),
        None => bound(address),
    };
    let listener: std::net::TcpListener = listener.map_err(|error| {
        let code =
            if error.kind() == io::ErrorKind::AddrInUse { ProblemCode::Held } else { ProblemCode::Refused };
        let what = format!("cannot listen on {address}: {error}");
        Problem::new(code, what).hint(match error.kind() {
            io::ErrorKind::AddrNotAvailable => "choose an address of this machine; 0.0.0.0 means all of them",
            io::ErrorKind::PermissionDenied => "ports below 1024 are for root; choose another port",
            _ => "choose another port; port 0 takes a free one and prints it",
        })
    })?;
    let address = listener.local_addr().map_err(|error| super::failed("cannot listen", &error))?;
    let scheme = if is_tls { "https" } else { "http" };
    Ok(BoundListener {
        name: format!("{scheme}://{address}"),
        kind: ListenerKind::Network { listener, is_tls },
    })
}

fn bound(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a gateway that was killed linger for a minute; this allows listening on their address.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{self as unix, UnixListener};

    use super::*;

    #[test]
    fn an_inherited_socket_is_kept_if_its_address_is_wanted_and_closed_otherwise() {
        let at = |ip: &str| TcpListener::bind((ip, 0)).expect("a port");
        let address = |listener: &TcpListener| listener.local_addr().expect("an address");
        let (one, two, other) = (at("127.0.0.1"), at("127.0.0.1"), at("127.0.0.2"));
        let name = format!("berth-test-{}", std::process::id());
        let name = unix::SocketAddr::from_abstract_name(name).expect("a name");
        let local = UnixListener::bind_addr(&name).expect("a socket");
        let fds = [local.as_raw_fd(), one.as_raw_fd(), two.as_raw_fd()];
        let unwanted = address(&other);
        // In another order than before, with any port for one of them, and a new place to listen on.
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let wanted = [Some(any), Some(address(&one)), Some(([127, 0, 0, 3], 0).into()), None];
        let left = vec![other.into(), local.into(), one.into(), two.into()];
        let taken = sorted_out(left, &wanted);
        let numbers: Vec<Option<RawFd>> =
            taken.iter().map(|fd| fd.as_ref().map(AsRawFd::as_raw_fd)).collect();
        assert_eq!(numbers, [Some(fds[2]), Some(fds[1]), None, Some(fds[0])]);
        assert!(TcpListener::bind(unwanted).is_ok(), "it is closed");
    }
}
