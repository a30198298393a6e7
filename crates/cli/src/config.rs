//! The config file: what a person wants to be different in every session.
//!
//! Promise: a file that is not there changes nothing. One that is there is understood completely or
//! refused, with file and line, what is allowed there, and what was probably meant; no value of it is
//! repeated in a message, because it may be a secret.
//! Not here: what the agents are (see [`crate::agents`]), how TOML is taken apart (see `keys`).
//! Start with [`Config::load`]; [`AgentKeys::read`] shows how a table's keys are named. A new table gets a
//! field of [`Config`] and a line in [`Config::parse`], and a place in `docs/config.md`.

mod keys;
pub(crate) mod notify;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_core::Name;

use crate::agents::Driver;
use keys::{Document, Found, Keys};

/// A file larger than this was not written by a person.
const MAX_BYTES: u64 = 1 << 20;
/// More agents than anybody has. `berth agents` asks all of them at once.
const MAX_AGENTS: usize = 100;
/// What stands for the id of a conversation in `resume_tui` and `begin_tui`.
pub(crate) const ID: &str = "{id}";

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Where the file is, or would be. There is no such place for somebody without a home directory.
    pub(crate) path: Option<PathBuf>,
    /// `[agents.NAME]`, by name.
    pub(crate) agents: BTreeMap<String, AgentKeys>,
    /// `[notify]`.
    pub(crate) notify: notify::NotifyKeys,
}

/// The keys of one `[agents.NAME]`. What is not given stays as it is, or gets its default.
#[derive(Debug, Default)]
pub(crate) struct AgentKeys {
    /// The line of its name.
    pub(crate) line: usize,
    pub(crate) about: Option<String>,
    pub(crate) driver: Option<Driver>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) tui: Option<Vec<String>>,
    pub(crate) resume_tui: Option<Vec<String>>,
    pub(crate) begin_tui: Option<Vec<String>>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) conversation: Option<String>,
    pub(crate) install: Option<String>,
    pub(crate) version: Option<Vec<String>>,
}

impl Config {
    /// Reads the file: `$BERTH_CONFIG`, else `$XDG_CONFIG_HOME/berth/config.toml`, else
    /// `~/.config/berth/config.toml`.
    pub(crate) fn load() -> Result<Self, Problem> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(path) = place(set("BERTH_CONFIG"), set("XDG_CONFIG_HOME"), set("HOME")) else {
            return Ok(Self::default());
        };
        match read(&path)? {
            Some(bytes) => Self::parse(path, &bytes),
            None => Ok(Self { path: Some(path), ..Self::default() }),
        }
    }

    /// Understands the file.
    pub(crate) fn parse(path: PathBuf, bytes: &[u8]) -> Result<Self, Problem> {
        let document = Document::new(&path, bytes)?;
        let mut top = document.keys()?;
        let mut agents = BTreeMap::new();
        for (name, keys) in top.tables("agents")? {
            let line = keys.line();
            if let Err(bad) = Name::parse(&name) {
                return Err(document.refusal(line, &format!("`{name}` cannot be an agent's name: {bad}")));
            }
            if agents.len() == MAX_AGENTS {
                return Err(document.refusal(line, &format!("there are more than {MAX_AGENTS} agents")));
            }
            agents.insert(name, AgentKeys::read(keys)?);
        }
        let notify = notify::NotifyKeys::read(top.sub("notify")?)?;
        top.finish()?;
        Ok(Self { path: Some(path), agents, notify })
    }

    /// The refusal of something that only turns out to be wrong beside the built-in table.
    pub(crate) fn refusal(&self, line: usize, what: &str) -> Problem {
        keys::refusal(self.path.as_deref().unwrap_or(Path::new("config.toml")), line, what)
    }
}

impl AgentKeys {
    fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let read = Self {
            line: keys.line(),
            about: keys.text("about")?.map(|found| found.value),
            driver: driver(&mut keys)?,
            command: command(&mut keys)?,
            tui: tui(&mut keys)?,
            resume_tui: with_id(&mut keys, "resume_tui")?,
            begin_tui: with_id(&mut keys, "begin_tui")?,
            env: env(&mut keys)?,
            conversation: conversation(&mut keys)?,
            install: keys.text("install")?.map(|found| found.value),
            version: keys.words("version")?.map(|found| found.value),
        };
        keys.finish()?;
        Ok(read)
    }
}

fn driver(keys: &mut Keys<'_>) -> Result<Option<Driver>, Problem> {
    let Some(Found { line, value }) = keys.text("driver")? else { return Ok(None) };
    let named = Driver::ALL.into_iter().find(|driver| driver.name() == value);
    let names = Driver::ALL.map(Driver::name);
    named.map(Some).ok_or_else(|| {
        let what = format!("there is no driver `{value}`{}", did_you_mean(&value, &names));
        keys.refusal(line, &what).hint(format!("the drivers are {}", names.join(", ")))
    })
}

fn command(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(found) = keys.words("command")? else { return Ok(None) };
    started(keys, "command", found).map(Some)
}

/// The same; or no word at all, for an agent that has none.
fn tui(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    match keys.words("tui")? {
        Some(found) if !found.value.is_empty() => started(keys, "tui", found).map(Some),
        found => Ok(found.map(|found| found.value)),
    }
}

fn started(keys: &Keys<'_>, key: &str, found: Found<Vec<String>>) -> Result<Vec<String>, Problem> {
    if found.value.first().is_none_or(String::is_empty) {
        let what = format!("`{key}` in {} is empty", keys.place());
        return Err(keys
            .refusal(found.line, &what)
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(found.value)
}

/// Words of which one has the id in it; or none at all, for what cannot be done.
fn with_id(keys: &mut Keys<'_>, key: &'static str) -> Result<Option<Vec<String>>, Problem> {
    let Some(Found { line, value }) = keys.words(key)? else { return Ok(None) };
    if !value.is_empty() && !value.iter().any(|word| word.contains(ID)) {
        let what = format!("`{key}` in {} says nowhere where the id goes", keys.place());
        return Err(keys
            .refusal(line, &what)
            .hint(format!("write it as {ID}, as in [\"--resume\", \"{ID}\"]")));
    }
    Ok(Some(value))
}

fn env(keys: &mut Keys<'_>) -> Result<Vec<(String, String)>, Problem> {
    let mut env = Vec::new();
    for (name, Found { line, value }) in keys.texts("env")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(keys.refusal(line, &format!("{name:?} cannot be the name of a variable")));
        }
        if name.starts_with("BERTH_") {
            return Err(keys.refusal(line, &format!("{name} is berth's own; choose another name")));
        }
        env.push((name, value));
    }
    Ok(env)
}

fn conversation(keys: &mut Keys<'_>) -> Result<Option<String>, Problem> {
    let Some(Found { line, value }) = keys.text("conversation")? else { return Ok(None) };
    // It becomes the name of a directory.
    match Name::parse(&value) {
        Ok(_) => Ok(Some(value)),
        Err(bad) => Err(keys.refusal(line, &format!("`conversation` in {} is no kind: {bad}", keys.place()))),
    }
}

/// `; did you mean …?`, if one of these is close enough to be meant.
pub(crate) fn did_you_mean<T: AsRef<str>>(given: &str, known: &[T]) -> String {
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

fn place(berth: Option<OsString>, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    if let Some(file) = berth.map(PathBuf::from) {
        return Some(std::path::absolute(&file).unwrap_or(file));
    }
    // The XDG specification says that a relative path there is to be ignored.
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let dir = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
    Some(dir.join("berth/config.toml"))
}

/// The bytes of the file; `None` when there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Err(Problem::new(Code::Usage, format!("{} is larger than {MAX_BYTES} bytes", path.display()))
                .hint("is this the config file? BERTH_CONFIG=FILE names another one"))
        }
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::new(
            Code::Refused,
            format!("cannot read the config file {}: {error}", path.display()),
        )
        .hint("BERTH_CONFIG=FILE names another one")),
    }
}

#[cfg(test)]
mod tests;
