//! The contents of a preview: the session's screen, or its conversation.
//!
//! Promise: output of a session's program becomes characters and colours only, never a control
//! sequence for the user's terminal.
//! Start with [`PreviewContent`]; [`PreviewScreen::new`] makes lines of a screen.

use berth_api::Problem;
use berth_core::SessionId;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::preview_transcript::PreviewTranscript;

/// The most lines of a screen that are shown: as many as the largest terminal has.
const MAX_LINES: usize = 1000;

/// The preview of one session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SessionPreview {
    pub(crate) id: SessionId,
    pub(crate) content: PreviewContent,
    /// Why the view is not live, if it is not.
    pub(crate) remark: Option<String>,
}

/// The contents of a preview.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PreviewContent {
    Screen(PreviewScreen),
    Talk(PreviewTranscript),
    Trouble(Problem),
}

/// A terminal's screen.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PreviewScreen {
    pub(crate) lines: Vec<Line<'static>>,
    /// The line of the cursor, from zero, if it is known.
    pub(crate) cursor_row: Option<usize>,
}

impl PreviewScreen {
    /// Parses a screen as keepers send it.
    pub(crate) fn new(ansi: &str, cursor_row: Option<u16>) -> Self {
        Self { lines: screen_lines(ansi), cursor_row: cursor_row.map(usize::from) }
    }
}

/// The lines of a screen as keepers send it: characters, and sequences that set colours.
fn screen_lines(ansi: &str) -> Vec<Line<'static>> {
    ansi.lines().take(MAX_LINES).map(line).collect()
}

fn line(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::default();
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            if !plain.is_empty() {
                spans.push(Span::styled(std::mem::take(&mut plain), style));
            }
            let mut ahead = rest.clone();
            if ahead.next() == Some('[') {
                let body: String = ahead.clone().take_while(|c| matches!(c, '0'..='9' | ';' | ':')).collect();
                // The parameters, then the final character.
                let last = ahead.nth(body.len());
                rest = ahead;
                if last == Some('m') {
                    style = styled(style, &body);
                }
            }
        } else if !c.is_control() {
            plain.push(c);
        }
    }
    if !plain.is_empty() {
        spans.push(Span::styled(plain, style));
    }
    Line::from(spans)
}

/// Applies the parameters of an SGR sequence to a style.
fn styled(mut style: Style, body: &str) -> Style {
    let mut parameters = body.split(';');
    while let Some(parameter) = parameters.next() {
        // `4:3` is a kind of underline, `58:…` its colour.
        let code = parameter.split(':').next().unwrap_or_default();
        let code: u8 = if code.is_empty() { 0 } else { code.parse().unwrap_or(255) };
        style = match code {
            0 => Style::default(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            8 => style.add_modifier(Modifier::HIDDEN),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(Color::Indexed(code - 30)),
            40..=47 => style.bg(Color::Indexed(code - 40)),
            90..=97 => style.fg(Color::Indexed(code - 90 + 8)),
            100..=107 => style.bg(Color::Indexed(code - 100 + 8)),
            38 => colour(&mut parameters).map_or(style, |colour| style.fg(colour)),
            48 => colour(&mut parameters).map_or(style, |colour| style.bg(colour)),
            _ => style,
        };
    }
    style
}

fn colour<'a>(parameters: &mut impl Iterator<Item = &'a str>) -> Option<Color> {
    let mut next = || parameters.next()?.parse::<u8>().ok();
    match next()? {
        5 => next().map(Color::Indexed),
        2 => Some(Color::Rgb(next()?, next()?, next()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_through_and_no_other_control_sequences() {
        let hostile = "a\x1b[0;1;31mb\x1b[38;5;200;48;2;1;2;3mc\x1b[0m\x1b]0;title\x07\x1b[2Jd\x1b[?1049he\x1b\u{9b}f\x1b";
        let lines = screen_lines(hostile);
        let text: String = lines[0].spans.iter().map(|span| span.content.as_ref()).collect();
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        assert_eq!(lines[0].spans[0], Span::styled("a", Style::default()));
        let bold_red = Style::default().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD);
        assert_eq!(lines[0].spans[1], Span::styled("b", bold_red));
        let both = bold_red.fg(Color::Indexed(200)).bg(Color::Rgb(1, 2, 3));
        assert_eq!(lines[0].spans[2], Span::styled("c", both));
    }

    #[test]
    fn a_screen_from_a_keeper_is_read_back_unchanged() {
        let size = berth_screen::ScreenSize { rows: 4, cols: 30 };
        let mut screen = berth_screen::Screen::new(size);
        screen.feed("plain \x1b[1;32mgreen\x1b[0m 日本 🙂\r\n\x1b[95;44mx\x1b[7my".as_bytes());
        let lines = screen_lines(&screen.ansi());
        let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["plain green 日本 🙂", "xy"]);
        assert_eq!(lines[0].spans[1].style.fg, Some(Color::Indexed(2)));
        assert_eq!(lines[1].spans[0].style.bg, Some(Color::Indexed(4)));
    }
}
