//! Talking at a real terminal: the answer above, what is going on and what one writes below.
//!
//! Promise: the terminal never waits for the agent or its keeper; what is typed while the agent works is the next
//! message; no question is answered by a key that was pressed before one could read it; leaving, also by a signal or a
//! lost connection, changes nothing for the session, and the terminal is given back as it was.
//! Not here: what is told (`story`), editing (`editor`).
//! Start with [`Live::run`].

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request, Size};
use berth_api::turn::{Ask, AskKind};
use berth_api::{Code, Connection, Problem};
use berth_core::SessionId;
use berth_host::signals::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::cells::{self, Row};
use super::editor::{Did, Editor};
use super::errands::{Errand, Errands};
use super::foot::Foot;
use super::keys::{Key, Keys};
use super::story::Story;
use crate::ctx::Ctx;
use crate::{print, tty};

/// How long a question is on the screen before a key answers it: whoever is typing then types on.
const READING_TIME: Duration = Duration::from_millis(500);
/// How long the rest of a key's sequence may take.
const KEY_PATIENCE: Duration = Duration::from_millis(50);
/// How often a session without a keeper is looked at, and how often the time that has passed is painted.
const TICK: Duration = Duration::from_secs(1);
/// How long the rest of a frame may take, before the terminal gets its turn again.
const FRAME_PATIENCE: Duration = Duration::from_millis(20);
/// How many pieces of news are taken in before the terminal gets its turn.
const NEWS_AT_ONCE: usize = 256;
/// How many messages that wait are shown.
const QUEUED_SHOWN: usize = 3;

/// Why we stopped.
enum Left {
    /// The person goes.
    Gone,
    Signalled(i32),
}

/// The question on the screen.
struct Asked {
    request: String,
    since: Instant,
    /// The person has answered; nobody else has said so yet.
    is_answered: bool,
}

/// A person who talks to a session.
pub(super) struct Live<'a> {
    ctx: &'a Ctx,
    id: &'a SessionId,
    story: Story,
    editor: Editor,
    keys: Keys,
    errands: Errands,
    signals: SignalFd,
    raw: Option<tty::Raw>,
    foot: Foot,
    keeper: Option<Connection>,
    /// The last event we know of.
    seq: u64,
    looked_at: Instant,
    asked: Option<Asked>,
    /// A word to the person that goes away with the next key.
    hint: Option<&'static str>,
    leaving: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        ctx: &'a Ctx,
        id: &'a SessionId,
        story: Story,
        editor: Editor,
        seq: u64,
    ) -> Result<Self, Problem> {
        let trouble = |what: &str, error: std::io::Error| {
            Problem::new(Code::Refused, format!("cannot {what}: {error}"))
        };
        let wanted =
            [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT].map(Signal::as_raw);
        let signals = SignalFd::new(&wanted).map_err(|error| trouble("listen to signals", error))?;
        // After that: a signal that only the terminal's thread reads must not end another one.
        let errands = Errands::start(id).map_err(|error| trouble("start a thread", error))?;
        let raw = tty::Raw::enter().map_err(|error| trouble("prepare the terminal", error))?;
        Ok(Self {
            ctx,
            id,
            story,
            editor,
            keys: Keys::default(),
            errands,
            signals,
            raw: Some(raw),
            foot: Foot::default(),
            keeper: None,
            seq,
            looked_at: Instant::now(),
            asked: None,
            hint: None,
            leaving: false,
        })
    }

    /// Talks until the person leaves or the terminal goes away. The exit code, and what the session is called now.
    pub(super) fn run(mut self) -> (u8, String) {
        let left = match self.talk() {
            Ok(never) => match never {},
            Err(left) => left,
        };
        let mut out = Vec::new();
        self.foot.erase(&mut out, tty::size().unwrap_or_default());
        tty::last_words(&out);
        drop(self.raw.take());
        let code = match left {
            Left::Gone => 0,
            Left::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(255),
        };
        (code, self.story.handle().to_owned())
    }

    fn talk(&mut self) -> Result<std::convert::Infallible, Left> {
        self.write(b"\x1b[?2004h")?;
        self.connect();
        loop {
            self.follow_on();
            self.paint()?;
            let (typed, told, signalled, reported) = self.wait()?;
            if signalled {
                self.heed()?;
            }
            if typed {
                self.read()?;
            } else {
                self.keys.give_up();
            }
            if told {
                self.listen();
            }
            if self.story.current.is_none() {
                self.hint = self.hint.filter(|hint| *hint != CANCELLING);
            }
            if reported {
                self.report();
            }
            if self.keeper.is_none() && (reported || self.looked_at.elapsed() >= TICK) {
                self.connect();
            }
            if self.leaving && self.errands.under_way() == 0 {
                return Err(Left::Gone);
            }
        }
    }

    /// Waits until something happens: keys, news, a signal, a report.
    fn wait(&self) -> Result<(bool, bool, bool, bool), Left> {
        let waiting = self.keeper.as_ref().is_some_and(Connection::has_more);
        let timeout = if waiting { Some(Duration::ZERO) } else { self.timeout() };
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut fds = vec![
            PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.errands.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.keeper.iter().map(|keeper| PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Left::Signalled(Signal::HUP.as_raw())),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok((ready(0), ready(3) || waiting, ready(1), ready(2)))
    }

    fn timeout(&self) -> Option<Duration> {
        let escape = self.keys.is_waiting().then_some(KEY_PATIENCE);
        let reading = self.asked.as_ref().and_then(|asked| READING_TIME.checked_sub(asked.since.elapsed()));
        let clock = (self.story.current.is_some() || self.keeper.is_none()).then_some(TICK);
        [escape, reading, clock].into_iter().flatten().min()
    }

    fn heed(&mut self) -> Result<(), Left> {
        match self.signals.read() {
            // The next painting looks at the size anyway.
            Ok(Some(signal)) if signal == Signal::WINCH.as_raw() => Ok(()),
            Ok(Some(signal)) => Err(Left::Signalled(signal)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    fn read(&mut self) -> Result<(), Left> {
        let mut bytes = [0; 65536];
        let count = match rustix::io::read(stdin(), &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(rustix::io::Errno::IO) => return Err(Left::Signalled(Signal::HUP.as_raw())),
            Ok(count) => count,
            Err(_) => return Ok(()),
        };
        for key in self.keys.push(&bytes[..count]) {
            self.press(&key)?;
        }
        Ok(())
    }

    fn press(&mut self, key: &Key) -> Result<(), Left> {
        let hint = self.hint.take();
        if self.leaving && matches!(key, Key::Interrupt | Key::EndOfInput | Key::Leave) {
            // They have waited enough.
            return Err(Left::Gone);
        }
        match key {
            Key::Leave => self.leave(),
            Key::EndOfInput if self.editor.is_empty() => self.leave(),
            Key::EndOfInput => drop(self.editor.take(&Key::Delete)),
            Key::Interrupt if !self.editor.is_empty() => self.editor.clear(),
            Key::Interrupt => match self.story.current.as_ref().filter(|current| !current.is_cancelled) {
                Some(current) if hint != Some(CANCELLING) => {
                    self.errands.give(Errand::Cancel(current.turn));
                    self.hint = Some(CANCELLING);
                }
                Some(_) => self.leave(),
                None if hint.is_some() || self.story.current.is_some() => self.leave(),
                None => self.hint = Some("press Ctrl-C again to leave; the session stays"),
            },
            Key::Redraw => {
                self.foot.forget();
                self.write(b"\x1b[H\x1b[2J")?;
            }
            Key::Suspend => self.suspend()?,
            Key::Char(c) if self.editor.is_empty() && self.answer(*c) => {}
            key => match self.editor.take(key) {
                Did::Send(text) => self.errands.give(Errand::Send(text)),
                Did::Changed | Did::Nothing => {}
            },
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.leaving = true;
    }

    /// Gives the terminal to the shell until it brings us back.
    fn suspend(&mut self) -> Result<(), Left> {
        let mut out = Vec::new();
        self.foot.erase(&mut out, tty::size().unwrap_or_default());
        self.write(&out)?;
        drop(self.raw.take());
        // As the terminal itself would do it for everyone in front of it.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        let raw = tty::Raw::enter().map_err(|_| Left::Signalled(Signal::HUP.as_raw()))?;
        self.raw = Some(raw);
        self.write(b"\x1b[?2004h")
    }

    /// Answers the question on the screen if this key does, and if it could be read.
    fn answer(&mut self, key: char) -> bool {
        let Some(ask) = self.answerable() else { return false };
        let Some((_, option)) = choices(ask).into_iter().find(|(keys, _)| keys.contains(key)) else {
            return false;
        };
        let errand = Errand::Answer { request: ask.request.clone(), option: option.to_owned() };
        self.errands.give(errand);
        // Once is enough; if that fails, the question is there again.
        if let Some(asked) = &mut self.asked {
            asked.is_answered = true;
        }
        true
    }

    /// The question that a key answers now.
    fn answerable(&self) -> Option<&Ask> {
        let ask = self.story.asks.first()?;
        let asked = self.asked.as_ref().filter(|asked| asked.request == ask.request)?;
        (!asked.is_answered && asked.since.elapsed() >= READING_TIME).then_some(ask)
    }

    fn connect(&mut self) {
        self.looked_at = Instant::now();
        // Only whoever sends something starts a session that has no keeper.
        let Ok(connection) = Connection::open(&self.ctx.home.session_dir(self.id), tty::place()) else {
            return;
        };
        let mut connection = connection;
        let _ = connection.set_patience(Some(FRAME_PATIENCE));
        if connection.send(Request::Watch { from: self.seq + 1 }).is_ok() {
            self.keeper = Some(connection);
            self.story.connected();
        }
    }

    /// Asks to be told what the agent says about the turn it has now.
    fn follow_on(&mut self) {
        if self.keeper.is_none() {
            return;
        }
        let Some(turn) = self.story.take_follow() else { return };
        if let Some(keeper) = &mut self.keeper
            && keeper.send(Request::Follow { turn }).is_err()
        {
            self.keeper = None;
        }
    }

    fn listen(&mut self) {
        for _ in 0..NEWS_AT_ONCE {
            let Some(keeper) = &mut self.keeper else { return };
            match keeper.next() {
                Ok(Some(arrival)) => self.hear(arrival),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return;
                }
                // It leaves, is gone, or replaces its own program.
                Ok(None) | Err(_) => {
                    self.keeper = None;
                    self.looked_at = Instant::now().checked_sub(TICK).unwrap_or_else(Instant::now);
                    return;
                }
            }
            self.follow_on();
            if !self.keeper.as_ref().is_some_and(Connection::has_more) {
                return;
            }
        }
    }

    fn hear(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Notice(Notice::Event { seq, entry }) => {
                // What is told once more to whoever follows a turn has no number.
                if seq == 0 || seq > self.seq {
                    self.seq = self.seq.max(seq);
                    self.story.hear(&entry.event);
                }
            }
            Arrival::Notice(Notice::Said { turn, text }) => self.story.said(turn, &text),
            Arrival::Notice(Notice::Doing { turn, what, detail, tokens }) => {
                self.story.doing(turn, &what, &detail, tokens);
            }
            Arrival::Answer(Answer::Problem { problem }) => self.complain(&problem),
            Arrival::Notice(Notice::Output { .. } | Notice::Replaced { .. })
            | Arrival::Answer(_)
            | Arrival::Output(_)
            | Arrival::Screen(_) => {}
        }
    }

    fn report(&mut self) {
        for (errand, done) in self.errands.reports() {
            let Err(problem) = done else { continue };
            self.complain(&problem);
            match errand {
                Errand::Send(text) => {
                    self.leaving = false;
                    self.editor.give_back(&text);
                }
                Errand::Answer { .. } => self.asked = None,
                Errand::Cancel(_) => {}
            }
        }
    }

    fn complain(&mut self, problem: &Problem) {
        self.story.note(&format!("error: {}", problem.what));
        if let Some(hint) = &problem.hint {
            self.story.note(&format!("hint: {hint}"));
        }
    }

    /// Prints what stays, and paints the rest below.
    fn paint(&mut self) -> Result<(), Left> {
        self.note_question();
        let size = tty::size().unwrap_or_default();
        let (rows, cursor) = self.rows(size);
        let mut out = b"\x1b[?2026h".to_vec();
        self.foot.erase(&mut out, size);
        out.extend_from_slice(self.story.take_told().replace('\n', "\r\n").as_bytes());
        self.foot.paint(&mut out, &rows, cursor, size);
        out.extend_from_slice(b"\x1b[?2026l");
        self.write(&out)
    }

    /// A question counts as shown from when it is first painted.
    fn note_question(&mut self) {
        match self.story.asks.first() {
            Some(ask) if self.asked.as_ref().is_none_or(|asked| asked.request != ask.request) => {
                let request = ask.request.clone();
                self.asked = Some(Asked { request, since: Instant::now(), is_answered: false });
                // Somebody who looks elsewhere may hear it.
                tty::last_words(b"\x07");
            }
            Some(_) => {}
            None => self.asked = None,
        }
    }

    /// The foot: the line the agent is writing, what it does, what waits, and what the person writes.
    fn rows(&self, size: Size) -> (Vec<Row>, (usize, usize)) {
        let (columns, height) = (usize::from(size.cols).max(1), usize::from(size.rows));
        let mut rows = Vec::new();
        // In a tiny terminal there is room for what one writes, and for nothing else.
        if height >= 3 && columns >= 8 {
            if !self.story.line.is_empty() {
                let line = cells::wrap(tail(&self.story.line, 4 * columns * height), columns);
                let skipped = line.len().saturating_sub(height / 2);
                rows.extend(line.into_iter().skip(skipped));
            }
            rows.extend(
                cells::wrap(&self.going_on(), columns)
                    .into_iter()
                    .take(height / 3)
                    .filter(|row| row.width > 0)
                    .map(Row::dim),
            );
            for (_, text) in self.story.queued.iter().take(if height >= 10 { QUEUED_SHOWN } else { 0 }) {
                let line = format!("queued: {}", print::excerpt(text, columns));
                rows.extend(cells::wrap(&line, columns).into_iter().take(1).map(Row::dim));
            }
        }
        let waiting = self.story.queued.len();
        let (prompt, width) = match waiting {
            0 => ("\x1b[1m>\x1b[0m ".to_owned(), 2),
            _ => {
                let text = format!("{waiting} queued");
                (format!("\x1b[2m{text}\x1b[0m \x1b[1m>\x1b[0m "), text.len() + 3)
            }
        };
        let (written, cursor) = self.editor.rows((&prompt, width), columns);
        let cursor = (rows.len() + cursor.0, cursor.1);
        rows.extend(written);
        (rows, cursor)
    }

    /// One line about what is going on, the most important first.
    fn going_on(&self) -> String {
        if let Some(hint) = self.hint {
            return hint.to_owned();
        }
        if self.leaving {
            return "sending what you wrote; Ctrl-C does not wait for that".to_owned();
        }
        if let Some(ask) = self.answerable() {
            let keys: Vec<String> = choices(ask)
                .into_iter()
                .map(|(keys, option)| {
                    let keys: Vec<String> = keys.chars().map(String::from).collect();
                    format!("[{}] {option}", keys.join("/"))
                })
                .collect();
            let but = if self.editor.is_empty() { "" } else { " (on an empty line)" };
            return format!("answer with {}{but}", keys.join("  "));
        }
        let Some(current) = &self.story.current else { return String::new() };
        let tokens = current.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
        let doing = if current.is_cancelled { "cancelling" } else { current.doing.as_str() };
        format!("· {doing} · {} s{tokens}", current.since.elapsed().as_secs())
    }

    /// Writes to the terminal; one that takes nothing must not keep signals from us.
    fn write(&self, mut bytes: &[u8]) -> Result<(), Left> {
        while !bytes.is_empty() {
            match rustix::io::write(tty::output(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::from_borrowed_fd(tty::output(), PollFlags::OUT),
                        PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                    ];
                    let _ = poll(&mut fds, None);
                    if let Ok(Some(signal)) = self.signals.read()
                        && signal != Signal::WINCH.as_raw()
                    {
                        return Err(Left::Signalled(signal));
                    }
                }
                Err(_) => return Err(Left::Signalled(Signal::HUP.as_raw())),
            }
        }
        Ok(())
    }
}

const CANCELLING: &str = "cancelling; press Ctrl-C again to leave, the session stays";

/// The keys of a question's options, and each option's id: its number, and `y` and `n` for the plainest yes and no.
fn choices(ask: &Ask) -> Vec<(String, &str)> {
    let first = |kinds: [AskKind; 2]| {
        let of_kind = |kind: AskKind| ask.options.iter().position(|option| option.kind == kind);
        kinds.into_iter().find_map(of_kind)
    };
    let yes = first([AskKind::AllowOnce, AskKind::AllowAlways]);
    let no = first([AskKind::RejectOnce, AskKind::RejectAlways]);
    let keys = |at: usize| {
        let letter = if yes == Some(at) {
            "y"
        } else if no == Some(at) {
            "n"
        } else {
            ""
        };
        let digit = if at < 9 { (at + 1).to_string() } else { String::new() };
        format!("{letter}{digit}")
    };
    ask.options.iter().enumerate().map(|(at, option)| (keys(at), option.id.as_str())).collect()
}

/// The last characters of a text, about so many bytes of them.
fn tail(text: &str, bytes: usize) -> &str {
    let from = text.len().saturating_sub(bytes);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[from..]
}
