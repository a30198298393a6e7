//! Values of config keys, read by the kind of the key.
//!
//! Promise: one parser reads the file, the variable and the default.
//! Start with [`TableReader::read`].

use std::time::Duration;

use berth_api::{Problem, redact};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::DeValue;

use super::super::registry::{DefaultValue, KeySpec, ValueKind};
use super::{ConfigPosition, ConfigSetting, ConfigValue, SettingOrigin, TableReader};

/// Shown in place of a secret.
const HIDDEN: &str = "***";

/// Reason why a text is not a valid value; the message continues "`key` in TABLE".
struct InvalidValue {
    what: String,
    hint: Option<String>,
}

impl<'f> TableReader<'f> {
    /// Reads a string.
    pub(in super::super) fn text(
        &mut self,
        key: &'static str,
    ) -> Result<Option<ConfigValue<String>>, Problem> {
        self.read(key, |kind, text| match kind {
            ValueKind::Text => Some(match text {
                // No program can get a zero byte, neither in an argument nor in a variable.
                text if text.contains('\0') => Err(bad("contains a zero byte")),
                text => Ok(text.to_owned()),
            }),
            _ => None,
        })
    }

    /// Reads one of these words.
    pub(in super::super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            ValueKind::Choice(words) => Some(one_of(text, words, all, name)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads a list of these words.
    pub(in super::super) fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<Vec<T>>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            ValueKind::Choices(words) => {
                let given = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Some(given.map(|word| one_of(word, words, all, name)).collect())
            }
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads true or false.
    pub(in super::super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, Problem> {
        let found = self.read(key, |kind, text| match (kind, text) {
            (ValueKind::Switch, "true" | "1" | "yes" | "on") => Some(Ok(true)),
            (ValueKind::Switch, "false" | "0" | "no" | "off") => Some(Ok(false)),
            (ValueKind::Switch, _) => Some(Err(bad("must be true or false"))),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads a number within the limits of the key.
    pub(in super::super) fn count(&mut self, key: &'static str) -> Result<Option<u64>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            ValueKind::Count(least, most) => Some(match text.parse() {
                Ok(number) if (least..=most).contains(&number) => Ok(number),
                Ok(_) | Err(_) => Err(bad(&format!("must be {}", kind.words()))),
            }),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads a duration.
    pub(in super::super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            ValueKind::Time => Some(time(text)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads a duration or "never"; `Some(None)` is "never", which differs from an unset key with a default.
    pub(in super::super) fn time_or_never(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Option<Duration>>, Problem> {
        let found = self.read(key, |kind, text| match (kind, text) {
            (ValueKind::TimeOrNever, "never") => Some(Ok(None)),
            (ValueKind::TimeOrNever, text) => Some(time(text).map(Some)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads an array of strings.
    pub(in super::super) fn words(
        &mut self,
        key: &'static str,
    ) -> Result<Option<ConfigValue<Vec<String>>>, Problem> {
        let known = self.known(key, |kind| kind == ValueKind::Words);
        let Some((spot, value)) = self.take(key) else {
            self.note(known, None, SettingOrigin::Default);
            return Ok(None);
        };
        let spot = self.value_spot(spot, &value);
        let words = self.strings(spot, key, value.get_ref(), "codex\", \"app-server")?;
        let origin = SettingOrigin::File(spot);
        let shown: Value = if known.is_secret { json!(HIDDEN) } else { json!(redact::redact_words(&words)) };
        self.note(known, Some(shown), origin.clone());
        Ok(Some(ConfigValue { origin, value: words }))
    }

    /// Reads a table of strings under free names. Its values are never shown.
    pub(in super::super) fn texts(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<(String, ConfigValue<String>)>, Problem> {
        let known = self.known(key, |kind| kind == ValueKind::Texts);
        let Some((spot, value)) = self.take(key) else {
            self.note(known, None, SettingOrigin::Default);
            return Ok(Vec::new());
        };
        let DeValue::Table(inner) = value.get_ref() else {
            let expected = "a table of strings, as in { NAME = \"value\" }";
            return Err(self.odd(self.value_spot(spot, &value), key, value.get_ref(), expected));
        };
        let mut texts = Vec::new();
        for (name, value) in inner.iter() {
            let spot = self.document.spot(value.span().start);
            let text = self.string(spot, &format!("{key}.{}", name.get_ref()), value.get_ref())?;
            texts.push((
                name.get_ref().to_string(),
                ConfigValue { origin: SettingOrigin::File(spot), value: text },
            ));
        }
        let names = texts.iter().map(|(name, _)| (name.clone(), json!(HIDDEN)));
        self.note(known, Some(Value::Object(names.collect())), SettingOrigin::File(spot));
        Ok(texts)
    }

    /// Parses the default, the file's value and the variable's value, and returns the last of them. `parse` returns
    /// `None` for a key of another kind.
    fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(ValueKind, &str) -> Option<Result<T, InvalidValue>>,
    ) -> Result<Option<ConfigValue<T>>, Problem> {
        let known = self.known(key, |_| true);
        let parse = |text: &str| parse(known.kind, text).expect("a key is read as the kind it is of");
        let mut said: Vec<(SettingOrigin, String)> = Vec::new();
        if let DefaultValue::Value(value) = known.otherwise {
            said.push((SettingOrigin::Default, value.to_owned()));
        }
        if let Some((spot, value)) = self.take(key) {
            let spot = self.value_spot(spot, &value);
            said.push((SettingOrigin::File(spot), self.as_text(spot, known, value.get_ref())?));
        }
        let variable = self.table.and_then(|table| table.variable(known));
        if let Some(name) = variable
            && let Some(value) = (self.document.variable)(&name).filter(|value| !value.is_empty())
        {
            let origin = SettingOrigin::Environment(name);
            let text = value.into_string().map_err(|_| self.refuse(key, &origin, "is not UTF-8"))?;
            said.push((origin, text));
        }
        let mut found = None;
        let mut shown = (None, SettingOrigin::Default);
        for (origin, text) in said {
            let value = parse(&text).map_err(|bad| {
                let problem = self.refuse(key, &origin, &bad.what);
                bad.hint.into_iter().fold(problem, Problem::hint)
            })?;
            shown = (Some(shown_as(known, &text)), origin.clone());
            found = Some(ConfigValue { origin, value });
        }
        self.note(known, shown.0, shown.1);
        Ok(found)
    }

    /// A value of the file in the form that a variable would have.
    fn as_text(&self, spot: ConfigPosition, known: &KeySpec, value: &DeValue<'f>) -> Result<String, Problem> {
        match (known.kind, value) {
            (ValueKind::Switch, DeValue::Boolean(value)) => Ok(value.to_string()),
            (ValueKind::Switch, other) => Err(self.odd(spot, known.name, other, "true or false")),
            (ValueKind::Count(..), DeValue::Integer(number)) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                number.map(|number| number.to_string()).map_err(|_| {
                    self.refuse(
                        known.name,
                        &SettingOrigin::File(spot),
                        &format!("must be {}", known.kind.words()),
                    )
                })
            }
            (ValueKind::Count(..), other) => Err(self.odd(spot, known.name, other, &known.kind.words())),
            (ValueKind::Choices(words), value) => {
                let example = words.iter().take(2).copied().collect::<Vec<_>>().join("\", \"");
                Ok(self.strings(spot, known.name, value, &example)?.join(","))
            }
            (_, value) => self.string(spot, known.name, value),
        }
    }

    fn string(&self, spot: ConfigPosition, key: &str, value: &DeValue<'f>) -> Result<String, Problem> {
        match value {
            DeValue::String(text) if text.contains('\0') => {
                Err(self.refuse(key, &SettingOrigin::File(spot), "contains a zero byte"))
            }
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(self.odd(spot, key, other, "a string, in quotes")),
        }
    }

    fn strings(
        &self,
        spot: ConfigPosition,
        key: &str,
        value: &DeValue<'f>,
        example: &str,
    ) -> Result<Vec<String>, Problem> {
        let DeValue::Array(array) = value else {
            let expected = format!("an array of strings, as in [\"{example}\"]");
            return Err(self.odd(spot, key, value, &expected));
        };
        let word = |word: &Spanned<DeValue<'f>>| {
            self.string(self.document.spot(word.span().start), key, word.get_ref())
        };
        array.iter().map(word).collect()
    }

    /// The place of a value; for the tables `[a.b]` and `a.b = …` the place of their name.
    fn value_spot(&self, key: ConfigPosition, value: &Spanned<DeValue<'f>>) -> ConfigPosition {
        match value.get_ref() {
            DeValue::Table(_) => key,
            _ => self.document.spot(value.span().start),
        }
    }

    fn known(&self, key: &str, is_right: impl Fn(ValueKind) -> bool) -> &'static KeySpec {
        let known = self.table.and_then(|table| table.key(key));
        let known =
            known.unwrap_or_else(|| panic!("`{key}` is read, and not in {} of the registry", self.path));
        assert!(is_right(known.kind), "`{key}` is not read as the kind it is of");
        known
    }

    fn note(&self, key: &'static KeySpec, value: Option<Value>, origin: SettingOrigin) {
        let table = self.place.trim_matches(['[', ']']).to_owned();
        self.document.settings.borrow_mut().push(ConfigSetting { table, key, value, origin });
    }
}

fn bad(what: &str) -> InvalidValue {
    InvalidValue { what: what.to_owned(), hint: None }
}

fn one_of<T: Copy>(
    text: &str,
    words: &[&'static str],
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, InvalidValue> {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    assert_eq!(names, words, "the registry has the words that are read");
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| InvalidValue {
        what: format!("cannot be `{text}`{}", super::super::did_you_mean(text, &names)),
        hint: Some(format!("it is one of {}", names.join(", "))),
    })
}

fn time(text: &str) -> Result<Duration, InvalidValue> {
    berth_api::time::parse_duration(text)
        .map_err(|why| InvalidValue { what: format!("is not a valid time: {why}"), hint: None })
}

fn shown_as(key: &KeySpec, text: &str) -> Value {
    match key.kind {
        _ if key.is_secret => json!(HIDDEN),
        ValueKind::Switch | ValueKind::Count(..) => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        ValueKind::Choices(_) => json!(text.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>()),
        ValueKind::Text
        | ValueKind::Choice(_)
        | ValueKind::Time
        | ValueKind::TimeOrNever
        | ValueKind::Words
        | ValueKind::Texts => {
            json!(text)
        }
    }
}
