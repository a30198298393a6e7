//! Directories in which a caller below `control` may start a session.
//!
//! A directory decides what an agent does in it: `.claude/settings.json`, `.mcp.json` and `.codex/config.toml` name
//! commands that an agent runs without asking; `CLAUDE.md` and `AGENTS.md` are instructions. A caller that chooses the
//! directory therefore chooses commands, and that needs `control`.
//!
//! Promise: a caller below `control` starts a run only in a directory that the config names (`send.directories`) or
//! below one, in exactly the directory of a session, or, for an agent, below its own session's directory. The
//! directory belongs to this account or to root, and so does every directory above it; only an agent's own directory
//! needs not, because the agent runs there already.
//! Not here: scopes (see the gateway), grants (see `caller`).
//! Start with [`VerbContext::may_start_in`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_api::{AccessScope, Problem};
use berth_core::{Grant, SessionId};
use berth_store::session_status;

use crate::caller::grant_of;
use crate::config::Config;
use crate::context::VerbContext;
use crate::listing;

/// The mode bit that lets every account create and rename files in a directory.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The mode bit that keeps accounts from renaming each other's files in a directory, as `/tmp` has it.
const STICKY: u32 = 0o1000;

impl VerbContext {
    /// Refuses a directory for a new session, if the caller is below `control` and the owner did not choose it.
    pub fn may_start_in(&self, cwd: &Path) -> Result<(), Problem> {
        if !self.is_below_control() {
            return Ok(());
        }
        // A missing directory gets the same answer as one that is not listed: a token must not be able to search the disk.
        let Ok(real) = cwd.canonicalize() else { return Err(self.not_listed(cwd)) };
        if self.is_agents_own(&real) {
            return Ok(());
        }
        if !self.is_listed(&real)? {
            return Err(self.not_listed(cwd));
        }
        belongs_to_owner(&real)
    }

    /// Refuses the next run of a session for a caller below `control` if its directory changed: replaced by a link to
    /// another one, or owned by another account.
    pub fn may_start_again(&self, id: &SessionId) -> Result<(), Problem> {
        if !self.is_below_control() {
            return Ok(());
        }
        let cwd = PathBuf::from(session_status::status(&self.home, id)?.what.cwd);
        // An unchanged directory is listed by the session itself, so no other session has to be read, however many
        // there are.
        match cwd.canonicalize() {
            Ok(real) if real == cwd && self.is_agents_own(&real) => Ok(()),
            Ok(real) if real == cwd => belongs_to_owner(&real),
            Ok(_) | Err(_) => self.may_start_in(&cwd),
        }
    }

    /// Directories to suggest for a new session: those that sessions have, as given, then what the config lists, then
    /// the home directory. Only those that exist, and that [`Self::may_start_in`] lets the caller use.
    pub fn suggested_directories(
        &self,
        of_sessions: Vec<PathBuf>,
        most: usize,
    ) -> Result<Vec<PathBuf>, Problem> {
        let is_below_control = self.is_below_control();
        let listed = Config::load()?.send.directories.into_iter().map(PathBuf::from);
        let home = std::env::home_dir().filter(|_| !is_below_control);
        let mut found: Vec<PathBuf> = Vec::new();
        for dir in of_sessions.into_iter().chain(listed).chain(home) {
            if found.len() >= most {
                break;
            }
            let Ok(real) = dir.canonicalize() else { continue };
            let is_usable = !is_below_control || belongs_to_owner(&real).is_ok();
            if real.is_dir() && is_usable && !found.contains(&real) {
                found.push(real);
            }
        }
        Ok(found)
    }

    fn is_below_control(&self) -> bool {
        let is_weak = |agent: &SessionId| grant_of(&self.home, agent) < Grant::Control;
        self.scope < AccessScope::Control || self.unseen.is_some() || self.agents().any(is_weak)
    }

    fn agents(&self) -> impl Iterator<Item = &SessionId> {
        self.parent.iter().chain(&self.also)
    }

    /// True if the calling agent itself works in exactly this directory: the agent runs there already, so other
    /// accounts' write access changes nothing.
    fn is_agents_own(&self, real: &Path) -> bool {
        let works_here = |id: &SessionId| {
            session_status::status(&self.home.sessions(), id).is_ok_and(|it| Path::new(&it.what.cwd) == real)
        };
        self.scope >= AccessScope::Control && self.unseen.is_none() && self.agents().any(works_here)
    }

    fn is_listed(&self, real: &Path) -> Result<bool, Problem> {
        let config = Config::load()?;
        let is_below = |dir: &String| fs::canonicalize(dir).is_ok_and(|dir| real.starts_with(dir));
        if config.send.directories.iter().any(is_below) {
            return Ok(true);
        }
        let is_an_agents = |cwd: &Path, id: &SessionId| {
            self.scope >= AccessScope::Control
                && self.agents().any(|agent| agent == id)
                && real.starts_with(cwd)
        };
        let sessions = self.home.sessions();
        Ok(listing::ids(&Self { home: sessions.clone(), ..self.clone() })?.iter().any(|id| {
            let Ok(status) = session_status::status(&sessions, id) else { return false };
            let cwd = Path::new(&status.what.cwd);
            cwd == real || is_an_agents(cwd, id)
        }))
    }

    fn not_listed(&self, cwd: &Path) -> Problem {
        let who = if self.parent.is_some() { "an agent below the grant" } else { "a token below the scope" };
        let more = if self.parent.is_some() { "--grant control" } else { "a token of the scope `control`" };
        let shown = cwd.display().to_string();
        let what = format!(
            "{who} `control` may not start a session in {}: its owner did not list that directory",
            shown.escape_debug()
        );
        Problem::not_allowed(what).hint(format!(
            "add it to `directories` under [send] in the config file (`berth config --explain send`), start a session \
             there yourself, or use {more}"
        ))
    }
}

/// Refuses a directory that another account owns, or could fill or replace. Everything up to `/` counts: the owner of
/// a directory above can put another one in its place. Group-writable directories pass, because many systems
/// give each account a group of its own and make everything writable by it.
fn belongs_to_owner(real: &Path) -> Result<(), Problem> {
    let me = rustix::process::geteuid().as_raw();
    for (above, dir) in real.ancestors().enumerate() {
        let why = match fs::symlink_metadata(dir) {
            Err(error) => format!("cannot be examined: {error}"),
            Ok(meta) if meta.uid() != me && meta.uid() != 0 => {
                format!("belongs to another account (uid {})", meta.uid())
            }
            // In a sticky directory other accounts cannot rename our files, but they can add files beside them.
            Ok(meta) if meta.mode() & WRITABLE_BY_ALL != 0 && (above == 0 || meta.mode() & STICKY == 0) => {
                "can be written by every account".to_owned()
            }
            Ok(_) => continue,
        };
        let what = format!(
            "a caller below `control` may not start a session in {}: {} {why}, and the files in a directory decide what an agent runs",
            real.display().to_string().escape_debug(),
            dir.display().to_string().escape_debug()
        );
        return Err(Problem::not_allowed(what)
            .hint("use a directory that only you can write, or a token of the scope `control`"));
    }
    Ok(())
}
