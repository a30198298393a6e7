//! Disk operations whose errors name the file.
//!
//! Promise: every error says which file it is about.
//! Start with [`rename_into_place`].

use std::io;

use crate::Seq;
use crate::disk::JournalDisk;
use crate::error::JournalError;
use crate::frame::FrameCodec;
use crate::segment::{file_name, first_seq};

/// Suffix of an unfinished file's name, behind its final name.
const UNFINISHED: &str = ".new";

/// Segments in the directory, as their first numbers, in order.
pub(crate) fn segments<D: JournalDisk>(disk: &D) -> Result<Vec<Seq>, JournalError> {
    let mut firsts: Vec<Seq> = list(disk)?.iter().filter_map(|name| first_seq(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// True if [`rename_into_place`] uses such a name before a file is complete.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let segment = file_name(Seq(0)).len();
    name.ends_with(UNFINISHED) && name.get(..segment).and_then(first_seq).is_some()
}

pub(crate) fn list<D: JournalDisk>(disk: &D) -> Result<Vec<String>, JournalError> {
    disk.list().map_err(|source| JournalError::List { path: disk.path(""), source })
}

pub(crate) fn read<D: JournalDisk>(disk: &D, name: &str) -> Result<Vec<u8>, JournalError> {
    read_at(disk, name, 0, usize::MAX)
}

pub(crate) fn read_at<D: JournalDisk>(
    disk: &D,
    name: &str,
    offset: u64,
    most: usize,
) -> Result<Vec<u8>, JournalError> {
    disk.read_at(name, offset, most).map_err(|source| JournalError::Read { path: disk.path(name), source })
}

pub(crate) fn create<D: JournalDisk>(disk: &D, name: &str) -> Result<D::File, JournalError> {
    disk.create_new(name).map_err(|source| JournalError::Create { path: disk.path(name), source })
}

/// Writes and syncs. After an error the file must not be written to again.
pub(crate) fn write<D: JournalDisk>(
    disk: &D,
    codec: &FrameCodec,
    name: &str,
    file: &mut D::File,
    bytes: &[u8],
) -> Result<(), JournalError> {
    disk.append(file, bytes).map_err(|source| JournalError::Write {
        path: disk.path(name),
        bytes: bytes.len(),
        source,
    })?;
    checked(codec, disk.sync_file(file))
        .map_err(|source| JournalError::Sync { path: disk.path(name), source })
}

/// Makes a file that appears under its name complete and synced, or not at all. A file with that name is replaced.
pub(crate) fn rename_into_place<D: JournalDisk>(
    disk: &D,
    codec: &FrameCodec,
    name: &str,
    bytes: &[u8],
) -> Result<D::File, JournalError> {
    let unfinished = format!("{name}{UNFINISHED}");
    // The file of an attempt that failed. A new file is necessary: syncing the old one again would prove nothing.
    remove(disk, &unfinished)?;
    let mut file = create(disk, &unfinished)?;
    write(disk, codec, &unfinished, &mut file, bytes)?;
    rename(disk, &unfinished, name)?;
    sync_dir(disk, codec)?;
    Ok(file)
}

pub(crate) fn rename<D: JournalDisk>(disk: &D, from: &str, to: &str) -> Result<(), JournalError> {
    disk.rename(from, to).map_err(|source| JournalError::Rename {
        from: disk.path(from),
        to: disk.path(to),
        source,
    })
}

/// Removes a file, if it is there.
pub(crate) fn remove<D: JournalDisk>(disk: &D, name: &str) -> Result<(), JournalError> {
    match disk.remove(name) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(JournalError::Remove { path: disk.path(name), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn sync_dir<D: JournalDisk>(disk: &D, codec: &FrameCodec) -> Result<(), JournalError> {
    checked(codec, disk.sync_dir()).map_err(|source| JournalError::Sync { path: disk.path(""), source })
}

#[cfg(not(feature = "testing"))]
fn checked(_: &FrameCodec, synced: io::Result<()>) -> io::Result<()> {
    synced
}

#[cfg(feature = "testing")]
fn checked(codec: &FrameCodec, synced: io::Result<()>) -> io::Result<()> {
    if codec.planted.ignore_sync_error { Ok(()) } else { synced }
}
