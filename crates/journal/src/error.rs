//! Errors of the journal: the operation, the file, and the next step.
//!
//! Promise: no error leaves a part of a batch committed.
//! Start with [`JournalError`].

use std::io;
use std::path::PathBuf;

use crate::Seq;

/// Reason why a call failed.
///
/// The first group is the world failing us, the second a refusal with nothing written, the third a journal on disk
/// that we refuse to touch. The cause of the first group is in [`source`](std::error::Error::source) only.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory could not be listed.
    #[error("cannot list {path}; check that it exists and that you may read it")]
    List {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}; check that you may read it and that the disk is healthy")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file could not be created.
    #[error("cannot create {path}; nothing was committed: check free space and permissions, then try again")]
    Create {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Bytes could not be written.
    #[error(
        "cannot write {bytes} bytes to {path}; nothing of them was committed: check free space, then try again"
    )]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Number of bytes to write. Any part of them may be in the file.
        bytes: usize,
        /// Error of the system.
        source: io::Error,
    },
    /// A file or the directory was written, but is not known to be safe.
    #[error("cannot sync {path} to disk; nothing was committed: check the disk, then try again")]
    Sync {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file could not get its final name.
    #[error("cannot rename {from} to {to}; nothing was committed: check permissions, then try again")]
    Rename {
        /// Present name.
        from: PathBuf,
        /// Final name.
        to: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A half-made file could not be removed.
    #[error("cannot remove {path}, which was never finished; check permissions, then try again")]
    Remove {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// A new journal was requested in a directory that has one.
    #[error("cannot create a journal in {path}: there is one already; open it, or choose another directory")]
    NotEmpty {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A record has no bytes. A frame without payload means something else.
    #[error("cannot append event {seq}: it is empty; a record needs at least one byte")]
    EmptyRecord {
        /// Number that it would have had.
        seq: Seq,
    },
    /// A record is over the size limit.
    #[error(
        "cannot append event {seq}: it has {bytes} bytes and the limit is {limit}; store the bulk elsewhere"
    )]
    RecordTooLarge {
        /// Number that it would have had.
        seq: Seq,
        /// Size of the record.
        bytes: usize,
        /// Largest size that a record may have.
        limit: usize,
    },
    /// A batch is larger than one write can be.
    #[error("cannot append {bytes} bytes at once: the limit is 4 GiB; send smaller batches")]
    BatchTooLarge {
        /// Size of the write.
        bytes: usize,
    },

    /// The bytes on disk cannot be the result of a crash.
    #[error(
        "{path} is damaged at byte {offset}: {damage}; nothing was changed: copy the directory to a safe place, \
         then restore this file from a backup"
    )]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset at which the damage begins.
        offset: u64,
        /// Kind of damage.
        damage: SegmentDamage,
    },
    /// A segment belongs to another journal.
    #[error(
        "{path} belongs to another journal, not to `{owner}`; nothing was changed: put it back where it came from, \
         and restore the right file from a backup"
    )]
    WrongOwner {
        /// Path of the file.
        path: PathBuf,
        /// Owner of the journal that was requested.
        owner: String,
    },
    /// A segment has a newer format.
    #[error(
        "{path} was written by a newer berth (format {found}, this one reads up to {supported}): upgrade"
    )]
    NewerFormat {
        /// Path of the file.
        path: PathBuf,
        /// Version in the file.
        found: u16,
        /// Newest version that this code supports.
        supported: u16,
    },
    /// An event is intact, but this program cannot decode it.
    #[error(
        "cannot understand event {seq} at byte {offset} of {path}: {why}; the file is intact and was not changed: \
         use the version of berth that wrote it, or a newer one"
    )]
    Undecodable {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the event.
        offset: u64,
        /// Number of the event.
        seq: Seq,
        /// Error of [`Record::decode`](crate::JournalRecord::decode).
        why: String,
    },
}

/// Kind of damage to a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentDamage {
    /// The header of a segment with events is unreadable.
    #[error("the file header is unreadable")]
    Header,
    /// The header is intact, but has values that this format does not allow.
    #[error("the file header has version {version} and flags {flags:#06x}, which never existed")]
    ImpossibleHeader {
        /// Version in the header.
        version: u16,
        /// Flags in the header.
        flags: u16,
    },
    /// The file was renamed, or the name was damaged.
    #[error("the file header says that event {found} comes first, the file name says another")]
    Misnamed {
        /// Number in the header.
        found: Seq,
    },
    /// A frame was changed, where a crash cannot be the reason.
    #[error("event {expected} should be here, but {flaw}")]
    Frame {
        /// Event that should be here.
        expected: Seq,
        /// Flaw of the bytes.
        flaw: FrameFlaw,
    },
    /// A good frame in the wrong place.
    #[error("event {expected} should be here, but there is event {found}")]
    Misnumbered {
        /// Event that should be here.
        expected: Seq,
        /// Number that was found.
        found: Seq,
    },
    /// A good seal stands behind the wrong event: an earlier event is gone.
    #[error("there is a seal for event {found}, but the event before it is {last}")]
    WrongSeal {
        /// Last event in the file.
        last: Seq,
        /// Last event according to the seal.
        found: Seq,
    },
    /// The file ends before its last event.
    #[error("the file ends before event {expected}, which is missing")]
    EndsEarly {
        /// Event that should be here.
        expected: Seq,
    },
    /// A full segment lost its end.
    #[error("the file should end with a seal after event {last}, and does not")]
    Unsealed {
        /// Last event that could be read.
        last: Seq,
    },
    /// A segment has bytes behind its seal.
    #[error("there are bytes behind the seal, which is always last")]
    BehindSeal,
    /// A segment is missing.
    #[error("events {expected} to {} are missing: a file is gone", found.0 - 1)]
    Gap {
        /// First missing event.
        expected: Seq,
        /// First event behind the gap.
        found: Seq,
    },
}

/// Flaw in the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFlaw {
    /// The file ends inside the frame.
    #[error("the file ends in the middle of it")]
    Short,
    /// The length is not one that a frame can have.
    #[error("its length of {0} bytes is impossible")]
    Length(u32),
    /// The checksum does not match.
    #[error("its checksum is wrong")]
    Checksum,
    /// A seal stands before any event.
    #[error("there is a seal in an empty file")]
    EarlySeal,
}
