//! Notifications: the claims, seats and log that notifiers share, in `notify/` of the state directory.
//!
//! Promise: an event is claimed on disk before any person is notified of it, and never twice; at most
//! [`MOST_AT_WORK`] notifiers work at a time; the log has a largest size.
//! Not here: sending notifications (see the CLI's `notify`). Start with [`NotificationDir::claim`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::status::Timestamp;
use berth_core::{NotificationKind, SessionId};
use berth_host::identity::ProcessIdentity;
use berth_host::lock::{LockFile, LockState, lock_state};
use berth_host::process::command_line;
use berth_host::{clock, dir, disk};
use serde::{Deserialize, Serialize};

use crate::session_files::SessionFiles;
use crate::state_dir::StateDir;
use crate::store;

/// The hidden verb that makes this binary a notifier.
pub const NOTIFIER_VERB: &str = "notifier";
/// The prefix of the variables that describe an event to a user's own command. A session that such a command starts
/// must not see those of another session.
pub const EVENT_VARIABLES: &str = "BERTH_EVENT_";
/// The number of notifiers that may work at the same time. Further ones wait for a free seat.
pub const MOST_AT_WORK: usize = 16;
/// The number of claims remembered for one session; all events before the oldest of them count as claimed.
const MOST_CLAIMS: usize = 256;
/// The size at which the older half of the log is dropped, in bytes.
const MAX_LOG_BYTES: usize = 256 << 10;
/// The time to wait for another process that writes to the log.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two attempts to get a seat.
const SEAT_PAUSE: Duration = Duration::from_millis(50);

const CLAIMS: &str = "claims";
const LOG: &str = "log.jsonl";

/// Something to tell of: the number of the event, and what it is.
pub type NotableEvent = (u64, NotificationKind);

/// The directory `notify/` of a state directory.
#[derive(Clone, Debug)]
pub struct NotificationDir {
    dir: PathBuf,
    home: StateDir,
}

/// A seat among the working notifiers. Free again when this is dropped, or its holder dies.
#[derive(Debug)]
pub struct NotifierPermit {
    _lock: LockFile,
}

/// The result of notifying through one channel of one event.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NotificationDelivery {
    /// The time of the result.
    pub at: Timestamp,
    /// The session's id.
    pub session: String,
    /// The name of the session, if it has one.
    pub name: Option<String>,
    /// The number of the event; 0 for a test.
    pub event: u64,
    /// `needs-you`, `failed`, `finished` or `test`.
    pub what: String,
    /// `terminal`, `desktop`, `command` or `webhook.NAME`; empty if no channel was reached.
    pub channel: String,
    /// The outcome, in one word.
    pub outcome: DeliveryOutcome,
    /// The reason of a failure, or the receiver.
    pub detail: String,
    /// The number of attempts.
    pub tries: u32,
}

/// The outcome of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryOutcome {
    /// The notification was handed over; its receipt is not always known.
    Sent,
    /// This channel has no receiver at the moment, for example because no terminal is open.
    Skipped,
    /// The notification could not be delivered.
    #[default]
    Failed,
}

impl NotificationDir {
    /// Opens the desk, or makes it.
    pub fn open(home: &StateDir) -> Result<Self, Problem> {
        let desk = Self { dir: home.root().join("notify"), home: home.sessions() };
        for place in [desk.dir.clone(), desk.dir.join(CLAIMS)] {
            dir::private_dir(&place).map_err(|error| {
                Problem::refused(format!("cannot keep track of notifications: {error}"))
                    .hint("name another state directory with BERTH_HOME=DIR")
            })?;
        }
        Ok(desk)
    }

    /// The desk of this state directory, if there is one. Makes nothing.
    pub fn existing(home: &StateDir) -> Option<Self> {
        let desk = Self { dir: home.root().join("notify"), home: home.sessions() };
        desk.dir.is_dir().then_some(desk)
    }

    /// Takes one of the few lock files that notifiers share, and writes the holder into it; waits at most `patience`. `None` if
    /// all stay taken.
    pub fn acquire_permit(&self, patience: Duration) -> io::Result<Option<NotifierPermit>> {
        let since = Instant::now();
        loop {
            for number in 0..MOST_AT_WORK {
                let lock = LockFile::open_or_create(&self.dir.join(format!("seat.{number}")))?;
                if lock.try_exclusive()? {
                    lock.write_text(&store::lease_signature(&ProcessIdentity::me()?))?;
                    return Ok(Some(NotifierPermit { _lock: lock }));
                }
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(SEAT_PAUSE.min(left));
        }
    }

    /// Claims these events, all or none. Claimed events are notified once, or lost: false if one of them was claimed
    /// before. On disk when this returns.
    pub fn claim(&self, id: &SessionId, events: &[u64]) -> io::Result<bool> {
        let _lock = self.lock("claims.lock")?;
        let dir = self.dir.join(CLAIMS);
        let text = match fs::read_to_string(dir.join(id.as_str())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget_purged(&dir)?;
                String::new()
            }
            Err(error) => return Err(error),
        };
        let mut claimed: BTreeSet<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let is_full = claimed.len() >= MOST_CLAIMS;
        let forgotten = claimed.first().copied().filter(|_| is_full).unwrap_or_default();
        if events.iter().any(|event| claimed.contains(event) || *event < forgotten) {
            return Ok(false);
        }
        claimed.extend(events);
        while claimed.len() > MOST_CLAIMS {
            claimed.pop_first();
        }
        let text: String = claimed.iter().map(|event| format!("{event}\n")).collect();
        disk::write_atomically(&dir, id.as_str(), text.as_bytes(), true)?;
        Ok(true)
    }

    /// Drops claims of sessions that are gone. Runs when a session claims its first event.
    fn forget_purged(&self, claims: &Path) -> io::Result<()> {
        for entry in fs::read_dir(claims)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(SessionId::parse);
            if id.is_some_and(|id| !self.home.session(&id).exists()) {
                fs::remove_file(claims.join(&name))?;
            }
        }
        Ok(())
    }

    /// Writes a line into the log.
    pub fn note(&self, delivery: &NotificationDelivery) -> io::Result<()> {
        let _lock = self.lock("log.lock")?;
        let path = self.dir.join(LOG);
        let mut text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if text.len() > MAX_LOG_BYTES {
            let half = text.len() / 2;
            let cut =
                text[half..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| half + at + 1);
            text.drain(..cut);
        }
        serde_json::to_writer(&mut text, delivery)?;
        text.push(b'\n');
        disk::write_atomically(&self.dir, LOG, &text, false)
    }

    /// The entries of the log, the oldest first. A line that cannot be read is left out.
    pub fn deliveries(&self) -> io::Result<Vec<NotificationDelivery>> {
        match fs::read_to_string(self.dir.join(LOG)) {
            Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            Err(error) => Err(error),
        }
    }

    fn lock(&self, name: &str) -> io::Result<LockFile> {
        let lock = LockFile::open_or_create(&self.dir.join(name))?;
        if lock.acquire(LOCK_PATIENCE)? {
            return Ok(lock);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("another process keeps {name} locked")))
    }
}

/// The directories in which notifiers write files, for a sweep.
pub fn desk_dirs(home: &StateDir) -> [PathBuf; 2] {
    let dir = home.root().join("notify");
    [dir.join(CLAIMS), dir]
}

/// Notes that the notifier for an event of a session could not be started.
pub fn note_failure(files: &SessionFiles, event: u64, occasion: NotificationKind, what: &str) {
    let delivery = NotificationDelivery {
        at: Timestamp(clock::wall_ms()),
        session: files.id().to_string(),
        event,
        what: occasion.word().to_owned(),
        detail: what.to_owned(),
        ..NotificationDelivery::default()
    };
    // No person is left to report this to.
    let _ = NotificationDir::open(&files.home()).map(|desk| desk.note(&delivery));
}

/// True if a process is proven to be a notifier: it was started as one, and it signed for a seat. It may be below an
/// unrelated keeper, if it was started by a command of an agent.
pub fn is_notifier_running(pid: u32) -> bool {
    notified_session(pid).is_some()
}

/// The session that a process notifies of, if it is proven to be a notifier.
pub fn notified_session(pid: u32) -> Option<SessionFiles> {
    let session = session_notifier_was_started_for(pid)?;
    let desk = NotificationDir::existing(&session.home())?;
    let signature = store::lease_signature(&ProcessIdentity::of(pid).ok()?);
    let signed = |number| {
        let seat = desk.dir.join(format!("seat.{number}"));
        // Any process of this account can write the text; it counts only while the seat is taken.
        fs::read(&seat).is_ok_and(|text| text.starts_with(signature.as_bytes()))
            && matches!(lock_state(&seat), Ok(Some(LockState::Held)))
    };
    (0..MOST_AT_WORK).any(signed).then_some(session)
}

/// The session that a process was started to notify of, by its command line alone, which is not proof.
pub fn session_notifier_was_started_for(pid: u32) -> Option<SessionFiles> {
    session_of(&command_line(pid).ok()?)
}

/// The session that a notifier's command line names.
fn session_of(line: &[u8]) -> Option<SessionFiles> {
    let mut words = line.split(|byte| *byte == 0).map(str::from_utf8);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok("berth")), Some(Ok(verb)), Some(Ok(dir))) if verb == NOTIFIER_VERB => {
            SessionFiles::understand(dir.as_ref())
        }
        _ => None,
    }
}

/// Parses the arguments of a notifier: the session's directory, and the events.
pub fn read_args(args: &[OsString]) -> Option<(PathBuf, Vec<NotableEvent>)> {
    let (dir, rest) = args.split_first()?;
    let told = |word: &OsString| {
        let (seq, occasion) = word.to_str()?.split_once('=')?;
        Some((seq.parse().ok()?, NotificationKind::named(occasion)?))
    };
    let told = rest.iter().map(told).collect::<Option<Vec<NotableEvent>>>()?;
    (!told.is_empty()).then(|| (dir.into(), told))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    use berth_test_dir::TestDir;

    use super::*;

    fn home() -> (TestDir, StateDir) {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        (dir, home)
    }

    #[test]
    fn an_event_is_claimed_once_by_any_process() {
        let (_place, home) = home();
        let desk = NotificationDir::open(&home).expect("a desk");
        let id = home.mint().expect("a session");
        let won: usize = std::thread::scope(|scope| {
            let claim = || {
                usize::from(
                    NotificationDir::open(&home).expect("a desk").claim(&id, &[7, 8]).expect("a disk"),
                )
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).sum()
        });
        assert_eq!(won, 1);
        assert!(!desk.claim(&id, &[8, 9]).expect("a disk"), "8 is claimed");
        assert!(desk.claim(&id, &[6]).expect("a disk"), "an earlier one is another one");
        assert!(desk.claim(&id, &[9]).expect("a disk"));
    }

    #[test]
    fn events_too_old_to_remember_count_as_claimed_and_purged_sessions_are_forgotten() {
        let (_place, home) = home();
        let desk = NotificationDir::open(&home).expect("a desk");
        let id = home.mint().expect("a session");
        for event in 1..=MOST_CLAIMS as u64 + 10 {
            assert!(desk.claim(&id, &[event * 2]).expect("a disk"));
        }
        assert!(!desk.claim(&id, &[3]).expect("a disk"));
        let text = fs::read_to_string(desk.dir.join(CLAIMS).join(id.as_str())).expect("claims");
        assert_eq!(text.lines().count(), MOST_CLAIMS);
        home.unmint(&id);
        let next = home.mint().expect("a session");
        assert!(desk.claim(&next, &[1]).expect("a disk"));
        assert!(!desk.dir.join(CLAIMS).join(id.as_str()).exists());
    }

    #[test]
    fn the_log_has_a_largest_size_and_keeps_the_newest() {
        let (_place, home) = home();
        let desk = NotificationDir::open(&home).expect("a desk");
        let detail = "x".repeat(MAX_LOG_BYTES / 10);
        for event in 1..=40 {
            desk.note(&NotificationDelivery {
                event,
                detail: detail.clone(),
                ..NotificationDelivery::default()
            })
            .expect("a disk");
        }
        let size = fs::metadata(desk.dir.join(LOG)).expect("a log").len() as usize;
        assert!(size <= MAX_LOG_BYTES + MAX_LOG_BYTES / 5, "{size}");
        let kept: Vec<u64> = desk.deliveries().expect("a log").iter().map(|it| it.event).collect();
        assert_eq!(kept.last(), Some(&40));
        assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{kept:?}");
    }

    #[test]
    fn a_seat_without_a_holder_proves_nothing_even_with_a_signature() {
        let (place, home) = home();
        let desk = NotificationDir::open(&home).expect("a desk");
        // A program that was started like a notifier.
        fs::write(place.join(NOTIFIER_VERB), "read line\n").expect("a script");
        let mut like = std::process::Command::new("sh");
        like.arg0("berth").arg(NOTIFIER_VERB).arg(home.session(&home.mint().expect("a session")).argument());
        let mut like = like.current_dir(&place).stdin(Stdio::piped()).spawn().expect("sh");
        let seat = LockFile::open_or_create(&desk.dir.join("seat.0")).expect("a file");
        seat.write_text(&store::lease_signature(&ProcessIdentity::of(like.id()).expect("it lives")))
            .expect("a disk");
        let of_nobody = is_notifier_running(like.id());
        assert!(seat.try_exclusive().expect("a lock"));
        let of_somebody = is_notifier_running(like.id());
        drop(like.stdin.take());
        like.wait().expect("our own child");
        assert_eq!((of_nobody, of_somebody), (false, true));
    }

    #[test]
    fn seats_are_limited_and_a_process_that_only_looks_like_a_notifier_has_none() {
        let (_place, home) = home();
        let desk = NotificationDir::open(&home).expect("a desk");
        let mut seats: Vec<NotifierPermit> = (0..MOST_AT_WORK)
            .map(|_| desk.acquire_permit(Duration::ZERO).expect("a disk").expect("free"))
            .collect();
        assert!(desk.acquire_permit(Duration::ZERO).expect("a disk").is_none());
        // One more notifier waits, and sits down as soon as one gets up.
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| desk.acquire_permit(Duration::from_secs(60)).expect("a disk").is_some());
            drop(seats.pop());
            assert!(waiting.join().expect("no panic"));
        });
        assert!(!is_notifier_running(std::process::id()), "it signed, but was not started as one");
    }

    #[test]
    fn a_notifier_understands_what_a_keeper_says() {
        let words = ["/h/sessions/x", "5=failed", "6=needs-you"].map(OsString::from);
        let told = vec![(5, NotificationKind::Failed), (6, NotificationKind::NeedsYou)];
        assert_eq!(read_args(&words), Some(("/h/sessions/x".into(), told)));
        assert_eq!(read_args(&words[..1]), None);
    }
}
