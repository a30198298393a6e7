//! Sessions of other hosts: the current ones, or the last known ones.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use berth_api::{Problem, SessionStatus, Timestamp};
use berth_config::hosts::{MAX_ANSWER_BYTES, load_snapshot};
use berth_core::SessionId;
use berth_store::StateDir;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::ssh::{self, PasswordPrompt};
use super::{HostSnapshot, RemoteHost, all_hosts, save_snapshot};

/// Time after which a silent host counts as unreachable.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Limit for the sessions of one host: the other machine may be hostile, and its answer is kept in memory and on disk.
pub const MAX_SESSIONS: usize = 2000;
/// Limit for the error output of ssh that is kept.
const MAX_COMPLAINT_BYTES: u64 = 4 * 1024;
/// Time to wait for that output after a failure.
const COMPLAINT_PATIENCE: Duration = Duration::from_secs(2);

/// State of a host.
#[derive(Clone, Debug, Serialize)]
pub struct HostStatus {
    /// Name and address, as they were configured.
    #[serde(flatten)]
    pub host: RemoteHost,
    /// Reason why the host did not answer; the state is the last known one then.
    pub away: Option<String>,
    /// Age of the state in milliseconds; null if no state is known.
    pub age_ms: Option<u64>,
    /// Version of berth on that host.
    pub version: Option<String>,
    /// Difference between the two versions, if there is one.
    pub skew: Option<String>,
    /// Sessions of the host.
    pub sessions: Vec<SessionStatus>,
    /// Number of further sessions: see [`MAX_SESSIONS`].
    pub more: u64,
}

/// Asks one host. An unreachable host has its last known state.
pub fn host_status(
    home: &StateDir,
    host: &RemoteHost,
    asking: PasswordPrompt,
    patience: Duration,
) -> HostStatus {
    let (away, known) = match ask_host(host, asking, patience) {
        Ok(now) => {
            save_snapshot(home, host, &now);
            (None, Some(now))
        }
        Err(problem) => (Some(problem.what), load_snapshot(home, host)),
    };
    let now_ms = berth_host::clock::wall_ms();
    let age_ms = known.as_ref().map(|known| now_ms.saturating_sub(known.at.0));
    let version = known.as_ref().map(|known| known.version.clone());
    let skew = version.as_deref().and_then(version_skew);
    let (sessions, more) = known.map_or((vec![], 0), |known| (known.sessions, known.more));
    HostStatus { host: host.clone(), away, age_ms, version, skew, sessions, more }
}

/// Asks all hosts that were added, in parallel.
pub fn all_host_statuses(home: &StateDir, patience: Duration) -> Result<Vec<HostStatus>, Problem> {
    let hosts = all_hosts(home)?;
    Ok(std::thread::scope(|scope| {
        let looking: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || host_status(home, host, PasswordPrompt::Never, patience)))
            .collect();
        let looked = looking.into_iter().map(|thread| thread.join());
        looked.map(|looked| looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }))
}

/// The message about two different versions.
pub fn version_skew(there: &str) -> Option<String> {
    let here = env!("CARGO_PKG_VERSION");
    (there != here).then(|| format!("berth is {there} there and {here} here"))
}

/// Asks a host for its version and its sessions.
pub fn ask_host(
    host: &RemoteHost,
    asking: PasswordPrompt,
    patience: Duration,
) -> Result<HostSnapshot, Problem> {
    let mut command = ssh::ssh_command(host, asking, &["proxy".to_owned()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let (told, heard) = mpsc::channel();
    let talk = conversation(&mut child);
    let complaint = child.stderr.take().map(SshStderr::listen);
    // A thread that gets no answer in time is not waited for: the end of ssh, below, ends it.
    std::thread::spawn(move || told.send(talk.and_then(|mut talk| talk.both())));
    let answer = match heard.recv_timeout(patience) {
        Ok(answer) => answer,
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let what = format!("{} gave no answer within {} s", host.target, patience.as_secs());
            return Err(
                Problem::unreachable(what).hint(format!("check that `ssh {} true` works", host.target))
            );
        }
    };
    // Only a failure is worth waiting for a reason.
    let said = answer.as_ref().err().and(complaint).map_or_else(String::new, |complaint| complaint.whole());
    let _ = child.kill();
    let exit = child.wait().ok().and_then(|status| status.code());
    answer.map_err(|error| match exit {
        Some(ssh::SSH_FAILED | ssh::NOT_THERE) => ssh::ssh_failure(host, exit, &said),
        Some(_) | None => {
            Problem::unreachable(format!("berth on {} gave no answer: {error}; {said}", host.target))
                .hint(format!("`berth --host {} doctor` may tell why; is berth there too old?", host.name))
        }
    })
}

/// Error output of ssh. It may stay open long after ssh has ended: a master process for the next connection keeps it
/// open.
struct SshStderr(mpsc::Receiver<Vec<u8>>);

impl SshStderr {
    fn listen(stderr: ChildStderr) -> Self {
        let (told, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut stderr, mut buffer) = (stderr.take(MAX_COMPLAINT_BYTES), [0; 1024]);
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                if told.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self(heard)
    }

    /// The whole output of an ssh that is ending.
    fn whole(&self) -> String {
        let until = Instant::now() + COMPLAINT_PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        let said: Vec<u8> = std::iter::from_fn(|| self.0.recv_timeout(left()).ok()).flatten().collect();
        String::from_utf8_lossy(&said).into_owned()
    }
}

fn conversation(child: &mut Child) -> io::Result<SshHttp> {
    let ends = child.stdin.take().zip(child.stdout.take());
    let (write, read) = ends.ok_or_else(|| io::Error::other("ssh has no ends"))?;
    Ok(SshHttp { write: Box::new(write), read: BufReader::new(Box::new(read)) })
}

/// HTTP over the input and output of ssh.
struct SshHttp {
    write: Box<dyn Write + Send>,
    read: BufReader<Box<dyn Read + Send>>,
}

#[derive(Deserialize)]
struct RemoteHealth {
    version: String,
}

#[derive(Deserialize)]
struct RemoteSessions {
    sessions: BoundedSessions,
}

/// As many sessions as are kept, and the number of the others. An entry without an id is skipped: every field of a
/// [`SessionStatus`] may be left out, and three bytes must not become a session.
#[derive(Default, Debug)]
struct BoundedSessions {
    kept: Vec<SessionStatus>,
    more: u64,
}

impl<'de> Deserialize<'de> for BoundedSessions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct BoundedSessionsVisitor;
        impl<'de> Visitor<'de> for BoundedSessionsVisitor {
            type Value = BoundedSessions;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of sessions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BoundedSessions, A::Error> {
                let mut some = BoundedSessions::default();
                while some.kept.len() < MAX_SESSIONS {
                    let Some(status) = list.next_element::<SessionStatus>()? else { return Ok(some) };
                    some.kept.extend(Some(status).filter(|status| SessionId::parse(&status.id).is_some()));
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    some.more += 1;
                }
                Ok(some)
            }
        }
        from.deserialize_seq(BoundedSessionsVisitor)
    }
}

impl SshHttp {
    fn both(&mut self) -> io::Result<HostSnapshot> {
        let health: RemoteHealth = serde_json::from_slice(&self.get("/healthz")?)?;
        let listed: RemoteSessions = serde_json::from_slice(&self.get("/v1/sessions?all=true")?)?;
        let at = Timestamp(berth_host::clock::wall_ms());
        let BoundedSessions { kept, more } = listed.sessions;
        Ok(HostSnapshot { at, version: health.version, sessions: kept, more })
    }

    fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        write!(self.write, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        self.write.flush()?;
        let first = self.line()?;
        let mut length = None;
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                _ if line.is_empty() => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse::<u64>().ok();
                }
                Some(_) | None => {}
            }
        }
        let length = length.ok_or_else(|| odd("an answer without end"))?;
        if length > MAX_ANSWER_BYTES {
            return Err(odd(&format!("an answer of {length} bytes; at most {MAX_ANSWER_BYTES} are allowed")));
        }
        let mut body = Vec::new();
        self.read.by_ref().take(length).read_to_end(&mut body)?;
        if first.split(' ').nth(1) != Some("200") {
            return Err(odd(&format!("{first}: {}", String::from_utf8_lossy(&body))));
        }
        Ok(body)
    }

    /// One line of a head. Text that a login shell prints is not HTTP, and is passed on in the error.
    fn line(&mut self) -> io::Result<String> {
        const LONGEST: u64 = 16 * 1024;
        let mut line = String::new();
        if self.read.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
