//! Registry of the config keys: type, default, variable and explanation of each.
//!
//! Promise: the parser, `berth config --explain` and docs/config.md agree. A key that is read and not registered panics
//! in the tests; a key that is registered and not read is refused in the example file that the tests read.
//! Not here: the origin of a value (see `keys`), the use of a value.
//!
//! To add a table: write a file beside this one with its `TABLE` and a struct whose `read` takes each key out
//! of `keys::Keys` and ends with `finish` (`ui.rs` is the shortest, `agents.rs` has one of each kind);
//! add `&table::TABLE` to [`TABLES`], a field to [`super::Config`] and a line to `Config::parse`. Then
//! `UPDATE_DOCS=1 cargo nextest run -p berth-config docs_say` writes it into docs/config.md. A table inside another is called by
//! its whole path (`notify.webhook`), and tables under any name end in `NAME` (`notify.webhooks.NAME`).

/// Every table, in the order of the docs and of `berth config`.
pub const TABLES: &[&TableSpec] = &[
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

/// Stands for a free name at the end of a table's path.
const ANY: &str = "NAME";

/// One table of the config file and its keys.
#[derive(Debug)]
pub struct TableSpec {
    /// Path of the table, as it stands in brackets.
    pub path: &'static str,
    /// Purpose of the table, in one or two sentences.
    pub about: &'static str,
    pub keys: &'static [KeySpec],
}

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    pub name: &'static str,
    pub kind: ValueKind,
    /// Purpose of the key, in one line.
    pub about: &'static str,
    pub otherwise: DefaultValue,
    /// An example value, as TOML.
    example: Option<&'static str>,
    /// True if the value is redacted everywhere.
    pub is_secret: bool,
}

/// Behaviour of a key that is not set.
#[derive(Clone, Copy, Debug)]
pub enum DefaultValue {
    /// This default, in the form that a variable would have.
    Value(&'static str),
    /// No default; the text says in words what happens.
    Unset(&'static str),
}

/// Type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueKind {
    /// A string without further rules.
    Text,
    /// Exactly one of these words.
    Choice(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A boolean.
    Switch,
    /// A number between two limits, both included.
    Count(u64, u64),
    /// A duration, as in "10m".
    Time,
    /// A duration, or "never".
    TimeOrNever,
    /// An array of strings, such as a command and its arguments.
    Words,
    /// A table of strings under free names.
    Texts,
}

impl TableSpec {
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// True if there may be several such tables, each with a name.
    pub fn is_named(&self) -> bool {
        self.path.ends_with(ANY)
    }

    /// The environment variable that overrides a key. A table with a free name has none, and neither has a key of
    /// several values.
    pub fn variable(&self, key: &KeySpec) -> Option<String> {
        let path = self.path.replace(['.', '-'], "_").to_uppercase();
        let is_possible = !self.is_named() && key.kind.is_short();
        is_possible.then(|| format!("BERTH_{path}_{}", key.name.replace('-', "_").to_uppercase()))
    }

    /// True if this table has this name inside of the parent path.
    pub(crate) fn is_at(&self, parent: &str, name: &str, named: bool) -> bool {
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
        self.path == if named { format!("{path}.{ANY}") } else { path }
    }
}

impl KeySpec {
    pub const fn new(name: &'static str, kind: ValueKind, about: &'static str) -> Self {
        let otherwise = DefaultValue::Unset("not set");
        Self { name, kind, about, otherwise, example: None, is_secret: false }
    }

    /// Sets the default, in the form that a variable would have.
    pub const fn default(mut self, value: &'static str) -> Self {
        self.otherwise = DefaultValue::Value(value);
        self
    }

    /// Sets the text that says what an unset key means.
    pub const fn otherwise(mut self, words: &'static str) -> Self {
        self.otherwise = DefaultValue::Unset(words);
        self
    }

    /// Sets an example, as TOML, for a key without a useful default.
    pub const fn example(mut self, toml: &'static str) -> Self {
        self.example = Some(toml);
        self
    }

    /// Marks the value as a secret: it is redacted everywhere.
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// A valid value of the key, as TOML.
    pub fn sample(&self) -> String {
        match (self.example, self.otherwise, self.kind) {
            (Some(example), _, _) => example.to_owned(),
            (None, DefaultValue::Value(value), ValueKind::Switch | ValueKind::Count(..)) => value.to_owned(),
            (None, DefaultValue::Value(value), ValueKind::Choices(_)) => {
                let words: Vec<String> = value
                    .split(',')
                    .filter(|word| !word.is_empty())
                    .map(|word| format!("{word:?}"))
                    .collect();
                format!("[{}]", words.join(", "))
            }
            (None, DefaultValue::Value(value), _) => format!("{value:?}"),
            (None, DefaultValue::Unset(_), kind) => kind.sample(),
        }
    }
}

impl ValueKind {
    /// True if a variable can hold the value.
    pub(crate) fn is_short(self) -> bool {
        match self {
            Self::Text | Self::Choice(_) | Self::Choices(_) | Self::Switch => true,
            Self::Count(..) | Self::Time | Self::TimeOrNever => true,
            Self::Words | Self::Texts => false,
        }
    }

    /// The type in words, for docs and messages.
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
