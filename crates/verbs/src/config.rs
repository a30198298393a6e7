//! The config file: what a person wants to be different in every session.
//!
//! Promise: a file that is not there changes nothing. One that is there is understood completely or
//! refused, with file, line and column, what is allowed there, and what was probably meant; no value that may
//! be a secret is repeated in a message. A variable counts over the file, an option over both. A mistake in any
//! of them, or a file that another account could have written, never blocks commands that need no config: see
//! [`Config::load_or_default`].
//! Not here: which keys there are and how to add one (see [`registry`]), what the agents are (see
//! [`crate::agents`]), how TOML is taken apart (see `keys`).
//! Start with [`Config::load`].

mod agents;
pub mod explain;
mod history;
mod hooks;
mod hosts;
mod keys;
pub mod notify;
mod policy;
pub mod registry;
mod send;
pub mod serve;
mod ui;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use berth_api::{Code, Problem};
use berth_host::trust::{self, Untrusted};

pub use agents::{AgentKeys, ID};
pub use history::HistoryKeys;
pub use hooks::Hooks;
pub use hosts::Hosts;
use keys::Document;
pub use keys::{Origin, Setting, Spot};
pub use policy::Policy;
pub use send::SendKeys;
pub use ui::{Color, CtrlKey, Ui};

/// A file larger than this was not written by a person.
const MAX_BYTES: u64 = 1 << 20;

/// What the file and the environment say.
#[derive(Debug)]
pub struct Config {
    /// Where the file is, or would be. There is no such place for somebody without a home directory.
    pub path: Option<PathBuf>,
    /// Whether it is there.
    pub is_there: bool,
    /// What holds for each key, and who says so.
    pub settings: Vec<Setting>,
    /// `[ui]`.
    pub ui: Ui,
    /// `[policy]`.
    pub policy: Policy,
    /// `[agents.NAME]`, by name.
    pub agents: BTreeMap<String, AgentKeys>,
    /// `[hooks]`.
    pub hooks: Hooks,
    /// `[hosts]`.
    pub hosts: Hosts,
    /// `[notify]`.
    pub notify: notify::NotifyKeys,
    /// `[history]`.
    pub history: HistoryKeys,
    /// `[serve]`.
    pub serve: serve::ServeKeys,
    /// `[send]`.
    pub send: SendKeys,
}

impl Config {
    /// Reads the file: `$BERTH_CONFIG`, else `$XDG_CONFIG_HOME/berth/config.toml`, else
    /// `~/.config/berth/config.toml`.
    pub fn load() -> Result<Self, Problem> {
        match path() {
            Some(path) => Self::load_from(path),
            None => Self::parse(None, None, &variable),
        }
    }

    /// The same with another file. One that is not there says nothing.
    pub fn load_from(path: PathBuf) -> Result<Self, Problem> {
        let bytes = read(&path)?;
        tracing::info!(?path, exists = bytes.is_some(), "the config file");
        Self::parse(Some(path), bytes.as_deref(), &variable)
    }

    /// For commands that have to work whatever the file says: after a mistake nothing counts but the defaults.
    /// It is told at the end of the command, see [`untold`].
    pub fn load_or_default() -> &'static Self {
        &FORGIVING
            .get_or_init(|| match Self::load() {
                Ok(config) => (config, None),
                Err(problem) => {
                    let defaults = Self::parse(None, None, &|_| None);
                    (defaults.expect("the defaults are right: tests read them"), Some(problem))
                }
            })
            .0
    }

    /// Understands a file, and what `variable` tells of the environment.
    pub fn parse(
        path: Option<PathBuf>,
        bytes: Option<&[u8]>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let place = path.as_deref().unwrap_or(Path::new("config.toml"));
        let document = Document::new(place, bytes.unwrap_or_default(), registry::TABLES, variable)?;
        let mut top = document.keys()?;
        let ui = Ui::read(top.table("ui")?)?;
        let policy = Policy::read(top.table("policy")?)?;
        let agents = agents::read(&mut top)?;
        let hooks = Hooks::read(top.table("hooks")?)?;
        let hosts = Hosts::read(top.table("hosts")?)?;
        let notify = notify::NotifyKeys::read(top.table("notify")?)?;
        let history = HistoryKeys::read(top.table("history")?)?;
        let serve = serve::ServeKeys::read(top.table("serve")?)?;
        let send = SendKeys::read(top.table("send")?)?;
        top.finish()?;
        let settings = document.settings();
        Ok(Self {
            path,
            is_there: bytes.is_some(),
            settings,
            ui,
            policy,
            agents,
            hooks,
            hosts,
            notify,
            history,
            serve,
            send,
        })
    }

    /// The refusal of something that only turns out to be wrong beside the built-in table.
    pub fn refusal(&self, spot: Spot, what: &str) -> Problem {
        keys::refusal(self.path.as_deref().unwrap_or(Path::new("config.toml")), spot, what)
    }
}

/// The config of a command that does without, and what was wrong with the real one.
static FORGIVING: OnceLock<(Config, Option<Problem>)> = OnceLock::new();

/// What is wrong with the config and was passed over by [`Config::load_or_default`].
pub fn untold() -> Option<&'static Problem> {
    FORGIVING.get()?.1.as_ref()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where the file is, or would be.
pub fn path() -> Option<PathBuf> {
    berth_keeper::notify::config_file()
}

/// `; did you mean …?`, if one of these is close enough to be meant.
pub fn did_you_mean<T: AsRef<str>>(given: &str, known: &[T]) -> String {
    nearest(given, known.iter().map(AsRef::as_ref))
        .map(|meant| format!("; did you mean `{meant}`?"))
        .unwrap_or_default()
}

fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let given = given.to_lowercase();
    let length = given.chars().count();
    let distance = |known: &&str| {
        // Who writes `claude-code` means `claude`, however far apart the two are.
        let is_longer = known.len() >= 3 && given.starts_with(*known);
        let is_shorter = length >= 3 && known.starts_with(&given);
        if is_longer || is_shorter { 1 } else { strsim::damerau_levenshtein(&given, known) }
    };
    let (distance, meant) =
        known.map(|known| (distance(&known), known)).min_by_key(|(distance, _)| *distance)?;
    (distance <= (length / 3).max(1)).then_some(meant)
}

/// The bytes of the file; `None` when there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    let mut bytes = Vec::new();
    match read_to(&mut bytes, path) {
        // The config names programs that run with this account.
        Ok(Err(why)) => Err(untrusted(path, why)),
        Ok(Ok(())) if bytes.len() as u64 > MAX_BYTES => {
            Err(Problem::new(Code::Usage, format!("{} is larger than {MAX_BYTES} bytes", path.display()))
                .hint("is this the config file? BERTH_CONFIG=FILE names another one"))
        }
        Ok(Ok(())) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // `sudo -u other` may keep HOME: the file in a home that is closed to us is somebody else's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_behind_a_closed_door(path) => {
            Ok(None)
        }
        Err(error) => Err(Problem::new(
            Code::Refused,
            format!("cannot read the config file {}: {error}", path.display()),
        )
        .hint("BERTH_CONFIG=FILE names another one")),
    }
}

/// Reads the file, and says whether another account could have written it.
fn read_to(bytes: &mut Vec<u8>, path: &Path) -> io::Result<Result<(), Untrusted>> {
    let file = std::fs::File::open(path)?;
    let trusted = trust::unchangeable_by_others(&file)?;
    file.take(MAX_BYTES + 1).read_to_end(bytes)?;
    Ok(trusted)
}

/// The refusal of a file that another account could have written.
fn untrusted(path: &Path, why: Untrusted) -> Problem {
    let file = path.display();
    let hint = match why {
        Untrusted::Owner(_) => format!(
            "make the file yours with `chown \"$(id -un)\" {file}`, or name another one with BERTH_CONFIG=FILE"
        ),
        Untrusted::Mode(_) => format!("keep others from writing it: `chmod go-w {file}`"),
    };
    Problem::new(Code::Refused, format!("the config file {file} is not obeyed: {why}")).hint(hint)
}

/// Whether we may not even look whether there is such a file. One that somebody names is meant to be read.
fn is_behind_a_closed_door(path: &Path) -> bool {
    let is_named = std::env::var_os("BERTH_CONFIG").is_some_and(|file| !file.is_empty());
    let looked = std::fs::symlink_metadata(path);
    !is_named && looked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests;
