//! What was found, for people and for programs.
//!
//! Promise: nothing that was found can do anything to a terminal; off a terminal each line says by itself where it is
//! from. What stands before the text is what one goes on with: `fix.3` for `berth turn`, a number for
//! `berth output --from`.
//! Start with [`Show::hits`].

use berth_api::Problem;
use berth_verbs::grep::{Hit, Line, Part, Subject};

use crate::print;
use crate::visible::{Paint, Visible};

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Lines,
    Json,
    /// How many of each session.
    Counts,
    /// Which sessions.
    Names,
}

/// Prints what is found, in order.
#[derive(Debug)]
pub(crate) struct Show {
    style: Style,
    is_terminal: bool,
    is_coloured: bool,
    has_context: bool,
    /// The session that was printed last, and how people call it.
    last: Option<String>,
    handle: String,
    /// Nothing of it was printed yet.
    is_fresh: bool,
    /// Matches of it so far.
    matches: u64,
    most: u64,
    pub(crate) total: u64,
}

impl Show {
    pub(crate) fn new(style: Style, has_context: bool, most: u64) -> Self {
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

    /// More of a session: all of one come before the first of the next.
    pub(crate) fn hits(&mut self, subject: &Subject, hits: &[Hit]) -> Result<Visible, Problem> {
        let mut text = Visible::default();
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
                Style::Lines => {
                    if self.has_context && hit.found.gap && !self.is_fresh {
                        text.push("--\n");
                    }
                    text.push(self.line(subject, hit));
                }
                Style::Json => text.push(Visible::json_line(&Line::of(subject, hit))?),
                Style::Counts | Style::Names => {}
            }
            self.is_fresh = false;
        }
        Ok(text)
    }

    /// What is to be said when a session is over.
    pub(crate) fn finish_counting(&self) -> Visible {
        match self.style {
            Style::Counts if self.matches > 0 => {
                self.paint(Paint::Magenta, &self.handle) + format!(":{}\n", self.matches)
            }
            Style::Counts | Style::Names | Style::Lines | Style::Json => Visible::default(),
        }
    }

    fn heading(&mut self, subject: &Subject, is_first: bool) -> Visible {
        self.is_fresh = true;
        match self.style {
            Style::Names => self.paint(Paint::Magenta, subject.handle()) + "\n",
            Style::Lines if self.is_terminal => {
                let status = &subject.status;
                let agent = match &status.what.agent {
                    Some(agent) => agent.clone(),
                    None => print::command_line(&status.what.command, 40),
                };
                let about =
                    [agent, status.what.cwd.clone(), format!("{} ago", print::ago(status.created_at))];
                let about = about.join(" · ").replace('\n', " ");
                Visible::from(if is_first { "" } else { "\n" })
                    + self.paint(Paint::BoldMagenta, subject.handle())
                    + "  "
                    + self.paint(Paint::Dim, &about)
                    + "\n"
            }
            Style::Lines | Style::Json | Style::Counts => Visible::default(),
        }
    }

    fn line(&self, subject: &Subject, hit: &Hit) -> Visible {
        let mark = if hit.found.is_match() { ':' } else { '-' };
        let handle = subject.handle();
        let place = match (hit.part, hit.turn) {
            (Part::Work | Part::Output, Some(turn)) => format!("{handle}.{turn}{mark}{}", hit.found.offset),
            (part, Some(turn)) => format!("{handle}.{turn}{mark}{}", part.word()),
            (Part::Conversation, None) if self.is_terminal => format!("transcript@{}", hit.found.offset),
            (Part::Conversation, None) => format!("{handle}{mark}transcript@{}", hit.found.offset),
            (_, None) if self.is_terminal => hit.found.offset.to_string(),
            (_, None) => format!("{handle}{mark}{}", hit.found.offset),
        };
        let mut line = self.paint(Paint::Green, &place) + mark.to_string();
        if hit.found.cut.0 {
            line.push("…");
        }
        let mut at = 0;
        let text = |from: usize, to: usize| String::from_utf8_lossy(&hit.found.text[from..to]);
        for (begin, end) in &hit.found.spans {
            line.push(text(at, *begin).as_ref());
            line.push(self.paint(Paint::BoldRed, &text(*begin, *end)));
            at = *end;
        }
        line.push(text(at, hit.found.text.len()).as_ref());
        if hit.found.cut.1 {
            line.push("…");
        }
        line.push("\n");
        line
    }

    fn paint(&self, paint: Paint, text: &str) -> Visible {
        Visible::painted(paint, text, self.is_coloured)
    }
}
