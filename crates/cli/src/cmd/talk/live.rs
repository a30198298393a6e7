//! Talking at a real terminal: the answer above, what is going on and what one writes below.
//!
//! Promise: the terminal never waits for the agent or its keeper; what is typed while the agent works is the next
//! message; no question is answered by a key that was pressed before one could read it; leaving, also by a signal or a
//! lost connection, changes nothing for the session, and the terminal is given back as it was.
//! Not here: what is told (`story`), editing (`editor`), hearing the keeper (`news`), what is painted (`picture`).
//! Start with [`Live::run`].

mod news;
mod picture;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use berth_api::turn::{Ask, AskKind, Wish};
use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::signals::SignalFd;
use berth_verbs::Cursor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::editor::Editor;
use super::errands::{Errand, Errands};
use super::foot::Foot;
use crate::composer::TooLong;
use crate::keys::{Input, Key, Keys};

use super::story::Story;
use crate::ctx::Ctx;
use crate::reading::ReadingTime;
use crate::replies::{self, OwnWords};
use crate::tty;

/// How long the rest of a key's sequence may take.
const KEY_PATIENCE: Duration = Duration::from_millis(50);
/// How often a session without a keeper is looked at, and how often the time that has passed is painted.
const TICK: Duration = Duration::from_secs(1);
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
    /// Its run: agents number their questions anew in each.
    epoch: Option<u64>,
    request: String,
    reading: ReadingTime,
    /// The person has answered; nobody else has said so yet.
    is_answered: bool,
    /// The options that were chosen so far, by their places, of a question that takes several.
    chosen: Vec<usize>,
    /// What is written is the answer, and not the next message.
    is_replying: bool,
}

impl Asked {
    fn new(epoch: Option<u64>, request: &str, now: Duration) -> Self {
        let (request, reading) = (request.to_owned(), ReadingTime::begin(now));
        Self { epoch, request, reading, is_answered: false, chosen: vec![], is_replying: false }
    }

    /// Whether this is that question.
    fn is(&self, epoch: Option<u64>, request: &str) -> bool {
        (self.epoch, self.request.as_str()) == (epoch, request)
    }
}

/// A person who talks to a session.
pub(super) struct Live {
    story: Story,
    editor: Editor,
    keys: Keys,
    /// When the last byte came from the terminal.
    typed_at: Instant,
    errands: Errands,
    signals: SignalFd,
    raw: Option<tty::Raw>,
    foot: Foot,
    cursor: Cursor,
    begun_at: Instant,
    /// The person was told why nothing more is heard of the session.
    is_away: bool,
    asked: Option<Asked>,
    /// What is written was meant for a question that went away; the next Enter says so and sends nothing.
    is_reply_to_nothing: bool,
    /// A word to the person that goes away with the next key.
    hint: Option<&'static str>,
    leaving: bool,
}

impl Live {
    pub(super) fn new(
        ctx: &Ctx,
        id: &SessionId,
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
            story,
            editor,
            keys: Keys::default(),
            typed_at: Instant::now(),
            errands,
            signals,
            raw: Some(raw),
            foot: Foot::default(),
            cursor: ctx.session(id).events(seq + 1).every(TICK).healing(),
            begun_at: Instant::now(),
            is_away: false,
            asked: None,
            is_reply_to_nothing: false,
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
        self.listen();
        loop {
            self.follow_on();
            self.paint()?;
            let (typed, signalled, reported) = self.wait()?;
            if signalled {
                self.heed()?;
            }
            if typed {
                self.read()?;
            } else if self.keys.waits() && self.typed_at.elapsed() >= KEY_PATIENCE {
                // An Escape alone does nothing here.
                self.keys.give_up();
            }
            if reported {
                // A message may have started the session again.
                self.cursor.look_soon();
            }
            self.listen();
            if self.story.current.is_none() {
                self.hint = self.hint.filter(|hint| *hint != CANCELLING);
            }
            if reported {
                self.report();
            }
            if self.leaving && self.errands.under_way() == 0 {
                return Err(Left::Gone);
            }
        }
    }

    /// Waits until something happens: keys, news, a signal, a report.
    fn wait(&self) -> Result<(bool, bool, bool), Left> {
        let timeout = self.timeout().map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut fds = vec![
            PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.errands.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.cursor.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Left::Signalled(Signal::HUP.as_raw())),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok((ready(0), ready(1), ready(2)))
    }

    fn timeout(&self) -> Option<Duration> {
        let escape = self.keys.waits().then(|| KEY_PATIENCE.saturating_sub(self.typed_at.elapsed()));
        let reading = self.asked.as_ref().and_then(|asked| asked.reading.left(self.uptime()));
        let clock = self.story.current.is_some().then_some(TICK);
        let look = self.cursor.due().map(|due| due.saturating_duration_since(Instant::now()));
        [escape, reading, clock, look].into_iter().flatten().min()
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
        self.typed_at = Instant::now();
        for input in self.keys.push(&bytes[..count]) {
            self.press(&input)?;
        }
        Ok(())
    }

    /// The time since the talk began, on a clock that never jumps.
    fn uptime(&self) -> Duration {
        self.begun_at.elapsed()
    }

    fn press(&mut self, input: &Input) -> Result<(), Left> {
        let now = self.uptime();
        // A key before the end of the reading time belongs to the message that is being written.
        let may_answer = self.asked.as_mut().is_some_and(|asked| asked.reading.press(now));
        let hint = self.hint.take();
        if self.leaving && matches!(input, Input::Key(Key::Ctrl('c' | 'd' | '\\'))) {
            // They have waited enough.
            return Err(Left::Gone);
        }
        match input {
            Input::Key(Key::Ctrl('\\')) => self.leave(),
            Input::Key(Key::Ctrl('d')) if self.editor.is_empty() => self.leave(),
            Input::Key(Key::Ctrl('c')) if self.replies_with().is_some() => {
                self.editor.clear();
                self.set_replying(false);
            }
            Input::Key(Key::Ctrl('c')) if !self.editor.is_empty() => {
                self.editor.clear();
                self.is_reply_to_nothing = false;
            }
            Input::Key(Key::Ctrl('c')) => {
                match self.story.current.as_ref().filter(|current| !current.is_cancelled) {
                    Some(current) if hint != Some(CANCELLING) => {
                        let cancel = Errand::Cancel(current.turn);
                        self.give(cancel);
                        self.hint = Some(CANCELLING);
                    }
                    Some(_) => self.leave(),
                    None if hint.is_some() || self.story.current.is_some() => self.leave(),
                    None => self.hint = Some("press Ctrl-C again to leave; the session stays"),
                }
            }
            Input::Key(Key::Ctrl('l')) => {
                self.foot.forget();
                self.write(b"\x1b[H\x1b[2J")?;
            }
            Input::Key(Key::Ctrl('z')) => self.suspend()?,
            Input::Key(Key::Char(c)) if may_answer && self.editor.is_empty() && self.answer(*c) => {}
            Input::Key(Key::Enter) if may_answer && self.editor.is_empty() && self.answer_chosen() => {}
            input => match self.editor.take(input) {
                Ok(Some(text)) => self.send(text),
                Ok(None) => {}
                Err(TooLong) => self.hint = Some(PASTE_TOO_LONG),
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
        if self.replies_with().is_some() {
            return false;
        }
        if key == OWN_WORDS && OwnWords::of(ask).is_some() {
            self.set_replying(true);
            return true;
        }
        let Some(at) = choices(ask).iter().position(|(keys, _)| keys.contains(key)) else {
            return false;
        };
        if ask.several {
            if let Some(asked) = &mut self.asked {
                replies::toggle(&mut asked.chosen, at);
            }
            return true;
        }
        let wish = Wish::option(ask.options[at].id.as_str());
        self.reply(wish)
    }

    /// Answers with the options that were chosen, if there are some.
    fn answer_chosen(&mut self) -> bool {
        let wish = match (self.answerable(), &self.asked) {
            (Some(ask), Some(asked)) if ask.several => replies::options(ask, &asked.chosen),
            _ => None,
        };
        wish.is_some_and(|wish| self.reply(wish))
    }

    /// Sends what was written: as the next message, or as the answer in own words.
    fn send(&mut self, text: String) {
        if std::mem::take(&mut self.is_reply_to_nothing) {
            self.editor.give_back(&text);
            self.hint = Some("the question is no longer asked; Enter sends this as a message");
            return;
        }
        let wish = self.replies_with().zip(self.answerable()).map(|(words, ask)| {
            let chosen = self.asked.as_ref().map(|asked| asked.chosen.clone()).unwrap_or_default();
            words.wish(ask, &chosen, text.clone())
        });
        match wish {
            Some(wish) => drop(self.reply(wish)),
            None => self.give(Errand::Send(text)),
        }
    }

    /// Whether the question that is open is being answered in own words, and what those are.
    fn replies_with(&self) -> Option<OwnWords> {
        let ask = self.answerable()?;
        self.asked.as_ref().filter(|asked| asked.is_replying)?;
        OwnWords::of(ask)
    }

    fn set_replying(&mut self, is_replying: bool) {
        if let Some(asked) = &mut self.asked {
            asked.is_replying = is_replying;
        }
    }

    fn reply(&mut self, wish: Wish) -> bool {
        let Some(ask) = self.answerable() else { return false };
        let errand = Errand::Answer { request: ask.request.clone(), wish, epoch: self.story.epoch };
        self.give(errand);
        // Once is enough; if that fails, the question is there again.
        if let Some(asked) = &mut self.asked {
            asked.is_answered = true;
        }
        true
    }

    /// The question that a key answers now.
    fn answerable(&self) -> Option<&Ask> {
        let ask = self.story.asks.first()?;
        let asked = self.asked.as_ref().filter(|asked| asked.is(self.story.epoch, &ask.request))?;
        (!asked.is_answered && asked.reading.is_over(self.uptime())).then_some(ask)
    }

    fn give(&mut self, errand: Errand) {
        if let Err(errand) = self.errands.give(errand) {
            let problem = Problem::new(Code::Bug, "the thread that sends messages is gone; nothing was sent");
            self.failed(errand, &problem.hint("leave with Ctrl-D and come back"));
        }
    }

    fn report(&mut self) {
        for (errand, done) in self.errands.reports() {
            if let Err(problem) = done {
                self.failed(errand, &problem);
            }
        }
    }

    /// What was written is there again, and what was asked is asked again.
    fn failed(&mut self, errand: Errand, problem: &Problem) {
        self.complain(problem);
        match errand {
            Errand::Send(text) => {
                self.leaving = false;
                self.editor.give_back(&text);
            }
            Errand::Answer { wish, .. } => {
                self.asked = None;
                let (Wish::Deny { reason: text } | Wish::Options { text, .. }) = wish else { return };
                text.into_iter().for_each(|text| self.editor.give_back(&text));
            }
            Errand::Cancel(_) => {}
        }
    }

    fn complain(&mut self, problem: &Problem) {
        self.story.note(&format!("error: {}", problem.what));
        if let Some(hint) = &problem.hint {
            self.story.note(&format!("hint: {hint}"));
        }
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

/// The key that begins an answer in own words.
const OWN_WORDS: char = 't';

const PASTE_TOO_LONG: &str =
    "a paste has at most 1 MiB; this one was not added: put it into a file and name that in the message";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_another_run_is_another_question_though_its_request_is_the_same() {
        let asked = Asked::new(Some(1), "0", Duration::ZERO);
        assert!(asked.is(Some(1), "0"));
        assert!(!asked.is(Some(2), "0") && !asked.is(Some(1), "1"));
    }
}
