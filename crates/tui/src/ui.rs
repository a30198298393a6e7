//! Options for the output of this command: colours, and how much is printed.
//!
//! Promise: `--color` overrides the config, and the config overrides NO_COLOR. With --quiet only data and errors are
//! printed. Code that prints a remark uses [`crate::print::note`]; code that colours a text asks [`uses_colours`].
//! Not here: progress (see `progress`).
//! Start with [`set_ui_options`].

use std::sync::OnceLock;

use crate::config::{ColorMode, Config};

/// Options of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct UiOptions {
    /// `--quiet`: no remarks.
    pub quiet: bool,
    /// `--color`, if it was given.
    pub color: Option<ColorMode>,
}

static OPTIONS: OnceLock<UiOptions> = OnceLock::new();
/// The name of this host on the host where the user typed the command.
static CALLED: OnceLock<String> = OnceLock::new();

/// Sets the options of the command line, once, before anything is printed.
pub fn set_ui_options(options: UiOptions) {
    let _ = OPTIONS.set(options);
}

/// Sets the name of this host on the calling host, if the command came from another host.
pub fn set_host_name_of_caller(host: String) {
    let _ = CALLED.set(host);
}

/// A command as the user has to type it, maybe on another host.
pub fn command_to_type(words: &str) -> String {
    match CALLED.get() {
        Some(host) => format!("berth --host {host} {words}"),
        None => format!("berth {words}"),
    }
}

/// The options of the command line; the defaults until they are set.
pub fn ui_options() -> UiOptions {
    OPTIONS.get().copied().unwrap_or_default()
}

/// True if remarks are not wanted.
pub fn is_quiet() -> bool {
    ui_options().quiet
}

/// True if output to a stream is coloured.
pub fn uses_colours(is_terminal: bool) -> bool {
    let color = ui_options().color.unwrap_or_else(|| Config::load_or_default().ui.color);
    match color {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb(),
    }
}

/// True if the variable is set and not empty: no-color.org ignores an empty one.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
