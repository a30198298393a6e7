//! Text that is safe to print.
//!
//! Promise: a [`SafeText`] contains no control characters from outside: names, answers, error messages and text of
//! other hosts are escaped when they become one (see [`berth_verbs::format::escape_control_characters`]). The only escape sequences in it
//! are colours that [`SafeText::painted`] adds. `print` takes nothing else.
//! Not here: where it is printed (see `print`), and what is raw by design (see `print::raw`).
//! Start with [`SafeText::from`]; put pieces together with `+`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Add;

use berth_api::{Problem, SessionState, TurnState};
use berth_verbs::format;
use serde::Serialize;

/// Text that a terminal shows and does not obey. It does not implement `Display`: formatted into a `String` and printed,
/// its colours would be escaped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SafeText(String);

/// The colours and weights that berth prints with: of the sixteen colours that every theme chooses itself, except for
/// QR codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of colours")]
pub enum TextStyle {
    Bold,
    #[default]
    Dim,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
    BoldRed,
    BoldMagenta,
    BoldCyan,
    /// Black on white in every theme, for cameras.
    QrCode,
}

impl From<&SessionState> for TextStyle {
    fn from(state: &SessionState) -> Self {
        match state {
            SessionState::NeedsYou => Self::BoldMagenta,
            SessionState::Lost => Self::Red,
            SessionState::Running | SessionState::Working => Self::Green,
            SessionState::Starting | SessionState::Stopping => Self::Yellow,
            SessionState::Idle => Self::Cyan,
            SessionState::Stopped | SessionState::Archived | SessionState::Other(_) => Self::Dim,
        }
    }
}

impl From<TurnState> for TextStyle {
    fn from(state: TurnState) -> Self {
        match state {
            TurnState::Working | TurnState::Done => Self::Green,
            TurnState::Unknown => Self::Magenta,
            TurnState::Queued | TurnState::Delivered | TurnState::Interrupted => Self::Yellow,
            TurnState::Failed => Self::Red,
            TurnState::Cancelled => Self::Dim,
        }
    }
}

impl TextStyle {
    fn sgr(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Magenta => "35",
            Self::Cyan => "36",
            Self::BoldRed => "1;31",
            Self::BoldMagenta => "1;35",
            Self::BoldCyan => "1;36",
            Self::QrCode => "38;5;16;48;5;231",
        }
    }
}

impl SafeText {
    /// The text in a colour, if `is_coloured`. Empty text stays empty.
    pub fn painted(paint: TextStyle, text: impl Into<Self>, is_coloured: bool) -> Self {
        let text = text.into();
        if !is_coloured || text.is_empty() {
            return text;
        }
        Self(format!("\x1b[{}m{}\x1b[0m", paint.sgr(), text.0))
    }

    /// A value as JSON over several lines, with its control characters escaped as JSON does.
    pub fn json(value: &impl Serialize) -> Result<Self, Problem> {
        serde_json::to_string_pretty(value)
            .map(|json| Self(format::visible_json(&json)))
            .map_err(|error| no_json(&error))
    }

    /// A value as JSON on one line that ends with a line break.
    pub fn json_line(value: &impl Serialize) -> Result<Self, Problem> {
        serde_json::to_string(value)
            .map(|json| Self(format::visible_json(&json) + "\n"))
            .map_err(|error| no_json(&error))
    }

    /// The text after a change that adds only what is visible itself, such as names.
    pub fn mapped(self, change: impl Fn(&str) -> String) -> Self {
        Self(change(&self.0))
    }

    /// The text, as a terminal may have it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds text at the end.
    pub fn push(&mut self, more: impl Into<Self>) {
        self.0.push_str(&more.into().0);
    }

    /// The pieces with `between` between them.
    pub fn joined(pieces: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut all = Self::default();
        for (at, piece) in pieces.into_iter().enumerate() {
            all.push(if at > 0 { between } else { "" });
            all.push(piece);
        }
        all
    }

    /// The text without the spaces at its end.
    pub fn trim_end(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }

    /// The text with `indent` behind each of its line breaks.
    pub fn indented(self, indent: &str) -> Self {
        Self(self.0.replace('\n', &format!("\n{}", Self::from(indent).0)))
    }
}

fn no_json(error: &serde_json::Error) -> Problem {
    Problem::bug(format!("cannot print as JSON: {error}"))
}

/// Anything that can be printed: plain text, which is escaped by the conversion, or text that is escaped already.
pub trait ToSafeText {
    /// The text with its control characters escaped, unless it is visible text already.
    fn to_visible(&self) -> Cow<'_, SafeText>;
}

impl ToSafeText for SafeText {
    fn to_visible(&self) -> Cow<'_, SafeText> {
        Cow::Borrowed(self)
    }
}

impl ToSafeText for str {
    fn to_visible(&self) -> Cow<'_, SafeText> {
        Cow::Owned(self.into())
    }
}

impl ToSafeText for String {
    fn to_visible(&self) -> Cow<'_, SafeText> {
        self.as_str().to_visible()
    }
}

impl<T: ToSafeText + ?Sized> ToSafeText for &T {
    fn to_visible(&self) -> Cow<'_, SafeText> {
        (**self).to_visible()
    }
}

impl From<&str> for SafeText {
    fn from(text: &str) -> Self {
        Self(format::escape_control_characters(text))
    }
}

impl From<String> for SafeText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for SafeText {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Self> for SafeText {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl<T: Into<Self>> Add<T> for SafeText {
    type Output = Self;

    fn add(mut self, more: T) -> Self {
        self.push(more);
        self
    }
}

impl<T: Into<Self>> Extend<T> for SafeText {
    fn extend<I: IntoIterator<Item = T>>(&mut self, pieces: I) {
        pieces.into_iter().for_each(|piece| self.push(piece));
    }
}

impl<T: Into<Self>> FromIterator<T> for SafeText {
    fn from_iter<I: IntoIterator<Item = T>>(pieces: I) -> Self {
        let mut all = Self::default();
        all.extend(pieces);
        all
    }
}

/// For `write!`: what is written is escaped.
impl fmt::Write for SafeText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// Bytes of another program that arrive in pieces, to be made visible as they come.
#[derive(Debug, Default)]
pub struct StreamEscaper {
    /// The beginning of a character, or a carriage return that may belong to a line break.
    held: Vec<u8>,
}

impl StreamEscaper {
    /// Takes the next bytes. Returns the text that is complete so far; bytes that are not UTF-8 are replaced.
    pub fn push(&mut self, bytes: &[u8]) -> SafeText {
        self.held.extend_from_slice(bytes);
        let mut whole = self.held.len();
        if let Some(last) = self.held.utf8_chunks().last()
            && std::str::from_utf8(last.invalid()).is_err_and(|odd| odd.error_len().is_none())
        {
            whole -= last.invalid().len();
        } else if self.held.ends_with(b"\r") {
            whole -= 1;
        }
        let rest = self.held.split_off(whole);
        SafeText::from(String::from_utf8_lossy(&std::mem::replace(&mut self.held, rest)).as_ref())
    }

    /// The text that was held back, at the end of the bytes.
    pub fn end(self) -> SafeText {
        SafeText::from(String::from_utf8_lossy(&self.held).as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_painted_text_has_escape_sequences() {
        let text = SafeText::from("a\x1b[2J\u{9b}1m\n")
            + SafeText::painted(TextStyle::Red, "b\x1b[0m", true)
            + "c\r";
        assert_eq!(text.as_str(), "a␛[2J\\u{9b}1m\n\x1b[31mb␛[0m\x1b[0mc␍");
        assert_eq!(SafeText::painted(TextStyle::Red, "b", false).as_str(), "b");
        assert_eq!(SafeText::painted(TextStyle::Red, "", true).as_str(), "");
    }

    #[test]
    fn text_that_is_made_visible_twice_stays_as_it_is() {
        let once = SafeText::from("\x1b]0;x\x07\u{9d}\u{202e}\x7f\t\r\n");
        assert_eq!(SafeText::from(once.as_str()), once);
    }

    #[test]
    fn json_has_no_control_characters_and_means_the_same() {
        let odd: String = ('\0'..='\u{a0}').chain("\u{202e}\u{2066}日🙂".chars()).collect();
        for json in [SafeText::json(&[&odd]), SafeText::json_line(&[&odd])] {
            let json = json.expect("a text can be written");
            assert!(!json.as_str().contains(|c| c != '\n' && format::is_control_character(c)), "{json:?}");
            let read: Vec<String> = serde_json::from_str(json.as_str()).expect("it is JSON");
            assert_eq!(read, [odd.as_str()]);
        }
    }

    #[test]
    fn bytes_become_the_same_text_however_they_are_split() {
        let bytes =
            "é\x1b[2J日\r\nx\ry🙂".bytes().chain([0x9b, b'm', 0xc2, 0x9b, 0xe2, 0x82]).collect::<Vec<_>>();
        for cut in 0..=bytes.len() {
            let mut incoming = StreamEscaper::default();
            let text = incoming.push(&bytes[..cut]) + incoming.push(&bytes[cut..]) + incoming.end();
            assert_eq!(text.as_str(), "é␛[2J日\nx␍y🙂\u{fffd}m\\u{9b}\u{fffd}", "cut at {cut}");
        }
    }
}
