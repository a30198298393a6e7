//! Signs that a helper is ready, found without disturbing it: nothing connects to it.
//!
//! Promise: a port or a socket counts only when a process of the run listens there, not another program's. Output is
//! searched when it comes, each line once it is whole; sockets, for which the kernel sends no events, are polled
//! with a growing pause. The timeout is one for the whole run, in any image of the keeper, and stands still while
//! the machine sleeps.
//! Not here: the rules of a helper (`berth_core::owners`). Start with [`ReadinessCheck::begin`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_core::{Epoch, HelperReadiness, Observation, ReadinessProbe, Session};
use berth_host::ports::{self, SocketAddress};
use berth_host::{clock, identity};
use berth_procs::nested_sessions;
use berth_screen::PlainTextFilter;
use berth_store::output::OutputFiles;
use regex::bytes::Regex;

use super::identity::KeeperIdentity;
use crate::helpers;

/// The first and the longest pause between two looks at sockets.
const FIRST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 200;
/// The bytes of output that are searched in one go.
const READ_BYTES: usize = 64 * 1024;
/// The bytes of a line that are searched.
const LINE_BYTES: usize = 64 * 1024;
/// The time after which an unfinished last line counts: a prompt has no line end.
const REST_MS: u64 = 50;
/// The number of other programs on a port that are named.
const NAMED_STRANGERS: usize = 4;

/// A search for the signs of readiness, and its progress.
#[derive(Debug)]
pub(super) struct ReadinessCheck {
    sign: ReadinessSign,
    /// The start of the search, on the clock that stands still while the machine sleeps.
    since_awake_ms: u64,
    patience_ms: u64,
}

#[derive(Debug)]
enum ReadinessSign {
    Socket { place: ProbedSocket, look_at_ms: u64, pause_ms: u64 },
    Line { lines: LineSearch, offset: u64 },
}

#[derive(Debug)]
enum ProbedSocket {
    Tcp(u16),
    Unix(PathBuf),
}

impl ReadinessCheck {
    /// A probe for a helper that is not ready yet; `None` if it has no signs to look for. The error says why it can
    /// never be ready. `since_awake_ms`: the start of the previous image's probe.
    pub(super) fn begin(session: &Session, since_awake_ms: Option<u64>) -> Option<Result<Self, String>> {
        let sharing = session.sharing.as_ref().filter(|it| it.readiness == HelperReadiness::Awaited)?;
        let when = sharing.terms.ready.clone()?;
        let patience_ms = sharing.terms.ready_within_ms;
        let cwd = session.spec.as_ref().map(|spec| PathBuf::from(&spec.cwd)).unwrap_or_default();
        let offset = session.output_from;
        let now = clock::boot_ms();
        let socket = |place| ReadinessSign::Socket { place, look_at_ms: now, pause_ms: FIRST_PAUSE_MS };
        let sign = match when {
            ReadinessProbe::Tcp(port) => socket(ProbedSocket::Tcp(port)),
            ReadinessProbe::Unix(path) => socket(ProbedSocket::Unix(cwd.join(path))),
            ReadinessProbe::Line(pattern) => match helpers::readiness_pattern(&pattern) {
                Ok(regex) => ReadinessSign::Line { lines: LineSearch::new(regex), offset },
                Err(error) => return Some(Err(format!("`{pattern}` is not a pattern: {error}"))),
            },
        };
        let since_awake_ms = since_awake_ms.unwrap_or_else(clock::awake_ms);
        Some(Ok(Self { sign, since_awake_ms, patience_ms }))
    }

    pub(super) fn since_awake_ms(&self) -> u64 {
        self.since_awake_ms
    }

    /// The time left, in milliseconds.
    fn left_ms(&self) -> u64 {
        self.patience_ms.saturating_sub(clock::awake_ms().saturating_sub(self.since_awake_ms))
    }

    /// The time of the next look, on the boot clock.
    pub(super) fn due_ms(&self) -> u64 {
        let give_up_at_ms = clock::boot_ms().saturating_add(self.left_ms());
        let look_at_ms = match &self.sign {
            ReadinessSign::Socket { look_at_ms, .. } => Some(*look_at_ms),
            ReadinessSign::Line { lines, .. } => lines.rests_at_ms,
        };
        look_at_ms.map_or(give_up_at_ms, |at| at.min(give_up_at_ms))
    }

    /// Probes, if it is time to. Returns the result once it is known.
    pub(super) fn probe_if_due(
        &mut self,
        epoch: Epoch,
        identity: &KeeperIdentity,
        output_end: u64,
    ) -> Option<Observation> {
        if let Some(address) = self.sign.probe(clock::boot_ms(), identity, output_end) {
            return Some(Observation::Ready { epoch, address });
        }
        (self.left_ms() == 0)
            .then(|| Observation::NotReady { epoch, reason: self.what_is_missing(identity.pid()) })
    }

    fn what_is_missing(&self, keeper_pid: u32) -> String {
        let within = format!("within {}", seconds(self.patience_ms));
        match &self.sign {
            ReadinessSign::Line { lines, .. } => {
                format!("no line of the helper's output matched `{}` {within}", lines.regex.as_str())
            }
            ReadinessSign::Socket { place: ProbedSocket::Unix(path), .. } => {
                format!("no process of the helper listened on {} {within}", path.display())
            }
            ReadinessSign::Socket { place: ProbedSocket::Tcp(port), .. } => {
                format!(
                    "no process of the helper listened on port {port} {within}{}",
                    strangers_on(*port, keeper_pid)
                )
            }
        }
    }
}

impl ReadinessSign {
    /// Looks for the sign: `Some` if it is there, with its address inside if it has one.
    fn probe(&mut self, now: u64, identity: &KeeperIdentity, output_end: u64) -> Option<Option<String>> {
        match self {
            Self::Socket { look_at_ms, .. } if *look_at_ms > now => None,
            Self::Socket { place, look_at_ms, pause_ms } => {
                let found = listens(place, identity.pid());
                *look_at_ms = now + *pause_ms;
                *pause_ms = (*pause_ms * 2).min(LONGEST_PAUSE_MS);
                found.map(Some)
            }
            Self::Line { lines, offset } => {
                has_line(lines, offset, now, &identity.files().output(), output_end).then_some(None)
            }
        }
    }
}

fn listens(place: &ProbedSocket, keeper_pid: u32) -> Option<String> {
    let ours = nested_sessions::sort_descendants(keeper_pid).ok()?.ours;
    let listening = ports::listening_sockets(&ours).ok()?;
    match place {
        ProbedSocket::Tcp(wanted) => listening.into_iter().find_map(|socket| match socket.address {
            SocketAddress::Tcp { ip, port } if port == *wanted => Some(reachable(ip, port)),
            SocketAddress::Tcp { .. } | SocketAddress::Udp { .. } | SocketAddress::Unix { .. } => None,
        }),
        ProbedSocket::Unix(wanted) => {
            let is_there = listening.iter().any(|socket| match &socket.address {
                SocketAddress::Unix { path } => is_same_file(path, wanted),
                SocketAddress::Tcp { .. } | SocketAddress::Udp { .. } => false,
            });
            is_there.then(|| format!("unix:{}", wanted.display()))
        }
    }
}

fn has_line(
    lines: &mut LineSearch,
    offset: &mut u64,
    now: u64,
    output: &OutputFiles,
    output_end: u64,
) -> bool {
    let mut buffer = Vec::new();
    while *offset < output_end {
        buffer.resize(READ_BYTES, 0);
        let Ok((count, from)) = output.read_at(*offset, &mut buffer) else {
            return false;
        };
        if count == 0 {
            return false;
        }
        *offset = from + count as u64;
        if lines.feed(&buffer[..count], now) {
            return true;
        }
    }
    lines.last_matches(now)
}

/// The other programs that have the port.
fn strangers_on(port: u16, keeper_pid: u32) -> String {
    let ours = nested_sessions::sort_descendants(keeper_pid).unwrap_or_default().ours;
    let Ok(holders) = ports::processes_on_port(port) else { return String::new() };
    let is_tcp = |address: &SocketAddress| matches!(address, SocketAddress::Tcp { .. });
    let mut pids: Vec<u32> =
        holders.listening.iter().filter(|it| is_tcp(&it.address)).map(|it| it.pid).collect();
    pids.retain(|pid| !ours.contains(pid));
    pids.dedup();
    let name = |pid: &u32| match identity::process_stat(*pid) {
        Ok(stat) => format!("pid {pid} ({})", stat.comm),
        Err(_) => format!("pid {pid}"),
    };
    let mut who: Vec<String> = pids.iter().take(NAMED_STRANGERS).map(name).collect();
    let unowned = holders.unowned.iter().find(|it| is_tcp(&it.address));
    who.extend(unowned.map(|it| format!("a process of uid {} that cannot be seen", it.uid)));
    if who.is_empty() { String::new() } else { format!(" (that port belongs to {})", who.join(", ")) }
}

/// Output in lines. Each line is searched once: when it is whole, or when it is the last one and no more follows
/// for a moment.
#[derive(Debug)]
struct LineSearch {
    regex: Regex,
    plain: Box<PlainTextFilter>,
    /// The line that has no end yet; of a long one, its beginning.
    last: Vec<u8>,
    /// When that line has rested for long enough to be looked at, on the boot clock.
    rests_at_ms: Option<u64>,
}

impl LineSearch {
    fn new(regex: Regex) -> Self {
        Self { regex, plain: Box::default(), last: Vec::new(), rests_at_ms: None }
    }

    /// Takes more output. True if a line that it makes whole matches.
    fn feed(&mut self, bytes: &[u8], now: u64) -> bool {
        let mut text = Vec::new();
        self.plain.feed(bytes, &mut text);
        let mut pieces = text.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LINE_BYTES.saturating_sub(self.last.len());
            self.last.extend_from_slice(&piece[..piece.len().min(room)]);
            if pieces.peek().is_some() {
                if self.regex.is_match(&self.last) {
                    return true;
                }
                self.last.clear();
            }
        }
        self.rests_at_ms = (!self.last.is_empty()).then_some(now + REST_MS);
        false
    }

    /// True if the last line matches, has rested and was not looked at yet.
    fn last_matches(&mut self, now: u64) -> bool {
        let is_due = self.rests_at_ms.is_some_and(|at| at <= now);
        if is_due {
            self.rests_at_ms = None;
        }
        is_due && self.regex.is_match(&self.last)
    }
}

/// An address to connect to: one that stands for all becomes the loopback address.
fn reachable(ip: std::net::IpAddr, port: u16) -> String {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    SocketAddress::Tcp { ip, port }.to_string()
}

/// A socket is bound under the path its program wrote, which may lead through links.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    one == other || place(one).is_some_and(|found| place(other) == Some(found))
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &str) -> LineSearch {
        LineSearch::new(helpers::readiness_pattern(pattern).expect("a pattern"))
    }

    #[test]
    fn lines_are_the_same_however_the_output_is_cut() {
        let output = b"not up yet\r\n\x1b[1mup\x1b[0m\r\n";
        for cut in 0..output.len() {
            let mut lines = lines("^up$");
            let early = lines.feed(&output[..cut], 0);
            assert!(!early && lines.feed(&output[cut..], 0), "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_an_end_counts_when_it_rests() {
        let mut lines = lines("^ready> $");
        assert!(!lines.feed(b"rea", 0) && !lines.feed(b"dy> ", 40));
        assert!(!lines.last_matches(REST_MS), "something came meanwhile");
        assert!(lines.last_matches(40 + REST_MS));
        assert!(!lines.last_matches(1000), "looked at already");
    }

    #[test]
    fn a_line_that_never_ends_takes_no_more_memory_than_a_long_one() {
        let mut lines = lines("needle");
        assert!((0..100).all(|_| !lines.feed(&[b'x'; READ_BYTES], 0)));
        assert_eq!(lines.last.len(), LINE_BYTES);
        assert!(!lines.feed(b"needle\n", 0) && lines.feed(b"needle\n", 0));
    }

    #[test]
    fn an_address_that_stands_for_all_becomes_one_to_connect_to() {
        let address = |ip: &str| reachable(ip.parse().expect("an address"), 80);
        assert_eq!(address("0.0.0.0"), "tcp:127.0.0.1:80");
        assert_eq!(address("::"), "tcp:[::1]:80");
        assert_eq!(address("10.0.0.7"), "tcp:10.0.0.7:80");
    }
}
