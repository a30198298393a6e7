//! The sessions of other hosts, now or as they were last known.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem, Status, Timestamp};
use berth_core::SessionId;
use berth_store::Home;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::ssh::{self, Asking};
use super::{Host, Known, all, known, remember};

/// How long a host may take before it is away.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// The most sessions of one host: it is somebody else's machine, and what it says is kept in memory and on disk.
pub const MAX_SESSIONS: usize = 2000;
/// The largest answer: that many sessions, with some words about each.
pub(super) const MAX_ANSWER_BYTES: u64 = 8 * 1024 * 1024;
/// How much of what ssh complains about is kept.
const MAX_COMPLAINT_BYTES: u64 = 4 * 1024;
/// How long is listened to it, if it gave no answer.
const COMPLAINT_PATIENCE: Duration = Duration::from_secs(2);

/// What is known of a host.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// Which.
    #[serde(flatten)]
    pub host: Host,
    /// Why nothing newer is known.
    pub away: Option<String>,
    /// How old what is known is.
    pub age_ms: Option<u64>,
    /// berth's version there.
    pub version: Option<String>,
    /// What differs between the two versions, if they are not the same.
    pub skew: Option<String>,
    /// Its sessions.
    pub sessions: Vec<Status>,
    /// How many it has besides these: see [`MAX_SESSIONS`].
    pub beyond: u64,
}

/// Looks at one host. One that is away is what it last was.
pub fn look(home: &Home, host: &Host, asking: Asking, patience: Duration) -> Look {
    let (away, known) = match ask(host, asking, patience) {
        Ok(now) => {
            remember(home, host, &now);
            (None, Some(now))
        }
        Err(problem) => (Some(problem.what), known(home, host)),
    };
    let now_ms = berth_host::clock::wall_ms();
    let age_ms = known.as_ref().map(|known| now_ms.saturating_sub(known.at.0));
    let version = known.as_ref().map(|known| known.version.clone());
    let skew = version.as_deref().and_then(skew);
    let (sessions, beyond) = known.map_or((vec![], 0), |known| (known.sessions, known.beyond));
    Look { host: host.clone(), away, age_ms, version, skew, sessions, beyond }
}

/// Looks at all hosts that were added, at the same time.
pub fn look_at_all(home: &Home, patience: Duration) -> Result<Vec<Look>, Problem> {
    let hosts = all(home)?;
    Ok(std::thread::scope(|scope| {
        let looking: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || look(home, host, Asking::Nobody, patience)))
            .collect();
        let looked = looking.into_iter().map(|thread| thread.join());
        looked.map(|looked| looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }))
}

/// What to say when the two sides are not of the same version.
pub fn skew(there: &str) -> Option<String> {
    let here = env!("CARGO_PKG_VERSION");
    (there != here).then(|| format!("berth is {there} there and {here} here"))
}

/// Asks a host for its version and its sessions.
pub fn ask(host: &Host, asking: Asking, patience: Duration) -> Result<Known, Problem> {
    let mut command = ssh::command(host, asking, &["proxy".to_owned()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let (told, heard) = mpsc::channel();
    let talk = conversation(&mut child);
    let complaint = child.stderr.take().map(Complaint::listen);
    // Whoever does not answer in time is not waited for: its end, below, ends this.
    std::thread::spawn(move || told.send(talk.and_then(|mut talk| talk.both())));
    let answer = match heard.recv_timeout(patience) {
        Ok(answer) => answer,
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let what = format!("{} did not answer within {} s", host.target, patience.as_secs());
            return Err(
                Problem::new(Code::Unreachable, what).hint(format!("`ssh {} true` has to work", host.target))
            );
        }
    };
    // Only what went wrong is worth waiting for a reason.
    let said = answer.as_ref().err().and(complaint).map_or_else(String::new, |complaint| complaint.whole());
    let _ = child.kill();
    let exit = child.wait().ok().and_then(|status| status.code());
    answer.map_err(|error| match exit {
        Some(ssh::SSH_FAILED | ssh::NOT_THERE) => ssh::failure(host, exit, &said),
        Some(_) | None => Problem::new(
            Code::Unreachable,
            format!("berth on {} gave no answer: {error}; {said}", host.target),
        )
        .hint(format!("`berth --host {} doctor` may tell why; is berth there too old?", host.name)),
    })
}

/// What ssh says on standard error. It may stay open for long after ssh is gone: a master that it left behind for the
/// next connection has it, too.
struct Complaint(mpsc::Receiver<Vec<u8>>);

impl Complaint {
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

    /// All of it, from one that is ending.
    fn whole(&self) -> String {
        let until = Instant::now() + COMPLAINT_PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        let said: Vec<u8> = std::iter::from_fn(|| self.0.recv_timeout(left()).ok()).flatten().collect();
        String::from_utf8_lossy(&said).into_owned()
    }
}

fn conversation(child: &mut Child) -> io::Result<Talk> {
    let ends = child.stdin.take().zip(child.stdout.take());
    let (write, read) = ends.ok_or_else(|| io::Error::other("ssh has no ends"))?;
    Ok(Talk { write: Box::new(write), read: BufReader::new(Box::new(read)) })
}

/// HTTP on the two ends of ssh.
struct Talk {
    write: Box<dyn Write + Send>,
    read: BufReader<Box<dyn Read + Send>>,
}

#[derive(Deserialize)]
struct Health {
    version: String,
}

#[derive(Deserialize)]
struct Sessions {
    sessions: Listed,
}

/// As many sessions as are kept, and how many there are besides. What has no id is none: every field of a [`Status`] may
/// be left out, and three bytes must not become a session.
#[derive(Default, Debug)]
struct Listed {
    kept: Vec<Status>,
    beyond: u64,
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Listed;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of sessions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listed, A::Error> {
                let mut some = Listed::default();
                while some.kept.len() < MAX_SESSIONS {
                    let Some(status) = list.next_element::<Status>()? else { return Ok(some) };
                    some.kept.extend(Some(status).filter(|status| SessionId::parse(&status.id).is_some()));
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    some.beyond += 1;
                }
                Ok(some)
            }
        }
        from.deserialize_seq(Counting)
    }
}

impl Talk {
    fn both(&mut self) -> io::Result<Known> {
        let health: Health = serde_json::from_slice(&self.get("/healthz")?)?;
        let listed: Sessions = serde_json::from_slice(&self.get("/v1/sessions?all=true")?)?;
        let at = Timestamp(berth_host::clock::wall_ms());
        let Listed { kept, beyond } = listed.sessions;
        Ok(Known { at, version: health.version, sessions: kept, beyond })
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
            return Err(odd(&format!("an answer of {length} bytes, and {MAX_ANSWER_BYTES} are the most")));
        }
        let mut body = Vec::new();
        self.read.by_ref().take(length).read_to_end(&mut body)?;
        if first.split(' ').nth(1) != Some("200") {
            return Err(odd(&format!("{first}: {}", String::from_utf8_lossy(&body))));
        }
        Ok(body)
    }

    /// One line of a head. What the other side's shell says at login is not HTTP, and is said as it is.
    fn line(&mut self) -> io::Result<String> {
        const LONGEST: u64 = 16 * 1024;
        let mut line = String::new();
        if self.read.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
