//! Directories that only their owner can look into.
//!
//! Promise: after [`private_dir`] the path is a real directory on a local disk, ours, and closed to
//! every other user. The permissions of existing directories are never changed: people decide that.
//! Not here: the contents of the directory.
//! Start with [`private_dir`].

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{FileType, lstat, statfs, statvfs};
use rustix::io::Errno;

use crate::reason;

/// The identity of a directory: equal by every path that leads to it, bind mounts included, and equal after a reboot.
///
/// The identity consists of the file system's own id, the inode, and the time of birth. Device numbers are handed out
/// anew at each boot on some hosts; the id of a file system comes from its UUID where it has one. The time of birth
/// tells a directory from an earlier one whose inode it got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirId {
    file_system: u64,
    inode: u64,
    born_ns: u64,
}

impl DirId {
    /// The identity of the directory at `path`.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        let id = statvfs(path)?.f_fsid;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            // A file system without an id of its own is identified by its device, for as long as it is mounted.
            file_system: if id == 0 { found.dev() } else { id },
            inode: found.ino(),
            born_ns: born.map_or(0, |born| u64::try_from(born.as_nanos()).unwrap_or(0)),
        })
    }

    /// The identity as bytes, to be hashed.
    pub fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (piece, part) in bytes.chunks_exact_mut(8).zip([self.file_system, self.inode, self.born_ns]) {
            piece.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The directory could not be made.
    #[error("cannot make the directory {}: {}", path.display(), reason(cause))]
    Make {
        /// The path of the directory that is missing.
        path: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
    /// The directory could not be examined.
    #[error("cannot look at the directory {}: {}", path.display(), reason(cause))]
    Look {
        /// The path of the directory that could not be examined.
        path: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
    /// The path is a symbolic link, which could lead elsewhere tomorrow.
    #[error("{} is a symbolic link: replace it by a directory, or use the path it leads to", .0.display())]
    Link(PathBuf),
    /// The path is neither a directory nor a symbolic link.
    #[error("{} is not a directory: move it out of the way", .0.display())]
    NotDirectory(PathBuf),
    /// The directory belongs to another user.
    #[error(
        "the directory {} belongs to user {owner}, not to you (user {me}): use another one", path.display()
    )]
    Owner {
        /// The path of the directory.
        path: PathBuf,
        /// The uid of its owner.
        owner: u32,
        /// The uid of this process.
        me: u32,
    },
    /// Other users may enter, read or write the directory.
    #[error("the directory {0} is open to other users (mode {mode:03o}): close it with `chmod 700 {0}`", path.display())]
    Open {
        /// The path of the directory.
        path: PathBuf,
        /// The permission bits of the directory.
        mode: u32,
    },
    /// The directory is on a file system that other machines share, or one whose locks cannot be trusted.
    #[error(
        "the directory {} is on {kind}, where locks cannot be trusted: use one on a local disk", path.display()
    )]
    Network {
        /// The path of the directory.
        path: PathBuf,
        /// The file system, in words.
        kind: &'static str,
    },
}

/// Makes a private directory, parents included, or checks that an existing one is private.
pub fn private_dir(path: &Path) -> Result<(), DirError> {
    // With a slash at the end the kernel would follow a symbolic link.
    let path = path.components().as_path();
    let owned = || path.to_owned();
    let found = match lstat(path) {
        Err(Errno::NOENT) => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|cause| DirError::Make { path: owned(), cause })?;
            lstat(path)
        }
        found => found,
    };
    let found = found.map_err(|error| DirError::Look { path: owned(), cause: error.into() })?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err(DirError::Link(owned())),
        FileType::RegularFile
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Err(DirError::NotDirectory(owned())),
    }
    let me = rustix::process::geteuid().as_raw();
    if found.st_uid != me {
        return Err(DirError::Owner { path: owned(), owner: found.st_uid, me });
    }
    if found.st_mode & 0o077 != 0 {
        return Err(DirError::Open { path: owned(), mode: found.st_mode & 0o777 });
    }
    let system = statfs(path).map_err(|error| DirError::Look { path: owned(), cause: error.into() })?;
    match network_kind(system.f_type.cast_unsigned() & 0xffff_ffff) {
        Some(kind) => Err(DirError::Network { path: owned(), kind }),
        None => Ok(()),
    }
}

/// The kind of the file system a path is on, if its locks cannot be trusted.
pub fn untrusted_kind(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(network_kind(statfs(path)?.f_type.cast_unsigned() & 0xffff_ffff))
}

/// The name of a file system whose locks may not reach all machines that use it, by its number in `statfs`.
fn network_kind(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 => "SMB (cifs)",
        0xfe53_4d42 => "SMB (smb2)",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x1983_0326 => "BeeGFS",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0xbacb_acbc => "a VMware shared folder",
        0x786f_4256 => "a VirtualBox shared folder",
        0x6573_5546 => "FUSE (sshfs and the like)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::network_kind;

    #[test]
    fn network_file_systems_are_known_and_local_ones_pass() {
        for magic in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546] {
            assert!(network_kind(magic).is_some(), "{magic:x}");
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_kind(magic), None, "{magic:x}");
        }
    }
}
