//! The current session of a terminal: the session that a command means if it names none.
//!
//! Promise: a record belongs to one terminal, one state directory and one account. It is read and written only from
//! that terminal, appears whole or not at all, and contains nothing but the session's id and the proof of the terminal.
//! Not here: the order of argument, variable and current session (see the CLI's `ctx`), and finding the terminal of
//! a process (see `berth_procs::own_terminal`).
//! Start with [`StateDir::current`]. Design: docs/design/current-session.md.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_core::SessionId;
use berth_host::disk;
use berth_host::identity::{self, ProcessIdentity, ProcessLiveness};
use serde::{Deserialize, Serialize};

use crate::fnv::FnvHasher;
use crate::state_dir::{self, StateDir};

/// Directory of the records in the state directory.
pub const TERMINALS: &str = "terminals";
/// Size limit of a record, in bytes. A longer one is damaged.
const MAX_RECORD_BYTES: u64 = 16 * 1024;
/// Identity of one terminal, which no other terminal ever shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TerminalIdentity {
    /// The device, as in `/dev/pts/3`. The next window may get the same one.
    pub tty: PathBuf,
    /// Leader of the terminal's session: usually a login shell. No other window has this one.
    pub leader: ProcessIdentity,
    /// The pane of tmux or zellij.
    pub pane: Option<String>,
    /// SSH connection, as SSH reports it.
    pub ssh: Option<String>,
    /// User id of the account.
    pub uid: u32,
}

/// Presence of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminalPresence {
    /// The leader of the terminal lives and still has the terminal.
    There,
    /// The leader is gone, or has lost the terminal: no process will ever use this terminal again.
    Gone,
    /// The system did not tell.
    CannotTell,
}

/// The stored form of a record. Only the session is data; the other fields prove the terminal.
#[derive(Debug, Serialize, Deserialize)]
struct TerminalRecord {
    session: String,
    tty: PathBuf,
    leader_pid: u32,
    leader_start_ticks: u64,
    boot: String,
    pane: Option<String>,
    ssh: Option<String>,
    uid: u32,
}

impl TerminalIdentity {
    /// Checks whether the terminal is still there.
    pub fn presence(&self) -> TerminalPresence {
        match self.leader.check() {
            ProcessLiveness::Gone => return TerminalPresence::Gone,
            // The terminal of another host: its record came along with a copy of the state directory.
            ProcessLiveness::CannotTell(_) if self.leader.on_another_host().is_some() => {
                return TerminalPresence::Gone;
            }
            ProcessLiveness::CannotTell(_) => return TerminalPresence::CannotTell,
            ProcessLiveness::Alive(_) => {}
        }
        // A shell that survived the end of its window lives on without a terminal, and the next window has the
        // same device.
        let device = rustix::fs::stat(&self.tty).map(|file| number_of_device(file.st_rdev));
        match (identity::process_stat(self.leader.pid), device) {
            (Ok(leader), Ok(device)) if leader.tty == device => TerminalPresence::There,
            (Ok(_), _) => TerminalPresence::Gone,
            (Err(_), _) => TerminalPresence::CannotTell,
        }
    }

    /// Name of the record's file. All fields go into it, so that no two terminals share one.
    fn file_name(&self) -> String {
        let numbers = format!("{} {} {}", self.leader.pid, self.leader.start_ticks, self.uid);
        let mut hash = FnvHasher::default();
        for part in [
            self.tty.as_os_str().as_bytes(),
            numbers.as_bytes(),
            self.leader.boot.as_bytes(),
            self.pane.as_deref().unwrap_or_default().as_bytes(),
            self.ssh.as_deref().unwrap_or_default().as_bytes(),
        ] {
            // No field contains a zero byte.
            hash.eat(part);
            hash.eat(&[0]);
        }
        hash.name()
    }
}

impl StateDir {
    /// Reads the current session of a terminal. The caller checks whether that session still exists. A record that
    /// cannot be read is an error: then there is no current session, and none is guessed.
    pub fn current(&self, terminal: &TerminalIdentity) -> Result<Option<SessionId>, Problem> {
        let path = self.terminals_dir().join(terminal.file_name());
        let found = read(&path).map_err(|why| damaged(&path, &why))?;
        match found {
            None => Ok(None),
            Some((whose, id)) if whose == *terminal => Ok(Some(id)),
            Some(_) => Err(damaged(&path, "the record belongs to another terminal")),
        }
    }

    /// Makes a session the current one of a terminal.
    pub fn set_current(&self, terminal: &TerminalIdentity, id: &SessionId) -> Result<(), Problem> {
        let dir = self.terminals_dir();
        state_dir::private(&dir)?;
        let record = TerminalRecord {
            session: id.to_string(),
            tty: terminal.tty.clone(),
            leader_pid: terminal.leader.pid,
            leader_start_ticks: terminal.leader.start_ticks,
            boot: terminal.leader.boot.clone(),
            pane: terminal.pane.clone(),
            ssh: terminal.ssh.clone(),
            uid: terminal.uid,
        };
        // Not synced: no terminal survives a power cut.
        let written = serde_json::to_vec(&record)
            .map_err(io::Error::from)
            .and_then(|json| disk::write_atomically(&dir, &terminal.file_name(), &json, false));
        written.map_err(|error| {
            let tty = terminal.tty.display();
            Problem::refused(format!("cannot record the current session of {tty}: {error}"))
                .hint(format!("session {id} is not the current one; name it"))
        })
    }

    /// Forgets the current session of a terminal; true if there was one.
    pub fn clear_current(&self, terminal: &TerminalIdentity) -> Result<bool, Problem> {
        let path = self.terminals_dir().join(terminal.file_name());
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Problem::refused(format!("cannot remove {}: {error}", path.display()))),
        }
    }

    /// All present terminals, each with its current session. Records that cannot be read are left out.
    pub fn terminals(&self) -> Vec<(TerminalIdentity, SessionId)> {
        let records = self.terminal_records().unwrap_or_default();
        let known = records.into_iter().filter_map(|(_, record)| record.ok().flatten());
        known.filter(|(terminal, _)| terminal.presence() == TerminalPresence::There).collect()
    }

    /// All records, for the sweep: the file of each, and its content or the reason why it cannot be used.
    pub fn terminal_records(&self) -> io::Result<Vec<(PathBuf, RecordContent)>> {
        let entries = match fs::read_dir(self.terminals_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // A name that begins with a dot is being written.
            if !path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
                let content = read(&path);
                records.push((path, content));
            }
        }
        Ok(records)
    }

    fn terminals_dir(&self) -> PathBuf {
        self.root().join(TERMINALS)
    }
}

/// A terminal and its session, or the reason why the record cannot be used. `None` if the record is gone.
pub type RecordContent = Result<Option<(TerminalIdentity, SessionId)>, String>;

fn read(path: &Path) -> RecordContent {
    let mut json = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(MAX_RECORD_BYTES + 1).read_to_end(&mut json)) {
        Ok(_) if json.len() as u64 > MAX_RECORD_BYTES => return Err("it is too long".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let record: TerminalRecord = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let id = SessionId::parse(&record.session).ok_or("the record names no session")?;
    let leader =
        ProcessIdentity { pid: record.leader_pid, start_ticks: record.leader_start_ticks, boot: record.boot };
    let TerminalRecord { tty, pane, ssh, uid, .. } = record;
    Ok(Some((TerminalIdentity { tty, leader, pane, ssh, uid }, id)))
}

fn damaged(path: &Path, why: &str) -> Problem {
    let what =
        format!("this terminal has no current session: its record {} cannot be used ({why})", path.display());
    Problem::refused(what).hint("`berth use S` writes a new one, `berth use --none` removes it")
}

/// Number of a device as `/proc/PID/stat` writes it.
fn number_of_device(device: rustix::fs::Dev) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

    use super::*;

    fn home() -> (TestDir, StateDir) {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        (dir, home)
    }

    fn terminal() -> TerminalIdentity {
        let leader = ProcessIdentity::me().expect("we are a process");
        TerminalIdentity { tty: "/dev/pts/3".into(), leader, pane: None, ssh: None, uid: 7 }
    }

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).expect("an id")
    }

    #[test]
    fn a_record_is_found_by_its_own_terminal_only() {
        let (_dir, home) = home();
        let one = terminal();
        assert_eq!(home.current(&one), Ok(None));
        home.set_current(&one, &id("0123456789ab")).unwrap();
        assert_eq!(home.current(&one), Ok(Some(id("0123456789ab"))));
        let leader =
            |pid, start_ticks, boot: &str| ProcessIdentity { pid, start_ticks, boot: boot.to_owned() };
        let ProcessIdentity { pid, start_ticks, boot } = one.leader.clone();
        let others = [
            TerminalIdentity { tty: "/dev/pts/4".into(), ..one.clone() },
            TerminalIdentity { leader: leader(pid + 1, start_ticks, &boot), ..one.clone() },
            TerminalIdentity { leader: leader(pid, start_ticks + 1, &boot), ..one.clone() },
            TerminalIdentity { leader: leader(pid, start_ticks, "another boot"), ..one.clone() },
            TerminalIdentity { pane: Some("tmux /tmp/tmux-0/default,1 %1".to_owned()), ..one.clone() },
            TerminalIdentity { ssh: Some("10.0.0.1 1 10.0.0.2 22".to_owned()), ..one.clone() },
            TerminalIdentity { uid: 8, ..one.clone() },
        ];
        for other in &others {
            assert_eq!(home.current(other), Ok(None), "{other:?} sees the record of another");
            home.set_current(other, &id("ba9876543210")).unwrap();
        }
        assert_eq!(home.current(&one), Ok(Some(id("0123456789ab"))));
        assert_eq!((home.clear_current(&one), home.clear_current(&one)), (Ok(true), Ok(false)));
        assert_eq!(home.current(&one), Ok(None));
        assert!(others.iter().all(|other| home.current(other) == Ok(Some(id("ba9876543210")))));
    }

    #[test]
    fn a_damaged_record_is_no_session_and_is_told_with_the_way_out() {
        let (_dir, home) = home();
        let one = terminal();
        home.set_current(&one, &id("0123456789ab")).unwrap();
        let path = home.terminals_dir().join(one.file_name());
        let whole = fs::read(&path).unwrap();
        let of_another = String::from_utf8(whole.clone()).unwrap().replace("pts/3", "pts/9").into_bytes();
        let no_session =
            String::from_utf8(whole.clone()).unwrap().replace("0123456789ab", "../x").into_bytes();
        let too_long = [whole.clone(), vec![b' '; MAX_RECORD_BYTES as usize]].concat();
        for bad in [&whole[..whole.len() / 2], b"", b"\0\xff", &of_another, &no_session, &too_long] {
            fs::write(&path, bad).unwrap();
            let problem = home.current(&one).expect_err("damage was taken for a session");
            assert!(problem.hint.is_some_and(|hint| hint.contains("berth use")), "{}", problem.what);
        }
        home.set_current(&one, &id("ba9876543210")).unwrap();
        assert_eq!(home.current(&one), Ok(Some(id("ba9876543210"))));
    }

    #[test]
    fn a7_a_reader_sees_the_whole_old_record_or_the_whole_new_one() {
        const ROUNDS: usize = 2000;
        let (_dir, home) = home();
        let ids = [id("0123456789ab"), id("ba9876543210")];
        let one = terminal();
        home.set_current(&one, &ids[0]).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            let writers: Vec<_> = ids
                .iter()
                .map(|id| scope.spawn(|| (0..ROUNDS).for_each(|_| home.set_current(&one, id).unwrap())))
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = [0_usize; 2];
                        while !is_over.load(order) {
                            let found = home.current(&one).expect("never damaged").expect("never absent");
                            seen[usize::from(found == ids[1])] += 1;
                            assert!(ids.contains(&found));
                        }
                        seen
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            is_over.store(true, order);
            let seen = readers.into_iter().map(|reader| reader.join().unwrap());
            let [first, second] = seen.fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]]);
            assert!(first > 0 && second > 0, "the readers saw only one of the two: {first} and {second}");
        });
    }

    #[test]
    fn a_terminal_is_gone_with_its_leader_and_when_its_leader_lost_it() {
        let one = terminal();
        let gone = ProcessIdentity { start_ticks: one.leader.start_ticks + 1, ..one.leader.clone() };
        assert_eq!(TerminalIdentity { leader: gone, ..one.clone() }.presence(), TerminalPresence::Gone);
        // This process lives; whatever its terminal is, it is not this one.
        assert_eq!(
            TerminalIdentity { tty: "/dev/null".into(), ..one.clone() }.presence(),
            TerminalPresence::Gone
        );
        assert_eq!(
            TerminalIdentity { tty: "/dev/no such terminal".into(), ..one }.presence(),
            TerminalPresence::Gone
        );
    }
}
