//! Files that only their owner may change or read, as ssh requires of its own files.
//!
//! Promise: a file passes if it belongs to this account or to root and no other account has the permission in question.
//! The open file is checked, not its name, so it cannot be swapped in between.
//! Not here: directories (see `dir`), what to do about a file that does not pass.
//! Start with [`check_write_access`].

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

/// The permissions that let others change a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The permissions that let others do anything at all with a file.
const OPEN_TO_OTHERS: u32 = 0o077;

/// Why a file is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UntrustedFile {
    /// The file belongs to an account that is neither this one nor root.
    #[error("it belongs to another account (uid {0})")]
    Owner(u32),
    /// The mode of the file lets other accounts write or read it.
    #[error("its permissions go too far (mode {0:04o})")]
    Mode(u32),
}

/// Checks that no other account could have written this file. Pipes and devices pass: nothing is kept in them.
pub fn check_write_access(file: &File) -> io::Result<Result<(), UntrustedFile>> {
    Ok(judged(&file.metadata()?, WRITABLE_BY_OTHERS))
}

/// Checks that no other account can read or could have written this file. Pipes and devices pass.
pub fn check_read_access(file: &File) -> io::Result<Result<(), UntrustedFile>> {
    Ok(judged(&file.metadata()?, OPEN_TO_OTHERS))
}

fn judged(meta: &Metadata, forbidden: u32) -> Result<(), UntrustedFile> {
    let mode = meta.mode() & 0o7777;
    if !meta.is_file() {
        return Ok(());
    }
    if meta.uid() != 0 && meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(UntrustedFile::Owner(meta.uid()));
    }
    if mode & forbidden != 0 { Err(UntrustedFile::Mode(mode)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_file_that_others_can_write_or_read_is_told_by_its_mode_and_a_device_passes() {
        let dir = TestDir::new();
        let path = dir.join("file");
        fs::write(&path, "").unwrap();
        let judged = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let file = File::open(&path).unwrap();
            (check_write_access(&file).unwrap().is_ok(), check_read_access(&file).unwrap().is_ok())
        };
        let all = [0o600, 0o400, 0o644, 0o640, 0o660, 0o602].map(judged);
        assert_eq!(
            all,
            [(true, true), (true, true), (true, false), (true, false), (false, false), (false, false)]
        );
        assert_eq!(check_write_access(&File::open("/dev/null").unwrap()).unwrap(), Ok(()));
    }
}
