//! Files of a directory that differ from the last commit, as git reports them.
//!
//! Promise: git gets `PATIENCE` and `MOST_BYTES` of output, then it is killed. It changes nothing, asks no other host, and
//! runs no program that the repository's configuration names: an agent writes that configuration, and what it names
//! would run outside of the agent's session.
//! Not here: the branch (see `berth_keeper::git_branch`), caching (see the gateway).
//! Start with [`changed_files`].

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_host::dir::untrusted_kind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use schemars::JsonSchema;
use serde::Serialize;

/// How long git may take in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much git may print.
const MOST_BYTES: usize = 1 << 20;
/// How many files are named.
const MOST_FILES: usize = 200;
/// How many filters a repository may have; with more of them no files are reported.
const MOST_FILTERS: usize = 64;

/// Files of a session's directory that differ from the last commit.
#[derive(Clone, PartialEq, Serialize, JsonSchema, Debug, Default)]
pub struct ChangedFiles {
    /// Number of files that differ; null outside of a git work tree, or if git did not tell.
    pub total: Option<usize>,
    /// The files in git's order, at most 200.
    pub files: Vec<ChangedFile>,
    /// Reason why git reported nothing; null without a problem.
    pub trouble: Option<String>,
}

/// A file that differs from the last commit.
#[derive(Clone, PartialEq, Serialize, JsonSchema, Debug)]
pub struct ChangedFile {
    /// Path from the top of the work tree.
    pub path: String,
    /// Kind of the difference.
    pub change: FileChangeKind,
}

/// How a file differs from the last commit.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// The last commit does not have it.
    Added,
    /// Its contents or its mode differ.
    Modified,
    /// The file was deleted.
    Deleted,
    /// Git does not track the file, or no file of the directory.
    Untracked,
    /// A merge left a conflict in the file.
    Conflicted,
}

/// Reason why git reported nothing.
enum GitFailure {
    /// Git is not installed, or the directory is not in a work tree.
    NoRepository,
    /// Any other problem, in words.
    Trouble(String),
}

/// Files of this directory that differ from the last commit. A network file system is not read.
pub fn changed_files(dir: &Path) -> ChangedFiles {
    // A process that waits for a network file system cannot be killed.
    if !matches!(untrusted_kind(dir), Ok(None)) {
        return ChangedFiles::default();
    }
    let until = Instant::now() + PATIENCE;
    let told = filters(dir, until).and_then(|filters| status(dir, &filters, until));
    match told {
        Ok(printed) => parse(&printed),
        Err(GitFailure::NoRepository) => ChangedFiles::default(),
        Err(GitFailure::Trouble(why)) => ChangedFiles { trouble: Some(why), ..ChangedFiles::default() },
    }
}

/// The filters that the repository's configuration defines. Git would run their programs to compare contents.
fn filters(dir: &Path, until: Instant) -> Result<Vec<String>, GitFailure> {
    let mut git = git(dir, &[]);
    git.args(["config", "-z", "--name-only", "--get-regexp", r"^filter\."]);
    // Exit code 1 means that there are no filters.
    let printed = run(git, until, &[0, 1])?;
    let keys = printed.split('\0').filter_map(|key| key.strip_prefix("filter."));
    let mut names: Vec<String> = keys.filter_map(|key| Some(key.rsplit_once('.')?.0.to_owned())).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > MOST_FILTERS {
        return Err(GitFailure::Trouble(format!("the repository has more than {MOST_FILTERS} filters")));
    }
    Ok(names)
}

fn status(dir: &Path, filters: &[String], until: Instant) -> Result<String, GitFailure> {
    let mut git = git(dir, filters);
    git.args(["status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"]);
    git.args(["--ignore-submodules=all", "--", "."]);
    run(git, until, &[0])
}

/// Git in this directory, without locks, hosts, and programs of the repository.
fn git(dir: &Path, filters: &[String]) -> Command {
    let mut git = Command::new("git");
    git.args(["--no-optional-locks", "-C"]).arg(dir).stdin(Stdio::null()).stderr(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        git.env_remove(name);
    }
    git.envs([("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none"), ("GIT_TERMINAL_PROMPT", "0")]);
    let mut settings =
        vec![("core.fsmonitor".to_owned(), "false"), ("core.hooksPath".to_owned(), "/dev/null")];
    for name in filters {
        let keys = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
        settings.extend(keys.map(|(key, value)| (format!("filter.{name}.{key}"), value)));
    }
    git.env("GIT_CONFIG_COUNT", settings.len().to_string());
    for (at, (key, value)) in settings.into_iter().enumerate() {
        git.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
    }
    git
}

/// The output of git, if it ends in time with one of these exit codes.
fn run(mut git: Command, until: Instant, good: &[i32]) -> Result<String, GitFailure> {
    let mut child = git.stdout(Stdio::piped()).spawn().map_err(|_| GitFailure::NoRepository)?;
    let read = read(&mut child, until);
    if read.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait();
    let printed = read.map_err(GitFailure::Trouble)?;
    match ended.ok().and_then(|status| status.code()) {
        Some(code) if good.contains(&code) => Ok(String::from_utf8_lossy(&printed).into_owned()),
        Some(_) | None => Err(GitFailure::NoRepository),
    }
}

/// Reads git's output until git closes it.
fn read(child: &mut Child, until: Instant) -> Result<Vec<u8>, String> {
    let late = || format!("git took more than {} s", PATIENCE.as_secs());
    let Some(output) = child.stdout.as_mut() else { return Ok(vec![]) };
    let (mut printed, mut part) = (Vec::new(), [0; 64 << 10]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| late())?;
        match poll(&mut [PollFd::new(&*output, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(late()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(format!("cannot wait for git: {error}")),
        }
        let count = output.read(&mut part).map_err(|error| format!("cannot read from git: {error}"))?;
        if count == 0 {
            return Ok(printed);
        }
        printed.extend_from_slice(part.get(..count).unwrap_or_default());
        if printed.len() > MOST_BYTES {
            return Err("more files changed than git can list in a megabyte".to_owned());
        }
    }
}

/// Reads `git status --porcelain -z --no-renames`: two letters, a space and a path each.
fn parse(printed: &str) -> ChangedFiles {
    let lines = printed.split('\0').filter_map(|line| Some((line.get(..2)?, line.get(3..)?)));
    let files: Vec<ChangedFile> =
        lines.map(|(letters, path)| ChangedFile { path: path.to_owned(), change: change(letters) }).collect();
    let total = Some(files.len());
    ChangedFiles { total, files: files.into_iter().take(MOST_FILES).collect(), trouble: None }
}

fn change(letters: &str) -> FileChangeKind {
    match letters {
        "??" => FileChangeKind::Untracked,
        "DD" | "AA" => FileChangeKind::Conflicted,
        both if both.contains('U') => FileChangeKind::Conflicted,
        both if both.contains('D') => FileChangeKind::Deleted,
        both if both.contains('A') => FileChangeKind::Added,
        _ => FileChangeKind::Modified,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_harness::TestDir;

    use super::*;

    /// A repository with one commit.
    struct GitTestRepository(TestDir);

    impl GitTestRepository {
        fn new() -> Self {
            let repository = Self(TestDir::new());
            repository.git(&["init", "-q"]);
            repository.write("kept", "one\n");
            repository.write("gone", "one\n");
            repository.git(&["add", "."]);
            repository.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
            repository
        }

        fn git(&self, args: &[&str]) {
            let isolated = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")];
            let done = Command::new("git").arg("-C").arg(&self.0).args(args).envs(isolated).output();
            let done = done.expect("git");
            assert!(done.status.success(), "{args:?}: {done:?}");
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.0.join(path), text).expect("a file");
        }
    }

    #[test]
    fn files_that_differ_from_the_last_commit_are_named_with_how_they_differ() {
        let repository = GitTestRepository::new();
        assert_eq!(changed_files(&repository.0), ChangedFiles { total: Some(0), ..ChangedFiles::default() });
        repository.write("kept", "two\n");
        fs::remove_file(repository.0.join("gone")).expect("it goes");
        repository.write("new é", "");
        repository.write("staged", "");
        repository.git(&["add", "staged"]);
        let found = changed_files(&repository.0);
        let named: Vec<_> = found.files.iter().map(|file| (file.path.as_str(), file.change)).collect();
        let expected = [
            ("gone", FileChangeKind::Deleted),
            ("kept", FileChangeKind::Modified),
            ("staged", FileChangeKind::Added),
            ("new é", FileChangeKind::Untracked),
        ];
        assert_eq!((found.total, named.as_slice()), (Some(4), expected.as_slice()));
    }

    #[test]
    fn programs_that_the_repository_configures_do_not_run() {
        let repository = GitTestRepository::new();
        let ran = repository.0.join(".git/ran");
        let program = format!("sh -c 'touch {}; cat'", ran.display());
        repository.git(&["config", "core.fsmonitor", &program]);
        repository.git(&["config", "filter.a=b.c.clean", &program]);
        repository.git(&["config", "filter.a=b.c.required", "true"]);
        fs::write(repository.0.join(".git/info/attributes"), "* filter=a=b.c\n").expect("a file");
        repository.write("kept", "two\n");
        let found = changed_files(&repository.0);
        assert!(!ran.exists(), "a program of the repository ran");
        assert_eq!(found.total, Some(1), "{found:?}");
    }

    #[test]
    fn outside_of_a_work_tree_nothing_is_known_and_that_is_no_trouble() {
        assert_eq!(changed_files(Path::new("/proc")), ChangedFiles::default());
        assert_eq!(changed_files(Path::new("/nonexistent")), ChangedFiles::default());
    }
}
