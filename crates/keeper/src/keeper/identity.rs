//! The identity of a keeper: its process, its session, and the files of that session.
//!
//! Not here: everything that changes while the keeper runs.
//! Start with [`KeeperIdentity`].

use std::path::Path;

use berth_core::{Actor, Epoch, SessionId};
use berth_host::identity::ProcessIdentity;
use berth_store::SessionFiles;
use berth_store::state_dir::StateDir;

use berth_procs::attribution::{MARK, environment_mark};

/// The session that this process keeps, and the process itself. Constant while the keeper runs.
#[derive(Debug)]
pub(super) struct KeeperIdentity {
    files: SessionFiles,
    process: ProcessIdentity,
}

impl KeeperIdentity {
    pub(super) fn new(files: SessionFiles, process: ProcessIdentity) -> Self {
        Self { files, process }
    }

    pub(super) fn session(&self) -> &SessionId {
        self.files.id()
    }

    /// The files of the session.
    pub(super) fn files(&self) -> &SessionFiles {
        &self.files
    }

    pub(super) fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The state directory.
    pub(super) fn root(&self) -> &Path {
        self.files.root()
    }

    /// The state directory, with its sessions or its helpers.
    pub(super) fn home(&self) -> StateDir {
        self.files.home()
    }

    /// True for a helper, even if its record does not say which sessions own it.
    pub(super) fn is_helper(&self) -> bool {
        self.files.is_helper()
    }

    /// The keeper as the author of an order. `place` gives the reason of the order.
    pub(super) fn as_actor(&self, place: impl Into<String>) -> Actor {
        Actor { pid: self.process.pid, uid: None, place: place.into() }
    }

    /// The variables that a run inherits: the session it is part of, and the state directory.
    pub(super) fn variables(&self, epoch: Epoch) -> Vec<(&'static str, String)> {
        let whose = if self.is_helper() { "BERTH_HELPER" } else { "BERTH_SESSION" };
        let mark = (MARK, environment_mark(self.session(), epoch));
        let mut variables = vec![(whose, self.session().to_string()), mark];
        // A hook may run with another HOME, and has to find the same sessions all the same.
        variables.extend(self.root().to_str().map(|root| ("BERTH_HOME", root.to_owned())));
        variables
    }
}
