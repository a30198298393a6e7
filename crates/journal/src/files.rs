//! The disk again, with errors that name the file.

use std::io;

use crate::Seq;
use crate::disk::Disk;
use crate::error::JournalError;
use crate::frame::Codec;
use crate::segment::{file_name, first_seq};

/// What an unfinished file is called: its final name, and this.
const UNFINISHED: &str = ".new";

/// The segments that are there, as their first numbers, in order.
pub(crate) fn segments<D: Disk>(disk: &D) -> Result<Vec<Seq>, JournalError> {
    let mut firsts: Vec<Seq> = list(disk)?.iter().filter_map(|name| first_seq(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// Whether a name is one that [`place`] uses before a file is complete.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let segment = file_name(Seq(0)).len();
    name.ends_with(UNFINISHED) && name.get(..segment).and_then(first_seq).is_some()
}

pub(crate) fn list<D: Disk>(disk: &D) -> Result<Vec<String>, JournalError> {
    disk.list().map_err(|source| JournalError::List { path: disk.path(""), source })
}

pub(crate) fn read<D: Disk>(disk: &D, name: &str) -> Result<Vec<u8>, JournalError> {
    read_at(disk, name, 0, usize::MAX)
}

pub(crate) fn read_at<D: Disk>(
    disk: &D,
    name: &str,
    offset: u64,
    most: usize,
) -> Result<Vec<u8>, JournalError> {
    disk.read_at(name, offset, most).map_err(|source| JournalError::Read { path: disk.path(name), source })
}

pub(crate) fn create<D: Disk>(disk: &D, name: &str) -> Result<D::File, JournalError> {
    disk.create_new(name).map_err(|source| JournalError::Create { path: disk.path(name), source })
}

/// Writes and syncs. After an error the file must not be written to again.
pub(crate) fn write<D: Disk>(
    disk: &D,
    codec: &Codec,
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

/// Makes a file that appears under its name complete and synced, or not at all. A file of that name is replaced.
pub(crate) fn place<D: Disk>(
    disk: &D,
    codec: &Codec,
    name: &str,
    bytes: &[u8],
) -> Result<D::File, JournalError> {
    let unfinished = format!("{name}{UNFINISHED}");
    // Left by an attempt that failed. It must be another file: syncing the old one again would prove nothing.
    remove(disk, &unfinished)?;
    let mut file = create(disk, &unfinished)?;
    write(disk, codec, &unfinished, &mut file, bytes)?;
    rename(disk, &unfinished, name)?;
    sync_dir(disk, codec)?;
    Ok(file)
}

pub(crate) fn rename<D: Disk>(disk: &D, from: &str, to: &str) -> Result<(), JournalError> {
    disk.rename(from, to).map_err(|source| JournalError::Rename {
        from: disk.path(from),
        to: disk.path(to),
        source,
    })
}

/// Removes a file, if it is there.
pub(crate) fn remove<D: Disk>(disk: &D, name: &str) -> Result<(), JournalError> {
    match disk.remove(name) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(JournalError::Remove { path: disk.path(name), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn sync_dir<D: Disk>(disk: &D, codec: &Codec) -> Result<(), JournalError> {
    checked(codec, disk.sync_dir()).map_err(|source| JournalError::Sync { path: disk.path(""), source })
}

#[cfg(not(feature = "testing"))]
fn checked(_: &Codec, synced: io::Result<()>) -> io::Result<()> {
    synced
}

#[cfg(feature = "testing")]
fn checked(codec: &Codec, synced: io::Result<()>) -> io::Result<()> {
    if codec.planted.ignore_sync_error { Ok(()) } else { synced }
}
