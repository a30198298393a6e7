//! Words of some records: looked up by their lines after the survey.
//!
//! Promise: a record beyond the limit, or one that does not exist any more, has no words.
//! Start with [`fetch_excerpts`].

mod field_picker;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use field_picker::{PickedRecord, PickedValue};
use serde::de::DeserializeOwned;

use crate::parse_timestamp_ms;
use crate::read_budget::BudgetedReader;
use crate::record_scanner::MAX_HELD_BYTES;
use crate::transcript_index::TranscriptIndex;

/// Limit for the text of a record.
pub(crate) const MAX_SAID_CHARS: usize = 200;

/// Limit for any other text, in bytes.
const MAX_TEXT_BYTES: usize = 200;
/// Limit for the name of a tool.
const MAX_NAME_CHARS: usize = 60;

/// Words of a record, cut to the length for display: many are held at once. All fields are empty for an unreadable
/// record.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordExcerpt {
    /// Beginning of the text.
    pub(crate) said: Option<String>,
    /// Time of the record, in milliseconds since 1970.
    pub(crate) at_ms: Option<u64>,
    /// First tool that the record calls.
    pub(crate) tool: Option<String>,
    pub(crate) uuid: Option<String>,
    /// Id of the conversation that the record names.
    pub(crate) session: Option<String>,
    pub(crate) entrypoint: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) cwd: Option<String>,
    /// True for the beginning of a fork of Codex.
    pub(crate) is_forked: bool,
}

impl RecordExcerpt {
    fn of(record: PickedRecord) -> Self {
        let PickedRecord { message, payload, .. } = record;
        // The text may be printed in a terminal.
        let text = |text: Option<String>| {
            let cut = |text: String| text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
            text.map(cut).map(|text| text.chars().filter(|c| !c.is_control()).collect())
        };
        let name = payload.name.or(message.content.tool);
        let said = if payload.is_there { payload.content.text } else { message.content.text };
        Self {
            said: said.as_deref().map(|said| first_words(said, MAX_SAID_CHARS)),
            at_ms: record.timestamp.as_deref().and_then(parse_timestamp_ms),
            tool: name.map(|name| name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()),
            uuid: text(record.uuid),
            session: text(record.session.or(payload.id)),
            entrypoint: text(record.entrypoint),
            version: text(record.version),
            cwd: text(record.cwd),
            is_forked: payload.forked_from.is_some(),
        }
    }

    /// True if the text seems to be a user's: agents write much in the user's place.
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
pub(crate) fn fetch_excerpts(
    file: &File,
    survey: &TranscriptIndex,
    lines: impl IntoIterator<Item = u64>,
) -> io::Result<BTreeMap<u64, RecordExcerpt>> {
    let mut found = BTreeMap::new();
    for_each_record(file, survey, lines, |line, record: Option<PickedValue<PickedRecord>>| {
        found.insert(line, record.map(|picked| RecordExcerpt::of(picked.0)).unwrap_or_default());
    })?;
    Ok(found)
}

/// Visits the records on these lines, one at a time; `None` for one that is too long, or that is valid JSON and still
/// cannot be parsed: half of a surrogate pair, a number that is too large.
pub(crate) fn for_each_record<T: DeserializeOwned>(
    file: &File,
    survey: &TranscriptIndex,
    lines: impl IntoIterator<Item = u64>,
    mut show: impl FnMut(u64, Option<T>),
) -> io::Result<()> {
    let mut wanted: Vec<u64> = lines.into_iter().collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut reader = BufReader::with_capacity(64 << 10, BudgetedReader::again(file));
    // The line that begins at the reader's place.
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
