//! Shared test helpers: an agent's directory, with the transcripts that a test needs.

pub(crate) mod copies;
pub(crate) mod talk;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use berth_test_dir::TestDir;
use berth_transcript::{GivenPrompt, TurnFate, turn_fate};

/// Id of every transcript in the tests. The contents name another id, which no test reads.
pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// The home directory of an agent.
pub(crate) struct TranscriptTestHome(pub(crate) TestDir);

impl TranscriptTestHome {
    pub(crate) fn new() -> Self {
        TranscriptTestHome(TestDir::new())
    }

    pub(crate) fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        let home = self.0.to_path_buf();
        move |name| (name == "HOME").then(|| home.clone().into_os_string())
    }

    /// Where an agent of this kind would have the transcript.
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        match kind {
            "claude" => self.0.join(format!(".claude/projects/-home-user-project/{ID}.jsonl")),
            "codex" => {
                self.0.join(format!(".codex/sessions/2026/11/16/rollout-2026-11-16T08-57-35-{ID}.jsonl"))
            }
            _ => panic!("no such kind"),
        }
    }

    pub(crate) fn write(&self, kind: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(kind);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn fate(&self, kind: &str, asked: &GivenPrompt<'_>) -> TurnFate {
        turn_fate(kind, ID, self.env(), asked)
    }
}

/// A transcript that a real agent wrote, shortened.
pub(crate) fn real(kind: &str, name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(kind);
    fs::read(dir.join(name).with_extension("jsonl")).unwrap()
}

/// The fate of a prompt by the words of these bytes.
pub(crate) fn fate_in(kind: &str, bytes: &[u8], asked: &GivenPrompt<'_>) -> TurnFate {
    let home = TranscriptTestHome::new();
    home.write(kind, bytes);
    home.fate(kind, asked)
}

pub(crate) fn done(answer: &str) -> TurnFate {
    TurnFate::Done { answer: answer.to_owned(), cut: false }
}

/// The variant, and the reason if there is one.
pub(crate) fn word(fate: &TurnFate) -> (&'static str, &str) {
    match fate {
        TurnFate::Done { answer, .. } => ("done", answer),
        TurnFate::Failed { why } => ("failed", why),
        TurnFate::Rejected { why } => ("rejected", why),
        TurnFate::Unfinished { why, .. } => ("unfinished", why),
        TurnFate::CannotTell { why } => ("cannot tell", why),
    }
}
