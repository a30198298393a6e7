//! What a keeper is and what it keeps: its process, its session, and the directory of that session.

use std::path::{Path, PathBuf};

use berth_core::{Actor, Epoch, SessionId};
use berth_host::identity::Identity;
use berth_store::home::Home;

use crate::recover;

/// The session that this process keeps, and the process itself. Nothing of it changes while the keeper runs.
#[derive(Debug)]
pub(super) struct KeeperIdentity {
    session: SessionId,
    dir: PathBuf,
    process: Identity,
}

impl KeeperIdentity {
    pub(super) fn new(session: SessionId, dir: PathBuf, process: Identity) -> Self {
        Self { session, dir, process }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The session's directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn process(&self) -> &Identity {
        &self.process
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The folder of the session's output files.
    pub(super) fn output_dir(&self) -> PathBuf {
        self.dir.join("output")
    }

    /// The state directory.
    pub(super) fn root(&self) -> &Path {
        let root = self.dir.parent().and_then(Path::parent);
        root.expect("a session lives two steps below the state directory")
    }

    /// The state directory, with its sessions or its helpers.
    pub(super) fn home(&self) -> Option<Home> {
        Home::around(&self.dir)
    }

    /// True for a helper, also if its record does not say which sessions own it.
    pub(super) fn is_helper(&self) -> bool {
        self.dir.parent().and_then(Path::file_name).is_some_and(|name| name == "helpers")
    }

    /// The keeper as the author of an order. `place` says why it orders that.
    pub(super) fn as_actor(&self, place: impl Into<String>) -> Actor {
        Actor { pid: self.process.pid, uid: None, place: place.into() }
    }

    /// The variables that a run inherits: the session it is part of, and the state directory.
    pub(super) fn variables(&self, epoch: Epoch) -> Vec<(&'static str, String)> {
        let whose = if self.is_helper() { "BERTH_HELPER" } else { "BERTH_SESSION" };
        let mark = (recover::MARK, recover::mark(&self.session, epoch));
        let mut variables = vec![(whose, self.session.to_string()), mark];
        // A hook may run with another HOME, and has to find the same sessions all the same.
        variables.extend(self.root().to_str().map(|root| ("BERTH_HOME", root.to_owned())));
        variables
    }
}
