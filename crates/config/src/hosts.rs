//! Other hosts: the records of those that a user added, and the last known state of each.
//!
//! Promise: a name that ssh would take for an option is refused; what is cached of a host has no secrets in its command
//! lines.
//! Not here: reaching a host (see `berth_verbs::hosts`), keys and addresses (see ~/.ssh/config).
//! Start with [`RemoteHost::resolve`], then [`all_hosts`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use berth_api::{Problem, SessionStatus, Timestamp, redact};
use berth_core::SafeName;
use berth_store::StateDir;
use serde::{Deserialize, Serialize};

/// Directory of the hosts' records in the state directory.
const DIR: &str = "hosts";
/// Limit for hosts: each costs a process when all are asked.
const MAX_HOSTS: usize = 64;
/// Limit for an ssh target: a user, an `@`, a name.
const MAX_TARGET_BYTES: usize = 255;

/// Limit for the answer of a host, and so for its last known state: 2,000 sessions, with some words about each.
pub const MAX_ANSWER_BYTES: u64 = 8 * 1024 * 1024;

/// A host that a user added, or that is named for one command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteHost {
    /// Name of the host.
    pub name: String,
    /// The host's ssh target: `box`, `user@box`, `ssh://user@box:22`.
    pub target: String,
    /// Command that starts berth on that host.
    #[serde(default = "berth")]
    pub berth: String,
    /// Time at which the host was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Timestamp>,
}

fn berth() -> String {
    "berth".to_owned()
}

/// Last known state of a host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostSnapshot {
    /// Time of this state.
    pub at: Timestamp,
    /// Version of berth on that host.
    pub version: String,
    /// Sessions of the host.
    pub sessions: Vec<SessionStatus>,
    /// Number of further sessions.
    #[serde(default)]
    pub more: u64,
}

impl RemoteHost {
    /// Finds a host by the name of a record; any other text is an ssh target.
    pub fn resolve(home: &StateDir, text: &str) -> Result<Self, Problem> {
        if let Some(host) = find(home, text)? {
            return Ok(host);
        }
        check_target(text)?;
        Ok(Self { name: text.to_owned(), target: text.to_owned(), berth: berth(), added_at: None })
    }

    /// A host to be added. Without a name it gets that of its target, without the user and the port.
    pub fn new(name: Option<&str>, target: &str, berth: Option<&str>) -> Result<Self, Problem> {
        let name = name.unwrap_or_else(|| short(target));
        SafeName::parse(name).map_err(|bad| {
            Problem::usage(format!("`{name}` is not a valid name for a host: {bad}"))
                .hint("give it one: `berth hosts add TARGET --name NAME`")
        })?;
        check_target(target)?;
        if berth.is_some_and(|berth| berth.is_empty() || berth.contains('\0')) {
            return Err(Problem::usage("--berth does not name a program"));
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

/// Refuses a target that ssh would take for an option, or that is not a valid name.
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
    Err(Problem::usage(what).hint("write it as for ssh: `box`, `user@box`, or a Host of ~/.ssh/config"))
}

fn dir(home: &StateDir) -> PathBuf {
    home.root().join(DIR)
}

/// All hosts that were added, by name.
pub fn all_hosts(home: &StateDir) -> Result<Vec<RemoteHost>, Problem> {
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
    hosts.sort_by(|one: &RemoteHost, other| one.name.cmp(&other.name));
    Ok(hosts)
}

fn find(home: &StateDir, name: &str) -> Result<Option<RemoteHost>, Problem> {
    match SafeName::parse(name) {
        Ok(name) => read(&host_file(home, name.as_str())),
        Err(_) => Ok(None),
    }
}

fn host_file(home: &StateDir, name: &str) -> PathBuf {
    dir(home).join(format!("{name}.host"))
}

fn known_file(home: &StateDir, name: &str) -> PathBuf {
    dir(home).join(format!("{name}.known"))
}

fn read(path: &Path) -> Result<Option<RemoteHost>, Problem> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Problem::refused(format!("the record {} is damaged: {error}", path.display()))
                .hint("remove it with `berth hosts rm NAME` and add the host again")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::refused(format!("cannot {what} {}: {error}", path.display()))
}

/// Records a host. With `replace` it may replace one of the same name.
pub fn add_host(home: &StateDir, host: &RemoteHost, replace: bool) -> Result<(), Problem> {
    let known = all_hosts(home)?;
    let there = known.iter().find(|there| there.name == host.name);
    if let Some(there) = there.filter(|_| !replace) {
        let what = format!("a host `{}` exists already: {}", host.name, there.target);
        return Err(Problem::held(what).hint("choose another name with --name, or add --replace"));
    }
    if there.is_none() && known.len() >= MAX_HOSTS {
        return Err(Problem::full(format!("there are {MAX_HOSTS} hosts already"))
            .hint("remove one with `berth hosts rm NAME`"));
    }
    berth_host::dir::private_dir(&dir(home))
        .map_err(|error| Problem::refused(format!("cannot use {}: {error}", dir(home).display())))?;
    let json = serde_json::to_vec(host).map_err(|error| Problem::bug(error.to_string()))?;
    berth_host::disk::write_atomically(&dir(home), &format!("{}.host", host.name), &json, true)
        .map_err(|error| cannot("write", &host_file(home, &host.name), &error))
}

/// Removes a host and its last known state. Nothing on the host itself changes.
pub fn remove_host(home: &StateDir, name: &str) -> Result<(), Problem> {
    let nobody = || {
        Problem::not_found(format!("there is no host `{}`", name.escape_debug()))
            .hint("`berth hosts` lists them")
    };
    let name = SafeName::parse(name).map_err(|_| nobody())?;
    let path = host_file(home, name.as_str());
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(nobody()),
        Err(error) => return Err(cannot("remove", &path, &error)),
    }
    // The last known state is only a cache, and may not exist.
    let _ = fs::remove_file(known_file(home, name.as_str()));
    Ok(())
}

/// The last known state of a host that was added.
pub fn load_snapshot(home: &StateDir, host: &RemoteHost) -> Option<HostSnapshot> {
    serde_json::from_slice(&fs::read(known_file(home, &host.name)).ok()?).ok()
}

/// Caches the state of a host, unless that is larger than the limit. A failure is only logged. Secrets in command lines
/// are redacted: the cache is for lists, and may be served to others.
pub fn save_snapshot(home: &StateDir, host: &RemoteHost, known: &HostSnapshot) {
    if host.added_at.is_none() {
        return;
    }
    let mut known = known.clone();
    for status in &mut known.sessions {
        status.what.command = redact::redact_words(&status.what.command);
    }
    let written = serde_json::to_vec(&known).map_err(io::Error::from).and_then(|json| {
        if json.len() as u64 > MAX_ANSWER_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        berth_host::disk::write_atomically(&dir(home), &format!("{}.known", host.name), &json, false)
    });
    if let Err(error) = written {
        tracing::debug!(host = host.name, %error, "cannot cache the state of a host");
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_target_that_ssh_takes_for_an_option_is_not_a_valid_host() {
        for bad in ["", "-oProxyCommand=x", "a b", "a\nb", "a\0b", &"x".repeat(256)] {
            let problem = check_target(bad).expect_err(bad);
            assert_eq!(problem.code, ProblemCode::Usage, "{problem}");
        }
        for good in ["box", "me@box", "ssh://me@box:2222", "::1", "me@10.0.0.7"] {
            check_target(good).expect(good);
        }
    }

    #[test]
    fn a_host_can_be_replaced_when_the_limit_of_hosts_is_reached() {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        let host = |name: &str, target: &str| RemoteHost::new(Some(name), target, None).expect("a host");
        for number in 0..MAX_HOSTS {
            add_host(&home, &host(&format!("h{number}"), "box"), false).expect("there is room");
        }
        assert_eq!(
            add_host(&home, &host("more", "box"), false).map_err(|full| full.code),
            Err(ProblemCode::Full)
        );
        assert_eq!(
            add_host(&home, &host("h1", "other"), false).map_err(|held| held.code),
            Err(ProblemCode::Held)
        );
        add_host(&home, &host("h1", "other"), true).expect("it takes the place of one");
        assert_eq!(find(&home, "h1").expect("hosts").map(|host| host.target), Some("other".to_owned()));
    }
}
