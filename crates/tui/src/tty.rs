//! The user's terminal: detection, size, raw mode, and restoring it.

#![expect(clippy::disallowed_methods, reason = "this module owns the terminal")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use berth_api::message::WindowSize;
use berth_screen::ActiveScreen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, ttyname};

/// True if standard input and standard output are both a terminal.
pub fn is_interactive() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// True if standard input and standard error are both a terminal, so that a user can be asked.
pub fn can_ask() -> bool {
    isatty(stdin()) && isatty(stderr())
}

/// Standard output, for `poll`.
pub fn standard_output() -> BorrowedFd<'static> {
    stdout()
}

/// True if standard output supports colours and the user has not turned them off.
pub fn wants_colour() -> bool {
    crate::ui::uses_colours(crate::print::is_terminal())
}

/// The size of the terminal, if there is one.
pub fn terminal_size() -> Option<WindowSize> {
    let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin())).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(WindowSize { rows: size.ws_row, cols: size.ws_col })
}

/// The place where this command runs, for people: the terminal, the host, the SSH client.
pub fn terminal_description() -> String {
    let name = ttyname(stdin(), Vec::new()).or_else(|_| ttyname(stderr(), Vec::new()));
    let terminal = name.ok().and_then(|name| name.into_string().ok());
    let terminal = terminal.map(|name| name.trim_start_matches("/dev/").to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut place = format!("{} on {host}", terminal.as_deref().unwrap_or(berth_api::client::SCRIPT_CLIENT));
    if let Some(client) =
        std::env::var("SSH_CONNECTION").ok().and_then(|all| all.split(' ').next().map(str::to_owned))
    {
        place.push_str(&format!(", over SSH from {client}"));
    }
    place
}

/// How long the terminal may take nothing before the last words are dropped.
const LAST_WORDS_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The terminal on standard output, opened again without blocking: writes never wait, and the shell, which shares our
/// standard output, does not get that flag.
pub fn terminal_output() -> BorrowedFd<'static> {
    static OURS: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let ours = OURS.get_or_init(|| rustix::fs::open("/proc/self/fd/1", flags, Mode::empty()).ok());
    // After `su` the terminal belongs to another account and cannot be opened again: then writes wait.
    ours.as_ref().map_or_else(stdout, |fd| fd.as_fd())
}

/// Writes the last bytes to the terminal, but does not wait long for one that is stopped.
pub fn write_before_exit(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(terminal_output(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let room = &mut [PollFd::from_borrowed_fd(terminal_output(), PollFlags::OUT)];
                if poll(room, Some(&LAST_WORDS_PATIENCE)) == Ok(0) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// True while the terminal shows the alternate screen, which even a panic must leave.
static IN_ALTERNATE: AtomicBool = AtomicBool::new(false);

/// Remembers the screen that the terminal is about to show.
pub fn set_active_screen(active: ActiveScreen) {
    IN_ALTERNATE.store(active == ActiveScreen::Alternate, Ordering::Relaxed);
}

/// The modes of the terminal before we changed them, so that a panic can restore them.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Raw mode while this value lives; left on panic too.
pub struct RawMode;

impl RawMode {
    /// Enters raw mode.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(before);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            usual(info);
        }));
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(before) = before {
        let in_alternate = IN_ALTERNATE.swap(false, Ordering::Relaxed);
        let active = if in_alternate { ActiveScreen::Alternate } else { ActiveScreen::Primary };
        write_before_exit(&berth_screen::reset_terminal(active));
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}
