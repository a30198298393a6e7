//! The agent that takes turns: its lines to the file, then to its driver; the driver's words back.
//!
//! Promise: its output is always read, and on disk before anybody hears of it; one that writes lines
//! without end, or garbage, costs a bounded buffer and nothing else.
//! Not here: what the lines mean (`berth_driver`), which turn is next (`berth_core`), how it gets there (`delivery`).
//! Start with [`Talk`], then [`Keeper::on_agent_output`].

mod again;
mod telling;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use berth_core::{Able, Event, Observation, Phase, Reply};
use berth_driver::{Activity, Begin, Driver, Out, Trouble, Update};
use berth_host::clock;
use berth_store::killpoint;
use berth_store::output::OutputLog;
use rustix::event::epoll;

use super::terminal::Until;
use super::{AGENT_IN, AGENT_OUT, Keeper, now};
use crate::driver::pipes::Pipes;
use crate::owner::Input;
use crate::turn;

/// How much is read at a time before anything else gets its turn.
const READ_BYTES: usize = 64 * 1024;
/// The longest line an agent may write. What is longer is in the output, and not understood.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Where in its session its complaints are.
pub(super) const COMPLAINTS_DIR: &str = "stderr";
/// How much of its complaints is remembered.
pub(super) const COMPLAINT_BYTES: usize = 8 * 1024;
/// How long an agent may take until it takes turns.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// How much may wait for an agent that does not read.
const MAX_WORDS_BYTES: usize = 16 * 1024 * 1024;
/// How long an agent that closed its input or its output may live on.
const SILENCE_MS: u64 = 2000;
/// How long an agent that has nothing to do may take to leave when its input is closed.
const GOODBYE_MS: u64 = 1000;

/// An agent we talk to.
#[derive(Debug)]
pub(super) struct Talk {
    driver: Box<dyn Driver>,
    /// How this run took its conversation up.
    begin: Begin,
    pipes: Pipes,
    /// Words on their way to the agent.
    words: VecDeque<u8>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// The line is too long to be understood.
    overlong: bool,
    /// What the agent said in the turn it has, as far as it is kept.
    said: String,
    /// The tools it used in that turn, the last ones, and how much it had said by then.
    did: VecDeque<(usize, Activity)>,
    /// What it does.
    activity: Option<Activity>,
    /// The last of its complaints.
    complaints: VecDeque<u8>,
    /// The complaints of all runs.
    complaint_log: Option<OutputLog>,
    /// What the kernel was asked to tell of.
    hears: Hears,
    /// When it has to take turns, on the boot clock.
    ready_by_ms: u64,
    /// When it is asked to end less politely, on the boot clock.
    terminate_at_ms: Option<u64>,
    /// It closed its output; when it has to be gone, on the boot clock.
    gone_by_ms: Option<u64>,
}

/// Which pipes are watched, so that the kernel is asked only on change.
#[derive(Debug, Default)]
struct Hears {
    room: bool,
    out: bool,
    err: bool,
}

impl Talk {
    /// The pipes, for an image that continues our work.
    pub(super) fn pipes(&self) -> &Pipes {
        &self.pipes
    }

    fn complained(&self) -> String {
        if self.complaints.is_empty() {
            return String::new();
        }
        super::helper::last_lines(&self.complaints.iter().copied().collect::<Vec<u8>>())
    }
}

impl Keeper {
    /// Takes an agent's pipes into the loop. Says the first words to it if it is a new one.
    pub(super) fn talk_to(
        &mut self,
        driver: Box<dyn Driver>,
        begin: Begin,
        pipes: Pipes,
        is_new: bool,
    ) -> io::Result<()> {
        let patience = killpoint::patience("BERTH_READY_MS", READY_PATIENCE);
        let mut talk = Talk {
            driver,
            begin,
            pipes,
            words: VecDeque::new(),
            line: Vec::new(),
            overlong: false,
            said: String::new(),
            did: VecDeque::new(),
            activity: None,
            complaints: VecDeque::new(),
            complaint_log: None,
            hears: Hears::default(),
            ready_by_ms: clock::boot_ms() + patience.as_millis() as u64,
            terminate_at_ms: None,
            gone_by_ms: None,
        };
        for (fd, token) in [(&talk.pipes.stdout, AGENT_OUT), (&talk.pipes.stderr, AGENT_OUT)] {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        }
        (talk.hears.out, talk.hears.err) = (true, true);
        let mut out = Out::default();
        let spec = self.owner.history().session.spec.clone().unwrap_or_default();
        talk.driver.begin(&talk.begin, &spec.cwd, &mut out);
        self.talk = Some(talk);
        self.renew_watchdog();
        if is_new {
            self.heed(out);
        } else {
            self.hear_again();
        }
        Ok(())
    }

    /// Something can be read or written, or a side is closed.
    pub(super) fn on_agent(&mut self, token: u64) {
        if token == AGENT_IN {
            self.write_words();
        } else {
            self.on_agent_output(Until::Quiet);
            self.on_complaints();
        }
    }

    /// Reads what the agent wrote. `true`: there may be more.
    pub(super) fn on_agent_output(&mut self, until: Until) -> bool {
        if !self.unwritten.is_empty() {
            return false;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ_BYTES, 0);
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.hears.out) else { return false };
        let (mut filled, mut closed, mut more) = (0, false, true);
        while filled < READ_BYTES {
            match rustix::io::read(&talk.pipes.stdout, &mut buffer[filled..]) {
                Ok(0) => {
                    (closed, more) = (true, false);
                    break;
                }
                Ok(count) => {
                    filled += count;
                    if until == Until::Quiet {
                        more = false;
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    more = false;
                    break;
                }
            }
        }
        if closed {
            talk.hears.out = false;
            let _ = epoll::delete(&self.epoll, &talk.pipes.stdout);
        }
        if filled > 0 {
            self.take_output(&buffer[..filled]);
        }
        self.buffer = buffer;
        if closed {
            self.on_agent_silent();
        }
        more
    }

    /// File first: what was acted on must be there after a crash.
    fn take_output(&mut self, bytes: &[u8]) {
        let stored = self.store_output(bytes);
        self.understand(&bytes[..stored]);
        if stored < bytes.len() {
            self.unwritten = bytes[stored..].to_vec();
            self.listen_to_agent(false);
            self.retry_soon();
        }
    }

    /// Gives whole lines to the driver, and does what follows from them.
    pub(super) fn understand(&mut self, bytes: &[u8]) {
        let Some(talk) = &mut self.talk else { return };
        let mut out = Out::default();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            rest = &behind[1..];
            if std::mem::take(&mut talk.overlong) {
                let what =
                    format!("a line of the agent is longer than {MAX_LINE_BYTES} bytes; it is in the output");
                out.update(Update::Remark { what });
                talk.line = Vec::new();
                continue;
            }
            if talk.line.is_empty() {
                talk.driver.hear(line, &mut out);
            } else {
                talk.line.extend_from_slice(line);
                talk.driver.hear(&talk.line, &mut out);
                talk.line.clear();
            }
        }
        if talk.line.capacity() > READ_BYTES && talk.line.is_empty() {
            talk.line = Vec::new();
        }
        if talk.overlong || talk.line.len() + rest.len() > MAX_LINE_BYTES {
            talk.overlong = true;
            talk.line = Vec::new();
        } else {
            talk.line.extend_from_slice(rest);
        }
        self.heed(out);
    }

    /// Whether the disk has room for output again.
    pub(super) fn listen_to_agent(&mut self, on: bool) {
        let Some(talk) = &mut self.talk else { return };
        let data = epoll::EventData::new_u64(AGENT_OUT);
        if on && !talk.hears.out {
            talk.hears.out = epoll::add(&self.epoll, &talk.pipes.stdout, data, epoll::EventFlags::IN).is_ok();
        } else if !on && talk.hears.out {
            let _ = epoll::delete(&self.epoll, &talk.pipes.stdout);
            talk.hears.out = false;
        }
    }

    /// It closed its output. One that ends is reported by the kernel, a moment later; one that lives on is of
    /// no use.
    fn on_agent_silent(&mut self) {
        if let Some(talk) = &mut self.talk {
            talk.gone_by_ms = Some(clock::boot_ms() + SILENCE_MS);
        }
    }

    /// What the agent complained of last, as words to put behind a sentence.
    pub(super) fn complaint(&self) -> String {
        self.talk.as_ref().map(Talk::complained).unwrap_or_default()
    }

    /// Complaints are kept, bounded, and shown when something goes wrong.
    pub(super) fn on_complaints(&mut self) {
        let dir = self.dir.join(COMPLAINTS_DIR);
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.hears.err) else { return };
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(&talk.pipes.stderr, &mut buffer) {
            Ok(0) => {
                talk.hears.err = false;
                let _ = epoll::delete(&self.epoll, &talk.pipes.stderr);
            }
            Ok(count) => {
                talk.complaints.extend(&buffer[..count]);
                let surplus = talk.complaints.len().saturating_sub(COMPLAINT_BYTES);
                talk.complaints.drain(..surplus);
                if talk.complaint_log.is_none() {
                    talk.complaint_log = OutputLog::open(dir).ok();
                }
                // They explain, and prove nothing: a disk that does not take them loses no turn.
                if let Some(log) = &mut talk.complaint_log {
                    let _ = log.append(&buffer[..count], now());
                    let _ = log.sync_if_due(clock::boot_ms());
                }
            }
            Err(_) => {}
        }
    }

    /// Does what a driver wants, and reports what it learned.
    fn heed(&mut self, out: Out) {
        self.say(&out.bytes);
        let mut reports = Vec::new();
        for update in out.updates {
            self.learn(update, &mut reports);
        }
        self.report(reports);
    }

    fn learn(&mut self, update: Update, reports: &mut Vec<Observation>) {
        let session = &self.owner.history().session;
        let (epoch, current) = (session.epoch, session.turns.current.as_ref().map(|current| current.turn));
        match update {
            Update::Ready => {
                let proves = self.talk.as_ref().map(|talk| talk.driver.proves());
                let able = proves.map(|proves| Able { steer: proves.steer, resume: proves.resume });
                reports.push(Observation::AgentReady { epoch, able: able.unwrap_or_default() });
                self.remember_conversation();
            }
            Update::Conversation { id } => {
                self.extras.enters(&id);
                self.enter(id, reports);
            }
            Update::Model { model } => self.extras.uses(model),
            Update::Context { context } => self.extras.holds(context),
            Update::Began { turn } => reports.push(Observation::TurnBegan { turn }),
            Update::Said { text } => self.tell_said(current, &text),
            Update::Doing { activity } => self.tell_doing(current, activity),
            Update::Asks { ask } => reports.push(Observation::Asks { ask }),
            Update::Unasked { request } => reports.push(Observation::Unasked { request }),
            Update::Ended { turn, end } => {
                killpoint::reached("answered");
                self.forget_said(turn, current);
                reports.push(Observation::TurnOver { turn, end });
                self.remember_conversation();
            }
            Update::Late { turn, end } => reports.push(Observation::TurnOver { turn, end }),
            Update::Remark { what } => {
                // In its place among the others, but it changes nothing: a note that fails is not missed.
                let _ = self.take(vec![Input::Note(Event::Warned { what })]);
            }
            Update::Broken { trouble } if self.begins_anew(&trouble) => {}
            Update::Broken { trouble } => {
                let reason = self.describe(&trouble);
                reports.push(Observation::Broken { epoch, reason });
            }
        }
    }

    /// A conversation in which nothing was ever answered is not there: agents record none before the first prompt,
    /// and nobody knows whether they had that. Nothing is forgotten by beginning a new one.
    fn begins_anew(&mut self, trouble: &Trouble) -> bool {
        let Trouble::NoConversation { id } = trouble else { return false };
        let session = &self.owner.history().session;
        let (Some(spec), Some(talk)) = (&session.spec, &mut self.talk) else { return false };
        let mut out = Out::default();
        if super::conversation::has_a_past(session, spec) || !talk.driver.begin_anew(&spec.cwd, &mut out) {
            return false;
        }
        let what = format!("conversation {id} was never begun; the agent begins another one");
        let _ = self.take(vec![Input::Note(Event::Warned { what })]);
        self.say(&out.bytes);
        true
    }

    fn describe(&self, trouble: &Trouble) -> String {
        let handle = self.handle_name();
        match trouble {
            Trouble::NoConversation { id } => turn::no_conversation(id, &handle),
            Trouble::InUse { said } => format!("another program writes its conversation: {said}"),
            Trouble::NotLoggedIn { said } => {
                format!("it is not logged in: {said} (log in with its own command, or give it a key)")
            }
            Trouble::Protocol { said } => format!("{said}{}", self.complaint()),
        }
    }

    /// Says a prompt to it: a turn of its own, or something for the one it has.
    pub(super) fn say_to_agent(&mut self, turn: u64, text: &str, is_whole: bool) {
        let Some(talk) = &mut self.talk else { return };
        let mut out = Out::default();
        if is_whole {
            talk.said = String::new();
            talk.did = VecDeque::new();
            talk.driver.prompt(turn, text, &mut out);
        } else {
            talk.driver.steer(turn, text, &mut out);
        }
        self.heed(out);
        killpoint::reached("said");
    }

    pub(super) fn break_agent_off(&mut self, turn: u64) {
        let Some(talk) = &mut self.talk else { return };
        let mut out = Out::default();
        talk.driver.interrupt(turn, &mut out);
        self.heed(out);
    }

    pub(super) fn answer_agent(&mut self, request: &str, reply: &Reply) {
        let Some(talk) = &mut self.talk else { return };
        let mut out = Out::default();
        talk.driver.answer(request, reply, &mut out);
        self.heed(out);
    }

    /// Says goodbye and closes its input. `true`: it may leave by itself, so there is no hurry.
    pub(super) fn say_goodbye(&mut self) -> bool {
        let session = &self.owner.history().session;
        let is_busy = session.turns.current.is_some();
        let is_gone = matches!(&session.phase, Phase::Ending(ending) if ending.exit.is_some());
        let Some(talk) = &mut self.talk else { return false };
        if is_gone || talk.terminate_at_ms.is_some() {
            return false;
        }
        let mut out = Out::default();
        talk.driver.goodbye(&mut out);
        talk.words.extend(out.bytes);
        talk.terminate_at_ms = Some(clock::boot_ms() + GOODBYE_MS);
        self.write_words();
        if let Some(talk) = &mut self.talk {
            // What does not fit into the pipe now is not worth waiting for.
            talk.words.clear();
            if let Some(stdin) = talk.pipes.stdin.take() {
                let _ = epoll::delete(&self.epoll, &stdin);
            }
            self.renew_watchdog();
        }
        !is_busy
    }

    /// When something about the agent is due, on the boot clock.
    pub(super) fn agent_due_ms(&self) -> Option<u64> {
        let talk = self.talk.as_ref()?;
        let session = &self.owner.history().session;
        match session.phase {
            Phase::Running { .. } if talk.gone_by_ms.is_some() => talk.gone_by_ms,
            Phase::Starting | Phase::Running { .. } if session.turns.ready.is_none() => {
                Some(talk.ready_by_ms)
            }
            Phase::Ending(_) => talk.terminate_at_ms.filter(|_| !self.terminated),
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => None,
        }
    }

    pub(super) fn on_agent_time(&mut self) {
        let now = clock::boot_ms();
        if self.agent_due_ms().is_none_or(|due| due > now) {
            return;
        }
        let session = &self.owner.history().session;
        if matches!(session.phase, Phase::Ending(_)) {
            return self.terminate_tree();
        }
        let epoch = session.epoch;
        let Some(talk) = &mut self.talk else { return };
        let what = match talk.gone_by_ms.take() {
            Some(_) => "it closed its input or its output, and lives on".to_owned(),
            None => format!("it did not get ready within {} s", READY_PATIENCE.as_secs()),
        };
        talk.ready_by_ms = u64::MAX;
        let reason = format!("{what}{}", talk.complained());
        self.report(vec![Observation::Broken { epoch, reason }]);
    }

    fn say(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(talk) = self.talk.as_mut().filter(|talk| talk.pipes.stdin.is_some()) {
            talk.words.extend(bytes);
            self.write_words();
        }
        if self.talk.as_ref().is_some_and(|talk| talk.words.len() > MAX_WORDS_BYTES) {
            if let Some(talk) = &mut self.talk {
                talk.words.clear();
            }
            let epoch = self.owner.history().session.epoch;
            let reason = "it does not read its input".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        }
    }

    fn write_words(&mut self) {
        let Some(talk) = &mut self.talk else { return };
        let Some(stdin) = &talk.pipes.stdin else { return };
        while !talk.words.is_empty() {
            let (front, _) = talk.words.as_slices();
            match rustix::io::write(stdin, front) {
                Ok(count) => drop(talk.words.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // It does not listen any more. If it ends, that is reported by the kernel.
                Err(_) => {
                    talk.words.clear();
                    talk.gone_by_ms.get_or_insert(clock::boot_ms() + SILENCE_MS);
                }
            }
        }
        if talk.words.capacity() > READ_BYTES && talk.words.is_empty() {
            talk.words = VecDeque::new();
        }
        let wants_room = !talk.words.is_empty();
        if wants_room && let Some(watchdog) = &self.watchdog {
            // Half a line is with the agent, and a new image would not know the rest of it.
            watchdog.disarm();
        }
        if wants_room != talk.hears.room {
            talk.hears.room = wants_room;
            let data = epoll::EventData::new_u64(AGENT_IN);
            let _ = if wants_room {
                epoll::add(&self.epoll, stdin, data, epoll::EventFlags::OUT)
            } else {
                epoll::delete(&self.epoll, stdin)
            };
        }
    }

    /// How the turn of an agent that has ended came out. We heard everything it said.
    pub(super) fn fate_of_current(&self, exit: Option<berth_core::Exit>) -> Option<Observation> {
        let session = &self.owner.history().session;
        let current = session.turns.current.as_ref()?;
        let end = turn::of_dead_agent(self.owner.history(), &self.id, exit, &self.complaint())?;
        Some(Observation::TurnOver { turn: current.turn, end })
    }

    /// Gives up on the agent's pipes: the run is over.
    pub(super) fn stop_talking(&mut self) {
        let Some(talk) = self.talk.take() else { return };
        let forget = |fd: BorrowedFd<'_>| {
            let _ = epoll::delete(&self.epoll, fd);
        };
        if let Some(stdin) = &talk.pipes.stdin {
            forget(stdin.as_fd());
        }
        forget(talk.pipes.stdout.as_fd());
        forget(talk.pipes.stderr.as_fd());
        if let Some(mut log) = talk.complaint_log {
            let _ = log.finish();
        }
    }
}
