//! Terminal bytes in, screen out.
//!
//! A keeper reads the output of an agent's pty and feeds it here, so that a client that attaches
//! later gets the screen as it is now, with all modes.
//!
//! Promise: however the stream is split, [`Screen::restore`] brings a terminal of the same size to
//! the state it would have had if it had watched from the start. Memory is bounded by the size of
//! the screen and not by the length of the stream, and no stream makes this crate panic.
//! Not here: reading or writing anything, history (the output files are the truth, the screen is a
//! cache), knowing sessions.
//! Start with [`Screen::feed`]; [`StreamSplitter`] says where a stream may be cut; [`ScreenWindow`] draws a screen into a terminal
//! of another size; [`Scrollback`] has the lines that scrolled off; [`reset_terminal()`] has the bytes that a client prints when
//! it detaches.

#![forbid(unsafe_code)]

mod active_screen;
mod emulator;
mod hidden_state;
mod paint;
mod pending_text;
mod plain_text;
mod query_replies;
mod restore;
mod scan;
mod screen;
mod screen_window;
mod scrollback;
mod scrolled_text;
mod sequence;
mod size;
mod splitter;
mod terminal_reset;
mod text;

#[cfg(test)]
mod tests;

pub use active_screen::{ActiveScreen, ActiveScreenTracker};
pub use plain_text::PlainTextFilter;
pub use screen::Screen;
pub use screen_window::ScreenWindow;
pub use scrollback::{Scrollback, skip_partial_sequence};
pub use scrolled_text::ScrolledText;
pub use size::ScreenSize;
pub use splitter::{HELD_LIMIT_BYTES, StreamSplitter};
pub use terminal_reset::reset_terminal;
