//! What every request shares: where the sessions are, and nothing that has to outlive the process.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_store::{Home, killpoint};
use tokio_util::sync::CancellationToken;

use crate::auth::{Doorkeeper, proxies::Proxies};
use crate::fault::Fault;
use crate::fleet::Fleet;
use crate::follow::Followers;
use crate::http::{
    agents::KnownAgents, agents::known_agents, look::Examined, look::KnownChanges, look::examined,
    look::known_changes,
};
use crate::live::{hub::Hub, terminals::Terminals};
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::server::{Options, connection_limit};
use crate::trace;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The state directory.
    pub(crate) home: Home,
    /// Who is let in.
    pub(crate) door: Doorkeeper,
    /// The agents of this host, as they were a moment ago.
    pub(crate) agents: KnownAgents,
    /// This host, as it was a moment ago.
    pub(crate) examined: Examined,
    /// The changed files of a directory, as they were a moment ago.
    pub(crate) changes: KnownChanges,
    /// The connections to other hosts.
    pub(crate) fleet: Arc<Fleet>,
    /// Who reads along with whom.
    pub(crate) live: Arc<Hub>,
    /// How much each caller has under way.
    pub(crate) quotas: Arc<Quotas>,
    /// Who has a terminal open.
    pub(crate) terminals: Terminals,
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
        let proxies = Proxies::parse(&options.trusted_proxies)?;
        let door = Doorkeeper::new(&home, &options.addresses(), &options.allow_hosts, proxies)?;
        let live = Arc::new(Hub::new(home.clone()));
        Ok(Arc::new(Self {
            home,
            door,
            agents: known_agents(),
            examined: examined(),
            changes: known_changes(),
            fleet: Arc::default(),
            live,
            quotas: Quotas::new(connection_limit()),
            terminals: Terminals::default(),
            followers: Followers::default(),
            metrics,
            ending: CancellationToken::new(),
            options,
        }))
    }
}

/// What went wrong with a verb, but if the sessions cannot be read at all, that.
pub(crate) fn or_no_store(home: &Home, problem: Problem) -> Problem {
    match home.check_readable() {
        Ok(()) => problem,
        Err(error) => {
            let what = format!("the sessions in {} cannot be read: {error}", home.display());
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
    let verb = move || {
        killpoint::reached("gateway-verb");
        berth_api::trace::within(trace, verb)
    };
    match tokio::task::spawn_blocking(verb).await {
        Ok(done) => done.map_err(Fault::from),
        // Why is on standard error, where the panic told it; it may be about what is nobody else's business.
        Err(error) => {
            let how = if error.is_panic() { "made a mistake with" } else { "ended before" };
            Err(Problem::new(Code::Bug, format!("the gateway {how} this request"))
                .hint("tell the people who make berth what you asked for")
                .into())
        }
    }
}
