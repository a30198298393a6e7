//! Plain text of an agent's output: without the control sequences of terminals, and without the escapes of JSON.
//!
//! Promise: text that is adjacent on the screen is adjacent here, in any colours; text at another place of the screen
//! is another line. Bytes that are not controls are unchanged.
//! Not here: the search (see `literals`, `lines`).
//! Start with [`of_terminal`], [`of_record`] and [`of_transcript`].

use berth_transcript::TranscriptKind;
use serde_json::Value;

use crate::foreign::record_filter;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// Effect of a control on the text around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ControlEffect {
    /// None: the text before and after is adjacent.
    Joins,
    /// A space: programs that paint screens skip over spaces that are there already.
    Space,
    /// The text after it is at another place of the screen.
    Breaks,
    /// The control is cut off.
    Unfinished,
}

/// True if this byte begins a control that [`control`] understands.
fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t' && byte != b'\n') || byte == 0x7f
}

/// Length and effect of the control at the beginning of `bytes`.
fn control(bytes: &[u8]) -> (usize, ControlEffect) {
    match bytes {
        [b'\r', ..] => (1, ControlEffect::Breaks),
        [ESC, b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| matches!(*byte, 0x40..=0x7e | CAN | SUB | ESC))
            else {
                return (bytes.len(), ControlEffect::Unfinished);
            };
            match rest[end] {
                // Another sequence begins before this one ends.
                ESC => (2 + end, ControlEffect::Joins),
                last => (3 + end, moved(&rest[..end], last)),
            }
        }
        [ESC, b']', rest @ ..] => string(rest, true),
        [ESC, b'P' | b'X' | b'^' | b'_', rest @ ..] => string(rest, false),
        // Index, next line, reverse index, restore the cursor, reset.
        [ESC, b'D' | b'E' | b'M' | b'8' | b'c', ..] => (2, ControlEffect::Breaks),
        [ESC, rest @ ..] => {
            let end = rest.iter().position(|byte| !matches!(byte, 0x20..=0x2f));
            match end.map(|end| (end, rest[end])) {
                None => (bytes.len(), ControlEffect::Unfinished),
                Some((end, 0x30..=0x7e)) => (2 + end, ControlEffect::Joins),
                // Not a sequence: text or another sequence follows.
                Some((end, _)) => (1 + end, ControlEffect::Joins),
            }
        }
        _ => (1, ControlEffect::Joins),
    }
}

/// Effect of a `CSI` sequence.
fn moved(parameters: &[u8], last: u8) -> ControlEffect {
    match last {
        b'C' => ControlEffect::Space,
        b'A' | b'B' | b'E' | b'F' | b'H' | b'd' | b'f' => ControlEffect::Breaks,
        // Moves to a column: the first column begins the line anew, other columns are typical of tables.
        b'G' if matches!(parameters, b"" | b"0" | b"1") => ControlEffect::Breaks,
        b'G' => ControlEffect::Space,
        _ => ControlEffect::Joins,
    }
}

/// A string that a terminal takes as a whole: a title, a link, a picture.
fn string(rest: &[u8], ends_with_bell: bool) -> (usize, ControlEffect) {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            CAN | SUB => return (at + 3, ControlEffect::Joins),
            BEL if ends_with_bell => return (at + 3, ControlEffect::Joins),
            ESC if rest.get(at + 1) == Some(&b'\\') => return (at + 4, ControlEffect::Joins),
            ESC => return (at + 2, ControlEffect::Joins),
            _ => at += 1,
        }
    }
    (rest.len() + 2, ControlEffect::Unfinished)
}

/// Appends the text of one line of terminal output; a line end marks text at another place of the screen.
pub(crate) fn of_terminal(line: &[u8], text: &mut Vec<u8>) {
    let begin = text.len();
    let line = line.trim_ascii_end_of_line();
    let mut at = 0;
    while at < line.len() {
        let plain = line[at..].iter().position(|byte| is_control(*byte)).unwrap_or(line.len() - at);
        text.extend_from_slice(&line[at..at + plain]);
        at += plain;
        if at == line.len() {
            break;
        }
        let (length, effect) = control(&line[at..]);
        at += length;
        match effect {
            ControlEffect::Joins | ControlEffect::Unfinished => {}
            ControlEffect::Space => text.push(b' '),
            ControlEffect::Breaks if text.len() > begin && text.last() != Some(&b'\n') => text.push(b'\n'),
            ControlEffect::Breaks => {}
        }
    }
    while text.len() > begin && text.last() == Some(&b'\n') {
        text.pop();
    }
}

trait EndOfLine {
    fn trim_ascii_end_of_line(&self) -> &Self;
}

impl EndOfLine for [u8] {
    fn trim_ascii_end_of_line(&self) -> &Self {
        let mut line = self;
        while let [rest @ .., b'\r' | b'\n'] = line {
            line = rest;
        }
        line
    }
}

/// Fields for programs: ids, kinds, version numbers.
const FOR_PROGRAMS: &[&str] = &[
    "call_id",
    "callId",
    "cwd",
    "entrypoint",
    "gitBranch",
    "id",
    "item_id",
    "itemId",
    "jsonrpc",
    "kind",
    "leafUuid",
    "message_id",
    "messageId",
    "method",
    "model",
    // The file before a change, and the change once more: the request has it already.
    "originalFile",
    "parent_tool_use_id",
    "parentToolUseID",
    "parentUuid",
    "promptId",
    "request_id",
    "requestId",
    "role",
    "service_tier",
    "session_id",
    "sessionId",
    "sessionUpdate",
    "signature",
    "slug",
    "sourceToolAssistantUUID",
    "status",
    "stop_reason",
    "structuredPatch",
    "subtype",
    "thread_id",
    "threadId",
    "timestamp",
    "tool_use_id",
    "toolCallId",
    "toolUseID",
    "turn_id",
    "turnId",
    "type",
    "usage",
    "userType",
    "uuid",
    "version",
];

/// Appends the words of a record, a line each, without duplicates. `false` if the line is not a record: then it is
/// text.
pub(crate) fn of_record(line: &[u8], text: &mut Vec<u8>) -> bool {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return false;
    }
    let Ok(record) = serde_json::from_slice::<Value>(line) else { return false };
    if !is_searchable(&record) {
        return true;
    }
    let begin = text.len();
    collect_words(&record, text);
    drop_repeated_text(begin, text);
    true
}

/// Appends the dialogue and the actions in a record of an agent's own transcript, a line each, without duplicates.
/// Nothing for bookkeeping, nor for a line that is not a record.
pub(crate) fn of_transcript(kind: TranscriptKind, line: &[u8], text: &mut Vec<u8>) {
    let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
    let begin = text.len();
    record_filter::parts(kind, &record).into_iter().for_each(|part| collect_words(part, text));
    drop_repeated_text(begin, text);
}

/// Removes duplicates: agents write most texts twice into one record, for the model and for display.
fn drop_repeated_text(begin: usize, text: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = text[begin..].split(|byte| *byte == b'\n').collect();
    let mut known = std::collections::HashSet::new();
    let before = lines.len();
    lines.retain(|line| !line.is_empty() && known.insert(*line));
    if lines.len() < before {
        let joined = lines.join(&b'\n');
        text.truncate(begin);
        text.extend_from_slice(&joined);
    }
}

fn collect_words(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::String(said) => {
            for line in said.split('\n') {
                of_terminal(line.as_bytes(), text);
                text.push(b'\n');
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_words(value, text)),
        Value::Object(fields) => {
            // A picture is not text.
            let is_picture = fields.contains_key("media_type") || fields.contains_key("mimeType");
            for (name, value) in fields {
                let is_for_programs = FOR_PROGRAMS.contains(&name.as_str()) || (is_picture && name == "data");
                if !is_for_programs {
                    collect_words(value, text);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// True if the record has words that no other record repeats as a whole: pieces of an answer are in the journal once
/// the answer is complete, and replies to our own requests list the abilities of the agent.
fn is_searchable(record: &Value) -> bool {
    let word = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let method = word(&record["method"]);
    // The diff of all files is repeated again and again; each change has an event of its own.
    if method.ends_with("/delta") || method.ends_with("Delta") || method == "turn/diff/updated" {
        return false;
    }
    if record.get("result").is_some() && record.get("id").is_some() && method.is_empty() {
        return false;
    }
    let kind = word(&record["params"]["update"]["sessionUpdate"]);
    if kind.ends_with("_chunk")
        || matches!(kind.as_str(), "available_commands_update" | "config_option_update")
    {
        return false;
    }
    match word(&record["type"]).as_str() {
        "stream_event" | "control_request" | "control_response" | "file-history-snapshot" => false,
        "system" => record["subtype"] != "init",
        _ => true,
    }
}

/// The text lines in the result of [`of_terminal`] and [`of_record`].
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(line: &str) -> String {
        let mut text = Vec::new();
        of_terminal(line.as_bytes(), &mut text);
        String::from_utf8(text).unwrap()
    }

    fn record(line: &str) -> String {
        let mut text = Vec::new();
        assert!(of_record(line.as_bytes(), &mut text));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn colours_titles_and_links_join_and_moves_break() {
        assert_eq!(terminal("a\x1b[1;31mb\x1b[0mc\r\n"), "abc");
        assert_eq!(terminal("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x1b]8;;\x1b\\"), "abc");
        assert_eq!(terminal("foo\x1b[1Cbar"), "foo bar");
        assert_eq!(terminal("name\x1b[20Gsize"), "name size");
        assert_eq!(terminal("10%\r20%\r\x1b[K30%\x1b[5;1Hdone"), "10%\n20%\n30%\ndone");
        assert_eq!(terminal("\x1b(B\x1b[?25lx\x08y\x07\x1b[2"), "xy");
        assert_eq!(terminal("é\x1bP1;2|picture\x1b\\€"), "é€");
    }

    #[test]
    fn the_words_of_a_record_are_its_texts_without_escapes_and_without_ids() {
        let said = r#"{"type":"assistant","uuid":"u","message":{"id":"m","content":[
            {"type":"text","text":"caf\u00e9\nsays \"hi\""},
            {"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls \u001b[1m-l\u001b[0m"}}]}}"#;
        let found = record(said);
        let lines: Vec<&str> = found.lines().collect();
        assert!(
            lines.contains(&"café") && lines.contains(&"says \"hi\"") && lines.contains(&"ls -l"),
            "{found}"
        );
        assert!(!lines.contains(&"m") && !lines.contains(&"assistant"), "{found}");
        assert_eq!(record(r#"{"type":"stream_event","event":{"delta":{"text":"ca"}}}"#), "");
        assert_eq!(record(r#"{"a":"twice","b":"twice","c":["twice\nonce"]}"#), "twice\nonce");
        assert!(!of_record(b"not a record", &mut Vec::new()));
        assert!(!of_record(b"{broken", &mut Vec::new()));
    }
}
