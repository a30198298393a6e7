//! Tables of a TOML file, taken apart key by key.
//!
//! Promise: a key nobody asked for is refused, and what was asked for is what is offered instead; every
//! refusal names file and line, and none repeats a value.
//! Not here: which keys there are (see [`super`]).
//! Start with [`Document::keys`], then [`Keys::finish`].

use std::collections::BTreeMap;
use std::path::Path;

use berth_api::{Code, Problem, redact};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file with its text, so that a place in it has a line.
pub(super) struct Document<'f> {
    path: &'f Path,
    text: &'f str,
}

/// One table. Each key is taken out by its name; what is left in the end is not known.
pub(super) struct Keys<'f> {
    document: &'f Document<'f>,
    /// As people write it: `[agents.claude]`.
    place: String,
    line: usize,
    left: BTreeMap<String, (usize, Spanned<DeValue<'f>>)>,
    asked: Vec<&'static str>,
}

/// A value, and where it was.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

/// The refusal of a line.
pub(super) fn refusal(path: &Path, line: usize, what: &str) -> Problem {
    Problem::new(Code::Usage, format!("{}:{line}: {what}", path.display()))
}

impl<'f> Document<'f> {
    pub(super) fn new(path: &'f Path, bytes: &'f [u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            refusal(path, line_of(&bytes[..error.valid_up_to()]), "this is not UTF-8, and so not TOML")
        })?;
        Ok(Self { path, text })
    }

    /// The keys outside of any table.
    pub(super) fn keys(&'f self) -> Result<Keys<'f>, Problem> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let said = error.message().lines().next().unwrap_or_default();
            self.refusal(self.line(at), &format!("this is not TOML: {}", redact::text(said)))
        })?;
        Ok(Keys::new(self, "the file".to_owned(), 1, table.into_inner()))
    }

    pub(super) fn refusal(&self, line: usize, what: &str) -> Problem {
        refusal(self.path, line, what)
    }

    fn line(&self, offset: usize) -> usize {
        line_of(&self.text.as_bytes()[..offset.min(self.text.len())])
    }
}

fn line_of(before: &[u8]) -> usize {
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

impl<'f> Keys<'f> {
    fn new(document: &'f Document<'f>, place: String, line: usize, table: DeTable<'f>) -> Self {
        let left = table.into_iter().map(|(key, value)| {
            let line = document.line(key.span().start);
            (key.into_inner().into_owned(), (line, value))
        });
        Self { document, place, line, left: left.collect(), asked: Vec::new() }
    }

    /// Where the table is called by its name.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The table as people write it.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn refusal(&self, line: usize, what: &str) -> Problem {
        self.document.refusal(line, what)
    }

    /// A string.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<Found<String>>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        let value = self.string(line, key, value.into_inner())?;
        Ok(Some(Found { line, value }))
    }

    /// An array of strings.
    pub(super) fn words(&mut self, key: &'static str) -> Result<Option<Found<Vec<String>>>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.odd(
                line,
                key,
                value.get_ref(),
                "an array of strings, as in [\"codex\", \"app-server\"]",
            ));
        };
        let mut words = Vec::new();
        for word in array.iter() {
            let line = self.document.line(word.span().start);
            words.push(self.string(line, &format!("a word of `{key}`"), word.get_ref().clone())?);
        }
        Ok(Some(Found { line, value: words }))
    }

    /// One of these.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(Found { line, value }) = self.text(key)? else { return Ok(None) };
        self.one_of(line, key, &value, all, name).map(Some)
    }

    /// Some of these.
    pub(super) fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<Vec<T>>, Problem> {
        let Some(Found { line, value }) = self.words(key)? else { return Ok(None) };
        let found = value.iter().map(|word| self.one_of(line, key, word, all, name));
        found.collect::<Result<_, _>>().map(Some)
    }

    fn one_of<T: Copy>(
        &self,
        line: usize,
        key: &str,
        word: &str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<T, Problem> {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| {
            let what = format!("{} has no `{word}`{}", self.named(key), super::did_you_mean(word, &names));
            self.refusal(line, &what).hint(format!("known there: {}", names.join(", ")))
        })
    }

    /// True or false.
    pub(super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(value) => Ok(Some(*value)),
            other => Err(self.odd(line, key, other, "true or false")),
        }
    }

    /// A number.
    pub(super) fn count(&mut self, key: &'static str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        let expected = format!("a number from {least} to {most}");
        let DeValue::Integer(number) = value.get_ref() else {
            return Err(self.odd(line, key, value.get_ref(), &expected));
        };
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.refusal(line, &format!("{} must be {expected}", self.named(key))))
    }

    /// A time.
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<std::time::Duration>, Problem> {
        let Some(Found { line, value }) = self.text(key)? else { return Ok(None) };
        let time = crate::args::duration(&value);
        time.map(Some).map_err(|why| self.refusal(line, &format!("{}: {why}", self.named(key))))
    }

    /// A table, if it is there.
    pub(super) fn sub(&mut self, key: &'static str) -> Result<Option<Keys<'f>>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        self.table(line, key, value, "a table").map(Some)
    }

    /// A table of strings under any names.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<(String, Found<String>)>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(Vec::new()) };
        let inner = self.table(line, key, value, "a table of strings, as in { NAME = \"value\" }")?;
        let mut texts = Vec::new();
        for (name, (line, value)) in inner.left {
            let value = self.string(line, &name, value.into_inner())?;
            texts.push((name, Found { line, value }));
        }
        Ok(texts)
    }

    /// A table of tables under any names.
    pub(super) fn tables(&mut self, key: &'static str) -> Result<Vec<(String, Keys<'f>)>, Problem> {
        let Some((line, value)) = self.take(key) else { return Ok(Vec::new()) };
        let expected = format!("a table of tables, as in [{key}.NAME]");
        let inner = self.table(line, key, value, &expected)?;
        let mut tables = Vec::new();
        for (name, (line, value)) in inner.left {
            let DeValue::Table(table) = value.into_inner() else {
                let what = format!("`{name}` in [{key}] must be a table of its own, as in [{key}.{name}]");
                return Err(self.refusal(line, &what));
            };
            tables.push((name.clone(), Keys::new(self.document, format!("[{key}.{name}]"), line, table)));
        }
        Ok(tables)
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(self) -> Result<(), Problem> {
        let unknown = self.left.iter().min_by_key(|(_, (line, _))| *line);
        let Some((key, (line, _))) = unknown else { return Ok(()) };
        let meant = super::did_you_mean(key, &self.asked);
        let what = format!("{} has no key `{key}`{meant}", self.place);
        Err(self.refusal(*line, &what).hint(format!("known there: {}", self.asked.join(", "))))
    }

    fn take(&mut self, key: &'static str) -> Option<(usize, Spanned<DeValue<'f>>)> {
        self.asked.push(key);
        self.left.remove(key)
    }

    fn table(
        &self,
        line: usize,
        key: &str,
        value: Spanned<DeValue<'f>>,
        expected: &str,
    ) -> Result<Keys<'f>, Problem> {
        match value.into_inner() {
            DeValue::Table(table) => Ok(Keys::new(self.document, format!("[{key}]"), line, table)),
            other => Err(self.odd(line, key, &other, expected)),
        }
    }

    fn string(&self, line: usize, key: &str, value: DeValue<'f>) -> Result<String, Problem> {
        match value {
            // No program can be given one, neither as a word nor in a variable.
            DeValue::String(text) if text.contains('\0') => {
                Err(self.refusal(line, &format!("{} contains a zero byte", self.named(key))))
            }
            DeValue::String(text) => Ok(text.into_owned()),
            other => Err(self.odd(line, key, &other, "a string, in quotes")),
        }
    }

    fn odd(&self, line: usize, key: &str, value: &DeValue<'_>, expected: &str) -> Problem {
        let what = format!("{} is of type {}; it must be {expected}", self.named(key), value.type_str());
        self.refusal(line, &what)
    }

    fn named(&self, key: &str) -> String {
        let key = if key.contains('`') { key.to_owned() } else { format!("`{key}`") };
        format!("{key} in {}", self.place)
    }
}
