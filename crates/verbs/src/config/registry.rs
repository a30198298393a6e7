//! Every key of the config file, said once: its type, its default, its variable, and what it does.
//!
//! Promise: what is read, what `berth config --explain` says and what docs/config.md says are the same. A key
//! that is read and not written here is a panic the tests find; one that is written here and not read is
//! refused in the file of all keys that the tests read.
//! Not here: where a value comes from (see `keys`), what is done with it.
//!
//! To add a table: write a file beside this one with its `TABLE` and a struct whose `read` takes each key out
//! of `keys::Keys` and ends with `finish` (`ui.rs` is the shortest, `agents.rs` has one of each kind);
//! add `&table::TABLE` to [`TABLES`], a field to [`super::Config`] and a line to `Config::parse`. Then
//! `UPDATE_DOCS=1 cargo nextest run -p berth-verbs docs_say` writes it into docs/config.md. A table inside another is called by
//! its whole path (`notify.webhook`), and tables under any name end in `NAME` (`notify.webhooks.NAME`).

/// All tables, in the order in which people are told of them.
pub const TABLES: &[&Table] = &[
    &super::ui::TABLE,
    &super::policy::TABLE,
    &super::notify::TABLE,
    &super::notify::WEBHOOK,
    &super::notify::WEBHOOKS,
    &super::hooks::TABLE,
    &super::history::TABLE,
    &super::serve::TABLE,
    &super::send::TABLE,
    &super::agents::TABLE,
    &super::hosts::TABLE,
];

/// What stands for any name at the end of a table's path.
const ANY: &str = "NAME";

/// One `[table]`.
#[derive(Debug)]
pub struct Table {
    /// As it stands in brackets.
    pub path: &'static str,
    /// What it is for, in a sentence or two.
    pub about: &'static str,
    pub keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// What it does, in a line.
    pub about: &'static str,
    pub otherwise: Otherwise,
    /// A value, as TOML.
    example: Option<&'static str>,
    /// Whether its value is shown to nobody.
    pub is_secret: bool,
}

/// What holds when nobody gives a key.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// This value, as it would be written in a variable.
    Value(&'static str),
    /// What that means, in words.
    Unset(&'static str),
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any string.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Some of these words.
    Choices(&'static [&'static str]),
    /// True or false.
    Switch,
    /// A number, from and to.
    Count(u64, u64),
    /// As in "10m".
    Time,
    /// The same, or "never".
    TimeOrNever,
    /// A command and its arguments, or anything that is a list of strings.
    Words,
    /// Strings under any names.
    Texts,
}

impl Table {
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Whether there may be several, each with a name.
    pub fn is_named(&self) -> bool {
        self.path.ends_with(ANY)
    }

    /// The variable that overrides a key. A table that needs a name has none, and neither has what is no
    /// single value.
    pub fn variable(&self, key: &Key) -> Option<String> {
        let path = self.path.replace(['.', '-'], "_").to_uppercase();
        let is_possible = !self.is_named() && key.kind.is_short();
        is_possible.then(|| format!("BERTH_{path}_{}", key.name.replace('-', "_").to_uppercase()))
    }

    /// What this table is called inside another one's path, if it is there.
    pub(crate) fn is_at(&self, parent: &str, name: &str, named: bool) -> bool {
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
        self.path == if named { format!("{path}.{ANY}") } else { path }
    }
}

impl Key {
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        let otherwise = Otherwise::Unset("not set");
        Self { name, kind, about, otherwise, example: None, is_secret: false }
    }

    /// The value when nobody gives one, as it would be written in a variable.
    pub const fn default(mut self, value: &'static str) -> Self {
        self.otherwise = Otherwise::Value(value);
        self
    }

    /// What it means that nobody gives one.
    pub const fn otherwise(mut self, words: &'static str) -> Self {
        self.otherwise = Otherwise::Unset(words);
        self
    }

    /// A value, as TOML, for what has no default or a dull one.
    pub const fn example(mut self, toml: &'static str) -> Self {
        self.example = Some(toml);
        self
    }

    /// Its value is shown to nobody.
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// A value for it, as TOML.
    pub fn sample(&self) -> String {
        match (self.example, self.otherwise, self.kind) {
            (Some(example), _, _) => example.to_owned(),
            (None, Otherwise::Value(value), Kind::Switch | Kind::Count(..)) => value.to_owned(),
            (None, Otherwise::Value(value), Kind::Choices(_)) => {
                let words: Vec<String> = value
                    .split(',')
                    .filter(|word| !word.is_empty())
                    .map(|word| format!("{word:?}"))
                    .collect();
                format!("[{}]", words.join(", "))
            }
            (None, Otherwise::Value(value), _) => format!("{value:?}"),
            (None, Otherwise::Unset(_), kind) => kind.sample(),
        }
    }
}

impl Kind {
    /// Whether a variable can say it.
    pub(crate) fn is_short(self) -> bool {
        match self {
            Self::Text | Self::Choice(_) | Self::Choices(_) | Self::Switch => true,
            Self::Count(..) | Self::Time | Self::TimeOrNever => true,
            Self::Words | Self::Texts => false,
        }
    }

    /// For people.
    pub fn words(self) -> String {
        let any = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
        match self {
            Self::Text => "a string".to_owned(),
            Self::Choice(words) => any(words).join(", "),
            Self::Choices(words) => format!("a list of {}", any(words).join(", ")),
            Self::Switch => "true, false".to_owned(),
            Self::Count(0, u64::MAX) => "a number".to_owned(),
            Self::Count(least, u64::MAX) => format!("a number from {least}"),
            Self::Count(least, most) => format!("a number from {least} to {most}"),
            Self::Time => "a time, as in \"10m\"".to_owned(),
            Self::TimeOrNever => "a time, as in \"10m\", or \"never\"".to_owned(),
            Self::Words => "an array of strings".to_owned(),
            Self::Texts => "a table of strings".to_owned(),
        }
    }

    fn sample(self) -> String {
        match self {
            Self::Text => "\"…\"".to_owned(),
            Self::Choice(words) => format!("{:?}", words.first().copied().unwrap_or_default()),
            Self::Choices(words) => format!("{words:?}"),
            Self::Switch => "true".to_owned(),
            Self::Count(least, _) => least.to_string(),
            Self::Time | Self::TimeOrNever => "\"10m\"".to_owned(),
            Self::Words => "[\"program\", \"argument\"]".to_owned(),
            Self::Texts => "{ NAME = \"value\" }".to_owned(),
        }
    }
}
