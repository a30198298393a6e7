//! What was said and done in a conversation, by the agent's own record: for people who read it.
//!
//! Promise: records of kinds that are not known, and lines that cannot be read, are counted and passed over; memory is
//! bounded by one line, by what is kept of each item, and by what is kept in all. Nothing is ever written.
//! Not here: what is wrong with a record, and its branches: this reads from the beginning to the end.
//! Start with [`read`].

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use berth_api::{Code, Problem, Timestamp};
use berth_transcript::Kind;
use berth_transcript::allowance::Allowed;
use berth_transcript::shelf;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::transcript::{Heard, Item};

/// The longest line that is understood.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// How much is kept in all. The rest is in the file.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// How much of a prompt is kept.
const MAX_PROMPT_BYTES: usize = 256 << 10;

/// What was said, and what came of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct Exchange {
    /// What somebody said; nothing for what the agent did by itself.
    pub prompt: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
    /// What was said and done then, in order.
    pub items: Vec<Item>,
}

/// A conversation, read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct Said {
    /// In order.
    pub exchanges: Vec<Exchange>,
    /// How many lines could not be read.
    pub bad_lines: u64,
    /// There is more.
    pub cut: bool,
}

/// Reads a conversation's file, whatever it is called. Which agent wrote it is told by what is in it, or by its name.
pub fn read(path: &Path) -> Result<Said, Problem> {
    let named = shelf::of_file(path);
    if named.as_ref().is_some_and(|kept| kept.is_compressed) {
        return Err(Problem::new(Code::Refused, format!("{} is compressed", path.display()))
            .hint("decompress a copy of it, and name that"));
    }
    let kind = berth_transcript::kind_in(path).map_err(|why| Problem::new(Code::Refused, why))?;
    let kind = kind.or(named.map(|kept| kept.kind)).ok_or_else(|| {
        Problem::new(
            Code::Refused,
            format!("{} is no conversation of Claude Code or Codex that is known", path.display()),
        )
        .hint("name the id of one (`berth transcript ls`), or its file")
    })?;
    let file = berth_transcript::open(path).map_err(|why| Problem::new(Code::Refused, why))?;
    let size = file.metadata().map_or(0, |file| file.len());
    let allowed = Allowed::whole(file, size);
    allowed
        .and_then(|file| read_from(kind, file))
        .map_err(|error| crate::transcript::unreadable(path, &error))
}

fn read_from(kind: Kind, file: impl Read) -> io::Result<Said> {
    let mut reader = BufReader::new(file);
    let mut reading = Reading::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n')?;
            reading.said.bad_lines += 1;
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Ok(record) = serde_json::from_slice::<Value>(&line) else {
            reading.said.bad_lines += 1;
            continue;
        };
        match kind {
            Kind::Claude => reading.claude(&record, &line),
            Kind::Codex => reading.codex(&record),
        }
        if reading.bytes + reading.heard.bytes() > MAX_KEPT_BYTES {
            reading.said.cut = true;
            break;
        }
    }
    reading.close();
    Ok(reading.said)
}

#[derive(Default)]
struct Reading {
    said: Said,
    open: Option<(Option<String>, Option<Timestamp>)>,
    heard: Heard,
    bytes: usize,
}

impl Reading {
    fn close(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        self.bytes += heard.bytes();
        let items = heard.items();
        let open = self.open.take();
        if open.is_some() || !items.is_empty() {
            let (prompt, at) = open.unwrap_or_default();
            self.said.exchanges.push(Exchange { prompt, at, items });
        }
    }

    fn prompt(&mut self, text: &str, at: Option<Timestamp>) {
        self.close();
        let end = text.floor_char_boundary(MAX_PROMPT_BYTES);
        self.bytes += end;
        self.open = Some((Some(text[..end].to_owned()), at));
    }

    fn claude(&mut self, record: &Value, line: &[u8]) {
        if record["isSidechain"] == true || record["isMeta"] == true {
            return;
        }
        let content = &record["message"]["content"];
        match record["type"].as_str().unwrap_or_default() {
            "user" => match prompt_in(content) {
                Some(text) => self.prompt(&text, moment(record)),
                None => self.heard.hear(line),
            },
            "assistant" => self.heard.hear(line),
            _ => {}
        }
    }

    fn codex(&mut self, record: &Value) {
        let payload = &record["payload"];
        if record["type"] != "response_item" {
            return;
        }
        match payload["type"].as_str().unwrap_or_default() {
            "message" if payload["role"] == "user" => {
                // What the agent puts before a person's words is in elements of its own.
                if let Some(text) =
                    prompt_in(&payload["content"]).filter(|text| !text.trim_start().starts_with('<'))
                {
                    self.prompt(&text, moment(record));
                }
            }
            "message" if payload["role"] == "assistant" => {
                self.heard.said(&prompt_in(&payload["content"]).unwrap_or_default());
            }
            "function_call" | "custom_tool_call" | "local_shell_call" => self.heard.codex_call(payload),
            "function_call_output" | "custom_tool_call_output" => self.heard.codex_output(payload),
            _ => {}
        }
    }
}

fn moment(record: &Value) -> Option<Timestamp> {
    let moment: jiff::Timestamp = record["timestamp"].as_str()?.parse().ok()?;
    Some(Timestamp(moment.as_millisecond().max(0).cast_unsigned()))
}

/// The text of a message, if it has one: results of tools are none.
fn prompt_in(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = content.as_array()?.iter().filter_map(|part| part["text"].as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(said: &Said) -> Vec<(Option<&str>, usize)> {
        said.exchanges.iter().map(|one| (one.prompt.as_deref(), one.items.len())).collect()
    }

    #[test]
    fn what_was_said_to_claude_is_told_in_order() {
        let lines = [
            r#"{"type":"queue-operation"}"#,
            r#"{"type":"user","timestamp":"2026-11-16T08:00:00.000Z","message":{"role":"user","content":"list"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"a.txt"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"one file"}]}}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":[{"type":"text","text":"inner"}]}}"#,
            "torn",
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"thanks"}]}}"#,
        ];
        let said = read_from(Kind::Claude, lines.join("\n").as_bytes()).expect("text");
        assert_eq!(texts(&said), [(Some("list"), 2), (Some("thanks"), 0)]);
        assert_eq!((said.bad_lines, said.cut), (1, false));
        assert!(said.exchanges[0].at.is_some());
        let Item::Tool(tool) = &said.exchanges[0].items[0] else { panic!("no tool: {said:?}") };
        assert_eq!((tool.name.as_str(), tool.output.as_deref()), ("Bash", Some("a.txt")));
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_what_follows_is_read() {
        let long = io::repeat(b'x').take(MAX_LINE_BYTES + 1);
        let after = "\n{\"type\":\"user\",\"message\":{\"content\":\"hi\"}}\n";
        let said = read_from(Kind::Claude, long.chain(after.as_bytes())).expect("text");
        assert_eq!((texts(&said), said.bad_lines), (vec![(Some("hi"), 0)], 1));
    }

    #[test]
    fn what_was_said_to_codex_is_told_in_order() {
        let item = |payload: &str| {
            format!(
                r#"{{"timestamp":"2026-11-16T08:00:00.000Z","type":"response_item","payload":{payload}}}"#
            )
        };
        let lines = [
            item(
                r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}"#,
            ),
            item(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"list"}]}"#),
            item(
                r#"{"type":"function_call","name":"exec_command","call_id":"c","arguments":"{\"cmd\":\"ls\"}"}"#,
            ),
            item(r#"{"type":"function_call_output","call_id":"c","output":"a.txt"}"#),
            item(
                r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"one file"}]}"#,
            ),
        ];
        let said = read_from(Kind::Codex, lines.join("\n").as_bytes()).expect("text");
        assert_eq!(texts(&said), [(Some("list"), 2)]);
        let Item::Tool(tool) = &said.exchanges[0].items[0] else { panic!("no tool: {said:?}") };
        assert_eq!((tool.name.as_str(), tool.output.as_deref()), ("exec_command", Some("a.txt")));
    }
}
