//! State that all requests share: the state directory, caches and counters. None of it has to outlive the process.

use std::sync::Arc;

use berth_api::Problem;
use berth_store::{StateDir, killpoint};
use tokio_util::sync::CancellationToken;

use crate::auth::{AccessControl, trusted_proxies::TrustedProxies};
use crate::http::{
    agents::AgentCache, agents::known_agents, diagnostics::ChangedFilesCache, diagnostics::DoctorCache,
    diagnostics::examined, diagnostics::known_changes,
};
use crate::http_problem::HttpProblem;
use crate::live::{hub::FeedHub, terminal_limits::TerminalLimits};
use crate::metrics::GatewayMetrics;
use crate::quota::RequestQuotas;
use crate::remote_hosts::RemoteHosts;
use crate::server::{ServeOptions, connection_limit};
use crate::session_monitor::SessionMonitors;
use crate::trace;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct AppState {
    /// The state directory.
    pub(crate) home: StateDir,
    /// Authentication of requests.
    pub(crate) access: AccessControl,
    /// Cache of the agents of this host.
    pub(crate) agents: AgentCache,
    /// Cache of the report about this host.
    pub(crate) examined: DoctorCache,
    /// Cache of the changed files of directories.
    pub(crate) changes: ChangedFilesCache,
    /// The connections to other hosts.
    pub(crate) fleet: Arc<RemoteHosts>,
    /// Event streams, and their readers.
    pub(crate) live: Arc<FeedHub>,
    /// Number of requests that each caller has under way.
    pub(crate) quotas: Arc<RequestQuotas>,
    /// Number of open terminals, and their owners.
    pub(crate) terminals: TerminalLimits,
    /// Requests that wait for a session.
    pub(crate) followers: SessionMonitors,
    pub(crate) metrics: Arc<GatewayMetrics>,
    /// Cancelled when the gateway shuts down. Terminals and other long requests listen to it; event streams end by
    /// themselves.
    pub(crate) ending: CancellationToken,
    /// Settings of this gateway.
    pub(crate) options: ServeOptions,
}

impl AppState {
    /// Makes the state that requests for this state directory share.
    pub(crate) fn new(
        home: StateDir,
        options: ServeOptions,
        metrics: Arc<GatewayMetrics>,
    ) -> Result<Arc<Self>, Problem> {
        let proxies = TrustedProxies::parse(&options.trusted_proxies)?;
        let access = AccessControl::new(&home, &options.addresses(), &options.allow_hosts, proxies)?;
        let live = Arc::new(FeedHub::new(home.clone()));
        Ok(Arc::new(Self {
            home,
            access,
            agents: known_agents(),
            examined: examined(),
            changes: known_changes(),
            fleet: Arc::default(),
            live,
            quotas: RequestQuotas::new(connection_limit()),
            terminals: TerminalLimits::default(),
            followers: SessionMonitors::default(),
            metrics,
            ending: CancellationToken::new(),
            options,
        }))
    }
}

/// The error of a verb; if the sessions cannot be read at all, that error instead.
pub(crate) fn or_store_unreadable(home: &StateDir, problem: Problem) -> Problem {
    match home.check_readable() {
        Ok(()) => problem,
        Err(error) => {
            let what = format!("the sessions in {} cannot be read: {error}", home.display());
            Problem::unreachable(what).hint("nothing was started or changed; run `berth doctor` for details")
        }
    }
}

/// Runs a verb in another thread, because verbs wait for keepers and disks and must not delay other requests.
pub(crate) async fn run_blocking<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, HttpProblem> {
    let trace = trace::current();
    let verb = move || {
        killpoint::reached("gateway-verb");
        berth_api::trace::with_trace(trace, verb)
    };
    match tokio::task::spawn_blocking(verb).await {
        Ok(done) => done.map_err(HttpProblem::from),
        // The panic message is on standard error only: it may contain data of other callers.
        Err(error) => {
            let how = if error.is_panic() { "failed during" } else { "shut down before" };
            Err(Problem::bug(format!("the gateway {how} this request"))
                .hint("this is a bug in berth: please report it, with the request that caused it")
                .into())
        }
    }
}
