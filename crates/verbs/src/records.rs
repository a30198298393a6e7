//! The transcripts that agents keep themselves: finding the ones that are meant, and what can be asked of them.
//!
//! Promise: an original is only ever read.
//! Not here: what was said in a session of ours, as its keeper heard it (see `transcript`); what is in the files (see
//! `berth_transcript`).
//! Start with [`meant`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_keeper::turn;
use berth_keeper::writers::{self, Writer};
use berth_store::view;
use berth_transcript::check::Report;
use berth_transcript::{EveryFile, Kind, every_file};

use crate::ctx::Ctx;
use crate::foreign;
use crate::progress::Progress;

pub use berth_transcript::{allowance, check, repair, tree};

/// The files that are meant by a word: a path, a session of ours, or the id of a conversation (or how it begins).
pub fn meant(ctx: &Ctx, word: &str) -> Result<Vec<PathBuf>, Problem> {
    let path = Path::new(word);
    if word.contains('/') || path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_owned()]);
    }
    let id = match ctx.home.find(word) {
        Ok(id) => id,
        Err(problem) if problem.code == Code::NotFound => return kept(ctx, word),
        Err(problem) => return Err(problem),
    };
    of_session(ctx, &id, word)
}

/// The files of a session of ours, which people call so.
pub fn of_session(ctx: &Ctx, id: &SessionId, handle: &str) -> Result<Vec<PathBuf>, Problem> {
    let session = view::history(&ctx.home, id)?.session;
    let files = turn::conversation_files(&session).map_err(|why| Problem::new(Code::Refused, why))?;
    if files.is_empty() {
        let what = format!("the agent of session `{handle}` keeps no transcript that is known");
        return Err(Problem::new(Code::NotFound, what).hint("`berth export` has what its keeper heard"));
    }
    Ok(files)
}

/// The file of a conversation of an agent.
fn kept(ctx: &Ctx, word: &str) -> Result<Vec<PathBuf>, Problem> {
    let found = foreign::find(ctx, word, None).map_err(|problem| match problem.code {
        Code::NotFound => {
            let what = format!("`{word}` is neither a file, nor a session, nor the id of a conversation");
            Problem::new(Code::NotFound, what)
                .hint("name the file, a session of `berth ls --all` or an id of `berth transcript ls --all`")
        }
        _ => problem,
    })?;
    let nothing = || Problem::new(Code::NotFound, format!("nothing was said in {} yet", found.id));
    Ok(vec![found.file.clone().ok_or_else(nothing)?])
}

/// The one file that is meant.
pub fn one_meant(ctx: &Ctx, word: &str) -> Result<PathBuf, Problem> {
    let mut found = meant(ctx, word)?;
    match (found.pop(), found.pop()) {
        (Some(one), None) => Ok(one),
        (Some(one), Some(other)) => {
            let what = format!("`{word}` has two transcripts: {} and {}", one.display(), other.display());
            Err(Problem::new(Code::Usage, what).hint("name one of them"))
        }
        (None, _) => Err(Problem::new(Code::NotFound, format!("`{word}` has no transcript"))),
    }
}

/// Every transcript of every agent that is known, for whoever has this environment, and what could not be looked at.
pub fn all(env: impl Fn(&str) -> Option<OsString>) -> Result<EveryFile, Problem> {
    let mut all = EveryFile::default();
    for kind in Kind::ALL {
        let every = every_file(kind, &env).map_err(|why| Problem::new(Code::Refused, why))?;
        all.files.extend(every.files);
        all.damaged.extend(every.damaged);
    }
    Ok(all)
}

/// What became of looking at one file.
#[derive(Debug)]
pub enum Checked {
    /// It was looked at.
    Report(Box<Report>),
    /// It could not be.
    Unreadable {
        /** Which. */
        path: PathBuf,
        /** Why. */
        why: String,
    },
}

/// Looks at transcripts, one after the other. `told` gets what was found, as soon as it is.
pub fn check_files(
    files: &[PathBuf],
    progress: &dyn Progress,
    mut told: impl FnMut(Checked) -> Result<(), Problem>,
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
                Checked::Report(Box::new(report))
            }
            Err(why) => Checked::Unreadable { path: path.clone(), why },
        })?;
    }
    Ok(())
}

/// Who lives and has a transcript open, by the agent's own signs, ours included. Nobody if the file is not where an agent
/// keeps its own: then it is a copy.
pub fn holder(path: &Path) -> Option<Writer> {
    let own = berth_transcript::own(path)?;
    let variable = match own.kind {
        Kind::Claude => "CLAUDE_CONFIG_DIR",
        Kind::Codex => "CODEX_HOME",
    };
    let env = |name: &str| (name == variable).then(|| own.account.clone().into_os_string());
    // Who cannot be seen makes no claim: then a call without a result is told as what it looks like.
    writers::registered(own.kind.word(), &own.conversation?, env, |_| false).ok()?.into_iter().next()
}

/// The turns of a transcript and how they hang together.
pub fn tree_of(path: &Path, progress: &dyn Progress) -> Result<tree::Tree, Problem> {
    progress.begin(path.metadata().map_or(0, |file| file.len()) >> 20);
    let mut bytes = 0;
    let found = tree::tree(path, &mut |more| {
        let before = bytes >> 20;
        bytes += more;
        progress.add((bytes >> 20) - before);
    });
    found.map_err(|why| Problem::new(Code::Refused, why).hint("`berth transcript check` says what is in it"))
}

/// Makes a copy that is whole. With a new id a directory may be named: the copy is called as its agent calls it.
/// Who has the original open is told with it: what a tool of theirs may still give back is not made up, and that call
/// stays open in the copy.
pub fn repair_file(
    source: &Path,
    target: &Path,
    new_id: bool,
    wish: repair::Wish,
) -> Result<(repair::Repaired, Option<Writer>), Problem> {
    let new_id = new_id.then(random_id).transpose()?;
    let target = match &new_id {
        Some(id) if target.is_dir() => target.join(name_for(source, id)),
        Some(_) | None => target.to_owned(),
    };
    let holder = holder(source);
    let wish = repair::Wish { new_id, is_held: holder.is_some(), ..wish };
    let made = repair::repair(source, &target, &wish).map_err(|why| {
        let is_there = why.ends_with("is there already");
        let problem = Problem::new(Code::Refused, why);
        if is_there {
            problem.hint("choose another name, or replace it with --force; nothing was made")
        } else {
            problem.hint("nothing was made; `berth transcript check` says what is in it")
        }
    })?;
    Ok((made, holder))
}

/// A random UUID, as agents make them.
fn random_id() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if got.is_err() {
        return Err(Problem::new(Code::Refused, "cannot make an id: the system gives no random bytes"));
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// What an agent would call the transcript with this id: Codex has the time of the beginning in front of it.
fn name_for(source: &Path, id: &str) -> String {
    let stem = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match stem.len().checked_sub(36).and_then(|at| stem.get(..at)).filter(|stem| stem.starts_with("rollout-"))
    {
        Some(front) => format!("{front}{id}.jsonl"),
        None => format!("{id}.jsonl"),
    }
}
