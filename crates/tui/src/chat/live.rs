//! The chat on an ordinary terminal: the answers above; below, the agent's activity and the message being written.
//!
//! Promise: the terminal never waits for the agent or its keeper. Text that is typed while the agent works is the next
//! message. A key that was pressed before the user could read a question does not answer it. Leaving, also by a signal
//! or a lost connection, does not change the session, and the terminal is restored.
//! Not here: the text of the chat (`log`), editing (`editor`), news of the keeper (`news`), painting (`picture`).
//! Start with [`LiveChat::run`].

mod render;
mod updates;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::turn::{AgentQuestion, QuestionOptionKind, QuestionReply};
use berth_core::SessionId;
use berth_host::signals::SignalFd;
use berth_verbs::SessionCursor;
use berth_verbs::VerbContext;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::input::ChatFooter;
use super::message_editor::MessageEditor;
use super::sender::{ChatRequest, ChatSender};
use crate::composer::TextTooLong;
use crate::keys::{InputEvent, KeyParser, KeyPress};

use super::log::ChatLog;
use crate::question_replies::{self, FreeTextKind};
use crate::reading_time::ReadingTime;
use crate::tty;

/// Timeout for the rest of a key's escape sequence.
const KEY_PATIENCE: Duration = Duration::from_millis(50);
/// Interval of looking for a keeper, while the session has none, and of painting the elapsed time.
const TICK: Duration = Duration::from_secs(1);
/// Limit of news that are handled before keys and signals are read again.
const NEWS_AT_ONCE: usize = 256;
/// Limit of queued messages that are shown.
const QUEUED_SHOWN: usize = 3;

/// The reason why the chat ended.
enum ChatExit {
    /// The user left.
    Gone,
    Signalled(i32),
}

/// The question on the screen.
struct ChatQuestion {
    /// The run of the question: agents number their questions anew in each run.
    epoch: Option<u64>,
    request: String,
    reading: ReadingTime,
    /// True if the user has answered, and the keeper has not confirmed the answer yet.
    is_answered: bool,
    /// Indexes of the options chosen so far, for a question that takes several.
    chosen: Vec<usize>,
    /// True if the text being written is the answer, and not the next message.
    is_replying: bool,
}

impl ChatQuestion {
    fn new(epoch: Option<u64>, request: &str, now: Duration) -> Self {
        let (request, reading) = (request.to_owned(), ReadingTime::begin(now));
        Self { epoch, request, reading, is_answered: false, chosen: vec![], is_replying: false }
    }

    /// True if this is the question with that request in that run.
    fn is(&self, epoch: Option<u64>, request: &str) -> bool {
        (self.epoch, self.request.as_str()) == (epoch, request)
    }
}

/// A running chat: the terminal, the keeper's news and the state of the user's input.
pub(super) struct LiveChat {
    story: ChatLog,
    editor: MessageEditor,
    keys: KeyParser,
    /// Time of the last input from the terminal.
    typed_at: Instant,
    errands: ChatSender,
    signals: SignalFd,
    raw: Option<tty::RawMode>,
    footer: ChatFooter,
    cursor: SessionCursor,
    begun_at: Instant,
    /// True if the chat has shown why there are no news from the session.
    is_away: bool,
    asked: Option<ChatQuestion>,
    /// True if the text being written was meant for a question that is gone; the next Enter says so and sends nothing.
    is_reply_to_nothing: bool,
    /// A hint to the user that disappears with the next key.
    hint: Option<&'static str>,
    leaving: bool,
}

impl LiveChat {
    pub(super) fn new(
        ctx: &VerbContext,
        id: &SessionId,
        story: ChatLog,
        editor: MessageEditor,
        seq: u64,
    ) -> Result<Self, Problem> {
        let trouble = |what: &str, error: std::io::Error| Problem::refused(format!("cannot {what}: {error}"));
        let wanted =
            [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT].map(Signal::as_raw);
        let signals = SignalFd::new(&wanted).map_err(|error| trouble("listen to signals", error))?;
        // Started after the signals were blocked: a signal that only this thread reads must not end another thread.
        let errands = ChatSender::start(id).map_err(|error| trouble("start a thread", error))?;
        let raw = tty::RawMode::enter().map_err(|error| trouble("prepare the terminal", error))?;
        Ok(Self {
            story,
            editor,
            keys: KeyParser::default(),
            typed_at: Instant::now(),
            errands,
            signals,
            raw: Some(raw),
            footer: ChatFooter::default(),
            cursor: ctx.session(id).events(seq + 1).every(TICK).healing(),
            begun_at: Instant::now(),
            is_away: false,
            asked: None,
            is_reply_to_nothing: false,
            hint: None,
            leaving: false,
        })
    }

    /// Runs the chat until the user leaves or the terminal is gone. Returns the exit code and the session's name.
    pub(super) fn run(mut self) -> (u8, String) {
        let left = match self.talk() {
            Ok(never) => match never {},
            Err(left) => left,
        };
        let mut out = Vec::new();
        self.footer.erase(&mut out, tty::terminal_size().unwrap_or_default());
        tty::write_before_exit(&out);
        drop(self.raw.take());
        let code = match left {
            ChatExit::Gone => 0,
            ChatExit::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(255),
        };
        (code, self.story.handle().to_owned())
    }

    fn talk(&mut self) -> Result<std::convert::Infallible, ChatExit> {
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
                // A lone Escape has no meaning here.
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
            if self.leaving && self.errands.in_flight() == 0 {
                return Err(ChatExit::Gone);
            }
        }
    }

    /// Waits for keys, news, a signal or a report of an errand.
    fn wait(&self) -> Result<(bool, bool, bool), ChatExit> {
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
            Err(_) => return Err(ChatExit::Signalled(Signal::HUP.as_raw())),
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

    fn heed(&mut self) -> Result<(), ChatExit> {
        match self.signals.read() {
            // Painting reads the size each time.
            Ok(Some(signal)) if signal == Signal::WINCH.as_raw() => Ok(()),
            Ok(Some(signal)) => Err(ChatExit::Signalled(signal)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    fn read(&mut self) -> Result<(), ChatExit> {
        let mut bytes = [0; 65536];
        let count = match rustix::io::read(stdin(), &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(rustix::io::Errno::IO) => return Err(ChatExit::Signalled(Signal::HUP.as_raw())),
            Ok(count) => count,
            Err(_) => return Ok(()),
        };
        self.typed_at = Instant::now();
        for input in self.keys.push(&bytes[..count]) {
            self.press(&input)?;
        }
        Ok(())
    }

    /// Time since the chat began, on a monotonic clock.
    fn uptime(&self) -> Duration {
        self.begun_at.elapsed()
    }

    fn press(&mut self, input: &InputEvent) -> Result<(), ChatExit> {
        let now = self.uptime();
        // A key before the end of the reading time belongs to the message being written.
        let may_answer = self.asked.as_mut().is_some_and(|asked| asked.reading.press(now));
        let hint = self.hint.take();
        if self.leaving && matches!(input, InputEvent::Key(KeyPress::Ctrl('c' | 'd' | '\\'))) {
            // A second key to leave does not wait for errands.
            return Err(ChatExit::Gone);
        }
        match input {
            InputEvent::Key(KeyPress::Ctrl('\\')) => self.leave(),
            InputEvent::Key(KeyPress::Ctrl('d')) if self.editor.is_empty() => self.leave(),
            InputEvent::Key(KeyPress::Ctrl('c')) if self.replies_with().is_some() => {
                self.editor.clear();
                self.set_replying(false);
            }
            InputEvent::Key(KeyPress::Ctrl('c')) if !self.editor.is_empty() => {
                self.editor.clear();
                self.is_reply_to_nothing = false;
            }
            InputEvent::Key(KeyPress::Ctrl('c')) => {
                match self.story.current.as_ref().filter(|current| !current.is_cancelled) {
                    Some(current) if hint != Some(CANCELLING) => {
                        let cancel = ChatRequest::Cancel(current.turn);
                        self.give(cancel);
                        self.hint = Some(CANCELLING);
                    }
                    Some(_) => self.leave(),
                    None if hint.is_some() || self.story.current.is_some() => self.leave(),
                    None => self.hint = Some("press Ctrl-C again to leave; the session stays"),
                }
            }
            InputEvent::Key(KeyPress::Ctrl('l')) => {
                self.footer.forget();
                self.write(b"\x1b[H\x1b[2J")?;
            }
            InputEvent::Key(KeyPress::Ctrl('z')) => self.suspend()?,
            InputEvent::Key(KeyPress::Char(c)) if may_answer && self.editor.is_empty() && self.answer(*c) => {
            }
            InputEvent::Key(KeyPress::Enter)
                if may_answer && self.editor.is_empty() && self.answer_chosen() => {}
            input => match self.editor.take(input) {
                Ok(Some(text)) => self.send(text),
                Ok(None) => {}
                Err(TextTooLong) => self.hint = Some(PASTE_TOO_LONG),
            },
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.leaving = true;
    }

    /// Suspends the process, and gives the terminal to the shell until it continues the process.
    fn suspend(&mut self) -> Result<(), ChatExit> {
        let mut out = Vec::new();
        self.footer.erase(&mut out, tty::terminal_size().unwrap_or_default());
        self.write(&out)?;
        drop(self.raw.take());
        // To the whole process group, as the terminal driver does for Ctrl-Z.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        let raw = tty::RawMode::enter().map_err(|_| ChatExit::Signalled(Signal::HUP.as_raw()))?;
        self.raw = Some(raw);
        self.write(b"\x1b[?2004h")
    }

    /// Answers the question on the screen if this key is one of its answers. Returns true if the key was used.
    fn answer(&mut self, key: char) -> bool {
        let Some(ask) = self.question_for_key() else { return false };
        if self.replies_with().is_some() {
            return false;
        }
        if key == OWN_WORDS && FreeTextKind::of(ask).is_some() {
            self.set_replying(true);
            return true;
        }
        let Some(at) = choices(ask).iter().position(|(keys, _)| keys.contains(key)) else {
            return false;
        };
        if ask.several {
            if let Some(asked) = &mut self.asked {
                question_replies::toggle_option(&mut asked.chosen, at);
            }
            return true;
        }
        let reply = QuestionReply::option(ask.options[at].id.as_str());
        self.reply(reply)
    }

    /// Answers with the chosen options. Returns false if none is chosen.
    fn answer_chosen(&mut self) -> bool {
        let reply = match (self.question_for_key(), &self.asked) {
            (Some(ask), Some(asked)) if ask.several => {
                question_replies::reply_with_options(ask, &asked.chosen)
            }
            _ => None,
        };
        reply.is_some_and(|reply| self.reply(reply))
    }

    /// Sends the written text as the next message, or as an answer in the user's own words.
    fn send(&mut self, text: String) {
        if std::mem::take(&mut self.is_reply_to_nothing) {
            self.editor.give_back(&text);
            self.hint = Some("the question is no longer asked; Enter sends this as a message");
            return;
        }
        let reply = self.replies_with().zip(self.question_for_key()).map(|(words, ask)| {
            let chosen = self.asked.as_ref().map(|asked| asked.chosen.clone()).unwrap_or_default();
            words.reply(ask, &chosen, text.clone())
        });
        match reply {
            Some(reply) => drop(self.reply(reply)),
            None => self.give(ChatRequest::Send(text)),
        }
    }

    /// The kind of text (answer or reason) that the user is writing for the open question; `None` if it is a message.
    fn replies_with(&self) -> Option<FreeTextKind> {
        let ask = self.question_for_key()?;
        self.asked.as_ref().filter(|asked| asked.is_replying)?;
        FreeTextKind::of(ask)
    }

    fn set_replying(&mut self, is_replying: bool) {
        if let Some(asked) = &mut self.asked {
            asked.is_replying = is_replying;
        }
    }

    fn reply(&mut self, reply: QuestionReply) -> bool {
        let Some(ask) = self.question_for_key() else { return false };
        let errand = ChatRequest::Answer { request: ask.request.clone(), reply, epoch: self.story.epoch };
        self.give(errand);
        // A question is answered once; if the answer fails, the question is shown again.
        if let Some(asked) = &mut self.asked {
            asked.is_answered = true;
        }
        true
    }

    /// The question that a key would answer now.
    fn question_for_key(&self) -> Option<&AgentQuestion> {
        let ask = self.story.asks.first()?;
        let asked = self.asked.as_ref().filter(|asked| asked.is(self.story.epoch, &ask.request))?;
        (!asked.is_answered && asked.reading.is_over(self.uptime())).then_some(ask)
    }

    fn give(&mut self, errand: ChatRequest) {
        if let Err(errand) = self.errands.give(errand) {
            let problem = Problem::bug("the thread that sends messages is gone; nothing was sent");
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

    /// Shows the problem, puts the text back into the editor, and shows an unanswered question again.
    fn failed(&mut self, errand: ChatRequest, problem: &Problem) {
        self.show_problem(problem);
        match errand {
            ChatRequest::Send(text) => {
                self.leaving = false;
                self.editor.give_back(&text);
            }
            ChatRequest::Answer { reply, .. } => {
                self.asked = None;
                let (QuestionReply::Deny { reason: text } | QuestionReply::Options { text, .. }) = reply
                else {
                    return;
                };
                text.into_iter().for_each(|text| self.editor.give_back(&text));
            }
            ChatRequest::Cancel(_) => {}
        }
    }

    fn show_problem(&mut self, problem: &Problem) {
        self.story.note(&format!("error: {}", problem.what));
        if let Some(hint) = &problem.hint {
            self.story.note(&format!("hint: {hint}"));
        }
    }

    /// Writes to the terminal. Signals are read even while the terminal accepts no output.
    fn write(&self, mut bytes: &[u8]) -> Result<(), ChatExit> {
        while !bytes.is_empty() {
            match rustix::io::write(tty::terminal_output(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::from_borrowed_fd(tty::terminal_output(), PollFlags::OUT),
                        PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                    ];
                    let _ = poll(&mut fds, None);
                    if let Ok(Some(signal)) = self.signals.read()
                        && signal != Signal::WINCH.as_raw()
                    {
                        return Err(ChatExit::Signalled(signal));
                    }
                }
                Err(_) => return Err(ChatExit::Signalled(Signal::HUP.as_raw())),
            }
        }
        Ok(())
    }
}

/// The key that begins an answer in the user's own words.
const OWN_WORDS: char = 't';

const PASTE_TOO_LONG: &str =
    "a paste has at most 1 MiB; this one was not added: put it into a file and name that in the message";

const CANCELLING: &str = "cancelling; press Ctrl-C again to leave, the session stays";

/// The keys and the id of each option of a question. The keys are the option's number, and `y` and `n` for the plainest
/// yes and no.
fn choices(ask: &AgentQuestion) -> Vec<(String, &str)> {
    let first = |kinds: [QuestionOptionKind; 2]| {
        let of_kind = |kind: QuestionOptionKind| ask.options.iter().position(|option| option.kind == kind);
        kinds.into_iter().find_map(of_kind)
    };
    let yes = first([QuestionOptionKind::AllowOnce, QuestionOptionKind::AllowAlways]);
    let no = first([QuestionOptionKind::RejectOnce, QuestionOptionKind::RejectAlways]);
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
    fn questions_of_two_runs_differ_though_their_requests_are_equal() {
        let asked = ChatQuestion::new(Some(1), "0", Duration::ZERO);
        assert!(asked.is(Some(1), "0"));
        assert!(!asked.is(Some(2), "0") && !asked.is(Some(1), "1"));
    }
}
