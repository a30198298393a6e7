//! Parts of files, each under the hash of its content.
//!
//! Promise: a piece is returned only if its content matches its hash.
//! Not here: which copies need a piece (see `tidy`).

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use berth_host::disk::write_atomically;
use sha2::{Digest, Sha256};

use super::copy::hex;
use super::entries;

#[derive(Clone, Debug)]
pub(super) struct PieceStore {
    root: PathBuf,
}

impl PieceStore {
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.root.join(&name[..2])
    }

    /// Stores a piece. Returns the number of bytes that added: none if it was there.
    pub(super) fn put(&self, hash: &[u8; 32], bytes: &[u8]) -> io::Result<u64> {
        let name = hex::of(hash);
        let dir = self.place(&name);
        // A piece of another size was damaged, and is replaced.
        if fs::metadata(dir.join(&name)).is_ok_and(|found| found.len() == bytes.len() as u64) {
            return Ok(0);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        write_atomically(&dir, &name, bytes, true)?;
        Ok(bytes.len() as u64)
    }

    /// The content of a piece, if it still matches its hash.
    pub(super) fn get(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        let name = hex::of(hash);
        let path = self.place(&name).join(&name);
        let wrong = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
        let bytes = fs::read(&path).map_err(|error| wrong(&error.to_string()))?;
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != *hash {
            return Err(wrong("its content is not what was written"));
        }
        Ok(bytes)
    }

    /// Visits every file with its size: pieces by their name, and files that a killed process left.
    pub(super) fn each(&self, mut visit: impl FnMut(&Path, &str, u64)) -> io::Result<()> {
        for dir in entries(&self.root)? {
            for path in entries(&dir)? {
                let size = fs::metadata(&path)?.len();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                visit(&path, name, size);
            }
        }
        Ok(())
    }
}
