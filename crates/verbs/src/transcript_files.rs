//! Agents' own transcripts: finding, checking and repairing them.
//!
//! Promise: an original is only ever read.
//! Not here: the dialogue of a session, as its keeper recorded it (see `transcript`); the contents of the files (see
//! `berth_transcript`).
//! Start with [`resolve_paths`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::{Problem, ProblemCode};
use berth_conversations::foreign_writers::{self, ForeignWriter};
use berth_conversations::location;
use berth_core::SessionId;
use berth_store::session_status;
use berth_transcript::check::TranscriptReport;
use berth_transcript::{AllTranscripts, TranscriptKind, every_file};

use crate::context::VerbContext;
use crate::foreign;
use crate::progress::ProgressSink;

pub use berth_transcript::{check, read_budget, repair, tree};

/// Finds transcripts by a word: a path, a session, or the id of a conversation (or a unique beginning of it).
pub fn resolve_paths(ctx: &VerbContext, word: &str) -> Result<Vec<PathBuf>, Problem> {
    let path = Path::new(word);
    if word.contains('/') || path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_owned()]);
    }
    let id = match ctx.home.find(word) {
        Ok(id) => id,
        Err(problem) if problem.code == ProblemCode::NotFound => return kept(ctx, word),
        Err(problem) => return Err(problem),
    };
    of_session(ctx, &id, word)
}

/// The transcripts of a session; `handle` is its name for messages.
pub fn of_session(ctx: &VerbContext, id: &SessionId, handle: &str) -> Result<Vec<PathBuf>, Problem> {
    let session = session_status::history(&ctx.home, id)?.session;
    let files = location::conversation_files(&session).map_err(Problem::refused)?;
    if files.is_empty() {
        let what = format!("the agent of session `{handle}` keeps no transcript that berth can read");
        return Err(Problem::not_found(what).hint("`berth export` exports what its keeper recorded"));
    }
    Ok(files)
}

/// The transcript of a conversation of an agent.
fn kept(ctx: &VerbContext, word: &str) -> Result<Vec<PathBuf>, Problem> {
    let found = foreign::find(ctx, word, None).map_err(|problem| match problem.code {
        ProblemCode::NotFound => {
            let what = format!("`{word}` is neither a file, nor a session, nor the id of a conversation");
            Problem::not_found(what)
                .hint("name the file, a session of `berth ls --all` or an id of `berth transcript ls --all`")
        }
        _ => problem,
    })?;
    let nothing = || Problem::not_found(format!("conversation {} is still empty", found.id));
    Ok(vec![found.file.clone().ok_or_else(nothing)?])
}

/// Finds the transcript if there is exactly one.
pub fn resolve_path(ctx: &VerbContext, word: &str) -> Result<PathBuf, Problem> {
    let mut found = resolve_paths(ctx, word)?;
    match (found.pop(), found.pop()) {
        (Some(one), None) => Ok(one),
        (Some(one), Some(other)) => {
            let what = format!("`{word}` has two transcripts: {} and {}", one.display(), other.display());
            Err(Problem::usage(what).hint("name one of them"))
        }
        (None, _) => Err(Problem::not_found(format!("`{word}` has no transcript"))),
    }
}

/// Every transcript of every known agent of the user with this environment, and the errors of directories that could
/// not be read.
pub fn all(env: impl Fn(&str) -> Option<OsString>) -> Result<AllTranscripts, Problem> {
    let mut all = AllTranscripts::default();
    for kind in TranscriptKind::ALL {
        let every = every_file(kind, &env).map_err(Problem::refused)?;
        all.files.extend(every.files);
        all.damaged.extend(every.damaged);
    }
    Ok(all)
}

/// Result of checking one transcript.
#[derive(Debug)]
pub enum CheckedTranscript {
    /// The transcript was checked.
    Report(Box<TranscriptReport>),
    /// The transcript could not be read.
    Unreadable {
        /** Path of the transcript. */
        path: PathBuf,
        /** Error in words. */
        why: String,
    },
}

/// Checks transcripts, one after the other. `told` gets each result as soon as it is there.
pub fn check_files(
    files: &[PathBuf],
    progress: &dyn ProgressSink,
    mut told: impl FnMut(CheckedTranscript) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let size = |path: &PathBuf| path.metadata().map_or(0, |file| file.len());
    progress.begin(files.iter().map(size).sum::<u64>() >> 20);
    let mut bytes = 0;
    for path in files {
        let found = check::check(path, &mut |more| {
            let before = bytes >> 20;
            bytes += more;
            progress.add((bytes >> 20) - before);
        });
        told(match found {
            Ok(mut report) => {
                if report.may_be_at_work()
                    && let Some(holder) = holder(path)
                {
                    report.is_held_by(&holder.line());
                }
                CheckedTranscript::Report(Box::new(report))
            }
            Err(why) => CheckedTranscript::Unreadable { path: path.clone(), why },
        })?;
    }
    Ok(())
}

/// The running process that has a transcript open, by the agent's transcripts, sessions of berth included. `None` if
/// the file is not where an agent keeps its transcripts: then it is a copy.
pub fn holder(path: &Path) -> Option<ForeignWriter> {
    let own = berth_transcript::agents_own_path(path)?;
    let variable = match own.kind {
        TranscriptKind::Claude => "CLAUDE_CONFIG_DIR",
        TranscriptKind::Codex => "CODEX_HOME",
    };
    let env = |name: &str| (name == variable).then(|| own.account.clone().into_os_string());
    // A process that cannot be seen makes no claim: a call without a result is then reported as a fault.
    foreign_writers::registered_writers(own.kind.word(), &own.conversation?, env, |_| false)
        .ok()?
        .into_iter()
        .next()
}

/// The turns of a transcript as a tree.
pub fn tree_of(path: &Path, progress: &dyn ProgressSink) -> Result<tree::ConversationTree, Problem> {
    progress.begin(path.metadata().map_or(0, |file| file.len()) >> 20);
    let mut bytes = 0;
    let found = tree::tree(path, &mut |more| {
        let before = bytes >> 20;
        bytes += more;
        progress.add((bytes >> 20) - before);
    });
    found.map_err(|what| Problem::refused(what).hint("`berth transcript check` says what is in it"))
}

/// Makes a repaired copy. With a new id the target may be a directory: the copy gets the name that the agent would give
/// it. `holder` is the process that has the original open: a tool of that process may still return a result, so none is
/// made up, and the call stays open in the copy.
pub fn repair_file(
    source: &Path,
    target: &Path,
    new_id: bool,
    options: repair::RepairOptions,
) -> Result<(repair::RepairResult, Option<ForeignWriter>), Problem> {
    let new_id = new_id.then(random_id).transpose()?;
    let target = match &new_id {
        Some(id) if target.is_dir() => target.join(name_for(source, id)),
        Some(_) | None => target.to_owned(),
    };
    let holder = holder(source);
    let options = repair::RepairOptions { new_id, is_held: holder.is_some(), ..options };
    let made = repair::repair(source, &target, &options).map_err(|why| {
        let is_there = why.ends_with("exists already");
        let problem = Problem::refused(why);
        if is_there {
            problem.hint("choose another name, or replace it with --force; nothing was written")
        } else {
            problem.hint("nothing was written; `berth transcript check` says what is in it")
        }
    })?;
    Ok((made, holder))
}

/// A random UUID, in the form that agents use.
fn random_id() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if got.is_err() {
        return Err(Problem::refused("cannot make an id: the system gives no random bytes"));
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// The file name that the agent would give a transcript with this id: Codex puts the time of the beginning in front of
/// it.
fn name_for(source: &Path, id: &str) -> String {
    let stem = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match stem.len().checked_sub(36).and_then(|at| stem.get(..at)).filter(|stem| stem.starts_with("rollout-"))
    {
        Some(front) => format!("{front}{id}.jsonl"),
        None => format!("{id}.jsonl"),
    }
}
