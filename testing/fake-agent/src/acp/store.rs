//! The memory of an agent: one transcript for each session, as real agents have.
//!
//! Promise: a record is one line and one write to the end of the file, so the records of two processes never mix within
//! a line. The agent takes no lock, as most real agents take none: every record names its writer.
//! Not here: judging a transcript; that is the test's job.
//! Start with [`FakeTranscript`].

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How much of a prompt or an answer a record holds, so that a record stays one write.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The event that a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FakeRecordKind {
    /// The prompt was taken.
    Begin,
    /// The turn was finished.
    End,
    /// The turn was cancelled, or failed.
    Cut,
}

/// One line of a transcript.
#[derive(Debug, Serialize, Deserialize)]
struct FakeTranscriptRecord {
    /// Counts the records of this file, from 1, over all writers.
    n: u64,
    session: String,
    pid: u32,
    /// Counts the prompts of this session, from 1.
    turn: u64,
    kind: FakeRecordKind,
    prompt: String,
    answer: Option<String>,
    /// Nanoseconds on the monotonic clock.
    at: u64,
}

/// The transcript of one session in the process that has it open.
#[derive(Debug)]
pub(crate) struct FakeTranscript {
    id: String,
    file: Option<PathBuf>,
    last_n: u64,
    last_turn: u64,
}

/// A finished turn, as it was.
pub(crate) struct FakePastTurn {
    pub(crate) prompt: String,
    pub(crate) answer: String,
}

impl FakeTranscript {
    /// The transcript of a new session. The file is there once there is something in it, as with real agents.
    pub(crate) fn new(store: Option<&Path>, id: &str) -> Self {
        Self { id: id.to_owned(), file: store.map(|store| path_of(store, id)), last_n: 0, last_turn: 0 }
    }

    /// The transcript of a session that is there, with its history; `None` if it is not.
    pub(crate) fn open(store: Option<&Path>, id: &str) -> io::Result<Option<(Self, Vec<FakePastTurn>)>> {
        let mut transcript = Self::new(store, id);
        let Some(file) = &transcript.file else { return Ok(None) };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut history = Vec::new();
        // A torn line is skipped, as real agents do.
        for record in text.lines().filter_map(|line| serde_json::from_str::<FakeTranscriptRecord>(line).ok())
        {
            transcript.last_n = transcript.last_n.max(record.n);
            transcript.last_turn = transcript.last_turn.max(record.turn);
            if let (FakeRecordKind::End, Some(answer)) = (record.kind, record.answer) {
                history.push(FakePastTurn { prompt: record.prompt, answer });
            }
        }
        Ok(Some((transcript, history)))
    }

    /// A new one that begins with everything in this one.
    pub(crate) fn fork(&self, store: Option<&Path>, id: &str) -> io::Result<Self> {
        let fork = Self { last_n: self.last_n, last_turn: self.last_turn, ..Self::new(store, id) };
        if let (Some(from), Some(to)) = (&self.file, &fork.file) {
            std::fs::copy(from, to)?;
        }
        Ok(fork)
    }

    /// A prompt was taken.
    pub(crate) fn begin(&mut self, prompt: &str) -> io::Result<()> {
        self.last_turn += 1;
        self.append(FakeRecordKind::Begin, prompt, None)
    }

    /// Records the end of a turn.
    pub(crate) fn over(&mut self, kind: FakeRecordKind, prompt: &str, answer: &str) -> io::Result<()> {
        self.append(kind, prompt, Some(answer))
    }

    fn append(&mut self, kind: FakeRecordKind, prompt: &str, answer: Option<&str>) -> io::Result<()> {
        self.last_n += 1;
        let Some(file) = &self.file else { return Ok(()) };
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let record = FakeTranscriptRecord {
            n: self.last_n,
            session: self.id.clone(),
            pid: std::process::id(),
            turn: self.last_turn,
            kind,
            prompt: beginning(prompt).to_owned(),
            answer: answer.map(|answer| beginning(answer).to_owned()),
            at: u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("this clock began at 0"),
        };
        let mut line = serde_json::to_vec(&record).expect("a record is plain data");
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(file)?.write_all(&line)
    }
}

/// An id that is also a file name is one; anything else leads nowhere.
fn path_of(store: &Path, id: &str) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    store.join(if id.chars().all(plain) { format!("{id}.jsonl") } else { "no-such-session".to_owned() })
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
