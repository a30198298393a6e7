//! Files that appear whole or not at all.
//!
//! Promise: a reader of the name sees the old contents or the new, never a part, also when the writer
//! is killed half way.
//! Not here: append-only files (the journal has its own rules).
//! Start with [`write_atomically`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes a file through a temporary one beside it. With `sync` it survives a power cut once this
/// returns; without, a power cut may bring the old one back.
pub fn write_atomically(dir: &Path, name: &str, bytes: &[u8], sync: bool) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = dir.join(format!(".{name}.{}.{count}.tmp", std::process::id()));
    let written = write_new(&temporary, bytes, sync).and_then(|()| fs::rename(&temporary, dir.join(name)));
    if let Err(error) = written {
        // The first error is the one to tell. If this fails too, a stray file is all that is left.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    if sync {
        // The new name lives in the directory: without this a power cut could undo the rename.
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    // Truncated rather than refused if it exists: an earlier process with our pid may have been killed
    // while it wrote, and no living one uses this name.
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    if sync { file.sync_data() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("berth-host-disk-{}", std::process::id()));
        fs::create_dir_all(dir.join("taken")).unwrap();
        for (text, sync) in [("a longer text", false), ("short", true)] {
            write_atomically(&dir, "file", text.as_bytes(), sync).unwrap();
            assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), text);
        }
        // A file cannot take the name of a directory.
        assert!(write_atomically(&dir, "taken", b"text", true).is_err());
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(names, ["file", "taken"]);
    }
}
