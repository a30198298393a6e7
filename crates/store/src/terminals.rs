//! The current session of a terminal: which one a person means who names none.
//!
//! Promise: a record belongs to one terminal, one state directory and one account; it is read and written only
//! from that terminal, appears whole or not at all, and holds the session's id and what proves whose it is,
//! nothing else.
//! Not here: which of an argument, a variable and the current session counts (see the CLI's `ctx`).
//! Not here either: which terminal a process is used from (see the keeper's `terminal_here`).
//! Start with [`Home::current`]. Why it is so: docs/design/current-session.md.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::disk;
use berth_host::identity::{self, Identity, Verdict};
use serde::{Deserialize, Serialize};

use crate::fnv::Fnv;
use crate::home::{self, Home};

/// Where the records live in the state directory.
pub const TERMINALS: &str = "terminals";
/// The longest record. Longer is damage.
const MAX_RECORD_BYTES: u64 = 16 * 1024;
/// One terminal, told apart from all that had or will have its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terminal {
    /// The device, as in `/dev/pts/3`. The next window may get the same one.
    pub tty: PathBuf,
    /// The leader of the terminal's session: a login shell, as a rule. No other window has the same.
    pub leader: Identity,
    /// The pane of tmux or zellij.
    pub pane: Option<String>,
    /// The SSH connection, as SSH tells it.
    pub ssh: Option<String>,
    /// The account.
    pub uid: u32,
}

/// Whether a terminal is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Its leader lives and still has it.
    There,
    /// Its leader is gone, or has lost it: nobody will ever be at this terminal again.
    Gone,
    /// The system would not say.
    CannotTell,
}

/// A record as it is written. The session is the only thing it tells; the rest says whose it is.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    session: String,
    tty: PathBuf,
    leader_pid: u32,
    leader_start_ticks: u64,
    boot: String,
    pane: Option<String>,
    ssh: Option<String>,
    uid: u32,
}

impl Terminal {
    /// Whether it is still there.
    pub fn presence(&self) -> Presence {
        match self.leader.check() {
            Verdict::Gone => return Presence::Gone,
            // The record of a terminal of another host came along with a copy of the state directory.
            Verdict::CannotTell(_) if self.leader.elsewhere().is_some() => return Presence::Gone,
            Verdict::CannotTell(_) => return Presence::CannotTell,
            Verdict::Alive(_) => {}
        }
        // A shell that survived the end of its window lives on without a terminal, and the next window has the
        // same device.
        let device = rustix::fs::stat(&self.tty).map(|file| number_of_device(file.st_rdev));
        match (identity::stat(self.leader.pid), device) {
            (Ok(leader), Ok(device)) if leader.tty == device => Presence::There,
            (Ok(_), _) => Presence::Gone,
            (Err(_), _) => Presence::CannotTell,
        }
    }

    /// The name of its record. Everything goes into it, so that no two terminals share one.
    fn file_name(&self) -> String {
        let numbers = format!("{} {} {}", self.leader.pid, self.leader.start_ticks, self.uid);
        let mut hash = Fnv::default();
        for part in [
            self.tty.as_os_str().as_bytes(),
            numbers.as_bytes(),
            self.leader.boot.as_bytes(),
            self.pane.as_deref().unwrap_or_default().as_bytes(),
            self.ssh.as_deref().unwrap_or_default().as_bytes(),
        ] {
            // None of them has a zero byte in it.
            hash.eat(part);
            hash.eat(&[0]);
        }
        hash.name()
    }
}

impl Home {
    /// The current session of a terminal. Whether that session is still there is another question. An error is
    /// a record that cannot be read: then there is no current session, and nobody guesses one.
    pub fn current(&self, terminal: &Terminal) -> Result<Option<SessionId>, Problem> {
        let path = self.terminals_dir().join(terminal.file_name());
        let found = read(&path).map_err(|why| damaged(&path, &why))?;
        match found {
            None => Ok(None),
            Some((whose, id)) if whose == *terminal => Ok(Some(id)),
            Some(_) => Err(damaged(&path, "it is of another terminal")),
        }
    }

    /// Makes a session the current one of a terminal.
    pub fn set_current(&self, terminal: &Terminal, id: &SessionId) -> Result<(), Problem> {
        let dir = self.terminals_dir();
        home::private(&dir)?;
        let record = Record {
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
            Problem::new(Code::Refused, format!("cannot record the current session of {tty}: {error}"))
                .hint(format!("session {id} is not the current one; name it"))
        })
    }

    /// Forgets the current session of a terminal; whether there was one.
    pub fn clear_current(&self, terminal: &Terminal) -> Result<bool, Problem> {
        let path = self.terminals_dir().join(terminal.file_name());
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => {
                Err(Problem::new(Code::Refused, format!("cannot remove {}: {error}", path.display())))
            }
        }
    }

    /// The terminals that are there now, each with its current session. What cannot be read or told is left out.
    pub fn terminals(&self) -> Vec<(Terminal, SessionId)> {
        let paths = self.terminal_records().unwrap_or_default();
        let known = paths.iter().filter_map(|path| read(path).ok().flatten());
        known.filter(|(terminal, _)| terminal.presence() == Presence::There).collect()
    }

    /// The files of all records, for the sweep.
    pub fn terminal_records(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(self.terminals_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // What begins with a dot is being written.
            if !path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn terminals_dir(&self) -> PathBuf {
        self.root().join(TERMINALS)
    }
}

/// Reads a record: whose it is, and the session. `None` if there is none.
pub fn read(path: &Path) -> Result<Option<(Terminal, SessionId)>, String> {
    let mut json = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(MAX_RECORD_BYTES + 1).read_to_end(&mut json)) {
        Ok(_) if json.len() as u64 > MAX_RECORD_BYTES => return Err("it is too long".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let record: Record = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let id = SessionId::parse(&record.session).ok_or("it names no session")?;
    let leader =
        Identity { pid: record.leader_pid, start_ticks: record.leader_start_ticks, boot: record.boot };
    let Record { tty, pane, ssh, uid, .. } = record;
    Ok(Some((Terminal { tty, leader, pane, ssh, uid }, id)))
}

fn damaged(path: &Path, why: &str) -> Problem {
    let what =
        format!("this terminal has no current session: its record {} cannot be used ({why})", path.display());
    Problem::new(Code::Refused, what).hint("`berth use S` writes a new one, `berth use --none` removes it")
}

/// A device's number as `/proc/PID/stat` writes it.
fn number_of_device(device: rustix::fs::Dev) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(name: &str) -> (PathBuf, Home) {
        let dir = std::env::temp_dir().join(format!("berth-terminals-{name}-{}", std::process::id()));
        let home = Home::open(dir.clone()).expect("a state directory");
        (dir, home)
    }

    fn terminal() -> Terminal {
        let leader = Identity::me().expect("we are a process");
        Terminal { tty: "/dev/pts/3".into(), leader, pane: None, ssh: None, uid: 7 }
    }

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).expect("an id")
    }

    #[test]
    fn a_record_is_found_by_its_own_terminal_only() {
        let (dir, home) = home("own");
        let one = terminal();
        assert_eq!(home.current(&one), Ok(None));
        home.set_current(&one, &id("0123456789ab")).unwrap();
        assert_eq!(home.current(&one), Ok(Some(id("0123456789ab"))));
        let leader = |pid, start_ticks, boot: &str| Identity { pid, start_ticks, boot: boot.to_owned() };
        let Identity { pid, start_ticks, boot } = one.leader.clone();
        let others = [
            Terminal { tty: "/dev/pts/4".into(), ..one.clone() },
            Terminal { leader: leader(pid + 1, start_ticks, &boot), ..one.clone() },
            Terminal { leader: leader(pid, start_ticks + 1, &boot), ..one.clone() },
            Terminal { leader: leader(pid, start_ticks, "another boot"), ..one.clone() },
            Terminal { pane: Some("tmux /tmp/tmux-0/default,1 %1".to_owned()), ..one.clone() },
            Terminal { ssh: Some("10.0.0.1 1 10.0.0.2 22".to_owned()), ..one.clone() },
            Terminal { uid: 8, ..one.clone() },
        ];
        for other in &others {
            assert_eq!(home.current(other), Ok(None), "{other:?} sees the record of another");
            home.set_current(other, &id("ba9876543210")).unwrap();
        }
        assert_eq!(home.current(&one), Ok(Some(id("0123456789ab"))));
        assert_eq!((home.clear_current(&one), home.clear_current(&one)), (Ok(true), Ok(false)));
        assert_eq!(home.current(&one), Ok(None));
        assert!(others.iter().all(|other| home.current(other) == Ok(Some(id("ba9876543210")))));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_damaged_record_is_no_session_and_is_told_with_the_way_out() {
        let (dir, home) = home("damaged");
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
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a7_a_reader_sees_the_whole_old_record_or_the_whole_new_one() {
        const ROUNDS: usize = 2000;
        let (dir, home) = home("a7");
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
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_terminal_is_gone_with_its_leader_and_when_its_leader_lost_it() {
        let one = terminal();
        let gone = Identity { start_ticks: one.leader.start_ticks + 1, ..one.leader.clone() };
        assert_eq!(Terminal { leader: gone, ..one.clone() }.presence(), Presence::Gone);
        // We live; whatever our terminal is, it is not this one.
        assert_eq!(Terminal { tty: "/dev/null".into(), ..one.clone() }.presence(), Presence::Gone);
        assert_eq!(Terminal { tty: "/dev/no such terminal".into(), ..one }.presence(), Presence::Gone);
    }
}
