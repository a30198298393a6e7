//! Tables of a TOML file, read key by key, together with the environment variables that override them.
//!
//! Promise: an unknown key is refused with a list of the valid ones; every refusal names file, line and column, or the
//! variable, and none repeats a value that may be a secret. The file and the variable are both checked, also where only
//! one of them counts.
//! Not here: the list of keys (see `registry`).
//! Start with [`ConfigDocument::keys`], then [`TableReader::table`], [`TableReader::choice`], [`TableReader::finish`].

mod values;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use berth_api::{Problem, redact};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::registry::{KeySpec, TableSpec};

/// A file with its text, so that a place in it has a line; and the environment variables.
pub(crate) struct ConfigDocument<'f> {
    path: &'f Path,
    text: &'f str,
    tables: &'static [&'static TableSpec],
    variable: &'f dyn Fn(&str) -> Option<OsString>,
    settings: RefCell<Vec<ConfigSetting>>,
}

/// One table. Each key is taken out by its name; a key that remains at the end is unknown.
pub(crate) struct TableReader<'f> {
    document: &'f ConfigDocument<'f>,
    /// The table's entry in the registry; `None` for a table that only contains tables.
    table: Option<&'static TableSpec>,
    /// Path of the table in the registry: `agents.NAME`.
    path: String,
    /// The table as messages write it: `[agents.claude]`.
    place: String,
    spot: ConfigPosition,
    left: BTreeMap<String, (ConfigPosition, Spanned<DeValue<'f>>)>,
    asked: Vec<&'static str>,
}

/// A place in the file; line and column start at 1, and columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConfigPosition {
    pub line: usize,
    pub column: usize,
}

/// Origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingOrigin {
    /// The built-in default.
    Default,
    /// The config file, at this place.
    File(ConfigPosition),
    /// The environment variable of this name.
    Environment(String),
    /// This option of the command.
    Flag(&'static str),
}

/// The value of one key and its origin, for display: a secret is redacted.
#[derive(Clone, Debug)]
pub struct ConfigSetting {
    /// Table of the key, without brackets: `agents.claude`.
    pub table: String,
    pub key: &'static KeySpec,
    /// Value as JSON; `None` if the key is not set and has no default.
    pub value: Option<serde_json::Value>,
    pub origin: SettingOrigin,
}

/// A value and its origin.
#[derive(Debug)]
pub(crate) struct ConfigValue<T> {
    pub(crate) origin: SettingOrigin,
    pub(crate) value: T,
}

impl fmt::Display for ConfigPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The error for a place in the file.
pub(crate) fn refusal(path: &Path, spot: ConfigPosition, what: &str) -> Problem {
    Problem::usage(format!("{}:{spot}: {what}", path.display()))
}

impl<'f> ConfigDocument<'f> {
    pub(crate) fn new(
        path: &'f Path,
        bytes: &'f [u8],
        tables: &'static [&'static TableSpec],
        variable: &'f dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            refusal(path, end_of(&before), "this is not valid UTF-8, so it is not valid TOML")
                .hint("save it as UTF-8 in your editor")
        })?;
        Ok(Self { path, text, tables, variable, settings: RefCell::default() })
    }

    /// The keys outside of every table.
    pub(crate) fn keys(&'f self) -> Result<TableReader<'f>, Problem> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let said = error.message().lines().next().unwrap_or_default();
            refusal(
                self.path,
                self.spot(at),
                &format!("this is not valid TOML: {}", redact::redact_text(said)),
            )
            .hint("`berth config --example` prints a valid file")
        })?;
        let (path, place) = (String::new(), "the file".to_owned());
        Ok(TableReader::new(self, path, place, ConfigPosition { line: 1, column: 1 }, table.into_inner()))
    }

    /// The value and origin of each key that was read.
    pub(crate) fn settings(&self) -> Vec<ConfigSetting> {
        self.settings.take()
    }

    fn spot(&self, offset: usize) -> ConfigPosition {
        // A span may end where the text does, and always at a character boundary.
        end_of(self.text.get(..offset).unwrap_or(self.text))
    }

    fn table_at(&self, parent: &str, name: &str, named: bool) -> Option<&'static TableSpec> {
        self.tables.iter().copied().find(|table| table.is_at(parent, name, named))
    }
}

/// The place behind this text.
fn end_of(before: &str) -> ConfigPosition {
    let last = before.rsplit('\n').next().unwrap_or_default();
    ConfigPosition { line: 1 + before.matches('\n').count(), column: 1 + last.chars().count() }
}

impl<'f> TableReader<'f> {
    fn new(
        document: &'f ConfigDocument<'f>,
        path: String,
        place: String,
        spot: ConfigPosition,
        table: DeTable<'f>,
    ) -> Self {
        let left = table.into_iter().map(|(key, value)| {
            let spot = document.spot(key.span().start);
            (key.into_inner().into_owned(), (spot, value))
        });
        let known = document.tables.iter().copied().find(|table| table.path == path);
        Self { document, table: known, path, place, spot, left: left.collect(), asked: Vec::new() }
    }

    /// The place of the table's name in the file.
    pub(crate) fn spot(&self) -> ConfigPosition {
        self.spot
    }

    /// A table inside of this one. A table that the file does not have has no keys, and so their defaults.
    pub(crate) fn table(&mut self, name: &'static str) -> Result<TableReader<'f>, Problem> {
        let known = self.document.table_at(&self.path, name, false);
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        assert!(known.is_some(), "the table [{path}] is read, and not in the registry");
        let place = self.placed(name);
        match self.take(name) {
            None => Ok(TableReader::new(self.document, path, place, self.spot, DeTable::new())),
            Some((spot, value)) => match value.into_inner() {
                DeValue::Table(table) => Ok(TableReader::new(self.document, path, place, spot, table)),
                other => Err(self.odd(spot, name, &other, &format!("a table, as in {place}"))),
            },
        }
    }

    /// The tables under free names inside of this one, such as `agents.NAME`.
    pub(crate) fn tables(&mut self, name: &'static str) -> Result<Vec<(String, TableReader<'f>)>, Problem> {
        let known = self.document.table_at(&self.path, name, true);
        let known = known.expect("a table that is read is in the registry");
        let Some((spot, value)) = self.take(name) else { return Ok(Vec::new()) };
        let DeValue::Table(inner) = value.get_ref() else {
            let expected = format!("a table of tables, as in [{}]", known.path);
            return Err(self.odd(spot, name, value.get_ref(), &expected));
        };
        let mut tables = Vec::new();
        for (key, value) in inner.clone() {
            let (spot, key) = (self.document.spot(key.span().start), key.into_inner().into_owned());
            let place = known.path.replace("NAME", &key);
            let DeValue::Table(table) = value.into_inner() else {
                let what =
                    format!("`{key}` in {} must be a table of its own, as in [{place}]", self.placed(name));
                return Err(refusal(self.document.path, spot, &what).hint(explain(known.path)));
            };
            let place = format!("[{place}]");
            tables.push((key, TableReader::new(self.document, known.path.to_owned(), place, spot, table)));
        }
        // In the order of the file, so that the first mistake is reported first.
        tables.sort_by_key(|(_, keys)| keys.spot);
        Ok(tables)
    }

    /// Refuses keys that were not read: they are unknown.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        let unknown = self.left.iter().min_by_key(|(_, (spot, _))| *spot);
        let Some((key, (spot, _))) = unknown else { return Ok(()) };
        let meant = super::did_you_mean(key, &self.asked);
        let what = format!("{} has no key `{key}`{meant}", self.place);
        let hint = format!("valid keys: {}", self.asked.join(", "));
        Err(refusal(self.document.path, *spot, &what).hint(hint))
    }

    /// The error for the table itself.
    pub(crate) fn refusal(&self, what: &str) -> Problem {
        refusal(self.document.path, self.spot, what).hint(explain(&self.path))
    }

    /// The error for a value that parses and is wrong for its use.
    pub(crate) fn refuse(&self, key: &str, origin: &SettingOrigin, what: &str) -> Problem {
        let explain = self.explain(key);
        match origin {
            SettingOrigin::File(spot) => {
                let what = format!("{} {what}", self.named(key));
                refusal(self.document.path, *spot, &what).hint(explain)
            }
            SettingOrigin::Environment(name) => {
                Problem::usage(format!("the variable {name} {what}")).hint(explain)
            }
            SettingOrigin::Flag(name) => Problem::usage(format!("{name} {what}")).hint(explain),
            SettingOrigin::Default => Problem::bug(format!("the default of `{key}` {what}")),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<(ConfigPosition, Spanned<DeValue<'f>>)> {
        self.asked.push(key);
        self.left.remove(key)
    }

    fn odd(&self, spot: ConfigPosition, key: &str, value: &DeValue<'_>, expected: &str) -> Problem {
        let what = format!("{} is of type {}; it must be {expected}", self.named(key), value.type_str());
        refusal(self.document.path, spot, &what).hint(self.explain(key))
    }

    fn placed(&self, name: &str) -> String {
        match self.place.strip_suffix(']') {
            Some(place) => format!("{place}.{name}]"),
            None => format!("[{name}]"),
        }
    }

    /// The hint for a key, or for a part of its value: `env.A` is explained with `env`.
    fn explain(&self, key: &str) -> String {
        let key = key.split('.').next().unwrap_or(key);
        explain(&if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) })
    }

    fn named(&self, key: &str) -> String {
        format!("`{key}` in {}", self.place)
    }
}

/// The hint for a key or a table.
fn explain(path: &str) -> String {
    if path.is_empty() {
        return "`berth config --explain` explains every key".to_owned();
    }
    format!("`berth config --explain {path}` explains it")
}
