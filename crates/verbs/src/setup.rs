//! Setting agents up: the hooks of those that people start by hand.
//!
//! Promise: a [`Plan`] is made before anything is changed, and says all of it. What a person wrote stays byte for
//! byte; what was planned a second time changes nothing; what is taken away leaves every file of theirs as it
//! was. What cannot be understood is refused, untouched.
//! Not here: what the hooks do (see [`crate::hook`]), showing it and asking (the CLI).
//! Start with [`claude`] and [`codex`].

mod change;
mod claude;
mod codex;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_keeper::carried;

pub use change::Change;
pub use claude::claude;
pub use codex::codex;

/// A file larger than this was not written by a person.
const MAX_BYTES: u64 = 4 << 20;

/// What would be changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// File by file.
    pub changes: Vec<Change>,
    /// What it is for, and where it is, in two lines; empty if nothing changes.
    pub summary: Vec<String>,
    /// What to know about it.
    pub notes: Vec<String>,
    /// Nothing of berth's was there.
    pub is_new: bool,
}

impl Plan {
    /// Whether everything is as it should be.
    pub fn is_done(&self) -> bool {
        self.changes.is_empty()
    }

    /// Makes the link by which hooks call berth. `root` is the state directory.
    pub fn link(root: &Path) -> Result<(), Problem> {
        carried::link(root, true).map_err(|error| {
            let link = carried::link_path(root);
            Problem::new(Code::Refused, format!("cannot make the link {}: {error}", link.display()))
                .hint("mend that, then try again; nothing was set up")
        })
    }

    /// Does it, one file after the other.
    pub fn carry_out(&self) -> Result<(), Problem> {
        self.changes.iter().try_for_each(Change::make)
    }

    fn change(&mut self, change: Change) {
        if change.before != change.after {
            self.changes.push(change);
        }
    }
}

/// Where an agent keeps its things.
fn config_dir(variable: &str, otherwise: &str) -> Result<PathBuf, Problem> {
    let set = |name: &str| {
        let value: Option<OsString> = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    set(variable).or_else(|| Some(set("HOME")?.join(otherwise))).ok_or_else(|| {
        Problem::new(Code::Refused, format!("neither {variable} nor HOME is set to an absolute path"))
            .hint("set HOME")
    })
}

/// The text of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, Problem> {
    let refused = |why: String| {
        Problem::new(Code::Refused, format!("cannot use {}: {why}; nothing was changed", path.display()))
            .hint("mend or move it, then try again")
    };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(refused("it is not a file".to_owned())),
        Ok(found) if found.len() > MAX_BYTES => return Err(refused("it is too large".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // A link that leads nowhere would be replaced by a file.
            if path.is_symlink() {
                return Err(refused("it is a link to a file that is not there".to_owned()));
            }
            return Ok(None);
        }
        Err(error) => return Err(refused(error.to_string())),
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| refused(error.to_string()))
}
