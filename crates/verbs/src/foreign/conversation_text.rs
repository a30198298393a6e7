//! Dialogue of a conversation, from the agent's transcript, for people who read it.
//!
//! Promise: records of kinds that are not known, and lines that cannot be read, are counted and passed over; memory is
//! bounded by one line, by what is kept of each item, and by what is kept in all. Nothing is ever written. The cost of
//! the newest exchanges ([`tail`]) does not depend on how long the record is.
//! Not here: damage in a record, and its branches: this reads in the order of the file.
//! Start with [`read`] and [`tail`]; `record` selects the records of the dialogue.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use berth_api::{Problem, Timestamp};
use berth_transcript::TranscriptKind;
use berth_transcript::conversation_catalog;
use berth_transcript::read_budget::BudgetedReader;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::record_filter;
use crate::transcript::{ItemCollector, TranscriptItem};

/// Limit for a line. A longer one is counted as unreadable.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Limit for all exchanges together. The rest is only in the file.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Limit for the part of a prompt that is kept.
const MAX_PROMPT_BYTES: usize = 256 << 10;
/// Bytes at the end of a record that are read first, to find the newest exchanges.
const FIRST_TAIL_BYTES: u64 = 1 << 20;
const MAX_TAIL_BYTES: u64 = 64 << 20;
/// Limit for the exchanges of one page; the newest exchange is always there.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// A prompt, and the agent's actions and answers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct ConversationExchange {
    /// The prompt; null for what the agent did by itself.
    pub prompt: Option<String>,
    /// Time of the prompt, or of the first item.
    pub at: Option<Timestamp>,
    /// Actions and answers that followed the prompt, in order.
    pub items: Vec<TranscriptItem>,
    /// Offset in the record at which the exchange begins, in bytes.
    pub offset: u64,
}

impl ConversationExchange {
    fn bytes(&self) -> usize {
        self.prompt.as_ref().map_or(0, String::len)
            + self.items.iter().map(TranscriptItem::bytes).sum::<usize>()
    }
}

/// The dialogue of a conversation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct ConversationText {
    /// Exchanges, in order.
    pub exchanges: Vec<ConversationExchange>,
    /// Number of lines that could not be read.
    pub bad_lines: u64,
    /// True if the record has more exchanges.
    pub cut: bool,
}

/// Reads the record of a conversation. Its contents tell which agent wrote it, else the file's name does.
pub fn read(path: &Path) -> Result<ConversationText, Problem> {
    read_until(path, None)
}

/// Reads the part of a record before `until`, in bytes.
pub(crate) fn read_until(path: &Path, until: Option<u64>) -> Result<ConversationText, Problem> {
    let (kind, file) = opened(path)?;
    let size = file.metadata().map_or(0, |file| file.len());
    let until = until.unwrap_or(u64::MAX);
    let allowed = BudgetedReader::whole(file.take(until), size.min(until));
    allowed
        .and_then(|file| read_from(kind, file, 0, MAX_KEPT_BYTES))
        .map_err(|error| crate::transcript::unreadable(path.display(), &error))
}

/// The newest exchanges of a conversation that begin before `until` (in bytes of its file), at most `limit`. If
/// [`ConversationText::cut`] is true there are more before them: ask again with the offset of the first.
pub fn tail(path: &Path, until: Option<u64>, limit: usize) -> Result<ConversationText, Problem> {
    let (kind, file) = opened(path)?;
    tail_of(kind, &file, until, limit).map_err(|error| crate::transcript::unreadable(path.display(), &error))
}

fn opened(path: &Path) -> Result<(TranscriptKind, File), Problem> {
    let named = conversation_catalog::conversation_in_file(path);
    if named.as_ref().is_some_and(|kept| kept.is_compressed) {
        return Err(Problem::refused(format!("{} is compressed", path.display()))
            .hint("decompress a copy of it, and give the path of the copy"));
    }
    let kind = berth_transcript::kind_in(path).map_err(Problem::refused)?;
    let kind = kind.or(named.map(|kept| kept.kind)).ok_or_else(|| {
        Problem::refused(format!(
            "{} is not in a known conversation format of Claude Code or Codex",
            path.display()
        ))
        .hint("give the id of a conversation (`berth transcript ls`), or its file")
    })?;
    Ok((kind, berth_transcript::open_transcript(path).map_err(Problem::refused)?))
}

fn tail_of(
    kind: TranscriptKind,
    mut file: &File,
    until: Option<u64>,
    limit: usize,
) -> io::Result<ConversationText> {
    let size = file.metadata()?.len();
    let end = until.unwrap_or(size).min(size);
    let mut window = FIRST_TAIL_BYTES;
    loop {
        let mut start = end.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut reader = BufReader::new(BudgetedReader::partial(file.take(end - start)));
        if start > 0 {
            // Skips the rest of a line that began before.
            start += reader.skip_until(b'\n')? as u64;
        }
        let mut said = read_from(kind, reader, start, usize::MAX)?;
        let has_all = start == 0;
        let prompts = said.exchanges.iter().filter(|one| one.prompt.is_some()).count();
        if !has_all && prompts < limit && window < MAX_TAIL_BYTES {
            window *= 4;
            continue;
        }
        // Items after a prompt before the window belong to an exchange that is not read as a whole.
        if !has_all && prompts > 0 && said.exchanges.first().is_some_and(|one| one.prompt.is_none()) {
            said.exchanges.remove(0);
        }
        let (mut bytes, mut kept) = (0, 0);
        for one in said.exchanges.iter().rev() {
            bytes += one.bytes();
            if kept >= limit || (kept > 0 && bytes > MAX_PAGE_BYTES) {
                break;
            }
            kept += 1;
        }
        let older = said.exchanges.len() - kept;
        said.exchanges.drain(..older);
        said.cut = !has_all || older > 0;
        return Ok(said);
    }
}

/// Reads records; the first one is at `offset` in the file.
fn read_from(
    kind: TranscriptKind,
    file: impl Read,
    mut offset: u64,
    most_bytes: usize,
) -> io::Result<ConversationText> {
    let mut reader = BufReader::new(file);
    let mut reading = ConversationReader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut length = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            break;
        }
        reading.at = offset;
        if length == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            length += reader.skip_until(b'\n')? as u64;
            reading.said.bad_lines += 1;
            offset += length;
            continue;
        }
        offset += length;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Ok(record) = serde_json::from_slice::<Value>(&line) else {
            reading.said.bad_lines += 1;
            continue;
        };
        match kind {
            TranscriptKind::Claude => reading.claude(&record, &line),
            TranscriptKind::Codex => reading.codex(&record),
        }
        if reading.bytes + reading.heard.bytes() > most_bytes {
            reading.said.cut = true;
            break;
        }
    }
    reading.close();
    Ok(reading.said)
}

#[derive(Default)]
struct ConversationReader {
    said: ConversationText,
    open: Option<ConversationExchange>,
    heard: ItemCollector,
    bytes: usize,
    /// Offset of the record that is being read.
    at: u64,
}

impl ConversationReader {
    fn close(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        self.bytes += heard.bytes();
        let items = heard.items();
        match self.open.take() {
            Some(open) => self.said.exchanges.push(ConversationExchange { items, ..open }),
            None if items.is_empty() => {}
            // The agent spoke first, so its words begin the conversation.
            None => {
                self.said.exchanges.push(ConversationExchange { items, ..ConversationExchange::default() })
            }
        }
    }

    fn prompt(&mut self, text: &str, at: Option<Timestamp>) {
        self.close();
        let end = text.floor_char_boundary(MAX_PROMPT_BYTES);
        self.bytes += end;
        let prompt = Some(text[..end].to_owned());
        self.open = Some(ConversationExchange { prompt, at, offset: self.at, items: Vec::new() });
    }

    fn claude(&mut self, record: &Value, line: &[u8]) {
        // A sub-agent talks to the agent; its work is shown as the result of a tool.
        if record["isSidechain"] == true {
            return;
        }
        if record_filter::is_claude_dialogue(record) {
            self.heard.hear(line);
        }
        match record_filter::claude_user(record) {
            Some(record_filter::ClaudeUserRecord::Prompt(text)) => self.prompt(&text, moment(record)),
            Some(record_filter::ClaudeUserRecord::Told(text)) => self.heard.said(&text),
            None => {}
        }
    }

    fn codex(&mut self, record: &Value) {
        let payload = &record["payload"];
        match (record["type"].as_str().unwrap_or_default(), payload["type"].as_str().unwrap_or_default()) {
            ("response_item", "message") => match payload["role"].as_str() {
                Some("user") => {
                    if let Some(text) = record_filter::codex_prompt(payload) {
                        self.prompt(&text, moment(record));
                    }
                }
                Some("assistant") => {
                    self.heard.said(&record_filter::text_in(&payload["content"]).unwrap_or_default());
                }
                Some(_) | None => {}
            },
            ("response_item", "function_call" | "custom_tool_call" | "local_shell_call") => {
                self.heard.codex_call(payload);
            }
            ("response_item", "function_call_output" | "custom_tool_call_output") => {
                self.heard.codex_output(payload);
            }
            ("event_msg", "item_completed") if payload["item"]["type"] == "FileChange" => {
                self.heard.codex_changes(&payload["item"]);
            }
            _ => {}
        }
    }
}

fn moment(record: &Value) -> Option<Timestamp> {
    record["timestamp"].as_str().and_then(berth_transcript::parse_timestamp_ms).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use berth_harness::TestDir;

    use super::*;

    fn texts(said: &ConversationText) -> Vec<(Option<&str>, usize)> {
        said.exchanges.iter().map(|one| (one.prompt.as_deref(), one.items.len())).collect()
    }

    #[test]
    fn the_dialogue_with_claude_is_read_in_order() {
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
        let said =
            read_from(TranscriptKind::Claude, lines.join("\n").as_bytes(), 0, MAX_KEPT_BYTES).expect("text");
        assert_eq!(texts(&said), [(Some("list"), 2), (Some("thanks"), 0)]);
        assert_eq!((said.bad_lines, said.cut), (1, false));
        assert!(said.exchanges[0].at.is_some());
        let TranscriptItem::Tool(tool) = &said.exchanges[0].items[0] else { panic!("no tool: {said:?}") };
        assert_eq!((tool.name.as_str(), tool.output.as_deref()), ("Bash", Some("a.txt")));
    }

    #[test]
    fn the_newest_exchanges_are_read_from_the_end_and_the_rest_page_by_page() {
        let dir = TestDir::new();
        let path = dir.join("tail.jsonl");
        let long = "x".repeat(4000);
        let record = |number: usize| {
            format!(
                "{{\"type\":\"user\",\"message\":{{\"content\":\"prompt {number}\"}}}}\n\
                 {{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{long}\"}}]}}}}\n"
            )
        };
        std::fs::write(&path, (0..1000).map(record).collect::<String>()).expect("a file");
        let file = File::open(&path).expect("our own file");
        let size = file.metadata().expect("our own file").len();
        assert!(size > 3 * FIRST_TAIL_BYTES);
        // The newest page costs no more than the end of the file.
        let is_abandoned = std::sync::Arc::default();
        let newest =
            berth_transcript::read_budget::with_budget(FIRST_TAIL_BYTES + 64 * 1024, is_abandoned, || {
                tail_of(TranscriptKind::Claude, &file, None, 20)
            });
        let newest = newest.expect("it fits");
        assert_eq!((newest.exchanges.len(), newest.cut), (20, true));
        assert_eq!(newest.exchanges[19].prompt.as_deref(), Some("prompt 999"));
        let (mut until, mut seen) = (None, 0);
        loop {
            let said = tail_of(TranscriptKind::Claude, &file, until, 300).expect("our own file");
            assert!(said.exchanges.iter().all(|one| one.items.len() == 1));
            seen += said.exchanges.len();
            until = said.exchanges.first().map(|one| one.offset);
            if !said.cut {
                break;
            }
        }
        assert_eq!((seen, until), (1000, Some(0)));
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_what_follows_is_read() {
        let long = io::repeat(b'x').take(MAX_LINE_BYTES + 1);
        let after = "\n{\"type\":\"user\",\"message\":{\"content\":\"hi\"}}\n";
        let said =
            read_from(TranscriptKind::Claude, long.chain(after.as_bytes()), 0, MAX_KEPT_BYTES).expect("text");
        assert_eq!((texts(&said), said.bad_lines), (vec![(Some("hi"), 0)], 1));
    }

    #[test]
    fn the_dialogue_with_codex_is_read_in_order() {
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
        let said =
            read_from(TranscriptKind::Codex, lines.join("\n").as_bytes(), 0, MAX_KEPT_BYTES).expect("text");
        assert_eq!(texts(&said), [(Some("list"), 2)]);
        let TranscriptItem::Tool(tool) = &said.exchanges[0].items[0] else { panic!("no tool: {said:?}") };
        assert_eq!((tool.name.as_str(), tool.output.as_deref()), ("exec_command", Some("a.txt")));
    }
}
