//! Directories in which a caller below `control` may start a session.
//!
//! A directory decides what an agent does in it: `.claude/settings.json`, `.mcp.json` and `.codex/config.toml` name
//! commands that an agent runs without a question; `CLAUDE.md` and `AGENTS.md` are instructions. Whoever chooses the
//! directory chooses the code, and commands of one's own need `control`.
//!
//! Promise: a caller below `control` starts a run only in a directory that the config names (`send.directories`) or
//! below one, in exactly the directory of a session, or, for an agent, below its own session's directory. The
//! directory belongs to this account or to root, and so does every directory above it.
//! Not here: scopes (see the gateway), grants (see `caller`).
//! Start with [`Ctx::may_start_in`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use berth_api::{Code, Problem, Scope};
use berth_core::{Grant, SessionId};
use berth_keeper::view;

use crate::caller::grant_of;
use crate::config::Config;
use crate::ctx::Ctx;
use crate::listing;

/// The mode bit that lets every account create and rename files in a directory.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The mode bit that keeps accounts from renaming each other's files in a directory, as `/tmp` has it.
const STICKY: u32 = 0o1000;

impl Ctx {
    /// Refuses a directory for a new session, if the caller is below `control` and the owner did not choose it.
    pub fn may_start_in(&self, cwd: &Path) -> Result<(), Problem> {
        if !self.is_below_control() {
            return Ok(());
        }
        // A missing directory gets the same answer as one that is not listed: a token is no way to search the disk.
        let Ok(real) = cwd.canonicalize() else { return Err(self.not_listed(cwd)) };
        if !self.is_listed(&real)? {
            return Err(self.not_listed(cwd));
        }
        belongs_to_owner(&real)
    }

    /// Refuses the next run of a session for a caller below `control`, if its directory is not what it was: replaced
    /// by a link to another one, or owned by another account.
    pub fn may_start_again(&self, id: &SessionId) -> Result<(), Problem> {
        if !self.is_below_control() {
            return Ok(());
        }
        match view::history(&self.home, id)?.session.spec {
            Some(spec) => self.may_start_in(Path::new(&spec.cwd)),
            None => Ok(()),
        }
    }

    fn is_below_control(&self) -> bool {
        let is_weak = |agent: &SessionId| grant_of(&self.home, agent) < Grant::Control;
        self.scope < Scope::Control || self.unseen.is_some() || self.agents().any(is_weak)
    }

    fn agents(&self) -> impl Iterator<Item = &SessionId> {
        self.parent.iter().chain(&self.also)
    }

    fn is_listed(&self, real: &Path) -> Result<bool, Problem> {
        let config = Config::load()?;
        let is_below = |dir: &String| fs::canonicalize(dir).is_ok_and(|dir| real.starts_with(dir));
        if config.send.directories.iter().any(is_below) {
            return Ok(true);
        }
        let is_an_agents = |cwd: &Path, id: &SessionId| {
            self.scope >= Scope::Control && self.agents().any(|agent| agent == id) && real.starts_with(cwd)
        };
        let sessions = self.home.sessions();
        Ok(listing::ids(&Self { home: sessions.clone(), ..self.clone() })?.iter().any(|id| {
            let Ok(status) = view::status(&sessions, id) else { return false };
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
        Problem::new(Code::NotAllowed, what).hint(format!(
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
            Err(error) => format!("cannot be looked at: {error}"),
            Ok(meta) if meta.uid() != me && meta.uid() != 0 => {
                format!("belongs to another account (uid {})", meta.uid())
            }
            // In a sticky directory nobody renames what is ours, but everybody can add files beside it.
            Ok(meta) if meta.mode() & WRITABLE_BY_ALL != 0 && (above == 0 || meta.mode() & STICKY == 0) => {
                "can be written by every account".to_owned()
            }
            Ok(_) => continue,
        };
        let what = format!(
            "below `control` no session is started in {}: {} {why}, and what is in a directory decides what an agent runs",
            real.display().to_string().escape_debug(),
            dir.display().to_string().escape_debug()
        );
        return Err(Problem::new(Code::NotAllowed, what)
            .hint("use a directory that only you can write, or a token of the scope `control`"));
    }
    Ok(())
}
