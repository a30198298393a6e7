//! `berth attach`: connects the user's terminal to the keeper of a session.
//!
//! Promise: the writer's bytes pass through untouched, both ways. The terminal is restored however the connection ends.
//! Detaching, also by a signal or a lost connection, changes nothing for the session.
//! Not here: an observer's view (`display`), lines that scrolled away earlier (`scrollback`).
//! Start with [`attach`].

mod display;
mod scrollback;

use std::io;
use std::os::fd::AsFd;

use berth_api::client::KeeperMessage;
use berth_api::message::{AttachMode, KeeperAnswer, KeeperNotice, KeeperRequest, WindowSize};
use berth_api::record::{AgentInterface, Event};
use berth_api::{KeeperConnection, Problem, ProblemCode, problem};
use berth_config::config::CtrlKey;
use berth_core::{Refusal, SessionId};
use berth_host::signals::SignalFd;
use berth_verbs::VerbContext;
use berth_verbs::context::ANSWER_PATIENCE;
use berth_verbs::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use crate::config::Config;
use crate::current_session::set_current_session;
use crate::leave_key::LeaveKeyDetector;
use crate::{print, tty};
use display::{AttachDisplay, ObserveReason, ObserverView};

/// How much of the description of another client is shown.
const MOST_NAME_CHARS: usize = 200;
/// How many lines of scrollback are printed by default.
pub const LINES: usize = 2000;

/// How a user attaches.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// True if the keys of this terminal go to the session.
    pub role: AttachMode,
    /// The key that leaves the session.
    pub leave_key: CtrlKey,
    /// The most lines of scrollback that are printed first.
    pub lines: usize,
}

impl AttachOptions {
    /// With the leave key of the command line, else of the config file.
    pub fn new(role: AttachMode, leave_key: Option<CtrlKey>) -> Self {
        let leave_key = leave_key.unwrap_or_else(|| Config::load_or_default().ui.leave_key);
        Self { role, leave_key, lines: LINES }
    }
}

/// Why the connection ended.
enum DetachReason {
    Detached,
    Ended,
    Signalled(i32),
    /// A signal asks this process to suspend itself.
    Suspended,
    Dropped,
    Refused(Problem),
}

/// The result of being attached.
pub struct AttachOutcome {
    /// The exit code for a shell, or a problem.
    pub exit: Result<u8, Problem>,
    /// A remark for the user, if there is one.
    pub note: Option<String>,
}

/// Attaches until the user detaches, the run ends, or the terminal goes away; prints which.
pub fn attach(
    ctx: &VerbContext,
    id: &SessionId,
    connection: Option<KeeperConnection>,
    options: AttachOptions,
) -> Result<u8, Problem> {
    let AttachOutcome { exit, note } = attach_quietly(ctx, id, connection, options)?;
    if let Some(note) = note {
        print::note(&format!("[{note}]"));
    }
    exit
}

/// Attaches, and leaves the printing of the result to the caller.
pub fn attach_quietly(
    ctx: &VerbContext,
    id: &SessionId,
    connection: Option<KeeperConnection>,
    options: AttachOptions,
) -> Result<AttachOutcome, Problem> {
    // A process that starts a keeper is the parent of its notifiers, and here it stays for as long as the run: the
    // kernel must reap them.
    berth_host::signals::ignore_child_exits();
    let status = berth_store::session_status::status(&ctx.home, id);
    let handle = status.as_ref().map_or_else(|_| id.to_string(), |status| status.handle().to_owned());
    let output_from = status.as_ref().map_or(0, |status| status.output_from);
    let just_started = connection.is_some();
    let mut keeper = match connection {
        Some(connection) => connection,
        None => ctx.keeper_of(id)?.ok_or_else(|| problem::refusal(&Refusal::NotRunning, &handle))?,
    };
    let attached = match request(&mut keeper, options.role) {
        Ok(attached) => attached,
        // The command was over before we could attach: print its output.
        Err(problem) if problem.code == ProblemCode::Unreachable && ctx.is_gone(id) => {
            return already_ended(ctx, id, &handle);
        }
        Err(_)
            if just_started && ctx.status(id).is_ok_and(|status| print::exit_summary(&status).is_some()) =>
        {
            return already_ended(ctx, id, &handle);
        }
        Err(problem) => return Err(problem),
    };
    set_current_session(&ctx.home, id);
    // Read before the terminal changes. A failure is not a reason to refuse to attach.
    let scrolled_away = if attached.fence.is_some() && !attached.alternate && options.lines > 0 {
        let wanted = scrollback::ScrollbackRequest {
            output: &ctx.home.session(id).output(),
            from: output_from,
            end: attached.output_end,
            size: attached.size,
            lines: options.lines,
        };
        scrollback::before(&wanted).unwrap_or_default()
    } else {
        Vec::new()
    };
    // A terminal in raw mode turns no key into one of these; another process may send them.
    let wanted = [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::TSTP];
    let wanted = wanted.map(Signal::as_raw);
    let signals = SignalFd::new(&wanted).map_err(|error| io_problem("listen to signals", &error))?;
    let mut raw = tty::RawMode::enter().map_err(|error| io_problem("prepare the terminal", &error))?;
    let mut attachment = TerminalAttachment {
        keeper,
        fence: attached.fence,
        signals,
        display: AttachDisplay::default(),
        handle: handle.clone(),
        leave_key: options.leave_key,
    };
    let mut begun = attachment.begin(&attached, &scrolled_away);
    let left = loop {
        if let Err(left) = begun {
            break left;
        }
        match attachment.relay() {
            DetachReason::Dropped if ctx.is_kept(id) => {}
            DetachReason::Suspended => {
                drop(raw);
                // This process has read the first signal, so the kernel no longer acts on
                // it; `SIGSTOP` cannot be caught.
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                raw = tty::RawMode::enter().map_err(|error| io_problem("prepare the terminal", &error))?;
                begun = attachment.begin_again();
                // The screen as it is by now.
                match attachment.ask_again() {
                    Err(problem) if problem.code != ProblemCode::Unreachable => {
                        break DetachReason::Refused(problem);
                    }
                    Ok(()) | Err(_) => continue,
                }
            }
            left => break left,
        }
        // The keeper replaced its own program: same session, new connection. A writer that was replaced by another
        // client stays an observer.
        match ctx.keeper_of(id) {
            Ok(Some(new)) => attachment.keeper = new,
            Ok(None) => break DetachReason::Dropped,
            Err(problem) => break DetachReason::Refused(problem),
        }
        match attachment.ask_again() {
            Ok(()) => {}
            Err(_) if ctx.is_gone(id) => break DetachReason::Dropped,
            Err(problem) => break DetachReason::Refused(problem),
        }
    };
    tty::write_before_exit(&attachment.display.last_words(matches!(left, DetachReason::Ended)));
    drop(raw);
    match left {
        DetachReason::Detached => {
            let back = crate::ui::command_to_type(&format!("attach {handle}"));
            let note = format!("detached from {handle}; come back with `{back}`");
            Ok(AttachOutcome { exit: Ok(0), note: Some(note) })
        }
        DetachReason::Signalled(signal) => {
            Ok(AttachOutcome { exit: Ok(u8::try_from(128 + signal).unwrap_or(255)), note: None })
        }
        DetachReason::Refused(problem) => Err(problem),
        DetachReason::Ended | DetachReason::Dropped | DetachReason::Suspended => ended(ctx, id, &handle),
    }
}

/// Reports a run that was over before we could attach.
fn already_ended(ctx: &VerbContext, id: &SessionId, handle: &str) -> Result<AttachOutcome, Problem> {
    let streamed = crate::output_stream::stream_to_end(ctx, id);
    streamed.and_then(|_| ended(ctx, id, handle))
}

fn ended(ctx: &VerbContext, id: &SessionId, handle: &str) -> Result<AttachOutcome, Problem> {
    let status = ctx.status(id)?;
    if status.interface == Some(AgentInterface::Chat) && !status.is_over() {
        let back = crate::ui::command_to_type(&format!("attach {handle}"));
        let note = format!("{handle} goes on as a chat; join it with `{back}`");
        return Ok(AttachOutcome { exit: Ok(0), note: Some(note) });
    }
    let note = format!("{handle} ended: {}", print::exit_summary(&status).unwrap_or_default());
    Ok(AttachOutcome { exit: wait::exit_code(&status), note: Some(note) })
}

/// The keeper's answer to an attach request.
struct AttachReply {
    fence: Option<u64>,
    size: WindowSize,
    alternate: bool,
    output_end: u64,
}

fn request(keeper: &mut KeeperConnection, role: AttachMode) -> Result<AttachReply, Problem> {
    let _ = keeper.set_timeout(Some(ANSWER_PATIENCE));
    let answer = keeper.ask(KeeperRequest::Attach { role, size: tty::terminal_size().unwrap_or_default() });
    let _ = keeper.set_timeout(None);
    match answer? {
        KeeperAnswer::Attached { fence, size, alternate, output_end } => {
            Ok(AttachReply { fence, size, alternate, output_end })
        }
        other => Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}"))),
    }
}

/// A terminal and a keeper, while they are connected.
struct TerminalAttachment {
    keeper: KeeperConnection,
    /// The right to type; an observer has none.
    fence: Option<u64>,
    signals: SignalFd,
    display: AttachDisplay,
    handle: String,
    leave_key: CtrlKey,
}

impl TerminalAttachment {
    /// Makes room on the terminal. Its present lines move up into the scrollback instead of being overwritten, and the
    /// lines that scrolled away in the session come behind them.
    fn begin(&mut self, attached: &AttachReply, scrolled_away: &[u8]) -> Result<(), DetachReason> {
        if self.fence.is_none() {
            return self.watch(attached.size, ObserveReason::Asked);
        }
        let rows = usize::from(tty::terminal_size().unwrap_or_default().rows);
        // The line behind the last one that scrolled away becomes the first of the screen.
        let room = if scrolled_away.is_empty() { rows } else { rows - 1 };
        self.show(scrolled_away)?;
        self.show(&vec![b'\n'; room])
    }

    /// Takes the terminal again after it was given back.
    fn begin_again(&mut self) -> Result<(), DetachReason> {
        self.display.resize_terminal(tty::terminal_size().unwrap_or_default());
        let enter = self.display.enter();
        self.show(enter)
    }

    /// Attaches again in the same role.
    fn ask_again(&mut self) -> Result<(), Problem> {
        let role = if self.fence.is_some() { AttachMode::Writer } else { AttachMode::Observer };
        let attached = request(&mut self.keeper, role)?;
        self.fence = attached.fence;
        self.display.resize_session(attached.size);
        Ok(())
    }

    /// Becomes an observer.
    fn watch(&mut self, session: WindowSize, why: ObserveReason) -> Result<(), DetachReason> {
        self.fence = None;
        let view = ObserverView::new(session, &self.handle, self.leave_key, why);
        self.display = AttachDisplay::View(Box::new(view));
        let enter = self.display.enter();
        self.show(enter)
    }

    /// Passes bytes both ways until something ends that.
    fn relay(&mut self) -> DetachReason {
        let mut keys = [0; 4096];
        let mut leave_key = LeaveKeyDetector::new(self.leave_key);
        // The keeper takes no more keys until the agent reads: then we read none either, instead of
        // standing still in a write where no signal reaches us.
        let mut full = false;
        loop {
            if !self.keeper.has_more()
                && let Err(left) = self.draw()
            {
                return left;
            }
            // Bytes that came together with an answer are already in our buffer, so the
            // socket is not readable for them.
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
                    Err(_) => return DetachReason::Dropped,
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
                    Ok(0) | Err(rustix::io::Errno::IO) => {
                        return DetachReason::Signalled(Signal::HUP.as_raw());
                    }
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

    /// Handles everything that has arrived from the keeper.
    fn hear(&mut self) -> Result<(), DetachReason> {
        loop {
            match self.keeper.next() {
                Ok(None) | Err(_) => return Err(DetachReason::Dropped),
                Ok(Some(KeeperMessage::Output(bytes) | KeeperMessage::Screen(bytes))) => {
                    let direct = self.display.take(&bytes);
                    self.show(direct)?;
                }
                Ok(Some(KeeperMessage::Notice(KeeperNotice::Event { entry, .. }))) => {
                    if let Event::RunEnded { .. } = entry.event {
                        return Err(DetachReason::Ended);
                    }
                }
                Ok(Some(KeeperMessage::Notice(KeeperNotice::Replaced { by, size }))) => {
                    let by = print::first_words(&by, MOST_NAME_CHARS);
                    let leave = self.display.leave();
                    self.show(&leave)?;
                    self.watch(size, ObserveReason::TakenOver(by))?;
                    self.show(b"\x07")?;
                }
                Ok(Some(KeeperMessage::Notice(KeeperNotice::Resized { size }))) => {
                    self.display.resize_session(size)
                }
                Ok(Some(
                    KeeperMessage::Notice(
                        KeeperNotice::Output { .. } | KeeperNotice::Said { .. } | KeeperNotice::Doing { .. },
                    )
                    | KeeperMessage::Answer(_),
                )) => {}
            }
            if !self.keeper.has_more() {
                return Ok(());
            }
        }
    }

    /// Handles a signal, if one has come.
    fn heed(&mut self) -> Result<(), DetachReason> {
        match self.signals.read() {
            Ok(Some(signal)) if signal == Signal::WINCH.as_raw() => {
                let size = tty::terminal_size().unwrap_or_default();
                self.display.resize_terminal(size);
                self.keeper.send(KeeperRequest::Resize { size }).map_err(|_| DetachReason::Dropped)
            }
            Ok(Some(signal)) if signal == Signal::TSTP.as_raw() => Err(DetachReason::Suspended),
            Ok(Some(signal)) => Err(DetachReason::Signalled(signal)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Sends keys to the keeper, and detects the leave key.
    fn say(&mut self, keys: &[u8], leave_key: &mut LeaveKeyDetector) -> Option<DetachReason> {
        let leave = leave_key.find(keys, self.fence.is_none());
        let before = &keys[..leave.unwrap_or(keys.len())];
        match self.fence {
            Some(fence) if !before.is_empty() => {
                if self.keeper.type_keys(fence, before).is_err() {
                    return Some(DetachReason::Dropped);
                }
            }
            // A bell that a full terminal does not take is no loss.
            None if !before.is_empty() => drop(rustix::io::write(tty::terminal_output(), b"\x07")),
            Some(_) | None => {}
        }
        leave.map(|_| DetachReason::Detached)
    }

    /// Writes to the terminal. A terminal that was stopped with Ctrl-S takes nothing, and
    /// must not keep signals from us.
    fn show(&mut self, mut bytes: &[u8]) -> Result<(), DetachReason> {
        while !bytes.is_empty() {
            match rustix::io::write(tty::terminal_output(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::from_borrowed_fd(tty::terminal_output(), PollFlags::OUT),
                        PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                    ];
                    match poll(&mut fds, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => self.heed()?,
                        Err(_) => return Err(DetachReason::Dropped),
                    }
                }
                // The terminal is gone; connecting again would not bring it back.
                Err(_) => return Err(DetachReason::Signalled(Signal::HUP.as_raw())),
            }
        }
        Ok(())
    }

    /// Redraws an observer's view.
    fn draw(&mut self) -> Result<(), DetachReason> {
        let picture = self.display.picture();
        self.show(&picture)
    }
}

/// True if the keeper's socket can take one read of keys at once.
fn has_room(keeper: &KeeperConnection) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A broken socket is ready as well: the write will report it.
    poll(&mut [PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::OUT)], Some(&at_once)) != Ok(0)
}

fn io_problem(what: &str, error: &io::Error) -> Problem {
    Problem::refused(format!("cannot {what}: {error}"))
}
