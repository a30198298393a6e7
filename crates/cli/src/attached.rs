//! Being attached: the person's terminal on one side, the keeper on the other.
//!
//! Promise: bytes pass through untouched; the terminal is given back as it was, whatever ends
//! this; leaving, also by a signal or a lost connection, changes nothing for the session.

use std::io;
use std::os::fd::AsFd;

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request, Role};
use berth_api::record::{Event, Interface};
use berth_api::{Code, Connection, Problem, problem};
use berth_core::{Refusal, SessionId};
use berth_host::signals::SignalFd;
use berth_verbs::stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use crate::cmd::wait;
use crate::ctx::{ANSWER_PATIENCE, Ctx};
use crate::leave_key::LeaveKey;
use crate::{print, tty};

/// How much of a name the title has room for.
const MOST_TITLE_CHARS: usize = 200;

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
    role: Role,
) -> Result<u8, Problem> {
    let Visit { exit, note } = visit(ctx, id, connection, role)?;
    if let Some(note) = note {
        print::note(&format!("[{note}]"));
    }
    exit
}

/// The same for somebody who has another place to say how it ended.
pub(crate) fn visit(
    ctx: &Ctx,
    id: &SessionId,
    connection: Option<Connection>,
    role: Role,
) -> Result<Visit, Problem> {
    // Whoever started the keeper is the parent of its notifiers, and stays for as long as the run.
    berth_host::signals::let_children_go();
    let handle = handle(ctx, id);
    let just_started = connection.is_some();
    let mut keeper = match connection {
        Some(connection) => connection,
        None => ctx.keeper_of(id)?.ok_or_else(|| problem::refusal(&Refusal::NotRunning, &handle))?,
    };
    let mut fence = match request(&mut keeper, role) {
        Ok(fence) => fence,
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
    // In front of a terminal in raw mode no key sends one of these; somebody else may.
    let wanted = [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::TSTP];
    let wanted = wanted.map(Signal::as_raw);
    let signals = SignalFd::new(&wanted).map_err(|error| trouble("listen to signals", &error))?;
    let mut raw = tty::Raw::enter().map_err(|error| trouble("prepare the terminal", &error))?;
    // What was on the person's screen moves up into the scrollback instead of being painted over.
    let rows = tty::size().unwrap_or_default().rows;
    let room = show(&mut keeper, &signals, &vec![b'\n'; usize::from(rows)]);
    let left = loop {
        if let Err(left) = room {
            break left;
        }
        match pump(&mut keeper, &mut fence, &signals) {
            Left::Dropped if ctx.is_kept(id) => {}
            Left::Suspended => {
                drop(raw);
                // The signal itself was taken from the kernel by reading it; this one cannot be.
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                raw = tty::Raw::enter().map_err(|error| trouble("prepare the terminal", &error))?;
                // The screen as it is by now.
                let again = if fence.is_some() { Role::Writer } else { Role::Observer };
                match request(&mut keeper, again) {
                    Ok(new_fence) => fence = new_fence,
                    Err(problem) if problem.code == Code::Unreachable => {}
                    Err(problem) => break Left::Refused(problem),
                }
                continue;
            }
            left => break left,
        }
        // The keeper replaced its own program: same session, new connection. Whoever was replaced
        // as writer stays an observer.
        let again = if fence.is_some() { Role::Writer } else { Role::Observer };
        match ctx.keeper_of(id) {
            Ok(Some(new)) => keeper = new,
            Ok(None) => break Left::Dropped,
            Err(problem) => break Left::Refused(problem),
        }
        match request(&mut keeper, again) {
            Ok(new_fence) => fence = new_fence,
            Err(_) if ctx.is_gone(id) => break Left::Dropped,
            Err(problem) => break Left::Refused(problem),
        }
    };
    // An application that goes on may have drawn below its cursor; one that is over has not.
    tty::last_words(if matches!(left, Left::Ended) { b"\r\n" } else { b"\x1b[999B\r\n" });
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
    if status.interface == Some(Interface::Chat) && !stop::is_over(&status) {
        let back = crate::ui::as_typed(&format!("attach {handle}"));
        let note = format!("{handle} goes on as a chat; join it with `{back}`");
        return Ok(Visit { exit: Ok(0), note: Some(note) });
    }
    let note = format!("{handle} ended: {}", print::ending(&status).unwrap_or_default());
    Ok(Visit { exit: wait::exit_code(&status), note: Some(note) })
}

fn request(keeper: &mut Connection, role: Role) -> Result<Option<u64>, Problem> {
    let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
    let answer = keeper.ask(Request::Attach { role, size: tty::size().unwrap_or_default() });
    let _ = keeper.set_patience(None);
    match answer? {
        Answer::Attached { fence } => Ok(fence),
        other => Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}"))),
    }
}

/// Passes bytes both ways until something ends that.
fn pump(keeper: &mut Connection, fence: &mut Option<u64>, signals: &SignalFd) -> Left {
    let mut keys = [0; 4096];
    let mut leave_key = LeaveKey::default();
    // The keeper takes no more keys until the agent reads: then we read none either, instead of
    // standing still in a write where no signal reaches us.
    let mut full = false;
    loop {
        // What arrived together with an answer is here already; the socket will not tell.
        let waiting = keeper.has_more();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (typed, told, signalled) = {
            let keys_wanted = if full { PollFlags::empty() } else { PollFlags::IN };
            let room_wanted = if full { PollFlags::OUT } else { PollFlags::empty() };
            let mut fds = [
                PollFd::from_borrowed_fd(stdin(), keys_wanted),
                PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::IN | room_wanted),
                PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, waiting.then_some(&at_once)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Left::Dropped,
            }
            full &= !fds[1].revents().contains(PollFlags::OUT);
            let ready = |at: usize| fds[at].revents().intersects(!PollFlags::OUT);
            (ready(0), ready(1) || waiting, ready(2))
        };
        if signalled && let Err(left) = heed(keeper, signals) {
            return left;
        }
        if told && let Err(left) = hear(keeper, fence, signals) {
            return left;
        }
        if typed && !has_room(keeper) {
            full = true;
        } else if typed {
            match rustix::io::read(stdin(), &mut keys) {
                // The terminal is gone.
                Ok(0) | Err(rustix::io::Errno::IO) => return Left::Signalled(Signal::HUP.as_raw()),
                Ok(count) => {
                    if let Some(left) = say(keeper, *fence, &keys[..count], &mut leave_key) {
                        return left;
                    }
                }
                Err(_) => {}
            }
        }
    }
}

/// Takes in everything that has arrived.
fn hear(keeper: &mut Connection, fence: &mut Option<u64>, signals: &SignalFd) -> Result<(), Left> {
    loop {
        match keeper.next() {
            Ok(None) | Err(_) => return Err(Left::Dropped),
            Ok(Some(Arrival::Output(bytes) | Arrival::Screen(bytes))) => show(keeper, signals, &bytes)?,
            Ok(Some(Arrival::Notice(Notice::Event { entry, .. }))) => {
                if let Event::RunEnded { .. } = entry.event {
                    return Err(Left::Ended);
                }
            }
            Ok(Some(Arrival::Notice(Notice::Replaced { by }))) => {
                *fence = None;
                // The screen belongs to the application; the title and the bell do not.
                let by = print::excerpt(&by, MOST_TITLE_CHARS);
                let title = format!("\x07\x1b]2;berth: observing, taken over by {by}\x1b\\");
                show(keeper, signals, title.as_bytes())?;
            }
            Ok(Some(
                Arrival::Notice(Notice::Output { .. } | Notice::Said { .. } | Notice::Doing { .. })
                | Arrival::Answer(_),
            )) => {}
        }
        if !keeper.has_more() {
            return Ok(());
        }
    }
}

/// Does what a signal asks for, if one has come.
fn heed(keeper: &mut Connection, signals: &SignalFd) -> Result<(), Left> {
    match signals.read() {
        Ok(Some(signal)) if signal == Signal::WINCH.as_raw() => {
            let resize = Request::Resize { size: tty::size().unwrap_or_default() };
            keeper.send(resize).map_err(|_| Left::Dropped)
        }
        Ok(Some(signal)) if signal == Signal::TSTP.as_raw() => Err(Left::Suspended),
        Ok(Some(signal)) => Err(Left::Signalled(signal)),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Sends keys on, and notices the one that means "leave".
fn say(keeper: &mut Connection, fence: Option<u64>, keys: &[u8], leave_key: &mut LeaveKey) -> Option<Left> {
    let leave = leave_key.find(keys, fence.is_none());
    let before = &keys[..leave.unwrap_or(keys.len())];
    match fence {
        Some(fence) if !before.is_empty() => {
            if keeper.type_keys(fence, before).is_err() {
                return Some(Left::Dropped);
            }
        }
        // A bell that a full terminal does not take is no loss.
        None if !before.is_empty() => drop(rustix::io::write(tty::output(), b"\x07")),
        Some(_) | None => {}
    }
    leave.map(|_| Left::Detached)
}

/// Whether the keeper's socket takes a read's worth of keys at once.
fn has_room(keeper: &Connection) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Ready, or broken: then writing says so.
    poll(&mut [PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::OUT)], Some(&at_once)) != Ok(0)
}

/// Writes to the terminal. One that takes nothing, because somebody stopped it with Ctrl-S, must not
/// keep signals from us.
fn show(keeper: &mut Connection, signals: &SignalFd, mut bytes: &[u8]) -> Result<(), Left> {
    while !bytes.is_empty() {
        match rustix::io::write(tty::output(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut fds = [
                    PollFd::from_borrowed_fd(tty::output(), PollFlags::OUT),
                    PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
                ];
                match poll(&mut fds, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => heed(keeper, signals)?,
                    Err(_) => return Err(Left::Dropped),
                }
            }
            // The terminal is gone; connecting again would not bring it back.
            Err(_) => return Err(Left::Signalled(Signal::HUP.as_raw())),
        }
    }
    Ok(())
}

fn handle(ctx: &Ctx, id: &SessionId) -> String {
    berth_keeper::view::status(&ctx.home, id)
        .map_or_else(|_| id.to_string(), |status| status.handle().to_owned())
}

fn trouble(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot {what}: {error}"))
}
