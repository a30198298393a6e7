//! Telling people who are not looking: whether there is anybody to tell, and starting the notifier.
//!
//! The notifier is this same binary under a hidden verb. It reads the config file, claims the event at the
//! [`Desk`], tells people, and is gone. It is of no run: not below the keeper in the process tree, in none of the
//! run's groups, without its lock and its mark. So nothing that hangs in it holds up a session or its keeper.
//! Promise: it is started only after what it tells of is on disk, and at most once for each event.
//! Not here: what is worth telling (see [`berth_core::occasions`]), to whom and how (see the CLI's `notify`).
//! Start with `tell`.

mod desk;

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use berth_core::{Occasion, Session, occasions};
use berth_host::cgroup;
use berth_host::spawn::{Spawn, Stdio, THIS_PROGRAM, spawn, spawn_beside};
use berth_host::systemd::Manager;
use berth_journal::Committed;
use berth_store::SessionFiles;
use berth_store::history::Stored;

use crate::start;

pub use desk::{Delivery, Desk, MOST_AT_WORK, Outcome, Seat};
pub(crate) use desk::{desk_dirs, is_at_work, started_for, told_by};

/// The hidden verb that makes this binary a notifier.
pub const NOTIFIER_VERB: &str = "notifier";
/// A config file larger than this is refused by everybody who reads it.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// How long a keeper waits for a look at the config file: much longer than a disk takes that is well.
const LOOK_PATIENCE: Duration = Duration::from_millis(100);
/// What such a look needs, generously.
const LOOK_STACK_BYTES: usize = 64 << 10;

/// What the variables begin with that override keys of the config file about notifications.
const VARIABLES: &str = "BERTH_NOTIFY_";

/// Something to tell of: the number of the event, and what it is.
pub type Told = (u64, Occasion);

/// Which of these events are worth telling of. `session` is the state after them.
pub(crate) fn worth_telling(session: &Session, events: &[Committed<Stored>]) -> Vec<Told> {
    let policy = session.spec.as_ref().map(|spec| &spec.policy.notify);
    if policy.is_some_and(berth_core::Notify::is_never) {
        return vec![];
    }
    let found = occasions(session, events.iter().map(|event| &event.get().event));
    found.into_iter().map(|(at, occasion)| (events[at].seq().0, occasion)).collect()
}

/// Who starts the notifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Teller {
    /// A keeper: whatever is below it in the process tree is of its run.
    Keeper,
    /// A command that is about to end.
    Command,
}

/// Starts the notifier for what happened in a session, if the config file speaks of notifications.
/// What goes wrong here is told to nobody but the log of notifications: the event itself is on disk.
pub(crate) fn tell(files: &SessionFiles, told: &[Told], teller: Teller, known: &mut Known) {
    if told.is_empty() || !known.is_wanted() {
        return;
    }
    if let Err(why) = start_notifier(files, told, teller) {
        let (seq, occasion) = told[0];
        let what = format!("cannot start the notifier: {why}");
        desk::note_failure(files, seq, occasion, &what);
    }
}

/// What is known of the config file: whether it speaks of notifications at all. Most do not, and starting a
/// program only to find that out would cost every turn.
///
/// The file may be on a disk of another machine that does not answer, and a keeper waits for no disk but its own.
/// So it is looked at beside it; if that takes too long the notifier is started, and finds out.
#[derive(Debug, Default)]
pub(crate) struct Known {
    last: Seen,
    /// Where a look that took too long will say what it saw.
    overdue: Option<Receiver<Seen>>,
}

/// What was seen of the config file: which version of it, and whether that speaks of notifications.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    version: Option<(SystemTime, u64)>,
    mentions: bool,
}

impl Known {
    fn is_wanted(&mut self) -> bool {
        // Every short key has a variable as well.
        if std::env::vars_os().any(|(name, _)| name.as_bytes().starts_with(VARIABLES.as_bytes())) {
            return true;
        }
        let Some(path) = config_file() else { return false };
        self.look(LOOK_PATIENCE, move |last| last.at(&path))
    }

    /// Looks, for so long at most. One that hangs is not followed by another.
    fn look(&mut self, patience: Duration, look: impl FnOnce(Seen) -> Seen + Send + 'static) -> bool {
        let seen = match self.overdue.take() {
            Some(overdue) => overdue,
            None => {
                let (tell, seen) = mpsc::channel();
                let last = self.last;
                let thread = std::thread::Builder::new().stack_size(LOOK_STACK_BYTES);
                // Without a thread the notifier finds out.
                let looking = thread.spawn(move || tell.send(look(last)));
                if looking.is_err() {
                    return true;
                }
                seen
            }
        };
        match seen.recv_timeout(patience) {
            Ok(now) => {
                self.last = now;
                now.mentions
            }
            Err(RecvTimeoutError::Timeout) => {
                self.overdue = Some(seen);
                true
            }
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }
}

impl Seen {
    /// What is there now. Anything but a file says nothing: reading a pipe would wait for somebody who writes.
    fn at(self, path: &Path) -> Self {
        let Ok(found) = fs::metadata(path) else { return Self::default() };
        let Ok(changed) = found.modified() else { return Self { version: None, mentions: true } };
        let version = Some((changed, found.len()));
        if self.version == version {
            return self;
        }
        let is_readable = found.is_file() && found.len() <= MAX_CONFIG_BYTES;
        let text = if is_readable { fs::read(path).unwrap_or_default() } else { Vec::new() };
        Self { version, mentions: mentions(&text) }
    }
}

/// Whether a line of the file may begin the table, or a key of it. Not understood here: one that turns out to be
/// of something else costs one start in vain.
fn mentions(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let word = line.trim_ascii_start();
        let word = word.strip_prefix(b"[").unwrap_or(word).trim_ascii_start();
        let word = word.strip_prefix(b"\"").or(word.strip_prefix(b"'")).unwrap_or(word);
        word.starts_with(b"notify")
    })
}

/// Where the config file is, or would be. The CLI reads it; here it is only looked at.
pub fn config_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    config_place(set("BERTH_CONFIG"), set("XDG_CONFIG_HOME"), set("HOME"))
}

/// The same by what these variables say: `$BERTH_CONFIG`, else `$XDG_CONFIG_HOME/berth/config.toml`, else
/// `~/.config/berth/config.toml`.
pub fn config_place(
    berth: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    if let Some(file) = berth.map(PathBuf::from) {
        return Some(std::path::absolute(&file).unwrap_or(file));
    }
    // The XDG specification says that a relative path there is to be ignored.
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let dir = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
    Some(dir.join("berth/config.toml"))
}

fn start_notifier(files: &SessionFiles, told: &[Told], teller: Teller) -> Result<(), String> {
    let null = fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| format!("opening /dev/null: {error}"))?;
    let mut args: Vec<OsString> = vec!["berth".into(), NOTIFIER_VERB.into(), files.argument()];
    args.extend(told.iter().map(|(seq, occasion)| format!("{seq}={}", occasion.word()).into()));
    let env = start::environment();
    // A keeper is in no group of its run. A command may be: agents call berth, too. So what it starts is put where
    // a keeper would be.
    let (manager, birthplace) = match teller {
        Teller::Keeper => (None, None),
        Teller::Command => match Manager::reach() {
            Ok(manager) => (Some(manager), None),
            Err(_) => (None, cgroup::keeper_place().ok()),
        },
    };
    let mut spec = Spawn {
        program: Path::new(THIS_PROGRAM),
        args: &args,
        env: &env,
        cwd: Path::new("/"),
        stdio: Stdio::Files { stdin: null.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
        keep: &[],
        cgroup: birthplace.as_ref().map(|place| place.as_fd()),
        joins: &[],
    };
    let mut started = match teller {
        Teller::Keeper => spawn_beside(&spec),
        Teller::Command => spawn(&spec),
    };
    if started.is_err() && spec.cgroup.take().is_some() {
        started = spawn(&spec);
    }
    let child = started.map_err(|error| error.to_string())?;
    if let Some(manager) = manager
        && manager.make_scope(child.pid, NOTIFIER_VERB, "Notifier of berth").is_err()
        && let Ok(group) = cgroup::keeper_place()
    {
        let _ = group.take_in(child.pid);
    }
    Ok(())
}

/// What a notifier was started with: the session's directory, and what to tell of.
pub fn read_args(args: &[OsString]) -> Option<(PathBuf, Vec<Told>)> {
    let (dir, rest) = args.split_first()?;
    let told = |word: &OsString| {
        let (seq, occasion) = word.to_str()?.split_once('=')?;
        Some((seq.parse().ok()?, Occasion::named(occasion)?))
    };
    let told = rest.iter().map(told).collect::<Option<Vec<Told>>>()?;
    (!told.is_empty()).then(|| (dir.into(), told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_file_that_may_speak_of_notifications_is_known_by_its_lines() {
        for text in
            ["[notify]", "x = 1\n  [ notify.webhook ]", "notify.on = []", "[\"notify\"]", "['notify']"]
        {
            assert!(mentions(text.as_bytes()), "{text}");
        }
        for text in ["", "[agents.notify]", "# [notify]", "command = [\"notify\"]"] {
            assert!(!mentions(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_config_file_that_cannot_be_looked_at_holds_up_nobody_and_is_left_to_the_notifier() {
        let mut known = Known::default();
        let (go, gate) = mpsc::channel::<()>();
        let hangs = move |last| {
            let _ = gate.recv();
            last
        };
        assert!(known.look(Duration::ZERO, hangs));
        // Another look would hang as well: there is none until the first is over.
        assert!(known.look(Duration::ZERO, |_| panic!("a second look")));
        drop(go);
        assert!(!known.look(Duration::from_secs(60), |_| panic!("a second look")));
        assert!(known.look(Duration::from_secs(60), |last| Seen { mentions: true, ..last }));
    }

    #[test]
    fn a_config_file_is_read_again_when_it_changed_and_a_pipe_never() {
        let dir = std::env::temp_dir().join(format!("berth-notify-known-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("config.toml");
        assert!(!Seen::default().at(&file).mentions);
        fs::write(&file, "[notify]\n").expect("a file");
        let seen = Seen::default().at(&file);
        assert!(seen.mentions && seen.at(&file).mentions);
        fs::write(&file, "").expect("a file");
        assert!(!seen.at(&file).mentions);
        let pipe = dir.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert!(!Seen::default().at(&pipe).mentions);
        fs::remove_dir_all(&dir).expect("our own directory");
    }

    #[test]
    fn a_notifier_understands_what_a_keeper_says() {
        let words = ["/h/sessions/x", "5=failed", "6=needs-you"].map(OsString::from);
        let told = vec![(5, Occasion::Failed), (6, Occasion::NeedsYou)];
        assert_eq!(read_args(&words), Some(("/h/sessions/x".into(), told)));
        assert_eq!(read_args(&words[..1]), None);
    }
}
