//! Finding the file of a program, as a shell would.
//!
//! Promise: the file that is found exists, is a regular file and may be run by us, at the moment of looking.
//! Not here: running it (see [`super::spawn`]).
//! Start with [`find_program`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, stat};

use crate::reason;

/// The search path of `execvp` when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program was not found.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No directory of `PATH` has a file of this name.
    #[error("there is no program `{}` in PATH", .0.display())]
    NotInPath(OsString),
    /// The path does not lead to a file.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    /// The path leads to something that is not an executable file.
    #[error("`{}` is not executable", .0.display())]
    NotExecutable(PathBuf),
    /// The system did not let us look.
    #[error("cannot look for {}: {}", path.display(), reason(cause))]
    Look {
        /// The path that could not be examined.
        path: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
}

/// The path of our own executable, for starting it once more: always this version, even after the file was replaced.
/// The path of the file would lead to the new version, or nowhere. A process that is started by this name calls
/// itself by another one (see [`set_process_name`]): people would see `exe`.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// Sets the name of this process that tools such as `ps` and `top` show. Fails silently without `/proc`, which these
/// tools need as well.
pub fn set_process_name(name: &str) {
    let _ = std::fs::write("/proc/self/comm", name);
}

/// Finds a program like `execvp`: a name with `/` in it is a path, from `cwd` if relative; any other is
/// looked up in `path`, or in the system's default when that is `None`.
pub fn find_program(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        let file = cwd.join(name);
        return check_program(&file).map(|()| file);
    }
    let mut refused = None;
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    if !name.is_empty() {
        for directory in path.as_bytes().split(|&byte| byte == b':') {
            // An empty entry means the working directory, as it always has.
            let file = cwd.join(OsStr::from_bytes(directory)).join(name);
            match check_program(&file) {
                Ok(()) => return Ok(file),
                Err(ProgramError::NotExecutable(_)) => {
                    refused = refused.or(Some(ProgramError::NotExecutable(file)));
                }
                // A later directory may have the program; an unreadable entry of PATH is not worth an error.
                Err(ProgramError::NoFile(_) | ProgramError::Look { .. } | ProgramError::NotInPath(_)) => {}
            }
        }
    }
    Err(refused.unwrap_or_else(|| ProgramError::NotInPath(name.to_owned())))
}

fn check_program(file: &Path) -> Result<(), ProgramError> {
    let found = stat(file).map_err(|error| match error {
        rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => ProgramError::NoFile(file.to_owned()),
        error => ProgramError::Look { path: file.to_owned(), cause: error.into() },
    })?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if is_file && accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok() {
        return Ok(());
    }
    Err(ProgramError::NotExecutable(file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str, path: Option<&str>, cwd: &str) -> Result<PathBuf, String> {
        find_program(OsStr::new(name), path.map(OsStr::new), Path::new(cwd))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_looked_up_in_path() {
        assert_eq!(find("sh", Some("/nowhere:/bin"), "/"), Ok("/bin/sh".into()));
        assert_eq!(find("sh", None, "/"), Ok("/bin/sh".into()));
        assert_eq!(find("sh", Some("bin"), "/"), Ok("/bin/sh".into()));
        assert_eq!(find("sh", Some(""), "/bin"), Ok("/bin/sh".into()));
    }

    #[test]
    fn a_path_is_taken_from_the_working_directory() {
        assert_eq!(find("./sh", Some("/nowhere"), "/bin"), Ok("/bin/./sh".into()));
        assert_eq!(find("/bin/sh", None, "/nowhere"), Ok("/bin/sh".into()));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_refused_with_the_reason() {
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(find("no-such", Some("/bin"), "/"), refused("there is no program `no-such` in PATH"));
        assert_eq!(find("", Some("/bin"), "/"), refused("there is no program `` in PATH"));
        assert_eq!(find("./no-such", None, "/bin"), refused("there is no file /bin/./no-such"));
        assert_eq!(find("/etc/passwd", None, "/"), refused("`/etc/passwd` is not executable"));
        assert_eq!(find("passwd", Some("/etc"), "/"), refused("`/etc/passwd` is not executable"));
        assert_eq!(find("/etc", None, "/"), refused("`/etc` is not executable"));
    }
}
