//! The painting of the chat: printed text, and below it the footer.
//!
//! The footer has the line that the agent is writing, its activity, queued messages, and the message being written.
//! Start with [`LiveChat::paint`].

use berth_api::message::WindowSize;

use super::{ChatExit, ChatQuestion, LiveChat, OWN_WORDS, QUEUED_SHOWN, choices};
use crate::cells::{self, CellRow};
use crate::question_replies::FreeTextKind;
use crate::safe_text::{SafeText, TextStyle};
use crate::{print, tty};

impl LiveChat {
    /// Prints new text of the story, and paints the footer below it.
    pub(super) fn paint(&mut self) -> Result<(), ChatExit> {
        self.note_question();
        let size = tty::terminal_size().unwrap_or_default();
        let (rows, cursor) = self.rows(size);
        let told = self.story.take_printable();
        if told.is_empty() && self.footer.shows(&rows, cursor, size) {
            return Ok(());
        }
        let mut out = b"\x1b[?2026h".to_vec();
        self.footer.erase(&mut out, size);
        out.extend_from_slice(told.as_str().replace('\n', "\r\n").as_bytes());
        self.footer.paint(&mut out, rows, cursor, size);
        out.extend_from_slice(b"\x1b[?2026l");
        self.write(&out)
    }

    /// Begins the reading time of a question when it is first painted.
    fn note_question(&mut self) {
        let (epoch, now) = (self.story.epoch, self.uptime());
        let request = self.story.asks.first().map(|ask| ask.request.as_str());
        let is_same = match (&self.asked, request) {
            (Some(asked), Some(request)) => asked.is(epoch, request),
            (asked, request) => asked.is_none() && request.is_none(),
        };
        if is_same {
            return;
        }
        let before = std::mem::replace(&mut self.asked, request.map(|it| ChatQuestion::new(epoch, it, now)));
        if before.is_some_and(|asked| asked.is_replying && !asked.is_answered) && !self.editor.is_empty() {
            self.is_reply_to_nothing = true;
            self.hint = Some("the question is no longer asked");
        }
    }

    /// The rows of the footer, and the cursor in them.
    fn rows(&self, size: WindowSize) -> (Vec<CellRow>, (usize, usize)) {
        let (columns, height) = (usize::from(size.cols).max(1), usize::from(size.rows));
        let mut rows = Vec::new();
        // In a tiny terminal there is room only for the message being written.
        if height >= 3 && columns >= 8 {
            if !self.story.line.is_empty() {
                let line = cells::wrap(tail(&self.story.line, 4 * columns * height), columns);
                let skipped = line.len().saturating_sub(height / 2);
                rows.extend(line.into_iter().skip(skipped));
            }
            rows.extend(
                cells::wrap(&self.going_on(), columns)
                    .into_iter()
                    .take(height / 3)
                    .filter(|row| row.width > 0)
                    .map(CellRow::dim),
            );
            for (_, text) in self.story.queued.iter().take(if height >= 10 { QUEUED_SHOWN } else { 0 }) {
                let line = format!("queued: {}", print::first_words(text, columns));
                rows.extend(cells::wrap(&line, columns).into_iter().take(1).map(CellRow::dim));
            }
        }
        let waiting = self.story.queued.len();
        let mark = if self.replies_with().is_some() { "?" } else { ">" };
        let mark = SafeText::painted(TextStyle::Bold, mark, true) + " ";
        let (prompt, width) = match waiting {
            0 => (mark, 2),
            _ => {
                let text = format!("{waiting} queued");
                let width = text.len() + 3;
                (SafeText::painted(TextStyle::Dim, text, true) + " " + mark, width)
            }
        };
        let (written, cursor) = self.editor.rows((&prompt, width), columns);
        let cursor = (rows.len() + cursor.0, cursor.1);
        rows.extend(written);
        (rows, cursor)
    }

    /// One line about the state of the chat. A hint comes before a question, a question before the agent's activity.
    fn going_on(&self) -> String {
        if let Some(hint) = self.hint {
            return hint.to_owned();
        }
        if self.leaving {
            return "sending what you wrote; Ctrl-C does not wait for that".to_owned();
        }
        if let Some(words) = self.replies_with() {
            return format!("{}: Enter answers, Ctrl-C goes back to the question", words.label());
        }
        if let Some(ask) = self.question_for_key() {
            let chosen = self.asked.as_ref().map(|asked| asked.chosen.as_slice()).unwrap_or_default();
            let mut keys: Vec<String> = choices(ask)
                .into_iter()
                .enumerate()
                .map(|(at, (keys, option))| {
                    let keys: Vec<String> = keys.chars().map(String::from).collect();
                    let mark = if chosen.contains(&at) { "✓" } else { "" };
                    format!("[{}] {mark}{option}", keys.join("/"))
                })
                .collect();
            if let Some(words) = FreeTextKind::of(ask) {
                keys.push(format!("[{OWN_WORDS}] {}", words.label()));
            }
            if ask.several {
                keys.push("[Enter] answer with those chosen".to_owned());
            }
            let but = if self.editor.is_empty() { "" } else { " (on an empty line)" };
            return format!("answer with {}{but}", keys.join("  "));
        }
        let Some(current) = &self.story.current else { return String::new() };
        let tokens = current.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
        let doing = if current.is_cancelled { "cancelling" } else { current.doing.as_str() };
        format!("· {doing} · {} s{tokens}", current.since.elapsed().as_secs())
    }
}

/// The end of a text: whole characters, at most `bytes` bytes.
fn tail(text: &str, bytes: usize) -> &str {
    let from = text.len().saturating_sub(bytes);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[from..]
}
