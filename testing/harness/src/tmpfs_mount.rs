//! A small file system, for tests that fill a disk.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted on a directory. Dropping it unmounts it, also while files of it are open.
#[derive(Debug)]
pub struct TmpfsMount {
    dir: PathBuf,
}

impl TmpfsMount {
    /// Makes a private directory and mounts a file system there, with these options (`size=2m`). `None`, with a line on
    /// standard error, where mounting is not permitted.
    pub fn new(dir: &Path, options: &str) -> Option<Self> {
        DirBuilder::new().mode(0o700).create(dir).expect("a directory");
        let options = format!("{options},mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "berth-test"]).arg(dir).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { dir: dir.to_owned() }),
            refused => {
                eprintln!("SKIPPED: cannot mount a small file system: {refused:?}");
                None
            }
        }
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}
