//! A directory for one test, removed with it.
//!
//! Promise: a [`TestDir`] is empty, no other test has it, and nothing of it is left once it is dropped. The crate has no
//! dependencies, so that the tests of every crate can use it; the harness exports it again.
//! Start with [`TestDir::new`].

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory in the temporary one, for this account only, as a state directory has to be. Dropping it removes it
/// with everything in it.
#[derive(Debug)]
pub struct TestDir {
    path: PathBuf,
}

impl TestDir {
    /// Makes a directory that no other test has.
    #[expect(clippy::new_without_default, reason = "a default value should not write to the disk")]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // `./test` looks for this prefix among the files that tests left behind. Paths of sockets have to be short.
            let path = std::env::temp_dir().join(format!("berth-test-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self { path },
                // A killed test with the same pid left its directory.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file below it as text, as an argument or a config file has it.
    pub fn text(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl Deref for TestDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for TestDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<OsStr> for TestDir {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // The test may have removed it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_empty_and_another_one_and_gone_when_dropped() {
        let (one, other) = (TestDir::new(), TestDir::new());
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::read_dir(&one).expect("a directory").count(), 0);
        fs::create_dir_all(one.join("a/b")).expect("our own directory");
        fs::write(one.join("a/b/c"), "text").expect("our own directory");
        let path = one.to_path_buf();
        drop(one);
        assert!(!path.exists() && other.exists());
    }
}
