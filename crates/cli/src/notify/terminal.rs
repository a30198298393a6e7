//! The terminals whose current session it is: a bell, and a sequence that many of them show as a notification.
//!
//! Promise: written only to a terminal that is still the one it was, belongs to this account and takes it at
//! once; no letter is shown, and no sequence is left half said; exactly one notification sequence, because there
//! are terminals that know several.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use berth_core::SessionId;
use berth_keeper::terminal_here;
use berth_store::Home;
use berth_store::terminals::{Presence, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Came, Notification};
use crate::config::notify::Style;
use crate::print;

/// How much of a text a terminal gets.
const MOST_CHARS: usize = 160;
/// How long a terminal that took the beginning of a sequence may take for the rest.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// What calls a sequence off.
const CANCEL: &[u8] = b"\x18";

/// Tells the terminals whose current session this is; in a test of no session, the one we are at.
pub(super) fn tell(home: &Home, told: &Notification, style: Style) -> Came {
    let meant = SessionId::parse(&told.data.session);
    let terminals: Vec<Terminal> = match &meant {
        Some(id) => {
            let all = home.terminals().into_iter();
            all.filter(|(_, current)| current == id).map(|(terminal, _)| terminal).collect()
        }
        None => terminal_here::here().into_iter().collect(),
    };
    if terminals.is_empty() {
        return Came::skipped("it is not the current session of a terminal");
    }
    let mut told_at = Vec::new();
    let mut failed = Vec::new();
    for terminal in &terminals {
        let name = terminal.tty.display().to_string();
        match write_to(terminal, &words(told, style, terminal)) {
            Ok(()) => told_at.push(name),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    if failed.is_empty() { Came::sent(told_at.join(", ")) } else { Came::failed(failed.join("; ")) }
}

fn write_to(terminal: &Terminal, osc: &[u8]) -> Result<(), String> {
    let tty = &terminal.tty;
    let found = fs::metadata(tty).map_err(|error| error.to_string())?;
    if !found.file_type().is_char_device() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it is not a terminal of this account".to_owned());
    }
    // Not to wait for one that is stopped, and not to make it ours.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(tty, flags, Mode::empty()).map_err(|error| error.to_string())?;
    if !rustix::termios::isatty(&fd) {
        return Err("it is not a terminal".to_owned());
    }
    // The window may have been closed meanwhile, and the next one has the same device. As long as ours is open
    // it is given to nobody else.
    let device = rustix::fs::fstat(&fd).map_err(|error| error.to_string())?.st_rdev;
    if device != found.rdev() || terminal.presence() != Presence::There {
        return Err("it is not the terminal it was".to_owned());
    }
    say(&fd, osc, Instant::now() + REST_PATIENCE)
}

/// Rings the bell, then sends the sequence. One that was begun is finished, or called off: what the terminal shows
/// next would else be taken for a part of it.
fn say(fd: impl AsFd, osc: &[u8], until: Instant) -> Result<(), String> {
    rustix::io::write(&fd, b"\x07").map_err(|error| error.to_string())?;
    let mut rest = osc;
    while !rest.is_empty() {
        match rustix::io::write(&fd, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::AGAIN) if rest.len() == osc.len() => {
                return Err("it took the bell and nothing else".to_owned());
            }
            Err(Errno::AGAIN) if Instant::now() < until => wait_for_room(&fd, until),
            Err(Errno::INTR) => {}
            Err(error) => {
                let _ = rustix::io::write(&fd, CANCEL);
                return Err(format!("it took only a part: {error}"));
            }
        }
    }
    Ok(())
}

fn wait_for_room(fd: impl AsFd, until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&wait));
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
    let plain = |text: &str| {
        print::cut(&text.replace(|c: char| berth_verbs::words::is_hidden(c) || c == ';', " "), MOST_CHARS)
    };
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
    osc.into_bytes()
}

/// Whether the terminal is one of those that know only the sequence of rxvt, by what its shell was started with:
/// GNOME's and its relatives, KDE's, and rxvt itself.
fn shows_777(leader: u32) -> bool {
    let variables = fs::read(format!("/proc/{leader}/environ")).unwrap_or_default();
    let begins = |name: &str| variables.split(|byte| *byte == 0).any(|one| one.starts_with(name.as_bytes()));
    ["VTE_VERSION=", "KONSOLE_VERSION=", "TERM=rxvt"].into_iter().any(begins)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    /// A pipe that takes this much before it is full.
    fn pipe_with_room(room: usize) -> (fs::File, fs::File, usize) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let size = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
        let filled = rustix::io::write(&writer, &vec![b'.'; size - room]).expect("room");
        (reader.into(), writer.into(), filled)
    }

    #[test]
    fn a_sequence_that_does_not_fit_is_finished_when_there_is_room() {
        let (mut reader, writer, filled) = pipe_with_room(2 * 4096);
        let osc = vec![b'x'; 3 * 4096];
        let until = Instant::now() + Duration::from_secs(60);
        let said = std::thread::scope(|scope| {
            let saying = scope.spawn(|| say(&writer, &osc, until));
            let mut heard = Vec::new();
            while heard.len() < filled + 1 + osc.len() {
                let _ = poll(&mut [PollFd::new(&reader, PollFlags::IN)], None);
                let mut some = [0; 4096];
                let count = reader.read(&mut some).unwrap_or_default();
                heard.extend_from_slice(&some[..count]);
            }
            assert_eq!(heard[filled], 7);
            assert_eq!(heard[filled + 1..], osc);
            saying.join().expect("no panic")
        });
        assert_eq!(said, Ok(()));
    }

    #[test]
    fn a_terminal_that_takes_no_more_is_given_up_in_time() {
        let (_reader, writer, _) = pipe_with_room(2 * 4096);
        let said = say(&writer, &vec![b'x'; 3 * 4096], Instant::now());
        assert!(said.is_err_and(|why| why.contains("only a part")));
        let (_reader, writer, _) = pipe_with_room(0);
        assert!(say(&writer, b"x", Instant::now()).is_err());
    }
}
