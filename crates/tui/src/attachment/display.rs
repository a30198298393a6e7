//! The picture on the terminal of an attached user.
//!
//! Promise: the writer's terminal gets the session's bytes as they are. An observer's terminal shows the part of the
//! session's screen around the cursor, in any two sizes, above a line that says that this client only watches.
//! Not here: writing to the terminal.
//! Start with [`AttachDisplay::take`].

use berth_api::message::WindowSize;
use berth_config::config::CtrlKey;
use berth_screen::{ActiveScreen, ActiveScreenTracker, Screen, ScreenWindow};

use crate::{text_width, tty};

/// Puts the cursor below everything an application drew on the primary screen.
const BELOW: &[u8] = b"\x1b[999B\r\n";

pub(super) enum AttachDisplay {
    /// The bytes as they are.
    Direct(Box<ActiveScreenTracker>),
    /// The session's screen, drawn.
    View(Box<ObserverView>),
}

impl Default for AttachDisplay {
    fn default() -> Self {
        Self::Direct(Box::default())
    }
}

impl AttachDisplay {
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

    /// The bytes to write so that the terminal shows everything taken so far.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        match self {
            Self::View(view) if view.is_stale => view.draw(),
            Self::View(_) | Self::Direct(_) => Vec::new(),
        }
    }

    /// Call when the terminal was resized.
    pub(super) fn resize_terminal(&mut self, size: WindowSize) {
        if let Self::View(view) = self {
            (view.view, view.is_stale) = (ScreenWindow::new(screen_size(size)), true);
        }
    }

    /// Call when the session's terminal was resized.
    pub(super) fn resize_session(&mut self, size: WindowSize) {
        if let Self::View(view) = self {
            view.screen.resize(screen_size(size));
            view.is_stale = true;
        }
    }

    /// The first bytes for a terminal that a shell used.
    pub(super) fn enter(&mut self) -> &'static [u8] {
        let (active, bytes): (_, &[u8]) = match self {
            Self::Direct(tracker) => {
                **tracker = ActiveScreenTracker::default();
                (ActiveScreen::Primary, b"")
            }
            // The earlier content of the terminal comes back when the alternate screen is left.
            Self::View(_) => (ActiveScreen::Alternate, b"\x1b[?1049h"),
        };
        tty::set_active_screen(active);
        bytes
    }

    /// The bytes to write before another display goes on, as in front of a shell.
    pub(super) fn leave(&self) -> Vec<u8> {
        match self {
            Self::Direct(tracker) => {
                let below = if tracker.active() == ActiveScreen::Primary { BELOW } else { b"" };
                [below, &berth_screen::reset_terminal(tracker.active())].concat()
            }
            Self::View(_) => berth_screen::reset_terminal(ActiveScreen::Alternate),
        }
    }

    /// The bytes to write before the terminal is given back, so that the shell's prompt has a line of its own. An
    /// application that goes on may have drawn below its cursor; one that is over has not.
    pub(super) fn last_words(&mut self, is_over: bool) -> Vec<u8> {
        match self {
            Self::View(_) => self.picture(),
            Self::Direct(_) if is_over => b"\r\n".to_vec(),
            Self::Direct(_) => BELOW.to_vec(),
        }
    }
}

/// Why a client only watches.
pub(super) enum ObserveReason {
    /// The user asked for it.
    Asked,
    /// Another client took over, described for people.
    TakenOver(String),
}

/// The session's screen, drawn into a terminal of any size.
pub(super) struct ObserverView {
    screen: Screen,
    view: ScreenWindow,
    handle: String,
    leave_key: CtrlKey,
    why: ObserveReason,
    is_stale: bool,
}

impl ObserverView {
    /// A view on a terminal of this size, before its first screen arrived.
    pub(super) fn new(session: WindowSize, handle: &str, leave_key: CtrlKey, why: ObserveReason) -> Self {
        let own = tty::terminal_size().unwrap_or_default();
        Self {
            screen: Screen::new(screen_size(session)),
            view: ScreenWindow::new(screen_size(own)),
            handle: handle.to_owned(),
            leave_key,
            why,
            is_stale: true,
        }
    }

    fn draw(&mut self) -> Vec<u8> {
        self.is_stale = false;
        let status = text_width::fit_columns(&self.status(), usize::from(self.view.size().cols));
        self.view.draw(&mut self.screen, &status)
    }

    fn status(&self) -> String {
        let (handle, key) = (&self.handle, self.leave_key);
        let berth_screen::ScreenSize { rows, cols } = self.screen.size();
        let watching = format!("only watching {handle} ({cols}×{rows}) · {key} leaves");
        match &self.why {
            ObserveReason::Asked => format!(" {watching}"),
            // A narrow terminal shows the beginning only.
            ObserveReason::TakenOver(by) => {
                format!(" taken over: {watching} · by {}", text_width::one_line(by))
            }
        }
    }
}

fn screen_size(size: WindowSize) -> berth_screen::ScreenSize {
    berth_screen::ScreenSize { rows: size.rows, cols: size.cols }
}
