//! Change of one file: its text before and after.
//!
//! Promise: the file is written whole or not at all; it keeps its mode and its owner; a link stays a link. A file that
//! changed since it was read is not overwritten.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use berth_api::Problem;

/// Mode of a new file: only its owner may read it.
const NEW_MODE: u32 = 0o600;

/// Change of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileEdit {
    /// Path of the file.
    pub path: PathBuf,
    /// Text before the change; `None` if the file does not exist.
    pub before: Option<String>,
    /// Text after the change; `None` if the file is to be removed.
    pub after: Option<String>,
    /// The agent's own directory. It stays, and so does every directory above it.
    pub agent_dir: PathBuf,
}

impl FileEdit {
    /// The change as a unified diff.
    pub fn diff(&self) -> String {
        let lines = |text: &Option<String>| -> Vec<String> {
            text.as_deref().unwrap_or_default().lines().map(str::to_owned).collect()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let same = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
        let rest = before[same..].iter().rev().zip(after[same..].iter().rev());
        let same_end = rest.take_while(|(one, other)| one == other).count();
        let name = |text: &Option<String>| match text {
            Some(_) => self.path.display().to_string(),
            None => "/dev/null".to_owned(),
        };
        let gone = &before[same..before.len() - same_end];
        let new = &after[same..after.len() - same_end];
        let mut text = format!("--- {}\n+++ {}\n", name(&self.before), name(&self.after));
        // A range without lines is named by the line before it, 0 in an empty file.
        let first = |lines: &[String]| if lines.is_empty() { same } else { same + 1 };
        let (gone_from, new_from) = (first(gone), first(new));
        text.push_str(&format!("@@ -{gone_from},{} +{new_from},{} @@\n", gone.len(), new.len()));
        gone.iter().for_each(|line| text.push_str(&format!("-{line}\n")));
        new.iter().for_each(|line| text.push_str(&format!("+{line}\n")));
        text
    }

    /// Makes the change.
    pub(super) fn make(&self) -> Result<(), Problem> {
        self.is_as_it_was()?;
        let cannot = |error: io::Error| {
            Problem::refused(format!("cannot change {}: {error}", self.path.display()))
                .hint("--dry-run prints the change, to make it by hand")
        };
        match &self.after {
            Some(text) => {
                let written = StagedFile::beside(&self.path, text).map_err(cannot)?;
                // Writing takes a while, and the agent may save its settings meanwhile.
                self.is_as_it_was()?;
                written.put_in_place().map_err(cannot)?;
            }
            None => fs::remove_file(&self.path).map_err(cannot)?,
        }
        if self.after.is_none() {
            // Directories that were made for the file; none is removed while it contains something.
            let is_below = |dir: &&Path| dir.starts_with(&self.agent_dir) && *dir != self.agent_dir;
            for dir in self.path.ancestors().skip(1).take_while(is_below) {
                if fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_as_it_was(&self) -> Result<(), Problem> {
        if super::read(&self.path)? == self.before {
            return Ok(());
        }
        let what = format!("{} changed meanwhile, so berth left it alone", self.path.display());
        Err(Problem::refused(what).hint("try again"))
    }
}

/// New text of a file, written beside it. The temporary file is removed if it is not put in place.
struct StagedFile {
    temporary: PathBuf,
    path: PathBuf,
}

impl StagedFile {
    fn beside(path: &Path, text: &str) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        // The target of a link: the user keeps the settings elsewhere, and the link stays.
        let path = if path.exists() { path.canonicalize()? } else { path.to_owned() };
        let found = fs::metadata(&path).ok();
        let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        let temporary = dir.join(format!(".{name}.berth-{}", std::process::id()));
        let mut options = fs::File::options();
        let mut file = options.write(true).create_new(true).mode(NEW_MODE).open(&temporary)?;
        let written = Self { temporary, path };
        file.write_all(text.as_bytes())?;
        if let Some(found) = &found {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
                chown(&written.temporary, Some(found.uid()), Some(found.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o7777))?;
        }
        file.sync_all()?;
        Ok(written)
    }

    fn put_in_place(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use berth_harness::TestDir;

    use super::*;

    #[test]
    fn a_text_that_is_not_put_in_place_leaves_no_file() {
        let dir = TestDir::new();
        let path = dir.join("config.toml");
        fs::write(&path, "theirs").unwrap();
        drop(StagedFile::beside(&path, "ours").unwrap());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn a_diff_of_a_file_that_comes_or_goes_names_line_0_of_the_missing_one() {
        let diff = |before: Option<&str>, after: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let (path, agent_dir) = (PathBuf::from("/a/f"), PathBuf::from("/a"));
            FileEdit { path, before: text(before), after: text(after), agent_dir }.diff()
        };
        assert!(diff(None, Some("x\ny\n")).contains("@@ -0,0 +1,2 @@"));
        assert!(diff(Some("x\ny\n"), None).contains("@@ -1,2 +0,0 @@"));
        assert!(diff(Some("x\n"), Some("x\ny\n")).contains("@@ -1,0 +2,1 @@"));
        assert!(diff(Some("x\n"), Some("y\n")).contains("@@ -1,1 +1,1 @@"));
    }

    #[test]
    fn directories_go_up_to_the_agents_own_and_no_further() {
        let dir = TestDir::new();
        let agent_dir = dir.join("agent");
        let path = agent_dir.join("skills/berth/hooks/hooks.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        let change =
            FileEdit { path, before: Some("x".to_owned()), after: None, agent_dir: agent_dir.clone() };
        change.make().unwrap();
        assert_eq!(fs::read_dir(&agent_dir).unwrap().count(), 0, "it is there, and empty");
    }
}
