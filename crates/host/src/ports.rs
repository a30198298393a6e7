//! Ports: which processes listen, and where.
//!
//! Promise: a process is named only for a socket it has open itself, read from the kernel just now. No connection is
//! made, and no listener notices the look. A process that ends meanwhile is left out.
//! Not here: which session the processes belong to.
//! Start with [`listening_sockets`], or with [`processes_on_port`] when the port is known and the process is not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{readlinkat, readlinkat_raw};

use crate::identity::stat_at;
use crate::proc;

/// A listening socket, and a process that has it open.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListeningSocket {
    /// The pid of the process. After a fork several processes may have one socket.
    pub pid: u32,
    /// The address of the socket.
    pub address: SocketAddress,
}

/// The address that a socket listens on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SocketAddress {
    /// TCP, listening.
    Tcp {
        /// The local address; unspecified (`0.0.0.0`, `::`) for all.
        ip: IpAddr,
        /// The TCP port.
        port: u16,
    },
    /// UDP, bound and not connected to a peer.
    Udp {
        /// The local address; unspecified (`0.0.0.0`, `::`) for all.
        ip: IpAddr,
        /// The UDP port.
        port: u16,
    },
    /// A Unix socket, listening.
    Unix {
        /// The path of the socket; `@name` for an abstract one.
        path: PathBuf,
    },
}

impl SocketAddress {
    /// The port; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } | Self::Udp { port, .. } => Some(*port),
            Self::Unix { .. } => None,
        }
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, ip, port) = match self {
            Self::Tcp { ip, port } => ("tcp", ip, port),
            Self::Udp { ip, port } => ("udp", ip, port),
            Self::Unix { path } => return write!(f, "unix:{}", path.display()),
        };
        match ip {
            IpAddr::V4(ip) => write!(f, "{kind}:{ip}:{port}"),
            IpAddr::V6(ip) => write!(f, "{kind}:[{ip}]:{port}"),
        }
    }
}

/// The sockets on a port, and the processes that have them open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortOwners {
    /// Every process with a socket on it.
    pub listening: Vec<ListeningSocket>,
    /// Sockets on the port that none of the processes we could look into has open: another user's, or the kernel's own.
    pub unowned: Vec<UnownedSocket>,
    /// The number of processes that could not be looked into. For an ordinary user these are the processes of others.
    pub unreadable: usize,
}

/// A socket whose process is not known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnownedSocket {
    /// The address that the socket listens on.
    pub address: SocketAddress,
    /// The uid of the user that made the socket.
    pub uid: u32,
}

/// The listening sockets of these processes, sorted. A process that is gone, or may not be looked into, is left out.
pub fn listening_sockets(pids: &[u32]) -> io::Result<Vec<ListeningSocket>> {
    let proc = proc::open()?;
    let mut sockets = SocketTable::new(|_| true);
    let mut found = Vec::new();
    for &pid in pids {
        tolerated(sockets.learn_of(proc.as_fd(), pid))?;
    }
    for &pid in pids {
        let held = tolerated(sockets.held_by(proc.as_fd(), pid))?.unwrap_or_default();
        found.extend(held.into_iter().map(|(_, address)| ListeningSocket { pid, address }));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Every process with a listening TCP or a bound UDP socket on this port, in any network namespace.
pub fn processes_on_port(port: u16) -> io::Result<PortOwners> {
    let proc = proc::open()?;
    let mut sockets = SocketTable::new(|address| address.port() == Some(port));
    // The namespaces of all come first: a process may have a socket of a namespace it is not in.
    proc::each_pid(&proc, |pid| tolerated(sockets.learn_of(proc.as_fd(), pid)).map(drop))?;
    // A directory is listed once for each time it was opened.
    let proc = proc::open()?;
    let mut holders = PortOwners::default();
    let mut owned = BTreeSet::new();
    proc::each_pid(&proc, |pid| {
        match sockets.held_by(proc.as_fd(), pid) {
            Ok(held) => {
                for (inode, address) in held {
                    owned.insert(inode);
                    holders.listening.push(ListeningSocket { pid, address });
                }
            }
            Err(error) if proc::is_gone(&error) => {}
            Err(error) if proc::is_hidden(&error) => {
                holders.unreadable += usize::from(may_have_sockets(proc.as_fd(), pid));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    holders.listening.sort();
    holders.listening.dedup();
    let unowned = sockets.by_inode.into_iter().filter(|(inode, _)| !owned.contains(inode));
    holders.unowned =
        unowned.map(|(_, socket)| UnownedSocket { address: socket.address, uid: socket.uid }).collect();
    holders.unowned.sort();
    Ok(holders)
}

/// Maps the error of a process that is gone or may not be looked into to `None`.
fn tolerated<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if proc::is_gone(&error) || proc::is_hidden(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// True if a process that may not be looked into could have sockets. Kernel threads and ended processes have none.
fn may_have_sockets(proc: BorrowedFd<'_>, pid: u32) -> bool {
    stat_at(proc, &format!("{pid}/stat"))
        .map_or_else(|error| !proc::is_gone(&error), |stat| !stat.is_zombie() && !stat.is_kernel)
}

/// The sockets of every network namespace seen so far, by inode. Inodes are unique across namespaces.
struct SocketTable<W> {
    wanted: W,
    namespaces: BTreeSet<Vec<u8>>,
    by_inode: BTreeMap<u64, SocketEntry>,
    text: Vec<u8>,
}

/// A line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SocketEntry {
    inode: u64,
    address: SocketAddress,
    /// The uid of the user that made the socket. The table of Unix sockets does not have it; 0 there.
    uid: u32,
}

impl<W: Fn(&SocketAddress) -> bool> SocketTable<W> {
    fn new(wanted: W) -> Self {
        Self { wanted, namespaces: BTreeSet::new(), by_inode: BTreeMap::new(), text: Vec::new() }
    }

    /// Reads the tables of the namespace that a process is in, unless that was done before.
    fn learn_of(&mut self, proc: BorrowedFd<'_>, pid: u32) -> io::Result<()> {
        let namespace = |process: BorrowedFd<'_>| -> io::Result<Vec<u8>> {
            Ok(readlinkat(process, "ns/net", Vec::new())?.into_bytes())
        };
        let process = proc::directory(proc, &pid.to_string())?;
        let process = process.as_fd();
        let name = namespace(process)?;
        if self.namespaces.contains(&name) {
            return Ok(());
        }
        let mut found = Vec::new();
        for (table, parse) in TABLES {
            match proc::read_all(process, &format!("net/{table}"), &mut self.text) {
                Ok(()) => found.extend(self.text.split(|&byte| byte == b'\n').filter_map(parse)),
                // This kernel lacks the protocol; or the process is gone, which shows below.
                Err(error) if proc::is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // A process that ended while its tables were read may have shown only a part of them; the next process in the
        // same namespace shows all.
        if namespace(process)? == name {
            self.namespaces.insert(name);
        }
        found.retain(|socket| (self.wanted)(&socket.address));
        self.by_inode.extend(found.into_iter().map(|socket| (socket.inode, socket)));
        Ok(())
    }

    /// The listening sockets that a process has open, with their inodes.
    fn held_by(&self, proc: BorrowedFd<'_>, pid: u32) -> io::Result<Vec<(u64, SocketAddress)>> {
        let mut held = Vec::new();
        let process = proc::directory(proc, &pid.to_string())?;
        let descriptors = proc::directory(process.as_fd(), "fd")?;
        if self.by_inode.is_empty() {
            return Ok(held);
        }
        proc::each_number(descriptors.as_fd(), |_, name| {
            let mut target = [MaybeUninit::uninit(); 64];
            // A descriptor that was closed meanwhile is left out.
            if let Ok((target, _)) = readlinkat_raw(&descriptors, name, &mut target)
                && let Some(socket) = inode_in(target).and_then(|inode| self.by_inode.get(&inode))
            {
                held.push((socket.inode, resolved(&socket.address, process.as_fd())));
            }
            Ok(())
        })?;
        Ok(held)
    }
}

/// A relative path is taken as relative to the working directory of the process; where it was at the bind is not known.
fn resolved(address: &SocketAddress, process: BorrowedFd<'_>) -> SocketAddress {
    match address {
        SocketAddress::Unix { path }
            if path.is_relative() && !path.as_os_str().as_bytes().starts_with(b"@") =>
        {
            let cwd = readlinkat(process, "cwd", Vec::new()).unwrap_or_default();
            SocketAddress::Unix { path: Path::new(OsStr::from_bytes(cwd.as_bytes())).join(path) }
        }
        SocketAddress::Tcp { .. } | SocketAddress::Udp { .. } | SocketAddress::Unix { .. } => address.clone(),
    }
}

/// The number in `socket:[N]`.
fn inode_in(target: &[u8]) -> Option<u64> {
    number(target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

type SocketParser = fn(&[u8]) -> Option<SocketEntry>;

/// The files that list sockets, and how to read their lines.
const TABLES: [(&str, SocketParser); 5] =
    [("tcp", tcp_line), ("tcp6", tcp_line), ("udp", udp_line), ("udp6", udp_line), ("unix", unix_line)];

fn tcp_line(line: &[u8]) -> Option<SocketEntry> {
    const LISTENING: &[u8] = b"0A";
    inet_line(line, LISTENING, |ip, port| SocketAddress::Tcp { ip, port })
}

fn udp_line(line: &[u8]) -> Option<SocketEntry> {
    const UNCONNECTED: &[u8] = b"07";
    inet_line(line, UNCONNECTED, |ip, port| SocketAddress::Udp { ip, port })
}

/// `sl local remote state queues timer retransmits uid timeout inode …`
fn inet_line(line: &[u8], wanted: &[u8], address: fn(IpAddr, u16) -> SocketAddress) -> Option<SocketEntry> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let uid = number(fields.nth(3)?)?;
    let inode = number(fields.nth(1)?)?;
    let colon = local.iter().position(|&byte| byte == b':')?;
    let (ip, port) = (ip_in(&local[..colon])?, u16::try_from(hexadecimal(&local[colon + 1..])?).ok()?);
    let socket = SocketEntry { inode, address: address(ip, port), uid: u32::try_from(uid).ok()? };
    (state == wanted && port != 0).then_some(socket)
}

/// The kernel prints an address as numbers of 32 bits, each of which it holds in network byte order.
fn ip_in(digits: &[u8]) -> Option<IpAddr> {
    let words = digits.chunks(8).map(|word| u32::try_from(hexadecimal(word)?).ok().map(u32::to_ne_bytes));
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    match digits.len() {
        8 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        // `::ffff:127.0.0.1` is how some programs spell 127.0.0.1.
        32 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

/// `slot: references protocol flags type state inode path`. The path may hold anything.
fn unix_line(line: &[u8]) -> Option<SocketEntry> {
    const ACCEPTS: u64 = 0x0001_0000;
    let mut rest = line;
    let mut fields = [&line[..0]; 7];
    for field in &mut fields {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        (*field, rest) = rest.split_at(end);
    }
    let [_, _, _, flags, _, _, inode] = fields;
    let path = rest.strip_prefix(b" ").filter(|path| !path.is_empty())?;
    let path = PathBuf::from(OsStr::from_bytes(path));
    let socket = SocketEntry { inode: number(inode)?, address: SocketAddress::Unix { path }, uid: 0 };
    (hexadecimal(flags)? & ACCEPTS != 0).then_some(socket)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(socket: Option<SocketEntry>) -> Option<(u64, String)> {
        socket.map(|socket| (socket.inode, socket.address.to_string()))
    }

    /// The digits of an address as a kernel of this byte order prints them.
    fn digits(ip: &str) -> String {
        let bytes = match ip.parse().unwrap() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let word = |word: &[u8]| format!("{:08X}", u32::from_ne_bytes(word.try_into().unwrap()));
        bytes.chunks(4).map(word).collect()
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_digits_are_those_a_little_endian_kernel_prints() {
        assert_eq!(digits("127.0.0.1"), "0100007F");
        assert_eq!(digits("::1"), "00000000000000000000000001000000");
    }

    #[test]
    fn a_listening_tcp_socket_is_read_and_a_connection_is_not() {
        let line = |ip: &str, state: &str| {
            let local = digits(ip);
            format!(
                "   0: {local}:0BB8 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4242 1 ffff 100 0"
            )
        };
        let read = |ip, state| tcp_line(line(ip, state).as_bytes());
        assert_eq!(shown(read("127.0.0.1", "0A")), Some((4242, "tcp:127.0.0.1:3000".to_owned())));
        assert_eq!(shown(read("10.1.2.3", "0A")), Some((4242, "tcp:10.1.2.3:3000".to_owned())));
        assert_eq!(shown(read("::1", "0A")), Some((4242, "tcp:[::1]:3000".to_owned())));
        assert_eq!(shown(read("2001:db8::17", "0A")), Some((4242, "tcp:[2001:db8::17]:3000".to_owned())));
        assert_eq!(shown(read("::ffff:127.0.0.1", "0A")), Some((4242, "tcp:127.0.0.1:3000".to_owned())));
        assert_eq!(read("127.0.0.1", "0A").map(|socket| socket.uid), Some(1000));
        assert_eq!(read("127.0.0.1", "01"), None, "a connection");
    }

    #[test]
    fn a_bound_udp_socket_is_read_and_a_connected_one_is_not() {
        let line = |state: &str, port: &str| {
            let local = digits("0.0.0.0");
            format!(
                " 1391: {local}:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 77 2 0 0"
            )
        };
        let read = |state, port| shown(udp_line(line(state, port).as_bytes()));
        assert_eq!(read("07", "0035"), Some((77, "udp:0.0.0.0:53".to_owned())));
        assert_eq!(read("01", "0035"), None, "connected");
        assert_eq!(read("07", "0000"), None, "not bound");
    }

    #[test]
    fn a_listening_unix_socket_with_a_name_is_read() {
        let read = |flags: &str, rest: &str| {
            shown(unix_line(format!("ffff8881: 00000002 00000000 {flags} 0001 01 314159{rest}").as_bytes()))
        };
        let found = |path: &str| Some((314_159, format!("unix:{path}")));
        assert_eq!(read("00010000", " /run/a socket"), found("/run/a socket"));
        assert_eq!(read("00010000", " @hidden"), found("@hidden"));
        assert_eq!(read("00010000", " here"), found("here"));
        assert_eq!(read("00010000", ""), None, "no name");
        assert_eq!(read("00000000", " /run/x"), None, "not listening");
    }

    #[test]
    fn headings_and_broken_lines_are_passed_over() {
        let inet = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let unix = b"Num       RefCount Protocol Flags    Type St Inode Path";
        assert_eq!((tcp_line(inet), udp_line(inet), unix_line(unix)), (None, None, None));
        for line in [&b""[..], b" ", b"0: 0100007F 0 0A", b"0: 7F:0BB8 0:0 0A 0:0 0:0 0 0 0 5", b"\xff\xff"] {
            assert_eq!((tcp_line(line), unix_line(line)), (None, None), "{line:?}");
        }
    }
}
