//! The values of keys, each by its kind.
//!
//! Promise: the file, the variable and the default are understood by the same code.
//! Start with [`Keys::read`].

use std::time::Duration;

use berth_api::{Problem, redact};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::DeValue;

use super::super::registry::{Key, Kind, Otherwise};
use super::{Found, Keys, Origin, Setting, Spot};

/// What is shown of a secret.
const HIDDEN: &str = "***";

/// Why a text is no value, to be said after "`key` in TABLE".
struct Bad {
    what: String,
    hint: Option<String>,
}

impl<'f> Keys<'f> {
    /// A string.
    pub(in super::super) fn text(&mut self, key: &'static str) -> Result<Option<Found<String>>, Problem> {
        self.read(key, |kind, text| match kind {
            Kind::Text => Some(match text {
                // No program can be given one, neither as a word nor in a variable.
                text if text.contains('\0') => Err(bad("contains a zero byte")),
                text => Ok(text.to_owned()),
            }),
            _ => None,
        })
    }

    /// One of these.
    pub(in super::super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            Kind::Choice(words) => Some(one_of(text, words, all, name)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Some of these.
    pub(in super::super) fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<Vec<T>>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            Kind::Choices(words) => {
                let given = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Some(given.map(|word| one_of(word, words, all, name)).collect())
            }
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// True or false.
    pub(in super::super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, Problem> {
        let found = self.read(key, |kind, text| match (kind, text) {
            (Kind::Switch, "true" | "1" | "yes" | "on") => Some(Ok(true)),
            (Kind::Switch, "false" | "0" | "no" | "off") => Some(Ok(false)),
            (Kind::Switch, _) => Some(Err(bad("must be true or false"))),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// A number.
    pub(in super::super) fn count(&mut self, key: &'static str) -> Result<Option<u64>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            Kind::Count(least, most) => Some(match text.parse() {
                Ok(number) if (least..=most).contains(&number) => Ok(number),
                Ok(_) | Err(_) => Err(bad(&format!("must be {}", kind.words()))),
            }),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// A time.
    pub(in super::super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>, Problem> {
        let found = self.read(key, |kind, text| match kind {
            Kind::Time => Some(time(text)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// A time; `Some(None)` for "never", which is a word of its own where something else is the default.
    pub(in super::super) fn time_or_never(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Option<Duration>>, Problem> {
        let found = self.read(key, |kind, text| match (kind, text) {
            (Kind::TimeOrNever, "never") => Some(Ok(None)),
            (Kind::TimeOrNever, text) => Some(time(text).map(Some)),
            _ => None,
        })?;
        Ok(found.map(|found| found.value))
    }

    /// An array of strings.
    pub(in super::super) fn words(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Found<Vec<String>>>, Problem> {
        let known = self.known(key, |kind| kind == Kind::Words);
        let Some((spot, value)) = self.take(key) else {
            self.note(known, None, Origin::Default);
            return Ok(None);
        };
        let spot = self.value_spot(spot, &value);
        let words = self.strings(spot, key, value.get_ref(), "codex\", \"app-server")?;
        let origin = Origin::File(spot);
        let shown: Value = if known.is_secret { json!(HIDDEN) } else { json!(redact::words(&words)) };
        self.note(known, Some(shown), origin.clone());
        Ok(Some(Found { origin, value: words }))
    }

    /// A table of strings under any names. Their values are shown to nobody.
    pub(in super::super) fn texts(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<(String, Found<String>)>, Problem> {
        let known = self.known(key, |kind| kind == Kind::Texts);
        let Some((spot, value)) = self.take(key) else {
            self.note(known, None, Origin::Default);
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
            texts.push((name.get_ref().to_string(), Found { origin: Origin::File(spot), value: text }));
        }
        let names = texts.iter().map(|(name, _)| (name.clone(), json!(HIDDEN)));
        self.note(known, Some(Value::Object(names.collect())), Origin::File(spot));
        Ok(texts)
    }

    /// Understands a default, what the file says and what the environment says, and takes the last of them.
    /// `parse` gives nothing for a key of another kind.
    fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(Kind, &str) -> Option<Result<T, Bad>>,
    ) -> Result<Option<Found<T>>, Problem> {
        let known = self.known(key, |_| true);
        let parse = |text: &str| parse(known.kind, text).expect("a key is read as the kind it is of");
        let mut said: Vec<(Origin, String)> = Vec::new();
        if let Otherwise::Value(value) = known.otherwise {
            said.push((Origin::Default, value.to_owned()));
        }
        if let Some((spot, value)) = self.take(key) {
            let spot = self.value_spot(spot, &value);
            said.push((Origin::File(spot), self.as_text(spot, known, value.get_ref())?));
        }
        let variable = self.table.and_then(|table| table.variable(known));
        if let Some(name) = variable
            && let Some(value) = (self.document.variable)(&name).filter(|value| !value.is_empty())
        {
            let origin = Origin::Environment(name);
            let text = value.into_string().map_err(|_| self.refuse(key, &origin, "is not UTF-8"))?;
            said.push((origin, text));
        }
        let mut found = None;
        let mut shown = (None, Origin::Default);
        for (origin, text) in said {
            let value = parse(&text).map_err(|bad| {
                let problem = self.refuse(key, &origin, &bad.what);
                bad.hint.into_iter().fold(problem, Problem::hint)
            })?;
            shown = (Some(shown_as(known, &text)), origin.clone());
            found = Some(Found { origin, value });
        }
        self.note(known, shown.0, shown.1);
        Ok(found)
    }

    /// A value of the file as one would write it in a variable.
    fn as_text(&self, spot: Spot, known: &Key, value: &DeValue<'f>) -> Result<String, Problem> {
        match (known.kind, value) {
            (Kind::Switch, DeValue::Boolean(value)) => Ok(value.to_string()),
            (Kind::Switch, other) => Err(self.odd(spot, known.name, other, "true or false")),
            (Kind::Count(..), DeValue::Integer(number)) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                number.map(|number| number.to_string()).map_err(|_| {
                    self.refuse(known.name, &Origin::File(spot), &format!("must be {}", known.kind.words()))
                })
            }
            (Kind::Count(..), other) => Err(self.odd(spot, known.name, other, &known.kind.words())),
            (Kind::Choices(words), value) => {
                let example = words.iter().take(2).copied().collect::<Vec<_>>().join("\", \"");
                Ok(self.strings(spot, known.name, value, &example)?.join(","))
            }
            (_, value) => self.string(spot, known.name, value),
        }
    }

    fn string(&self, spot: Spot, key: &str, value: &DeValue<'f>) -> Result<String, Problem> {
        match value {
            DeValue::String(text) if text.contains('\0') => {
                Err(self.refuse(key, &Origin::File(spot), "contains a zero byte"))
            }
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(self.odd(spot, key, other, "a string, in quotes")),
        }
    }

    fn strings(
        &self,
        spot: Spot,
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

    /// Where a value is; the tables of `[a.b]` and `a.b = …` are where they are called.
    fn value_spot(&self, key: Spot, value: &Spanned<DeValue<'f>>) -> Spot {
        match value.get_ref() {
            DeValue::Table(_) => key,
            _ => self.document.spot(value.span().start),
        }
    }

    fn known(&self, key: &str, is_right: impl Fn(Kind) -> bool) -> &'static Key {
        let known = self.table.and_then(|table| table.key(key));
        let known =
            known.unwrap_or_else(|| panic!("`{key}` is read, and not in {} of the registry", self.path));
        assert!(is_right(known.kind), "`{key}` is not read as the kind it is of");
        known
    }

    fn note(&self, key: &'static Key, value: Option<Value>, origin: Origin) {
        let table = self.place.trim_matches(['[', ']']).to_owned();
        self.document.settings.borrow_mut().push(Setting { table, key, value, origin });
    }
}

fn bad(what: &str) -> Bad {
    Bad { what: what.to_owned(), hint: None }
}

fn one_of<T: Copy>(
    text: &str,
    words: &[&'static str],
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, Bad> {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    assert_eq!(names, words, "the registry has the words that are read");
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| Bad {
        what: format!("cannot be `{text}`{}", super::super::did_you_mean(text, &names)),
        hint: Some(format!("it is one of {}", names.join(", "))),
    })
}

fn time(text: &str) -> Result<Duration, Bad> {
    berth_api::time::duration(text)
        .map_err(|why| Bad { what: format!("is not a valid time: {why}"), hint: None })
}

fn shown_as(key: &Key, text: &str) -> Value {
    match key.kind {
        _ if key.is_secret => json!(HIDDEN),
        Kind::Switch | Kind::Count(..) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Kind::Choices(_) => json!(text.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>()),
        Kind::Text | Kind::Choice(_) | Kind::Time | Kind::TimeOrNever | Kind::Words | Kind::Texts => {
            json!(text)
        }
    }
}
