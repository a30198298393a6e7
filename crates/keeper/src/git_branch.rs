//! The git branch of a directory, read from git's own files: a list must not start a process for each session.
//!
//! Promise: opens regular files only and reads a bounded part of them, so that no pipe or device in an agent's directory
//! delays the reader; a file that is not git's has no effect.
//! Start with [`checked_out_branch`].

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The number of bytes read from one of git's files.
const MAX_FILE_BYTES: u64 = 4096;
/// The number of levels above the directory on which its work tree may begin.
const MOST_LEVELS: usize = 64;
/// The length of a displayed hash, in characters.
const HASH_CHARS: usize = 7;
/// The length of a displayed branch, in characters.
const MOST_CHARS: usize = 200;

/// The branch that is checked out in the work tree of `dir`, or the short hash of a detached commit.
pub fn checked_out_branch(dir: &Path) -> Option<String> {
    let head = dir.ancestors().take(MOST_LEVELS).find_map(git_dir)?.join("HEAD");
    let head = read(&head)?;
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.chars().filter(|c| !c.is_control()).take(MOST_CHARS).collect()),
        None => {
            let is_hash = head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hash.then(|| head[..HASH_CHARS].to_owned())
        }
    }
}

/// The directory in which git keeps the state of the work tree that begins here. In a linked work tree and in a
/// submodule `.git` is a file that contains the path.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let git = dir.join(".git");
    let found = git.symlink_metadata().ok()?;
    if found.is_file() {
        return Some(dir.join(read(&git)?.strip_prefix("gitdir: ")?));
    }
    git.join("HEAD").symlink_metadata().is_ok().then_some(git)
}

/// The first line of a regular file.
fn read(path: &Path) -> Option<String> {
    // Without NONBLOCK, opening a pipe without a writer would block.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(())?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text.lines().next()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_test_dir::TestDir;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_branch_is_found_from_below_in_linked_work_trees_and_detached() {
        let root = TestDir::new();
        let main = root.join("main");
        write(main.join(".git/HEAD"), "ref: refs/heads/fix/login\n");
        let below = main.join("crates/a");
        fs::create_dir_all(&below).expect("a directory");
        assert_eq!(checked_out_branch(&below).as_deref(), Some("fix/login"));

        write(main.join(".git/worktrees/other/HEAD"), "ref: refs/heads/other\n");
        let linked = root.join("linked");
        write(linked.join(".git"), "gitdir: ../main/.git/worktrees/other\n");
        assert_eq!(checked_out_branch(&linked).as_deref(), Some("other"));

        write(main.join(".git/HEAD"), &format!("{}\n", "0123456789abcdef0123456789abcdef01234567"));
        assert_eq!(checked_out_branch(&main).as_deref(), Some("0123456"));
    }

    #[test]
    fn a_file_that_is_not_gits_shows_nothing_and_a_pipe_does_not_block() {
        let root = TestDir::new();
        write(root.join("secret/HEAD"), "password\n");
        write(root.join("a/.git"), "gitdir: ../secret\n");
        assert_eq!(checked_out_branch(&root.join("a")), None);
        let piped = root.join("b/.git");
        fs::create_dir_all(&piped).expect("a directory");
        let fifo = piped.join("HEAD");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert_eq!(checked_out_branch(&root.join("b")), None);
    }
}
