//! The words of some records: few of them, looked up by their lines after everything was surveyed.
//!
//! Promise: a record that is longer than is held, or that is not there any more, has no words.
//! Start with [`fetch`].

mod pick;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use pick::{Picked, Record};
use serde::de::DeserializeOwned;

use crate::allowance::Allowed;
use crate::moment;
use crate::survey::Survey;
use crate::walk::MAX_HELD_BYTES;

/// How much of what was said is kept.
pub(crate) const MAX_SAID_CHARS: usize = 200;

/// How much of any other text is kept, in bytes.
const MAX_TEXT_BYTES: usize = 200;
/// How much of the name of a tool is kept.
const MAX_NAME_CHARS: usize = 60;

/// What a record says, cut to what is told of it: many are held at once. Nothing is known of one that cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    /// The beginning of what was said.
    pub(crate) said: Option<String>,
    /// When it was written, in milliseconds since 1970.
    pub(crate) at_ms: Option<u64>,
    /// The first tool that it asks for.
    pub(crate) tool: Option<String>,
    pub(crate) uuid: Option<String>,
    /// The conversation it says it is of.
    pub(crate) session: Option<String>,
    pub(crate) entrypoint: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) cwd: Option<String>,
    /// Whether it is the beginning of a fork of Codex.
    pub(crate) is_forked: bool,
}

impl Words {
    fn of(record: Record) -> Self {
        let Record { message, payload, .. } = record;
        // What is told may end up in a terminal.
        let text = |text: Option<String>| {
            let cut = |text: String| text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
            text.map(cut).map(|text| text.chars().filter(|c| !c.is_control()).collect())
        };
        let name = payload.name.or(message.content.tool);
        let said = if payload.is_there { payload.content.text } else { message.content.text };
        Self {
            said: said.as_deref().map(|said| first_words(said, MAX_SAID_CHARS)),
            at_ms: record.timestamp.as_deref().and_then(moment),
            tool: name.map(|name| name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()),
            uuid: text(record.uuid),
            session: text(record.session.or(payload.id)),
            entrypoint: text(record.entrypoint),
            version: text(record.version),
            cwd: text(record.cwd),
            is_forked: payload.forked_from.is_some(),
        }
    }

    /// Whether a person said it, as far as that shows: agents put much into the mouths of users.
    pub(crate) fn is_persons(&self) -> bool {
        let said = self.said.as_deref().unwrap_or_default();
        !said.is_empty() && !said.starts_with('<') && !said.starts_with("[Request interrupted")
    }
}

/// The beginning of a text, on one line.
pub(crate) fn first_words(text: &str, most_chars: usize) -> String {
    let mut line = String::new();
    let mut room = most_chars;
    for word in text.split_whitespace() {
        let needs = word.chars().count() + usize::from(!line.is_empty());
        if needs > room {
            if line.is_empty() {
                line.extend(word.chars().filter(|c| !c.is_control()).take(most_chars - 1));
            }
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
        room -= needs;
    }
    line
}

/// Looks up the words of the records on these lines.
pub(crate) fn fetch(
    file: &File,
    survey: &Survey,
    lines: impl IntoIterator<Item = u64>,
) -> io::Result<BTreeMap<u64, Words>> {
    let mut found = BTreeMap::new();
    each(file, survey, lines, |line, record: Option<Picked<Record>>| {
        found.insert(line, record.map(|picked| Words::of(picked.0)).unwrap_or_default());
    })?;
    Ok(found)
}

/// Shows the records on these lines, one at a time; nothing of one that is too long, or that is JSON and still cannot
/// be read: half of a pair of surrogates, a number that is too large.
pub(crate) fn each<T: DeserializeOwned>(
    file: &File,
    survey: &Survey,
    lines: impl IntoIterator<Item = u64>,
    mut show: impl FnMut(u64, Option<T>),
) -> io::Result<()> {
    let mut wanted: Vec<u64> = lines.into_iter().collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut reader = BufReader::with_capacity(64 << 10, Allowed::again(file));
    // Which line begins where the reader is.
    let mut at = u64::MAX;
    let mut bytes = Vec::new();
    for line in wanted {
        let (offset, begins) = survey.before_line(line);
        if at > line || at < begins {
            reader.seek(SeekFrom::Start(offset))?;
            at = begins;
        }
        while at < line {
            reader.skip_until(b'\n')?;
            at += 1;
        }
        bytes.clear();
        (&mut reader).take(MAX_HELD_BYTES as u64 + 1).read_until(b'\n', &mut bytes)?;
        if bytes.len() > MAX_HELD_BYTES {
            reader.skip_until(b'\n')?;
        }
        at += 1;
        let zeroes = bytes.iter().take_while(|byte| **byte == 0).count();
        let mut values = serde_json::Deserializer::from_slice(&bytes[zeroes..]).into_iter::<T>();
        show(line, values.next().and_then(Result::ok));
    }
    Ok(())
}
