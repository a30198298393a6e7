//! Notifying people who are not looking: checks that notifications are configured, and starts the notifier.
//!
//! The notifier is this binary under a hidden verb. It reads the config file, claims the event at the
//! [`berth_store::notifications::NotificationDir`], sends the notifications, and exits. It is not part of a run: not below the keeper
//! in the process tree, in none of the run's groups, without its lock and its mark. So a notifier that hangs does not
//! delay a session or its keeper.
//! Promise: the notifier is started only after its event is on disk, and at most once for each event.
//! Not here: choosing the events (see [`berth_core::occasions`]), receivers and channels (see the CLI's `notify`).
//! Start with `tell`.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use berth_core::{Session, occasions};
use berth_host::cgroup;
use berth_host::spawn::{ChildStdio, SpawnOptions, THIS_PROGRAM, spawn, spawn_beside};
use berth_host::systemd::SystemdManager;
use berth_journal::Committed;
use berth_store::SessionFiles;
use berth_store::config_file::config_file;
use berth_store::notifications::{self, NOTIFIER_VERB, NotableEvent};
use berth_store::session_view::StoredEvent;

use crate::spawn_keeper;

/// The largest config file; every reader rejects a larger one.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// The time a keeper waits for a look at the config file: much longer than a healthy disk takes.
const LOOK_PATIENCE: Duration = Duration::from_millis(100);
/// The stack of the thread for such a look, in bytes; generous.
const LOOK_STACK_BYTES: usize = 64 << 10;

/// The prefix of the variables that override notification keys of the config file.
const VARIABLES: &str = "BERTH_NOTIFY_";

/// Selects the events that are worth a notification. `session` is the state after them.
pub(crate) fn select_notable(session: &Session, events: &[Committed<StoredEvent>]) -> Vec<NotableEvent> {
    let policy = session.spec.as_ref().map(|spec| &spec.policy.notify);
    if policy.is_some_and(berth_core::NotificationPolicy::is_never) {
        return vec![];
    }
    let found = occasions(session, events.iter().map(|event| &event.get().event));
    found.into_iter().map(|(at, occasion)| (events[at].seq().0, occasion)).collect()
}

/// The process that starts the notifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotifierParent {
    /// A keeper: every process below it in the process tree is of its run.
    Keeper,
    /// A command that is about to end.
    Command,
}

/// Starts the notifier for events of a session, if the config file mentions notifications. A failure here goes only
/// to the log of notifications: the event itself is on disk.
pub(crate) fn notify_of_events(
    files: &SessionFiles,
    told: &[NotableEvent],
    teller: NotifierParent,
    known: &mut NotifyConfigCache,
) {
    if told.is_empty() || !known.is_wanted() {
        return;
    }
    if let Err(why) = start_notifier(files, told, teller) {
        let (seq, occasion) = told[0];
        let what = format!("cannot start the notifier: {why}");
        notifications::note_failure(files, seq, occasion, &what);
    }
}

/// A cache of one fact about the config file: whether it mentions notifications at all. Most do not, and starting a
/// program only to find that out would cost every turn.
///
/// The file may be on a remote disk that does not answer, and a keeper waits only for its own disk. So a separate
/// thread looks at the file; if that takes too long the notifier is started, and finds out.
#[derive(Debug, Default)]
pub(crate) struct NotifyConfigCache {
    last: NotifyConfigState,
    /// The channel on which a look that took too long will report.
    overdue: Option<Receiver<NotifyConfigState>>,
}

/// The observed version of the config file, and whether that mentions notifications.
#[derive(Clone, Copy, Debug, Default)]
struct NotifyConfigState {
    version: Option<(SystemTime, u64)>,
    mentions: bool,
}

impl NotifyConfigCache {
    fn is_wanted(&mut self) -> bool {
        // Every short key has a variable as well.
        if std::env::vars_os().any(|(name, _)| name.as_bytes().starts_with(VARIABLES.as_bytes())) {
            return true;
        }
        let Some(path) = config_file() else { return false };
        self.refresh(LOOK_PATIENCE, move |last| last.at(&path))
    }

    /// Looks at the file, for at most `patience`. After a look that hangs no second one is started.
    fn refresh(
        &mut self,
        patience: Duration,
        look: impl FnOnce(NotifyConfigState) -> NotifyConfigState + Send + 'static,
    ) -> bool {
        let seen = match self.overdue.take() {
            Some(overdue) => overdue,
            None => {
                let (tell, seen) = mpsc::channel();
                let last = self.last;
                let thread = std::thread::Builder::new().stack_size(LOOK_STACK_BYTES);
                // If no thread can be started, the notifier finds out.
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

impl NotifyConfigState {
    /// Reads the current file. Anything but a regular file is ignored: reading a pipe would wait for a writer.
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

/// True if a line of the file may begin the table, or a key of it. The line is not parsed: a false match costs one
/// start in vain.
fn mentions(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let word = line.trim_ascii_start();
        let word = word.strip_prefix(b"[").unwrap_or(word).trim_ascii_start();
        let word = word.strip_prefix(b"\"").or(word.strip_prefix(b"'")).unwrap_or(word);
        word.starts_with(b"notify")
    })
}

fn start_notifier(files: &SessionFiles, told: &[NotableEvent], teller: NotifierParent) -> Result<(), String> {
    let null = fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| format!("opening /dev/null: {error}"))?;
    let mut args: Vec<OsString> = vec!["berth".into(), NOTIFIER_VERB.into(), files.argument()];
    args.extend(told.iter().map(|(seq, occasion)| format!("{seq}={}", occasion.word()).into()));
    let env = spawn_keeper::environment();
    // A keeper is in no group of its run. A command may be, since agents call berth as well. So the notifier of a
    // command is put where a keeper would be.
    let (manager, birthplace) = match teller {
        NotifierParent::Keeper => (None, None),
        NotifierParent::Command => match SystemdManager::reach() {
            Ok(manager) => (Some(manager), None),
            Err(_) => (None, cgroup::keeper_place().ok()),
        },
    };
    let mut spec = SpawnOptions {
        program: Path::new(THIS_PROGRAM),
        args: &args,
        env: &env,
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: null.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
        keep: &[],
        cgroup: birthplace.as_ref().map(|place| place.as_fd()),
        joins: &[],
    };
    let mut started = match teller {
        NotifierParent::Keeper => spawn_beside(&spec),
        NotifierParent::Command => spawn(&spec),
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

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

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
    fn a_config_file_that_cannot_be_read_delays_no_keeper_and_is_left_to_the_notifier() {
        let mut known = NotifyConfigCache::default();
        let (go, gate) = mpsc::channel::<()>();
        let hangs = move |last| {
            let _ = gate.recv();
            last
        };
        assert!(known.refresh(Duration::ZERO, hangs));
        // Another look would hang as well: there is none until the first is over.
        assert!(known.refresh(Duration::ZERO, |_| panic!("a second look")));
        drop(go);
        assert!(!known.refresh(Duration::from_secs(60), |_| panic!("a second look")));
        assert!(known.refresh(Duration::from_secs(60), |last| NotifyConfigState { mentions: true, ..last }));
    }

    #[test]
    fn a_config_file_is_read_again_when_it_changed_and_a_pipe_never() {
        let dir = TestDir::new();
        let file = dir.join("config.toml");
        assert!(!NotifyConfigState::default().at(&file).mentions);
        fs::write(&file, "[notify]\n").expect("a file");
        let seen = NotifyConfigState::default().at(&file);
        assert!(seen.mentions && seen.at(&file).mentions);
        fs::write(&file, "").expect("a file");
        assert!(!seen.at(&file).mentions);
        let pipe = dir.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert!(!NotifyConfigState::default().at(&pipe).mentions);
    }
}
