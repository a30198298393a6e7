//! History of an agent's transcript: copies from the end of each turn, and restoring them.
//!
//! Promise: an existing file is never overwritten; a restored file has the contents of the copy, by its hash, and
//! appears whole or not at all. A failed restore leaves no files, so that the next one starts from the same state.
//! Not here: the copies (`berth_conversations::transcript_copies`), the time of copying (the keeper's
//! `transcript_copier`).
//! Start with [`read_history`], then [`restore_history`].

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::status::Timestamp;
use berth_api::{Problem, SessionStatus};
use berth_conversations::transcript_copies::{CopyLimit, SizeMark, TranscriptCopies, TranscriptCopy};
use berth_core::{CallerAction, Conversation, SessionId, SessionSpec};
use berth_keeper::keeper::transcript_copier::{self, KEEP_VARIABLE};
use berth_store::StateDir;

use crate::sweep::SweepReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Config;
use crate::context::VerbContext;

/// History of a session's conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionHistory {
    /// Id that the agent gave the conversation.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// The agent's own file; null if there is none.
    pub original: Option<HistoryOriginal>,
    /// States that can be restored, the oldest first.
    pub points: Vec<HistoryPoint>,
    /// Reason why no more copies are made; null if they are.
    pub full: Option<String>,
}

/// File that an agent writes its conversation to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoryOriginal")]
pub struct HistoryOriginal {
    /// Path of the file when it was last copied.
    pub path: PathBuf,
    /// Size of the file in bytes; null if it does not exist any more.
    pub size: Option<u64>,
}

/// State of a transcript at some time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoryPoint")]
pub struct HistoryPoint {
    /// Number of the state, for `berth restore S --history --at N`.
    pub number: u64,
    /// Time of the copy.
    pub at: Timestamp,
    /// Turn at whose end the copy was made; null if berth did not send that turn.
    pub turn: Option<u64>,
    /// Size of the transcript, in bytes.
    pub size: u64,
    /// Number of sub-agents' files beside the transcript.
    pub beside: u64,
}

/// Result of a restore.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RestoredHistory")]
pub struct RestoredHistory {
    /// State that was restored.
    pub point: HistoryPoint,
    /// Files that were written, the transcript first.
    pub files: Vec<PathBuf>,
    /// Sub-agents' files that existed already, and stay unchanged.
    pub there: Vec<PathBuf>,
}

/// Reads the history of a session's conversation.
pub fn read_history(ctx: &VerbContext, id: &SessionId) -> Result<SessionHistory, Problem> {
    let status = ctx.known(id)?.0;
    let (kind, native) = conversation(&status)?;
    let copies = TranscriptCopies::of(ctx.home.root());
    let all = listed(&copies, kind, native)?;
    let original = all.iter().rev().find(|copy| copy.name.is_empty()).map(|copy| {
        let size = fs::metadata(&copy.original).ok().map(|found| found.len());
        HistoryOriginal { path: copy.original.clone(), size }
    });
    let points = marks(&all).into_iter().map(|(point, ..)| point).collect();
    Ok(SessionHistory { conversation: native.to_owned(), original, points, full: copies.full() })
}

/// Restores a transcript to where the agent looks for it, or writes it to `to`. Without a number the last state is
/// restored.
pub fn restore_history(
    ctx: &VerbContext,
    id: &SessionId,
    number: Option<u64>,
    to: Option<&Path>,
) -> Result<RestoredHistory, Problem> {
    ctx.may(CallerAction::Resume { takes: false }, id)?;
    let status = ctx.status(id)?;
    let handle = status.handle().to_owned();
    let (kind, native) = conversation(&status)?;
    let copies = TranscriptCopies::of(ctx.home.root());
    let all = listed(&copies, kind, native)?;
    let points = marks(&all);
    let none = || {
        let what = match number {
            Some(number) => format!("the history of session `{handle}` has no point {number}"),
            None => format!("there is no history of session `{handle}`"),
        };
        Problem::not_found(what).hint(format!("`berth history {handle}` shows what there is"))
    };
    let chosen = match number {
        Some(number) => points.into_iter().find(|(point, ..)| point.number == number),
        None => points.into_iter().next_back(),
    };
    let (point, main, mark) = chosen.ok_or_else(none)?;
    if to.is_none() && status.keeper_pid.is_some() {
        let what = format!("session `{handle}` runs, and berth does not touch the files of a running agent");
        return Err(Problem::held(what)
            .hint(format!("write it elsewhere with --to FILE, or `berth stop {handle}` first")));
    }
    let place = to.unwrap_or(&main.original);
    let mut wanted = vec![(place.to_owned(), main, mark.size)];
    // The folder has the file's name without its ending; a file without an ending gets another folder name.
    let folder = match place.extension() {
        Some(_) => place.with_extension(""),
        None => place.with_extension("d"),
    };
    for (copy, size) in files_beside(&all, mark) {
        wanted.push((folder.join(&copy.name), copy, size));
    }
    if fs::symlink_metadata(place).is_ok() {
        let what = format!("{} exists already, and is not overwritten", place.display());
        return Err(Problem::held(what).hint("write it elsewhere with --to FILE"));
    }
    let (files, there) = write_restored(&copies, &wanted).map_err(|(path, error)| {
        let what = format!("cannot write {}: {error}", path.display());
        Problem::refused(what)
            .hint(format!("existing files are unchanged; `berth history {handle}` shows other points to try"))
    })?;
    Ok(RestoredHistory { point, files, there })
}

/// Writes files, the first of them last: an agent that finds the transcript finds the rest. Existing files of
/// sub-agents are skipped: they belong to the agent. Returns the written files, and the existing ones.
fn write_restored(
    copies: &TranscriptCopies,
    wanted: &[(PathBuf, &TranscriptCopy, u64)],
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), (PathBuf, io::Error)> {
    let (mut files, mut there) = (Vec::new(), Vec::new());
    for (number, (path, copy, size)) in wanted.iter().enumerate().rev() {
        match write_new(copies, copy, *size, path) {
            Ok(()) => files.insert(0, path.clone()),
            Err(_) if number > 0 && fs::symlink_metadata(path).is_ok() => there.insert(0, path.clone()),
            Err(error) => {
                // These files were just written by us, and are useless without the transcript.
                files.iter().for_each(|file| drop(fs::remove_file(file)));
                return Err((path.clone(), error));
            }
        }
    }
    Ok((files, there))
}

/// The last part of a sweep: deletes data that no copy needs, and copies beyond the limit of the config file. Does
/// nothing while another process copies, or if the sweep could not examine something.
pub fn tidy_history(home: &StateDir, report: &mut SweepReport) {
    if report.dry_run || !report.failed.is_empty() {
        return;
    }
    match TranscriptCopies::of(home.root()).tidy(CopyLimit(Config::load_or_default().history.limit_bytes)) {
        Ok(tidied) => report.history = tidied,
        Err(error) => {
            report.damaged.push(format!("cannot examine the history; nothing of it was deleted: {error}"))
        }
    }
}

/// Copies a conversation that was imported, so that its agent may delete the original from then on. If that fails, the
/// first turn copies it.
pub(crate) fn copy_now(
    ctx: &VerbContext,
    status: &SessionStatus,
    spec: &SessionSpec,
    conversation: &Conversation,
) {
    let Some(id) = SessionId::parse(&status.id).filter(|_| Config::load_or_default().history.keep) else {
        return;
    };
    if let Err(error) = transcript_copier::copy_now(ctx.home.root(), &id, spec, conversation) {
        tracing::warn!(%error, session = status.id, "the transcript is not copied");
    }
}

/// Variables that give a new keeper the settings of the config file.
pub(crate) fn variables() -> Vec<(String, String)> {
    let keep = Config::load_or_default().history.keep;
    if keep { vec![] } else { vec![(KEEP_VARIABLE.to_owned(), "off".to_owned())] }
}

fn conversation(status: &SessionStatus) -> Result<(&str, &str), Problem> {
    let kind = status.what.conversation.as_str();
    match &status.conversation_id {
        Some(native) if !kind.is_empty() => Ok((kind, native)),
        _ => Err(Problem::not_found(format!(
            "session `{}` has no conversation of an agent yet",
            status.handle()
        ))
        .hint("berth keeps a history of sessions of Claude Code and Codex, from their first turn on")),
    }
}

fn listed(copies: &TranscriptCopies, kind: &str, native: &str) -> Result<Vec<TranscriptCopy>, Problem> {
    copies.list(kind, native).map_err(|error| {
        Problem::refused(format!("cannot read the history: {error}"))
            .hint("nothing is deleted meanwhile; if you cannot repair the named file, move it away")
    })
}

/// Every state of the transcript itself, in the order of copying, with the copy that has it.
fn marks(all: &[TranscriptCopy]) -> Vec<(HistoryPoint, &TranscriptCopy, SizeMark)> {
    let main = all.iter().filter(|copy| copy.name.is_empty());
    let mut marks: Vec<(&TranscriptCopy, SizeMark)> =
        main.flat_map(|copy| copy.marks.iter().map(move |mark| (copy, *mark))).collect();
    // The states of one copy stay in their order: no clock is used.
    marks.sort_by_key(|(copy, mark)| (mark.order, copy.number));
    let point = |at: usize, mark: SizeMark| HistoryPoint {
        number: at as u64 + 1,
        at: Timestamp(mark.at_ms),
        turn: mark.turn,
        size: mark.size,
        beside: files_beside(all, mark).len() as u64,
    };
    marks.into_iter().enumerate().map(|(at, (copy, mark))| (point(at, mark), copy, mark)).collect()
}

/// The files beside a transcript at that time.
fn files_beside(all: &[TranscriptCopy], when: SizeMark) -> Vec<(&TranscriptCopy, u64)> {
    let mut found: Vec<(&TranscriptCopy, u64)> = Vec::new();
    for copy in all.iter().filter(|copy| !copy.name.is_empty()) {
        // Without an order number the clock decides.
        let is_before =
            |mark: &&SizeMark| mark.order <= when.order && (when.order > 0 || mark.at_ms <= when.at_ms);
        let Some(mark) = copy.marks.iter().rev().find(is_before) else { continue };
        found.retain(|(other, _)| other.name != copy.name);
        found.push((copy, mark.size));
    }
    found
}

/// Creates a file, whole or not at all.
fn write_new(copies: &TranscriptCopies, copy: &TranscriptCopy, size: u64, path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    // Other threads of this process may write the same file.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = dir.join(format!(".{name}.{}-{number}.berth", std::process::id()));
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = (|| {
        let mut to = BufWriter::new(file);
        copies.write(copy, size, &mut to)?;
        to.flush()?;
        to.get_ref().sync_all()?;
        // Unlike a rename, this fails if another process created the file meanwhile.
        fs::hard_link(&temporary, path)
    })();
    let _ = fs::remove_file(&temporary);
    written
}

#[cfg(test)]
mod tests {
    use berth_conversations::transcript_copies::{CopyCheck, CopySource};
    use berth_harness::TestDir;

    use super::*;

    #[test]
    fn the_last_point_is_the_last_copy_even_if_the_clock_went_back() {
        let root = TestDir::new();
        let (main, beside) = (root.join("x.jsonl"), root.join("agent.jsonl"));
        let copies = TranscriptCopies::of(&root);
        // The clock is set back between the two.
        for (turn, at_ms) in [(1, 9000), (2, 1000)] {
            fs::write(&main, "x".repeat(turn)).expect("a file");
            fs::write(&beside, "y".repeat(turn)).expect("a file");
            let mut taking = copies.begin("claude", "x").expect("a list");
            for (name, path) in [("", &main), ("subagents/agent.jsonl", &beside)] {
                let source = CopySource { kind: "claude", id: "x", session: "s", name, path };
                taking.take(&source, (at_ms, Some(turn as u64)), CopyCheck::Whole).expect("a copy");
            }
        }
        let all = copies.list("claude", "x").expect("copies");
        let points: Vec<_> =
            marks(&all).into_iter().map(|(point, _, mark)| (point.turn, beside_sizes(&all, mark))).collect();
        assert_eq!(points, [(Some(1), vec![1]), (Some(2), vec![2])]);
    }

    #[test]
    fn a_failed_restore_leaves_nothing_and_existing_files_are_skipped() {
        let root = TestDir::new();
        let file = root.join("x.jsonl");
        fs::write(&file, "copied").expect("a file");
        let copies = TranscriptCopies::of(&root);
        let source = CopySource { kind: "claude", id: "x", session: "s", name: "", path: &file };
        copies.take(&source, (1, None), CopyCheck::Whole).expect("a copy");
        let copy = copies.list("claude", "x").expect("copies").remove(0);
        let (one, two) = (root.join("back/subagents/one.jsonl"), root.join("back/subagents/two.jsonl"));
        let wanted = |main: PathBuf| [main, one.clone(), two.clone()].map(|path| (path, &copy, 6));
        let text = |path: &Path| fs::read_to_string(path).ok();
        // No file system has names of that length: it fails like a full disk.
        let (path, _) =
            write_restored(&copies, &wanted(root.join("x".repeat(300)))).expect_err("no such name");
        assert!(path.ends_with("x".repeat(300)) && text(&one).is_none() && text(&two).is_none());
        fs::write(&two, "there").expect("a file");
        let main = root.join("back.jsonl");
        let (files, there) = write_restored(&copies, &wanted(main.clone())).expect("it is put back");
        assert_eq!((files, there), (vec![main.clone(), one.clone()], vec![two.clone()]));
        assert_eq!((text(&one).as_deref(), text(&two).as_deref()), (Some("copied"), Some("there")));
        // An existing transcript is an error; and an existing file is not ours to remove.
        let (path, error) = write_restored(&copies, &wanted(main.clone())).expect_err("it is there");
        assert_eq!((path, error.kind()), (main, io::ErrorKind::AlreadyExists));
        assert!(text(&one).is_some() && text(&two).is_some());
    }

    fn beside_sizes(all: &[TranscriptCopy], when: SizeMark) -> Vec<u64> {
        files_beside(all, when).into_iter().map(|(_, size)| size).collect()
    }

    #[test]
    fn two_restores_of_one_state_at_once_do_not_disturb_each_other() {
        let root = TestDir::new();
        let main = root.join("x.jsonl");
        fs::write(&main, vec![b'x'; 1 << 20]).expect("a file");
        let copies = TranscriptCopies::of(&root);
        let source = CopySource { kind: "claude", id: "x", session: "s", name: "", path: &main };
        copies.take(&source, (1, None), CopyCheck::Whole).expect("a copy");
        let copy = copies.list("claude", "x").expect("copies").remove(0);
        for round in 0..20 {
            let to = root.join(format!("back-{round}"));
            let both: Vec<io::Result<()>> = std::thread::scope(|scope| {
                let one = || write_new(&copies, &copy, 1 << 20, &to);
                let both = [scope.spawn(one), scope.spawn(one)];
                both.map(|thread| thread.join().expect("no panic")).into()
            });
            let refused = both.iter().filter_map(|one| one.as_ref().err()).map(io::Error::kind);
            assert_eq!(refused.collect::<Vec<_>>(), [io::ErrorKind::AlreadyExists]);
            assert_eq!(fs::metadata(&to).expect("a file").len(), 1 << 20);
        }
    }
}
