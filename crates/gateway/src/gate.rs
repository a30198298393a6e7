//! What every request shares: where the sessions are, and nothing that has to outlive the process.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;

use crate::auth::Door;
use crate::fault::Fault;
use crate::fleet::Fleet;
use crate::follow::Followers;
use crate::known::Known;
use crate::live::hub::Hub;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The state directory.
    pub(crate) home: Home,
    /// Who is let in.
    pub(crate) door: Door,
    /// Sessions that were looked at a moment ago.
    pub(crate) known: Known,
    /// The connections to other hosts.
    pub(crate) fleet: Arc<Fleet>,
    /// Who reads along with whom.
    pub(crate) live: Arc<Hub>,
    /// Who waits for what becomes of a session.
    pub(crate) followers: Followers,
}

impl Gate {
    /// What requests to this state directory share.
    pub(crate) fn new(home: Home, door: Door) -> Arc<Self> {
        let live = Arc::new(Hub::new(home.clone()));
        Arc::new(Self {
            home,
            door,
            known: Known::default(),
            fleet: Arc::default(),
            live,
            followers: Followers::default(),
        })
    }
}

/// Takes note of the end of keepers that this gateway started, for as long as it lives.
pub(crate) async fn reap_keepers() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    loop {
        berth_keeper::start::reap();
        if ended.recv().await.is_none() {
            return;
        }
    }
}

/// What went wrong with a verb, but if the sessions cannot be read at all, that.
pub(crate) fn or_no_store(home: &Home, problem: Problem) -> Problem {
    match std::fs::read_dir(home.sessions_dir()) {
        Ok(_) => problem,
        Err(error) => {
            let what = format!("the sessions in {} cannot be read: {error}", home.sessions_dir().display());
            Problem::new(Code::Unreachable, what)
                .hint("nothing was started or changed; `berth doctor` tells more")
        }
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
