//! The desk: what notifiers share, in `notify/` of the state directory.
//!
//! Promise: an event is claimed on disk before anybody is told of it, and never twice; at most
//! [`MOST_AT_WORK`] notifiers work at a time; the log has a largest size.
//! Start with [`Desk::claim`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::status::Timestamp;
use berth_api::{Code, Problem};
use berth_core::{Occasion, SessionId};
use berth_host::identity::Identity;
use berth_host::lock::{LockFile, Probe, probe};
use berth_host::process::command_line;
use berth_host::{clock, dir, disk};
use berth_store::SessionFiles;
use berth_store::home::Home;
use berth_store::store;
use serde::{Deserialize, Serialize};

use super::NOTIFIER_VERB;

/// How many notifiers may work at the same time. One more waits until another is done.
pub const MOST_AT_WORK: usize = 16;
/// How many claims of one session are remembered; all before the oldest of them count as claimed.
const MOST_CLAIMS: usize = 256;
/// How large the log may become before its older half goes.
const MAX_LOG_BYTES: usize = 256 << 10;
/// How long somebody else may take to write a line.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often one who waits for a seat looks for one.
const SEAT_PAUSE: Duration = Duration::from_millis(50);

const CLAIMS: &str = "claims";
const LOG: &str = "log.jsonl";

/// The place itself.
#[derive(Clone, Debug)]
pub struct Desk {
    dir: PathBuf,
    home: Home,
}

/// A place among those who work. Free again when this is dropped, or its holder dies.
#[derive(Debug)]
pub struct Seat {
    _lock: LockFile,
}

/// What became of telling people of one event in one way.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// When.
    pub at: Timestamp,
    /// The session's id.
    pub session: String,
    /// What people call it.
    pub name: Option<String>,
    /// The number of the event; 0 for a test.
    pub event: u64,
    /// `needs-you`, `failed`, `finished` or `test`.
    pub what: String,
    /// `terminal`, `desktop`, `command` or `webhook.NAME`; empty if it did not come as far.
    pub channel: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Why, or to whom.
    pub detail: String,
    /// How often it was tried.
    pub tries: u32,
}

/// How telling came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Told, as far as can be known.
    Sent,
    /// Nobody is there to be told in this way.
    Skipped,
    /// Not told.
    #[default]
    Failed,
}

impl Desk {
    /// Opens it, or makes it.
    pub fn open(home: &Home) -> Result<Self, Problem> {
        let desk = Self { dir: home.root().join("notify"), home: home.sessions() };
        for place in [desk.dir.clone(), desk.dir.join(CLAIMS)] {
            dir::private_dir(&place).map_err(|error| {
                Problem::new(Code::Refused, format!("cannot keep track of notifications: {error}"))
                    .hint("name another state directory with BERTH_HOME=DIR")
            })?;
        }
        Ok(desk)
    }

    /// The one in this state directory, if there ever was one. Makes nothing.
    pub fn existing(home: &Home) -> Option<Self> {
        let desk = Self { dir: home.root().join("notify"), home: home.sessions() };
        desk.dir.is_dir().then_some(desk)
    }

    /// Takes a seat and signs for it, and waits for one for so long; `None` if all stay taken.
    pub fn sit(&self, patience: Duration) -> io::Result<Option<Seat>> {
        let since = Instant::now();
        loop {
            for number in 0..MOST_AT_WORK {
                let lock = LockFile::open_or_create(&self.dir.join(format!("seat.{number}")))?;
                if lock.try_exclusive()? {
                    lock.write_text(&store::signature(&Identity::me()?))?;
                    return Ok(Some(Seat { _lock: lock }));
                }
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(SEAT_PAUSE.min(left));
        }
    }

    /// Claims these events, all or none. From then on they are told of, or lost: false if one of them was
    /// claimed before. On disk when this returns.
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

    /// Claims of sessions that are gone are of no use. Looked for when a session claims its first.
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
    pub fn note(&self, delivery: &Delivery) -> io::Result<()> {
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

    /// What the log has, the oldest first. A line that cannot be read is left out.
    pub fn deliveries(&self) -> io::Result<Vec<Delivery>> {
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

/// The directories in which notifiers write files, for whoever sweeps.
pub(crate) fn desk_dirs(root: &Path) -> [PathBuf; 2] {
    let dir = root.join("notify");
    [dir.join(CLAIMS), dir]
}

/// Notes that the notifier for an event of a session could not be started.
pub(super) fn note_failure(files: &SessionFiles, event: u64, occasion: Occasion, what: &str) {
    let delivery = Delivery {
        at: Timestamp(clock::wall_ms()),
        session: files.id().to_string(),
        event,
        what: occasion.word().to_owned(),
        detail: what.to_owned(),
        ..Delivery::default()
    };
    // There is nobody left to tell.
    let _ = Desk::open(&files.home()).map(|desk| desk.note(&delivery));
}

/// Whether a process is proven to be a notifier: it was started as one, and it signed for a seat. It may be
/// below a keeper that has nothing to do with it, if it was started by a command of an agent.
pub(crate) fn is_at_work(pid: u32) -> bool {
    told_by(pid).is_some()
}

/// The session that a process tells of, if it is proven to be a notifier.
pub(crate) fn told_by(pid: u32) -> Option<SessionFiles> {
    let session = started_for(pid)?;
    let desk = Desk::existing(&session.home())?;
    let signature = store::signature(&Identity::of(pid).ok()?);
    let signed = |number| {
        let seat = desk.dir.join(format!("seat.{number}"));
        // Anybody can write a text; it counts while the seat is taken.
        fs::read(&seat).is_ok_and(|text| text.starts_with(signature.as_bytes()))
            && matches!(probe(&seat), Ok(Some(Probe::Held)))
    };
    (0..MOST_AT_WORK).any(signed).then_some(session)
}

/// The session that a process was started to tell of, by its command line alone: no proof that it does.
pub(crate) fn started_for(pid: u32) -> Option<SessionFiles> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> (Self, Home) {
            let root = std::env::temp_dir().join(format!("berth-desk-{name}-{}", std::process::id()));
            let home = Home::open(root.clone()).expect("a state directory");
            (Self(root), home)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_event_is_claimed_once_whoever_asks() {
        let (_place, home) = Place::new("claims");
        let desk = Desk::open(&home).expect("a desk");
        let id = home.mint().expect("a session");
        let won: usize = std::thread::scope(|scope| {
            let claim =
                || usize::from(Desk::open(&home).expect("a desk").claim(&id, &[7, 8]).expect("a disk"));
            let all: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).sum()
        });
        assert_eq!(won, 1);
        assert!(!desk.claim(&id, &[8, 9]).expect("a disk"), "8 is claimed");
        assert!(desk.claim(&id, &[6]).expect("a disk"), "an earlier one is another one");
        assert!(desk.claim(&id, &[9]).expect("a disk"));
    }

    #[test]
    fn what_is_too_old_to_be_remembered_counts_as_claimed_and_what_is_purged_is_forgotten() {
        let (_place, home) = Place::new("old");
        let desk = Desk::open(&home).expect("a desk");
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
        let (_place, home) = Place::new("log");
        let desk = Desk::open(&home).expect("a desk");
        let detail = "x".repeat(MAX_LOG_BYTES / 10);
        for event in 1..=40 {
            desk.note(&Delivery { event, detail: detail.clone(), ..Delivery::default() }).expect("a disk");
        }
        let size = fs::metadata(desk.dir.join(LOG)).expect("a log").len() as usize;
        assert!(size <= MAX_LOG_BYTES + MAX_LOG_BYTES / 5, "{size}");
        let kept: Vec<u64> = desk.deliveries().expect("a log").iter().map(|it| it.event).collect();
        assert_eq!(kept.last(), Some(&40));
        assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{kept:?}");
    }

    #[test]
    fn a_seat_that_nobody_holds_proves_nothing_whatever_is_written_there() {
        let (place, home) = Place::new("unheld");
        let desk = Desk::open(&home).expect("a desk");
        // A program that was started like a notifier.
        fs::write(place.0.join(NOTIFIER_VERB), "read line\n").expect("a script");
        let mut like = std::process::Command::new("sh");
        like.arg0("berth").arg(NOTIFIER_VERB).arg(home.session(&home.mint().expect("a session")).argument());
        let mut like = like.current_dir(&place.0).stdin(Stdio::piped()).spawn().expect("sh");
        let seat = LockFile::open_or_create(&desk.dir.join("seat.0")).expect("a file");
        seat.write_text(&store::signature(&Identity::of(like.id()).expect("it lives"))).expect("a disk");
        let of_nobody = is_at_work(like.id());
        assert!(seat.try_exclusive().expect("a lock"));
        let of_somebody = is_at_work(like.id());
        drop(like.stdin.take());
        like.wait().expect("our own child");
        assert_eq!((of_nobody, of_somebody), (false, true));
    }

    #[test]
    fn there_are_only_so_many_seats_and_one_who_merely_looks_like_a_notifier_has_none() {
        let (_place, home) = Place::new("seats");
        let desk = Desk::open(&home).expect("a desk");
        let mut seats: Vec<Seat> =
            (0..MOST_AT_WORK).map(|_| desk.sit(Duration::ZERO).expect("a disk").expect("free")).collect();
        assert!(desk.sit(Duration::ZERO).expect("a disk").is_none());
        // One more waits, and sits down as soon as one gets up.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| desk.sit(Duration::from_secs(60)).expect("a disk").is_some());
            drop(seats.pop());
            assert!(waiting.join().expect("no panic"));
        });
        assert!(!is_at_work(std::process::id()), "it signed, but was not started as one");
    }
}
