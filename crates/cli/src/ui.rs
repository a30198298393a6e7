//! How this command talks to its person: colours, and how much it says.
//!
//! Promise: `--color` counts over the config, the config over NO_COLOR. With --quiet only data and errors are
//! printed. Whoever wants to print a remark uses [`crate::print::note`]; whoever wants to colour something asks
//! [`colours_on`].
//! Not here: progress (see `progress`).
//! Start with [`set`].

use std::sync::OnceLock;

use crate::config::{Color, Config};

/// What this command was told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) quiet: bool,
    pub(crate) color: Option<Color>,
}

static OPTIONS: OnceLock<Options> = OnceLock::new();
/// What whoever asks calls this host.
static CALLED: OnceLock<String> = OnceLock::new();

/// Takes the options of the command line, once, before anything is printed.
pub(crate) fn set(options: Options) {
    let _ = OPTIONS.set(options);
}

/// Takes what whoever asks calls this host, if they are on another.
pub(crate) fn set_called(host: String) {
    let _ = CALLED.set(host);
}

/// A command as whoever asks has to type it: they may be on another host.
pub(crate) fn as_typed(words: &str) -> String {
    match CALLED.get() {
        Some(host) => format!("berth --host {host} {words}"),
        None => format!("berth {words}"),
    }
}

/// What this command was told; until then, nothing.
pub(crate) fn options() -> Options {
    OPTIONS.get().copied().unwrap_or_default()
}

/// Whether remarks are not wanted.
pub(crate) fn is_quiet() -> bool {
    options().quiet
}

/// Whether what goes to a stream is coloured.
pub(crate) fn colours_on(is_terminal: bool) -> bool {
    let color = options().color.unwrap_or_else(|| Config::load_or_default().ui.color);
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb(),
    }
}

/// Set and empty is not set, says no-color.org.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
