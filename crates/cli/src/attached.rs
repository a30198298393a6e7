//! Being attached: the person's terminal on one side, the keeper on the other.
//!
//! Promise: the writer's bytes pass through untouched, both ways; the terminal is given back as it was, whatever ends
//! this; leaving, also by a signal or a lost connection, changes nothing for the session.
//! Not here: what an observer sees (`display`), what scrolled away before (`scrollback`).
//! Start with [`attach`].

mod display;
mod scrollback;

use std::io;
use std::os::fd::AsFd;

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request, Role, Size};
use berth_api::record::{Event, Interface};
use berth_api::{Code, Connection, Problem, problem};
use berth_core::{Refusal, SessionId};
use berth_host::signals::SignalFd;
use berth_verbs::config::CtrlKey;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use crate::cmd::wait;
use crate::config::Config;
use crate::ctx::{ANSWER_PATIENCE, Ctx};
use crate::leave_key::LeaveKey;
use crate::{print, tty};
use display::{Display, ObserverView, Watching};

/// How much of a description of another party is shown.
const MOST_NAME_CHARS: usize = 200;
/// How many lines that scrolled away are printed unless told otherwise.
pub(crate) const LINES: usize = 2000;

/// How somebody wants to be attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) role: Role,
    pub(crate) leave_key: CtrlKey,
    /// The most lines that are printed of what scrolled away before.
    pub(crate) lines: usize,
}

impl Wish {
    /// With the leave key of the command line, else of the config file.
    pub(crate) fn new(role: Role, leave_key: Option<CtrlKey>) -> Self {
        let leave_key = leave_key.unwrap_or_else(|| Config::load_or_default().ui.leave_key);
        Self { role, leave_key, lines: LINES }
    }
}

/// Why we stopped being attached.
enum Left {
    Detached,
    Ended,
    Signalled(i32),
    /// Somebody wants us to stand still for a while.
    Suspended,
    Dropped,
    Refused(Problem),
}

/// How it came to an end.
pub(crate) struct Visit {
    /// As a shell wants it.
    pub(crate) exit: Result<u8, Problem>,
    /// What there is to say about it, if anything.
    pub(crate) note: Option<String>,
}

/// Attaches until the person leaves, the run ends, or the terminal goes away, and says which.
pub(crate) fn attach(
    ctx: &Ctx,
    id: &SessionId,
    connection: Option<Connection>,
    wish: Wish,
) -> Result<u8, Problem> {
    let Visit { exit, note } = visit(ctx, id, connection, wish)?;
    if let Some(note) = note {
        print::note(&format!("[{note}]"));
    }
    exit
}

/// Attaches for a caller that has another place to say how it ended.
pub(crate) fn visit(
    ctx: &Ctx,
    id: &SessionId,
    connection: Option<Connection>,
    wish: Wish,
) -> Result<Visit, Problem> {
    // Whoever started the keeper is the parent of its notifiers, and stays for as long as the run.
    berth_host::signals::let_children_go();
    let status = berth_store::view::status(&ctx.home, id);
    let handle = status.as_ref().map_or_else(|_| id.to_string(), |status| status.handle().to_owned());
    let output_from = status.as_ref().map_or(0, |status| status.output_from);
    let just_started = connection.is_some();
    let mut keeper = match connection {
        Some(connection) => connection,
        None => ctx.keeper_of(id)?.ok_or_else(|| problem::refusal(&Refusal::NotRunning, &handle))?,
    };
    let attached = match request(&mut keeper, wish.role) {
        Ok(attached) => attached,
        // The command was over before we could look: say what it said.
        Err(problem) if problem.code == Code::Unreachable && ctx.is_gone(id) => {
            return too_late(ctx, id, &handle);
        }
        Err(_) if just_started && ctx.status(id).is_ok_and(|status| print::ending(&status).is_some()) => {
            return too_late(ctx, id, &handle);
        }
        Err(problem) => return Err(problem),
    };
    ctx.make_current(id);
    // Read before the terminal changes: what is in the way of it is no reason not to be attached.
    let scrolled_away = if attached.fence.is_some() && !attached.alternate && wish.lines > 0 {
        let wanted = scrollback::Wanted {
            output: &ctx.home.session(id).output(),
            from: output_from,
            end: attached.output_end,
            size: attached.size,
            lines: wish.lines,
        };
        scrollback::before(&wanted).unwrap_or_default()
    } else {
        Vec::new()
    };
    // In front of a terminal in raw mode no key sends one of these; somebody else may.
    let wanted = [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::TSTP];
    let wanted = wanted.map(Signal::as_raw);
    let signals = SignalFd::new(&wanted).map_err(|error| trouble("listen to signals", &error))?;
    let mut raw = tty::Raw::enter().map_err(|error| trouble("prepare the terminal", &error))?;
    let mut attachment = Attachment {
        keeper,
        fence: attached.fence,
        signals,
        display: Display::default(),
        handle: handle.clone(),
        leave_key: wish.leave_key,
    };
    let mut begun = attachment.begin(&attached, &scrolled_away);
    let left = loop {
        if let Err(left) = begun {
            break left;
        }
        match attachment.pump() {
            Left::Dropped if ctx.is_kept(id) => {}
            Left::Suspended => {
                drop(raw);
                // The signal itself was taken from the kernel by reading it; this one cannot be.
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                raw = tty::Raw::enter().map_err(|error| trouble("prepare the terminal", &error))?;
                begun = attachment.begin_again();
                // The screen as it is by now.
                match attachment.ask_again() {
                    Err(problem) if problem.code != Code::Unreachable => break Left::Refused(problem),
                    Ok(()) | Err(_) => continue,
                }
            }
            left => break left,
        }
        // The keeper replaced its own program: same session, new connection. Whoever was replaced
        // as writer stays an observer.
        match ctx.keeper_of(id) {
            Ok(Some(new)) => attachment.keeper = new,
            Ok(None) => break Left::Dropped,
            Err(problem) => break Left::Refused(problem),
        }
        match attachment.ask_again() {
            Ok(()) => {}
            Err(_) if ctx.is_gone(id) => break Left::Dropped,
            Err(problem) => break Left::Refused(problem),
        }
    };
    tty::last_words(&attachment.display.last_words(matches!(left, Left::Ended)));
    drop(raw);
    match left {
        Left::Detached => {
            let back = crate::ui::as_typed(&format!("attach {handle}"));
            let note = format!("detached from {handle}; come back with `{back}`");
            Ok(Visit { exit: Ok(0), note: Some(note) })
        }
        Left::Signalled(signal) => {
            Ok(Visit { exit: Ok(u8::try_from(128 + signal).unwrap_or(255)), note: None })
        }
        Left::Refused(problem) => Err(problem),
        Left::Ended | Left::Dropped | Left::Suspended => ended(ctx, id, &handle),
    }
}

/// The run was over before we could attach.
fn too_late(ctx: &Ctx, id: &SessionId, handle: &str) -> Result<Visit, Problem> {
    let streamed = crate::cmd::output::stream_to_end(ctx, id);
    streamed.and_then(|_| ended(ctx, id, handle))
}

fn ended(ctx: &Ctx, id: &SessionId, handle: &str) -> Result<Visit, Problem> {
    let status = ctx.status(id)?;
    if status.interface == Some(Interface::Chat) && !status.is_over() {
        let back = crate::ui::as_typed(&format!("attach {handle}"));
        let note = format!("{handle} goes on as a chat; join it with `{back}`");
        return Ok(Visit { exit: Ok(0), note: Some(note) });
    }
    let note = format!("{handle} ended: {}", print::ending(&status).unwrap_or_default());
    Ok(Visit { exit: wait::exit_code(&status), note: Some(note) })
}

/// What a keeper answered to who attached.
struct Attached {
    fence: Option<u64>,
    size: Size,
    alternate: bool,
    output_end: u64,
}

fn request(keeper: &mut Connection, role: Role) -> Result<Attached, Problem> {
    let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
    let answer = keeper.ask(Request::Attach { role, size: tty::size().unwrap_or_default() });
    let _ = keeper.set_patience(None);
    match answer? {
        Answer::Attached { fence, size, alternate, output_end } => {
            Ok(Attached { fence, size, alternate, output_end })
        }
        other => Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}"))),
    }
}

/// A terminal and a keeper, while they are connected.
struct Attachment {
    keeper: Connection,
    /// The right to type; an observer has none.
    fence: Option<u64>,
    signals: SignalFd,
    display: Display,
    handle: String,
    leave_key: CtrlKey,
}

impl Attachment {
    /// Makes room on the terminal. What was on it moves up into the scrollback instead of being painted over, and
    /// behind it comes what scrolled away in the session.
    fn begin(&mut self, attached: &Attached, scrolled_away: &[u8]) -> Result<(), Left> {
        if self.fence.is_none() {
            return self.watch(attached.size, Watching::Asked);
        }
        let rows = usize::from(tty::size().unwrap_or_default().rows);
        // The line behind the last one that scrolled away becomes the first of the screen.
        let room = if scrolled_away.is_empty() { rows } else { rows - 1 };
        self.show(scrolled_away)?;
        self.show(&vec![b'\n'; room])
    }

    /// Takes the terminal again that was given back in between.
    fn begin_again(&mut self) -> Result<(), Left> {
        self.display.resize_terminal(tty::size().unwrap_or_default());
        let enter = self.display.enter();
        self.show(enter)
    }

    /// Attaches once more, in the same role.
    fn ask_again(&mut self) -> Result<(), Problem> {
        let role = if self.fence.is_some() { Role::Writer } else { Role::Observer };
        let attached = request(&mut self.keeper, role)?;
        self.fence = attached.fence;
        self.display.resize_session(attached.size);
        Ok(())
    }

    /// Only watches from now on.
    fn watch(&mut self, session: Size, why: Watching) -> Result<(), Left> {
        self.fence = None;
        let view = ObserverView::new(session, &self.handle, self.leave_key, why);
        self.display = Display::View(Box::new(view));
        let enter = self.display.enter();
        self.show(enter)
    }

    /// Passes bytes both ways until something ends that.
    fn pump(&mut self) -> Left {
        let mut keys = [0; 4096];
        let mut leave_key = LeaveKey::new(self.leave_key);
        // The keeper takes no more keys until the agent reads: then we read none either, instead of
        // standing still in a write where no signal reaches us.
        let mut full = false;
        loop {
            if !self.keeper.has_more()
                && let Err(left) = self.draw()
            {
                return left;
            }
            // What arrived together with an answer is here already; the socket will not tell.
            let waiting = self.keeper.has_more();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let (typed, told, signalled) = {
                let keys_wanted = if full { PollFlags::empty() } else { PollFlags::IN };
                let room_wanted = if full { PollFlags::OUT } else { PollFlags::empty() };
                let mut fds = [
                    PollFd::from_borrowed_fd(stdin(), keys_wanted),
                    PollFd::from_borrowed_fd(self.keeper.as_fd(), PollFlags::IN | room_wanted),
                    PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                ];
                match poll(&mut fds, waiting.then_some(&at_once)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return Left::Dropped,
                }
                full &= !fds[1].revents().contains(PollFlags::OUT);
                let ready = |at: usize| fds[at].revents().intersects(!PollFlags::OUT);
                (ready(0), ready(1) || waiting, ready(2))
            };
            if signalled && let Err(left) = self.heed() {
                return left;
            }
            if told && let Err(left) = self.hear() {
                return left;
            }
            if typed && !has_room(&self.keeper) {
                full = true;
            } else if typed {
                match rustix::io::read(stdin(), &mut keys) {
                    // The terminal is gone.
                    Ok(0) | Err(rustix::io::Errno::IO) => return Left::Signalled(Signal::HUP.as_raw()),
                    Ok(count) => {
                        if let Some(left) = self.say(&keys[..count], &mut leave_key) {
                            return left;
                        }
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Takes in everything that has arrived.
    fn hear(&mut self) -> Result<(), Left> {
        loop {
            match self.keeper.next() {
                Ok(None) | Err(_) => return Err(Left::Dropped),
                Ok(Some(Arrival::Output(bytes) | Arrival::Screen(bytes))) => {
                    let direct = self.display.take(&bytes);
                    self.show(direct)?;
                }
                Ok(Some(Arrival::Notice(Notice::Event { entry, .. }))) => {
                    if let Event::RunEnded { .. } = entry.event {
                        return Err(Left::Ended);
                    }
                }
                Ok(Some(Arrival::Notice(Notice::Replaced { by, size }))) => {
                    let by = print::excerpt(&by, MOST_NAME_CHARS);
                    let leave = self.display.leave();
                    self.show(&leave)?;
                    self.watch(size, Watching::TakenOver(by))?;
                    self.show(b"\x07")?;
                }
                Ok(Some(Arrival::Notice(Notice::Resized { size }))) => self.display.resize_session(size),
                Ok(Some(
                    Arrival::Notice(Notice::Output { .. } | Notice::Said { .. } | Notice::Doing { .. })
                    | Arrival::Answer(_),
                )) => {}
            }
            if !self.keeper.has_more() {
                return Ok(());
            }
        }
    }

    /// Does what a signal asks for, if one has come.
    fn heed(&mut self) -> Result<(), Left> {
        match self.signals.read() {
            Ok(Some(signal)) if signal == Signal::WINCH.as_raw() => {
                let size = tty::size().unwrap_or_default();
                self.display.resize_terminal(size);
                self.keeper.send(Request::Resize { size }).map_err(|_| Left::Dropped)
            }
            Ok(Some(signal)) if signal == Signal::TSTP.as_raw() => Err(Left::Suspended),
            Ok(Some(signal)) => Err(Left::Signalled(signal)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Sends keys on, and notices the one that means "leave".
    fn say(&mut self, keys: &[u8], leave_key: &mut LeaveKey) -> Option<Left> {
        let leave = leave_key.find(keys, self.fence.is_none());
        let before = &keys[..leave.unwrap_or(keys.len())];
        match self.fence {
            Some(fence) if !before.is_empty() => {
                if self.keeper.type_keys(fence, before).is_err() {
                    return Some(Left::Dropped);
                }
            }
            // A bell that a full terminal does not take is no loss.
            None if !before.is_empty() => drop(rustix::io::write(tty::output(), b"\x07")),
            Some(_) | None => {}
        }
        leave.map(|_| Left::Detached)
    }

    /// Writes to the terminal. One that takes nothing, because somebody stopped it with Ctrl-S, must not
    /// keep signals from us.
    fn show(&mut self, mut bytes: &[u8]) -> Result<(), Left> {
        while !bytes.is_empty() {
            match rustix::io::write(tty::output(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::from_borrowed_fd(tty::output(), PollFlags::OUT),
                        PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                    ];
                    match poll(&mut fds, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => self.heed()?,
                        Err(_) => return Err(Left::Dropped),
                    }
                }
                // The terminal is gone; connecting again would not bring it back.
                Err(_) => return Err(Left::Signalled(Signal::HUP.as_raw())),
            }
        }
        Ok(())
    }

    /// Brings an observer's picture up to date.
    fn draw(&mut self) -> Result<(), Left> {
        let picture = self.display.picture();
        self.show(&picture)
    }
}

/// Whether the keeper's socket takes a read's worth of keys at once.
fn has_room(keeper: &Connection) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Ready, or broken: then writing says so.
    poll(&mut [PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::OUT)], Some(&at_once)) != Ok(0)
}

fn trouble(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot {what}: {error}"))
}
