//! What every request shares: where the sessions are, and nothing that has to outlive the process.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;

use crate::fault::Fault;
use crate::fleet::Fleet;
use crate::follow::Followers;
use crate::live::hub::Hub;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The state directory.
    pub(crate) home: Home,
    /// The connections to other hosts.
    pub(crate) fleet: Arc<Fleet>,
    /// Who reads along with whom.
    pub(crate) live: Arc<Hub>,
    /// Who waits for what becomes of a session.
    pub(crate) followers: Followers,
}

impl Gate {
    /// A gate to the sessions in this state directory.
    pub(crate) fn new(home: Home) -> Arc<Self> {
        let live = Arc::new(Hub::new(home.clone()));
        Arc::new(Self { home, fleet: Arc::default(), live, followers: Followers::default() })
    }
}

/// Runs a verb: verbs wait for keepers and disks, and must not hold up other requests.
pub(crate) async fn work<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(verb).await {
        Ok(done) => done.map_err(Fault::from),
        Err(error) => Err(Problem::new(Code::Bug, format!("a verb failed: {error}")).into()),
    }
}
