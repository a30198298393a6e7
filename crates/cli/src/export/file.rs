//! Writes an export: to a file that appears complete or not at all, or to standard output.
//!
//! Promise: an existing file is not touched without force. An unfinished file leaves nothing behind, even if the writer
//! is killed, on file systems with unnamed files.
//! Start with [`ExportTarget::open`].

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat_with};

use crate::print;

/// A destination that is being written to.
#[derive(Debug)]
pub(crate) struct ExportTarget {
    place: ExportOutput,
    /// The path of the file, for messages; none for standard output.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug)]
enum ExportOutput {
    Stdout,
    /// A device or a pipe: nothing to be atomic about.
    Stream(BufWriter<File>),
    New {
        file: BufWriter<File>,
        /// The temporary name until the file is finished; none if the file system has unnamed files.
        temporary: Option<PathBuf>,
        path: PathBuf,
        force: bool,
    },
}

impl ExportTarget {
    /// `-`, a file, or a directory in which the file is called `name`.
    pub(crate) fn open(output: &Path, name: &str, force: bool) -> Result<Self, Problem> {
        if output == Path::new("-") {
            return Ok(Self { place: ExportOutput::Stdout, path: None });
        }
        let is_dir = output.as_os_str().as_encoded_bytes().ends_with(b"/") || output.is_dir();
        let path = if is_dir { output.join(name) } else { output.to_path_buf() };
        let wrong = |error: io::Error| cannot("write", &path, &error);
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => return Err(wrong(io::ErrorKind::IsADirectory.into())),
            Ok(there) if !there.is_file() => {
                let file = File::options().write(true).open(&path).map_err(wrong)?;
                return Ok(Self { place: ExportOutput::Stream(BufWriter::new(file)), path: Some(path) });
            }
            Ok(_) if !force => return Err(exists(&path)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(wrong(error)),
        }
        let (file, temporary) = begin(&path).map_err(wrong)?;
        let place = ExportOutput::New { file: BufWriter::new(file), temporary, path: path.clone(), force };
        Ok(Self { place, path: Some(path) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let path = self.path.clone().unwrap_or_default();
        match &mut self.place {
            ExportOutput::Stdout => print::raw(bytes),
            ExportOutput::Stream(file) | ExportOutput::New { file, .. } => {
                file.write_all(bytes).map_err(|error| cannot("write", &path, &error))
            }
        }
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        let path = self.path.clone().unwrap_or_default();
        let wrong = |error: io::Error| cannot("write", &path, &error);
        match &mut self.place {
            ExportOutput::Stdout => Ok(()),
            ExportOutput::Stream(file) => file.flush().map_err(wrong),
            ExportOutput::New { file, temporary, path: name, force } => {
                file.flush().and_then(|()| file.get_ref().sync_all()).map_err(wrong)?;
                let named = publish(file.get_ref(), temporary, name, *force);
                named.map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => exists(name),
                    _ => cannot("write", name, &error),
                })
            }
        }
    }
}

impl Drop for ExportTarget {
    fn drop(&mut self) {
        if let ExportOutput::New { temporary: Some(temporary), .. } = &self.place {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file in the same directory, without a name if possible.
fn begin(path: &Path) -> io::Result<(File, Option<PathBuf>)> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        Some(_) | None => Path::new("."),
    };
    // Only the owner may read an export, in any directory.
    let mode = Mode::from_raw_mode(0o600);
    match openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => return Ok((File::from(file), None)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let temporary = temporary_path(path);
    let file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    Ok((file, Some(temporary)))
}

fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn publish(file: &File, temporary: &mut Option<PathBuf>, path: &Path, force: bool) -> io::Result<()> {
    let link = |to: &Path| {
        let ours = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, ours, CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
    };
    match (temporary.take(), force) {
        (None, false) => link(path),
        (None, true) => {
            // A link cannot replace an existing file in one step, but a rename can.
            let named = temporary.insert(temporary_path(path)).clone();
            link(&named)?;
            fs::rename(&named, path)?;
            *temporary = None;
            Ok(())
        }
        (Some(named), force) => {
            let flags = if force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            let moved = renameat_with(CWD, &named, CWD, path, flags).map_err(io::Error::from);
            if moved.is_err() {
                *temporary = Some(named);
            }
            moved
        }
    }
}

fn exists(path: &Path) -> Problem {
    Problem::refused(format!("{} exists already; nothing was written", path.display()))
        .hint("`--force` overwrites it; `-o` names another one")
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::refused(format!("cannot {what} {}: {error}", path.display()))
        .hint("name another file with `-o FILE`, or `-o -` for standard output")
}
