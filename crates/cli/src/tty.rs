//! The person's terminal: whether there is one, its size, raw mode, and giving it back.

#![expect(clippy::disallowed_methods, reason = "this module owns the terminal")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use berth_api::message::Size;
use berth_screen::ActiveScreen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, ttyname};

/// Whether a person sits in front of both ends.
pub(crate) fn is_interactive() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// Whether a person can be asked something and answer.
pub(crate) fn can_ask() -> bool {
    isatty(stdin()) && isatty(stderr())
}

/// Standard output, for `poll`.
pub(crate) fn standard_output() -> BorrowedFd<'static> {
    stdout()
}

/// Whether colours make sense on standard output.
pub(crate) fn wants_colour() -> bool {
    crate::ui::colours_on(crate::print::is_terminal())
}

/// The size of the terminal, if there is one.
pub(crate) fn size() -> Option<Size> {
    let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin())).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size { rows: size.ws_row, cols: size.ws_col })
}

/// Where this command is run, for people: the terminal, the host, the SSH client.
pub(crate) fn place() -> String {
    let name = ttyname(stdin(), Vec::new()).or_else(|_| ttyname(stderr(), Vec::new()));
    let terminal = name.ok().and_then(|name| name.into_string().ok());
    let terminal = terminal.map(|name| name.trim_start_matches("/dev/").to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut place = format!("{} on {host}", terminal.as_deref().unwrap_or(berth_api::client::NO_TERMINAL));
    if let Some(client) =
        std::env::var("SSH_CONNECTION").ok().and_then(|all| all.split(' ').next().map(str::to_owned))
    {
        place.push_str(&format!(", over SSH from {client}"));
    }
    place
}

/// How long the terminal may take nothing before it gets no last words.
const LAST_WORDS_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The terminal on standard output, opened once more: writing there never waits, and the shell, which
/// shares our standard output, does not get to feel that.
pub(crate) fn output() -> BorrowedFd<'static> {
    static OURS: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let ours = OURS.get_or_init(|| rustix::fs::open("/proc/self/fd/1", flags, Mode::empty()).ok());
    // Whose terminal belongs to somebody else, after `su`, may not open it again and has to wait.
    ours.as_ref().map_or_else(stdout, |fd| fd.as_fd())
}

/// Writes to the terminal if it takes anything at all: one that is stopped must not keep us.
pub(crate) fn last_words(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(output(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let room = &mut [PollFd::from_borrowed_fd(output(), PollFlags::OUT)];
                if poll(room, Some(&LAST_WORDS_PATIENCE)) == Ok(0) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// True while the terminal shows the alternate screen: it may be given back at any moment, by a panic too.
static IN_ALTERNATE: AtomicBool = AtomicBool::new(false);

/// Takes note of the screen the terminal shows, before it is told to show that one.
pub(crate) fn set_active_screen(active: ActiveScreen) {
    IN_ALTERNATE.store(active == ActiveScreen::Alternate, Ordering::Relaxed);
}

/// What the terminal was before we changed it; here so that a panic can put it back.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Raw mode for as long as this lives, and on panic too.
pub(crate) struct Raw;

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
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

impl Drop for Raw {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(before) = before {
        let in_alternate = IN_ALTERNATE.swap(false, Ordering::Relaxed);
        let active = if in_alternate { ActiveScreen::Alternate } else { ActiveScreen::Primary };
        last_words(&berth_screen::leave(active));
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}
