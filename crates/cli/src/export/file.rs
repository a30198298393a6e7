//! Where something is written to: a file that is there as a whole or not at all, or standard output.
//!
//! Promise: a file that is there is not touched without force; one that is not finished leaves nothing behind, also
//! when its writer is killed, where the file system can do that.
//! Start with [`Target::open`].

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat_with};

use crate::print;

/// What is being written to.
#[derive(Debug)]
pub(crate) struct Target {
    place: Place,
    /// For people.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// A device or a pipe: nothing to be atomic about.
    Stream(BufWriter<File>),
    New {
        file: BufWriter<File>,
        /// The name it has until it is finished; none if the file system knows files without names.
        temporary: Option<PathBuf>,
        path: PathBuf,
        force: bool,
    },
}

impl Target {
    /// `-`, a file, or a directory in which the file is called `name`.
    pub(crate) fn open(output: &Path, name: &str, force: bool) -> Result<Self, Problem> {
        if output == Path::new("-") {
            return Ok(Self { place: Place::Stdout, path: None });
        }
        let is_dir = output.as_os_str().as_encoded_bytes().ends_with(b"/") || output.is_dir();
        let path = if is_dir { output.join(name) } else { output.to_path_buf() };
        let wrong = |error: io::Error| cannot("write", &path, &error);
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => return Err(wrong(io::ErrorKind::IsADirectory.into())),
            Ok(there) if !there.is_file() => {
                let file = File::options().write(true).open(&path).map_err(wrong)?;
                return Ok(Self { place: Place::Stream(BufWriter::new(file)), path: Some(path) });
            }
            Ok(_) if !force => return Err(exists(&path)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(wrong(error)),
        }
        let (file, temporary) = begin(&path).map_err(wrong)?;
        let place = Place::New { file: BufWriter::new(file), temporary, path: path.clone(), force };
        Ok(Self { place, path: Some(path) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let path = self.path.clone().unwrap_or_default();
        match &mut self.place {
            Place::Stdout => print::raw(bytes),
            Place::Stream(file) | Place::New { file, .. } => {
                file.write_all(bytes).map_err(|error| cannot("write", &path, &error))
            }
        }
    }

    /// Everything was written: the file gets its name.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        let path = self.path.clone().unwrap_or_default();
        let wrong = |error: io::Error| cannot("write", &path, &error);
        match &mut self.place {
            Place::Stdout => Ok(()),
            Place::Stream(file) => file.flush().map_err(wrong),
            Place::New { file, temporary, path: name, force } => {
                file.flush().and_then(|()| file.get_ref().sync_all()).map_err(wrong)?;
                let named = give_name(file.get_ref(), temporary, name, *force);
                named.map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => exists(name),
                    _ => cannot("write", name, &error),
                })
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Place::New { temporary: Some(temporary), .. } = &self.place {
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
    // Only the owner may read an export, wherever the file is put.
    let mode = Mode::from_raw_mode(0o600);
    match openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => return Ok((File::from(file), None)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let temporary = beside(path);
    let file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    Ok((file, Some(temporary)))
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn give_name(file: &File, temporary: &mut Option<PathBuf>, path: &Path, force: bool) -> io::Result<()> {
    let link = |to: &Path| {
        let ours = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, ours, CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
    };
    match (temporary.take(), force) {
        (None, false) => link(path),
        (None, true) => {
            // A name cannot be given to a file and taken from another one in one step, but it can be moved.
            let named = temporary.insert(beside(path)).clone();
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
    Problem::new(Code::Refused, format!("{} is there already; nothing was written", path.display()))
        .hint("`--force` overwrites it; `-o` names another one")
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot {what} {}: {error}", path.display()))
        .hint("name another file with `-o FILE`, or `-o -` for standard output")
}
