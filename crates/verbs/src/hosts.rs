//! Other hosts, reached over plain ssh: no open port, no relay, nothing to run there but `berth proxy`.
//!
//! Promise: a host that is away is told as that, with what was last known and how old that is; what ssh says is
//! passed on; a name that could be taken for an option of ssh is refused.
//! Not here: the way a request takes (see [`ssh`]), keys and addresses (see ~/.ssh/config).
//! Start with [`Host::meant`], then [`look`].

mod list;
pub mod ssh;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem, Status, Timestamp, redact};
use berth_core::Name;
use berth_store::Home;
use serde::{Deserialize, Serialize};

pub use list::{Look, MAX_SESSIONS, PATIENCE, ask, look, look_at_all, skew};

/// Where they are recorded in the state directory.
const DIR: &str = "hosts";
/// The most hosts: each costs a process when all are looked at.
const MAX_HOSTS: usize = 64;
/// The longest ssh target: a user, an `@`, a name.
const MAX_TARGET_BYTES: usize = 255;

/// A host somebody added, or one that is named for one command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// What people call it.
    pub name: String,
    /// What ssh calls it: `box`, `user@box`, `ssh://user@box:22`.
    pub target: String,
    /// What berth is called there.
    #[serde(default = "berth")]
    pub berth: String,
    /// When it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Timestamp>,
}

fn berth() -> String {
    "berth".to_owned()
}

/// What was last known of a host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Known {
    /// When.
    pub at: Timestamp,
    /// berth's version there.
    pub version: String,
    /// Its sessions.
    pub sessions: Vec<Status>,
    /// How many it had besides these.
    #[serde(default)]
    pub beyond: u64,
}

impl Host {
    /// The host a person means: one that was added, by its name, else whatever ssh understands.
    pub fn meant(home: &Home, text: &str) -> Result<Self, Problem> {
        if let Some(host) = find(home, text)? {
            return Ok(host);
        }
        check_target(text)?;
        Ok(Self { name: text.to_owned(), target: text.to_owned(), berth: berth(), added_at: None })
    }

    /// A host to be added. Without a name it is called as its target is, but for the user and the port.
    pub fn new(name: Option<&str>, target: &str, berth: Option<&str>) -> Result<Self, Problem> {
        let name = name.unwrap_or_else(|| short(target));
        Name::parse(name).map_err(|bad| {
            Problem::new(Code::Usage, format!("`{name}` is not a valid name for a host: {bad}"))
                .hint("give it one: `berth hosts add TARGET --name NAME`")
        })?;
        check_target(target)?;
        if berth.is_some_and(|berth| berth.is_empty() || berth.contains('\0')) {
            return Err(Problem::new(Code::Usage, "--berth names no program"));
        }
        let berth = berth.map_or_else(self::berth, str::to_owned);
        let added_at = Some(Timestamp(berth_host::clock::wall_ms()));
        Ok(Self { name: name.to_owned(), target: target.to_owned(), berth, added_at })
    }
}

/// The host in a target.
fn short(target: &str) -> &str {
    let host = target.strip_prefix("ssh://").unwrap_or(target);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.split([':', '/']).next().unwrap_or(host)
}

/// Refuses what ssh would take for an option, or what is no name at all.
fn check_target(target: &str) -> Result<(), Problem> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let bad = if target.is_empty() {
        "it is empty"
    } else if target.starts_with('-') {
        "it looks like an option"
    } else if target.len() > MAX_TARGET_BYTES {
        "it is too long"
    } else if target.contains(is_odd) {
        "there are spaces or invisible characters in it"
    } else {
        return Ok(());
    };
    let what = format!("`{}` is not a valid host: {bad}", target.escape_debug());
    Err(Problem::new(Code::Usage, what)
        .hint("name it as ssh does: `box`, `user@box`, or a Host of ~/.ssh/config"))
}

fn dir(home: &Home) -> PathBuf {
    home.root().join(DIR)
}

/// All hosts that were added, by name.
pub fn all(home: &Home) -> Result<Vec<Host>, Problem> {
    let entries = match fs::read_dir(dir(home)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(cannot("list the hosts in", &dir(home), &error)),
    };
    let mut hosts = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| cannot("list the hosts in", &dir(home), &error))?.path();
        if path.extension().is_some_and(|extension| extension == "host") {
            hosts.extend(read(&path)?);
        }
    }
    hosts.sort_by(|one: &Host, other| one.name.cmp(&other.name));
    Ok(hosts)
}

fn find(home: &Home, name: &str) -> Result<Option<Host>, Problem> {
    match Name::parse(name) {
        Ok(name) => read(&host_file(home, name.as_str())),
        Err(_) => Ok(None),
    }
}

fn host_file(home: &Home, name: &str) -> PathBuf {
    dir(home).join(format!("{name}.host"))
}

fn known_file(home: &Home, name: &str) -> PathBuf {
    dir(home).join(format!("{name}.known"))
}

fn read(path: &Path) -> Result<Option<Host>, Problem> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Problem::new(Code::Refused, format!("the record {} is damaged: {error}", path.display()))
                .hint("take it away with `berth hosts rm NAME` and add the host again")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot {what} {}: {error}", path.display()))
}

/// Records a host. One of the same name is replaced only if that is said.
pub fn add(home: &Home, host: &Host, replace: bool) -> Result<(), Problem> {
    let known = all(home)?;
    let there = known.iter().find(|there| there.name == host.name);
    if let Some(there) = there.filter(|_| !replace) {
        let what = format!("there is a host `{}` already: {}", host.name, there.target);
        return Err(Problem::new(Code::Held, what).hint("choose another name with --name, or say --replace"));
    }
    if there.is_none() && known.len() >= MAX_HOSTS {
        return Err(Problem::new(Code::Full, format!("there are {MAX_HOSTS} hosts already"))
            .hint("take one away with `berth hosts rm NAME`"));
    }
    berth_host::dir::private_dir(&dir(home)).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot use {}: {error}", dir(home).display()))
    })?;
    let json = serde_json::to_vec(host).map_err(|error| Problem::new(Code::Bug, error.to_string()))?;
    berth_host::disk::write_atomically(&dir(home), &format!("{}.host", host.name), &json, true)
        .map_err(|error| cannot("write", &host_file(home, &host.name), &error))
}

/// Takes a host away, and what was known of it. Nothing on the host itself is touched.
pub fn remove(home: &Home, name: &str) -> Result<(), Problem> {
    let nobody = || {
        Problem::new(Code::NotFound, format!("there is no host `{}`", name.escape_debug()))
            .hint("`berth hosts` lists them")
    };
    let name = Name::parse(name).map_err(|_| nobody())?;
    let path = host_file(home, name.as_str());
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(nobody()),
        Err(error) => return Err(cannot("remove", &path, &error)),
    }
    // What was known of it is only a memory, and may never have been written.
    let _ = fs::remove_file(known_file(home, name.as_str()));
    Ok(())
}

/// What was last known of a host that was added.
fn known(home: &Home, host: &Host) -> Option<Known> {
    serde_json::from_slice(&fs::read(known_file(home, &host.name)).ok()?).ok()
}

/// Remembers what a host said, unless that is more than a host may say. A memory that cannot be kept is no reason to fail.
/// Command lines are kept without their secrets: the memory is for lists, and may be served to others.
pub fn remember(home: &Home, host: &Host, known: &Known) {
    if host.added_at.is_none() {
        return;
    }
    let mut known = known.clone();
    for status in &mut known.sessions {
        status.what.command = redact::words(&status.what.command);
    }
    let written = serde_json::to_vec(&known).map_err(io::Error::from).and_then(|json| {
        if json.len() as u64 > list::MAX_ANSWER_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        berth_host::disk::write_atomically(&dir(home), &format!("{}.known", host.name), &json, false)
    });
    if let Err(error) = written {
        tracing::debug!(host = host.name, %error, "what is known of a host is not remembered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_would_take_for_an_option_is_no_host() {
        for bad in ["", "-oProxyCommand=x", "a b", "a\nb", "a\0b", &"x".repeat(256)] {
            let problem = check_target(bad).expect_err(bad);
            assert_eq!(problem.code, Code::Usage, "{problem}");
        }
        for good in ["box", "me@box", "ssh://me@box:2222", "::1", "me@10.0.0.7"] {
            check_target(good).expect(good);
        }
    }

    #[test]
    fn one_of_as_many_hosts_as_there_may_be_can_be_replaced() {
        let dir = std::env::temp_dir().join(format!("berth-hosts-{}", std::process::id()));
        let home = Home::open(dir.clone()).expect("a state directory");
        let host = |name: &str, target: &str| Host::new(Some(name), target, None).expect("a host");
        for number in 0..MAX_HOSTS {
            add(&home, &host(&format!("h{number}"), "box"), false).expect("there is room");
        }
        assert_eq!(add(&home, &host("more", "box"), false).map_err(|full| full.code), Err(Code::Full));
        assert_eq!(add(&home, &host("h1", "other"), false).map_err(|held| held.code), Err(Code::Held));
        add(&home, &host("h1", "other"), true).expect("it takes the place of one");
        assert_eq!(find(&home, "h1").expect("hosts").map(|host| host.target), Some("other".to_owned()));
        fs::remove_dir_all(dir).expect("our own directory");
    }
}
