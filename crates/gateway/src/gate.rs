//! What every request shares: where the sessions are, and nothing that has to outlive the process.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;
use tokio_util::sync::CancellationToken;

use crate::auth::Door;
use crate::fault::Fault;
use crate::fleet::Fleet;
use crate::follow::Followers;
use crate::known::Known;
use crate::live::hub::Hub;
use crate::metrics::Metrics;
use crate::server::Options;
use crate::trace;

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
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the gateway is told to end. What lasts listens to it; streams of events end by themselves.
    pub(crate) ending: CancellationToken,
    /// What was wanted of this gateway.
    pub(crate) options: Options,
}

impl Gate {
    /// What requests to this state directory share.
    pub(crate) fn new(home: Home, options: Options, metrics: Arc<Metrics>) -> Result<Arc<Self>, Problem> {
        let door = Door::new(&home, &options.addresses(), &options.allow_hosts)?;
        let live = Arc::new(Hub::new(home.clone()));
        Ok(Arc::new(Self {
            home,
            door,
            known: Known::default(),
            fleet: Arc::default(),
            live,
            followers: Followers::default(),
            metrics,
            ending: CancellationToken::new(),
            options,
        }))
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
    let trace = trace::current();
    match tokio::task::spawn_blocking(move || berth_api::trace::within(trace, verb)).await {
        Ok(done) => done.map_err(Fault::from),
        Err(error) => Err(Problem::new(Code::Bug, format!("a verb failed: {error}")).into()),
    }
}
