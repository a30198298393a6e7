//! What the tests share: a directory as an agent has it, with the transcripts in it that a test wants.

pub(crate) mod copies;
pub(crate) mod talk;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use berth_transcript::{Asked, Fate, fate};

/// The id that every transcript here gets. What is in it names another one, which nobody looks at.
pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// The home directory of an agent. Goes away with the test.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("berth-transcript-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Home(path)
    }

    pub(crate) fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        let home = self.0.clone();
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

    pub(crate) fn fate(&self, kind: &str, asked: &Asked<'_>) -> Fate {
        fate(kind, ID, self.env(), asked)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A transcript that a real agent wrote, shortened.
pub(crate) fn real(kind: &str, name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(kind);
    fs::read(dir.join(name).with_extension("jsonl")).unwrap()
}

/// What became of a prompt by the words of these bytes.
pub(crate) fn fate_in(kind: &str, bytes: &[u8], asked: &Asked<'_>) -> Fate {
    let home = Home::new();
    home.write(kind, bytes);
    home.fate(kind, asked)
}

pub(crate) fn done(answer: &str) -> Fate {
    Fate::Done { answer: answer.to_owned(), cut: false }
}

/// The variant, and the reason if there is one.
pub(crate) fn word(fate: &Fate) -> (&'static str, &str) {
    match fate {
        Fate::Done { answer, .. } => ("done", answer),
        Fate::Failed { why } => ("failed", why),
        Fate::Rejected { why } => ("rejected", why),
        Fate::Unfinished { why, .. } => ("unfinished", why),
        Fate::CannotTell { why } => ("cannot tell", why),
    }
}
