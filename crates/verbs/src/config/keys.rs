//! Tables of a TOML file, taken apart key by key, with what the environment says over it.
//!
//! Promise: a key nobody asked for is refused, and what was asked for is what is offered instead; every
//! refusal names file, line and column, or the variable, and none repeats a value that may be a secret. Both
//! are checked, also where only one of them counts.
//! Not here: which keys there are (see `registry`).
//! Start with [`Document::keys`], then [`Keys::table`], [`Keys::choice`], [`Keys::finish`].

mod read;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use berth_api::{Code, Problem, redact};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::registry::{Key, Table};

/// A file with its text, so that a place in it has a line; and what is set around it.
pub(crate) struct Document<'f> {
    path: &'f Path,
    text: &'f str,
    tables: &'static [&'static Table],
    variable: &'f dyn Fn(&str) -> Option<OsString>,
    settings: RefCell<Vec<Setting>>,
}

/// One table. Each key is taken out by its name; what is left in the end is not known.
pub(crate) struct Keys<'f> {
    document: &'f Document<'f>,
    /// What the registry knows of it: nothing of a table that only has tables in it.
    table: Option<&'static Table>,
    /// Its path in the registry: `agents.NAME`.
    path: String,
    /// As people write it: `[agents.claude]`.
    place: String,
    spot: Spot,
    left: BTreeMap<String, (Spot, Spanned<DeValue<'f>>)>,
    asked: Vec<&'static str>,
}

/// A place in the file, from 1 on; columns are characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spot {
    pub line: usize,
    pub column: usize,
}

/// Who says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody: it is built in.
    Default,
    /// The file.
    File(Spot),
    /// A variable.
    Environment(String),
    /// An option of this command.
    Flag(&'static str),
}

/// What holds for one key, for people: a secret is not in it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `agents.claude`, without brackets.
    pub table: String,
    pub key: &'static Key,
    /// Nothing where nobody says anything and there is no default.
    pub value: Option<serde_json::Value>,
    pub origin: Origin,
}

/// A value, and who says so.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) origin: Origin,
    pub(crate) value: T,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The refusal of a place in the file.
pub(crate) fn refusal(path: &Path, spot: Spot, what: &str) -> Problem {
    Problem::new(Code::Usage, format!("{}:{spot}: {what}", path.display()))
}

impl<'f> Document<'f> {
    pub(crate) fn new(
        path: &'f Path,
        bytes: &'f [u8],
        tables: &'static [&'static Table],
        variable: &'f dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            refusal(path, end_of(&before), "this is not UTF-8, and so not TOML")
                .hint("save it as UTF-8 in your editor")
        })?;
        Ok(Self { path, text, tables, variable, settings: RefCell::default() })
    }

    /// The keys outside of any table.
    pub(crate) fn keys(&'f self) -> Result<Keys<'f>, Problem> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let said = error.message().lines().next().unwrap_or_default();
            refusal(self.path, self.spot(at), &format!("this is not TOML: {}", redact::text(said)))
                .hint("`berth config --example` prints a file that is")
        })?;
        let (path, place) = (String::new(), "the file".to_owned());
        Ok(Keys::new(self, path, place, Spot { line: 1, column: 1 }, table.into_inner()))
    }

    /// What holds for each key that was asked for.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.settings.take()
    }

    fn spot(&self, offset: usize) -> Spot {
        // A span may end where the text does, and always at a whole character.
        end_of(self.text.get(..offset).unwrap_or(self.text))
    }

    fn table_at(&self, parent: &str, name: &str, named: bool) -> Option<&'static Table> {
        self.tables.iter().copied().find(|table| table.is_at(parent, name, named))
    }
}

/// Where the next character would be.
fn end_of(before: &str) -> Spot {
    let last = before.rsplit('\n').next().unwrap_or_default();
    Spot { line: 1 + before.matches('\n').count(), column: 1 + last.chars().count() }
}

impl<'f> Keys<'f> {
    fn new(document: &'f Document<'f>, path: String, place: String, spot: Spot, table: DeTable<'f>) -> Self {
        let left = table.into_iter().map(|(key, value)| {
            let spot = document.spot(key.span().start);
            (key.into_inner().into_owned(), (spot, value))
        });
        let known = document.tables.iter().copied().find(|table| table.path == path);
        Self { document, table: known, path, place, spot, left: left.collect(), asked: Vec::new() }
    }

    /// Where the table is called by its name.
    pub(crate) fn spot(&self) -> Spot {
        self.spot
    }

    /// A table in this one. One that is not in the file has no keys, and so their defaults.
    pub(crate) fn table(&mut self, name: &'static str) -> Result<Keys<'f>, Problem> {
        let known = self.document.table_at(&self.path, name, false);
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        assert!(known.is_some(), "the table [{path}] is read, and not in the registry");
        let place = self.placed(name);
        match self.take(name) {
            None => Ok(Keys::new(self.document, path, place, self.spot, DeTable::new())),
            Some((spot, value)) => match value.into_inner() {
                DeValue::Table(table) => Ok(Keys::new(self.document, path, place, spot, table)),
                other => Err(self.odd(spot, name, &other, &format!("a table, as in {place}"))),
            },
        }
    }

    /// Tables under any names in this one.
    pub(crate) fn tables(&mut self, name: &'static str) -> Result<Vec<(String, Keys<'f>)>, Problem> {
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
            tables.push((key, Keys::new(self.document, known.path.to_owned(), place, spot, table)));
        }
        // As they are in the file, so that the first mistake is told first.
        tables.sort_by_key(|(_, keys)| keys.spot);
        Ok(tables)
    }

    /// Refuses what nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        let unknown = self.left.iter().min_by_key(|(_, (spot, _))| *spot);
        let Some((key, (spot, _))) = unknown else { return Ok(()) };
        let meant = super::did_you_mean(key, &self.asked);
        let what = format!("{} has no key `{key}`{meant}", self.place);
        let hint = format!("known there: {}", self.asked.join(", "));
        Err(refusal(self.document.path, *spot, &what).hint(hint))
    }

    /// The refusal of the table itself.
    pub(crate) fn refusal(&self, what: &str) -> Problem {
        refusal(self.document.path, self.spot, what).hint(explain(&self.path))
    }

    /// The refusal of a value that only turns out to be wrong when somebody looks at it.
    pub(crate) fn refuse(&self, key: &str, origin: &Origin, what: &str) -> Problem {
        let explain = self.explain(key);
        match origin {
            Origin::File(spot) => {
                let what = format!("{} {what}", self.named(key));
                refusal(self.document.path, *spot, &what).hint(explain)
            }
            Origin::Environment(name) => {
                Problem::new(Code::Usage, format!("the variable {name} {what}")).hint(explain)
            }
            Origin::Flag(name) => Problem::new(Code::Usage, format!("{name} {what}")).hint(explain),
            Origin::Default => Problem::new(Code::Bug, format!("the default of `{key}` {what}")),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<(Spot, Spanned<DeValue<'f>>)> {
        self.asked.push(key);
        self.left.remove(key)
    }

    fn odd(&self, spot: Spot, key: &str, value: &DeValue<'_>, expected: &str) -> Problem {
        let what = format!("{} is of type {}; it must be {expected}", self.named(key), value.type_str());
        refusal(self.document.path, spot, &what).hint(self.explain(key))
    }

    fn placed(&self, name: &str) -> String {
        match self.place.strip_suffix(']') {
            Some(place) => format!("{place}.{name}]"),
            None => format!("[{name}]"),
        }
    }

    /// What to do next about a key, or about what is in it: `env.A` is explained with `env`.
    fn explain(&self, key: &str) -> String {
        let key = key.split('.').next().unwrap_or(key);
        explain(&if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) })
    }

    fn named(&self, key: &str) -> String {
        format!("`{key}` in {}", self.place)
    }
}

/// What to do next about a key or a table.
fn explain(path: &str) -> String {
    if path.is_empty() {
        return "`berth config --explain` explains every key".to_owned();
    }
    format!("`berth config --explain {path}` explains it")
}
