//! Config file: the user's settings for all sessions.
//!
//! Promise: a missing file changes nothing. An existing file is understood completely or refused, with file, line and
//! column, the valid keys or values, and a similar name if there is one. No message repeats a value that may be a
//! secret. A variable overrides the file, an option overrides both. A mistake in any of them, or a file that another
//! account could have written, never blocks commands that need no config: see [`Config::load_or_default`].
//! Not here: the keys and how to add one (see [`registry`]), the agents (see [`crate::agents`]), the parsing of TOML
//! (see `keys`).
//! Start with [`Config::load`].

mod agents;
pub mod explain;
mod history;
mod hooks;
mod hosts;
pub mod notify;
mod policy;
pub mod registry;
mod send;
pub mod serve;
mod table_reader;
mod ui;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use berth_api::Problem;
use berth_host::file_permissions::{self, UntrustedFile};

pub use agents::{AgentConfig, ID};
pub use history::HistoryConfig;
pub use hooks::{GuardMode, HooksConfig};
pub use hosts::HostsConfig;
pub use policy::PolicyConfig;
pub use send::SendConfig;
use table_reader::ConfigDocument;
pub use table_reader::{ConfigPosition, ConfigSetting, SettingOrigin};
pub use ui::{ColorMode, CtrlKey, UiConfig};

/// Limit for the size of the file. A larger one was not written by a person.
const MAX_BYTES: u64 = 1 << 20;

/// The settings from the file, the environment and the defaults.
#[derive(Debug)]
pub struct Config {
    /// Path of the file, also if it does not exist. `None` without a home directory.
    pub path: Option<PathBuf>,
    /// True if the file exists.
    pub is_there: bool,
    /// The value of each key and its origin.
    pub settings: Vec<ConfigSetting>,
    /// Settings of `[ui]`: the look of the terminal.
    pub ui: UiConfig,
    /// Settings of `[policy]`: when new sessions end and are archived.
    pub policy: PolicyConfig,
    /// Settings of `[agents.NAME]`, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Settings of `[hooks]`: what an agent's hooks do.
    pub hooks: HooksConfig,
    /// Settings of `[hosts]`: how to reach other hosts.
    pub hosts: HostsConfig,
    /// Settings of `[notify]`: notifications.
    pub notify: notify::NotifyConfig,
    /// Settings of `[history]`: copies of transcripts.
    pub history: HistoryConfig,
    /// Settings of `[serve]`: the gateway.
    pub serve: serve::ServeConfig,
    /// Settings of `[send]`: rights of callers below `control`.
    pub send: SendConfig,
}

impl Config {
    /// Reads the config file of the user: `$BERTH_CONFIG`, else `$XDG_CONFIG_HOME/berth/config.toml`, else
    /// `~/.config/berth/config.toml`.
    pub fn load() -> Result<Self, Problem> {
        match config_path() {
            Some(path) => Self::load_from(path),
            None => Self::parse(None, None, &variable),
        }
    }

    /// Reads the given file instead of the user's. A missing file leaves all defaults.
    pub fn load_from(path: PathBuf) -> Result<Self, Problem> {
        let bytes = read(&path)?;
        tracing::info!(?path, exists = bytes.is_some(), "the config file");
        Self::parse(Some(path), bytes.as_deref(), &variable)
    }

    /// For commands that must work with a broken config file: after a mistake in the file all settings have their
    /// defaults. The command reports the mistake when it ends, see [`tolerated_config_error`].
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

    /// Parses a file; `variable` reads the environment.
    pub fn parse(
        path: Option<PathBuf>,
        bytes: Option<&[u8]>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let place = path.as_deref().unwrap_or(Path::new("config.toml"));
        let document = ConfigDocument::new(place, bytes.unwrap_or_default(), registry::TABLES, variable)?;
        let mut top = document.keys()?;
        let ui = UiConfig::read(top.table("ui")?)?;
        let policy = PolicyConfig::read(top.table("policy")?)?;
        let agents = agents::read(&mut top)?;
        let hooks = HooksConfig::read(top.table("hooks")?)?;
        let hosts = HostsConfig::read(top.table("hosts")?)?;
        let notify = notify::NotifyConfig::read(top.table("notify")?)?;
        let history = HistoryConfig::read(top.table("history")?)?;
        let serve = serve::ServeConfig::read(top.table("serve")?)?;
        let send = SendConfig::read(top.table("send")?)?;
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

    /// The error for a value that is only wrong in combination with the built-in table of agents.
    pub fn refusal(&self, spot: ConfigPosition, what: &str) -> Problem {
        table_reader::refusal(self.path.as_deref().unwrap_or(Path::new("config.toml")), spot, what)
    }
}

/// The config of a command that tolerates a broken file, and the error of the real one.
static FORGIVING: OnceLock<(Config, Option<Problem>)> = OnceLock::new();

/// The error in the config that [`Config::load_or_default`] tolerated.
pub fn tolerated_config_error() -> Option<&'static Problem> {
    FORGIVING.get()?.1.as_ref()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Path of the config file, also if it does not exist; `None` without a home directory.
pub fn config_path() -> Option<PathBuf> {
    berth_store::config_file::config_file()
}

/// `; did you mean …?` with the most similar of the known names; empty if none is close enough.
pub fn did_you_mean<T: AsRef<str>>(given: &str, known: &[T]) -> String {
    nearest(given, known.iter().map(AsRef::as_ref))
        .map(|meant| format!("; did you mean `{meant}`?"))
        .unwrap_or_default()
}

fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let given = given.to_lowercase();
    let length = given.chars().count();
    let distance = |known: &&str| {
        // A user who writes `claude-code` means `claude`, however far apart the two are.
        let is_longer = known.len() >= 3 && given.starts_with(*known);
        let is_shorter = length >= 3 && known.starts_with(&given);
        if is_longer || is_shorter { 1 } else { strsim::damerau_levenshtein(&given, known) }
    };
    let (distance, meant) =
        known.map(|known| (distance(&known), known)).min_by_key(|(distance, _)| *distance)?;
    (distance <= (length / 3).max(1)).then_some(meant)
}

/// The bytes of the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    let mut bytes = Vec::new();
    match read_to(&mut bytes, path) {
        // The config names programs that run with the user's account.
        Ok(Err(why)) => Err(untrusted(path, why)),
        Ok(Ok(())) if bytes.len() as u64 > MAX_BYTES => {
            Err(Problem::usage(format!("{} is larger than {MAX_BYTES} bytes", path.display()))
                .hint("check that this is the config file; BERTH_CONFIG=FILE names another one"))
        }
        Ok(Ok(())) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // `sudo -u other` may keep HOME: a file in a home that is closed to us belongs to another user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_behind_a_closed_door(path) => {
            Ok(None)
        }
        Err(error) => {
            Err(Problem::refused(format!("cannot read the config file {}: {error}", path.display()))
                .hint("BERTH_CONFIG=FILE names another one"))
        }
    }
}

/// Reads the file, and checks whether another account could have written it.
fn read_to(bytes: &mut Vec<u8>, path: &Path) -> io::Result<Result<(), UntrustedFile>> {
    let file = std::fs::File::open(path)?;
    let trusted = file_permissions::check_write_access(&file)?;
    file.take(MAX_BYTES + 1).read_to_end(bytes)?;
    Ok(trusted)
}

/// The refusal of a file that another account could have written.
fn untrusted(path: &Path, why: UntrustedFile) -> Problem {
    let file = path.display();
    let hint = match why {
        UntrustedFile::Owner(_) => format!(
            "make the file yours with `chown \"$(id -un)\" {file}`, or name another one with BERTH_CONFIG=FILE"
        ),
        UntrustedFile::Mode(_) => format!("keep others from writing it: `chmod go-w {file}`"),
    };
    Problem::refused(format!("cannot trust the config file {file}: {why}")).hint(hint)
}

/// True if the file's existence cannot even be checked. A path from BERTH_CONFIG is always meant to be read.
fn is_behind_a_closed_door(path: &Path) -> bool {
    let is_named = std::env::var_os("BERTH_CONFIG").is_some_and(|file| !file.is_empty());
    let looked = std::fs::symlink_metadata(path);
    !is_named && looked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests;
