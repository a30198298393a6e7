//! The terminals whose current session it is: a bell, and a sequence that many of them show as a notification.
//!
//! Promise: written only to a terminal that is still the one it was, belongs to this account and takes it at
//! once, in one write that shows no letter; exactly one notification sequence, because there are terminals that
//! know several.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use berth_core::SessionId;
use berth_keeper::Home;
use berth_keeper::terminals::Terminal;
use rustix::fs::{Mode, OFlags};

use super::{Came, Notification};
use crate::config::notify::Style;
use crate::print;

/// How much of a text a terminal gets.
const MOST_CHARS: usize = 160;

/// Tells the terminals whose current session this is; in a test of no session, the one we are at.
pub(super) fn tell(home: &Home, told: &Notification, style: Style) -> Came {
    let meant = SessionId::parse(&told.data.session);
    let terminals: Vec<Terminal> = match &meant {
        Some(id) => {
            let all = home.terminals().into_iter();
            all.filter(|(_, current)| current == id).map(|(terminal, _)| terminal).collect()
        }
        None => Terminal::here().into_iter().collect(),
    };
    if terminals.is_empty() {
        return Came::skipped("it is no terminal's current session");
    }
    let mut told_at = Vec::new();
    let mut failed = Vec::new();
    for terminal in &terminals {
        let name = terminal.tty.display().to_string();
        match write_to(&terminal.tty, &words(told, style, terminal)) {
            Ok(()) => told_at.push(name),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    if failed.is_empty() { Came::sent(told_at.join(", ")) } else { Came::failed(failed.join("; ")) }
}

fn write_to(tty: &Path, bytes: &[u8]) -> Result<(), String> {
    let found = fs::metadata(tty).map_err(|error| error.to_string())?;
    if !found.file_type().is_char_device() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it is not a terminal of this account".to_owned());
    }
    // Not to wait for one that is stopped, and not to make it ours.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(tty, flags, Mode::empty()).map_err(|error| error.to_string())?;
    if !rustix::termios::isatty(&fd) {
        return Err("it is no terminal".to_owned());
    }
    match rustix::io::write(&fd, bytes) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err("it took only a part".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn words(told: &Notification, style: Style, terminal: &Terminal) -> Vec<u8> {
    let is_in = |program: &str| {
        terminal.pane.as_deref().is_some_and(|pane| pane.split("; ").any(|part| part.starts_with(program)))
    };
    let pane = match (is_in("tmux"), is_in("zellij")) {
        (_, true) => Pane::Zellij,
        (true, false) => Pane::Tmux,
        (false, false) => Pane::None,
    };
    sequence(told, style, pane, || shows_777(terminal.leader.pid))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pane {
    None,
    /// Hands on what is wrapped for it, if it is allowed to.
    Tmux,
    /// Hands on the bell alone.
    Zellij,
}

fn sequence(told: &Notification, style: Style, pane: Pane, shows_777: impl FnOnce() -> bool) -> Vec<u8> {
    let plain = |text: &str| print::cut(&text.replace(|c: char| c.is_control() || c == ';', " "), MOST_CHARS);
    let title = plain(&told.title);
    let text = plain(&told.data.text);
    let osc9 = || format!("\x1b]9;{title}: {text}\x1b\\");
    let osc777 = || format!("\x1b]777;notify;{title};{text}\x1b\\");
    let osc = match (style, pane) {
        (Style::Bell, _) | (_, Pane::Zellij) => String::new(),
        (Style::Osc9, _) => osc9(),
        (Style::Osc777, _) => osc777(),
        (Style::Both, _) => osc9() + &osc777(),
        (Style::Auto, _) => {
            if shows_777() {
                osc777()
            } else {
                osc9()
            }
        }
    };
    let osc = match pane {
        Pane::Tmux if !osc.is_empty() => format!("\x1bPtmux;{}\x1b\\", osc.replace('\x1b', "\x1b\x1b")),
        Pane::None | Pane::Tmux | Pane::Zellij => osc,
    };
    format!("\x07{osc}").into_bytes()
}

/// Whether the terminal is one of those that know only the sequence of rxvt, by what its shell was started with:
/// GNOME's and its relatives, KDE's, and rxvt itself.
fn shows_777(leader: u32) -> bool {
    let variables = fs::read(format!("/proc/{leader}/environ")).unwrap_or_default();
    let begins = |name: &str| variables.split(|byte| *byte == 0).any(|one| one.starts_with(name.as_bytes()));
    ["VTE_VERSION=", "KONSOLE_VERSION=", "TERM=rxvt"].into_iter().any(begins)
}
