//! What an agent's transcript was at the end of each turn, and putting that back.
//!
//! Promise: a file that is there is never written over; what is put back is what was copied, by its hash, and
//! appears whole or not at all. Who fails leaves nothing, so that the next try begins where this one did.
//! Not here: the copies (`berth_keeper::copies`), when they are made (the keeper's `transcript_copies`).
//! Start with [`of`], then [`restore`].

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::status::Timestamp;
use berth_api::{Code, Problem, Status};
use berth_core::{Conversation, Deed, SessionId, Spec};
use berth_keeper::copies::{Copies, Copy, Limit, Mark};
use berth_keeper::keeper::transcript_copies::{self, KEEP_VARIABLE};
use berth_keeper::sweep::Report;
use berth_store::Home;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Config;
use crate::ctx::Ctx;

/// What is kept of a session's conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct History {
    /// The conversation, by the agent's own id.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// The agent's own file.
    pub original: Option<Original>,
    /// What the copies can give back, the oldest first.
    pub points: Vec<Point>,
    /// Why nothing more is copied at the moment.
    pub full: Option<String>,
}

/// The file an agent writes its conversation to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoryOriginal")]
pub struct Original {
    /// Where it was when it was last copied.
    pub path: PathBuf,
    /// How large it is; nothing if it is gone.
    pub size: Option<u64>,
}

/// A transcript as it was at some time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoryPoint")]
pub struct Point {
    /// To ask for it.
    pub number: u64,
    /// When it was copied.
    pub at: Timestamp,
    /// After which turn; nothing if it was not the end of one that berth gave.
    pub turn: Option<u64>,
    /// How large the transcript was.
    pub size: u64,
    /// How many files of other agents it had beside it.
    pub beside: u64,
}

/// What was put back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RestoredHistory")]
pub struct Restored {
    /// Which.
    pub point: Point,
    /// The files that were written, the transcript first.
    pub files: Vec<PathBuf>,
    /// Files of other agents that were there already, and stay as they are.
    pub there: Vec<PathBuf>,
}

/// What is kept of a session's conversation.
pub fn of(ctx: &Ctx, id: &SessionId) -> Result<History, Problem> {
    let status = ctx.known(id)?.0;
    let (kind, native) = conversation(&status)?;
    let copies = Copies::of(ctx.home.root());
    let all = listed(&copies, kind, native)?;
    let original = all.iter().rev().find(|copy| copy.name.is_empty()).map(|copy| {
        let size = fs::metadata(&copy.original).ok().map(|found| found.len());
        Original { path: copy.original.clone(), size }
    });
    let points = marks(&all).into_iter().map(|(point, ..)| point).collect();
    Ok(History { conversation: native.to_owned(), original, points, full: copies.full() })
}

/// Puts a transcript back to where the agent looks for it, or writes it to `to`. The last one if none is chosen.
pub fn restore(
    ctx: &Ctx,
    id: &SessionId,
    number: Option<u64>,
    to: Option<&Path>,
) -> Result<Restored, Problem> {
    ctx.may(Deed::Resume { takes: false }, id)?;
    let status = ctx.status(id)?;
    let handle = status.handle().to_owned();
    let (kind, native) = conversation(&status)?;
    let copies = Copies::of(ctx.home.root());
    let all = listed(&copies, kind, native)?;
    let points = marks(&all);
    let none = || {
        let what = match number {
            Some(number) => format!("the history of session `{handle}` has no point {number}"),
            None => format!("there is no history of session `{handle}`"),
        };
        Problem::new(Code::NotFound, what).hint(format!("`berth history {handle}` shows what there is"))
    };
    let chosen = match number {
        Some(number) => points.into_iter().find(|(point, ..)| point.number == number),
        None => points.into_iter().next_back(),
    };
    let (point, main, mark) = chosen.ok_or_else(none)?;
    if to.is_none() && status.keeper_pid.is_some() {
        let what = format!("session `{handle}` runs, and its agent's files are left alone");
        return Err(Problem::new(Code::Held, what)
            .hint(format!("write it elsewhere with --to FILE, or `berth stop {handle}` first")));
    }
    let place = to.unwrap_or(&main.original);
    let mut wanted = vec![(place.to_owned(), main, mark.size)];
    // The folder has the file's name without its ending; what has none gets another.
    let folder = match place.extension() {
        Some(_) => place.with_extension(""),
        None => place.with_extension("d"),
    };
    for (copy, size) in beside(&all, mark) {
        wanted.push((folder.join(&copy.name), copy, size));
    }
    if fs::symlink_metadata(place).is_ok() {
        let what = format!("{} is there already, and is not written over", place.display());
        return Err(Problem::new(Code::Held, what).hint("write it elsewhere with --to FILE"));
    }
    let (files, there) = put_back(&copies, &wanted).map_err(|(path, error)| {
        let what = format!("cannot write {}: {error}", path.display());
        Problem::new(Code::Refused, what)
            .hint(format!("what was there is untouched; `berth history {handle}` shows other points to try"))
    })?;
    Ok(Restored { point, files, there })
}

/// Writes files, the first of them last: an agent that finds the transcript finds the rest. Others that are there are
/// passed over: whatever is in them is the agent's. Which were written, and which were there.
fn put_back(
    copies: &Copies,
    wanted: &[(PathBuf, &Copy, u64)],
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), (PathBuf, io::Error)> {
    let (mut files, mut there) = (Vec::new(), Vec::new());
    for (number, (path, copy, size)) in wanted.iter().enumerate().rev() {
        match write_new(copies, copy, *size, path) {
            Ok(()) => files.insert(0, path.clone()),
            Err(_) if number > 0 && fs::symlink_metadata(path).is_ok() => there.insert(0, path.clone()),
            Err(error) => {
                // Ours, of just now: without the transcript they are of no use to anybody.
                files.iter().for_each(|file| drop(fs::remove_file(file)));
                return Err((path.clone(), error));
            }
        }
    }
    Ok((files, there))
}

/// A sweep's last part: takes away what no copy needs, and copies beyond the limit of the config file. Nothing if
/// somebody copies just now, or if something that the sweep wanted to know could not be found out.
pub fn tidy(home: &Home, report: &mut Report) {
    if report.dry_run || !report.failed.is_empty() {
        return;
    }
    match Copies::of(home.root()).tidy(Limit(Config::load_or_default().history.limit_bytes)) {
        Ok(tidied) => report.history = tidied,
        Err(error) => report.damaged.push(format!("history, of which nothing was deleted: {error}")),
    }
}

/// Copies a conversation that was imported, so that its agent may clean up from then on. If that fails, its first turn
/// does it.
pub(crate) fn copy_now(ctx: &Ctx, status: &Status, spec: &Spec, conversation: &Conversation) {
    let Some(id) = SessionId::parse(&status.id).filter(|_| Config::load_or_default().history.keep) else {
        return;
    };
    if let Err(error) = transcript_copies::copy_now(ctx.home.root(), &id, spec, conversation) {
        tracing::warn!(%error, session = status.id, "the transcript is not copied");
    }
}

/// What a keeper is told of the config file when it is started.
pub(crate) fn variables() -> Vec<(String, String)> {
    let keep = Config::load_or_default().history.keep;
    if keep { vec![] } else { vec![(KEEP_VARIABLE.to_owned(), "off".to_owned())] }
}

fn conversation(status: &Status) -> Result<(&str, &str), Problem> {
    let kind = status.what.conversation.as_str();
    match &status.conversation_id {
        Some(native) if !kind.is_empty() => Ok((kind, native)),
        _ => Err(Problem::new(
            Code::NotFound,
            format!("session `{}` has no conversation of an agent yet", status.handle()),
        )
        .hint("history is kept of sessions of Claude Code and Codex, from their first turn on")),
    }
}

fn listed(copies: &Copies, kind: &str, native: &str) -> Result<Vec<Copy>, Problem> {
    copies.list(kind, native).map_err(|error| {
        Problem::new(Code::Refused, format!("the history cannot be read: {error}"))
            .hint("nothing is deleted while that is so; move the file it names away if you cannot mend it")
    })
}

/// Every state of the transcript itself, in the order in which they were copied, with what has it.
fn marks(all: &[Copy]) -> Vec<(Point, &Copy, Mark)> {
    let main = all.iter().filter(|copy| copy.name.is_empty());
    let mut marks: Vec<(&Copy, Mark)> =
        main.flat_map(|copy| copy.marks.iter().map(move |mark| (copy, *mark))).collect();
    // Those of one copy are in order, and stay in it: no clock is asked.
    marks.sort_by_key(|(copy, mark)| (mark.order, copy.number));
    let point = |at: usize, mark: Mark| Point {
        number: at as u64 + 1,
        at: Timestamp(mark.at_ms),
        turn: mark.turn,
        size: mark.size,
        beside: beside(all, mark).len() as u64,
    };
    marks.into_iter().enumerate().map(|(at, (copy, mark))| (point(at, mark), copy, mark)).collect()
}

/// The files beside a transcript as they were at that time.
fn beside(all: &[Copy], when: Mark) -> Vec<(&Copy, u64)> {
    let mut found: Vec<(&Copy, u64)> = Vec::new();
    for copy in all.iter().filter(|copy| !copy.name.is_empty()) {
        // Where there is no order there is still a clock.
        let is_before =
            |mark: &&Mark| mark.order <= when.order && (when.order > 0 || mark.at_ms <= when.at_ms);
        let Some(mark) = copy.marks.iter().rev().find(is_before) else { continue };
        found.retain(|(other, _)| other.name != copy.name);
        found.push((copy, mark.size));
    }
    found
}

/// Writes a file that is not there, whole or not at all.
fn write_new(copies: &Copies, copy: &Copy, size: u64, path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    // Others of this process may write the same.
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
        // Unlike renaming, this fails if somebody made the file meanwhile.
        fs::hard_link(&temporary, path)
    })();
    let _ = fs::remove_file(&temporary);
    written
}

#[cfg(test)]
mod tests {
    use berth_keeper::copies::{Look, Source};

    use super::*;

    #[test]
    fn the_last_point_is_what_was_copied_last_whatever_the_clock_said() {
        let root = std::env::temp_dir().join(format!("berth-points-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        let (main, beside) = (root.join("x.jsonl"), root.join("agent.jsonl"));
        let copies = Copies::of(&root);
        // The clock is set back between the two.
        for (turn, at_ms) in [(1, 9000), (2, 1000)] {
            fs::write(&main, "x".repeat(turn)).expect("a file");
            fs::write(&beside, "y".repeat(turn)).expect("a file");
            let mut taking = copies.begin("claude", "x").expect("a list");
            for (name, path) in [("", &main), ("subagents/agent.jsonl", &beside)] {
                let source = Source { kind: "claude", id: "x", session: "s", name, path };
                taking.take(&source, (at_ms, Some(turn as u64)), Look::Whole).expect("a copy");
            }
        }
        let all = copies.list("claude", "x").expect("copies");
        let points: Vec<_> =
            marks(&all).into_iter().map(|(point, _, mark)| (point.turn, beside_sizes(&all, mark))).collect();
        assert_eq!(points, [(Some(1), vec![1]), (Some(2), vec![2])]);
        fs::remove_dir_all(&root).expect("our own directory");
    }

    #[test]
    fn who_fails_leaves_nothing_and_what_is_there_is_passed_over() {
        let root = std::env::temp_dir().join(format!("berth-put-back-all-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        let file = root.join("x.jsonl");
        fs::write(&file, "copied").expect("a file");
        let copies = Copies::of(&root);
        let source = Source { kind: "claude", id: "x", session: "s", name: "", path: &file };
        copies.take(&source, (1, None), Look::Whole).expect("a copy");
        let copy = copies.list("claude", "x").expect("copies").remove(0);
        let (one, two) = (root.join("back/subagents/one.jsonl"), root.join("back/subagents/two.jsonl"));
        let wanted = |main: PathBuf| [main, one.clone(), two.clone()].map(|path| (path, &copy, 6));
        let text = |path: &Path| fs::read_to_string(path).ok();
        // No file system has names of that length: as if the disk was full just then.
        let (path, _) = put_back(&copies, &wanted(root.join("x".repeat(300)))).expect_err("no such name");
        assert!(path.ends_with("x".repeat(300)) && text(&one).is_none() && text(&two).is_none());
        fs::write(&two, "there").expect("a file");
        let main = root.join("back.jsonl");
        let (files, there) = put_back(&copies, &wanted(main.clone())).expect("it is put back");
        assert_eq!((files, there), (vec![main.clone(), one.clone()], vec![two.clone()]));
        assert_eq!((text(&one).as_deref(), text(&two).as_deref()), (Some("copied"), Some("there")));
        // The transcript itself is another matter; and what was there is not ours to remove.
        let (path, error) = put_back(&copies, &wanted(main.clone())).expect_err("it is there");
        assert_eq!((path, error.kind()), (main, io::ErrorKind::AlreadyExists));
        assert!(text(&one).is_some() && text(&two).is_some());
        fs::remove_dir_all(&root).expect("our own directory");
    }

    fn beside_sizes(all: &[Copy], when: Mark) -> Vec<u64> {
        beside(all, when).into_iter().map(|(_, size)| size).collect()
    }

    #[test]
    fn two_who_put_the_same_back_at_once_do_not_disturb_each_other() {
        let root = std::env::temp_dir().join(format!("berth-put-back-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        let main = root.join("x.jsonl");
        fs::write(&main, vec![b'x'; 1 << 20]).expect("a file");
        let copies = Copies::of(&root);
        let source = Source { kind: "claude", id: "x", session: "s", name: "", path: &main };
        copies.take(&source, (1, None), Look::Whole).expect("a copy");
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
        fs::remove_dir_all(&root).expect("our own directory");
    }
}
