//! Terminal bytes in, screen out.
//!
//! A keeper reads what an agent writes to its pty and feeds it here, so that a client that attaches
//! later gets the screen as it is now, with all modes.
//!
//! Promise: however the stream is split, [`Screen::restore`] brings a terminal of the same size to
//! the state it would have had if it had watched from the start. Memory is bounded by the size of
//! the screen and not by the length of the stream, and no stream makes this crate panic.
//! Not here: reading or writing anything, history (the output files are the truth, the screen is a
//! cache), knowing sessions.
//! Start with [`Screen::feed`]; [`Splitter`] says where a stream may be cut; [`View`] draws a screen into a terminal
//! of another size; [`Scrollback`] has what scrolled off; [`leave()`] is what a client prints when it goes.

#![forbid(unsafe_code)]

mod active;
mod answers;
mod emulator;
mod hidden;
mod leave;
mod paint;
mod pending;
mod plain;
mod restore;
mod scan;
mod screen;
mod scroll;
mod scrollback;
mod sequence;
mod size;
mod splitter;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use active::{ActiveScreen, ActiveScreenTracker};
pub use leave::leave;
pub use plain::Plain;
pub use screen::Screen;
pub use scroll::Scroll;
pub use scrollback::{Scrollback, after_a_cut};
pub use size::Size;
pub use splitter::{HELD_LIMIT_BYTES, Splitter};
pub use view::View;
