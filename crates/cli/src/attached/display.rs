//! What an attached person's terminal shows.
//!
//! Promise: the writer's terminal gets the session's bytes as they are; an observer's shows the part of the session's
//! screen that has the cursor, whatever the two sizes are, above a line that says that one only watches.
//! Not here: writing to the terminal.
//! Start with [`Display::take`].

use berth_api::message::Size;
use berth_screen::{ActiveScreen, ActiveScreenTracker, Screen, View};
use berth_verbs::config::CtrlKey;

use crate::{tty, width};

/// Puts the cursor below everything an application drew on the primary screen.
const BELOW: &[u8] = b"\x1b[999B\r\n";

pub(super) enum Display {
    /// The bytes as they are.
    Direct(Box<ActiveScreenTracker>),
    /// The session's screen, drawn.
    View(Box<ObserverView>),
}

impl Default for Display {
    fn default() -> Self {
        Self::Direct(Box::default())
    }
}

impl Display {
    /// Takes bytes of the session's terminal; returns what has to be written now.
    pub(super) fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Direct(tracker) => {
                tracker.feed(bytes);
                tty::set_active_screen(tracker.active());
                bytes
            }
            Self::View(view) => {
                view.screen.feed(bytes);
                view.is_stale = true;
                b""
            }
        }
    }

    /// What has to be written so that the terminal shows everything that was taken.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        match self {
            Self::View(view) if view.is_stale => view.draw(),
            Self::View(_) | Self::Direct(_) => Vec::new(),
        }
    }

    /// The terminal has another size.
    pub(super) fn resize_terminal(&mut self, size: Size) {
        if let Self::View(view) = self {
            (view.view, view.is_stale) = (View::new(screen_size(size)), true);
        }
    }

    /// The session's terminal has another size.
    pub(super) fn resize_session(&mut self, size: Size) {
        if let Self::View(view) = self {
            view.screen.resize(screen_size(size));
            view.is_stale = true;
        }
    }

    /// What has to be written first to a terminal that a shell had.
    pub(super) fn enter(&mut self) -> &'static [u8] {
        let (active, bytes): (_, &[u8]) = match self {
            Self::Direct(tracker) => {
                **tracker = ActiveScreenTracker::default();
                (ActiveScreen::Primary, b"")
            }
            // What was on the terminal comes back when this screen is left.
            Self::View(_) => (ActiveScreen::Alternate, b"\x1b[?1049h"),
        };
        tty::set_active_screen(active);
        bytes
    }

    /// What has to be written to go on with another display, as in front of a shell.
    pub(super) fn leave(&self) -> Vec<u8> {
        match self {
            Self::Direct(tracker) => {
                let below = if tracker.active() == ActiveScreen::Primary { BELOW } else { b"" };
                [below, &berth_screen::leave(tracker.active())].concat()
            }
            Self::View(_) => berth_screen::leave(ActiveScreen::Alternate),
        }
    }

    /// What is written before the terminal is given back, so that the prompt has a line of its own. An application
    /// that goes on may have drawn below its cursor; one that is over has not.
    pub(super) fn last_words(&mut self, is_over: bool) -> Vec<u8> {
        match self {
            Self::View(_) => self.picture(),
            Self::Direct(_) if is_over => b"\r\n".to_vec(),
            Self::Direct(_) => BELOW.to_vec(),
        }
    }
}

/// Why somebody only watches.
pub(super) enum Watching {
    /// They asked for it.
    Asked,
    /// Another party took over, described for people.
    TakenOver(String),
}

/// The session's screen, drawn into a terminal of any size.
pub(super) struct ObserverView {
    screen: Screen,
    view: View,
    handle: String,
    leave_key: CtrlKey,
    why: Watching,
    is_stale: bool,
}

impl ObserverView {
    /// A view on a terminal of this size, before its first screen arrived.
    pub(super) fn new(session: Size, handle: &str, leave_key: CtrlKey, why: Watching) -> Self {
        let own = tty::size().unwrap_or_default();
        Self {
            screen: Screen::new(screen_size(session)),
            view: View::new(screen_size(own)),
            handle: handle.to_owned(),
            leave_key,
            why,
            is_stale: true,
        }
    }

    fn draw(&mut self) -> Vec<u8> {
        self.is_stale = false;
        let status = width::fitted(&self.status(), usize::from(self.view.size().cols));
        self.view.draw(&mut self.screen, &status)
    }

    fn status(&self) -> String {
        let (handle, key) = (&self.handle, self.leave_key);
        let berth_screen::Size { rows, cols } = self.screen.size();
        let watching = format!("only watching {handle} ({cols}×{rows}) · {key} leaves");
        match &self.why {
            Watching::Asked => format!(" {watching}"),
            // A narrow terminal shows the beginning only.
            Watching::TakenOver(by) => {
                format!(" taken over: {watching} · by {}", width::one_line(by))
            }
        }
    }
}

fn screen_size(size: Size) -> berth_screen::Size {
    berth_screen::Size { rows: size.rows, cols: size.cols }
}
