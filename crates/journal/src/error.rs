//! Everything that can go wrong, said once: what we were doing, to which file, and what to do next.

use std::io;
use std::path::PathBuf;

use crate::Seq;

/// Why the journal did not do what was asked.
///
/// The first group is the world failing us, the second a polite no with nothing written, the third a journal on
/// disk that we refuse to touch. The cause of the first group is in [`source`](std::error::Error::source) only.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory could not be listed.
    #[error("cannot list {path}; check that it exists and that you may read it")]
    List {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}; check that you may read it and that the disk is healthy")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be created.
    #[error("cannot create {path}; nothing was committed: check free space and permissions, then try again")]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Bytes could not be written.
    #[error(
        "cannot write {bytes} bytes to {path}; nothing of them was committed: check free space, then try again"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// How many there were to write. Any part of them may be in the file.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A file or the directory was written, but is not known to be safe.
    #[error("cannot sync {path} to disk; nothing was committed: check the disk, then try again")]
    Sync {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not get its final name.
    #[error("cannot rename {from} to {to}; nothing was committed: check permissions, then try again")]
    Rename {
        /// The name it has.
        from: PathBuf,
        /// The name it should have.
        to: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A half-made file could not be cleared away.
    #[error("cannot remove {path}, which was never finished; check permissions, then try again")]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A new journal was asked for where there is one.
    #[error("cannot create a journal in {path}: there is one already; open it, or choose another directory")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A record without a single byte. A frame without payload means something else.
    #[error("cannot append event {seq}: it is empty; a record needs at least one byte")]
    EmptyRecord {
        /// The number it would have had.
        seq: Seq,
    },
    /// A record over the limit.
    #[error(
        "cannot append event {seq}: it has {bytes} bytes and the limit is {limit}; store the bulk elsewhere"
    )]
    RecordTooLarge {
        /// The number it would have had.
        seq: Seq,
        /// Its size.
        bytes: usize,
        /// The limit in force.
        limit: usize,
    },
    /// More in one batch than one write may have.
    #[error("cannot append {bytes} bytes at once: the limit is 4 GiB; send smaller batches")]
    BatchTooLarge {
        /// The size of the write.
        bytes: usize,
    },

    /// What is on disk cannot be the work of a crash.
    #[error(
        "{path} is damaged at byte {offset}: {damage}; nothing was changed: copy the directory to a safe place, \
         then restore this file from a backup"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the trouble begins.
        offset: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// A segment of another journal.
    #[error(
        "{path} belongs to another journal, not to `{owner}`; nothing was changed: put it back where it came from, \
         and restore the right file from a backup"
    )]
    WrongOwner {
        /// The file.
        path: PathBuf,
        /// Whose journal was asked for.
        owner: String,
    },
    /// A segment from the future.
    #[error(
        "{path} was written by a newer berth (format {found}, this one reads up to {supported}): upgrade"
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u16,
        /// The newest that this code knows.
        supported: u16,
    },
    /// An event is as it was written, but means nothing to this program.
    #[error(
        "cannot understand event {seq} at byte {offset} of {path}: {why}; the file is intact and was not changed: \
         use the version of berth that wrote it, or a newer one"
    )]
    Undecodable {
        /// The file.
        path: PathBuf,
        /// Where the event is.
        offset: u64,
        /// Its number.
        seq: Seq,
        /// What [`Record::decode`](crate::Record::decode) said.
        why: String,
    },
}

/// What is wrong with a file that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header of a segment that has events.
    #[error("the file header is unreadable")]
    Header,
    /// The header is intact but says what this format does not allow.
    #[error("the file header has version {version} and flags {flags:#06x}, which never existed")]
    ImpossibleHeader {
        /// The version in the header.
        version: u16,
        /// The flags in the header.
        flags: u16,
    },
    /// The file was renamed, or the name was damaged.
    #[error("the file header says that event {found} comes first, the file name says another")]
    Misnamed {
        /// The number in the header.
        found: Seq,
    },
    /// A frame that is not what was written, where a crash cannot be the reason.
    #[error("event {expected} should be here, but {flaw}")]
    Frame {
        /// The event that should be here.
        expected: Seq,
        /// What is wrong with the bytes.
        flaw: Flaw,
    },
    /// A good frame in the wrong place.
    #[error("event {expected} should be here, but there is event {found}")]
    Misnumbered {
        /// The event that should be here.
        expected: Seq,
        /// The number found.
        found: Seq,
    },
    /// A good seal behind the wrong event: something before it is gone.
    #[error("there is a seal for event {found}, but the event before it is {last}")]
    WrongSeal {
        /// The last event in the file.
        last: Seq,
        /// The last event as the seal has it.
        found: Seq,
    },
    /// The file ends, yet it should go on.
    #[error("the file ends before event {expected}, which is missing")]
    EndsEarly {
        /// The event that should be here.
        expected: Seq,
    },
    /// A full segment lost its end.
    #[error("the file should end with a seal after event {last}, and does not")]
    Unsealed {
        /// The last event that could be read.
        last: Seq,
    },
    /// A segment goes on after its end.
    #[error("there are bytes behind the seal, which is always last")]
    BehindSeal,
    /// A segment is missing.
    #[error("events {expected} to {} are missing: a file is gone", found.0 - 1)]
    Gap {
        /// The first event missing.
        expected: Seq,
        /// The first event found behind the gap.
        found: Seq,
    },
}

/// What is wrong with the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The file ends inside it.
    #[error("the file ends in the middle of it")]
    Short,
    /// A length that no frame has.
    #[error("its length of {0} bytes is impossible")]
    Length(u32),
    /// The checksum does not match.
    #[error("its checksum is wrong")]
    Checksum,
    /// A seal before any event.
    #[error("there is a seal in an empty file")]
    EarlySeal,
}
