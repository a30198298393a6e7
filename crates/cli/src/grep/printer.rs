//! Prints matches of `berth grep`, for people and for programs.
//!
//! Promise: matched text has no control sequences when it is printed; off a terminal each line names its source by
//! itself. The words before the text are arguments for the next command: `fix.3` for `berth turn`, a number for `berth
//! output --from`.
//! Start with [`GrepPrinter::hits`].

use berth_api::Problem;
use berth_verbs::grep::{FoundLine, MatchPlace, SearchHit, SearchSubject};

use crate::print;
use crate::safe_text::{SafeText, TextStyle};

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GrepStyle {
    Lines,
    Json,
    /// The number of matches in each session.
    Counts,
    /// Only the sessions with a match.
    Names,
}

/// Prints matches in order.
#[derive(Debug)]
pub(crate) struct GrepPrinter {
    style: GrepStyle,
    is_terminal: bool,
    is_coloured: bool,
    has_context: bool,
    /// The session that was printed last, by name or id.
    last: Option<String>,
    handle: String,
    /// True until something of the present session is printed.
    is_fresh: bool,
    /// Matches in the present session so far.
    matches: u64,
    most: u64,
    pub(crate) total: u64,
}

impl GrepPrinter {
    pub(crate) fn new(style: GrepStyle, has_context: bool, most: u64) -> Self {
        let is_terminal = print::is_terminal();
        let is_coloured = crate::tty::wants_colour();
        let (last, handle) = (None, String::new());
        Self {
            style,
            is_terminal,
            is_coloured,
            has_context,
            last,
            handle,
            is_fresh: true,
            matches: 0,
            most,
            total: 0,
        }
    }

    /// Prints more matches of a session: all of one come before the first of the next.
    pub(crate) fn hits(&mut self, subject: &SearchSubject, hits: &[SearchHit]) -> Result<SafeText, Problem> {
        let mut text = SafeText::default();
        if hits.is_empty() {
            return Ok(text);
        }
        if self.last.as_deref() != Some(subject.id.as_str()) {
            text.push(self.finish_counting());
            let is_first = self.last.is_none();
            (self.last, self.matches) = (Some(subject.id.to_string()), 0);
            self.handle = subject.handle().to_owned();
            text.push(self.heading(subject, is_first));
        }
        for hit in hits {
            if self.matches >= self.most {
                break;
            }
            if hit.found.is_match() {
                self.matches += 1;
                self.total += 1;
            }
            match self.style {
                GrepStyle::Lines => {
                    if self.has_context && hit.found.gap && !self.is_fresh {
                        text.push("--\n");
                    }
                    text.push(self.line(subject, hit));
                }
                GrepStyle::Json => text.push(SafeText::json_line(&FoundLine::of(subject, hit))?),
                GrepStyle::Counts | GrepStyle::Names => {}
            }
            self.is_fresh = false;
        }
        Ok(text)
    }

    /// The line of counts for a session that is finished.
    pub(crate) fn finish_counting(&self) -> SafeText {
        match self.style {
            GrepStyle::Counts if self.matches > 0 => {
                self.paint(TextStyle::Magenta, &self.handle) + format!(":{}\n", self.matches)
            }
            GrepStyle::Counts | GrepStyle::Names | GrepStyle::Lines | GrepStyle::Json => SafeText::default(),
        }
    }

    fn heading(&mut self, subject: &SearchSubject, is_first: bool) -> SafeText {
        self.is_fresh = true;
        match self.style {
            GrepStyle::Names => self.paint(TextStyle::Magenta, subject.handle()) + "\n",
            GrepStyle::Lines if self.is_terminal => {
                let status = &subject.status;
                let agent = match &status.what.agent {
                    Some(agent) => agent.clone(),
                    None => print::command_line(&status.what.command, 40),
                };
                let about =
                    [agent, status.what.cwd.clone(), format!("{} ago", print::age_since(status.created_at))];
                let about = about.join(" · ").replace('\n', " ");
                SafeText::from(if is_first { "" } else { "\n" })
                    + self.paint(TextStyle::BoldMagenta, subject.handle())
                    + "  "
                    + self.paint(TextStyle::Dim, &about)
                    + "\n"
            }
            GrepStyle::Lines | GrepStyle::Json | GrepStyle::Counts => SafeText::default(),
        }
    }

    fn line(&self, subject: &SearchSubject, hit: &SearchHit) -> SafeText {
        let mark = if hit.found.is_match() { ':' } else { '-' };
        let handle = subject.handle();
        let place = match (hit.part, hit.turn) {
            (MatchPlace::Work | MatchPlace::Output, Some(turn)) => {
                format!("{handle}.{turn}{mark}{}", hit.found.offset)
            }
            (part, Some(turn)) => format!("{handle}.{turn}{mark}{}", part.word()),
            (MatchPlace::Conversation, None) if self.is_terminal => {
                format!("transcript@{}", hit.found.offset)
            }
            (MatchPlace::Conversation, None) => format!("{handle}{mark}transcript@{}", hit.found.offset),
            (_, None) if self.is_terminal => hit.found.offset.to_string(),
            (_, None) => format!("{handle}{mark}{}", hit.found.offset),
        };
        let mut line = self.paint(TextStyle::Green, &place) + mark.to_string();
        if hit.found.cut.0 {
            line.push("…");
        }
        let mut at = 0;
        let text = |from: usize, to: usize| String::from_utf8_lossy(&hit.found.text[from..to]);
        for (begin, end) in &hit.found.spans {
            line.push(text(at, *begin).as_ref());
            line.push(self.paint(TextStyle::BoldRed, &text(*begin, *end)));
            at = *end;
        }
        line.push(text(at, hit.found.text.len()).as_ref());
        if hit.found.cut.1 {
            line.push("…");
        }
        line.push("\n");
        line
    }

    fn paint(&self, paint: TextStyle, text: &str) -> SafeText {
        SafeText::painted(paint, text, self.is_coloured)
    }
}
