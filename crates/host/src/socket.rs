//! Unix sockets in a directory, with a path of any length.
//!
//! Promise: only its owner can use the socket file, from its first moment on, and a path too long for a socket
//! address (107 bytes) works like any other.
//! Not here: the protocol spoken over the socket, and deciding that an old socket is stale (a lock decides that).
//! Start with [`listen_at`] and [`connect`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, fchmod, lstat, open, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::checked;
use crate::identity::Pidfd;

/// The longest path that fits a socket address.
const ADDRESS_SIZE: usize = 107;
/// How many clients may wait to be accepted: as many as the kernel allows (`net.core.somaxconn`), which cuts this down.
/// Hundreds may connect at the same moment, and a client that finds the queue full is refused through no fault
/// of its own.
const BACKLOG: i32 = i32::MAX;

/// How long a client waits for room in a full queue of connections.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Listens on `name` in `dir`, in place of a socket that an earlier process left there. Non-blocking.
pub fn listen_at(dir: &Path, name: &str) -> io::Result<UnixListener> {
    let place = SocketPath::new(dir, name)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode of the socket, so it is never open to others, not even before a
    // chmod could follow.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let address = SocketAddrUnix::new(&place.path)?;
    match bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_socket(&place.path) => {
            unlink(&place.path)?;
            bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Connects to the socket `name` in `dir`. A listener whose queue stays full, because it is stopped
/// or stuck, is given up after a while.
pub fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    connect_within(dir, name, CONNECT_TIMEOUT)
}

/// Like [`connect`], with a limit on the time spent waiting in a full queue.
pub fn connect_within(dir: &Path, name: &str, patience: Duration) -> io::Result<UnixStream> {
    let place = SocketPath::new(dir, name)?;
    let address = SocketAddrUnix::new(&place.path)?;
    let until = Instant::now() + patience;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(QUEUE_PAUSE),
            Err(Errno::AGAIN) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "too many connections wait to be accepted",
                ));
            }
            connected => {
                connected?;
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

/// The process at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// The user that the process ran as when it connected.
    pub uid: u32,
    /// The pid of the process when it connected; 0 if that is in a pid namespace we do not see.
    pub pid: u32,
}

/// Asks the kernel which process connected.
pub fn peer_credentials(stream: &impl AsFd) -> io::Result<PeerCredentials> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable memory of `size` bytes, and `size` is writable.
    checked(unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut size,
        )
    })?;
    Ok(PeerCredentials { uid: credentials.uid, pid: credentials.pid.cast_unsigned() })
}

/// Opens a descriptor of the process that connected, which stays valid if its pid is reused. Kernels before 6.5
/// cannot tell; there it refers to the process that has the pid now.
pub fn peer_process(stream: &impl AsFd) -> io::Result<Pidfd> {
    let mut fd: libc::c_int = -1;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `fd` is writable memory of `size` bytes, and `size` is writable.
    let told = checked(unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &mut size,
        )
    });
    match told {
        // SAFETY: the kernel made this descriptor for us just now, and no other code owns it.
        Ok(_) => Ok(Pidfd::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            Pidfd::open(peer_credentials(stream)?.pid)
        }
        Err(error) => Err(error),
    }
}

/// A path for a socket that fits an address.
struct SocketPath {
    path: PathBuf,
    /// Open while `path` leads through it.
    _directory: Option<OwnedFd>,
}

impl SocketPath {
    fn new(dir: &Path, name: &str) -> io::Result<SocketPath> {
        let path = dir.join(name);
        if path.as_os_str().len() <= ADDRESS_SIZE {
            return Ok(SocketPath { path, _directory: None });
        }
        let directory = open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(directory) })
    }
}

fn is_socket(path: &Path) -> bool {
    lstat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}
