//! Setup of agents: hooks for agents that users start by hand.
//!
//! Promise: a [`SetupPlan`] is complete before anything is changed. The user's own text stays byte for byte; a second setup
//! changes nothing; a removal restores the user's files as they were. A file that cannot be understood is refused and
//! not touched.
//! Not here: the reaction to hooks (see [`crate::hook`]), display and confirmation (the CLI).
//! Start with [`claude`] and [`codex`].

mod change;
mod claude;
mod codex;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_conversations::injected_hooks;

pub use change::FileEdit;
pub use claude::claude;
pub use codex::codex;

/// Limit for the size of a file. A larger one was not written by a person.
const MAX_BYTES: u64 = 4 << 20;

/// Changes that a setup or a removal would make.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetupPlan {
    /// Changes, file by file.
    pub changes: Vec<FileEdit>,
    /// Purpose and place of the changes, in two lines; empty without changes.
    pub summary: Vec<String>,
    /// Hints for the user.
    pub notes: Vec<String>,
    /// True if no hooks of berth were installed before.
    pub is_new: bool,
}

impl SetupPlan {
    /// True if nothing has to be changed.
    pub fn is_done(&self) -> bool {
        self.changes.is_empty()
    }

    /// Creates the link by which hooks call berth. `root` is the state directory.
    pub fn link(root: &Path) -> Result<(), Problem> {
        injected_hooks::link_hook_program(root, true).map_err(|error| {
            let link = injected_hooks::hook_link_path(root);
            Problem::refused(format!("cannot create the link {}: {error}", link.display()))
                .hint("fix that, then try again; nothing was set up")
        })
    }

    /// Makes the changes, one file after the other.
    pub fn carry_out(&self) -> Result<(), Problem> {
        self.changes.iter().try_for_each(FileEdit::make)
    }

    fn change(&mut self, change: FileEdit) {
        if change.before != change.after {
            self.changes.push(change);
        }
    }
}

/// The config directory of an agent.
fn config_dir(variable: &str, otherwise: &str) -> Result<PathBuf, Problem> {
    let set = |name: &str| {
        let value: Option<OsString> = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    set(variable).or_else(|| Some(set("HOME")?.join(otherwise))).ok_or_else(|| {
        Problem::refused(format!("neither {variable} nor HOME is set to an absolute path"))
            .hint("set HOME to your home directory")
    })
}

/// The text of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, Problem> {
    let refused = |why: String| {
        Problem::refused(format!("cannot use {}: {why}; nothing was changed", path.display()))
            .hint("fix or move it, then try again")
    };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(refused("it is not a file".to_owned())),
        Ok(found) if found.len() > MAX_BYTES => return Err(refused("it is too large".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // A broken link would be replaced by a file.
            if path.is_symlink() {
                return Err(refused("it is a link to a missing file".to_owned()));
            }
            return Ok(None);
        }
        Err(error) => return Err(refused(error.to_string())),
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| refused(error.to_string()))
}
