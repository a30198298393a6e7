//! The keeper's end of an agent on pipes: lines from it to its driver, the driver's words back, complaints to a file.
//!
//! Promise: reading and writing never block; an agent that writes lines without end, or garbage, costs a bounded buffer
//! and nothing else.
//! Not here: the meaning of lines (`berth_driver`), reactions to them (`agent_updates`), the
//! output files (`output_recorder`).
//! Start with [`AgentLink::read`], then [`AgentLink::understand`].

mod live_turn_output;
mod replay;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use berth_api::message::KeeperNotice;
use berth_core::{AgentCapabilities, ChosenReply, RunPhase, Session};
use berth_driver::{AgentActivity, AgentUpdate, ConversationStart, Driver, DriverOutput};
use berth_host::clock;
use berth_store::killpoint;
use berth_store::output::{OutputFiles, OutputLog};
use rustix::event::{PollFd, PollFlags, epoll};

use super::event_loop::{AGENT_IN, AGENT_OUT, Epoll};
use super::output_recorder::{OutputRead, READ_BYTES, ReadUntil};
use super::{last_lines, now};
use crate::agent_launch::pipes::AgentPipes;
use live_turn_output::LiveTurnOutput;
pub(super) use replay::ReplayedOutput;

/// The longest line of an agent that is parsed. A longer one is in the output only.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// The bytes of its error output that are kept in memory.
pub(super) const COMPLAINT_BYTES: usize = 8 * 1024;
/// The timeout for an agent to become ready for turns.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The bytes that may wait for an agent that does not read.
const MAX_WORDS_BYTES: usize = 16 * 1024 * 1024;
/// The time that an agent may live on after it closed its input or its output.
const SILENCE_MS: u64 = 2000;
/// The time that an idle agent may take to exit after its input is closed.
const GOODBYE_MS: u64 = 1000;

/// An agent on pipes.
#[derive(Debug)]
pub(super) struct AgentLink {
    epoll: Epoll,
    driver: Box<dyn Driver>,
    pipes: AgentPipes,
    /// Words on their way to the agent.
    words: VecDeque<u8>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// True while the line is too long to be understood.
    is_overlong: bool,
    live_turn: LiveTurnOutput,
    ended_turn: Option<u64>,
    is_held: bool,
    /// The last of its complaints.
    complaints: VecDeque<u8>,
    complaint_files: OutputFiles,
    /// The complaints of all runs; opened with the first one.
    complaint_log: Option<OutputLog>,
    watched: WatchedPipes,
    /// When the agent has to take turns, on the boot clock.
    ready_by_ms: u64,
    /// When the agent is asked to end less politely, on the boot clock.
    terminate_at_ms: Option<u64>,
    /// When an agent that closed its input or output has to be gone, on the boot clock.
    gone_by_ms: Option<u64>,
}

/// The pipes that the kernel watches, so that it is asked only on change.
#[derive(Clone, Copy, Debug, Default)]
struct WatchedPipes {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl AgentLink {
    /// Takes an agent's pipes into the loop.
    pub(super) fn new(
        epoll: Epoll,
        driver: Box<dyn Driver>,
        pipes: AgentPipes,
        complaint_files: OutputFiles,
    ) -> io::Result<Self> {
        let patience = killpoint::patience("BERTH_READY_MS", READY_PATIENCE);
        epoll.add_readable(&pipes.stdout, AGENT_OUT)?;
        epoll.add_readable(&pipes.stderr, AGENT_OUT)?;
        Ok(Self {
            epoll,
            driver,
            pipes,
            words: VecDeque::new(),
            line: Vec::new(),
            is_overlong: false,
            live_turn: LiveTurnOutput::default(),
            ended_turn: None,
            is_held: false,
            complaints: VecDeque::new(),
            complaint_files,
            complaint_log: None,
            watched: WatchedPipes { stdin: false, stdout: true, stderr: true },
            ready_by_ms: clock::boot_ms() + patience.as_millis() as u64,
            terminate_at_ms: None,
            gone_by_ms: None,
        })
    }

    /// The descriptors that a new image needs, by name.
    pub(super) fn named_fds(&self) -> Vec<(&'static str, RawFd)> {
        let stdin = self.pipes.stdin.as_ref().map(|stdin| ("in", stdin.as_raw_fd()));
        let rest = [("out", self.pipes.stdout.as_raw_fd()), ("err", self.pipes.stderr.as_raw_fd())];
        stdin.into_iter().chain(rest).collect()
    }

    /// Gives up on the agent's pipes: the run is over.
    pub(super) fn close(mut self) {
        if let Some(stdin) = &self.pipes.stdin {
            self.epoll.remove(stdin);
        }
        self.epoll.remove(&self.pipes.stdout);
        self.epoll.remove(&self.pipes.stderr);
        if let Some(log) = &mut self.complaint_log {
            let _ = log.finish();
        }
    }

    /// Stops hearing the agent during commits, or goes on with it. While the delivery of a turn is on its way to the disk,
    /// its place in the output and the turn that it may be added to must stay as they are.
    pub(super) fn hold(&mut self, on: bool) {
        self.is_held = on;
    }

    /// The pipes to wait for while a batch is in flight, with the tokens of their events.
    pub(super) fn polled(&self) -> Vec<(u64, PollFd<'_>)> {
        let WatchedPipes { stdin, stdout, stderr } = self.watched;
        let out =
            (stdout && !self.is_held).then(|| (AGENT_OUT, PollFd::new(&self.pipes.stdout, PollFlags::IN)));
        let err =
            (stderr && !self.is_held).then(|| (AGENT_OUT, PollFd::new(&self.pipes.stderr, PollFlags::IN)));
        let input = self.pipes.stdin.as_ref().filter(|_| stdin);
        let input = input.map(|stdin| (AGENT_IN, PollFd::new(stdin, PollFlags::OUT)));
        [out, err, input].into_iter().flatten().collect()
    }

    // Reading from the agent.

    /// Reads what the agent wrote.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, until: ReadUntil) -> OutputRead {
        let mut read = OutputRead::default();
        if !self.watched.stdout {
            return read;
        }
        buffer.resize(READ_BYTES, 0);
        read.has_more = true;
        while read.bytes < READ_BYTES {
            match rustix::io::read(&self.pipes.stdout, &mut buffer[read.bytes..]) {
                Ok(0) => {
                    (read.is_closed, read.has_more) = (true, false);
                    break;
                }
                Ok(count) => {
                    read.bytes += count;
                    if until == ReadUntil::Quiet {
                        read.has_more = false;
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    read.has_more = false;
                    break;
                }
            }
        }
        if read.is_closed {
            self.set_read(false);
        }
        read
    }

    /// Stops reading while output waits for room on the disk, or goes on.
    pub(super) fn set_read(&mut self, on: bool) {
        if on && !self.watched.stdout {
            self.watched.stdout = self.epoll.add_readable(&self.pipes.stdout, AGENT_OUT).is_ok();
        } else if !on && self.watched.stdout {
            self.epoll.remove(&self.pipes.stdout);
            self.watched.stdout = false;
        }
    }

    /// Passes whole lines to the driver. Returns the driver's reactions.
    pub(super) fn understand(&mut self, bytes: &[u8]) -> DriverOutput {
        let mut out = DriverOutput::default();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            rest = &behind[1..];
            if std::mem::take(&mut self.is_overlong) {
                let what =
                    format!("a line of the agent is longer than {MAX_LINE_BYTES} bytes; it is in the output");
                out.update(AgentUpdate::Remark { what });
                self.line = Vec::new();
                continue;
            }
            if self.line.is_empty() {
                self.driver.hear(line, &mut out);
            } else {
                self.line.extend_from_slice(line);
                self.driver.hear(&self.line, &mut out);
                self.line.clear();
            }
        }
        if self.line.capacity() > READ_BYTES && self.line.is_empty() {
            self.line = Vec::new();
        }
        if self.is_overlong || self.line.len() + rest.len() > MAX_LINE_BYTES {
            self.is_overlong = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(rest);
        }
        out
    }

    /// The agent closed its output. The kernel reports the end of an agent a moment later; an agent that lives
    /// on is useless.
    pub(super) fn note_silence(&mut self) {
        self.gone_by_ms = Some(clock::boot_ms() + SILENCE_MS);
    }

    /// Keeps complaints, bounded. They are shown when something goes wrong.
    pub(super) fn read_complaints(&mut self) {
        if !self.watched.stderr {
            return;
        }
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(&self.pipes.stderr, &mut buffer) {
            Ok(0) => {
                self.watched.stderr = false;
                self.epoll.remove(&self.pipes.stderr);
            }
            Ok(count) => {
                self.complaints.extend(&buffer[..count]);
                let surplus = self.complaints.len().saturating_sub(COMPLAINT_BYTES);
                self.complaints.drain(..surplus);
                if self.complaint_log.is_none() {
                    self.complaint_log = self.complaint_files.open_log().ok();
                }
                // Error output explains, and proves nothing: if the disk rejects it, no turn is lost.
                if let Some(log) = &mut self.complaint_log {
                    let _ = log.append(&buffer[..count], now());
                    let _ = log.sync_if_due(clock::boot_ms());
                }
            }
            Err(_) => {}
        }
    }

    /// The agent's last complaints, as words to put behind a sentence.
    pub(super) fn complaint(&self) -> String {
        if self.complaints.is_empty() {
            return String::new();
        }
        last_lines(&self.complaints.iter().copied().collect::<Vec<u8>>())
    }

    // Orders to the driver.

    /// Takes the conversation up.
    pub(super) fn begin(&mut self, begin: &ConversationStart, cwd: &str) -> DriverOutput {
        with_out(|out| self.driver.begin(begin, cwd, out))
    }

    /// Begins another conversation in place of one that is not there; `None` if the driver cannot.
    pub(super) fn begin_anew(&mut self, cwd: &str) -> Option<DriverOutput> {
        let mut out = DriverOutput::default();
        self.driver.begin_anew(cwd, &mut out).then_some(out)
    }

    /// Gives the agent a turn.
    pub(super) fn prompt(&mut self, turn: u64, text: &str) -> DriverOutput {
        self.live_turn.begin();
        with_out(|out| self.driver.prompt(turn, text, out))
    }

    /// Adds a turn to the one that the agent has.
    pub(super) fn steer(&mut self, turn: u64, text: &str) -> DriverOutput {
        with_out(|out| self.driver.steer(turn, text, out))
    }

    pub(super) fn interrupt(&mut self, turn: u64) -> DriverOutput {
        with_out(|out| self.driver.interrupt(turn, out))
    }

    pub(super) fn answer(&mut self, request: &str, reply: &ChosenReply) -> DriverOutput {
        with_out(|out| self.driver.answer(request, reply, out))
    }

    pub(super) fn able(&self) -> AgentCapabilities {
        let proves = self.driver.proves();
        AgentCapabilities { steer: proves.steer, resume: proves.resume }
    }

    /// True if the agent says itself that it has a turn.
    pub(super) fn proves_acceptance(&self) -> bool {
        self.driver.proves().accepted
    }

    // Writing to the agent.

    /// Queues words for the agent, and writes what it takes now. False if too many wait: the agent does not read.
    pub(super) fn say(&mut self, bytes: &[u8]) -> bool {
        if self.pipes.stdin.is_some() {
            self.words.extend(bytes);
            self.write_words();
        }
        let is_read = self.words.len() <= MAX_WORDS_BYTES;
        if !is_read {
            self.words.clear();
        }
        is_read
    }

    pub(super) fn write_words(&mut self) {
        let Some(stdin) = &self.pipes.stdin else { return };
        while !self.words.is_empty() {
            let (front, _) = self.words.as_slices();
            match rustix::io::write(stdin, front) {
                Ok(count) => drop(self.words.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // The agent does not read any more. If it ends, the kernel reports that.
                Err(_) => {
                    self.words.clear();
                    self.gone_by_ms.get_or_insert(clock::boot_ms() + SILENCE_MS);
                }
            }
        }
        if self.words.capacity() > READ_BYTES && self.words.is_empty() {
            self.words = VecDeque::new();
        }
        let wants_room = !self.words.is_empty();
        if wants_room != self.watched.stdin {
            self.watched.stdin = wants_room;
            if wants_room {
                let _ = self.epoll.add(stdin, AGENT_IN, epoll::EventFlags::OUT);
            } else {
                self.epoll.remove(stdin);
            }
        }
    }

    /// True while words are on their way: a new image would not know the rest of them.
    pub(super) fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// True once the agent was told goodbye.
    pub(super) fn is_leaving(&self) -> bool {
        self.terminate_at_ms.is_some()
    }

    /// Says goodbye and closes the agent's input.
    pub(super) fn say_goodbye(&mut self) {
        let goodbye = with_out(|out| self.driver.goodbye(out));
        self.words.extend(goodbye.bytes);
        self.terminate_at_ms = Some(clock::boot_ms() + GOODBYE_MS);
        self.write_words();
        // Bytes that do not fit into the pipe now are not worth waiting for.
        self.words.clear();
        if let Some(stdin) = self.pipes.stdin.take() {
            self.epoll.remove(&stdin);
        }
    }

    // Deadlines.

    /// The next deadline of the agent, on the boot clock. `was_terminated`: its process tree was asked to end.
    pub(super) fn due_ms(&self, session: &Session, was_terminated: bool) -> Option<u64> {
        match session.phase {
            RunPhase::Running { .. } if self.gone_by_ms.is_some() => self.gone_by_ms,
            RunPhase::Starting | RunPhase::Running { .. } if session.turns.ready.is_none() => {
                Some(self.ready_by_ms)
            }
            RunPhase::Ending(_) => self.terminate_at_ms.filter(|_| !was_terminated),
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => None,
        }
    }

    /// The reason why the agent is useless, once its deadline has passed. Returned once.
    pub(super) fn take_overdue(&mut self) -> String {
        let what = match self.gone_by_ms.take() {
            Some(_) => "it closed its input or its output, and lives on".to_owned(),
            None => format!("it did not get ready within {} s", READY_PATIENCE.as_secs()),
        };
        self.ready_by_ms = u64::MAX;
        format!("{what}{}", self.complaint())
    }

    // The current turn, for followers.

    pub(super) fn add_words(&mut self, text: &str) {
        self.live_turn.add_words(text);
    }

    /// Notes the agent's activity. True if it has changed.
    pub(super) fn note_activity(&mut self, activity: &AgentActivity, in_turn: bool) -> bool {
        self.live_turn.note_activity(activity, in_turn)
    }

    /// The activity of this moment, for people.
    pub(super) fn activity(&self) -> Option<String> {
        self.live_turn.activity()
    }

    /// The notices of the agent's turn so far.
    pub(super) fn notices_so_far(&self, turn: u64) -> Vec<KeeperNotice> {
        self.live_turn.notices(turn)
    }

    pub(super) fn end_turn(&mut self, turn: u64) {
        self.live_turn.end();
        self.ended_turn = Some(turn);
    }

    /// The turn whose end the agent reported last.
    pub(super) fn ended_turn(&self) -> Option<u64> {
        self.ended_turn
    }
}

fn with_out(drive: impl FnOnce(&mut DriverOutput)) -> DriverOutput {
    let mut out = DriverOutput::default();
    drive(&mut out);
    out
}
