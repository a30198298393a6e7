//! Notifications on terminals: a bell, and an escape sequence that many terminals show as a notification.
//!
//! Promise: berth writes only to a terminal that has this session as its current one, is still the recorded terminal,
//! belongs to this account and is writable at once. No letter is printed, and no sequence stays incomplete. A terminal
//! that knows several notification sequences gets only one.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use berth_core::SessionId;
use berth_procs::own_terminal;
use berth_store::StateDir;
use berth_store::current_session::{TerminalIdentity, TerminalPresence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{DeliveryResult, EventNotification};
use crate::config::notify::NoticeStyle;
use crate::print;

/// Most characters of a text.
const MOST_CHARS: usize = 160;
/// How long a terminal that took the beginning of a sequence may take for the rest.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// The control character that cancels a sequence.
const CANCEL: &[u8] = b"\x18";

/// Notifies the terminals that have this session as their current one; in a test without a session, our own terminal.
pub(super) fn tell(home: &StateDir, told: &EventNotification, style: NoticeStyle) -> DeliveryResult {
    let meant = SessionId::parse(&told.data.session);
    let terminals: Vec<TerminalIdentity> = match &meant {
        Some(id) => {
            let all = home.terminals().into_iter();
            all.filter(|(_, current)| current == id).map(|(terminal, _)| terminal).collect()
        }
        None => own_terminal::own_terminal().into_iter().collect(),
    };
    if terminals.is_empty() {
        return DeliveryResult::skipped("no terminal has this session as its current one");
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
    if failed.is_empty() {
        DeliveryResult::sent(told_at.join(", "))
    } else {
        DeliveryResult::failed(failed.join("; "))
    }
}

fn write_to(terminal: &TerminalIdentity, osc: &[u8]) -> Result<(), String> {
    let tty = &terminal.tty;
    let found = fs::metadata(tty).map_err(|error| error.to_string())?;
    if !found.file_type().is_char_device() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err("the terminal belongs to another account".to_owned());
    }
    // The open must not wait for a stopped terminal, nor make it our controlling terminal.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(tty, flags, Mode::empty()).map_err(|error| error.to_string())?;
    if !rustix::termios::isatty(&fd) {
        return Err("the device is not a terminal".to_owned());
    }
    // The window may have been closed meanwhile, and its device reused for the next one. While our descriptor is open,
    // the kernel does not reuse the device.
    let device = rustix::fs::fstat(&fd).map_err(|error| error.to_string())?.st_rdev;
    if device != found.rdev() || terminal.presence() != TerminalPresence::There {
        return Err("the terminal was closed meanwhile".to_owned());
    }
    say(&fd, osc, Instant::now() + REST_PATIENCE)
}

/// Rings the bell, then sends the sequence. A sequence that was begun is finished or cancelled, or the terminal would
/// take later output for its rest.
fn say(fd: impl AsFd, osc: &[u8], until: Instant) -> Result<(), String> {
    rustix::io::write(&fd, b"\x07").map_err(|error| error.to_string())?;
    let mut rest = osc;
    while !rest.is_empty() {
        match rustix::io::write(&fd, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::AGAIN) if rest.len() == osc.len() => {
                return Err("the terminal accepted the bell, but not the notification".to_owned());
            }
            Err(Errno::AGAIN) if Instant::now() < until => wait_for_room(&fd, until),
            Err(Errno::INTR) => {}
            Err(error) => {
                let _ = rustix::io::write(&fd, CANCEL);
                return Err(format!("the terminal took only a part: {error}"));
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

fn words(told: &EventNotification, style: NoticeStyle, terminal: &TerminalIdentity) -> Vec<u8> {
    let is_in = |program: &str| {
        terminal.pane.as_deref().is_some_and(|pane| pane.split("; ").any(|part| part.starts_with(program)))
    };
    let pane = match (is_in("tmux"), is_in("zellij")) {
        (_, true) => TerminalMultiplexer::Zellij,
        (true, false) => TerminalMultiplexer::Tmux,
        (false, false) => TerminalMultiplexer::None,
    };
    sequence(told, style, pane, || shows_777(terminal.leader.pid))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TerminalMultiplexer {
    None,
    /// Passes on only what is wrapped for it, if its settings allow that.
    Tmux,
    /// Passes on only the bell.
    Zellij,
}

fn sequence(
    told: &EventNotification,
    style: NoticeStyle,
    pane: TerminalMultiplexer,
    shows_777: impl FnOnce() -> bool,
) -> Vec<u8> {
    let plain = |text: &str| {
        print::truncate(
            &text.replace(|c: char| berth_verbs::format::is_control_character(c) || c == ';', " "),
            MOST_CHARS,
        )
    };
    let title = plain(&told.title);
    let text = plain(&told.data.text);
    let osc9 = || format!("\x1b]9;{title}: {text}\x1b\\");
    let osc777 = || format!("\x1b]777;notify;{title};{text}\x1b\\");
    let osc = match (style, pane) {
        (NoticeStyle::Bell, _) | (_, TerminalMultiplexer::Zellij) => String::new(),
        (NoticeStyle::Osc9, _) => osc9(),
        (NoticeStyle::Osc777, _) => osc777(),
        (NoticeStyle::Both, _) => osc9() + &osc777(),
        (NoticeStyle::Auto, _) => {
            if shows_777() {
                osc777()
            } else {
                osc9()
            }
        }
    };
    let osc = match pane {
        TerminalMultiplexer::Tmux if !osc.is_empty() => {
            format!("\x1bPtmux;{}\x1b\\", osc.replace('\x1b', "\x1b\x1b"))
        }
        TerminalMultiplexer::None | TerminalMultiplexer::Tmux | TerminalMultiplexer::Zellij => osc,
    };
    osc.into_bytes()
}

/// True for terminals that know only rxvt's sequence (those of GNOME and KDE, and rxvt), by
/// the environment of their shell.
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
